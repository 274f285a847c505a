//! Which crate may use which.

use super::Finding;
use crate::repository::{Crate, Tree};

/// Arrows that the folders would allow and the design does not.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("engine", "wire", "the engine knows no protocol"),
    ("engine", "game", "the engine knows no game"),
    ("engine", "server", "the engine knows no server"),
    ("fetch", "server", "requests know no threads' handlers"),
    ("store", "server", "a database knows no threads"),
    ("script", "server", "a script knows no threads"),
    ("wire", "game", "bytes and messages know no rules"),
    ("lab", "server", "the lab may only see what a stranger sees"),
    ("lab", "game", "the lab may only see what a stranger sees"),
    ("client", "server", "a client may only see what a stranger sees"),
    ("client", "game", "a client may only see what a stranger sees"),
];

/// `pure` uses `pure` only, `edge` never `dev`; tests may use what they like.
pub(super) fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for from in &tree.crates {
        for arrow in from.arrows.iter().filter(|arrow| !arrow.dev) {
            let Some(to) = tree.crates.iter().find(|other| other.name == arrow.to) else {
                found.push(finding(from, &format!("uses `{}` from outside", arrow.to)));
                continue;
            };
            let wrong = match law(from) {
                "pure" => law(to) != "pure",
                "edge" => law(to) == "dev",
                _ => false,
            };
            if wrong {
                let what = format!("{} may not use {}", from.folder, to.folder);
                found.push(finding(from, &what));
            }
            let names = (from.name.as_str(), to.name.as_str());
            let forbidden = FORBIDDEN.iter().find(|(from, to, _)| (*from, *to) == names);
            if let Some((_, _, why)) = forbidden {
                found.push(finding(from, &format!("may not use `{}`: {why}", to.name)));
            }
        }
    }
    found
}

/// Every crate stands in one of the three folders, in a folder of its own name.
pub(super) fn folders(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in &tree.crates {
        let parts: Vec<_> = one.folder.split('/').collect();
        let right = matches!(parts[..], ["pure" | "edge" | "dev", name] if name == one.name);
        if !right {
            let what = format!("crate `{}` belongs into pure, edge or dev, by its name", one.name);
            found.push(finding(one, &what));
        }
    }
    found
}

fn law(one: &Crate) -> &str {
    one.folder.split('/').next().unwrap_or("")
}

fn finding(one: &Crate, what: &str) -> Finding {
    Finding { place: one.folder.clone(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Arrow;

    fn tree(crates: &[(&str, &[(&str, bool)])]) -> Tree {
        let one = |(folder, arrows): &(&str, &[(&str, bool)])| Crate {
            name: folder.rsplit('/').next().unwrap().to_owned(),
            folder: (*folder).to_owned(),
            arrows: arrows
                .iter()
                .map(|(to, dev)| Arrow { to: (*to).to_owned(), dev: *dev })
                .collect(),
        };
        Tree { files: Vec::new(), crates: crates.iter().map(one).collect(), results: Vec::new() }
    }

    #[test]
    fn arrows_are_judged() {
        let all: &[(&str, &[(&str, bool)])] =
            &[("pure/event", &[]), ("pure/wire", &[]), ("edge/store", &[]), ("dev/sim", &[])];
        for (from, to, dev, wrong) in [
            ("pure/game", "event", false, false),
            ("pure/game", "store", false, true),
            ("pure/game", "store", true, false),
            ("pure/game", "sim", false, true),
            ("edge/throng", "store", false, false),
            ("edge/throng", "event", false, false),
            ("edge/throng", "sim", false, true),
            ("edge/throng", "sim", true, false),
            ("edge/engine", "wire", false, true),
            ("dev/xtask", "store", false, false),
            ("pure/game", "elsewhere", false, true),
        ] {
            let arrows = [(to, dev)];
            let mut crates = all.to_vec();
            crates.push((from, &arrows));
            assert_eq!(!arrows_of(&crates).is_empty(), wrong, "{from} -> {to}, dev: {dev}");
        }
    }

    fn arrows_of(crates: &[(&str, &[(&str, bool)])]) -> Vec<Finding> {
        arrows(&tree(crates))
    }

    #[test]
    fn folders_are_judged() {
        assert!(folders(&tree(&[("pure/wire", &[]), ("dev/xtask", &[])])).is_empty());
        for folder in ["wire", "lib/wire", "pure/deep/wire"] {
            assert_eq!(folders(&tree(&[(folder, &[])])).len(), 1, "{folder}");
        }
        let mut other = tree(&[("pure/wire", &[])]);
        other.crates[0].name = "throng-wire".to_owned();
        assert_eq!(folders(&other).len(), 1);
    }
}
