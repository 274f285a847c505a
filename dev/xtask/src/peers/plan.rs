//! Who is measured in what, and in which order: the file of peers, the rows that were named, the
//! rounds. Nothing is run here.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::rows::{Group, ROWS, Row};

/// What the others are called that are not others.
pub const THRONG: &str = "throng";

/// Peers of a file, at most: each takes part in every round.
const PEERS_MAX: usize = 32;

/// A server that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name in the table.
    pub name: String,
    /// `http`, `websocket`, `room` or `nakama`, or names of rows.
    pub rows: Vec<String>,
    /// A shell's command that stays in the foreground, run in the folder of the file.
    pub start: String,
    /// Where it listens: `http://127.0.0.1:7501`.
    #[serde(default)]
    pub target: Option<String>,
    /// A command to run before each start: a fresh database, say.
    #[serde(default)]
    pub before: Option<String>,
    /// A file whose first line is the process id of its database, say, the time of which is counted.
    #[serde(default)]
    pub beside: Option<PathBuf>,
    /// More arguments for `throng load`.
    #[serde(default)]
    pub load: Vec<String>,
    /// Version, commit, compiler and flags, kept in every record.
    #[serde(default)]
    pub about: String,
    /// Where its commands are run.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Server {
    /// Whether it takes part in a row.
    pub fn is_in(&self, row: &Row) -> bool {
        self.rows.iter().any(|word| word == row.name || word == row.group.word())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeersFile {
    #[serde(default)]
    peer: Vec<Server>,
}

/// The peers of a file.
///
/// # Errors
/// If it cannot be read or says something that means nothing.
pub fn peers(path: &Path) -> anyhow::Result<Vec<Server>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let folder = path.canonicalize()?.parent().map(Path::to_owned).unwrap_or_default();
    parse(&text, &folder).with_context(|| path.display().to_string())
}

fn parse(text: &str, folder: &Path) -> anyhow::Result<Vec<Server>> {
    let file: PeersFile = toml::from_str(text)?;
    if file.peer.len() > PEERS_MAX {
        bail!("{} peers, {PEERS_MAX} are allowed", file.peer.len());
    }
    let mut peers: Vec<Server> = Vec::new();
    for peer in file.peer {
        if peer.name == THRONG || peers.iter().any(|other| other.name == peer.name) {
            bail!("the name `{}` is taken", peer.name);
        }
        let is_known =
            |word: &String| ROWS.iter().any(|row| word == row.name || word == row.group.word());
        if let Some(word) = peer.rows.iter().find(|word| !is_known(word)) {
            bail!("`{}`: there is no row `{word}` (`cargo xtask peers --list`)", peer.name);
        }
        peers.push(Server { folder: folder.to_owned(), ..peer });
    }
    Ok(peers)
}

/// throng itself in a row; what it needs lies in its folder.
pub fn throng(row: &Row, folder: &Path, about: &str) -> Server {
    let start = match row.group {
        Group::Http | Group::WebSocket | Group::Room => "throng echo".to_owned(),
        Group::Nakama => format!(
            "throng serve --data_dir data --runtime.path {} --logger.level warn \
             --session.token_expiry_sec 7200",
            row.modules
        ),
    };
    Server {
        name: THRONG.to_owned(),
        rows: vec![row.name.to_owned()],
        start,
        target: None,
        before: Some("rm -rf data".to_owned()),
        beside: None,
        load: Vec::new(),
        about: about.to_owned(),
        folder: folder.to_owned(),
    }
}

/// The rows that were named, or all.
///
/// # Errors
/// If there is none of that name.
pub fn rows(names: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    if let Some(name) = names.iter().find(|name| !ROWS.iter().any(|row| row.name == **name)) {
        bail!("there is no row `{name}` (`cargo xtask peers --list`)");
    }
    let is_meant = |row: &&Row| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(is_meant).collect())
}

/// The order of a round: each starts once before every other when there are as many rounds, and is
/// once the first.
pub fn order(round: usize, count: usize) -> Vec<usize> {
    let start = round.checked_rem(count).unwrap_or(0);
    let turn = |place: usize| (start + place) % count;
    let places = 0..count;
    if (round / count.max(1)).is_multiple_of(2) {
        places.map(turn).collect()
    } else {
        places.rev().map(turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{order, parse, rows, throng};

    #[test]
    fn everybody_is_first_once() {
        assert_eq!(order(0, 3), [0, 1, 2]);
        assert_eq!(order(1, 3), [1, 2, 0]);
        assert_eq!(order(2, 3), [2, 0, 1]);
        assert_eq!(order(3, 3), [2, 1, 0]);
        assert_eq!(order(4, 3), [0, 2, 1]);
        assert_eq!(order(0, 0), [0; 0]);
        for count in 1..6 {
            let mut firsts: Vec<_> = (0..count).map(|round| order(round, count)[0]).collect();
            firsts.sort_unstable();
            assert_eq!(firsts, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn peers_are_read() {
        let text = "[[peer]]\nname = 'a'\nrows = ['http', 'ws-64']\nstart = './a'\n";
        let peers = parse(text, Path::new("/x")).unwrap();
        let in_rows: Vec<_> =
            super::ROWS.iter().filter(|row| peers[0].is_in(row)).map(|row| row.name).collect();
        assert_eq!(in_rows, ["plaintext-16", "plaintext-64", "plaintext-512", "ws-64"]);
        assert_eq!(peers[0].folder, Path::new("/x"));
        for (text, part) in [
            (text.replace("'a'", "'throng'"), "taken"),
            (text.repeat(2), "taken"),
            (text.replace("ws-64", "ws-65"), "no row `ws-65`"),
            (text.replace("start", "begin"), "unknown field `begin`"),
        ] {
            let error = format!("{:#}", parse(&text, Path::new("/x")).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn rows_are_named() {
        let names = |names: &[&str]| names.iter().map(|it| it.to_string()).collect::<Vec<_>>();
        assert_eq!(rows(&[]).unwrap().len(), super::ROWS.len());
        assert_eq!(rows(&names(&["ws-64"])).unwrap()[0].name, "ws-64");
        assert!(rows(&names(&["ws-64", "ws"])).is_err());
        let js = rows(&names(&["rpc-js"])).unwrap()[0];
        assert!(throng(js, Path::new("/x"), "").start.contains("--runtime.path modules-js "));
    }
}
