//! What one connection has still to send: segments in stable memory, the first of which the
//! kernel may be reading. An idle connection has none of this; memory comes from a pool of the
//! thread and goes back when all is sent.

use std::collections::VecDeque;

use bytes::Bytes;
use event::Progress;

/// Own segments grow up to this; what follows starts a new one, so that sent memory is given back
/// while a slow peer still reads.
const SEGMENT_BYTES_MAX: usize = 64 << 10;
/// Shared bytes from this size on are kept as they are; smaller ones are cheaper to copy beside
/// their neighbours, because they then leave in one send.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// Own segments start with this capacity.
const SEGMENT_BYTES_START: usize = 2 << 10;
/// Larger buffers than this go back to the allocator, not to the pool.
const POOLED_BYTES_MAX: usize = 16 << 10;
/// Buffers, and queues, that the pool keeps: 1,024 × 16 KiB = 16 MiB at the very most.
const POOLED_MAX: usize = 1_024;

/// Memory that connections of one thread take turns to use.
#[derive(Debug, Default)]
pub struct Pool {
    buffers: Vec<Vec<u8>>,
    // Boxed because the box itself is what is handed out.
    #[expect(clippy::vec_box, reason = "moved in and out of connections without copying")]
    queues: Vec<Box<Outgoing>>,
}

impl Pool {
    #[inline]
    pub(crate) fn queue(&mut self) -> Box<Outgoing> {
        self.queues.pop().unwrap_or_default()
    }

    #[inline]
    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        if bytes <= POOLED_BYTES_MAX
            && let Some(buffer) = self.buffers.pop()
        {
            return buffer;
        }
        Vec::with_capacity(bytes.max(SEGMENT_BYTES_START))
    }

    #[inline]
    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= POOLED_BYTES_MAX && self.buffers.len() < POOLED_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Takes a connection's queue back, with whatever is still in it.
    pub(crate) fn recycle(&mut self, mut queue: Box<Outgoing>) {
        for segment in queue.segments.drain(..) {
            if let Segment::Own(buffer) = segment {
                self.give_back(buffer);
            }
        }
        if self.queues.len() < POOLED_MAX && queue.segments.capacity() <= 64 {
            *queue =
                Outgoing { segments: std::mem::take(&mut queue.segments), ..Outgoing::default() };
            self.queues.push(queue);
        }
    }
}

#[derive(Debug)]
enum Segment {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Segment {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The output queue of one connection.
#[derive(Debug, Default)]
pub struct Outgoing {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are sent.
    front_sent: usize,
    /// So many of the first segments the kernel reads: they must neither move nor grow.
    pinned: usize,
    /// How many bytes that is, and in which turn they were offered.
    pinned_bytes: usize,
    pinned_turn: u64,
    /// The kernel took less than it was offered the last time.
    was_short: bool,
    unsent: usize,
    /// Bytes ever queued and ever sent since the queue was taken from the pool.
    queued_total: u64,
    sent_total: u64,
    /// When `sent_total` gets here, the handler wants to hear of it.
    tell_at: Option<u64>,
    /// Whether the peer takes what waits.
    progress: Progress,
}

/// Segments that the kernel is offered at once, so that a turn offers more than any socket takes.
pub const PINNED_MAX: usize = 64;
/// After so many turns the kernel has looked at what it was offered, and has answered if it could:
/// one to submit it, one to hear of it.
const BLOCKED_TURNS: u64 = 2;

impl Outgoing {
    /// Bytes that the kernel has not taken yet.
    #[inline]
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether the peer has taken too little ([`Progress::is_stalled`]). To be asked now and then.
    pub(crate) fn is_stalled(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let bytes = (self.unsent as u64, self.sent_total);
        self.progress.is_stalled(now_ns, patience_ns, bytes)
    }

    /// Asks for `true` from [`Self::sent`] once all that is queued now has left.
    pub(crate) fn tell_when_sent(&mut self) {
        self.tell_at = Some(self.queued_total);
    }

    /// Copies `bytes` behind what is queued.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8], pool: &mut Pool) {
        self.unsent += bytes.len();
        self.queued_total += bytes.len() as u64;
        let growable = self.segments.len() > self.pinned;
        if growable
            && let Some(Segment::Own(last)) = self.segments.back_mut()
            && last.len() + bytes.len() <= SEGMENT_BYTES_MAX
        {
            last.extend_from_slice(bytes);
            return;
        }
        let mut buffer = pool.buffer(bytes.len());
        buffer.extend_from_slice(bytes);
        self.segments.push_back(Segment::Own(buffer));
    }

    /// Queues bytes that others send too: large ones without a copy.
    pub(crate) fn push_shared(&mut self, bytes: Bytes, pool: &mut Pool) {
        if bytes.len() < SHARED_BYTES_MIN {
            self.push(&bytes, pool);
        } else {
            self.unsent += bytes.len();
            self.queued_total += bytes.len() as u64;
            self.segments.push_back(Segment::Shared(bytes));
        }
    }

    /// Whether the kernel was offered what is queued and did not take it: a turn ago, or the last
    /// time that it answered. What was queued since is no sign of a peer that does not read.
    #[inline]
    #[must_use]
    pub fn is_blocked(&self, turn: u64) -> bool {
        self.was_short || (self.pinned > 0 && turn - self.pinned_turn >= BLOCKED_TURNS)
    }

    /// Offers the kernel what is queued, in `turn`: the first segments, [`PINNED_MAX`] at most.
    /// They stay where they are until [`Self::unpin`] or the end of the queue. Nothing when nothing
    /// is left, or something is offered already.
    #[inline]
    pub fn pin(&mut self, turn: u64) -> impl ExactSizeIterator<Item = &[u8]> {
        let count = if self.pinned > 0 { 0 } else { self.segments.len().min(PINNED_MAX) };
        if count > 0 {
            self.pinned = count;
            self.pinned_turn = turn;
            let all: usize = self.segments.iter().take(count).map(|s| s.as_slice().len()).sum();
            self.pinned_bytes = all - self.front_sent;
        }
        let front_sent = self.front_sent;
        self.segments.iter().take(count).enumerate().map(move |(index, segment)| {
            &segment.as_slice()[if index == 0 { front_sent } else { 0 }..]
        })
    }

    /// Whether the kernel reads something of the queue.
    #[inline]
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned > 0
    }

    /// Whether what was offered lies in several pieces.
    #[inline]
    #[must_use]
    pub fn is_gathered(&self) -> bool {
        self.pinned > 1
    }

    /// The kernel has let go of what was offered.
    #[inline]
    pub fn unpin(&mut self) {
        assert!(self.pinned > 0, "nothing was offered");
        self.pinned = 0;
    }

    /// The kernel took nothing of what was offered last.
    pub(crate) fn blocked(&mut self) {
        self.was_short = true;
    }

    /// The first `bytes` of what was offered last are sent. Says whether the handler is to be told.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, pool: &mut Pool) -> bool {
        assert!(self.pinned == 0, "the kernel still reads");
        assert!(bytes <= self.pinned_bytes, "{bytes} of {} are sent", self.pinned_bytes);
        self.was_short = bytes < self.pinned_bytes;
        self.unsent -= bytes;
        self.sent_total += bytes as u64;
        self.front_sent += bytes;
        while let Some(front) = self.segments.front()
            && self.front_sent >= front.as_slice().len()
        {
            self.front_sent -= front.as_slice().len();
            if let Some(Segment::Own(buffer)) = self.segments.pop_front() {
                pool.give_back(buffer);
            }
        }
        if self.tell_at.is_some_and(|at| self.sent_total >= at) {
            self.tell_at = None;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{
        Outgoing, POOLED_BYTES_MAX, POOLED_MAX, Pool, SEGMENT_BYTES_MAX, SHARED_BYTES_MIN,
    };

    /// Sends everything in steps of at most `step` bytes, while more is pushed behind.
    fn drained(queue: &mut Outgoing, pool: &mut Pool, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while queue.unsent() > 0 {
            let mut part = queue.pin(0).collect::<Vec<_>>().concat();
            part.truncate(step);
            queue.unpin();
            queue.sent(part.len(), pool);
            all.extend_from_slice(&part);
        }
        all
    }

    #[test]
    fn bytes_leave_in_order_whatever_their_size_and_the_kernels_appetite() {
        let sizes = [1, SEGMENT_BYTES_MAX - 1, 1, SEGMENT_BYTES_MAX, 3, SHARED_BYTES_MIN, 2];
        for step in [1_000, SEGMENT_BYTES_MAX, usize::MAX] {
            let (mut queue, mut pool, mut expected) =
                (Outgoing::default(), Pool::default(), vec![]);
            for (index, size) in sizes.into_iter().enumerate() {
                let bytes: Vec<u8> =
                    (0..size).map(|at| (at * 7 + index).to_le_bytes()[0]).collect();
                expected.extend_from_slice(&bytes);
                match index % 2 {
                    0 => queue.push(&bytes, &mut pool),
                    _ => queue.push_shared(Bytes::from(bytes), &mut pool),
                }
            }
            assert_eq!(queue.unsent(), expected.len());
            assert!(drained(&mut queue, &mut pool, step) == expected, "step {step}");
            assert_eq!(queue.unsent(), 0);
        }
    }

    #[test]
    fn pinned_bytes_do_not_move_while_more_is_queued() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(b"first", &mut pool);
        let at = queue.pin(0).next().map(<[u8]>::as_ptr);
        for _ in 0..1_000 {
            queue.push(b"more and more", &mut pool);
        }
        assert_eq!(queue.pin(0).len(), 0, "pinned already");
        queue.unpin();
        let again = queue.pin(0).next().map(<[u8]>::as_ptr);
        assert!(at.is_some() && at == again);
        queue.unpin();
        assert!(!queue.sent(2, &mut pool));
        assert_eq!(queue.pin(0).next(), Some(&b"rst"[..]));
    }

    #[test]
    fn telling_waits_for_exactly_what_was_queued_before() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(b"abc", &mut pool);
        queue.tell_when_sent();
        queue.push(b"def", &mut pool);
        for (sent, told) in [(2, false), (1, true), (3, false)] {
            let _ = queue.pin(0);
            queue.unpin();
            assert_eq!(queue.sent(sent, &mut pool), told);
        }
    }

    #[test]
    fn who_takes_a_byte_now_and_then_is_stalled() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(&vec![0; 1 << 20], &mut pool);
        let mut stalled = |sent: usize, now_ns| {
            let _ = queue.pin(0);
            queue.unpin();
            queue.sent(sent, &mut pool);
            queue.is_stalled(now_ns, 100)
        };
        // An eighth of it within the time, then of the rest.
        assert_eq!([stalled(0, 0), stalled(1 << 16, 50), stalled(1 << 16, 99)], [false; 3]);
        assert_eq!([stalled(1, 150), stalled(1, 198), stalled(1, 199)], [false, false, true]);
        assert!(!stalled(1 << 17, 200));
    }

    #[test]
    fn the_pool_hands_out_clean_queues() {
        let mut pool = Pool::default();
        let mut queue = pool.queue();
        queue.push(b"left over", &mut pool);
        let _ = queue.pin(0);
        queue.tell_when_sent();
        pool.recycle(queue);
        let mut queue = pool.queue();
        assert_eq!((queue.unsent(), queue.pin(0).len()), (0, 0));
        queue.push(b"new", &mut pool);
        assert_eq!(queue.pin(0).next(), Some(&b"new"[..]));
    }

    /// A look finds out by the goal, which is an eighth of what waits and not the least progress.
    #[test]
    fn much_that_waits_takes_much_progress() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(&vec![0; 1 << 20], &mut pool);
        assert!(!queue.is_stalled(0, 100));
        let _ = queue.pin(0);
        queue.unpin();
        queue.sent((1 << 17) - 1, &mut pool);
        assert!(!queue.is_stalled(99, 100) && queue.is_stalled(100, 100));
    }

    #[test]
    fn small_pieces_lie_side_by_side_and_large_ones_are_not_copied() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        let shared = Bytes::from(vec![1; SHARED_BYTES_MIN]);
        (0..100).for_each(|_| queue.push(&[0; 300], &mut pool));
        queue.push_shared(shared.slice(1..), &mut pool);
        assert_eq!(queue.segments.len(), 1);
        queue.push_shared(shared.clone(), &mut pool);
        queue.tell_when_sent();
        // Just as much as a segment holds, and one byte more.
        queue.push(&vec![2; SEGMENT_BYTES_MAX - 1], &mut pool);
        queue.push(&[3], &mut pool);
        assert_eq!(queue.segments.len(), 3);
        queue.push(&[4], &mut pool);
        assert_eq!(
            (queue.segments.len(), queue.is_pinned(), queue.is_gathered()),
            (4, false, false)
        );
        let offered: Vec<_> = queue.pin(0).map(<[u8]>::as_ptr).collect();
        assert_eq!(offered[1], shared.as_ptr());
        assert!(queue.is_pinned() && queue.is_gathered());
        queue.unpin();
        assert!(!queue.is_pinned());
        let before = 100 * 300 + 2 * SHARED_BYTES_MIN - 1;
        assert!(!queue.sent(before - 1, &mut pool));
        let _ = queue.pin(0);
        queue.unpin();
        assert!(queue.sent(1, &mut pool), "all that was queued before, shared or not");
        let rest = queue.unsent();
        let _ = queue.pin(0);
        queue.unpin();
        assert!(!queue.sent(rest - 1, &mut pool));
        assert!(queue.pin(0).len() == 1 && queue.is_pinned() && !queue.is_gathered());
    }

    /// Memory is used again, but not kept without bound.
    #[test]
    fn the_pool_keeps_small_buffers_and_few_of_them() {
        let mut pool = Pool::default();
        let mut queue = pool.queue();
        queue.push(b"little", &mut pool);
        let at = queue.segments[0].as_slice().as_ptr();
        pool.recycle(queue);
        assert_eq!((pool.buffers.len(), pool.queues.len()), (1, 1));
        let mut queue = pool.queue();
        assert!(queue.segments.capacity() > 0, "with its memory");
        queue.push(b"again", &mut pool);
        assert_eq!(queue.segments[0].as_slice().as_ptr(), at);
        assert_eq!((pool.buffers.len(), pool.queues.len()), (0, 0));
        // What is larger is asked for as large as it is, and goes back to the allocator.
        for (bytes, kept) in [(POOLED_BYTES_MAX, 1), (POOLED_BYTES_MAX + 1, 0)] {
            let mut pool = Pool::default();
            let mut queue = pool.queue();
            queue.push(&vec![0; bytes], &mut pool);
            let _ = queue.pin(0);
            queue.unpin();
            queue.sent(bytes, &mut pool);
            assert_eq!(pool.buffers.len(), kept, "{bytes} bytes");
            pool.buffers.push(Vec::new());
            assert_eq!(pool.buffer(bytes).capacity() == 0, kept == 1, "{bytes} bytes");
        }
        for _ in 0..=POOLED_MAX {
            let mut queue = Box::new(Outgoing::default());
            queue.segments.push_back(super::Segment::Own(Vec::new()));
            pool.recycle(queue);
        }
        assert_eq!((pool.buffers.len(), pool.queues.len()), (POOLED_MAX, POOLED_MAX));
        let mut pool = Pool::default();
        let mut long = Box::new(Outgoing::default());
        (0..100).for_each(|_| long.push_shared(Bytes::from(vec![0; SHARED_BYTES_MIN]), &mut pool));
        pool.recycle(long);
        assert_eq!(pool.queues.len(), 0, "a long queue's list is not kept");
    }

    #[test]
    fn only_what_the_kernel_was_offered_and_did_not_take_is_held_against_the_peer() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(&[0; 100], &mut pool);
        assert!(!queue.is_blocked(7), "not offered");
        let _ = queue.pin(7);
        assert_eq!([8, 9].map(|turn| queue.is_blocked(turn)), [false, true]);
        queue.unpin();
        queue.sent(60, &mut pool);
        assert!(queue.is_blocked(9), "took less than offered");
        let _ = queue.pin(9);
        queue.unpin();
        queue.sent(40, &mut pool);
        assert!(!queue.is_blocked(10));
    }
}
