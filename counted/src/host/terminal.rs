// SPDX-License-Identifier: GPL-2.0

//! The user's terminal.

use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg, Termios};
use std::io::{self, IsTerminal as _};
use terminal_size::{terminal_size, Height, Width};

use crate::talk::Size;

/// The size of the terminal, or a usual one if it has none.
pub fn size() -> Size {
    let (Width(columns), Height(rows)) = terminal_size().unwrap_or((Width(80), Height(24)));
    Size { rows, columns }
}

/// Whether all standard streams are a terminal.
pub fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// The terminal of this process, which passes all keys on to the guest until this is dropped.
pub struct RawTerminal(Termios);

impl RawTerminal {
    /// `None` if that cannot be.
    pub fn new() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.0);
    }
}
