//! One measurement: a receiver on one processor, a sender on another, and looks at both while they go.
//!
//! Both threads note what they have done when they are asked, at one moment each, so that no figure is
//! made of two clocks; asking costs them a comparison for each batch.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender as Channel, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::datagram::{Batch, SendStyle, Sender, Sent, Setup, Style};

use super::super::work::Work;
use super::place::{Place, why};
use super::plan::Plan;
use super::result::{Figures, Round, Sample};
use crate::flow::machine::Machine;
use crate::measure::number::float;
use crate::measure::process::own_resident_bytes;
use crate::measure::processors::pin_thread;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait of a thread before it sees that it was asked something.
const PATIENCE: Duration = Duration::from_millis(10);
/// How long the threads are waited for when they were asked: on a busy machine they may have to wait
/// for their processors.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// After so long without a datagram nothing more comes.
const SILENCE: Duration = Duration::from_millis(30);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) style: Style,
    pub(super) send_style: SendStyle,
    pub(super) flows: u16,
}

/// What is known before: how the machine is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rig<'a> {
    pub(super) plan: &'a Plan,
    pub(super) place: &'a Place,
    /// Processors of the sender and the receiver.
    pub(super) processors: Option<[usize; 2]>,
    pub(super) work: Work,
}

/// What a thread had done at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    at_s: f64,
    datagrams: u64,
    calls: u64,
    cpu_s: f64,
    user_s: f64,
    system_s: f64,
    waiting_bytes: u64,
    resident_bytes: u64,
}

/// Where a thread is asked what it has done, and answers.
#[derive(Default)]
struct Board {
    asked: AtomicU32,
    answered: Mutex<(u32, Tally)>,
    is_over: AtomicBool,
}

impl Board {
    fn answer(&self) -> (u32, Tally) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side of a board.
struct Teller<'a> {
    board: &'a Board,
    began: Instant,
    seen: u32,
}

impl<'a> Teller<'a> {
    fn new(board: &'a Board, began: Instant) -> Self {
        Self { board, began, seen: 0 }
    }

    #[inline]
    fn tell(&mut self, datagrams: u64, calls: u64, waiting_bytes: impl Fn() -> u64) {
        let asked = self.board.asked.load(Ordering::Relaxed);
        if asked != self.seen {
            self.seen = asked;
            let used = engine::thread_usage().unwrap_or_default();
            let tally = Tally {
                at_s: self.began.elapsed().as_secs_f64(),
                datagrams,
                calls,
                cpu_s: (used.user + used.system).as_secs_f64(),
                user_s: used.user.as_secs_f64(),
                system_s: used.system.as_secs_f64(),
                waiting_bytes: waiting_bytes(),
                resident_bytes: own_resident_bytes(),
            };
            *self.board.answered.lock().unwrap_or_else(PoisonError::into_inner) = (asked, tally);
        }
    }
}

/// What a receiver has done in all.
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    batch: Batch,
    buffer_bytes: usize,
    dropped: u64,
}

/// Measures once.
///
/// # Errors
/// Why it cannot be done, in words for a row.
pub(super) fn measure(rig: Rig<'_>, case: Case) -> Result<Round, String> {
    let began = Instant::now();
    let (receiving, sending) = (Board::default(), Board::default());
    let is_sent = AtomicBool::new(false);
    let (ready, is_ready) = channel();
    // Names by which a profile tells the threads apart.
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let failed = |error: std::io::Error| format!("a thread: {error}");
    std::thread::scope(|scope| {
        let teller = Teller::new(&receiving, began);
        let receiver = thread("receiver")
            .spawn_scoped(scope, || receive(rig, case, ready, teller, &is_sent))
            .map_err(failed)?;
        // When the receiver could not begin it says so by ending.
        let Ok(port) = is_ready.recv() else { return Err(ended(receiver.join())) };
        let teller = Teller::new(&sending, began);
        let sender = thread("sender")
            .spawn_scoped(scope, move || send(rig, case, port, teller))
            .map_err(|error| {
                is_sent.store(true, Ordering::Relaxed);
                failed(error)
            })?;
        let watched = watch(rig.plan, &receiving, &sending, || {
            receiver.is_finished() || sender.is_finished()
        });
        sending.is_over.store(true, Ordering::Relaxed);
        let sent = sender.join();
        is_sent.store(true, Ordering::Relaxed);
        let received = receiver.join();
        // A receiver that has ended is why its sender was refused.
        let received = received.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let mut round = watched?;
        let came = received.batch.datagrams + received.batch.truncated + received.batch.unreadable;
        round.sent_in_all = sent;
        round.lost = sent.saturating_sub(came);
        round.dropped = received.dropped;
        round.truncated = received.batch.truncated;
        round.unreadable = received.batch.unreadable;
        round.buffer_bytes = received.buffer_bytes;
        Ok(round)
    })
}

/// Why a thread has ended before it could begin.
fn ended<T>(joined: std::thread::Result<Result<T, String>>) -> String {
    match joined {
        Ok(Ok(_)) => "the receiver ended".to_owned(),
        Ok(Err(error)) => error,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn pin(rig: Rig<'_>, which: usize) -> Result<(), String> {
    let processor = rig.processors.and_then(|both| both.get(which).copied());
    processor.map_or(Ok(()), |it| pin_thread(it).map_err(|error| error.to_string()))
}

fn receive(
    rig: Rig<'_>,
    case: Case,
    ready: Channel<u16>,
    mut teller: Teller<'_>,
    is_sent: &AtomicBool,
) -> Result<Received, String> {
    pin(rig, 1)?;
    let socket = rig.place.receiver()?;
    let port = socket.local_addr().map_err(|error| error.to_string())?.port();
    let buffer_bytes = make_room(&socket, rig.plan.buffer_bytes);
    let setup = rig.place.complete(Setup {
        batch: rig.plan.batch,
        datagram_bytes_max: rig.plan.bytes.max(1),
        gather: rig.plan.gather,
        ..Setup::default()
    });
    let mut receiver = case.style.open(socket, &setup).map_err(|error| why(&error))?;
    if ready.send(port).is_err() {
        return Err("nobody waits for the receiver".to_owned());
    }
    drop(ready);
    let failed = |error: std::io::Error| format!("receiving: {error}");
    let mut all = Batch::default();
    let mut silent_since: Option<Instant> = None;
    // What is in the datagrams is looked at, as a server does.
    let mut sum = 0_u64;
    loop {
        let batch = receiver
            .receive(PATIENCE, &mut |datagram| {
                if let Some(number) = datagram.bytes.first_chunk() {
                    sum = sum.wrapping_add(u64::from_le_bytes(*number));
                }
                rig.work.burn();
            })
            .map_err(failed)?;
        all += batch;
        teller.tell(all.datagrams, all.calls, || receiver.waiting_bytes().unwrap_or(0));
        if batch.datagrams + batch.truncated + batch.unreadable > 0
            || !is_sent.load(Ordering::Relaxed)
        {
            silent_since = None;
        } else if silent_since.get_or_insert_with(Instant::now).elapsed() > SILENCE {
            break;
        }
    }
    std::hint::black_box(sum);
    Ok(Received { batch: all, buffer_bytes, dropped: receiver.dropped().unwrap_or(0) })
}

/// As much room as the system gives: beyond its limit with the right to, else up to it. Tells how
/// much that is; 0 if the system does not say.
fn make_room(socket: &std::net::UdpSocket, bytes: usize) -> usize {
    let options = socket2::SockRef::from(socket);
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        // A smaller buffer is the system's choice, and all styles get the same.
        let _ = options.set_recv_buffer_size(bytes);
    }
    // Linux doubles what it was asked for, for its own needs, and tells that. Source: socket(7).
    options.recv_buffer_size().map_or(0, |it| it / 2)
}

fn send(rig: Rig<'_>, case: Case, port: u16, mut teller: Teller<'_>) -> Result<u64, String> {
    pin(rig, 0)?;
    let burst = rig.plan.bursts[usize::from(case.flows > 1)];
    let bytes = rig.plan.bytes;
    let open =
        |socket| case.send_style.open(socket, burst, bytes.max(1)).map_err(|it| it.to_string());
    let senders = rig.place.senders(case.flows, port)?.into_iter().map(open);
    let mut senders: Vec<Box<dyn Sender>> = senders.collect::<Result<_, _>>()?;
    let (began, mut all, mut number) = (Instant::now(), Sent::default(), 0_u64);
    let mut turns = (0..senders.len()).cycle();
    while !teller.board.is_over.load(Ordering::Relaxed) {
        teller.tell(all.datagrams, all.calls, || 0);
        if let Some(rate) = rig.plan.rate {
            let ahead_s = float(all.datagrams) / rate - began.elapsed().as_secs_f64();
            if ahead_s > 0.0 {
                std::thread::sleep(Duration::from_secs_f64(ahead_s).min(PATIENCE));
                continue;
            }
        }
        let Some(sender) = turns.next().and_then(|turn| senders.get_mut(turn)) else { break };
        let sent = sender.send(burst, bytes, &mut |_, room| {
            number = number.wrapping_add(1);
            if let Some(place) = room.first_chunk_mut() {
                *place = number.to_le_bytes();
            }
        });
        all += sent.map_err(|error| format!("sending: {error}"))?;
    }
    Ok(all.datagrams)
}

/// Asks both sides every now and then, and puts together what they have said. The first tenth does
/// not count.
fn watch(
    plan: &Plan,
    receiving: &Board,
    sending: &Board,
    is_ended: impl Fn() -> bool,
) -> Result<Round, String> {
    let mut asked = 0;
    let mut look = || {
        asked += 1;
        for board in [receiving, sending] {
            board.asked.store(asked, Ordering::Relaxed);
        }
        let since = Instant::now();
        loop {
            let (received, sent) = (receiving.answer(), sending.answer());
            if received.0 == asked && sent.0 == asked {
                return Some((received.1, sent.1));
            }
            if is_ended() || since.elapsed() > ANSWER_MAX {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // Why is what the thread that has ended says.
    let silent = || "a thread does not answer".to_owned();
    std::thread::sleep(plan.span / 10);
    let machine = Machine::read();
    let first = look().ok_or_else(silent)?;
    let (mut series, mut last) = (Vec::new(), first);
    while last.0.at_s - first.0.at_s < plan.span.as_secs_f64() && !plan.stop.load(Ordering::Relaxed)
    {
        let left = plan.span.as_secs_f64() - (last.0.at_s - first.0.at_s);
        std::thread::sleep(LOOK_EVERY.min(Duration::from_secs_f64(left.max(0.001))));
        let now = look().ok_or_else(silent)?;
        series.push(sample(&first.0, &last, &now));
        last = now;
    }
    let machine = Machine::read().zip(machine).map(|(now, before)| now.since(&before));
    let machine = machine.unwrap_or_default();
    let ((r0, s0), (r1, s1)) = (first, last);
    Ok(Round {
        round: 0,
        span_s: r1.at_s - r0.at_s,
        received: r1.datagrams - r0.datagrams,
        sent: s1.datagrams - s0.datagrams,
        receiver: figures(&r0, &r1),
        sender: figures(&s0, &s1),
        machine_busy_s: machine.user_s + machine.system_s + machine.interrupt_s + machine.softirq_s,
        machine_softirq_s: machine.interrupt_s + machine.softirq_s,
        stolen_s: machine.steal_s,
        series,
        ..Round::default()
    })
}

/// What a thread used between two moments: its time is exact, the halves of it are told by ticks.
fn figures(from: &Tally, to: &Tally) -> Figures {
    let cpu_s = to.cpu_s - from.cpu_s;
    let (user, system) = (to.user_s - from.user_s, to.system_s - from.system_s);
    let ticks = user + system;
    let user_s = if ticks > 0.0 { cpu_s * user / ticks } else { 0.0 };
    let system_s = if ticks > 0.0 { cpu_s - user_s } else { 0.0 };
    Figures { cpu_s, user_s, system_s, calls: to.calls - from.calls }
}

fn sample(first: &Tally, last: &(Tally, Tally), now: &(Tally, Tally)) -> Sample {
    let span_s = (now.0.at_s - last.0.at_s).max(1e-9);
    let used = figures(&last.0, &now.0);
    Sample {
        at_s: now.0.at_s - first.at_s,
        received_per_s: float(now.0.datagrams - last.0.datagrams) / span_s,
        sent_per_s: float(now.1.datagrams - last.1.datagrams)
            / (now.1.at_s - last.1.at_s).max(1e-9),
        user: used.user_s / span_s,
        system: used.system_s / span_s,
        waiting_bytes: now.0.waiting_bytes,
        resident_bytes: now.0.resident_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, figures, make_room};

    #[test]
    fn the_buffer_is_told_as_it_was_given() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(make_room(&socket, 100_000), 100_000);
        // With rights and without, the system gives no less than it needs.
        assert!(make_room(&socket, 1) > 1);
    }

    #[test]
    fn the_halves_of_exact_time_are_told_by_ticks() {
        let from = Tally { cpu_s: 1.0, user_s: 0.5, system_s: 0.5, calls: 3, ..Tally::default() };
        let to = Tally { cpu_s: 2.1, user_s: 0.75, system_s: 1.25, calls: 10, ..from };
        let used = figures(&from, &to);
        assert!((used.cpu_s - 1.1).abs() < 1e-9 && (used.user_s - 0.275).abs() < 1e-9);
        assert!((used.system_s - 0.825).abs() < 1e-9 && used.calls == 7);
        // A thread that no tick has met.
        let idle = figures(&from, &Tally { cpu_s: 1.001, ..from });
        assert!(idle.user_s + idle.system_s == 0.0 && idle.cpu_s > 0.0);
    }
}
