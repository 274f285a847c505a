//! One thread of players.
//!
//! In: orders, datagrams, the clock. Out: datagrams, and what was seen when somebody asks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::table::{Seat, Table, seats};
use super::{Order, Place, Seen, Settings};
use crate::games::players::client::Out;
use crate::games::players::seen::GeneratorSeen;
use crate::games::players::socket::now_ns;
use crate::measure::arrivals::Stream;
use crate::measure::processors::pin_thread;

/// How long it waits when nobody is due: orders are looked for as often.
const TURN_NS: u64 = 10_000_000;
/// Sockets that are told of at once, and players that send in one turn, so that neither waits for the other.
const EVENTS_MAX: usize = 256;
const BEATS_MAX: usize = 256;
/// Datagrams that are read of one player in a turn.
const READS_MAX: usize = 16;
/// The largest datagram that matters.
const DATAGRAM_BYTES: usize = 4_096;
/// Who is later than this does not send what was due meanwhile.
const BEHIND_NS_MAX: u64 = 1_000_000_000;

pub(super) struct Worker {
    orders: Receiver<Order>,
    epoll: OwnedFd,
    events: Vec<Event>,
    seats: Vec<Option<Seat>>,
    tables: Vec<Table>,
    /// Who is due when; of seats that are empty by then nothing comes.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    seed: u64,
    streams: u64,
    room: Vec<u8>,
    out: Out,
    generator: GeneratorSeen,
    cpu_before_ns: u64,
    is_counting: bool,
}

impl Worker {
    /// In the thread that it is to be.
    pub(super) fn new(
        settings: &Settings,
        index: usize,
        orders: Receiver<Order>,
    ) -> Result<Self, String> {
        if let Some(cpu) = settings.cores.get(index % settings.cores.len().max(1)) {
            pin_thread(*cpu).map_err(|error| error.to_string())?;
        }
        if settings.is_realtime {
            engine::set_realtime(true)
                .map_err(|error| format!("before all others (--realtime): {error}"))?;
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
        Ok(Self {
            orders,
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            seats: Vec::new(),
            tables: Vec::new(),
            due: BinaryHeap::new(),
            // Threads have players of their own.
            seed: settings.seed ^ (index as u64) << 48,
            streams: 0,
            room: vec![0; DATAGRAM_BYTES],
            out: Out::default(),
            generator: GeneratorSeen::default(),
            cpu_before_ns: 0,
            is_counting: false,
        })
    }

    /// Plays until nobody gives orders any more.
    pub(super) fn run(mut self) {
        while self.obey() {
            self.wait();
            for index in 0..self.events.len() {
                let Some(event) = self.events.get(index) else { break };
                if let Ok(seat) = usize::try_from(event.data.u64()) {
                    self.read(seat);
                }
            }
            self.beat();
        }
        while let Some(table) = self.tables.pop() {
            self.clear(&table);
        }
    }

    /// Does what it was told meanwhile. Whether somebody may tell it more.
    fn obey(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Join(place)) => self.join(place),
                Ok(Order::Leave(name)) => {
                    if let Some(at) = self.tables.iter().position(|it| it.place.name == name) {
                        let table = self.tables.remove(at);
                        self.clear(&table);
                    }
                }
                Ok(Order::Look(reply)) => {
                    // Who asks waits, or has gone.
                    let _ = reply.send(self.tables.iter().map(|it| it.look(&self.seats)).collect());
                }
                Ok(Order::Begin) => self.begin(),
                Ok(Order::End(reply)) => {
                    let _ = reply.send(self.end());
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn join(&mut self, place: Place) {
        let (seed, streams) = (self.seed, &mut self.streams);
        let mut stream = || {
            *streams += 1;
            Stream::new(seed, *streams)
        };
        let new = seats(&place, &mut stream);
        let mut table = Table::new(place);
        let now_ns = now_ns();
        let period_ns = u64::try_from(table.place.period.as_nanos()).unwrap_or(u64::MAX);
        for mut seat in new {
            let index = self.seats.iter().position(Option::is_none).unwrap_or(self.seats.len());
            let data = EventData::new_u64(index as u64);
            if epoll::add(&self.epoll, &seat.socket, data, EventFlags::IN).is_err() {
                continue;
            }
            // Not all at one moment.
            let due_ns = now_ns + seat.stream.between_ns(0, period_ns);
            self.due.push(Reverse((due_ns, index)));
            table.seats.push(index);
            match self.seats.get_mut(index) {
                Some(place) => *place = Some(seat),
                None => self.seats.push(Some(seat)),
            }
        }
        self.tables.push(table);
    }

    fn clear(&mut self, table: &Table) {
        for index in &table.seats {
            if let Some(mut seat) = self.seats.get_mut(*index).and_then(Option::take) {
                seat.client.leave(&mut self.out);
                seat.send(&mut self.out);
            }
        }
        self.due.retain(|Reverse((_, index))| !table.seats.contains(index));
    }

    fn begin(&mut self) {
        for table in &mut self.tables {
            table.begin(&mut self.seats);
        }
        self.generator = GeneratorSeen::default();
        self.cpu_before_ns = cpu_ns();
        self.is_counting = true;
    }

    fn end(&mut self) -> Seen {
        let now_ns = now_ns();
        self.is_counting = false;
        let mut generator = std::mem::take(&mut self.generator);
        generator.cpu_ns = cpu_ns().saturating_sub(self.cpu_before_ns);
        let servers = self.tables.iter().map(|it| it.end(&mut self.seats, now_ns)).collect();
        Seen { servers, generator }
    }

    /// Waits until something comes or somebody is due.
    fn wait(&mut self) {
        let now_ns = now_ns();
        let next_ns = self.due.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns);
        let patience_ns = next_ns.saturating_sub(now_ns).min(TURN_NS);
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::try_from(patience_ns).unwrap_or(0) };
        self.events.clear();
        // By ppoll(2) on the epoll, which waits for parts of a millisecond: epoll_wait(2) rounds them up.
        let mut waits = [PollFd::new(&self.epoll, PollFlags::IN)];
        // An interruption is a turn with nothing in it.
        if poll(&mut waits, Some(&patience)).is_ok_and(|ready| ready > 0) {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&now));
        }
    }

    fn read(&mut self, index: usize) {
        let Some(Some(seat)) = self.seats.get_mut(index) else { return };
        for _ in 0..READS_MAX {
            // Nothing more, or a server that is not there: who waits for it will say so.
            let Ok((len, moment)) = seat.socket.receive(&mut self.room) else { return };
            let read_ns = now_ns();
            let at_ns = moment.unwrap_or(read_ns);
            let bytes = self.room.get(..len).unwrap_or_default();
            seat.client.take(bytes, at_ns, &mut seat.seen, &mut self.out);
            let [sent, unsent] = seat.send(&mut self.out);
            if self.is_counting {
                self.generator.received += 1;
                self.generator.sent += sent;
                self.generator.unsent += unsent;
                self.generator.behind.record(read_ns.saturating_sub(at_ns), 1);
            }
        }
    }

    fn beat(&mut self) {
        let mut now = now_ns();
        for _ in 0..BEATS_MAX {
            match self.due.peek() {
                Some(Reverse((due_ns, _))) if *due_ns <= now => {}
                _ => return,
            }
            let Some(Reverse((due_ns, index))) = self.due.pop() else { return };
            let Some(Some(seat)) = self.seats.get_mut(index) else { continue };
            let next_ns = seat.client.beat(due_ns, &mut seat.stream, &mut self.out);
            let [sent, unsent] = seat.send(&mut self.out);
            if self.is_counting {
                self.generator.sent += sent;
                self.generator.unsent += unsent;
                self.generator.late.record(now.saturating_sub(due_ns), 1);
            }
            let next_ns = (due_ns + next_ns).max(now.saturating_sub(BEHIND_NS_MAX));
            self.due.push(Reverse((next_ns, index)));
            now = now_ns();
        }
    }
}

/// Processor time of the calling thread, by the kernel's own clock of it.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
