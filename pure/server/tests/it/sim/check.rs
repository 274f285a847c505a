//! What must hold of a world that has come to rest: what was acknowledged is in the database, players
//! agree with the server and with each other, and nothing is counted that is not there.

use std::collections::{BTreeMap, BTreeSet};

use game::db::Database as _;
use uuid::Uuid;

use super::guest::Look;
use super::player::{Crowd, Deed, Fate, Player};
use super::socket::{PROBE, Socket};
use super::world::{World, world};

/// What the database holds: objects with their owners, and wallets.
struct Held {
    keys: BTreeMap<String, String>,
    wallets: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Held {
    fn of(world: &World) -> Self {
        let mut db = world.store.connect().unwrap();
        let id = |blob: &[u8]| Uuid::from_slice(blob).unwrap().to_string();
        let (mut keys, mut wallets) = (BTreeMap::new(), BTreeMap::new());
        db.query("SELECT key, user_id FROM storage", &[], &mut |row| {
            keys.insert(row.text(0).to_owned(), id(row.blob(1)));
        })
        .unwrap();
        // The other row is the system's.
        db.query("SELECT id, wallet FROM users WHERE username LIKE 'player%'", &[], &mut |row| {
            let text = if row.text(1).is_empty() { "{}" } else { row.text(1) };
            wallets.insert(id(row.blob(0)), serde_json::from_str(text).unwrap());
        })
        .unwrap();
        Self { keys, wallets }
    }

    /// Whether a deed has happened, wholly or not at all.
    fn has(&mut self, deed: &Deed) -> bool {
        let wallet = self.wallets.get_mut(&deed.user_id).unwrap();
        let paid = deed.entry.as_ref().map(|entry| wallet.remove(entry).unwrap_or(0));
        let keys = &mut self.keys;
        let written: BTreeSet<bool> = deed
            .keys
            .iter()
            .map(|key| keys.remove(key).is_some_and(|owner| owner == deed.user_id))
            .chain(paid.map(|times| {
                assert!((0..=1).contains(&times), "{deed:?} happened {times} times");
                times == 1
            }))
            .collect();
        assert_eq!(written.len(), 1, "{deed:?} happened in part");
        written.contains(&true)
    }
}

/// What was acknowledged has happened, and what was refused has not.
fn acknowledgements_hold(world: &World, crowd: &Crowd) {
    let mut held = Held::of(world);
    for user in &crowd.users {
        assert!(held.wallets.contains_key(user), "the account of {user} is lost");
    }
    for deed in &crowd.deeds {
        match (held.has(deed), deed.fate) {
            (false, Fate::Kept) => panic!("acknowledged, and lost: {deed:?}"),
            (true, Fate::Refused) => panic!("refused, and done: {deed:?}"),
            (_, Fate::Unknown) | (true, Fate::Kept) | (false, Fate::Refused) => {}
        }
    }
    assert!(held.keys.is_empty(), "nobody wrote {:?}", held.keys);
    assert!(held.wallets.values().all(BTreeMap::is_empty), "nobody paid {:?}", held.wallets);
}

fn sockets(players: &[Player]) -> impl Iterator<Item = &Socket> + Clone {
    players.iter().flat_map(|player| &player.sockets).filter(|socket| socket.is_open())
}

/// Everybody in a match believes that those are in it who do.
fn players_agree(players: &[Player]) {
    let sockets = sockets(players);
    let mut matches: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for socket in sockets.clone() {
        for id in socket.matches.keys() {
            let members = matches.entry(id).or_default();
            members.insert(socket.session_id().unwrap().to_owned());
        }
    }
    for (id, believed) in sockets.flat_map(|socket| &socket.matches) {
        assert_eq!(*believed, matches[id], "members of {id}");
    }
}

/// What members of streams were told of each other is what scripts are told of them; who is in hears what
/// is said, once, and nobody else does. Returns how many are in how many.
fn streams_converge(players: &[Player], crowd: &Crowd) -> (usize, usize) {
    let by_session: BTreeMap<&str, &Socket> =
        sockets(players).map(|socket| (socket.session_id().unwrap(), socket)).collect();
    for Look { label, count, members } in &crowd.looks {
        assert_eq!(usize::try_from(*count).unwrap(), members.len(), "members of {label}");
        let visible: BTreeSet<&String> =
            members.iter().filter(|(_, is_hidden)| !is_hidden).map(|(id, _)| id).collect();
        let told = |id: &str| {
            let Some(socket) = by_session.get(id) else { panic!("{id}, gone, is in {label}") };
            socket.streams.get(label).cloned().unwrap_or_default()
        };
        for id in &visible {
            let believed = told(id);
            assert!(believed.contains(*id), "{id} was not told that it is in {label}");
            let ghosts: Vec<_> = believed.iter().filter(|other| !visible.contains(other)).collect();
            assert!(ghosts.is_empty(), "{id} was not told that {ghosts:?} left {label}");
            for other in &visible {
                // Whoever came first was told of the other.
                let is_known = believed.contains(*other) || told(other).contains(*id);
                assert!(is_known, "neither of {id} and {other} was told of the other in {label}");
            }
        }
        let is_member = |id: &str| members.iter().any(|(member, _)| member == id);
        for (id, socket) in &by_session {
            let has_heard = socket.said.contains(&(label.clone(), PROBE.to_owned()));
            assert_eq!(has_heard, is_member(id), "what {id} heard in {label}");
        }
    }
    let sizes = crowd.looks.iter().map(|look| look.members.len()).filter(|size| *size > 0);
    world().count(|happened| happened.in_streams += sizes.clone().sum::<usize>() as u64);
    (sizes.clone().sum(), sizes.count())
}

/// Everybody who stayed has his answers.
pub(crate) fn everybody_is_answered(players: &[Player]) {
    for player in players {
        assert_eq!(player.waits_for(), "", "nobody answers");
    }
}

/// What holds while players are still there.
pub(crate) fn all_is_well(world: &World, players: &[Player], crowd: &Crowd) {
    everybody_is_answered(players);
    acknowledgements_hold(world, crowd);
    players_agree(players);
    let (in_streams, streams) = streams_converge(players, crowd);
    let sockets = sockets(players);
    let open = sockets.clone().count();
    let in_matches: usize = sockets.clone().map(|socket| socket.matches.len()).sum();
    let presences = in_matches + in_streams;
    let relayed: BTreeSet<&String> =
        sockets.flat_map(|socket| socket.matches.keys()).filter(|id| id.ends_with('.')).collect();
    let running = world.matches.borrow().len() + zones(world);
    for (name, expected) in [
        ("sessions", open),
        ("presences", presences),
        ("streams", streams),
        ("relayed_matches", relayed.len()),
        ("authoritative_matches", running),
        // Every node lists those of all.
        ("directory_matches", (relayed.len() + running) * world.living()),
    ] {
        assert_eq!(world.stat(name), expected as u64, "{name}");
    }
    nothing_waits(world);
}

/// What holds when all have gone.
pub(crate) fn nothing_is_left(world: &World) {
    let running = (world.matches.borrow().len() + zones(world)) as u64;
    for (name, expected) in [
        ("sessions", 0),
        ("presences", 0),
        ("streams", 0),
        ("relayed_matches", 0),
        ("authoritative_matches", running),
        ("directory_matches", running * world.living() as u64),
        ("directory_online_sessions", 0),
    ] {
        assert_eq!(world.stat(name), expected, "{name} at the end");
    }
    nothing_waits(world);
}

/// How many zones there are: one of each node that lives.
fn zones(world: &World) -> usize {
    if world.profile.has_zone { world.living() } else { 0 }
}

fn nothing_waits(world: &World) {
    for name in [
        "jobs_waiting",
        "calls_waiting",
        "calls_waiting_now",
        "match_callbacks_waiting",
        "input_bytes_waiting",
        "dropped_mail",
        "node_letters_refused",
        "node_mail_too_long",
        "zone_faults",
    ] {
        assert_eq!(world.stat(name), 0, "{name}");
    }
    assert_eq!(world.mails(), 0, "mail lies about");
    let requests = world.network.len() + world.network.silent();
    assert_eq!(requests, 0, "requests that nobody waits for");
}
