//! What every source file has to hold, and may not.

use std::path::Path;

use super::Finding;
use crate::repository::{File, Tree};

/// Lines of a file. The house aims at half of it.
const LINES_MAX: usize = 800;

/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// Words that may not be committed, and what to do. They are put together here so that this file
/// does not hold them.
const BANNED: &[(&str, &str)] = &[
    (concat!("FIX", "ME"), "do it, or write an issue"),
    (concat!("to", "do!("), "write the code, or return an error that says it is missing"),
    (concat!("db", "g!("), "take it out, or log it"),
    (concat!("#[ign", "ore"), "a test that does not run is none: make it fast, or take it out"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
];

fn rust(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| Path::new(&file.path).extension().is_some_and(|e| e == "rs"))
}

fn finding(file: &File, what: impl Into<String>) -> Finding {
    Finding { place: file.path.clone(), what: what.into() }
}

/// Where unsafe code may be, each with its reason.
const UNSAFE: &[&str] = &[
    // The program's allocator.
    "edge/allocator/src/lib.rs",
    // The two drivers, and the memory that is lent to the kernel.
    "edge/engine/src/uring/",
    "edge/engine/src/poll.rs",
    "edge/engine/src/block.rs",
    // Calls that neither std nor rustix wraps: recvmmsg, UDP offload, multishot receives, AF_XDP, bpf.
    "edge/engine/src/datagram/",
    // Asks the kernel for what it has counted of a thread and of a connection.
    "edge/engine/src/accounting.rs",
    "edge/engine/src/stamp.rs",
    // Mounts and namespaces, which rustix has only behind a feature, or as an unsafe call.
    "edge/engine/src/walls.rs",
    // Functions that SQLite calls: its page cache, behind a border that is C's.
    "edge/pages/src/lib.rs",
    "edge/pages/src/log.rs",
    // Finds the fiber that runs: what a function of C calls cannot carry it.
    "edge/fiber/src/lib.rs",
    // Functions that QuickJS calls for memory, and those of it that compile scripts and read bytecode.
    "edge/heap/src/lib.rs",
    "edge/heap/src/code.rs",
    // Maps a file in the place of an instance's memory.
    "edge/samepage/src/lib.rs",
    // Members of tables on Luau's stack.
    "edge/tables/src/json.rs",
    "edge/tables/src/lib.rs",
    "edge/tables/src/memory.rs",
    "edge/tables/src/native.rs",
    "edge/tables/src/tests.rs",
];

/// The crates that may hold unsafe code.
const UNSAFE_CRATES: [&str; 7] = [
    "edge/allocator/",
    "edge/engine/",
    "edge/fiber/",
    "edge/heap/",
    "edge/pages/",
    "edge/samepage/",
    "edge/tables/",
];

/// Every crate but [`UNSAFE_CRATES`] forbids unsafe code; nobody else allows it, and in them only
/// what [`UNSAFE`] names holds any. Guests are not looked at: they call the host across WebAssembly's
/// border, and can harm nobody but themselves.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    const FORBID: &str = "#![forbid(unsafe_code)]";
    let mut found = Vec::new();
    let may = |file: &&File| UNSAFE_CRATES.iter().any(|at| file.path.starts_with(at));
    let is_guest = |file: &&File| file.path.starts_with("guests/");
    for file in rust(tree).filter(|file| !may(file) && !is_guest(file)) {
        let root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
        if root && !file.text.lines().any(|line| line.trim() == FORBID) {
            found.push(finding(file, format!("must say {FORBID}")));
        }
        let allows = |line: &str| {
            let line = line.split("//").next().unwrap_or("");
            ["allow(", "expect(", "warn("].iter().any(|lint| line.contains(lint))
                && line.contains("unsafe_code")
                && line.trim_start().starts_with('#')
        };
        if file.text.lines().any(allows) {
            found.push(finding(
                file,
                "only the crates in xtask's UNSAFE_CRATES may hold unsafe code",
            ));
        }
    }
    let is_allowed = |path: &str| UNSAFE.iter().any(|allowed| path.starts_with(allowed));
    for file in rust(tree).filter(may).filter(|file| file.path.contains("/src/")) {
        let is_unsafe = |line: &str| {
            let line = line.split("//").next().unwrap_or("");
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|word| line.contains(word))
        };
        if !is_allowed(&file.path) && file.text.lines().any(is_unsafe) {
            found.push(finding(
                file,
                "only what touches the kernel or C may hold unsafe code: see UNSAFE here",
            ));
        }
    }
    found
}

/// Every file opens with `//!`: what it does, what it leaves out.
pub(super) fn headers(tree: &Tree) -> Vec<Finding> {
    let opens = |file: &&File| {
        let first = file.text.lines().next().unwrap_or("");
        first.strip_prefix("//! ").is_some_and(|says| says.len() > 8)
    };
    rust(tree)
        .filter(|file| !opens(file))
        .map(|file| finding(file, "its first line must be a `//!` that says what it does"))
        .collect()
}

/// No file is longer than [`LINES_MAX`].
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in rust(tree) {
        let lines = file.text.lines().count();
        let excused = LONG.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !excused {
            found.push(finding(file, format!("{lines} lines; split it, {LINES_MAX} are allowed")));
        }
    }
    found
}

/// No word of [`BANNED`] in any text file.
pub(super) fn words(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (number, line) in (1..).zip(file.text.lines()) {
            for (word, cure) in BANNED.iter().filter(|(word, _)| holds(line, word)) {
                found.push(finding(file, format!("line {number} holds `{word}`: {cure}")));
            }
        }
    }
    found
}

/// Whether the word stands in the line, not as the end of a longer one.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn unsafe_code_is_found() {
        let forbid = "//! A crate.\n#![forbid(unsafe_code)]\n";
        let allow = concat!("#![", "allow(unsafe_code)]");
        for (path, text, wrong) in [
            ("pure/a/src/lib.rs", forbid, false),
            ("pure/a/src/lib.rs", "//! A crate.\n", true),
            ("edge/b/src/main.rs", "//! A program.\n", true),
            ("edge/b/src/other.rs", "//! A module.\n", false),
            ("edge/b/src/other.rs", allow, true),
            ("guests/a/src/lib.rs", "//! A guest.\n", false),
            ("edge/engine/src/lib.rs", allow, false),
            ("edge/engine/src/lib.rs", "fn a() { unsafe { b() } }", true),
            ("edge/engine/src/uring/mod.rs", "fn a() { unsafe { b() } }", false),
            ("edge/engine/src/datagram/ring.rs", "fn a() { unsafe { b() } }", false),
            ("edge/engine/src/namespace.rs", "fn a() { unsafe { b() } }", true),
        ] {
            assert_eq!(!check(unsafe_code, &[(path, text)]).is_empty(), wrong, "{path}: {text}");
        }
    }

    #[test]
    fn headers_are_asked_for() {
        for (text, wrong) in [
            ("//! Reads the tree.\n", false),
            ("\n//! Reads the tree.\n", true),
            ("// Reads the tree.\n", true),
            ("//!\n", true),
            ("", true),
        ] {
            assert_eq!(!check(headers, &[("a.rs", text)]).is_empty(), wrong, "{text:?}");
        }
        assert_eq!(check(headers, &[("a.md", "")]), [""; 0]);
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(check(sizes, &[("a.rs", &"x\n".repeat(LINES_MAX))]), [""; 0]);
        assert_eq!(check(sizes, &[("a.rs", &"x\n".repeat(LINES_MAX + 1))]).len(), 1);
        assert_eq!(check(sizes, &[("a.md", &"x\n".repeat(LINES_MAX + 1))]), [""; 0]);
    }

    #[test]
    fn banned_words_are_found() {
        for (word, _) in BANNED {
            let line = format!("a line\nwith {word} in it\n");
            for path in ["a.rs", "README.md", "dev/e2e/a.mjs"] {
                let found = check(words, &[(path, &line)]);
                assert!(found.len() == 1 && found[0].contains("line 2"), "{word}: {found:?}");
            }
        }
        for fine in [concat!("net", "/wo", "rk/x"), "a/roots/b", "the FIX", "not_dbg"] {
            assert_eq!(check(words, &[("a.rs", fine)]), [""; 0], "{fine}");
        }
    }
}
