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

use engine::datagram::{Receiver, SendStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::meter::{Stage, Worker};
use super::pace::Pace;
use super::sequence::Sequence;
use super::work::Work;
use crate::peer::gone::{Gone, would_wait};
use crate::peer::protocol::{HEAD_BYTES, datagram_head, read_datagram};

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
                    pace.sent(self.turn(worker, PollFlags::OUT, write)?);
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

/// What a thread sends by UDP.
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    pub(crate) style: SendStyle,
    pub(crate) session: u64,
    pub(crate) bytes: usize,
}

impl Datagrams {
    /// Sends until the flow is over: datagrams with the session and a number, and a mark at those that
    /// count.
    pub(crate) fn send(self, worker: &mut Worker, rate: Option<f64>) -> Result<(), Gone> {
        let bytes = self.bytes.max(HEAD_BYTES);
        let opened = self.style.open(self.socket, BATCH, bytes);
        let mut sender = opened.map_err(|error| Gone::Network(std::io::Error::other(error)))?;
        let mut pace = Pace::new(rate);
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
            let head = |index: usize| {
                let number = number + u64::try_from(index).unwrap_or(0);
                datagram_head(self.session, number | counts)
            };
            let count = usize::try_from(due).unwrap_or(1);
            let sent = sender.send(count, bytes, &mut |index, datagram| {
                datagram[..HEAD_BYTES].copy_from_slice(&head(index));
            });
            match sent {
                Ok(sent) => {
                    refused = 0;
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

/// Receives datagrams of one session until the flow is over, and burns `work` for each.
pub(crate) fn receive_datagrams(
    receiver: &mut dyn Receiver,
    worker: &mut Worker,
    session: u64,
    work: Work,
) -> std::io::Result<()> {
    let mut sequence = Sequence::new();
    loop {
        // Asking takes a while; it is needed when a stretch begins.
        if worker.is_due() {
            worker.tally.dropped = receiver.dropped()?;
        }
        if worker.look() == Stage::Over {
            return Ok(());
        }
        let (mut bytes, mut datagrams, mut foreign) = (0, 0, 0);
        let batch =
            receiver.receive(LOOK, &mut |datagram| match read_datagram(datagram.bytes) {
                Some((of, number)) if of == session => {
                    sequence.take(number & !COUNTS, number & COUNTS != 0);
                    bytes += u64::try_from(datagram.bytes.len()).unwrap_or(0);
                    datagrams += 1;
                    work.burn();
                }
                _ => foreign += 1,
            })?;
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
    use super::super::work::Work;
    use super::{Datagrams, Streams, receive_datagrams};

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
            while totals(&lanes, number, PATIENCE).bytes < 1_000_000 {
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
                let style = SendStyle::One;
                let datagrams = Datagrams { socket: from, style, session: 7, bytes: 100 };
                datagrams.send(&mut sends, Some(1_000.0)).unwrap();
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
}
