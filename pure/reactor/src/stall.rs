//! Peers that do not take what is sent to them: whether they do is looked at now and then, and only
//! while anything waits, so that sending costs nothing more. A look visits every connection of the
//! thread (64 bytes each: 100,000 take about a millisecond).

use event::{CloseReason, ConnId};

use crate::conns::Phase;
use crate::counters::Count;
use crate::net::Net;

/// A stall is noticed this part of the patience late, at most.
const LOOKS_PER_PATIENCE: u32 = 4;

/// How often to look, for the shortest patience.
pub(crate) fn look_ms(patience_ms: u32) -> u32 {
    (patience_ms / LOOKS_PER_PATIENCE).clamp(5, 1_000)
}

impl<M> Net<M> {
    pub(crate) fn set_patience(&mut self, conn: ConnId, ms: u32) {
        let Some(state) = self.conns.named(conn) else { return };
        state.patience_ms = ms;
        self.look_ms = self.look_ms.min(look_ms(ms));
    }

    /// Whether a connection has not taken most of what was sent before.
    pub(crate) fn is_behind(&mut self, conn: ConnId) -> bool {
        let high = self.limits.output_bytes_high;
        self.conns
            .named(conn)
            .is_some_and(|state| state.unsent() > high.min(state.output_max / 2) as usize)
    }

    /// Closes the connections whose peers took too little for too long.
    pub(crate) fn end_stalls(&mut self, now_ns: u64) {
        let is_idle = self.counters.value(Count::Unsent) == 0;
        if is_idle && !self.burst.is_due() {
            self.look_ns = None;
        }
        if self.look_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        if is_idle {
            self.trim |= self.burst.take(now_ns);
        }
        self.look_ns = Some(now_ns + u64::from(self.look_ms) * 1_000_000);
        for slot in 0..self.conns.len() {
            let state = self.conns.at(slot);
            let patience_ns = u64::from(state.patience_ms) * 1_000_000;
            let phase = state.phase();
            let Some(out) = &mut state.out else { continue };
            let is_closing = match phase {
                Phase::Open => false,
                Phase::Flushing => true,
                Phase::Free | Phase::Connecting | Phase::Lingering | Phase::Dying | Phase::Gone => {
                    continue;
                }
            };
            if !out.is_stalled(now_ns, patience_ns) {
                continue;
            }
            if is_closing {
                self.counters.add(Count::FlushTimeouts, 1);
            }
            self.fail(slot, CloseReason::OutputStalled);
        }
    }
}
