//! Plays runs from seeds: a profile is drawn, players act while everything goes wrong; then the world
//! is healed, comes to rest, and is looked at, twice: with the players, and without.

use std::rc::Rc;

use event::Random;
use server::settings::{Settings, WorldSettings};

use super::check;
use super::player::{Crowd, Player};
use super::world::{Happened, World};

/// Seeds that one run of the tests plays, unless `THRONG_SEEDS` says otherwise.
const SEEDS: u64 = 1_000;
/// Tests that share them, so that all processors have something to do.
const PARTS: u64 = 4;
/// Turns within which everything is at rest.
const TURNS_MAX: u32 = 20_000;
/// For how long a world is healed before it is looked at: several ticks, and tries of everything that
/// is tried again.
const HEALED_MS: u64 = 1_200;

/// The same for answers to those who look: mail may be refused, and tried again.
const PROBED_MS: u64 = 50;

/// What a run is like. What goes wrong does so once in so many times, and never if that is 0.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) cores: u16,
    pub(crate) rooms: u16,
    pub(crate) callers: u16,
    pub(crate) nodes: u16,
    /// A node is lost; it begins anew some time after.
    losses: u32,
    players: u32,
    steps: u32,
    /// Mail that a mailbox holds.
    pub(crate) mail_max: usize,
    /// Statements and commits fail.
    pub(crate) db_faults: u32,
    /// The database is slow.
    pub(crate) stalls: u32,
    /// Guests have few steps.
    pub(crate) stops: u32,
    /// Calls in the batch use up the memory of their guests; the modules load again.
    pub(crate) spends: u32,
    /// And those at callers.
    pub(crate) spends_of_callers: u32,
    pub(crate) reloads: u32,
    /// Connections vanish when players act.
    pub(crate) vanishes: u32,
    /// Mailboxes are full for a while.
    fills: u32,
    /// Callbacks of matches wait for others; other servers do not answer.
    pub(crate) matches_wait: u32,
    pub(crate) silences: u32,
    pub(crate) has_hooks: bool,
    /// Each node has a zone, in which bots fly.
    pub(crate) has_zone: bool,
    single_socket: bool,
    calls_waiting: u32,
    /// For so long guests wait, and so many at a time.
    wait_max_ms: u32,
    waiting_calls: u32,
    /// From which ids are drawn.
    pub(crate) ids: u64,
    /// Something is broken on purpose, to see that it is found.
    pub(crate) broken: Option<Broken>,
    /// Everything that happens is printed; it is kept.
    pub(crate) is_loud: bool,
    pub(crate) is_recorded: bool,
}

/// Ways in which a world may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Refused mail is dropped, and nobody is told.
    DropsRefused,
    /// What is sent to clients is sent twice now and then.
    AnswersTwice,
    /// Commits are rolled back, and said to be made.
    LosesCommits,
    /// Mail for a room goes to another one.
    Misroutes,
    /// Nobody is told that a client is gone.
    HidesLeavers,
    /// What a guest waits for is given to another one.
    MisplacesAnswers,
    /// What a guest waits for never comes, and nobody looks at the time.
    ForgetsCalls,
    /// The same of what a match waits for.
    ForgetsMatches,
    /// Members of streams are not told of some who come and go.
    HidesPresences,
    /// Rooms do not hear that a node is gone, and keep who was there.
    KeepsTheGone,
    /// What a call in the batch wrote stays, although it is undone and begins again.
    KeepsUndone,
    /// What a call in the batch says is said twice.
    TellsUndone,
}

impl Profile {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_number(seed ^ 0x5eed);
        let mut draw = |from: u32, to: u32| from + random.below(to - from + 1);
        let mut fault = |often: u32, seldom: u32| match draw(0, 2) {
            0 => 0,
            _ => draw(often, seldom),
        };
        let (db_faults, stalls, stops) = (fault(10, 100), fault(5, 50), fault(3, 20));
        let (vanishes, fills) = (fault(10, 60), fault(1, 8));
        let matches_wait = fault(2, 8);
        let threads = |count: u32| u16::try_from(count).unwrap();
        let wait_max_ms = if draw(0, 2) == 0 { draw(1, 20) } else { 60_000 };
        Self {
            cores: threads(draw(1, 2)),
            rooms: threads(draw(1, 3)),
            callers: threads(draw(1, 3)),
            players: draw(1, 6),
            steps: draw(200, 1_200),
            mail_max: [4, 16, 1_024][draw(0, 2) as usize],
            db_faults,
            stalls,
            stops,
            vanishes,
            fills,
            matches_wait,
            // Who waits for one does so to the end of his patience.
            silences: if wait_max_ms <= 20 { draw(1, 2) } else { 0 },
            has_hooks: draw(0, 2) == 0,
            single_socket: draw(0, 4) == 0,
            calls_waiting: if draw(0, 4) == 0 { draw(2, 6) } else { 16_384 },
            ids: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            wait_max_ms,
            waiting_calls: if draw(0, 3) == 0 { draw(1, 3) } else { 1_024 },
            spends: [1, 3, 9][draw(0, 2) as usize],
            reloads: [0, 4, 20][draw(0, 2) as usize],
            nodes: if draw(0, 2) == 0 { 2 } else { 1 },
            losses: [0, 4, 20][draw(0, 2) as usize],
            has_zone: draw(0, 3) == 0,
            spends_of_callers: [0, 8, 40][draw(0, 2) as usize],
            broken: None,
            is_loud: false,
            is_recorded: false,
        }
    }

    /// Changes the settings of the rig.
    pub(crate) fn tune(&self, settings: &mut Settings) {
        settings.single_socket = self.single_socket;
        settings.limits.calls_waiting = self.calls_waiting;
        settings.runtime.call_wait_max_ms = self.wait_max_ms;
        settings.runtime.waiting_calls_max = self.waiting_calls as usize;
        settings.runtime.batch_slice_us = 1_000;
        settings.world = self.has_zone.then_some(WorldSettings {
            tick_rate_hz: 20,
            bins: 8,
            seed: self.ids,
            bots: 20,
            players_max: 1,
            waiting_max: 2,
            ships_per_user: 0,
            ships_per_address: 0,
            is_partition_static: false,
            cells_permille: 700,
            near_ships: 32,
            packet_bytes_max: 1_200,
            snapshot_interval_ms: 300,
            return_s: 2,
            rules_wait_ms: 250,
            page: true,
        });
        // Over before it is looked whether anything waits.
        settings.socket.close_ack_wait_ms = HEALED_MS / 2;
    }
}

/// Plays one seed to its end.
fn play(seed: u64, change: impl FnOnce(&mut Profile)) -> Rc<World> {
    let mut profile = Profile::new(seed);
    change(&mut profile);
    let world = World::new(seed, profile);
    world.tell(format_args!("{:?}", world.profile));
    let mut crowd = Crowd::default();
    let mut players: Vec<Player> = (0..world.profile.players).map(Player::new).collect();
    for _ in 0..world.profile.steps {
        match world.below(10) {
            0..=2 => players[world.below(world.profile.players) as usize].act(&mut crowd),
            3..=7 => {
                world.run_somebody();
            }
            8 => world.pass(u64::from(world.below(3_000)) * 1_000),
            _ if world.fails(world.profile.fills) => world.fill_a_mailbox(),
            _ if world.fails(world.profile.reloads) => world.reload(),
            _ if world.profile.nodes > 1 && world.living() < 2 => {
                if world.once_in(3) {
                    world.begin_anew();
                }
            }
            _ if world.profile.nodes > 1 && world.fails(world.profile.losses) => {
                world.lose_a_node();
            }
            _ => {
                world.pass_to_wake(world.now().after_ms(50).mono_ns);
            }
        }
    }
    world.begin_anew();
    world.heal();
    world.tell(format_args!("healed"));
    settle(&world, &mut players, &mut crowd, HEALED_MS);
    world.is_settled.set(true);
    check::everybody_is_answered(&players);
    for player in &mut players {
        player.probe_revoked(&crowd);
        player
            .sockets
            .iter_mut()
            .filter(|socket| socket.is_open())
            .for_each(|socket| socket.probe());
    }
    settle(&world, &mut players, &mut crowd, PROBED_MS);
    let mut sockets = players.iter_mut().flat_map(|player| &mut player.sockets);
    if let Some(socket) = sockets.find(|socket| socket.is_open()) {
        socket.probe_streams();
    }
    settle(&world, &mut players, &mut crowd, PROBED_MS);
    world.wake_all();
    settle(&world, &mut players, &mut crowd, 0);
    check::all_is_well(&world, &players, &crowd);
    world.tell(format_args!("all leave"));
    players.iter_mut().for_each(Player::leave);
    settle(&world, &mut players, &mut crowd, HEALED_MS);
    world.wake_all();
    settle(&world, &mut players, &mut crowd, 0);
    check::nothing_is_left(&world);
    let (batched, undone) = (world.stat("rpc_batched"), world.stat("rpc_undone"));
    let zone_ticks = world.stat("zone_ticks");
    let loaded = [world.stat("scripts_renewed"), world.stat("reloads")];
    world.count(|happened| {
        (happened.batched, happened.undone, happened.zone_ticks) = (batched, undone, zone_ticks);
        happened.loaded = loaded;
    });
    world
}

/// Lets so much time pass, from one wake-up to the next; players read what they are told.
fn settle(world: &World, players: &mut [Player], crowd: &mut Crowd, ms: u64) {
    let until_ns = world.now().after_ms(ms).mono_ns;
    for _ in 0..TURNS_MAX {
        if world.run_somebody() {
            continue;
        }
        players.iter_mut().for_each(|player| player.read(crowd));
        // Whoever asks again and again must not keep time from passing, nor come to the limit of requests.
        world.pass(250_000);
        if !world.run_somebody() && !world.pass_to_wake(until_ns) {
            return;
        }
    }
    panic!("the threads do not come to rest");
}

/// Plays a part of the seeds; a failure names the seed and how to play it again.
fn play_part(part: u64) {
    if let Some(seed) = number("THRONG_SEED") {
        if seed % PARTS == part {
            play(seed, |profile| profile.is_loud = true);
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
                "seed {} fails; again: THRONG_SEED={} cargo test -p server --test it seeds -- \
                 --nocapture",
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

/// A seed is of use only if it plays the same run again.
#[test]
fn a_seed_plays_the_same_run_again() {
    for seed in 0..4 {
        let told = || play(seed, |profile| profile.is_recorded = true).told.take();
        let (first, again) = (told(), told());
        for (first, again) in first.iter().zip(&again) {
            assert_eq!(first, again, "seed {seed}");
        }
        assert!(first.len() > 100 && first.len() == again.len(), "seed {seed}");
    }
}

type Count = fn(&Happened) -> u64;

/// What goes wrong does, and much goes well all the same.
#[test]
fn much_goes_wrong_and_much_well() {
    let all: Vec<Happened> = (0..96).map(|seed| play(seed, |_| ()).happened.get()).collect();
    let kinds: [(&str, Count); 21] = [
        ("mail is refused", |it| it.refused),
        ("the database fails", |it| it.db_faults),
        ("the database stalls", |it| it.db_stalls),
        ("guests are stopped", |it| it.guests_stopped),
        ("answers come too late", |it| it.gave_up),
        ("guests wait", |it| it.waited),
        ("callbacks of matches wait", |it| it.matches_waited),
        ("other servers answer", |it| it.fetched),
        ("other servers say nothing", |it| it.silences),
        ("their answers come when nobody waits", |it| it.fetched_late),
        ("others run while a guest waits", |it| it.interleaved),
        ("the memory of a caller's guests is used up", |it| it.spent_callers),
        ("clients vanish", |it| it.vanished),
        ("somebody is in a stream at the end", |it| it.in_streams),
        ("nodes are lost", |it| it.nodes_lost),
        ("nodes say something to each other", |it| it.letters),
        ("functions run in the batch", |it| it.batched),
        ("calls in the batch are undone", |it| it.undone),
        ("zones tick", |it| it.zone_ticks),
        ("guests are made anew", |it| it.loaded[0]),
        ("modules load again", |it| it.loaded[1]),
    ];
    for (what, of) in kinds {
        let count: u64 = all.iter().map(of).sum();
        assert!(count >= 20, "{what} {count} times in 96 seeds");
    }
    // Not every node that is lost has a zone, or begins anew.
    let restored: u64 = all.iter().map(|it| it.zones_restored).sum();
    assert!(restored >= 5, "zones go on {restored} times in 96 seeds");
    let turns = all.iter().map(|it| it.turns);
    let (answers, kept) = (all.iter().map(|it| it.answers), all.iter().map(|it| it.kept));
    let sums = (turns.sum::<u64>(), answers.sum::<u64>(), kept.sum::<u64>());
    assert!(sums.0 > 15_000 && sums.1 > 5_000 && sums.2 > 1_000, "{sums:?}");
    println!("turns, answers, writes that were acknowledged: {sums:?}");
}

/// Whether one of a few seeds finds a world that is broken, or something in one that is not.
fn finds(broken: Option<Broken>, nodes: u16) -> bool {
    (0..40).any(|seed| {
        let played = std::panic::catch_unwind(|| {
            play(seed, |profile| {
                profile.broken = broken;
                (profile.rooms, profile.fills, profile.vanishes) = (2, 2, 15);
                (profile.wait_max_ms, profile.silences) = (60_000, 0);
                profile.spends_of_callers = 0;
                profile.steps = 1_200;
                if nodes == 2 {
                    (profile.nodes, profile.losses) = (2, 20);
                }
            });
        });
        played.is_err()
    })
}

#[test]
fn a_broken_world_is_found() {
    let broken = [
        Broken::DropsRefused,
        Broken::AnswersTwice,
        Broken::LosesCommits,
        Broken::Misroutes,
        Broken::HidesLeavers,
        Broken::MisplacesAnswers,
        Broken::ForgetsCalls,
        Broken::ForgetsMatches,
        Broken::HidesPresences,
        Broken::KeepsTheGone,
        Broken::KeepsUndone,
        Broken::TellsUndone,
    ];
    for broken in broken {
        let nodes = if broken == Broken::KeepsTheGone { 2 } else { 1 };
        assert!(finds(Some(broken), nodes), "{broken:?} goes unnoticed");
    }
}

/// What is found in broken worlds is not there in the same ones unbroken.
#[test]
fn nothing_is_found_in_a_world_that_is_not_broken() {
    for nodes in [1, 2] {
        assert!(!finds(None, nodes), "{nodes} nodes, of which none is broken");
    }
}
