//! Manifests and lint settings, read as lines: they are written in one plain style.

use super::Finding;
use crate::repository::Tree;

/// Members take lints, version and dependencies from the workspace. A package that is a workspace of its own is
/// none: released clients in tests, below dev/, and what guests are written with.
pub(super) fn members(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let may_be_alone = folder.starts_with("dev/e2e/") || folder.starts_with("guests/");
        if may_be_alone && file.text.lines().any(|line| line == "[workspace]") {
            continue;
        }
        let mut find = |what: String| found.push(Finding { place: folder.to_owned(), what });
        if section(&file.text, "lints").next() != Some("workspace = true") {
            find("its lints must be the workspace's: [lints] workspace = true".to_owned());
        }
        for line in ["version", "edition", "rust-version", "license", "publish"] {
            let wanted = format!("{line}.workspace = true");
            if !section(&file.text, "package").any(|line| line == wanted) {
                find(format!("[package] must say {wanted}"));
            }
        }
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for line in section(&file.text, kind).filter(|line| !is_from_workspace(line)) {
                find(format!("`{line}` belongs into the workspace's table, with a reason"));
            }
        }
    }
    found
}

fn is_from_workspace(line: &str) -> bool {
    let rule = line.split_once('=').map_or("", |(name, _)| name.trim());
    rule.ends_with(".workspace") || line.contains("workspace = true")
}

/// Every dependency of the workspace's table has a reason on its line, and somebody who uses it.
pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.text("Cargo.toml") else {
        return vec![Finding { place: "Cargo.toml".to_owned(), what: "missing".to_owned() }];
    };
    let mut found = Vec::new();
    let mut find = |what: String| found.push(Finding { place: "Cargo.toml".to_owned(), what });
    for line in section(root, "workspace.dependencies") {
        let Some((name, rest)) = line.split_once('=') else { continue };
        let name = name.trim();
        if rest.contains("path =") {
            continue;
        }
        if rest.split_once('#').is_none_or(|(_, reason)| reason.trim().len() < 5) {
            find(format!("`{name}` needs a reason on its line, after a #"));
        }
        let used = tree.files.iter().any(|file| {
            file.path.ends_with("/Cargo.toml")
                && file.text.lines().any(|line| uses(line.trim(), name))
        });
        if !used {
            find(format!("`{name}` is used by no crate: take it out"));
        }
    }
    found
}

fn uses(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
}

/// clippy takes the nearest clippy.toml only, so the one in pure must repeat the root's.
pub(super) fn clippy(tree: &Tree) -> Vec<Finding> {
    let (Some(root), Some(pure)) = (tree.text("clippy.toml"), tree.text("pure/clippy.toml")) else {
        let what = "clippy.toml must stand at the root and in pure".to_owned();
        return vec![Finding { place: "clippy.toml".to_owned(), what }];
    };
    let lines = root.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let missing = lines.filter(|wanted| !pure.lines().any(|line| line.trim() == *wanted));
    let find = |line| Finding {
        place: "pure/clippy.toml".to_owned(),
        what: format!("must repeat `{line}` from clippy.toml"),
    };
    missing.map(find).collect()
}

/// The lines of one section, without empty ones and comments.
fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("[{name}]");
    text.lines()
        .map(str::trim)
        .skip_while(move |line| *line != head)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        publish.workspace = true\n\n[dependencies]\nbytes.workspace = true\n\
        serde = { workspace = true }\n\n[lints]\nworkspace = true\n";

    #[test]
    fn members_are_judged() {
        assert_eq!(check(members, &[("pure/a/Cargo.toml", GOOD)]), [""; 0]);
        for (from, to, part) in [
            ("[lints]\nworkspace = true", "", "lints"),
            ("[lints]\nworkspace = true", "[lints]\nworkspace = false", "lints"),
            ("publish.workspace = true", "publish = true", "publish.workspace"),
            ("version.workspace = true", "version = \"1.0.0\"", "version.workspace"),
            ("bytes.workspace = true", "bytes = \"1\"", "`bytes = \"1\"` belongs"),
        ] {
            let found = check(members, &[("pure/a/Cargo.toml", &GOOD.replacen(from, to, 1))]);
            assert!(found.len() == 1 && found[0].contains(part), "{to}: {found:?}");
        }
        // A package of its own is no member, where such may be.
        let own = "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n\n[workspace]\n";
        for path in ["dev/e2e/a/Cargo.toml", "guests/a/Cargo.toml"] {
            assert_eq!(check(members, &[(path, own)]), [""; 0]);
        }
        assert!(!check(members, &[("edge/a/Cargo.toml", own)]).is_empty());
    }

    #[test]
    fn reasons_are_asked_for() {
        let user = ("pure/a/Cargo.toml", "[dependencies]\nbytes.workspace = true\n");
        for (line, part) in [
            ("bytes = \"1\" # Shared slices.", ""),
            ("bytes = \"1\"", "needs a reason"),
            ("bytes = \"1\" #", "needs a reason"),
            ("wire = { path = \"pure/wire\" }", ""),
            ("byte = \"1\" # Not the same name.", "used by no crate"),
        ] {
            let root =
                format!("[workspace.dependencies]\n# Ours.\n{line}\n\n[profile.dev]\nx = 1\n");
            let found = check(reasons, &[("Cargo.toml", &root), user]).join("\n");
            assert!(found.contains(part) && found.is_empty() == part.is_empty(), "{line}: {found}");
        }
        assert_eq!(check(reasons, &[]).len(), 1);
    }

    #[test]
    fn clippy_lines_are_repeated() {
        let root = ("clippy.toml", "# why\na = 1\nb = 2\n");
        let same = [root, ("pure/clippy.toml", "x = 0\nb = 2\na = 1\n")];
        assert_eq!(check(clippy, &same), [""; 0]);
        assert_eq!(check(clippy, &[root, ("pure/clippy.toml", "a = 1\nb = 3\n")]).len(), 1);
        assert_eq!(check(clippy, &[root]).len(), 1);
    }
}
