//! What a handler wants done. It fills an [`Output`]; the engine drains it after every input, in
//! order, so that a mail posted before another is also seen before it.
//!
//! Bytes to send are encoded straight into one arena ([`Output::send_with`]) and copied once, into
//! the connection's stable send buffer; a broadcast ([`Output::send_shared`]) is encoded once and
//! lent to every connection.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use bytes::Bytes;

use crate::{AttemptId, ConnId, Now, SocketId, ThreadId};

/// Whether a mail is worth waking its receiver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Wake the receiver if it sleeps.
    Wake,
    /// The receiver will look when it next wakes by itself, say at its next tick. The engine
    /// wakes it all the same when its mailbox is a quarter full.
    Lazy,
}

/// One thing to do. `pub` for drivers; handlers use the methods of [`Output`].
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Op<M> {
    /// Send this range of the arena of [`Output::parts`].
    Send { conn: ConnId, range: Range<usize> },
    /// Send bytes that other connections are sent too.
    SendShared { conn: ConnId, bytes: Bytes },
    /// Send bytes unless the connection is behind.
    OfferShared { conn: ConnId, bytes: Bytes },
    /// Say [`crate::Input::Sent`] when all that was sent has been taken by the kernel.
    TellWhenSent { conn: ConnId },
    /// Close when everything is sent.
    Close { conn: ConnId },
    /// Close now, dropping what is not sent.
    Abort { conn: ConnId },
    /// Stop or resume reading from the connection.
    Reading { conn: ConnId, on: bool },
    /// Move the limit on unsent bytes.
    OutputMax { conn: ConnId, bytes: usize },
    /// Move how long a peer may take too little of what was sent.
    OutputPatience { conn: ConnId, ms: u32 },
    /// Move how long events may coalesce.
    Coalesce { ns: u64 },
    /// Send this range of the arena as one datagram.
    SendDatagram { socket: SocketId, to: SocketAddr, range: Range<usize> },
    /// Connect to an address.
    Connect { attempt: AttemptId, from: Option<IpAddr>, to: SocketAddr, token: u64, within_ms: u32 },
    /// Give an attempt to connect up.
    CancelConnect { attempt: AttemptId },
    /// Post to another thread.
    Mail { to: ThreadId, mail: M, urgency: Urgency },
    /// Close all listeners of this thread.
    StopAccepting,
    /// End this thread.
    Stop,
}

/// Collects what a handler wants done. One per thread, reused for every input.
#[derive(Debug)]
pub struct Output<M> {
    ops: Vec<Op<M>>,
    arena: Vec<u8>,
    wake: Option<u64>,
    wake_changed: bool,
    unsent: u64,
    queued: u64,
    attempts: u64,
}

impl<M> Default for Output<M> {
    fn default() -> Self {
        Self {
            ops: Vec::new(),
            arena: Vec::new(),
            wake: None,
            wake_changed: false,
            unsent: 0,
            queued: 0,
            attempts: 0,
        }
    }
}

impl<M> Output<M> {
    /// Sends `bytes` on `conn`, after all that was sent before. A closed connection is ignored.
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.send_with(conn, |arena| arena.extend_from_slice(bytes));
    }

    /// Sends what `encode` appends to the buffer it is given. It must only append.
    pub fn send_with<R>(&mut self, conn: ConnId, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.arena.len();
        let result = encode(&mut self.arena);
        let end = self.arena.len();
        if end <= start {
            return result;
        }
        self.queued += (end - start) as u64;
        // Answers to one pipelined read lie side by side: they become one send.
        if let Some(Op::Send { conn: last, range }) = self.ops.last_mut()
            && *last == conn
            && range.end == start
        {
            range.end = end;
        } else {
            self.ops.push(Op::Send { conn, range: start..end });
        }
        result
    }

    /// Sends bytes that are shared with other connections, without encoding them again.
    pub fn send_shared(&mut self, conn: ConnId, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len() as u64;
            self.ops.push(Op::SendShared { conn, bytes });
        }
    }

    /// As [`Self::send_shared`], but drops the bytes, and counts them, if the connection has not
    /// taken most of what was sent before: for what its sender may say too much of.
    pub fn offer_shared(&mut self, conn: ConnId, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len() as u64;
            self.ops.push(Op::OfferShared { conn, bytes });
        }
    }

    /// Bytes that all connections of this thread have not taken yet, with what was sent since the
    /// last drain.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent + self.queued
    }

    /// For drivers: tells what is unsent before an input.
    pub fn set_unsent(&mut self, bytes: u64) {
        self.unsent = bytes;
        self.queued = 0;
    }

    /// Asks for one [`crate::Input::Sent`] when everything sent so far has been taken by the kernel.
    pub fn tell_when_sent(&mut self, conn: ConnId) {
        self.ops.push(Op::TellWhenSent { conn });
    }

    /// Closes `conn` in order: what was sent is delivered, then the sending side is shut down, and
    /// what the peer still sends is read and thrown away for a moment, so that the last answer is
    /// not lost to a reset. [`crate::Input::Closed`] follows.
    pub fn close(&mut self, conn: ConnId) {
        self.ops.push(Op::Close { conn });
    }

    /// Closes `conn` at once and drops what is unsent. [`crate::Input::Closed`] follows.
    pub fn abort(&mut self, conn: ConnId) {
        self.ops.push(Op::Abort { conn });
    }

    /// Stops (`false`) or resumes (`true`) reading from `conn`: the peer is slowed down by TCP's
    /// own flow control, and nothing is lost. Bytes that the kernel has handed over already are
    /// kept by the engine until reading resumes.
    pub fn reading(&mut self, conn: ConnId, on: bool) {
        self.ops.push(Op::Reading { conn, on });
    }

    /// Sets how many unsent bytes `conn` may have before it is closed with
    /// [`crate::CloseReason::OutputLimit`]. Only what the kernel was offered and did not take is held
    /// against the peer.
    pub fn output_max(&mut self, conn: ConnId, bytes: usize) {
        self.ops.push(Op::OutputMax { conn, bytes });
    }

    /// Sets how long `conn` may take too little of what was sent before it is closed with
    /// [`crate::CloseReason::OutputStalled`], in milliseconds.
    pub fn output_patience(&mut self, conn: ConnId, ms: u32) {
        self.ops.push(Op::OutputPatience { conn, ms });
    }

    /// Sets how long a core may let events coalesce after a turn of which nothing came but
    /// [`Output::mail_lazy`]: fewer and fuller turns, for messages that wait for a tick anyway.
    pub fn coalesce(&mut self, ns: u64) {
        self.ops.push(Op::Coalesce { ns });
    }

    /// Sends `bytes` to `to` as one datagram of a socket of this thread, at the end of the turn and
    /// after those before. It is dropped, and counted, if it is longer than
    /// `Limits::datagram_bytes_max` of the engine, more than `Limits::datagram_queue_bytes` wait
    /// already, or the kernel does not take it at once; nobody hears of it.
    pub fn send_datagram(&mut self, socket: SocketId, to: SocketAddr, bytes: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.ops.push(Op::SendDatagram { socket, to, range: start..self.arena.len() });
    }

    /// Connects to `to`; [`crate::Input::Connected`] or [`crate::Input::ConnectFailed`] with the
    /// same `token` follows. The attempt has failed after `within_ms` milliseconds, or the engine's
    /// own limit if that is less. The id that is returned takes it back before.
    pub fn connect(&mut self, to: SocketAddr, token: u64, within_ms: u32) -> AttemptId {
        self.connect_from(None, to, token, within_ms)
    }

    /// As [`Self::connect`], from the local address `from` and a port of the system's choice; none
    /// leaves the address to it too.
    pub fn connect_from(
        &mut self,
        from: Option<IpAddr>,
        to: SocketAddr,
        token: u64,
        within_ms: u32,
    ) -> AttemptId {
        self.attempts += 1;
        let attempt = AttemptId(self.attempts);
        self.ops.push(Op::Connect { attempt, from, to, token, within_ms });
        attempt
    }

    /// Takes an attempt to connect back: [`crate::Input::ConnectFailed`] with
    /// [`crate::ConnectFailure::Cancelled`] follows, unless its outcome is told already or will be
    /// in this turn. An attempt that has come to an end is ignored; a connection that stands is
    /// closed with [`Self::close`].
    pub fn cancel_connect(&mut self, attempt: AttemptId) {
        self.ops.push(Op::CancelConnect { attempt });
    }

    /// Posts `mail` to thread `to` and wakes it.
    pub fn mail(&mut self, to: ThreadId, mail: M) {
        self.ops.push(Op::Mail { to, mail, urgency: Urgency::Wake });
    }

    /// Posts `mail` to thread `to`, to be read when it next wakes by itself.
    pub fn mail_lazy(&mut self, to: ThreadId, mail: M) {
        self.ops.push(Op::Mail { to, mail, urgency: Urgency::Lazy });
    }

    /// Takes back the mail to threads that `is_held` names, of what was posted since the last
    /// drain, in order: say because older mail to them is still on its way.
    pub fn take_mail(
        &mut self,
        mut is_held: impl FnMut(ThreadId) -> bool,
    ) -> impl Iterator<Item = (ThreadId, M)> {
        let is_mail = move |op: &mut Op<M>| matches!(op, Op::Mail { to, .. } if is_held(*to));
        self.ops.extract_if(.., is_mail).filter_map(|op| match op {
            Op::Mail { to, mail, .. } => Some((to, mail)),
            _ => None,
        })
    }

    /// For drivers: takes all mail of what was posted since the last drain, in order.
    pub fn take_posts(&mut self) -> impl Iterator<Item = (ThreadId, M, Urgency)> {
        let is_mail = |op: &mut Op<M>| matches!(op, Op::Mail { .. });
        self.ops.extract_if(.., is_mail).filter_map(|op| match op {
            Op::Mail { to, mail, urgency } => Some((to, mail, urgency)),
            _ => None,
        })
    }

    /// Asks for [`crate::Input::Wake`] at `mono_ns` of [`Now::mono_ns`]; `None` for never. Replaces
    /// the earlier wish. After a wake the wish is gone.
    pub fn wake_at(&mut self, mono_ns: Option<u64>) {
        self.wake = mono_ns;
        self.wake_changed = true;
    }

    /// Closes the listeners of this thread: no further [`crate::Input::Opened`].
    pub fn stop_accepting(&mut self) {
        self.ops.push(Op::StopAccepting);
    }

    /// Ends this thread once everything before has been done.
    pub fn stop(&mut self) {
        self.ops.push(Op::Stop);
    }

    /// For drivers: takes the operations collected since the last call, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Op<M>> {
        self.ops.drain(..)
    }

    /// For drivers: operations and the arena their ranges point into, for doing both at once.
    pub fn parts(&mut self) -> (std::vec::Drain<'_, Op<M>>, &[u8]) {
        (self.ops.drain(..), &self.arena)
    }

    /// For drivers: forgets the arena's bytes once the operations are done. Keeps the memory up
    /// to 1 MiB, so that one large answer does not stay reserved for ever.
    pub fn reset(&mut self) {
        const ARENA_KEPT_BYTES_MAX: usize = 1 << 20;
        self.arena.clear();
        self.arena.shrink_to(ARENA_KEPT_BYTES_MAX);
    }

    /// For drivers: whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && !self.wake_changed
    }

    /// For drivers: the new wake-up wish, if the handler has uttered one since the last call.
    pub fn take_wake(&mut self) -> Option<Option<u64>> {
        std::mem::take(&mut self.wake_changed).then_some(self.wake)
    }
}

/// Tests look at what a handler said without an engine.
impl<M> Output<M> {
    /// All bytes sent to `conn`, in order, since the output was last drained.
    #[must_use]
    pub fn sent_to(&self, conn: ConnId) -> Vec<u8> {
        let mut all = Vec::new();
        for op in &self.ops {
            match op {
                Op::Send { conn: to, range } if *to == conn => {
                    all.extend_from_slice(&self.arena[range.clone()]);
                }
                Op::SendShared { conn: to, bytes } | Op::OfferShared { conn: to, bytes }
                    if *to == conn =>
                {
                    all.extend_from_slice(bytes);
                }
                _ => {}
            }
        }
        all
    }

    /// All datagrams sent since the output was last drained, in order.
    #[must_use]
    pub fn datagrams(&self) -> Vec<(SocketId, SocketAddr, Vec<u8>)> {
        let sent = self.ops.iter().filter_map(|op| match op {
            Op::SendDatagram { socket, to, range } => {
                Some((*socket, *to, self.arena[range.clone()].to_vec()))
            }
            _ => None,
        });
        sent.collect()
    }

    /// When the handler wants to be woken, if it has said so since the output was last drained.
    #[must_use]
    pub fn wake_time(&self) -> Option<Now> {
        self.wake.map(|mono_ns| Now { mono_ns, unix_ms: 0 })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Op, Output, Urgency};
    use crate::{ConnId, SocketId, ThreadId};

    #[test]
    fn neighbouring_sends_of_one_connection_merge() {
        let (a, b) = (ConnId { slot: 1, generation: 0 }, ConnId { slot: 2, generation: 0 });
        let mut out: Output<()> = Output::default();
        out.send(a, b"one ");
        out.send(a, b"two");
        out.send(a, b"");
        out.send(b, b"other");
        out.send(a, b"three");
        assert_eq!(out.sent_to(a), b"one twothree");
        let ranges: Vec<_> = out
            .drain()
            .map(|op| if let Op::Send { conn, range } = op { (conn, range) } else { (a, 0..0) })
            .collect();
        assert_eq!(ranges, [(a, 0..7), (b, 7..12), (a, 12..17)]);
    }

    const A: ConnId = ConnId { slot: 1, generation: 0 };
    const B: ConnId = ConnId { slot: 2, generation: 0 };

    #[test]
    fn what_is_unsent_grows_with_what_is_sent() {
        let mut out: Output<()> = Output::default();
        out.set_unsent(100);
        out.send(A, b"12");
        out.send_shared(A, Bytes::from_static(b"345"));
        out.offer_shared(B, Bytes::from_static(b"6789"));
        out.send_shared(B, Bytes::new());
        out.offer_shared(B, Bytes::new());
        out.send(B, b"0");
        assert_eq!((out.unsent(), out.ops.len()), (110, 4), "nothing is no message");
        assert_eq!((out.sent_to(A), out.sent_to(B)), (b"12345".to_vec(), b"67890".to_vec()));
        out.set_unsent(7);
        assert_eq!(out.unsent(), 7);
    }

    #[test]
    fn mail_is_taken_back_in_order_and_by_receiver() {
        let mut out: Output<u32> = Output::default();
        out.mail(ThreadId(1), 1);
        out.send(A, b"stays");
        out.mail_lazy(ThreadId(2), 2);
        out.mail_lazy(ThreadId(1), 3);
        let held: Vec<_> = out.take_mail(|to| to == ThreadId(1)).collect();
        assert_eq!(held, [(ThreadId(1), 1), (ThreadId(1), 3)]);
        out.mail(ThreadId(2), 4);
        let posts: Vec<_> = out.take_posts().collect();
        let expected = [(ThreadId(2), 2, Urgency::Lazy), (ThreadId(2), 4, Urgency::Wake)];
        assert_eq!(posts, expected);
        assert_eq!(out.drain().len(), 1);
    }

    #[test]
    fn a_wish_to_be_woken_is_told_once_and_replaces_the_one_before() {
        let mut out: Output<()> = Output::default();
        assert!(out.is_empty() && out.take_wake().is_none() && out.wake_time().is_none());
        out.wake_at(Some(5));
        out.wake_at(Some(6));
        assert!(!out.is_empty());
        assert_eq!(out.wake_time().map(|now| now.mono_ns), Some(6));
        assert_eq!((out.take_wake(), out.take_wake()), (Some(Some(6)), None));
        out.wake_at(None);
        assert_eq!(out.take_wake(), Some(None));
        out.stop();
        assert!(!out.is_empty());
    }

    #[test]
    fn every_wish_is_an_operation_in_order() {
        let mut out: Output<()> = Output::default();
        let attempt = out.connect(([127, 0, 0, 1], 1).into(), 7, 1);
        out.tell_when_sent(A);
        out.close(A);
        out.abort(B);
        out.reading(A, false);
        out.output_max(A, 5);
        out.output_patience(A, 6);
        out.coalesce(7);
        out.cancel_connect(attempt);
        out.stop_accepting();
        out.stop();
        let ops: Vec<_> = out.drain().skip(1).map(|op| format!("{op:?}")).collect();
        let [a, b] = [A, B].map(|conn| format!("conn: {conn:?}"));
        let expected = [
            format!("TellWhenSent {{ {a} }}"),
            format!("Close {{ {a} }}"),
            format!("Abort {{ {b} }}"),
            format!("Reading {{ {a}, on: false }}"),
            format!("OutputMax {{ {a}, bytes: 5 }}"),
            format!("OutputPatience {{ {a}, ms: 6 }}"),
            "Coalesce { ns: 7 }".into(),
            format!("CancelConnect {{ attempt: {attempt:?} }}"),
            "StopAccepting".into(),
            "Stop".into(),
        ];
        assert_eq!(ops, expected);
    }

    #[test]
    fn attempts_have_names_of_their_own() {
        let mut out: Output<()> = Output::default();
        let to = ([127, 0, 0, 1], 1).into();
        let ids = [out.connect(to, 7, 1), out.connect_from(None, to, 7, 1), out.connect(to, 7, 1)];
        assert!(ids[0] < ids[1] && ids[1] < ids[2]);
    }

    /// One large answer does not keep its memory.
    #[test]
    fn memory_of_a_large_answer_is_given_back() {
        let mut out: Output<()> = Output::default();
        for (bytes, kept) in [(4 << 20, 1 << 20), (1 << 10, 1 << 20)] {
            out.send(A, &vec![0; bytes]);
            out.send_datagram(SocketId(0), ([127, 0, 0, 1], 1).into(), b"datagram");
            assert_eq!(out.parts().1.len(), bytes + 8);
            out.reset();
            assert!(out.parts().1.is_empty());
            assert!((1 << 10..=kept).contains(&out.arena.capacity()), "{}", out.arena.capacity());
        }
    }
}
