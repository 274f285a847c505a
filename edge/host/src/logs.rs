//! What servers print, kept in two files of a bounded size.
//!
//! A server writes into a named pipe that it holds open at both ends itself, so that it goes on when the
//! daemon is away; what the pipe has no room for then waits in the server. A thread for each copies it
//! into `log`, which becomes `log.1` when it is full. A server that writes more than its rate waits: it
//! alone pays for it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};

/// Bytes of one of the two files.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that wait in the pipe: what a server may print while the daemon is away.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line that are looked at for the text that says "ready".
const LINE_BYTES_MAX: usize = 4_096;
/// Bytes of one read.
const PIECE_BYTES: usize = 16 << 10;

/// What the reader tells of a server's output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// The text that was waited for came.
    Text,
    /// It is slowed, because it writes more than it may; said once a stretch of that.
    Slowed,
}

/// Makes a server's pipe, if it is not there.
///
/// # Errors
/// What the system says.
pub(crate) fn make_pipe(path: &Path, owner: Option<u32>) -> io::Result<()> {
    let kind = rustix::fs::FileType::Fifo;
    match rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0) {
        Err(rustix::io::Errno::EXIST) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    owner.map_or(Ok(()), |owner| std::os::unix::fs::chown(path, Some(owner), Some(owner)))
}

/// Copies one server's output.
pub(crate) struct Reader {
    pipe: File,
    log: File,
    folder: PathBuf,
    written: u64,
    rate: u64,
    /// What a line has to hold, until one has.
    text: Option<String>,
    line: Vec<u8>,
}

impl Reader {
    /// Opens the pipe, into which the server already writes.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(folder: &Path, rate: u64, text: Option<String>) -> io::Result<Self> {
        // Without a writer a plain open would wait for one.
        let pipe = folder.join("pipe");
        let pipe = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(pipe)?;
        let flags = fcntl_getfl(&pipe)?;
        fcntl_setfl(&pipe, flags - OFlags::NONBLOCK)?;
        // Refused beyond /proc/sys/fs/pipe-user-pages-soft: then it stays as large as it was.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES_MAX);
        let log = File::options().create(true).append(true).mode(0o600).open(folder.join("log"))?;
        let written = log.metadata()?.len();
        Ok(Self { pipe, log, folder: folder.to_owned(), written, rate, text, line: Vec::new() })
    }

    /// Copies until the server has closed its end.
    pub(crate) fn run(mut self, mut notice: impl FnMut(Noticed)) {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut since, mut bytes, mut is_slow) = (Instant::now(), 0_u64, false);
        loop {
            let len = match self.pipe.read(&mut piece) {
                Ok(0) => return,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if self.keep(&piece[..len]).is_err() {
                // The disk is full or gone: what is printed is read all the same, so that nobody waits.
                self.written = 0;
            }
            if self.finds(&piece[..len]) {
                notice(Noticed::Text);
            }
            bytes += len as u64;
            let elapsed = since.elapsed();
            if elapsed >= Duration::from_secs(1) {
                is_slow &= bytes >= self.rate;
                (since, bytes) = (Instant::now(), 0);
            } else if bytes >= self.rate {
                if !is_slow {
                    notice(Noticed::Slowed);
                }
                is_slow = true;
                std::thread::sleep(Duration::from_secs(1).saturating_sub(elapsed));
            }
        }
    }

    fn keep(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.written + piece.len() as u64 > FILE_BYTES_MAX {
            let log = self.folder.join("log");
            fs::rename(&log, self.folder.join("log.1"))?;
            self.log = File::options().create(true).append(true).mode(0o600).open(&log)?;
            self.written = 0;
        }
        self.log.write_all(piece)?;
        self.written += piece.len() as u64;
        Ok(())
    }

    /// Whether the text has come that was waited for.
    fn finds(&mut self, piece: &[u8]) -> bool {
        let Some(text) = &self.text else { return false };
        for byte in piece {
            if *byte != b'\n' && self.line.len() < LINE_BYTES_MAX {
                self.line.push(*byte);
                continue;
            }
            if String::from_utf8_lossy(&self.line).contains(&**text) {
                (self.text, self.line) = (None, Vec::new());
                return true;
            }
            self.line.clear();
        }
        // A prompt has no line end.
        let is_there = String::from_utf8_lossy(&self.line).contains(&**text);
        if is_there {
            self.text = None;
        }
        is_there
    }
}

/// The last lines of a server's output.
pub(crate) fn tail(folder: &Path, lines: usize) -> String {
    let mut text = Vec::new();
    for name in ["log.1", "log"] {
        let Ok(mut file) = File::open(folder.join(name)) else { continue };
        let from = file.metadata().map_or(0, |it| it.len().saturating_sub(FILE_BYTES_MAX));
        let _ = file.seek(SeekFrom::Start(from));
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    let mut last = all[all.len().saturating_sub(lines)..].join("\n");
    if !last.is_empty() {
        last.push('\n');
    }
    last
}
