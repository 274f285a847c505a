//! Who gets which row of a data file.

use std::collections::{BTreeMap, BTreeSet};

use super::{Act, MS, OK, S, Share, World};
use crate::load::generator::Settings;
use crate::load::record::kind::Cause;

/// Asks for the row of `users` that it has, which are 0 to 9.
fn text(rest: &str) -> String {
    format!(
        "name='a'\ntitle='a'\nplayers=4\nrate=10\n{rest}\n[[session]]\nname='s'\nprocess='constant'\n\
         pace='player'\n[[session.first]]\nop='come'\nget='/c'\nheaders={{ U='${{users.id}}' }}\n\
         [[session.loop]]\nop='ask'\npost='/${{users.id}}'\nbody='\"${{users.name:json}}\"'\n"
    )
}

/// What each connection asked for, in order.
fn asked(rest: &str, change: impl FnOnce(&mut Settings)) -> BTreeMap<u32, Vec<String>> {
    let mut asked: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut server = |now_ns: u64, conn, request: &[u8]| {
        let request = String::from_utf8_lossy(request).into_owned();
        let id = match request.strip_prefix("POST /") {
            Some(rest) => rest.split(' ').next().unwrap_or_default(),
            None => request.split("U: ").nth(1).and_then(|it| it.split('\r').next()).unwrap(),
        };
        if request.starts_with("POST") {
            assert!(
                request.ends_with(&format!("\r\nContent-Length: 8\r\n\r\n\"u\\\"{id}\\\"\"")),
                "{request}"
            );
        }
        asked.entry(conn).or_default().push(id.to_owned());
        vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }]
    };
    let (total, _) = World::new(&text(rest), change, &mut server).run();
    assert!(total.errors.is_empty(), "{:?}", total.errors);
    asked
}

fn data(rest: &str) -> String {
    format!("[[data]]\nname='users'\nfile='users.csv'\n{rest}")
}

fn second(settings: &mut Settings) {
    settings.counted_ns = S;
}

#[test]
fn every_player_keeps_a_row_of_its_own_in_whichever_process_it_is() {
    let mut owners = BTreeSet::new();
    for index in 0..2 {
        let asked = asked(&data(""), |settings| {
            second(settings);
            settings.first_number = 4 * u32::from(index);
            settings.share = Share { index, count: 2 };
        });
        for ids in asked.values() {
            assert!(ids.len() > 5 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
            assert!(owners.insert(ids[0].clone()), "{ids:?} had it too");
        }
    }
    assert_eq!(owners.into_iter().collect::<String>(), "01234567");
}

#[test]
fn players_beyond_the_last_row_begin_with_the_first_one_if_they_may() {
    let asked = asked(&data("wrap=true"), |settings| {
        second(settings);
        settings.players = 23;
    });
    let mut counts = BTreeMap::new();
    for ids in asked.values() {
        *counts.entry(ids[0].clone()).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3, 2, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn rows_go_round_in_turn_and_processes_have_theirs_between_one_another() {
    for (share, wanted) in
        [(Share::WHOLE, "0123456789012345"), (Share { index: 1, count: 2 }, "1357913579135791")]
    {
        let asked = asked(&data("pick='turn'"), |settings| {
            second(settings);
            settings.players = 1;
            settings.share = share;
        });
        let ids = &asked.values().next().unwrap();
        // What it came with is what its first round has too.
        assert_eq!(ids[0], ids[1]);
        let ids = ids[1..].concat();
        assert!(ids.len() >= 8 && wanted.starts_with(&ids[..8]), "{ids}");
    }
}

#[test]
fn rows_at_random_are_the_seeds() {
    let of = |seed| {
        asked(&data("pick='random'"), |settings| {
            second(settings);
            settings.seed = seed;
        })
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    let ids: BTreeSet<_> = of(1).into_values().flatten().collect();
    assert!(ids.len() > 5, "{ids:?}");
}

#[test]
fn players_for_whom_no_row_is_left_do_not_come() {
    let phase = "[[phase]]\nduration='2s'\narrivals=8\nprocess='constant'\n";
    let mut first = BTreeSet::new();
    let mut server = |now_ns: u64, _, request: &[u8]| {
        first.insert(request.to_vec());
        vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }]
    };
    let change = |settings: &mut Settings| settings.counted_ns = 2 * S;
    let text = text(&(phase.to_owned() + &data(""))).replace("name='s'", "name='s'\nrounds=1");
    let (total, _) = World::new(&text, change, &mut server).run();
    assert_eq!(first.len(), 20, "ten rows, two requests each");
    let ((_, kind), error) = total.errors.first_key_value().unwrap();
    assert_eq!((kind.cause, error.count, total.errors.len()), (Cause::NoRow, 6, 1));
}
