//! The pages in docs/lua: every block of Lua is a module that loads, and nothing in it is odd.

use std::path::Path;

use game::guest::Scripts as _;

use crate::host::TestHost;
use crate::{load_with, roomy};

/// The pages and examples whose blocks are modules; functions.md has a test of its own.
const PAGES: &[&str] = &[
    "context.md",
    "errors.md",
    "guide.md",
    "hooks.md",
    "matches.md",
    "storage.md",
    "streams.md",
    "waiting.md",
];

fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("```lua\n").skip(1);
    parts.filter_map(|part| part.split_once("```").map(|(block, _)| block.to_owned())).collect()
}

#[test]
fn every_block_of_lua_in_the_pages_is_a_module_that_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lua");
    let mut seen = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        for block in blocks(&text) {
            seen += 1;
            let files = [("arena.lua", block.as_str())];
            let loaded = load_with(&files, roomy(), &mut TestHost::default());
            let scripts = loaded.unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
            let found = &scripts.registered().findings;
            assert!(found.is_empty(), "{page}: {found:?}\n{block}");
        }
    }
    assert!(seen >= PAGES.len(), "{seen} blocks");
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lua");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            let is_there = file.starts_with("https://") || folder.join(file).exists();
            assert!(is_there, "{}: {link}", path.display());
        }
    }
}
