//! A handler that does everything a handler may, and checks all that it is promised.

use event::{AttemptId, ConnId, ConnectFailure, Handler, Input, Now, Output, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

use crate::process::Mail;
use crate::world::{Kind, Shared, byte};

/// The handler, and what it knows.
pub(crate) struct Player {
    pub(crate) world: Shared,
    conns: BTreeMap<ConnId, u32>,
    /// Every id that was ever told.
    seen: BTreeSet<ConnId>,
    is_busy: bool,
    last_mail: Mail,
    last_now: Now,
    posted: u64,
    tokens: u64,
    attempts: Vec<(AttemptId, u64)>,
    cancelled: BTreeSet<u64>,
    /// Mail that was refused and is to come back, in order, per receiver.
    last_refused: [u64; 3],
}

impl Player {
    pub(crate) fn new(world: Shared) -> Self {
        Self {
            world,
            conns: BTreeMap::new(),
            seen: BTreeSet::new(),
            is_busy: false,
            last_mail: 0,
            last_now: Now::default(),
            posted: 0,
            tokens: 0,
            attempts: Vec::new(),
            cancelled: BTreeSet::new(),
            last_refused: [0; 3],
        }
    }

    fn file(&self, conn: ConnId) -> u32 {
        *self.conns.get(&conn).unwrap_or_else(|| panic!("{conn:?} is not open"))
    }

    fn opened(&mut self, conn: ConnId, file: u32) {
        assert!(self.seen.insert(conn), "{conn:?} is told twice");
        self.conns.insert(conn, file);
        let world = &mut *self.world.borrow_mut();
        let known = &mut world.sock(file).known;
        assert!(!known.is_open, "opened twice");
        known.is_open = true;
    }

    /// Sends `len` bytes of the stream of the socket.
    fn send(&mut self, conn: ConnId, len: u64, out: &mut Output<Mail>) {
        let file = self.file(conn);
        let world = &mut *self.world.borrow_mut();
        let is_shared = world.once_in(4);
        let known = &mut world.sock(file).known;
        let bytes: Vec<u8> = (known.sent..known.sent + len).map(|at| !byte(file, at)).collect();
        if !known.has_closed {
            known.sent += len;
        }
        if is_shared {
            out.send_shared(conn, bytes.into());
        } else {
            out.send(conn, &bytes);
        }
    }

    fn bytes(&mut self, now: Now, conn: ConnId, bytes: &mut [u8], out: &mut Output<Mail>) {
        let file = self.file(conn);
        let kind = {
            let world = &mut *self.world.borrow_mut();
            let known = &mut world.sock(file).known;
            assert!(!bytes.is_empty() && !known.eof && !known.has_closed);
            assert!(!known.reading_off, "input while reading is off");
            for (at, found) in (known.received..).zip(bytes.iter_mut()) {
                assert_eq!(*found, byte(file, at), "byte {at} of socket {file}");
                // Lent to be changed in place.
                *found = 0;
            }
            known.received += bytes.len() as u64;
            world.told += bytes.len() as u64;
            let told = world.told;
            let fair = world.fair();
            let sock = world.sock(file);
            if let (Some(since), Some(fair)) = (sock.waits_since.take(), fair)
                && sock.kind == Kind::Quiet
            {
                let others = told - since;
                assert!(others <= fair, "{others} bytes of others came first, {fair} are fair");
            }
            sock.kind
        };
        let output_max = self.world.borrow().profile.limits.output_bytes_max;
        match kind {
            Kind::Eager => {
                let is_waiting = {
                    let world = &mut *self.world.borrow_mut();
                    std::mem::replace(&mut world.sock(file).known.awaits_sent, true)
                };
                if !is_waiting {
                    for _ in 0..3 {
                        self.send(conn, u64::from(output_max) * 3 / 4, out);
                    }
                    out.tell_when_sent(conn);
                }
            }
            Kind::Quiet | Kind::Flooder => self.send(conn, bytes.len() as u64, out),
            Kind::Dribbler | Kind::Deaf => self.send(conn, u64::from(output_max) / 2, out),
        }
        self.whim(now, conn, out);
    }

    /// Something that a handler may do at any time.
    fn whim(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        let draw = self.world.borrow_mut().random.below(60);
        let file = self.file(conn);
        match draw {
            0 => {
                self.world.borrow_mut().sock(file).known.reading_off = true;
                out.reading(conn, false);
                let later = u64::from(self.world.borrow_mut().random.below(20));
                out.wake_at(Some(now.after_ms(later).mono_ns));
            }
            1 | 2 => self.close(now, conn, out),
            3 => {
                self.world.borrow_mut().sock(file).known.has_closed = true;
                out.abort(conn);
            }
            4..=9 => self.post(out),
            10 if !self.world.borrow().is_stopping => {
                self.tokens += 1;
                let within_ms = self.world.borrow_mut().random.below(30);
                let address = u32::try_from(self.tokens).unwrap().to_be_bytes();
                let to = (address, 80).into();
                self.attempts.push((out.connect(to, self.tokens, within_ms), self.tokens));
                self.world.borrow_mut().attempts.insert(self.tokens, 0);
            }
            11 => {
                if let Some((attempt, token)) = self.attempts.pop() {
                    self.cancelled.insert(token);
                    out.cancel_connect(attempt);
                    out.cancel_connect(attempt);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        let file = self.file(conn);
        let world = &mut *self.world.borrow_mut();
        let known = &mut world.sock(file).known;
        known.has_closed = true;
        known.closed_at_ns.get_or_insert(now.mono_ns);
        out.close(conn);
    }

    /// Posts a few mails to thread 1, whose mailbox is small.
    fn post(&mut self, out: &mut Output<Mail>) {
        for to in [1, 1, 2, 9] {
            self.posted += 1;
            out.mail(ThreadId(to), self.posted);
        }
    }

    fn ended(&mut self, token: u64) {
        let world = &mut *self.world.borrow_mut();
        let ends = world.attempts.get_mut(&token).unwrap();
        *ends += 1;
        assert_eq!(*ends, 1, "attempt {token} has two outcomes");
    }

    fn closed(&mut self, now: Now, conn: ConnId, reason: event::CloseReason) {
        let file = self.file(conn);
        self.conns.remove(&conn);
        let world = &mut *self.world.borrow_mut();
        let (is_stopped, is_moody) = (world.is_stopped, world.profile.is_moody);
        let limits = world.profile.limits;
        let sock = world.sock(file);
        if let Some(since_ns) = sock.known.closed_at_ns {
            // Whatever its peer does, or does not do.
            let ms = (now.mono_ns - since_ns) / 1_000_000;
            let bound_ms = u64::from(2 * limits.flush_ms + limits.linger_ms) + 150;
            assert!(ms <= bound_ms, "closing took {ms} ms, {bound_ms} are allowed");
        }
        sock.known.told_closed = Some(reason);
        match reason {
            event::CloseReason::Reset => assert!(sock.reset, "a reset that was none"),
            event::CloseReason::Asked => assert!(sock.known.has_closed, "nobody asked"),
            event::CloseReason::Peer => {
                assert!(sock.known.has_closed && sock.fin, "the peer did not close");
            }
            event::CloseReason::OutputLimit => {
                let is_behind = matches!(sock.kind, Kind::Deaf | Kind::Dribbler);
                assert!(is_behind || sock.reset, "cut off, and reads all: {:?}", sock.kind);
            }
            event::CloseReason::OutputStalled => {
                let is_behind = matches!(sock.kind, Kind::Deaf | Kind::Dribbler);
                assert!(is_behind || sock.reset || is_moody, "no stall: {:?}", sock.kind);
            }
            event::CloseReason::OutputTotal => {}
            event::CloseReason::Shutdown => assert!(is_stopped, "nobody stopped"),
        }
    }

    fn eof(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        let file = self.file(conn);
        {
            let world = &mut *self.world.borrow_mut();
            let sock = world.sock(file);
            assert!(!sock.known.reading_off && !sock.known.eof);
            assert_eq!(sock.known.received, sock.sent, "the end before the last byte");
            sock.known.eof = true;
        }
        if !self.world.borrow_mut().once_in(3) {
            self.close(now, conn, out);
        }
    }

    fn sent(&mut self, conn: ConnId) {
        let file = self.file(conn);
        let world = &mut *self.world.borrow_mut();
        let sock = world.sock(file);
        assert!(std::mem::take(&mut sock.known.awaits_sent), "sent, and nobody asked");
        assert_eq!(sock.accepted, sock.known.sent, "sent, and was not");
    }

    fn order(&mut self, to: ThreadId, mail: Mail) {
        let last = &mut self.last_refused[usize::from(to.0) % 3];
        assert!(mail > *last || to.0 == 9, "refused mail is told out of order");
        *last = mail;
    }
}

impl Handler for Player {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        assert!(now.mono_ns >= self.last_now.mono_ns, "time goes back");
        self.last_now = now;
        let is_end = matches!(input, Input::TurnEnd);
        assert!(!is_end || self.is_busy, "the end of a turn without input");
        self.is_busy = !is_end;
        if self.world.borrow().is_stopped {
            let is_end = matches!(
                input,
                Input::Closed { .. } | Input::ConnectFailed { .. } | Input::TurnEnd
            );
            assert!(is_end, "{input:?} after the stop");
        }
        match input {
            Input::Opened { conn, peer, .. } => self.opened(conn, u32::from(peer.port())),
            Input::Connected { conn, token } => {
                assert!(!self.cancelled.contains(&token), "taken back, and stands");
                self.ended(token);
                let file = {
                    let world = self.world.borrow();
                    *world.socks.iter().find(|(_, sock)| sock.token == token).unwrap().0
                };
                self.opened(conn, file);
                self.send(conn, 10, out);
            }
            Input::ConnectFailed { token, failure } => {
                self.ended(token);
                let is_cancelled = failure == ConnectFailure::Cancelled;
                assert!(!is_cancelled || self.cancelled.contains(&token), "nobody took it back");
            }
            Input::Bytes { conn, bytes } => self.bytes(now, conn, bytes, out),
            Input::Eof { conn } => self.eof(now, conn, out),
            Input::Sent { conn } => self.sent(conn),
            Input::Closed { conn, reason } => self.closed(now, conn, reason),
            Input::Mail(mail) => {
                assert!(mail > self.last_mail, "mail out of order");
                self.last_mail = mail;
                if self.world.borrow_mut().once_in(5) {
                    self.post(out);
                }
            }
            Input::Refused { to, mail } => self.order(to, mail),
            Input::Wake => {
                for (conn, file) in &self.conns {
                    let world = &mut *self.world.borrow_mut();
                    if std::mem::take(&mut world.sock(*file).known.reading_off) {
                        out.reading(*conn, true);
                    }
                }
            }
            Input::Stop => {
                self.world.borrow_mut().is_stopped = true;
                out.stop();
            }
            Input::TurnEnd => self.world.borrow_mut().wires.turn_ends(),
            Input::Datagrams(all) => self.world.borrow_mut().wires.hear(all, out),
        }
    }
}
