//! What a crowd costs: `cargo run --release -p world --example crowd [entities] [ticks] [bytes]`.
//!
//! So many entities in one crowd (1,000), each followed by a client that sees all, at 20 Hz, with so
//! many bytes a packet (1,200). Everything is in one thread and in memory: ships are computed, a
//! packet for each client is written, read by a client of its own, and acknowledged two ticks
//! later. Counted are **application messages**: updates of one entity (position, velocity,
//! direction, state) that a client has decoded and that are new to it; one in a hundred is compared
//! with what was true. Divided by the processor time of what the server does, which does not
//! include the clients'. No sockets: what a transport costs comes on top.
//!
//! The model beside it is `viewers × (candidates × c1 + updates × c2)` with the costs that a sketch
//! of this was measured to have: 3.4 ns a candidate, 8 ns an update.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::collections::VecDeque;
use std::time::Duration;

use event::Random;
use rustix::time::{ClockId, clock_gettime};
use world::{
    Cell, CellId, Control, Director, EntityId, Fanout, Frames, Interest, Numbered, Point,
    Published, Rates, Record, Report, Settings, UNITS_PER_METRE, View, Viewer, units,
};

const BINS: u16 = 64;
const SPREAD_METRES: u32 = 400;
const WARM_UP_TICKS: u32 = 100;
const ROUND_TRIP_TICKS: usize = 2;

struct Client {
    viewer: Viewer,
    view: View,
    acks: VecDeque<(u32, u32)>,
}

/// Processor time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Sums over the ticks that count.
#[derive(Default)]
struct Sums {
    ticks: Vec<[Duration; 3]>,
    messages: u64,
    checked: u64,
    bytes: u64,
    packets: u64,
    known: u64,
}

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let (entities, ticks, bytes) = (number(0, 1_000), number(1, 300), number(2, 1_200));
    let rates = Rates { tick_rate_hz: 20, budget_ns: u64::MAX / 4_000, rooms: 1 };
    let mut director = Director::new(Settings { bins: BINS, rates, ahead_ticks: 1 });
    let mut random = Random::from_number(1);
    let ids: Vec<EntityId> = (0..entities)
        .map(|_| {
            let spread = SPREAD_METRES * UNITS_PER_METRE.unsigned_abs();
            let mut offset = || random.below(spread).cast_signed() - spread.cast_signed() / 2;
            let middle = units(BINS) / 2;
            director.spawn(Point { x: middle + offset(), y: middle + offset() }).unwrap()
        })
        .collect();
    let mut cell = Cell::new(CellId(0), 0, None, director.tree().clone());
    let client = |id: &EntityId| Client {
        viewer: Viewer::new(*id, bytes as usize),
        view: View::default(),
        acks: VecDeque::new(),
    };
    let mut clients: Vec<Client> = ids.iter().map(client).collect();
    let (mut frames, mut fanout) = (Frames::new(BINS), Fanout::default());
    let mut sums = Sums::default();
    for tick in 0..WARM_UP_TICKS + ticks {
        if tick == WARM_UP_TICKS {
            sums = Sums::default();
        }
        for id in &ids {
            if random.below(20) == 0 {
                let turn = i8::try_from(random.below(16)).unwrap() - 8;
                let control = Control { turn, thrust: 1, fire: random.below(2) == 0 };
                cell.control(*id, Numbered { seq: tick + 1, tick, control });
            }
        }
        let start = cpu();
        let published = simulate(&mut director, &mut cell);
        let simulated = cpu();
        frames.publish(&[published]);
        let framed = cpu();
        let mut out = Vec::with_capacity(entities as usize * bytes as usize);
        let mut ends = Vec::with_capacity(entities as usize);
        for client in &mut clients {
            if client.acks.len() >= ROUND_TRIP_TICKS {
                client.viewer.ack(client.acks.pop_front().unwrap());
            }
            let told = client.viewer.packet(&frames, &Interest::default(), &mut fanout, &mut out);
            ends.push(out.len());
            sums.packets += u64::from(told.is_some());
        }
        let written = cpu();
        let parts = [(start, simulated), (simulated, framed), (framed, written)];
        sums.ticks.push(parts.map(|(from, to)| to.saturating_sub(from)));
        sums.bytes += out.len() as u64;
        let mut from = 0;
        for (client, end) in clients.iter_mut().zip(ends) {
            if end > from {
                let applied = client.view.take(&out[from..end]).unwrap();
                sums.messages += u64::from(applied.updates);
                client.acks.push_back(client.view.ack().unwrap());
                sums.checked += check(&client.view, &frames, &mut random);
                sums.known += client.view.known().count() as u64;
            }
            from = end;
        }
    }
    report(&sums, entities);
}

fn simulate(director: &mut Director, cell: &mut Cell) -> Published {
    let released = director.release().unwrap();
    let tick = released.orders.tick;
    cell.order(released.orders);
    let stepped = cell.step();
    let (columns, rows) = (stepped.columns, stepped.rows);
    director.done(tick, Report { cell: CellId(0), cpu_ns: 0, columns, rows });
    stepped.published
}

/// Compares one in a hundred of the new records with what was true.
fn check(view: &View, frames: &Frames, random: &mut Random) -> u64 {
    let mut checked = 0;
    for (slot, known) in view.known().skip(random.below(100) as usize).step_by(100) {
        let (tick, record): (u32, Record) = known.newest();
        let age = frames.tick() - tick;
        if age <= world::AGE_MAX {
            assert_eq!(record, frames.record(slot, age), "slot {slot} of {age} ticks ago");
            checked += 1;
        }
    }
    checked
}

fn report(sums: &Sums, entities: u32) {
    let ticks = sums.ticks.len() as f64;
    let part = |index: usize| sums.ticks.iter().map(|it| it[index]).sum::<Duration>().as_secs_f64();
    let (simulate, frame, write) = (part(0), part(1), part(2));
    let cpu = simulate + frame + write;
    let messages = sums.messages as f64;
    let mut whole: Vec<Duration> = sums.ticks.iter().map(|it| it.iter().sum()).collect();
    whole.sort_unstable();
    let at = |share: f64| whole[((ticks - 1.0) * share) as usize].as_secs_f64() * 1e3;
    let packets = sums.packets as f64;
    let (known, each) = (sums.known as f64 / packets, messages / packets);
    println!("{entities} entities in one crowd, {known:.0} known to each client, {ticks} ticks");
    println!("application messages: {:.0} per second of the world", messages / (ticks / 20.0));
    println!("application messages: {:.0} per CPU-second of the server, in memory", messages / cpu);
    println!(
        "of a packet: {each:.1} messages, {:.0} bytes; of a message: {:.1} bytes, {:.0} ns",
        sums.bytes as f64 / packets,
        sums.bytes as f64 / messages,
        cpu / messages * 1e9
    );
    println!(
        "of a client: {:.0} kbit/s",
        sums.bytes as f64 * 8.0 / 1e3 / (ticks / 20.0) / f64::from(entities)
    );
    println!(
        "CPU of a tick: p50 {:.2} ms, p99 {:.2}, most {:.2}; simulation {:.2}, frame {:.2}, packets {:.2}",
        at(0.5),
        at(0.99),
        at(1.0),
        simulate / ticks * 1e3,
        frame / ticks * 1e3,
        write / ticks * 1e3
    );
    let model = packets / ticks * (known * 3.4e-9 + each * 8e-9) * 1e3;
    println!("packets of a tick by the model: {model:.2} ms");
    println!("compared with what was true: {}, all the same", sums.checked);
}
