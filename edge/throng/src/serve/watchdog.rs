//! The end of the process, whatever hangs: a script in a loop, a call of the database, a thread
//! that takes no mail. Some seconds after the grace of a shutdown a thread of its own says which
//! threads have not ended and what is lost by it, and ends the process.
//!
//! What was acknowledged is committed, so nothing of that is lost: this is no worse than `kill -9`.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::Running;
use server::mail::Mail;
use server::stats::{CoreStats, RoomStats};

/// How long after the grace time is up: the process is gone half a second later.
const AFTER_GRACE: Duration = Duration::from_millis(4_400);
/// For saying what is lost, and then for ending.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What the watchdog looks at when time is up.
pub(super) struct Watched {
    pub(super) running: Weak<Running<Mail>>,
    pub(super) cores: Vec<Arc<CoreStats>>,
    pub(super) rooms: Vec<Arc<RoomStats>>,
}

/// What had not ended when time was up.
struct Lost {
    /// Threads, with how much mail waits for each.
    threads: Vec<(String, usize)>,
    calls: u64,
    matches: u64,
    sockets: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, matches, sockets, .. } = self;
        out.write_str("not ended in time: ")?;
        for (at, (name, mail)) in self.threads.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(out, "{comma}{name} ({mail} mails wait for it)")?;
        }
        write!(
            out,
            "; lost: {calls} calls without an answer, {matches} matches without an end, \
             {sockets} sockets without a close frame"
        )
    }
}

impl Watched {
    fn lost(&self) -> Lost {
        let running = self.running.upgrade();
        let threads = running.iter().flat_map(|running| {
            let counters = running.counters();
            let hung = counters.into_iter().filter(|thread| !running.is_finished(thread.thread));
            hung.map(|thread| (thread.name, thread.mail_waiting)).collect::<Vec<_>>()
        });
        Lost {
            threads: threads.collect(),
            calls: self.cores.iter().map(|core| core.jobs_waiting.read()).sum(),
            matches: self.rooms.iter().map(|room| room.authoritative_matches.read()).sum(),
            sockets: self.cores.iter().map(|core| core.sessions.read()).sum(),
        }
    }
}

/// Ends the process with `code` five seconds after `grace`, unless it has ended by itself.
///
/// # Errors
/// If the system refuses a thread.
pub(super) fn start(grace: Duration, watched: Watched, code: u8) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("watchdog".to_owned());
    let watch = move || {
        std::thread::sleep(grace + AFTER_GRACE);
        tracing::error!("{}", watched.lost());
        // The log has a thread of its own, and may itself be what hangs.
        std::thread::sleep(LAST_WORDS);
        let end = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS);
            std::process::abort();
        });
        drop(end);
        std::process::exit(i32::from(code));
    };
    thread.spawn(watch).map(drop)
}
