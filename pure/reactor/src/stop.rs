//! How a core thread comes to its end: its connections take their last bytes, then they are
//! aborted, and the kernel gives back what it holds of them. Each step has its time.

use event::{CloseReason, ConnectFailure};

use crate::conns::Phase;
use crate::net::Net;

/// How long the kernel may take to give back what it holds of aborted connections when a thread
/// ends. It takes a turn or two; this is for a machine that hardly lets the thread run.
const ABORTING_MS_MAX: u32 = 10_000;

/// How far a thread is on its way to its end, and until when it may stay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// Connections take their last bytes.
    Draining(u64),
    /// Connections are aborted; the kernel gives back what it holds.
    Aborting(u64),
    Over,
}

impl Stage {
    pub(crate) fn due_ns(self) -> Option<u64> {
        match self {
            Self::Draining(due_ns) | Self::Aborting(due_ns) => Some(due_ns),
            Self::Running | Self::Over => None,
        }
    }
}

impl<M> Net<M> {
    pub(crate) fn stop(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        self.accepting = false;
        self.postman.process.close();
        self.stage = Stage::Draining(self.due_ns(self.limits.stop_ms));
        for slot in self.conns.taken() {
            let conn = self.conns.id(slot);
            match self.conns.at(slot).phase() {
                Phase::Open => {
                    self.close(conn);
                    self.conns.at(slot).reason = CloseReason::Shutdown;
                }
                Phase::Connecting => self.fail_connect(slot, ConnectFailure::Shutdown),
                // They are on their way out already, for a reason of their own.
                Phase::Free | Phase::Flushing | Phase::Lingering | Phase::Dying | Phase::Gone => {}
            }
        }
    }

    pub(crate) fn end_stage(&mut self, now_ns: u64) {
        if self.stage.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        if let Stage::Draining(_) = self.stage {
            self.stage = Stage::Aborting(self.due_ns(ABORTING_MS_MAX));
            for slot in self.conns.taken() {
                self.fail(slot, CloseReason::Shutdown);
            }
        } else {
            self.stage = Stage::Over;
        }
    }
}
