//! What was written and where: the step between flags or files and checked values, and the
//! messages that name both.

use std::fmt;
use std::path::PathBuf;

use super::value::BadValue;
use crate::options::Why;

/// One option as it was written, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The dotted name.
    pub name: String,
    /// One text, or the items of a list.
    pub items: Vec<String>,
    /// Where it was written.
    pub from: Source,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nowhere: it is the default.
    Default,
    /// In a configuration file; `line` counts from 1, 0 if it is not known.
    File { path: PathBuf, line: u64 },
    /// On the command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// Why the configuration does not do. Every text names the option, where it was set, and the cure.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("{}: cannot be read: {error}", .path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// The file is larger than any configuration.
    #[error("{}: larger than {bytes_max} bytes; is this the configuration file?", .path.display())]
    FileTooLarge { path: PathBuf, bytes_max: u64 },
    /// Not YAML.
    #[error("{}: {}", .path.display(), not_yaml(&.error.to_string()))]
    NotYaml { path: PathBuf, error: serde_saphyr::Error },
    /// Valid YAML of the wrong shape.
    #[error("`{name}` ({from}): {shape}")]
    Shape { name: String, from: Source, shape: BadShape },
    /// No such option, here or in Nakama.
    #[error("`{name}` ({from}): there is no such option{}", question(*.nearest))]
    Unknown { name: String, from: Source, nearest: Option<&'static str> },
    /// Nakama has it, throng does not, and a start without it would expose players.
    #[error("`{name}` ({from}): {why}")]
    NotObeyed { name: String, from: Source, why: Why },
    /// A value that does not do.
    #[error("`{name}` ({from}): {error}")]
    Bad { name: &'static str, from: Source, error: BadValue },
    /// Two options that contradict each other.
    #[error("`{first}` ({first_from}) and `{second}` ({second_from}): {clash}")]
    Clash {
        first: &'static str,
        first_from: Source,
        second: &'static str,
        second_from: Source,
        clash: Clash,
    },
}

/// What in a file has no meaning as a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShape {
    /// The whole file is a list or a single value.
    #[error("the file must hold names and values, such as `socket: {{port: 7350}}`")]
    NotMap,
    /// A list within a list, or a map within one.
    #[error("a list may only hold plain values")]
    Nested,
    /// A name with nothing after it.
    #[error("there is no value; remove the line, or write \"\" for an empty text")]
    NoValue,
    /// The same option twice in one file.
    #[error("it is set twice in this file")]
    Twice,
    /// A map where the option is one value or a list.
    #[error("it takes a value, not further names")]
    NotSection,
}

/// How two options contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// Session and refresh key are the same, so that either token would pass for the other.
    #[error("the two keys must differ")]
    SameKeys,
    /// The pong would be missed before the ping is sent.
    #[error("the first must be greater than the second, else every quiet socket is closed")]
    PongBeforePing,
    /// Two listeners on one port.
    #[error("both are port {port}; give them different ports")]
    SamePort { port: u16 },
    /// Queue entries times message size.
    #[error("together they let one socket take {bytes} bytes; at most {bytes_max} are allowed")]
    QueueBytes { bytes: u64, bytes_max: u64 },
    /// Logs would go nowhere.
    #[error("with neither, the log goes nowhere; set one of them")]
    NoLog,
}

fn question(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

/// The reader's text without what only those who compile it can do about a repeated name.
fn not_yaml(text: &str) -> String {
    let repeated = text
        .strip_prefix("duplicate mapping key: ")
        .and_then(|rest| rest.split_once(", set DuplicateKeyPolicy in Options if acceptable"));
    match repeated {
        Some((name, place)) => format!("`{name}` is set twice, the second time{place}"),
        None => format!("not valid YAML: {text}"),
    }
}
