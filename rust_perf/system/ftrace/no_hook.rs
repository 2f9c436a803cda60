// SPDX-License-Identifier: GPL-2.0

//! No hooks of functions.

use super::Handler;
use kernel::prelude::*;

/// Has a [`Handler`] that would be called.
#[pin_data]
pub struct Hook<H: Handler> {
    _handler: H,
}

impl<H: Handler> Hook<H> {
    /// Fails with `ENOTSUPP`.
    pub fn register(_addresses: &[usize], _handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _handler: Err::<H, Error>(ENOTSUPP)?,
        }? Error)
    }
}
