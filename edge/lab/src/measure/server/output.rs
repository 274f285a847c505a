//! What a server that was started prints: read to its end on threads of its own, so that it never
//! blocks on it.
//!
//! In: its pipes. Out: the address that it tells, its last lines, and a file with all of it if one is
//! wanted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, ErrorKind, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{LISTENING, METRICS};

/// Last lines that are kept.
const LINES_MAX: usize = 64;
/// Bytes of one line, at most; the rest is skipped.
const LINE_BYTES_MAX: u64 = 4_096;
/// Bytes of the file, at most; the rest is dropped, and the file's last line says so.
const LOG_BYTES_MAX: usize = 64 << 20;

/// What has been printed.
#[derive(Debug, Default)]
struct Printed {
    last_lines: VecDeque<String>,
    /// The first address that a line has told.
    said: Option<String>,
    /// Where its metrics are, by the first line that tells it: `host:port`.
    metrics: Option<String>,
    log: Option<Log>,
}

/// The file with all of it.
#[derive(Debug)]
struct Log {
    file: BufWriter<File>,
    room: usize,
}

/// The output of a server.
#[derive(Clone, Debug)]
pub(super) struct Output(Arc<Mutex<Printed>>);

impl Output {
    /// Keeps all of it in this file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn to(path: Option<&Path>) -> std::io::Result<Self> {
        let file = path.map(File::create).transpose()?;
        let log = file.map(|file| Log { file: BufWriter::new(file), room: LOG_BYTES_MAX });
        Ok(Self(Arc::new(Mutex::new(Printed { log, ..Printed::default() }))))
    }

    /// Reads `from` to its end, whatever stands there.
    pub(super) fn take(&self, from: impl Read + Send + 'static) {
        let to = self.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            loop {
                line.clear();
                match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                    Ok(1..) => {
                        if line.last() != Some(&b'\n') && from.skip_until(b'\n').is_err() {
                            return;
                        }
                        to.print(&line, from.buffer().is_empty());
                    }
                    Ok(0) => return,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
    }

    /// Takes a line; `is_last` of those that have come.
    fn print(&self, line: &[u8], is_last: bool) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\r', '\n']);
        let mut printed = self.lock();
        if printed.said.is_none() {
            printed.said = address(text, LISTENING).map(|it| format!("http://{it}"));
        }
        if printed.metrics.is_none() {
            let page = address(text, METRICS);
            printed.metrics = page.map(|it| it.split('/').next().unwrap_or(it).to_owned());
        }
        if printed.last_lines.len() >= LINES_MAX {
            printed.last_lines.pop_front();
        }
        printed.last_lines.push_back(text.to_owned());
        if let Some(log) = &mut printed.log {
            log.print(text, is_last);
        }
    }

    /// What it printed last, at most [`LINES_MAX`] lines.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.lock().last_lines.iter().cloned().collect()
    }

    /// The first address that it has told.
    pub(super) fn said(&self) -> Option<String> {
        self.lock().said.clone()
    }

    /// Where its metrics are: `host:port`, if it has told.
    pub(super) fn metrics(&self) -> Option<String> {
        self.lock().metrics.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Printed> {
        // Lines are whole, whoever has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address behind some words.
fn address<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(words)?;
    let end = rest.find(|c: char| c.is_whitespace() || "\"',".contains(c));
    Some(&rest[..end.unwrap_or(rest.len())])
}

impl Log {
    /// A disk that is full costs the log and not the run.
    fn print(&mut self, text: &str, is_last: bool) {
        if self.room == 0 {
            return;
        }
        self.room = self.room.saturating_sub(text.len() + 1);
        let end = if self.room == 0 { "(the rest was not kept: 64 MB)" } else { text };
        let _ = writeln!(self.file, "{end}");
        if is_last || self.room == 0 {
            let _ = self.file.flush();
        }
    }
}
