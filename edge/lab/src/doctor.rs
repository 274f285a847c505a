//! Is this machine set up for game servers? Checks of the limits, the network, the processors and
//! the memory, each with its value, a verdict, why it matters, where it was read, and the command
//! that changes it.
//!
//! A [`Tree`] of files goes in (this machine's, or one that was recorded), [`Finding`]s come out, and
//! from them text, JSON, and what every result of the lab remembers of its machine. [`apply`] does
//! what is safe and can be undone; nothing else here writes anything.
//!
//! Not here: the command line, and what only privileged or foreign tools see (statistics of drivers,
//! hash tables of network cards, what the cloud's own interface says).

mod accelerated;
mod change;
mod counters;
mod ethtool;
pub(crate) mod facts;
mod interface;
mod limits;
mod memory;
mod permission;
mod processor;
mod steering;
mod timing;
mod tree;
mod view;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{Applied, ChangeError, Undone, Was, apply, undo};
pub use tree::{Tree, Unread};
pub use view::{text, text_of_applied, text_of_undone};

/// What a check says.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Verdict {
    /// As it should be for a game server.
    #[default]
    #[serde(rename = "ok")]
    Ok,
    /// It costs players something, or will under load.
    #[serde(rename = "warn")]
    Warn,
    /// This machine has no such thing, or nothing can be said of it.
    #[serde(rename = "not applicable")]
    NotApplicable,
    /// It is there and could not be read.
    #[serde(rename = "unread")]
    Unread,
}

impl Verdict {
    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::NotApplicable => "not applicable",
            Self::Unread => "unread",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name, the same in all versions; of network interfaces `check:interface`.
    pub id: String,
    /// What was found.
    pub value: String,
    /// What to think of it.
    pub verdict: Verdict,
    /// Why it matters for a game server.
    #[serde(default)]
    pub why: String,
    /// The file, or the question to the kernel, that it was read from.
    #[serde(default)]
    pub source: String,
    /// The command that changes it, or, where no command does, what does; empty where there is
    /// nothing to change.
    #[serde(default)]
    pub cure: String,
}

impl Check {
    /// As a result keeps it: the words only of what is to be seen to.
    #[must_use]
    pub fn brief(mut self) -> Self {
        if matches!(self.verdict, Verdict::Ok | Verdict::NotApplicable) {
            self.why.clear();
            self.source.clear();
            self.cure.clear();
        }
        self
    }

    /// Whether its value stays as it is while nobody changes it; of the others (drops since the
    /// start, memory in use) two runs only share the verdict.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let name = self.id.split(':').next().unwrap_or_default();
        !counters::VOLATILE.contains(&name)
    }
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What the system allows a process or a socket.
    Limits,
    /// Drops and queues of the network stack.
    Network,
    /// A network interface.
    Interfaces,
    /// Processors, their clocks, their quota.
    Processors,
    /// Memory.
    Memory,
    /// What this process may do.
    Permissions,
}

impl Group {
    /// As a headline.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Limits => "Limits",
            Self::Network => "Network stack",
            Self::Interfaces => "Network interfaces",
            Self::Processors => "Processors",
            Self::Memory => "Memory",
            Self::Permissions => "Permissions",
        }
    }
}

/// Something that can be written to a file of the kernel, safely: it takes effect at once, breaks no
/// connection, weakens no protection, and the old value can be written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file, as on the machine.
    pub path: String,
    /// What to write.
    pub value: String,
}

/// A check with what only the doctor needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is told.
    pub check: Check,
    /// Where it stands.
    pub group: Group,
    /// What [`apply`] does about it: nothing unless it is a warning that can be cured safely.
    pub changes: Vec<Change>,
}

impl Finding {
    fn of(id: impl Into<String>, group: Group, source: impl Into<String>, why: &str) -> Self {
        let check =
            Check { id: id.into(), source: source.into(), why: why.to_owned(), ..Check::default() };
        Self { check, group, changes: Vec::new() }
    }

    fn says(mut self, verdict: Verdict, value: impl Into<String>) -> Self {
        self.check.verdict = verdict;
        self.check.value = printable(value.into());
        self
    }

    fn ok(self, value: impl Into<String>) -> Self {
        self.says(Verdict::Ok, value)
    }

    fn warn(self, value: impl Into<String>) -> Self {
        self.says(Verdict::Warn, value)
    }

    /// A warning if something holds.
    fn warn_if(self, is_bad: bool, value: impl Into<String>) -> Self {
        self.says(if is_bad { Verdict::Warn } else { Verdict::Ok }, value)
    }

    fn none(self, value: impl Into<String>) -> Self {
        self.says(Verdict::NotApplicable, value)
    }

    fn unread(self, unread: &Unread) -> Self {
        self.says(Verdict::Unread, unread.to_string())
    }

    /// What changes it, whatever the verdict.
    fn cured_by(mut self, cure: impl Into<String>) -> Self {
        self.check.cure = printable(cure.into());
        self
    }

    /// What [`apply`] may do, if it is a warning.
    fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        if self.check.verdict == Verdict::Warn {
            self.changes = changes.into_iter().collect();
        }
        self
    }

    /// The finding of something that may be missing or unreadable.
    fn over<T>(
        self,
        read: tree::Read<T>,
        absent: &str,
        tell: impl FnOnce(Self, T) -> Self,
    ) -> Self {
        match read {
            Ok(Some(value)) => tell(self, value),
            Ok(None) => self.none(absent),
            Err(unread) => self.unread(&unread),
        }
    }
}

/// Without what could move a cursor: files of a recorded tree are a stranger's.
fn printable(text: String) -> String {
    if text.chars().any(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

/// Looks at everything, in the order of [`Group`].
#[must_use]
pub fn examine(tree: &Tree) -> Vec<Finding> {
    let mut found = limits::checks(tree);
    found.extend(counters::checks(tree));
    found.extend(interface::checks(tree));
    found.extend(steering::checks(tree));
    found.extend(timing::checks(tree));
    found.extend(accelerated::checks(tree));
    found.extend(processor::checks(tree));
    found.extend(memory::checks(tree));
    found.extend(permission::checks(tree));
    for finding in &mut found {
        // What stands there already is no change.
        finding.changes.retain(|it| !change::is_in_force(tree, it));
    }
    found
}

/// The checks as JSON: `{"checks": […]}`.
#[must_use]
pub fn json(findings: &[Finding]) -> String {
    let checks: Vec<&Check> = findings.iter().map(|it| &it.check).collect();
    let mut text =
        serde_json::to_string_pretty(&serde_json::json!({ "checks": checks })).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
pub(crate) mod tests;
