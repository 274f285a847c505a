//! Who comes when: the seed decides, not the server; and who does not leave holds nobody up.

use super::{Act, MS, OK, S, World};
use crate::load::generator::Settings;
use crate::load::record::Stage;

const PHASES: &str = "name='a'\ntitle='a'\n[[phase]]\nduration='5s'\narrivals=20\n\
                      process='poisson'\n[[session]]\nname='s'\nprocess='constant'\n\
                      [[session.loop]]\nop='a'\nget='/a'\n[[session.loop]]\nthink={mean='300ms'}\n\
                      [[session]]\nname='t'\nprocess='constant'\n[[session.loop]]\nop='b'\nget='/b'\n\
                      [[session.loop]]\nthink={min='100ms', max='900ms'}\n";

fn phases(settings: &mut Settings) {
    settings.counted_ns = 5 * S;
}

#[test]
fn the_same_seed_is_the_same_load_however_fast_the_server_is() {
    let firsts = |seed, delay_ns| {
        let mut firsts = std::collections::BTreeMap::new();
        let mut server = |now_ns: u64, conn, request: &[u8]| {
            firsts.entry(conn).or_insert((now_ns, request[..6].to_vec()));
            vec![Act::Answer { at_ns: now_ns + delay_ns, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut Settings| {
            phases(settings);
            settings.seed = seed;
        };
        World::new(PHASES, change, &mut server).run();
        firsts
    };
    let fast = firsts(7, MS);
    assert!(fast.len() > 50, "{}", fast.len());
    assert_eq!(fast, firsts(7, 40 * MS), "who comes when, and to do what");
    assert_ne!(fast, firsts(8, MS));
}

#[test]
fn players_that_would_never_leave_do_not_hold_up_the_end() {
    let mut server = |now_ns: u64, _, _: &[u8]| {
        vec![Act::Answer { at_ns: now_ns + 20 * MS, bytes: OK.to_vec() }]
    };
    let (total, stages) = World::new(PHASES, phases, &mut server).run();
    let at = |wanted| stages.iter().find(|(stage, _)| *stage == wanted).map(|(_, at_ns)| *at_ns);
    let drained_ns = at(Stage::Done).unwrap() - at(Stage::Drain).unwrap();
    assert!(drained_ns < S, "{} ms", drained_ns / MS);
    assert_eq!(total.ops[0].unanswered + total.ops[1].unanswered, 0);
}

/// Players who come about once a warm-up: their first distances weigh as much as all others.
#[test]
fn rare_random_beats_are_as_many_as_they_should_be() {
    let text = "name='a'\ntitle='a'\nplayers=200\nrate=200\n[[session]]\nname='s'\n\
                process='poisson'\n[[session.loop]]\nop='do'\nget='/d'\n";
    let mut counted = 0_u64;
    for seed in 0..40 {
        // The world begins at one second, and what is counted a second later.
        let mut server = |now_ns: u64, _, _: &[u8]| {
            counted += u64::from((2 * S..7 * S).contains(&now_ns));
            vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut Settings| {
            settings.seed = seed;
            settings.warm_up_ns = S;
            settings.counted_ns = 5 * S;
        };
        World::new(text, change, &mut server).run();
    }
    // Of 40,000, within three standard deviations.
    assert!((39_400..=40_600).contains(&counted), "{counted}");
}

#[test]
fn a_rate_of_all_is_shared_by_those_who_have_a_loop() {
    let text = "name='a'\ntitle='a'\nplayers=40\nrate=100\n\
                [[session]]\nname='one'\nprocess='constant'\ncount=10\n[[session.first]]\nop='come'\nget='/c'\n\
                [[session]]\nname='idle'\nprocess='constant'\nweight=2\n[[session.first]]\nop='come'\nget='/c'\n\
                [[session]]\nname='busy'\nprocess='constant'\nweight=1\n[[session.loop]]\nop='do'\nget='/d'\n";
    let mut server =
        |now_ns: u64, _, _: &[u8]| vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }];
    let (total, _) = World::new(text, |_| (), &mut server).run();
    // Ten of forty are expected to share it; how many the weights give is up to the seed.
    let done = total.ops[1].done;
    assert!((600..=1_400).contains(&done), "{done} in 10 s");
}
