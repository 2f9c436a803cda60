// SPDX-License-Identifier: GPL-2.0

//! Arguments of QEMU that all guests have.

use std::path::Path;

/// No devices but those that are asked for, and no window. A guest that reboots ends.
pub const BARE: [&str; 6] = [
    "-nodefaults",
    "-no-reboot",
    "-display",
    "none",
    "-nic",
    "none",
];

/// The arguments for the [monitor](crate::monitor), whose socket QEMU makes at this path.
pub fn monitor(socket: &Path) -> [String; 4] {
    [
        "-chardev".to_owned(),
        format!(
            "socket,id=monitor,path={},server=on,wait=off",
            quoted(socket)
        ),
        "-mon".to_owned(),
        "chardev=monitor,mode=control".to_owned(),
    ]
}

/// A path as the value of an option: a comma would end it.
pub fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_paths_are_doubled() {
        let [_, socket, ..] = monitor(Path::new("/a,b"));
        assert_eq!(socket, "socket,id=monitor,path=/a,,b,server=on,wait=off");
    }
}
