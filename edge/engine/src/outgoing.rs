//! What one connection has still to send: segments in stable memory, the first of which the
//! kernel may be reading. An idle connection has none of this; memory comes from a pool of the
//! thread and goes back when all is sent.

use std::collections::VecDeque;

use bytes::Bytes;

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
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    // Boxed because the box itself is what is handed out.
    #[expect(clippy::vec_box, reason = "moved in and out of connections without copying")]
    queues: Vec<Box<Outgoing>>,
}

impl Pool {
    #[inline]
    #[expect(clippy::unnecessary_box_returns, reason = "the box is what the pool keeps")]
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
pub(crate) struct Outgoing {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are sent.
    front_sent: usize,
    /// The kernel reads the first segment: it must neither move nor grow.
    pinned: bool,
    unsent: usize,
    /// Bytes ever queued and ever sent since the queue was taken from the pool.
    queued_total: u64,
    sent_total: u64,
    /// When `sent_total` gets here, the handler wants to hear of it.
    tell_at: Option<u64>,
    /// Since when the peer is watched, and what `sent_total` must be in time.
    watch: Option<(u64, u64)>,
}

/// What a peer must take in time, unless less waits for it.
const PROGRESS_BYTES_MIN: u64 = 16 << 10;
/// Or this part of what waits, if that is more: so that no peer keeps much for long.
const PROGRESS_PART: u64 = 8;

impl Outgoing {
    /// Bytes that the kernel has not taken yet.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether the peer has taken too little since this was first asked, or since it last had
    /// taken enough. To be asked now and then.
    pub(crate) fn is_stalled(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        match self.watch {
            Some((since_ns, goal)) if self.sent_total < goal => {
                now_ns.saturating_sub(since_ns) >= patience_ns
            }
            _ => {
                let unsent = self.unsent as u64;
                let progress = unsent.min(PROGRESS_BYTES_MIN.max(unsent / PROGRESS_PART));
                self.watch = Some((now_ns, self.sent_total + progress));
                false
            }
        }
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
        let growable = self.segments.len() > usize::from(self.pinned);
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

    /// The bytes to send next, and pins them: they stay where they are until [`Self::unpin`] or
    /// the end of the queue. `None` when nothing is left or something is pinned already.
    #[inline]
    pub(crate) fn pin(&mut self) -> Option<&[u8]> {
        if self.pinned {
            return None;
        }
        let bytes = self.segments.front()?.as_slice().get(self.front_sent..)?;
        self.pinned = true;
        Some(bytes)
    }

    /// The kernel has let go of the pinned bytes.
    #[inline]
    pub(crate) fn unpin(&mut self) {
        self.pinned = false;
    }

    /// The first `bytes` of the pinned ones are sent. Says whether the handler is to be told.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, pool: &mut Pool) -> bool {
        self.front_sent += bytes;
        self.unsent = self.unsent.saturating_sub(bytes);
        self.sent_total += bytes as u64;
        let front_len = self.segments.front().map_or(0, |front| front.as_slice().len());
        if self.front_sent >= front_len {
            self.front_sent = 0;
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

    use super::{Outgoing, Pool, SEGMENT_BYTES_MAX, SHARED_BYTES_MIN};

    /// Sends everything in steps of at most `step` bytes, while more is pushed behind.
    fn drained(queue: &mut Outgoing, pool: &mut Pool, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = queue.pin() {
            let part = bytes.get(..step.min(bytes.len())).unwrap_or_default().to_vec();
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
        let at = queue.pin().map(<[u8]>::as_ptr);
        for _ in 0..1_000 {
            queue.push(b"more and more", &mut pool);
        }
        assert!(queue.pin().is_none(), "pinned already");
        queue.unpin();
        let again = queue.pin().map(<[u8]>::as_ptr);
        assert!(at.is_some() && at == again);
        queue.unpin();
        assert!(!queue.sent(2, &mut pool));
        assert_eq!(queue.pin(), Some(&b"rst"[..]));
    }

    #[test]
    fn telling_waits_for_exactly_what_was_queued_before() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(b"abc", &mut pool);
        queue.tell_when_sent();
        queue.push(b"def", &mut pool);
        for (sent, told) in [(2, false), (1, true), (3, false)] {
            assert_eq!(queue.sent(sent, &mut pool), told);
        }
    }

    #[test]
    fn who_takes_a_byte_now_and_then_is_stalled() {
        let (mut queue, mut pool) = (Outgoing::default(), Pool::default());
        queue.push(&vec![0; 1 << 20], &mut pool);
        let mut stalled = |sent: usize, now_ns| {
            queue.pin();
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
        queue.pin();
        queue.tell_when_sent();
        pool.recycle(queue);
        let mut queue = pool.queue();
        assert_eq!((queue.unsent(), queue.pin()), (0, None));
        queue.push(b"new", &mut pool);
        assert_eq!(queue.pin(), Some(&b"new"[..]));
    }
}
