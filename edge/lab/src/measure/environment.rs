//! Where a run took place: what must stand beside a figure so that it can be reproduced.
//!
//! Everything is read from the system and may be missing; nothing here changes anything.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secrets::typed;

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
}

impl Environment {
    /// Reads it from the system.
    #[must_use]
    pub fn read() -> Self {
        let uname = rustix::system::uname();
        let cpuinfo = text("/proc/cpuinfo");
        let model = field(&cpuinfo, "model name").or(field(&cpuinfo, "CPU part"));
        let meminfo = text("/proc/meminfo");
        let memory_kb =
            field(&meminfo, "MemTotal").and_then(|it| it.split(' ').next()?.parse().ok());
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Self {
            command: typed(std::env::args_os().map(|it| it.to_string_lossy().into_owned())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("THRONG_COMMIT").to_owned(),
            server: String::new(),
            peer: String::new(),
            kernel: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            processor: model.unwrap_or_default().to_owned(),
            processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            processors_online: super::processors::online().len(),
            memory_bytes: memory_kb.unwrap_or(0_u64) * 1_024,
            load_average: text("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            open_files_max: files.current.unwrap_or(u64::MAX),
            somaxconn: text("/proc/sys/net/core/somaxconn"),
            ports: text("/proc/sys/net/ipv4/ip_local_port_range").replace('\t', "–"),
            cpu_quota: text("/sys/fs/cgroup/cpu.max"),
            mitigations: mitigations(),
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
        ];
        rows.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()
    }
}

/// A small file without the white space around it; empty when it cannot be read.
fn text(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn mitigations() -> Vec<String> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    let mut on: Vec<String> = folder
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let state = fs::read_to_string(entry.path()).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            state.starts_with("Mitigation").then_some(name)
        })
        .collect();
    on.sort();
    on
}

#[cfg(test)]
mod tests {
    use super::{Environment, field};
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
        assert!(!env!("THRONG_COMMIT").contains(char::is_whitespace));
    }

    #[test]
    fn this_machine_has_an_environment() {
        let environment = Environment::read();
        assert!(!environment.kernel.is_empty() && environment.processors > 0);
        assert!(environment.rows().iter().any(|(name, _)| *name == "Kernel"));
    }

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nmodel name\t: B\n";
        assert_eq!(field(text, "model name"), Some("A CPU @ 3 GHz"));
        assert_eq!(field(text, "flags"), None);
    }
}
