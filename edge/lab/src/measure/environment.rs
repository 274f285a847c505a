//! Where a run took place: what must stand beside a figure so that it can be reproduced.
//!
//! Everything is read from the system and may be missing; nothing here changes anything. What the
//! doctor reads too is read by its functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secrets::typed;
use crate::doctor::{Check, Tree, Verdict, examine, facts};

/// Empty where it is not known. (As a constant: Clippy refuses an empty literal that becomes a `String`.)
const COMMIT: &str = env!("THRONG_COMMIT");

/// The machine and the programs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The command line as it was typed, without the folder of the program and without keys.
    pub command: Vec<String>,
    /// Version of this program.
    pub version: String,
    /// Commit it was built from, with `-dirty` if files differed from it; empty when it was not
    /// built in its repository.
    pub commit: String,
    /// The `Server` header of the first answer.
    pub server: String,
    /// What was measured, in the words of whoever ran it (`--peer`): versions that no header says.
    #[serde(default)]
    pub peer: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine type.
    pub machine: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Processors that the machine has; 0 where that is not known.
    #[serde(default)]
    pub processors_online: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average of the last minute before the run: others on this machine.
    pub load_average: String,
    /// Frequency governor of the first processor.
    pub governor: String,
    /// Clock source.
    pub clock: String,
    /// Limit of open files.
    pub open_files_max: u64,
    /// `net.core.somaxconn`.
    pub somaxconn: String,
    /// `net.ipv4.ip_local_port_range`.
    pub ports: String,
    /// CPU quota of the control group.
    pub cpu_quota: String,
    /// Mitigations that are on.
    pub mitigations: Vec<String>,
    /// What `throng doctor` said before the run, its words only of what is to be seen to; empty in
    /// results of older versions.
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl Environment {
    /// Reads it from the system.
    #[must_use]
    pub fn read() -> Self {
        let tree = Tree::here();
        let uname = rustix::system::uname();
        let cpuinfo = tree.text_or_empty("/proc/cpuinfo");
        let model = facts::field(&cpuinfo, "model name").or(facts::field(&cpuinfo, "CPU part"));
        let memory_kb = facts::memory_kb(&tree.text_or_empty("/proc/meminfo"), "MemTotal");
        let files = facts::process_limit(&tree, "Max open files").ok().flatten();
        let load = tree.text_or_empty("/proc/loadavg");
        Self {
            command: typed(std::env::args_os().map(|it| it.to_string_lossy().into_owned())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: COMMIT.to_owned(),
            server: String::new(),
            peer: String::new(),
            kernel: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            processor: model.unwrap_or_default().to_owned(),
            processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            processors_online: facts::online(&tree).len(),
            memory_bytes: memory_kb.unwrap_or(0) * 1_024,
            load_average: load.split(' ').next().unwrap_or_default().to_owned(),
            governor: facts::governor(&tree),
            clock: facts::clock(&tree),
            open_files_max: files.map_or(0, |it| it.0),
            somaxconn: facts::sysctl(&tree, "net.core.somaxconn"),
            ports: facts::sysctl(&tree, "net.ipv4.ip_local_port_range").replace('\t', "–"),
            cpu_quota: facts::quota_text(&tree),
            mitigations: facts::mitigations(&tree),
            checks: examine(&tree).into_iter().map(|it| it.check.brief()).collect(),
        }
    }

    /// The command for a shell.
    #[must_use]
    pub fn command_line(&self) -> String {
        let quote = |word: &String| {
            let is_plain = |c: char| {
                c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '=' | ',')
            };
            if !word.is_empty() && word.chars().all(is_plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        };
        self.command.iter().map(quote).collect::<Vec<_>>().join(" ")
    }

    fn generator(&self) -> String {
        let commit = match &*self.commit {
            "" => "built outside its repository",
            commit => commit,
        };
        format!("throng {} ({commit})", self.version)
    }

    /// What the doctor wants to be seen to.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|it| matches!(it.verdict, Verdict::Warn | Verdict::Unread))
    }

    fn doctor(&self) -> String {
        let ids: Vec<&str> = self.warnings().map(|it| &*it.id).collect();
        match (self.checks.len(), ids.len()) {
            (0, _) => String::new(),
            (all, 0) => format!("{all} checks, nothing to see to"),
            (all, count) => format!("{count} of {all} checks to see to: {}", ids.join(", ")),
        }
    }

    /// Name and value of everything known, for tables.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let rows = [
            ("Measured", self.peer.clone()),
            ("Server says", self.server.clone()),
            ("Generator", self.generator()),
            ("Kernel", format!("{} {}", self.kernel, self.machine)),
            ("Processor", format!("{} × {}", self.processors, self.processor)),
            ("Memory", super::number::bytes(self.memory_bytes)),
            ("Load before", self.load_average.clone()),
            ("Governor", self.governor.clone()),
            ("Clock source", self.clock.clone()),
            ("Open files", self.open_files_max.to_string()),
            ("somaxconn", self.somaxconn.clone()),
            ("Local ports", self.ports.clone()),
            ("CPU quota", self.cpu_quota.clone()),
            ("Mitigations", self.mitigations.join(", ")),
            ("Doctor", self.doctor()),
        ];
        rows.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;
    use crate::doctor::Verdict;
    use crate::measure::secrets::typed;

    #[test]
    fn commands_can_be_typed_and_tell_neither_folders_nor_keys() {
        let words = "/home/a b/throng load rpc-lua --server-key s3cret --http-key=x --set a=b";
        let mut command = typed(words.replace("a b/", "b/").split(' ').map(str::to_owned));
        command.extend(["--server".to_owned(), "it's a server".to_owned(), String::new()]);
        let environment = Environment { command, ..Environment::default() };
        assert_eq!(
            environment.command_line(),
            "throng load rpc-lua --server-key KEY --http-key=KEY --set a=b --server \
             'it'\\''s a server' ''"
        );
    }

    #[test]
    fn the_commit_is_said_or_its_absence() {
        let environment = Environment::default();
        let said = |it: &Environment| it.rows().into_iter().find(|row| row.0 == "Generator");
        assert!(said(&environment).is_some_and(|row| row.1.contains("outside its repository")));
        let environment = Environment { commit: "6d0c398-dirty".to_owned(), ..environment };
        assert!(said(&environment).is_some_and(|row| row.1.ends_with("(6d0c398-dirty)")));
        // In a repository the build says which.
        assert!(!super::COMMIT.contains(char::is_whitespace));
    }

    #[test]
    fn this_machine_has_an_environment() {
        let environment = Environment::read();
        assert!(!environment.kernel.is_empty() && environment.processors > 0);
        for wanted in ["Kernel", "Clock source", "Open files", "somaxconn", "Doctor"] {
            assert!(environment.rows().iter().any(|(name, _)| *name == wanted), "{wanted}");
        }
        // A check that is as it should be takes little room in a result.
        assert!(environment.checks.len() > 20);
        assert!(
            environment.checks.iter().all(|it| it.cure.is_empty() || it.verdict == Verdict::Warn)
        );
    }
}
