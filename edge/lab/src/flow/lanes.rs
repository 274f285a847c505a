//! The loops of a flow's threads: they send or receive until the flow is over, and note what they did
//! whenever a stretch begins.
//!
//! A thread with one connection sleeps in the call that sends or receives, as a plain program does; one
//! with several waits for any of them in poll(2). Nothing sleeps longer than [`LOOK`], so that a
//! stretch begins everywhere at once and a flow that ends has ended soon.
//!
//! In: connected sockets. Out: tallies, and why it ended before its time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::datagram::{
    OpenError, Receiver, SendStyle, Sender, Setup, Style, XDP_BYTES, interface_of,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use super::meter::{Stage, Worker};
use super::pace::Pace;
use super::sequence::Sequence;
use super::work::Work;
use crate::peer::gone::{Gone, would_wait};
use crate::peer::protocol::{HEAD_BYTES, SILENCE_MAX, datagram_head, read_datagram};

/// How long a thread sleeps at most.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Pause of a thread that has nothing to do yet.
const BREATH: Duration = Duration::from_millis(1);
/// Bytes of a call from which on each is timed; of shorter ones, which reading the clock would slow
/// down, one of [`TIMED_EVERY`].
const TIMED_BYTES: usize = 16 << 10;
const TIMED_EVERY: u64 = 32;
/// Datagrams sent between two looks, at most: what one call takes in styles of many.
const BATCH: usize = 64;
/// How long a thread that sends at a rate sleeps at least: waiting awake would be counted as the cost of
/// sending, and waking up for each of many as well.
const NAP: Duration = Duration::from_micros(200);
/// Errors of the network behind each other from which on nobody receives.
const REFUSED_MAX: u32 = 8;
/// Says of a datagram's number that it counts.
const COUNTS: u64 = 1 << 63;
/// Says that it is none of the flow's datagrams: who is to receive says where, and that it is there. The
/// rest is the number of its lane.
const HERE: u64 = 1 << 62;
/// Such datagrams that are read in one look, at most.
const HERE_MAX: usize = 64;
/// Of what a style takes from the kernel at once, at most.
const PIECE_BYTES: usize = 1 << 16;
/// How long a receiver may burn before it looks where the flow is: several share a processor, and all of
/// them are to have looked before the other end is told.
const BURN_MAX: Duration = Duration::from_millis(20);

/// What a thread sends or receives by TCP.
pub(crate) struct Streams {
    streams: Vec<Arc<TcpStream>>,
    buffer: Vec<u8>,
    /// Where the next turn begins, so that none of several is preferred.
    first: usize,
}

impl Streams {
    /// `bytes` are moved by one call at most.
    pub(crate) fn new(streams: Vec<Arc<TcpStream>>, bytes: usize) -> std::io::Result<Self> {
        for stream in &streams {
            stream.set_nonblocking(streams.len() > 1)?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
        }
        // What no compression on the way makes smaller.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let noise = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        });
        let buffer = noise.take(bytes.max(1)).collect();
        Ok(Self { streams, buffer, first: 0 })
    }

    /// Sends until the flow is over.
    pub(crate) fn send(&mut self, worker: &mut Worker, rate: Option<f64>) -> Result<(), Gone> {
        let mut pace = Pace::new(rate);
        loop {
            match worker.look() {
                Stage::Open => std::thread::sleep(BREATH),
                Stage::Over => return Ok(()),
                Stage::WarmUp | Stage::Counted | Stage::CoolDown => {
                    let due = pace.due(worker.now_ns(), 1);
                    worker.tally.missed = pace.missed();
                    if due == 0 {
                        rest(pace.wait(worker.now_ns()));
                        continue;
                    }
                    let write = |mut stream: &TcpStream, buffer: &mut [u8]| stream.write(buffer);
                    let count = self.turn(worker, PollFlags::OUT, write)?;
                    worker.set_idle(count == 0);
                    pace.sent(count);
                }
            }
        }
    }

    /// Receives until the flow is over, or the other end has nothing more to send.
    pub(crate) fn receive(&mut self, worker: &mut Worker) -> Result<(), Gone> {
        let read = |mut stream: &TcpStream, buffer: &mut [u8]| stream.read(buffer);
        while worker.look() != Stage::Over && !self.streams.is_empty() {
            let count = self.turn(worker, PollFlags::IN, read)?;
            worker.set_idle(count == 0);
        }
        Ok(())
    }

    /// One call for each connection that is ready. How many have moved anything.
    fn turn(&mut self, worker: &mut Worker, flags: PollFlags, call: Call) -> Result<u64, Gone> {
        if let [stream] = &*self.streams {
            let moved = moved(worker, stream, &mut self.buffer, call)?;
            if moved == Moved::End {
                self.streams.clear();
            }
            return Ok(u64::from(moved == Moved::Some));
        }
        let mut fds: Vec<PollFd<'_>> =
            self.streams.iter().map(|stream| PollFd::new(&**stream, flags)).collect();
        let nsec = i64::try_from(LOOK.as_nanos()).unwrap_or(0);
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: nsec }));
        if ready.unwrap_or(0) == 0 {
            return Ok(0);
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let count = is_ready.len();
        self.first = (self.first + 1) % count;
        let (mut moved_count, mut ended) = (0, Vec::new());
        for at in (0..count).map(|at| (at + self.first) % count).filter(|at| is_ready[*at]) {
            match moved(worker, &self.streams[at], &mut self.buffer, call)? {
                Moved::Some => moved_count += 1,
                Moved::End => ended.push(at),
                Moved::None => {}
            }
        }
        ended.sort_unstable();
        for at in ended.into_iter().rev() {
            self.streams.remove(at);
        }
        Ok(moved_count)
    }
}

/// read(2) or write(2).
type Call = fn(&TcpStream, &mut [u8]) -> std::io::Result<usize>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Some,
    None,
    End,
}

/// One call, and what became of it.
fn moved(
    worker: &mut Worker,
    stream: &TcpStream,
    buffer: &mut [u8],
    call: Call,
) -> Result<Moved, Gone> {
    let is_timed = buffer.len() >= TIMED_BYTES || worker.tally.calls.is_multiple_of(TIMED_EVERY);
    let began = is_timed.then(Instant::now);
    match call(stream, buffer) {
        Ok(0) => Ok(Moved::End),
        Ok(len) => {
            worker.tally.bytes += u64::try_from(len).unwrap_or(0);
            worker.tally.calls += 1;
            if let Some(began) = began {
                worker.record(began);
            }
            Ok(Moved::Some)
        }
        Err(error) if would_wait(&error) => Ok(Moved::None),
        Err(error) => Err(Gone::of(error)),
    }
}

/// Sleeps until the next is due, and perhaps some more with it.
fn rest(wait: Duration) {
    std::thread::sleep(wait.clamp(NAP, LOOK));
}

/// The first datagram of a lane's socket: where it is. `is_back` where the server is to send.
pub(crate) fn first_datagram(session: u64, lane: u64, is_back: bool) -> [u8; HEAD_BYTES] {
    datagram_head(session, if is_back { lane | HERE } else { lane })
}

/// The lane in the number of such a datagram.
pub(crate) fn lane_of(number: u64) -> u64 {
    number & !HERE
}

/// Hears whether the other end is still there to be sent to: from where it is sent to, by datagrams of
/// the session, of which nobody else knows the number. So nobody is flooded who does not ask for it.
pub(crate) struct Hearing {
    socket: UdpSocket,
    session: u64,
    heard_at: Instant,
    looked_at: Instant,
}

impl Hearing {
    /// On a connected socket, whose peer was last heard then.
    pub(crate) fn new(
        socket: &UdpSocket,
        session: u64,
        heard_at: Instant,
    ) -> std::io::Result<Self> {
        Ok(Self { socket: socket.try_clone()?, session, heard_at, looked_at: heard_at })
    }

    /// Whether it was heard of late.
    fn is_there(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.looked_at) >= LOOK {
            self.looked_at = now;
            let mut head = [0; HEAD_BYTES];
            for _ in 0..HERE_MAX {
                match recv(&self.socket, &mut head[..], RecvFlags::DONTWAIT) {
                    Ok((_, len)) => {
                        let found = head.get(..len).and_then(read_datagram);
                        if found.is_some_and(|(session, _)| session == self.session) {
                            self.heard_at = now;
                        }
                    }
                    // Nothing more, or what an earlier datagram has come back as.
                    Err(_) => break,
                }
            }
        }
        now.duration_since(self.heard_at) <= SILENCE_MAX
    }
}

/// What a thread sends by UDP; opened by the thread that sends.
pub(crate) struct Datagrams {
    sender: Box<dyn Sender>,
    session: u64,
    bytes: usize,
    /// Of an end that sends only to who says that it is there.
    hearing: Option<Hearing>,
}

impl Datagrams {
    pub(crate) fn open(
        socket: UdpSocket,
        style: SendStyle,
        session: u64,
        bytes: usize,
    ) -> Result<Self, OpenError> {
        let bytes = bytes.max(HEAD_BYTES);
        let sender = style.open(socket, BATCH, bytes)?;
        Ok(Self { sender, session, bytes, hearing: None })
    }

    /// Sends only while the other end says that it is there.
    pub(crate) fn while_heard(self, hearing: Hearing) -> Self {
        Self { hearing: Some(hearing), ..self }
    }

    /// Bytes that a style takes for what it sends at once.
    pub(crate) fn buffer_bytes(style: SendStyle, bytes: usize) -> usize {
        if style == SendStyle::One { bytes } else { BATCH * bytes }
    }

    /// Sends until the flow is over: datagrams with the session and a number, and a mark at those that
    /// count.
    pub(crate) fn send(mut self, worker: &mut Worker, mut pace: Pace) -> Result<(), Gone> {
        let bytes = self.bytes;
        // Never the same twice, whatever became of a call.
        let mut number = 0;
        let (mut refused, mut unsent, mut turns) = (0, 0, 0_u64);
        loop {
            let counts = match worker.look() {
                Stage::Open => {
                    std::thread::sleep(BREATH);
                    continue;
                }
                Stage::Over => return Ok(()),
                Stage::Counted => COUNTS,
                Stage::WarmUp | Stage::CoolDown => 0,
            };
            if self.hearing.as_mut().is_some_and(|it| !it.is_there()) {
                worker.set_idle(true);
                std::thread::sleep(LOOK);
                continue;
            }
            // One alone is timed now and then.
            let is_timed = turns.is_multiple_of(TIMED_EVERY);
            let most = if is_timed { 1 } else { BATCH };
            let due = pace.due(worker.now_ns(), u64::try_from(most).unwrap_or(1));
            worker.tally.missed = pace.missed() + unsent;
            if due == 0 {
                rest(pace.wait(worker.now_ns()));
                continue;
            }
            turns += 1;
            let began = Instant::now();
            let session = self.session;
            let head = |index: usize| {
                let number = number + u64::try_from(index).unwrap_or(0);
                datagram_head(session, number | counts)
            };
            let count = usize::try_from(due).unwrap_or(1);
            let sent = self.sender.send(count, bytes, &mut |index, datagram| {
                datagram[..HEAD_BYTES].copy_from_slice(&head(index));
            });
            match sent {
                Ok(sent) => {
                    refused = 0;
                    worker.set_idle(false);
                    worker.tally.calls += sent.calls;
                    worker.tally.datagrams += sent.datagrams;
                    let each = u64::try_from(bytes).unwrap_or(0);
                    worker.tally.bytes += sent.datagrams * each;
                    if is_timed {
                        worker.record(began);
                    }
                }
                // The interface's queue is full: not sent.
                Err(error) if would_wait(&error) || is_full(&error) => unsent += due,
                // Nobody has that port, or had it a moment ago.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    refused += 1;
                    if refused > REFUSED_MAX {
                        return Err(Gone::PortClosed);
                    }
                }
                Err(error) => return Err(Gone::Network(error)),
            }
            number += due;
            pace.sent(due);
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Opens a receiver of a flow's datagrams, in the thread that is to receive, on a connected socket.
pub(crate) fn receiver(
    style: Style,
    socket: UdpSocket,
    mut setup: Setup,
) -> Result<Box<dyn Receiver>, OpenError> {
    if style == Style::Xdp {
        setup.interface = Some(interface_of(&socket, setup.datagram_bytes_max)?);
    }
    style.open(socket, &setup)
}

/// Bytes that a style takes for what it receives.
pub(crate) fn receiver_bytes(style: Style, setup: &Setup) -> usize {
    match style {
        Style::Recv | Style::Epoll => setup.datagram_bytes_max,
        // Rooms of pieces, which may hold merged ones.
        Style::Mmsg | Style::Gro | Style::Uring | Style::UringGro => setup.batch * PIECE_BYTES,
        Style::Xdp => XDP_BYTES,
    }
}

/// How a receiver of a flow's datagrams is set up, which burns so much for each.
pub(crate) fn setup(bytes: u32, work: Duration) -> Setup {
    let usual = Setup::default();
    let fits = BURN_MAX.as_nanos().checked_div(work.as_nanos()).unwrap_or(u128::MAX);
    Setup {
        batch: usize::try_from(fits).unwrap_or(usual.batch).clamp(1, usual.batch),
        datagram_bytes_max: usize::try_from(bytes).unwrap_or(0),
        ..usual
    }
}

/// Receives datagrams of one session until the flow is over, and burns `work` for each.
pub(crate) fn receive_datagrams(
    receiver: &mut dyn Receiver,
    worker: &mut Worker,
    session: u64,
    work: Work,
) -> std::io::Result<()> {
    let mut sequence = Sequence::new();
    let mut turns = 0_u64;
    loop {
        // Asking takes a while; it is needed when a stretch begins.
        if worker.is_due() {
            worker.tally.dropped = receiver.dropped()?;
        }
        if worker.look() == Stage::Over {
            return Ok(());
        }
        let (mut bytes, mut datagrams, mut foreign) = (0, 0, 0);
        let began = turns.is_multiple_of(TIMED_EVERY).then(Instant::now);
        turns += 1;
        let batch =
            receiver.receive(LOOK, &mut |datagram| match read_datagram(datagram.bytes) {
                // What this end has said of itself, come back.
                Some((of, number)) if of == session && number & HERE != 0 => {}
                Some((of, number)) if of == session => {
                    sequence.take(number & !COUNTS, number & COUNTS != 0);
                    bytes += u64::try_from(datagram.bytes.len()).unwrap_or(0);
                    datagrams += 1;
                    work.burn();
                }
                _ => foreign += 1,
            })?;
        if let Some(began) = began.filter(|_| batch.datagrams > 0) {
            worker.record(began);
        }
        let tally = &mut worker.tally;
        tally.bytes += bytes;
        tally.datagrams += datagrams;
        tally.foreign += foreign + batch.truncated + batch.unreadable;
        tally.calls += batch.calls;
        tally.counts = sequence.counts();
        worker.set_idle(batch.datagrams == 0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use engine::datagram::{SendStyle, Setup, Style};

    use super::super::meter::{Beat, Lane, Stage, Worker, totals};
    use super::super::pace::Pace;
    use super::super::work::Work;
    use super::{Datagrams, Hearing, Streams, first_datagram, lane_of, receive_datagrams, setup};

    fn worker(beat: &Arc<Beat>) -> (Worker, Arc<Lane>) {
        let lane = Arc::new(Lane::default());
        (Worker::new(beat.clone(), lane.clone()), lane)
    }

    const PATIENCE: Duration = Duration::from_secs(5);

    #[test]
    fn what_is_sent_by_one_or_several_connections_is_received() {
        for count in [1, 3] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let pairs: Vec<_> = (0..count)
                .map(|_| {
                    let stream = TcpStream::connect(address).unwrap();
                    (Arc::new(stream), Arc::new(listener.accept().unwrap().0))
                })
                .collect();
            let beats = [Arc::new(Beat::new()), Arc::new(Beat::new())];
            let begin = |number, stage| beats.iter().for_each(|it| it.begin(number, stage));
            let [(mut sends, sender), (mut receives, receiver)] = beats.each_ref().map(worker);
            let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let send = std::thread::spawn(move || {
                Streams::new(ours, 5_000).unwrap().send(&mut sends, None).unwrap();
            });
            let receive = std::thread::spawn(move || {
                Streams::new(theirs, 5_000).unwrap().receive(&mut receives).unwrap();
            });
            let lanes = [sender, receiver];
            begin(1, Stage::WarmUp);
            assert_eq!(totals(&lanes[..1], 1, PATIENCE).bytes, 0);
            let mut number = 1;
            // The kernel tells a thread of its time once a tick, and this may take less.
            let is_enough = |number| {
                let sent = totals(&lanes[..1], number, PATIENCE);
                sent.user_ns + sent.system_ns > 0
                    && totals(&lanes, number, PATIENCE).bytes >= 1_000_000
            };
            while number < 100_000 && !is_enough(number) {
                number += 1;
                begin(number, Stage::Counted);
            }
            // Whoever sends stops first, as in a run: an end that closes too early is reset.
            beats[0].begin(number + 1, Stage::Over);
            send.join().unwrap();
            beats[1].begin(number + 1, Stage::Over);
            receive.join().unwrap();
            let [sent, received] = lanes.map(|lane| totals(&[lane], number + 1, PATIENCE));
            assert!(received.bytes > 0 && received.bytes <= sent.bytes, "{sent:?} {received:?}");
            assert!(sent.user_ns + sent.system_ns > 0 && sent.calls > 0);
        }
    }

    #[test]
    fn datagrams_come_as_they_were_sent_and_at_their_rate() {
        let (to, from) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (to, from) = (to.unwrap(), from.unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let beat = Arc::new(Beat::new());
        let ((mut sends, sender), (mut receives, receiver)) = (worker(&beat), worker(&beat));
        let began = Instant::now();
        beat.begin(1, Stage::Counted);
        let threads = [
            std::thread::spawn(move || {
                let datagrams = Datagrams::open(from, SendStyle::One, 7, 100).unwrap();
                datagrams.send(&mut sends, Pace::new(Some(1_000.0))).unwrap();
            }),
            std::thread::spawn(move || {
                let mut it = Style::Recv.open(to, &Setup::default()).unwrap();
                let work = Work::of(Duration::ZERO);
                receive_datagrams(&mut *it, &mut receives, 7, work).unwrap();
            }),
        ];
        let mut number = 1;
        let received = loop {
            number += 1;
            beat.begin(number, Stage::Counted);
            let it = totals(std::slice::from_ref(&receiver), number, PATIENCE);
            if it.datagrams >= 50 {
                break it;
            }
        };
        let took_ms = began.elapsed().as_millis();
        beat.begin(number + 1, Stage::Over);
        threads.into_iter().for_each(|it| it.join().unwrap());
        let sent = totals(&[sender], number + 1, PATIENCE);
        assert_eq!((received.doubled, received.reordered, received.missing), (0, 0, 0));
        assert_eq!((received.counted, received.bytes), (received.came, 100 * received.came));
        // A thousand a second: fifty take fifty milliseconds at least.
        assert!(took_ms >= 45 && sent.datagrams >= received.came, "{took_ms} {sent:?}");
    }

    #[test]
    fn whoever_is_silent_or_says_another_sessions_number_is_not_there() {
        let (to, from) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (to, from) = (to.unwrap(), from.unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.connect(from.local_addr().unwrap()).unwrap();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let mut hearing = Hearing::new(&from, 7, long_ago).unwrap();
        for (session, wanted) in [(8, false), (7, true)] {
            to.send(&first_datagram(session, 5, true)).unwrap();
            hearing.looked_at = long_ago;
            assert_eq!(hearing.is_there(), wanted, "{session}");
        }
        hearing.heard_at = long_ago;
        assert!(!hearing.is_there());
        let first = first_datagram(7, 5, true);
        let (session, number) = crate::peer::protocol::read_datagram(&first).unwrap();
        assert_eq!((session, lane_of(number)), (7, 5));
    }

    #[test]
    fn who_burns_much_looks_up_often() {
        for (work_ns, wanted) in [(0, 64), (200, 64), (1_000_000, 20), (50_000_000, 1)] {
            let it = setup(1_200, Duration::from_nanos(work_ns));
            assert_eq!((it.batch, it.datagram_bytes_max), (wanted, 1_200), "{work_ns}");
        }
    }
}
