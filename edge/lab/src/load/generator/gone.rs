//! Whether the servers are gone: every connection has ended, and for a while none could be made.
//!
//! In: connections that stand, attempts that fail. Out: how the last attempt failed, once nobody is
//! there any more. Not here: a server that accepts and does not answer, and attempts that fail by this
//! machine's own limits.

use event::ConnectFailure;

use super::failure;
use crate::load::record::kind::Kind;

/// How long no connection can be made before a run ends: a server that is started again meanwhile, or
/// takes a pause, is measured with its outage. Players try again every second.
pub(super) const GONE_NS: u64 = 2_000_000_000;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Some connection has stood in this run.
    has_stood: bool,
    /// Attempts that failed since one last stood.
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    first_ns: u64,
    last_ns: u64,
    /// How the last one did.
    kind: Kind,
}

impl Gone {
    /// So many connections stand now.
    pub(super) fn stand(&mut self, connections: u32) {
        if connections > 0 {
            self.has_stood = true;
            self.failed = None;
        }
    }

    /// An attempt to connect has failed.
    pub(super) fn connect_failed(&mut self, now_ns: u64, failure: ConnectFailure) {
        match failure {
            ConnectFailure::Refused | ConnectFailure::TimedOut | ConnectFailure::Unreachable => {
                let first_ns = self.failed.as_ref().map_or(now_ns, |it| it.first_ns);
                let kind = failure::to_connect(failure);
                self.failed = Some(Failed { first_ns, last_ns: now_ns, kind });
            }
            ConnectFailure::NoLocalPort
            | ConnectFailure::NoFiles
            | ConnectFailure::NoSlot
            | ConnectFailure::Cancelled
            | ConnectFailure::Shutdown
            | ConnectFailure::Other { .. } => {}
        }
    }

    /// How the last attempt failed, if attempts have failed for [`GONE_NS`] and some connection has stood
    /// before. Not by the clock alone: nobody may have tried since.
    pub(super) fn why(&self) -> Option<&Kind> {
        let failed = self.failed.as_ref()?;
        let span_ns = failed.last_ns.saturating_sub(failed.first_ns);
        (self.has_stood && span_ns >= GONE_NS).then_some(&failed.kind)
    }
}
