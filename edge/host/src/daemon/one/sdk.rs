//! What a server says by the Agones SDK, and what becomes of it then.
//!
//! In: wishes at its desk. Out: its phase, and at the desk the state that Agones would give it:
//!
//! ```text
//! Starting   Scheduled, RequestReady after Ready()     Reserved   Reserved
//! Ready      Ready                                     Stopping   Shutdown; Unhealthy after a failure
//! Allocated  Allocated
//! ```
//!
//! Not here: calls (`crate::sdk`). Source: Agones 1.61, pkg/sdkserver and pkg/gameservers.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{End, One, PAUSE, PAUSE_MAX, Phase, SOUND};
use crate::fleet::{Restart, Wall};
use crate::sdk::desk::{Wanted, Who, Word};

/// How often what a server has written down is kept for the next daemon.
const KEPT_EVERY: Duration = Duration::from_secs(5);

/// The time in seconds since 1970.
pub(super) fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

impl One {
    /// What the SDK tells the server of itself.
    pub(super) fn who(&self) -> Who {
        Who {
            name: self.plan.name.clone(),
            address: self.plan.address.unwrap_or(Ipv4Addr::LOCALHOST).to_string(),
            ports: self.plan.ports.clone(),
            created_s: unix_s(),
        }
    }

    /// Where the SDK is to listen for it: where it did, if it goes on; in a network of its own as Agones
    /// does; else at any free ports.
    pub(in crate::daemon) fn doors(&self) -> (u16, u16) {
        let usual = || match self.plan.server.wall {
            Wall::Network => self.plan.server.sdk().unwrap_or_default().doors(),
            Wall::Process | Wall::Cgroup | Wall::Files => (0, 0),
        };
        self.doors.unwrap_or_else(usual)
    }

    /// Follows what it wants, if it may.
    pub(in crate::daemon) fn heard(&mut self, now: Instant) {
        let Some(wanted) = self.desk.take() else { return };
        match self.phase {
            // Its other way to become ready decides, if it has one: see `is_up`.
            Phase::Starting(_) if wanted == Wanted::Ready => self.has_said_ready = true,
            Phase::Starting(_) | Phase::Ready | Phase::Allocated | Phase::Reserved(_) => {
                match wanted {
                    Wanted::Ready => self.phase = Phase::Ready,
                    Wanted::Allocated => {
                        self.phase = Phase::Allocated;
                        self.desk.allocated(unix_s(), &crate::sdk::desk::Metadata::default());
                    }
                    Wanted::Reserved(time) => {
                        self.phase = Phase::Reserved(time.and_then(|it| now.checked_add(it)));
                    }
                    Wanted::Shutdown => self.end(End::Shutdown, now),
                }
            }
            // It is ending, or has ended: nothing is followed any more.
            Phase::Due(_) | Phase::Stopping(..) | Phase::Stopped | Phase::Failed(_) => {}
        }
        self.tell_desk();
    }

    /// It has ended as it wanted. One that is to be there always is started again, after a pause if it does
    /// so often.
    pub(super) fn has_shut_down(&mut self, now: Instant) {
        self.what = String::from("ended by its own Shutdown()");
        let server = &self.plan.server;
        if server.restart != Restart::Always || server.on_demand {
            self.phase = Phase::Stopped;
            return;
        }
        let is_often = now.duration_since(self.since) < SOUND;
        self.shutdowns = if is_often { self.shutdowns.saturating_add(1) } else { 0 };
        let pause = match self.shutdowns.checked_sub(1) {
            None => Duration::ZERO,
            Some(times) => PAUSE.saturating_mul(1 << times.min(16)).min(PAUSE_MAX),
        };
        self.phase = Phase::Due(now + pause);
    }

    /// Why it counts as unhealthy, if it is made for Agones and does.
    pub(super) fn unhealthy(&self, now: Instant) -> Option<String> {
        let is_running = match self.phase {
            Phase::Starting(_) => self.has_begun,
            Phase::Ready | Phase::Allocated | Phase::Reserved(_) => true,
            Phase::Due(_) | Phase::Stopping(..) | Phase::Stopped | Phase::Failed(_) => false,
        };
        let server = &self.plan.server;
        let is_asked = is_running && (server.ready.sdk || server.agones.is_some());
        is_asked.then(|| self.desk.unhealthy(now)).flatten()
    }

    /// Writes its state at the desk, for who watches.
    pub(super) fn tell_desk(&self) {
        let word = match self.phase {
            Phase::Starting(_) => Word::Scheduled,
            Phase::Ready => Word::Ready,
            Phase::Allocated => Word::Allocated,
            Phase::Reserved(_) => Word::Reserved,
            Phase::Stopping(_, End::Failure) => Word::Unhealthy,
            Phase::Stopping(_, End::Wanted | End::Shutdown) => Word::Shutdown,
            // Nobody is there to be told.
            Phase::Due(_) | Phase::Stopped | Phase::Failed(_) => return,
        };
        self.desk.set_word(word);
    }

    /// Whether what it has written down should be kept again.
    pub(in crate::daemon) fn owes_record(&mut self, now: Instant) -> bool {
        let (at, version) = self.kept;
        if now.duration_since(at) < KEPT_EVERY {
            return false;
        }
        self.kept = (now, self.desk.version());
        self.kept.1 != version
    }
}
