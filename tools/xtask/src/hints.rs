// SPDX-License-Identifier: GPL-2.0

//! What the user can try when a step fails, by what its log says.

/// Patterns of a log, and the advice. The first match counts.
const HINTS: &[(&[&str], &str)] = &[
    (
        &["No space left on device"],
        "there is no space left: free some, or set XDG_CACHE_HOME to where there is",
    ),
    (
        &[
            "404  Not Found",
            "404 Not Found",
            // With apt's quote: pkg-config says "was not found" too.
            "' was not found",
            "Unable to locate package",
            "Unable to find a source package",
        ],
        "the package index is older than the mirror: try make update",
    ),
    (
        &[
            "Temporary failure resolving",
            "Could not resolve",
            "Could not connect",
            "Failed to connect",
            "Network is unreachable",
            "Connection refused",
            "Connection timed out",
            "failed to download",
            "Failed to fetch",
        ],
        "is the network there? Behind a proxy, set http_proxy and https_proxy",
    ),
    (
        &["SSL certificate problem", "certificate verify failed"],
        "https is intercepted by a proxy whose certificate is not in \
         /etc/ssl/certs/ca-certificates.crt: add it with update-ca-certificates",
    ),
    (
        &[
            "Out of memory",
            "Killed signal terminated program",
            "signal: 9",
        ],
        "a compiler was killed: is there enough memory (2 GB a core)?",
    ),
    (
        &["lock file", "--locked was passed"],
        "Cargo.lock does not agree with a Cargo.toml: run cargo update --workspace",
    ),
];

/// The advice for a log, if there is any.
pub fn hint(log: &str) -> Option<&'static str> {
    HINTS
        .iter()
        .find(|(patterns, _)| patterns.iter().any(|pattern| log.contains(pattern)))
        .map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_beats_its_consequence() {
        let log = "E: Failed to fetch http://mirror/x.deb  404  Not Found\nE: Unable to fetch";
        assert!(hint(log).unwrap().contains("make update"));
        let log = "tar: x: Cannot write: No space left on device\nE: Failed to fetch";
        assert!(hint(log).unwrap().contains("space"));
    }

    #[test]
    fn nothing_is_said_about_the_unknown() {
        assert_eq!(hint("error[E0308]: mismatched types"), None);
        assert_eq!(
            hint("Package x was not found in the pkg-config search path"),
            None
        );
    }
}
