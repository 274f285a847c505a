//! The protocol between a measurement and `throng ping serve`: the first line of a connection with
//! its answer, and the head of a message.
//!
//! A connection to the server's port begins with one line of text,
//!
//! ```text
//! throng/1 ping control version=0.0.0 token=TOKEN     opens a session
//! throng/1 ping tcp session=00c0ffee00c0ffee          a connection whose messages are sent back
//! throng/1 flow control version=0.0.0 token=TOKEN     opens a session of a flow
//! throng/1 flow tcp session=00c0ffee00c0ffee          one of its connections
//! ```
//!
//! and the server answers with one: `throng/1 ok session=… version=…`, or `throng/1 no WORD text`
//! and closes. The number is the version of the protocol, the second word the service, the third
//! the kind of connection. What does not begin with `throng/` is
//! HTTP. Datagrams begin with the number of a session, so that only who has opened one by TCP, from
//! the same address, is answered: nobody can be flooded by a forged sender.
//!
//! On the control connection the client says `?` twice a second and the server `!`; `count` is
//! answered with the datagrams of the session that the server got; `bye WORD` ends it, from either
//! side. So each end knows within two seconds that the other is gone. What else is said on it in a
//! session of a flow stands in `flow::words`.
//!
//! In: bytes of strangers, bounded. Out: lines and heads, or what is wrong with them.

use std::fmt::Write as _;
use std::time::Duration;

/// The version that this program speaks; rises when an older end could not understand a newer one.
pub(crate) const VERSION: u32 = 1;
/// What every first line begins with; what does not is HTTP.
pub(crate) const PREFIX: &str = "throng/";
/// Bytes of a line, at most.
pub(crate) const LINE_BYTES_MAX: usize = 1_024;
/// Bytes of a token, at most.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Bytes of a message's head: length in 4, nought in 4, number in 8; all big-endian.
pub(crate) const HEAD_BYTES: usize = 16;
/// How often the client says that it is there.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// Silence on the control connection after which the other end is gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_millis(1_600);

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Round trips.
    Ping,
    /// Throughput.
    Flow,
}

impl Service {
    /// As it stands in a first line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Flow => "flow",
        }
    }
}

/// What a connection is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Holds a session open.
    Control,
    /// Its messages are sent back, or it carries a flow.
    Tcp,
}

/// A client's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) service: Service,
    pub(crate) role: Role,
    /// Of a control connection.
    pub(crate) token: Option<String>,
    /// Of the others.
    pub(crate) session: Option<u64>,
    /// The program's.
    pub(crate) version: String,
}

/// Why a first line is not taken. Its word is for programs, its text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Another version of the protocol.
    #[error(
        "the server (throng {}) speaks version {VERSION} of the protocol, the other end version \
         {theirs}: use one version of throng at both ends",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// As they say.
        theirs: String,
    },
    /// A service or kind that there is not.
    #[error("this server does not do `{0}`")]
    Service(String),
    /// Not a line of this protocol.
    #[error("not a first line of this protocol")]
    Form,
    /// Something that is understood, and more than there may be.
    #[error("{0}")]
    Asked(&'static str),
    /// No token, or a wrong one.
    #[error("the token is missing or wrong: --token TOKEN, or THRONG_TOKEN in the environment")]
    Token,
    /// Too many wrong ones of late.
    #[error(
        "too many wrong tokens came from this address: none is looked at for {wait_s} s; then say the \
         right one with --token TOKEN, or THRONG_TOKEN in the environment"
    )]
    Guessing {
        /// Seconds until another is looked at.
        wait_s: u32,
    },
    /// No such session, or another address'.
    #[error("there is no such session of this address")]
    Session,
    /// A limit.
    #[error("{0}")]
    Busy(String),
}

impl Refusal {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Version { .. } => "version",
            Self::Service(_) => "service",
            Self::Form | Self::Asked(_) => "form",
            Self::Token => "token",
            Self::Guessing { .. } => "guessing",
            Self::Session => "session",
            Self::Busy(_) => "busy",
        }
    }

    /// The server's answer.
    pub(crate) fn line(&self) -> String {
        format!("{PREFIX}{VERSION} no {} {self}\n", self.word())
    }
}

impl Hello {
    pub(crate) fn line(&self) -> String {
        let role = match self.role {
            Role::Control => "control",
            Role::Tcp => "tcp",
        };
        let (service, version) = (self.service.word(), &self.version);
        let mut line = format!("{PREFIX}{VERSION} {service} {role} version={version}");
        if let Some(session) = self.session {
            // Writing to a String cannot fail.
            let _ = write!(line, " session={session:016x}");
        }
        if let Some(token) = &self.token {
            let _ = write!(line, " token={token}");
        }
        line.push('\n');
        line
    }

    /// Reads a first line without its line end.
    pub(crate) fn read(line: &str) -> Result<Self, Refusal> {
        let mut words = line.split(' ');
        let version = words.next().and_then(|it| it.strip_prefix(PREFIX)).ok_or(Refusal::Form)?;
        if version != VERSION.to_string() {
            return Err(Refusal::Version { theirs: short(version) });
        }
        let service = words.next().unwrap_or("");
        let (service, role) = match (service, words.next().unwrap_or("")) {
            ("ping", "control") => (Service::Ping, Role::Control),
            ("ping", "tcp") => (Service::Ping, Role::Tcp),
            ("flow", "control") => (Service::Flow, Role::Control),
            ("flow", "tcp") => (Service::Flow, Role::Tcp),
            (service, kind) => return Err(Refusal::Service(short(&format!("{service} {kind}")))),
        };
        let version = String::new();
        let mut hello = Self { service, role, token: None, session: None, version };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "version" => hello.version = short(value),
                "token" => hello.token = Some(value.to_owned()),
                "session" => hello.session = u64::from_str_radix(value, 16).ok(),
                // What a newer program of this version says besides can be left out.
                _ => {}
            }
        }
        Ok(hello)
    }
}

/// What the server answers to a first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Ok { session: u64, version: String },
    No { word: String, text: String },
}

/// Why an answer cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadReply {
    /// Another version of the protocol.
    Version(String),
    /// Nothing of this protocol.
    Foreign,
}

impl Reply {
    pub(crate) fn line(session: u64) -> String {
        let version = env!("CARGO_PKG_VERSION");
        format!("{PREFIX}{VERSION} ok session={session:016x} version={version}\n")
    }

    pub(crate) fn read(line: &str) -> Result<Self, BadReply> {
        let rest = line.strip_prefix(PREFIX).ok_or(BadReply::Foreign)?;
        let (version, rest) = rest.split_once(' ').ok_or(BadReply::Foreign)?;
        // A refusal is understood whatever version it is of.
        if let Some(rest) = rest.strip_prefix("no ") {
            let (word, text) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok(Self::No { word: word.to_owned(), text: text.to_owned() });
        }
        if version != VERSION.to_string() {
            return Err(BadReply::Version(short(version)));
        }
        let field = |name: &str| {
            let mut words = rest.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let session = field("session").and_then(|it| u64::from_str_radix(it, 16).ok());
        let session = session.filter(|_| rest.starts_with("ok")).ok_or(BadReply::Foreign)?;
        Ok(Self::Ok { session, version: short(field("version").unwrap_or("")) })
    }
}

/// A word of a stranger, cut.
fn short(word: &str) -> String {
    word.chars().take(40).collect()
}

/// Whether somebody may say this as a token: it is one word of a line.
#[must_use]
pub fn is_token(token: &str) -> bool {
    !token.is_empty()
        && token.len() <= TOKEN_BYTES_MAX
        && token.bytes().all(|it| it.is_ascii_graphic())
}

/// Compares in a time that tells nothing of where two tokens differ.
pub(crate) fn is_same_token(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut differs = u8::from(one.len() != other.len());
    for index in 0..TOKEN_BYTES_MAX {
        let byte = |of: &[u8]| of.get(index).copied().unwrap_or(0);
        differs = std::hint::black_box(differs | (byte(one) ^ byte(other)));
    }
    differs == 0 && one.len() <= TOKEN_BYTES_MAX
}

/// The head of message `number` of `len` bytes, this head's among them.
pub(crate) fn head(len: u32, number: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&len.to_be_bytes());
    head[8..].copy_from_slice(&number.to_be_bytes());
    head
}

/// Length and number of a message.
pub(crate) fn read_head(head: [u8; HEAD_BYTES]) -> (u32, u64) {
    let [a, b, c, d, _, _, _, _, number @ ..] = head;
    (u32::from_be_bytes([a, b, c, d]), u64::from_be_bytes(number))
}

/// The first bytes of a datagram: whose it is, and its number.
pub(crate) fn datagram_head(session: u64, number: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&session.to_be_bytes());
    head[8..].copy_from_slice(&number.to_be_bytes());
    head
}

/// Session and number of a datagram; none of one that is too short.
pub(crate) fn read_datagram(datagram: &[u8]) -> Option<(u64, u64)> {
    let (session, rest) = datagram.split_first_chunk()?;
    let number = rest.first_chunk()?;
    Some((u64::from_be_bytes(*session), u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::{
        BadReply, Hello, Refusal, Reply, Role, Service, TOKEN_BYTES_MAX, head, is_same_token,
        is_token, read_head,
    };

    #[test]
    fn lines_are_read_back() {
        for hello in [
            Hello {
                service: Service::Flow,
                role: Role::Control,
                token: Some("s3cret=".to_owned()),
                session: None,
                version: "1.2".to_owned(),
            },
            Hello {
                service: Service::Ping,
                role: Role::Tcp,
                token: None,
                session: Some(7),
                version: "1.2".to_owned(),
            },
        ] {
            let line = hello.line();
            assert_eq!(Hello::read(line.strip_suffix('\n').unwrap()), Ok(hello));
        }
        let line = Reply::line(0xabc);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(Reply::read(line.trim_end()), Ok(Reply::Ok { session: 0xabc, version }));
        let no = Refusal::Token.line();
        let Ok(Reply::No { word, text }) = Reply::read(no.trim_end()) else { panic!("{no}") };
        assert!(word == "token" && text.contains("--token"), "{text}");
    }

    #[test]
    fn what_is_wrong_with_a_first_line_is_named() {
        for (line, part) in [
            ("throng/2 ping control", "version 1 of the protocol, the other end version 2"),
            ("throng/1 mail tcp", "does not do `mail tcp`"),
            ("throng/1 ping sideways", "does not do `ping sideways`"),
            ("throng/1", "does not do ` `"),
            ("SSH-2.0-OpenSSH", "not a first line"),
            ("", "not a first line"),
        ] {
            let refusal = Hello::read(line).unwrap_err();
            assert!(refusal.to_string().contains(part), "{line}: {refusal}");
        }
        assert_eq!(Reply::read("throng/9 ok session=1"), Err(BadReply::Version("9".to_owned())));
        assert!(matches!(Reply::read("throng/9 no version x"), Ok(Reply::No { .. })));
        for line in ["", "220 mail", "throng/1 ok", "throng/1 yes session=1", "HTTP/1.1 400 Bad"] {
            assert_eq!(Reply::read(line), Err(BadReply::Foreign), "{line}");
        }
        // Whatever a stranger says, the answer is one short line.
        let refusal = Hello::read(&format!("throng/{}", "x".repeat(10_000))).unwrap_err();
        assert!(refusal.line().len() < 300 && refusal.line().ends_with('\n'));
    }

    #[test]
    fn tokens_are_compared_whole() {
        let long = "x".repeat(TOKEN_BYTES_MAX);
        for (one, other, wanted) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a\0", false),
            ("a", "", false),
            (&long, &long, true),
            ("abcdef", "abcdeg", false),
        ] {
            assert_eq!(is_same_token(one, other), wanted, "{one:?} {other:?}");
        }
        assert!(is_token("a-b=c") && !is_token("a b") && !is_token("") && !is_token("ä"));
    }

    #[test]
    fn heads_are_read_back() {
        assert_eq!(read_head(head(64, 0x0102_0304_0506)), (64, 0x0102_0304_0506));
    }
}
