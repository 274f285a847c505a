//! The one table of options: what `throng serve` can be told, and in what words.
//!
//! Everything that speaks about options reads this table: the flags (`cli.rs`), the configuration
//! file and its checks (`config/`), the printed reference and `docs/configuration.md`
//! (`reference.rs`). A row is added in `built.rs` when a feature takes it, and then leaves
//! `unbuilt.rs`.
//!
//! What is deliberately not here: the values in force (`config.rs`), and contradictions between
//! two options (`config/contradict.rs`).

mod built;
mod unbuilt;

pub use built::BUILT;
pub use unbuilt::UNBUILT;

/// One option that throng obeys.
#[derive(Clone, Copy)]
pub struct Opt {
    /// The dotted name, in the file and as a flag: `socket.port`.
    pub name: &'static str,
    /// What may be written.
    pub kind: Kind,
    /// What holds if nothing is written.
    pub default: Default,
    /// Whether the name and its meaning are Nakama's.
    pub origin: Origin,
    /// Keys and the like: never printed.
    pub secret: bool,
    /// A shorter flag for what is written by hand, day after day.
    pub short: Option<&'static str>,
    /// What it does, in one or two sentences; the first stands alone in the short help.
    pub help: &'static str,
}

/// What may be written for an option.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number from `min` to `max`, counted in `unit` ("" for plain numbers).
    Number { min: u64, max: u64, unit: &'static str },
    /// `true` or `false`.
    Switch,
    /// Text of `min` to `max` bytes, without control characters.
    Text { min: usize, max: usize },
    /// The same, or nothing: what it is for is off then.
    TextOrOff { min: usize, max: usize },
    /// `min` to `max` ASCII letters, digits, underscores and characters of `also`.
    Word { min: usize, max: usize, also: &'static str },
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// An IP address, `localhost`, or nothing for every address of the machine.
    Address,
    /// An IP address or a host's name, without a port; or nothing.
    Host,
    /// A file or folder.
    Path,
    /// At most [`LIST_ITEMS_MAX`] entries of this form.
    List(Entry),
}

/// The form of a list's entries. Source: `CheckConfig`, heroiclabs/nakama server/config.go, 3.40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `KEY=value`; the value may hold more equals signs.
    Variable,
    /// `Name=value`, both fit for an HTTP header.
    Header,
    /// An IP address, or a network such as `10.0.0.0/8`.
    Network,
    /// A host, `*.domain` or `*`, and maybe `:port`.
    Host,
}

/// Entries of one list option.
pub const LIST_ITEMS_MAX: usize = 256;

/// Bytes of one entry, and of any text option.
pub const TEXT_BYTES_MAX: usize = 4096;

/// What holds if nothing is written.
#[derive(Clone, Copy)]
pub enum Default {
    /// Always this, in the spelling of the configuration file; "" for an empty text or list.
    Fixed(&'static str),
    /// Follows from the number of CPUs that the process may use.
    PerCpu { rule: &'static str, count: fn(u64) -> u64 },
}

/// Whether an option is Nakama's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Name, default and meaning are Nakama's.
    Original,
    /// Nakama has the name; the text says what differs here.
    Differs(&'static str),
    /// Nakama has no such option.
    Ours,
}

/// An option of Nakama that throng does not obey (yet).
pub struct Unbuilt {
    /// The dotted name; with `*` as the last part it stands for every name of the section.
    pub name: &'static str,
    /// Nakama's default; of writing just this nobody is told. Entries of a list are separated by
    /// commas.
    pub default: &'static str,
    /// Why it is not obeyed.
    pub why: Why,
}

/// Why an option of Nakama is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The feature that it belongs to is missing: its name with "is" or "are", and what does
    /// instead, or "".
    Missing(&'static str, &'static str),
    /// The thing that it adjusts does not exist here; the text says what takes its place.
    Pointless(&'static str),
    /// The feature is missing, and a server that starts without it would expose what it protects:
    /// the start fails. What does instead.
    Unsafe(&'static str, &'static str),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(feature, "") => write!(f, "{feature} not built yet"),
            Self::Missing(feature, instead) | Self::Unsafe(feature, instead) => {
                write!(f, "{feature} not built yet: {instead}")
            }
            Self::Pointless(instead) => write!(f, "there is nothing to adjust here: {instead}"),
        }
    }
}

/// What is known of a name.
pub enum Known {
    /// throng obeys it.
    Built(&'static Opt),
    /// Nakama has it, throng does not obey it.
    Unbuilt(&'static Unbuilt),
}

/// Looks a dotted name up; case matters, as in Nakama.
pub fn find(name: &str) -> Option<Known> {
    if let Some(opt) = BUILT.iter().find(|opt| opt.name == name) {
        return Some(Known::Built(opt));
    }
    let is_meant = |opt: &&Unbuilt| match opt.name.strip_suffix('*') {
        Some(section) => name.starts_with(section),
        None => opt.name == name,
    };
    UNBUILT.iter().find(is_meant).map(Known::Unbuilt)
}

/// The option whose name is nearest to a mistyped one, if any is near: at most a third of the
/// letters differ, or it begins with what was written, or ends with it. Options that are obeyed win
/// over others at the same distance.
pub fn nearest(name: &str) -> Option<&'static str> {
    // Longer input is no slip of the finger; the bound also bounds the work below.
    const NAME_BYTES_MAX: usize = 64;
    // Letters behind the point from which on a beginning stands for the option.
    const BEGINNING_MIN: usize = 4;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase().replace('-', "_");
    let names = BUILT.iter().map(|opt| opt.name).chain(UNBUILT.iter().map(|opt| opt.name));
    let names = names.filter(|name| !name.ends_with('*'));
    // The unit is easily left out: `limit.requests_per_user` for `limit.requests_per_user_per_s`.
    let typed_tail = lower.split_once('.').map(|(_, tail)| tail);
    // The last part alone is the commonest slip: `port` for `socket.port`.
    let tail = |full: &'static str| full.rsplit('.').next().unwrap_or(full);
    let distance = |full: &'static str| {
        let is_tail = tail(full) == lower && full != lower;
        let is_beginning = typed_tail.is_some_and(|it| it.len() >= BEGINNING_MIN)
            && full.starts_with(&lower)
            && full != lower;
        if is_tail || is_beginning { 1 } else { strsim::osa_distance(&lower, full) }
    };
    let (best, found) = names.map(|full| (distance(full), full)).min_by_key(|(d, _)| *d)?;
    (best <= found.len() / 3).then_some(found)
}

impl Kind {
    /// The form in a few words, for the reference: "number, 1–60".
    pub fn describe(&self) -> String {
        match self {
            Self::Number { min, max, unit: "" } => format!("{min}–{max}"),
            Self::Number { min, max, unit } => format!("{min}–{max} {unit}"),
            Self::Switch => "true or false".to_owned(),
            Self::Text { min, max } => format!("text of {min}–{max} bytes"),
            Self::TextOrOff { min, max } => format!("empty, or text of {min}–{max} bytes"),
            Self::Word { min, max, also: "" } => {
                format!("{min}–{max} letters, digits, `_`")
            }
            Self::Word { min, max, also } => format!("{min}–{max} letters, digits, `_`, `{also}`"),
            Self::Choice(words) => words.join(", "),
            Self::Address => "IP address or localhost".to_owned(),
            Self::Host => "empty, or a host's name or IP address".to_owned(),
            Self::Path => "path".to_owned(),
            Self::List(Entry::Variable) => format!("up to {LIST_ITEMS_MAX} × KEY=value"),
            Self::List(Entry::Header) => format!("up to {LIST_ITEMS_MAX} × Name=value"),
            Self::List(Entry::Network) => format!("up to {LIST_ITEMS_MAX} addresses or networks"),
            Self::List(Entry::Host) => format!("up to {LIST_ITEMS_MAX} hosts"),
        }
    }

    /// The placeholder after the flag in `--help`.
    pub fn placeholder(&self) -> &'static str {
        match self {
            Self::Number { unit: "ms", .. } => "MS",
            Self::Number { unit: "s", .. } => "SECONDS",
            Self::Number { unit: "bytes", .. } => "BYTES",
            Self::Number { .. } => "N",
            Self::Switch => "BOOL",
            Self::Text { .. } | Self::TextOrOff { .. } => "TEXT",
            Self::Word { .. } => "NAME",
            Self::Choice(_) => "WORD",
            Self::Address => "IP",
            Self::Host | Self::List(Entry::Host) => "HOST",
            Self::Path => "PATH",
            Self::List(Entry::Variable) => "KEY=VALUE",
            Self::List(Entry::Header) => "NAME=VALUE",
            Self::List(Entry::Network) => "NETWORK",
        }
    }
}

impl Opt {
    /// The part before the dot, "" for the few names without one.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The default in words, for the reference.
    pub fn default_text(&self) -> &'static str {
        match self.default {
            Default::Fixed("") => "empty",
            Default::Fixed(text) => text,
            Default::PerCpu { rule, .. } => rule,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_spelled_like_the_originals() {
        let mut names: Vec<_> =
            BUILT.iter().map(|o| o.name).chain(UNBUILT.iter().map(|o| o.name)).collect();
        for name in &names {
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || "._*0123456789".contains(c)),
                "{name}"
            );
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "an option stands in the table twice");
    }

    #[test]
    fn help_texts_are_sentences() {
        for opt in BUILT {
            assert!(opt.help.ends_with('.'), "{}: {:?}", opt.name, opt.help);
            assert!(opt.help.chars().next().is_some_and(char::is_uppercase), "{}", opt.name);
        }
    }

    #[test]
    fn mistyped_names_find_their_neighbour() {
        for (typed, meant) in [
            ("socket.prot", Some("socket.port")),
            ("socket.pong_wait", Some("socket.pong_wait_ms")),
            ("Socket.Port", Some("socket.port")),
            ("socket.max-message-size-bytes", Some("socket.max_message_size_bytes")),
            ("server_key", Some("socket.server_key")),
            ("limit.requests_per_user", Some("limit.requests_per_user_per_s")),
            ("session.token_expiry", Some("session.token_expiry_sec")),
            ("matchmaker.intervalsec", Some("matchmaker.interval_sec")),
            ("datadir", Some("data_dir")),
            ("zzz", None),
            ("", None),
            ("completely.different_thing", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(10_000)), None);
    }
}
