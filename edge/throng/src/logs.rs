//! The log: text for a terminal, JSON lines for machines, to the standard output and a file.
//!
//! A thread of its own does the writing, so that a reader that does not read (a stopped terminal,
//! a full pipe) never stops the server: at most [`LINES_MAX`] lines wait, more are dropped and
//! counted ([`dropped_lines`]), and the next line that fits says so.
//!
//! What is deliberately not here: secrets. Tokens and keys are never passed to a log line.

mod escape;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use crate::config::{LogFormat, LoggerConfig};

/// Lines that may wait for the writing thread, per destination; a line is mostly below 200 bytes.
pub const LINES_MAX: usize = 16_384;

/// Bytes of one line; the rest is cut off, so that nothing a peer sends can fill the memory.
pub const LINE_BYTES_MAX: usize = 16_384;

/// For subcommands without a configuration file.
pub const TERMINAL: LoggerConfig =
    LoggerConfig { level: Level::INFO, format: LogFormat::Auto, stdout: true, file: None };

/// For subcommands whose standard output is their result.
pub const QUIET: LoggerConfig =
    LoggerConfig { level: Level::WARN, format: LogFormat::Auto, stdout: false, file: None };

/// Of all destinations; each also counts for itself, to report its own.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines that were dropped since the start because the destination did not take them.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened for writing.
    #[error("cannot write the log to {} (`logger.file`): {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    /// The writing thread cannot be started.
    #[error("cannot start the log's thread: {0}")]
    Thread(io::Error),
    /// Somebody has set the process's logger before.
    #[error("the log was started twice")]
    Twice,
}

/// Keeps the log alive; dropping it writes what is still waiting.
pub struct Logs(Vec<Sink>);

impl Drop for Logs {
    fn drop(&mut self) {
        for sink in &mut self.0 {
            sink.finish();
        }
    }
}

/// Starts the log of this process.
///
/// # Errors
/// If a destination cannot be written to.
pub fn start(config: &LoggerConfig) -> Result<Logs, LogError> {
    let mut sinks = Vec::new();
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
    if config.stdout {
        let terminal = io::stdout().is_terminal();
        let json = is_json(config.format, terminal);
        let sink = Sink::start(io::stdout(), json)?;
        layers.push(layer(json, terminal, &sink));
        sinks.push(sink);
    }
    if let Some(path) = &config.file {
        let json = is_json(config.format, false);
        let sink = Sink::start(open(path)?, json)?;
        layers.push(layer(json, false, &sink));
        sinks.push(sink);
    }
    let level = LevelFilter::from_level(config.level);
    let subscriber = tracing_subscriber::registry().with(layers.with_filter(level));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Twice)?;
    Ok(Logs(sinks))
}

fn open(path: &Path) -> Result<File, LogError> {
    let opened = File::options().append(true).create(true).open(path);
    opened.map_err(|error| LogError::File { path: path.to_owned(), error })
}

fn is_json(format: LogFormat, terminal: bool) -> bool {
    match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    }
}

fn layer(json: bool, colours: bool, sink: &Sink) -> Box<dyn Layer<Registry> + Send + Sync> {
    let writer = sink.writer((!json).then_some(colours));
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    if json {
        layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else {
        layer.with_target(false).boxed()
    }
}

/// One destination and the thread that writes to it.
struct Sink {
    lines: Option<SyncSender<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    done: Receiver<()>,
}

impl Sink {
    fn start(destination: impl Write + Send + 'static, json: bool) -> Result<Self, LogError> {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let (finished, done) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                write_lines(&waiting, destination, json, &count);
                // The other side may have given up waiting.
                let _ = finished.try_send(());
            })
            .map_err(LogError::Thread)?;
        Ok(Self { lines: Some(lines), dropped, thread: Some(thread), done })
    }

    fn writer(&self, text: Option<bool>) -> LineWriter {
        LineWriter { lines: self.lines.clone(), dropped: Arc::clone(&self.dropped), text }
    }

    /// Lets the thread write what is waiting, for a bounded time: the destination may be stuck.
    fn finish(&mut self) {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
        if let Some(lines) = self.lines.take() {
            // An empty line is the end: the subscriber is global and keeps its own sender.
            let _ = lines.try_send(Vec::new());
        }
        if self.done.recv_timeout(PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Written without the logger: it must not need the path that has just failed.
fn dropped_notice(json: bool, lines: u64) -> String {
    let message = format!("{lines} log lines dropped: whoever reads the log is too slow");
    if json { format!(r#"{{"level":"WARN","message":"{message}"}}"#) } else { message }
}

fn write_lines(
    waiting: &Receiver<Vec<u8>>,
    mut destination: impl Write,
    json: bool,
    dropped: &AtomicU64,
) {
    let mut reported = 0;
    while let Ok(line) = waiting.recv() {
        if line.is_empty() {
            break;
        }
        let dropped = dropped.load(Ordering::Relaxed);
        if dropped != reported {
            let _ = writeln!(destination, "{}", dropped_notice(json, dropped - reported));
            reported = dropped;
        }
        if destination.write_all(&line).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _ = destination.flush();
}

/// Gives every event a line to collect.
struct LineWriter {
    lines: Option<SyncSender<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
    /// In the text format, whether there are colours; nothing for JSON.
    text: Option<bool>,
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            bytes: Vec::with_capacity(256),
            lines: self.lines.as_ref(),
            dropped: &self.dropped,
            text: self.text,
        }
    }
}

/// One line in the making; it is handed over when the event is complete.
struct Line<'a> {
    bytes: Vec<u8>,
    lines: Option<&'a SyncSender<Vec<u8>>>,
    dropped: &'a AtomicU64,
    text: Option<bool>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LINE_BYTES_MAX.saturating_sub(self.bytes.len() + 1).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or_default());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Some(lines) = self.lines else { return };
        if self.bytes.is_empty() {
            return;
        }
        if let Some(colours) = self.text {
            escape::escape(&mut self.bytes, colours);
        }
        if self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        let (Ok(()) | Err(TrySendError::Disconnected(_))) =
            lines.try_send(std::mem::take(&mut self.bytes))
        else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a destination holds after these lines were logged.
    fn logged(json: bool, log: impl FnOnce()) -> String {
        let page = Page::default();
        let mut sink = Sink::start(page.clone(), json).unwrap();
        let layer = layer(json, false, &sink).with_filter(LevelFilter::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        sink.finish();
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_are_objects_with_the_message_on_top() {
        let page = logged(true, || {
            tracing::info!(port = 7350, "listening on http://127.0.0.1:7350");
            tracing::debug!("not this one");
            tracing::warn!("a \"quoted\" line\nwith a break");
        });
        let lines: Vec<serde_json::Value> =
            page.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{page}");
        assert_eq!(lines[0]["message"], "listening on http://127.0.0.1:7350");
        assert_eq!(lines[0]["port"], 7350);
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[1]["message"], "a \"quoted\" line\nwith a break");
    }

    #[test]
    fn text_lines_hold_level_and_message() {
        let page = logged(false, || tracing::error!(code = 3, "it broke"));
        assert!(page.contains("ERROR it broke code=3\n"), "{page}");
    }

    #[test]
    fn a_long_line_is_cut() {
        let page = logged(false, || tracing::info!("{}", "x".repeat(10 * LINE_BYTES_MAX)));
        assert_eq!(page.len(), LINE_BYTES_MAX);
        assert!(page.ends_with("x\n"));
    }

    #[test]
    fn a_text_line_is_one_line_whatever_is_logged() {
        let page = logged(false, || {
            tracing::info!(name = "a\nb", "script\n2026-11-21 ERROR forged\u{1b}[2J");
        });
        assert_eq!(page.lines().count(), 1, "{page}");
        assert!(page.contains("script\\n2026-11-21 ERROR forged"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
    }

    #[test]
    fn lines_beyond_the_queue_are_dropped_and_counted() {
        let (lines, waiting) = sync_channel(2);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = LineWriter { lines: Some(lines), dropped: Arc::clone(&dropped), text: None };
        for _ in 0..5 {
            writer.make_writer().write_all(b"line").unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        assert!(dropped_lines() >= 3);
        drop(writer);
        let mut page = Vec::new();
        write_lines(&waiting, &mut page, false, &dropped);
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("log lines dropped") && page.ends_with("line\nline\n"), "{page}");
        let notice: serde_json::Value = serde_json::from_str(&dropped_notice(true, 3)).unwrap();
        assert_eq!(notice["level"], "WARN");
    }
}
