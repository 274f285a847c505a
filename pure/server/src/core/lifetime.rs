//! How connections end: timeouts, the peer's close, shutdown. One timer per connection looks at
//! it from time to time and arms itself again, so that traffic never touches a timer.

use event::{CloseReason, ConnId, Now, Output};
use game::api::Disconnect;
use game::events::EventKind;
use game::guest::FollowWish;
use game::notifications::code;
use uuid::Uuid;

use super::backlog::RESUMED_PER_TURN_MAX;
use super::socket::Session;
use super::{Core, SERVER_SIDE, Slot, State};
use crate::frames;
use crate::mail::{Follow, Mail, Post as _, RoomMail, RoomRequest, SessionChanges};

/// While calls wait at callers, the core looks into its mailbox this often: answers are posted
/// without waking it when more calls are waiting behind.
const LOOK_NS: u64 = 500_000;
/// How long closing sockets may take at shutdown.
const CLOSE_MS: u64 = 2_000;

/// The state of an orderly shutdown.
pub(super) struct Stopping {
    /// Rooms that are not drained, and one more for the scripts' shutdown function.
    rooms_left: usize,
    /// When the rooms must be done; then sockets are closed.
    rooms_until: Now,
    /// When the sockets must be closed; then the thread ends.
    sockets_until: Option<Now>,
}

impl Core {
    /// Arms the connection's timer anew.
    pub(super) fn arm(&mut self, due: Now, conn: ConnId) {
        let slot = self.conns.get(conn.slot as usize);
        if slot.is_some_and(|slot| slot.generation == conn.generation) {
            self.deadlines.arm(due, conn.slot);
        }
    }

    pub(super) fn arm_wake(&mut self, now: Now, out: &mut Output<Mail>) {
        let look = if self.callers.is_busy() {
            Some(now.mono_ns + LOOK_NS)
        } else {
            // Callers without memory answer nothing that would tell.
            self.callers.due_ns()
        };
        let stopping = self
            .stopping
            .as_ref()
            .map(|stopping| stopping.sockets_until.unwrap_or(stopping.rooms_until).mono_ns);
        let backlog = (!self.backlogs.is_empty()).then_some(now.mono_ns);
        let next = [self.deadlines.next_ns(), look, stopping, self.retries.due_ns(), backlog];
        out.wake_at(next.into_iter().flatten().min());
    }

    pub(super) fn wake(&mut self, now: Now, out: &mut Output<Mail>) {
        self.post_retries(now, out);
        self.post_waiting_in_time(out);
        self.resume_backlogs(now, out);
        while let Some(slot) = self.deadlines.pop_due(now) {
            let Some(Slot { generation, .. }) = self.conns.get(slot as usize) else { continue };
            let conn = ConnId { slot, generation: *generation };
            match self.take(conn) {
                State::Http(http) => self.http_check(now, conn, http, out),
                State::Socket(session) => self.socket_check(now, conn, session, out),
                State::Grpc(grpc) => self.grpc_check(now, conn, grpc, out),
                other => self.put(conn, other),
            }
        }
        match &self.stopping {
            Some(Stopping { sockets_until: Some(until), .. }) if now >= *until => out.stop(),
            Some(Stopping { sockets_until: None, rooms_until, .. }) if now >= *rooms_until => {
                self.close_all(now, out);
            }
            _ => {}
        }
    }

    /// Goes on with what had to wait for another turn.
    fn resume_backlogs(&mut self, now: Now, out: &mut Output<Mail>) {
        for _ in 0..self.backlogs.len().min(RESUMED_PER_TURN_MAX) {
            let Some(conn) = self.backlogs.pop_front() else { return };
            match self.take(conn) {
                State::Http(mut http) => {
                    http.backlog.is_queued = false;
                    if http.waiting.is_some() {
                        self.put(conn, State::Http(http));
                    } else {
                        self.http_run(now, conn, http, b"", out);
                    }
                }
                State::Socket(mut session) => {
                    session.backlog.is_queued = false;
                    if session.waiting.is_some() {
                        self.put(conn, State::Socket(session));
                    } else {
                        self.socket_run(now, conn, session, b"", out);
                    }
                }
                State::Grpc(mut grpc) => {
                    grpc.backlog.is_queued = false;
                    self.grpc_run(now, conn, grpc, b"", out);
                }
                other => self.put(conn, other),
            }
        }
    }

    fn http_check(
        &mut self,
        now: Now,
        conn: ConnId,
        http: Box<super::http::Http>,
        out: &mut Output<Mail>,
    ) {
        let settings = &self.settings.socket;
        let (read_ms, idle_ms) = (settings.read_timeout_ms, settings.idle_timeout_ms);
        let deadline = match http.began {
            // Whether it takes its answers the engine watches.
            _ if http.waiting.is_some() || http.backlog.is_untaken() => now.after_ms(idle_ms),
            Some(began) => began.after_ms(read_ms),
            None => http.heard.after_ms(idle_ms),
        };
        if now >= deadline {
            if http.began.is_some() {
                self.stats.http_closed_slow.up();
                self.answer_timeout(now, conn, out);
            }
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        self.put(conn, State::Http(http));
        // A request may begin any time: look at least as often as one may take.
        self.arm(deadline.min(now.after_ms(read_ms)), conn);
    }

    pub(super) fn eof(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        match self.take(conn) {
            State::Http(http) => self.http_eof(conn, http, out),
            State::Grpc(grpc) => self.grpc_eof(now, conn, grpc, out),
            // What it has sent before is handled first.
            State::Socket(mut session)
                if session.closing.is_none() && !session.backlog.is_empty() =>
            {
                session.is_eof = true;
                self.put(conn, State::Socket(session));
            }
            State::Socket(session) => {
                // No close handshake: the client is gone.
                self.put(conn, State::Socket(session));
                self.forget_session(conn, "");
                out.close(conn);
            }
            other => self.put(conn, other),
        }
    }

    pub(super) fn closed(
        &mut self,
        now: Now,
        conn: ConnId,
        reason: CloseReason,
        out: &mut Output<Mail>,
    ) {
        let hit = match reason {
            CloseReason::OutputLimit => {
                Some(("socket.outgoing_queue_size", "sent more than it took"))
            }
            CloseReason::OutputTotal => {
                Some(("limit.unsent_max_bytes", "behind while all had too much unsent"))
            }
            CloseReason::OutputStalled => Some((
                "socket.write_timeout_ms, socket.write_wait_ms",
                "took too little for too long",
            )),
            _ => None,
        };
        if let Some((setting, why)) = hit {
            self.limit_log.hit(now, setting, format_args!("a client was closed: {why}"));
        }
        self.forget_session(conn, hit.map_or("", |(_, why)| why));
        let Some(slot) = self.conns.get_mut(conn.slot as usize) else { return };
        if slot.generation != conn.generation {
            return;
        }
        slot.state = State::Free;
        self.forget_connection(conn);
        self.deadlines.disarm(conn.slot);
        self.conns_open = self.conns_open.saturating_sub(1);
        self.stop_if_empty(out);
    }

    /// Ends the session of a connection, if it has one: rooms hear of it, the slot is `Closing`.
    pub(super) fn forget_session(&mut self, conn: ConnId, reason: &str) {
        let session = match self.take(conn) {
            State::Socket(session) => session,
            other => return self.put(conn, other),
        };
        self.put(conn, State::Closing);
        // After our close frame rooms have heard of it already.
        if session.closing.is_none() {
            self.session_over(conn, &session, reason);
        }
    }

    /// Everything that must happen once when a session ends, for this reason; empty if its client ends
    /// it.
    pub(super) fn session_over(&mut self, conn: ConnId, session: &Session, reason: &str) {
        self.places.remove(session.session_id, conn.slot);
        self.places.remove(session.user_id(), conn.slot);
        self.abroad.forget(conn.slot);
        self.end_datagrams(conn.slot);
        self.forget_socket((session.group, session.address));
        self.stats.sessions.down();
        self.stats.socket_ws_closed.up();
        let (session_id, user_id) = (session.session_id, session.user_id());
        let topology = self.topology.clone();
        for room in topology.all_rooms() {
            self.request_room(room, RoomRequest::Closed { session_id, user_id });
        }
        self.session_event(EventKind::SessionEnd, session, reason);
    }

    /// What calls of a worker or a room do to sessions: tokens first, so that no closed socket comes back.
    pub(super) fn change_sessions(
        &mut self,
        now: Now,
        changes: &SessionChanges,
        out: &mut Output<Mail>,
    ) {
        for revocation in &changes.revocations {
            self.revocations.apply(now, revocation);
            self.end_datagrams_of_revoked(revocation);
        }
        self.tell_revocations();
        for wish in &changes.follows {
            self.follow(wish, out);
        }
        for session_id in &changes.sessions {
            for conn in self.open_sockets(*session_id, |session| session.session_id) {
                self.close_socket(now, conn, 1000, SERVER_SIDE, out);
            }
        }
        for (user_id, cause) in &changes.users {
            self.disconnect_user(now, *user_id, *cause, out);
        }
    }

    /// A session that is here follows users, or no more, as if it had asked; it is not answered.
    fn follow(&mut self, wish: &FollowWish, out: &mut Output<Mail>) {
        for conn in self.open_sockets(wish.session_id, |session| session.session_id) {
            let Some((_, session)) = self.open_session(conn.slot) else { continue };
            let (member, users) = (self.member(conn, session), wish.users.clone());
            let request = if wish.follows {
                let follow = Follow { member, cid: None, users, found: Vec::new() };
                RoomRequest::StatusFollow(Box::new(follow))
            } else {
                RoomRequest::StatusUnfollow { member, cid: None, users }
            };
            self.forward(request, out);
        }
    }

    /// Closes the sockets of one user; looks at no others, because many users may go at once.
    fn disconnect_user(
        &mut self,
        now: Now,
        user_id: Uuid,
        cause: Disconnect,
        out: &mut Output<Mail>,
    ) {
        for conn in self.open_sockets(user_id, Session::user_id) {
            if let (Disconnect::Banned, Some(slot)) = (cause, self.conns.get(conn.slot as usize))
                && let State::Socket(session) = &slot.state
            {
                let frame = frames::notification(session.format, code::BANNED, "banned");
                self.reply(conn, &frame, out);
            }
            self.close_socket(now, conn, 1000, SERVER_SIDE, out);
        }
    }

    /// SIGTERM: no new connections, the rooms end their matches, then all sockets are closed.
    pub(super) fn stop(&mut self, now: Now, out: &mut Output<Mail>) {
        if self.stopping.is_some() {
            return;
        }
        out.stop_accepting();
        let grace_ms = u64::from(self.settings.shutdown_grace_s) * 1_000;
        let runs_shutdown = grace_ms > 0 && self.begin_shutdown(out);
        self.stopping = Some(Stopping {
            rooms_left: self.topology.rooms.len() + usize::from(runs_shutdown),
            rooms_until: now.after_ms(grace_ms + CLOSE_MS),
            sockets_until: None,
        });
        for room in &self.topology.rooms {
            out.post(&self.topology, *room, RoomMail::Drain { core: self.me });
        }
    }

    pub(super) fn room_drained(&mut self, now: Now, out: &mut Output<Mail>) {
        let Some(stopping) = &mut self.stopping else { return };
        stopping.rooms_left = stopping.rooms_left.saturating_sub(1);
        if stopping.rooms_left == 0 && stopping.sockets_until.is_none() {
            self.close_all(now, out);
        }
    }

    fn close_all(&mut self, now: Now, out: &mut Output<Mail>) {
        if let Some(stopping) = &mut self.stopping {
            stopping.sockets_until = Some(now.after_ms(CLOSE_MS));
        }
        let conns: Vec<ConnId> = (0u32..)
            .zip(&self.conns)
            .map(|(index, slot)| ConnId { slot: index, generation: slot.generation })
            .collect();
        for conn in conns {
            match self.take(conn) {
                State::Http(http) if http.waiting.is_none() => {
                    out.close(conn);
                    self.put(conn, State::Closing);
                }
                State::Socket(session) => {
                    self.put(conn, State::Socket(session));
                    self.close_socket(now, conn, 1001, "server shutting down", out);
                }
                State::Grpc(grpc) => self.grpc_run(now, conn, grpc, b"", out),
                other => self.put(conn, other),
            }
        }
        self.stop_if_empty(out);
    }

    fn stop_if_empty(&mut self, out: &mut Output<Mail>) {
        let is_closing = |stopping: &Stopping| stopping.sockets_until.is_some();
        if self.conns_open == 0 && self.stopping.as_ref().is_some_and(is_closing) {
            out.stop();
        }
    }
}
