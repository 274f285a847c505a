//! Other nodes, as a core has to do with them: what sessions want of rooms of a node that is away is
//! refused at once.
//!
//! Data in: requests of this turn. Data out: errors for who waits. Not here: which room a group lives on
//! (`mail::Topology`), and who says which nodes live.

use std::sync::Arc;

use event::{Now, Output};

use super::Core;
use crate::mail::Mail;

impl Core {
    /// Refuses what was asked in this turn of rooms whose node is away: nobody is there to answer. Who
    /// is refused may have asked more, which is looked at then.
    pub(super) fn refuse_unreachable(&mut self, now: Now, out: &mut Output<Mail>) {
        if self.room_requests.len() == self.topology.rooms.len() {
            return;
        }
        let topology = Arc::clone(&self.topology);
        while let Some(place) =
            self.room_requests.iter().position(|(room, ..)| !topology.is_reachable(*room))
        {
            let (room, requests, _) = self.room_requests.swap_remove(place);
            for request in requests {
                self.request_refused(now, room, request, out);
            }
        }
    }
}
