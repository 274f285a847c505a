//! Plays worlds from seeds, and checks at the end that everybody got what was promised.

use event::{Now, Random};
use reactor::{Count, Counters, Limits, Reactor, Scarce, run};
use std::cell::RefCell;
use std::rc::Rc;

use crate::datagrams;
use crate::handler::Player;
use crate::kernel::Kernel;
use crate::process::{Boxes, View};
use crate::world::{Broken, Profile, Shared, World};

/// Seeds that one run of the tests plays, unless `THRONG_SEEDS` says otherwise: some seconds.
const SEEDS: u64 = 1_000;
/// Tests that share them, so that all processors have something to do.
const PARTS: u64 = 4;

fn profile(seed: u64) -> Profile {
    let mut random = Random::from_number(seed ^ 0x5eed);
    let mut draw = |from: u32, to: u32| from + random.below(to - from + 1);
    let output_bytes_max = draw(2, 8) << 10;
    let limits = Limits {
        connections_max: draw(10, 60),
        output_bytes_max,
        output_bytes_high: draw(512, output_bytes_max / 2),
        output_total_max: u64::MAX,
        stall_ms: draw(50, 200),
        linger_ms: draw(5, 50),
        connect_ms: draw(5, 50),
        flush_ms: draw(20, 100),
        accept_pause_ms: 5,
        stop_ms: draw(5, 100),
        turn_bytes: 2 << 10,
        datagram_bytes_max: datagrams::BYTES_MAX,
        datagram_turn_bytes: datagrams::TURN_BYTES,
        datagram_queue_bytes: datagrams::QUEUE_BYTES,
        receive_buffers: 1 << draw(1, 5),
        receive_buffer_bytes: 128,
    };
    let mut profile = Profile {
        limits,
        quiet: draw(1, 5),
        flooders: if draw(0, 1) == 0 { 0 } else { draw(1, 30) },
        others: draw(0, 10),
        is_moody: draw(0, 1) == 1,
        is_unkind: false,
        is_rough: draw(0, 1) == 1,
        room: u64::from(draw(200, 2_000)),
        turns: u64::from(draw(20, 250)),
        broken: None,
    };
    match draw(0, 9) {
        // Many flood, and the kernel is on their side.
        0 => {
            (profile.is_unkind, profile.is_moody, profile.is_rough) = (true, false, false);
            (profile.quiet, profile.flooders, profile.others) = (3, draw(20, 60), 0);
            (profile.room, profile.turns) = (8_000, 200);
            profile.limits.connections_max = 100;
            profile.limits.receive_buffers = 1 << draw(2, 6);
        }
        // Little happens, for long.
        1 => (profile.flooders, profile.turns) = (0, 1_000),
        _ => {}
    }
    profile
}

/// Plays one seed to its end.
fn play(seed: u64, change: impl FnOnce(&mut Profile)) {
    let mut profile = profile(seed);
    change(&mut profile);
    let limits = profile.limits;
    let world: Shared = Rc::new(RefCell::new(World::new(seed, profile)));
    let boxes = Boxes::new(seed, 8);
    let view = Rc::new(View(boxes.clone()));
    let player = Box::new(Player::new(world.clone()));
    let reactor = Reactor::new(player, Now::default(), limits, Scarce::Connections, view);
    let ended = run(reactor.with_sockets(1), Kernel::new(world.clone(), boxes.clone()));
    assert!(ended.is_ok(), "the thread does not end");
    let counters = *boxes.last.borrow();
    for gauge in [Count::Open, Count::Unsent, Count::Held] {
        assert_eq!(counters.value(gauge), 0, "{gauge:?} at the end");
    }
    every_datagram_is_accounted_for(&mut world.borrow_mut(), &counters);
    let world = world.borrow();
    for (file, sock) in &world.socks {
        let has_ended = !sock.known.is_open || sock.known.told_closed.is_some();
        assert!(has_ended, "socket {file} was opened, and its end is not told: {sock:?}");
    }
    for (token, ends) in &world.attempts {
        assert_eq!(*ends, 1, "outcomes of attempt {token}");
    }
    let told = counters.value(Count::MailIn);
    let dropped = counters.value(Count::MailDropped);
    assert!(boxes.boxes.borrow()[0].is_empty(), "mail was accepted, and lies there");
    assert!(
        told + dropped >= boxes.accepted.get(),
        "{told} + {dropped} mails of {}",
        boxes.accepted.get()
    );
}

fn every_datagram_is_accounted_for(world: &mut World, counters: &Counters) {
    let wires = &mut world.wires;
    wires.end();
    let value = |count| counters.value(count);
    assert_eq!(value(Count::DatagramsIn), wires.told, "datagrams told");
    let gone = value(Count::DatagramsInDropped) + value(Count::DatagramsLost);
    assert_eq!(wires.told + gone + wires.waiting(), wires.arrived, "datagrams that came");
    assert_eq!(value(Count::DatagramsOut), wires.taken, "datagrams sent");
    assert_eq!(value(Count::DatagramsOutDropped), wires.never_offered, "datagrams without room");
    let gone = value(Count::DatagramsOutDropped) + value(Count::DatagramsOutRefused);
    assert_eq!(wires.taken + gone, wires.asked, "datagrams to be sent");
}

/// Plays a part of the seeds; a failure names the seed and how to play it again.
fn play_part(part: u64) {
    if let Some(seed) = number("THRONG_SEED") {
        if seed % PARTS == part {
            play(seed, |_| ());
        }
        return;
    }
    let seeds = number("THRONG_SEEDS").unwrap_or(SEEDS);
    for seed in (0..seeds).filter(|seed| seed % PARTS == part) {
        let _named = Named(seed);
        play(seed, |_| ());
    }
}

#[expect(clippy::disallowed_methods, reason = "which seeds are played is no part of playing")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says which seed failed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {} fails; again: THRONG_SEED={} cargo test -p reactor --test it seeds",
                self.0, self.0
            );
        }
    }
}

#[test]
fn seeds_0() {
    play_part(0);
}

#[test]
fn seeds_1() {
    play_part(1);
}

#[test]
fn seeds_2() {
    play_part(2);
}

#[test]
fn seeds_3() {
    play_part(3);
}

/// Whether one of a few seeds finds a kernel that is broken.
fn finds(broken: Broken) -> bool {
    (0..40).any(|seed| {
        let played = std::panic::catch_unwind(|| {
            play(seed, |profile| {
                (profile.broken, profile.is_rough) = (Some(broken), true);
                profile.turns += 300;
            });
        });
        played.is_err()
    })
}

#[test]
fn a_broken_kernel_is_found() {
    let broken = [Broken::LosesBytes, Broken::HidesResets, Broken::SwapsSends, Broken::HidesLosses];
    for broken in broken {
        assert!(finds(broken), "{broken:?} goes unnoticed");
    }
}
