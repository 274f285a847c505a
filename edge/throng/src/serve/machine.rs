//! What scripts may have of this machine: files below `runtime.path`, the settings that are no
//! secret, and a place for their own metrics. Implements `game::guest::Machine`; nothing is written
//! to the disk here.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use event::Now;
use game::guest::{HostError, Machine, Metric};
use game::host::Meter;
use game::value::Value;

use crate::config::Config;
use crate::metrics::CustomMetrics;

/// Bytes of a file that a script reads; a larger one is an error.
const FILE_BYTES_MAX: usize = 16 << 20;

/// The machine as one thread's scripts see it.
#[derive(Clone, Debug)]
pub(super) struct ScriptMachine {
    root: PathBuf,
    config: Value,
    metrics: Arc<CustomMetrics>,
}

impl ScriptMachine {
    pub(super) fn new(config: &Config, metrics: Arc<CustomMetrics>) -> Self {
        Self { root: config.runtime.path.clone(), config: shown(config), metrics }
    }
}

impl Machine for ScriptMachine {
    fn file_read(&self, path: &str, meter: &dyn Meter) -> Result<Bytes, HostError> {
        read(&self.root, path, meter).map(Bytes::from)
    }

    fn config(&self) -> Value {
        self.config.clone()
    }

    fn record(&self, now: Now, metric: &Metric<'_>) {
        self.metrics.apply(now, metric);
    }
}

/// Reads a file below `root`. Links are followed only as far as they stay there; a leading slash
/// means `root` itself, as in Nakama.
fn read(root: &Path, path: &str, meter: &dyn Meter) -> Result<Vec<u8>, HostError> {
    let refused = |why: &dyn std::fmt::Display| {
        HostError::new(format!("failed to open file: open {path}: {why}"))
    };
    let outside = || refused(&"not below `runtime.path`");
    let relative = Path::new(path.trim_start_matches('/'));
    let root = root.canonicalize().map_err(|error| refused(&error))?;
    let goes_up = relative.components().any(|part| part == std::path::Component::ParentDir);
    let file = match root.join(relative).canonicalize() {
        Ok(file) => file,
        // What lies outside is not even said to be there or not.
        Err(_) if goes_up => return Err(outside()),
        Err(error) => return Err(refused(&error)),
    };
    if !file.starts_with(&root) {
        return Err(outside());
    }
    // Looked at before it is opened: to open a pipe would wait for a writer.
    let metadata = std::fs::metadata(&file).map_err(|error| refused(&error))?;
    if !metadata.is_file() {
        return Err(refused(&"not a file"));
    }
    let size = usize::try_from(metadata.len()).ok().filter(|size| *size <= FILE_BYTES_MAX);
    let size = size.ok_or_else(|| {
        HostError::new(format!("failed to read file: {path} is larger than {FILE_BYTES_MAX} bytes"))
    })?;
    meter.hold(size)?;
    let open = std::fs::File::open(&file).map_err(|error| refused(&error))?;
    let mut bytes = Vec::with_capacity(size);
    // What has been appended meanwhile is not read.
    let read = open.take(metadata.len()).read_to_end(&mut bytes);
    read.map_err(|error| HostError::new(format!("failed to read file: {error}")))?;
    Ok(bytes)
}

/// The settings that scripts see, by Nakama's names. Keys and passwords are left out: whoever can
/// read them can make tokens of any user.
fn shown(config: &Config) -> Value {
    let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let env = config.runtime.env.iter().map(|(name, value)| Value::text(format!("{name}={value}")));
    table([
        ("name", Value::text(&*config.name)),
        ("shutdown_grace_sec", int(u64::from(config.shutdown_grace_s))),
        (
            "logger",
            table([("level", Value::text(config.logger.level.as_str().to_ascii_lowercase()))]),
        ),
        (
            "session",
            table([
                ("token_expiry_sec", int(config.session.token_expiry_s)),
                ("refresh_token_expiry_sec", int(config.session.refresh_token_expiry_s)),
                ("single_socket", Value::Bool(config.single_socket)),
                ("single_match", Value::Bool(false)),
                ("single_party", Value::Bool(false)),
                ("single_session", Value::Bool(false)),
            ]),
        ),
        (
            "socket",
            table([
                ("port", int(u64::from(config.listen.port()))),
                ("address", Value::text(config.listen.ip().to_string())),
                ("protocol", Value::text("tcp")),
            ]),
        ),
        ("runtime", table([("env", Value::List(env.collect()))])),
    ])
}

fn table<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    let member =
        |(name, value): (&'static str, Value)| (Bytes::from_static(name.as_bytes()), value);
    Value::Map(members.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use game::host::Unmetered;

    use super::{FILE_BYTES_MAX, read};

    #[test]
    #[cfg(unix)]
    fn scripts_read_files_below_their_folder_only() {
        let base = std::env::temp_dir().join(format!("throng-machine-{}", std::process::id()));
        let root = base.join("modules");
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::create_dir_all(base.join("modules-secret")).unwrap();
        std::fs::write(base.join("modules-secret/key"), "secret").unwrap();
        std::fs::write(root.join("data/words.txt"), "one\ntwo").unwrap();
        std::os::unix::fs::symlink("words.txt", root.join("data/link")).unwrap();
        std::os::unix::fs::symlink("../modules-secret/key", root.join("escape")).unwrap();
        std::os::unix::fs::symlink(&base, root.join("up")).unwrap();
        let large = std::fs::File::create(root.join("large")).unwrap();
        large.set_len(FILE_BYTES_MAX as u64 + 1).unwrap();
        let text = |path: &str| match read(&root, path, &Unmetered) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(error) => format!("!{}", error.message.rsplit(": ").next().unwrap()),
        };
        for (path, wanted) in [
            ("data/words.txt", "one\ntwo"),
            ("/data/words.txt", "one\ntwo"),
            ("./data/../data/words.txt", "one\ntwo"),
            ("data/link", "one\ntwo"),
            ("escape", "!not below `runtime.path`"),
            ("up/modules-secret/key", "!not below `runtime.path`"),
            ("../modules-secret/key", "!not below `runtime.path`"),
            ("../nothing", "!not below `runtime.path`"),
            ("../../../../../../etc/passwd", "!not below `runtime.path`"),
            ("data", "!not a file"),
            ("", "!not a file"),
            ("none", "!No such file or directory (os error 2)"),
            ("large", "!large is larger than 16777216 bytes"),
        ] {
            assert_eq!(text(path), wanted, "{path}");
        }
        assert!(read(&root, "a\0b", &Unmetered).is_err());
        std::fs::remove_dir_all(base).unwrap();
    }
}
