//! How threads are numbered, and that mail is opened by its own kind.

use event::ThreadId;
use game::node::Nodes;

use super::{CoreMail, Topology};

#[test]
fn threads_are_numbered_in_the_order_in_which_they_are_listed() {
    let topology = Topology::new(2, 3, 4).with_events();
    let numbers = topology.everybody().map(|thread| thread.0);
    // Cores, rooms, lister, batcher, callers, hasher, events.
    assert!(numbers.eq(0..13));
    assert!(topology.scripted().eq(topology.everybody().filter(|thread| {
        let cores = topology.cores.iter().map(|core| core.thread());
        cores.chain([topology.lister.thread()]).all(|other| other != *thread)
    })));
}

#[test]
fn the_loader_is_behind_all_others() {
    let without = Topology::new(1, 1, 1).with_loader();
    assert!(without.everybody().map(|thread| thread.0).eq(0..7));
    let with = Topology::new(1, 1, 1).with_events().with_loader();
    assert!(with.everybody().map(|thread| thread.0).eq(0..8));
    assert!(with.scripted().all(|thread| Some(thread) != with.loader.map(ThreadId::from)));
}

#[test]
fn each_core_has_a_companion_behind_the_callers() {
    let topology = Topology::with_companions(Nodes::default(), (2, 1, 3)).with_events();
    assert!(topology.everybody().map(|thread| thread.0).eq(0..12));
    let shared: Vec<_> = topology.workers().map(|worker| topology.core_of(worker)).collect();
    let [first, second] = [topology.cores[0], topology.cores[1]].map(Some);
    // Batcher, callers, companions, hasher, events.
    assert_eq!(shared, [None, None, None, None, first, second, None, None]);
    assert_eq!(topology.companion_of(topology.cores[1]), Some(topology.companions[1]));
    assert_eq!(Topology::new(2, 1, 3).companion_of(topology.cores[1]), None);
}

#[test]
fn what_is_sealed_with_an_address_is_opened_with_it() {
    let topology = Topology::new(1, 1, 1);
    let (to, mail) = topology.cores[0].seal(&topology, CoreMail::WakeUp);
    assert_eq!((to, mail.kind()), (ThreadId(0), "wake-up"));
    assert!(matches!(topology.cores[0].open(mail), CoreMail::WakeUp));
}

#[test]
#[should_panic(expected = "thread 1 was started under another kind's address")]
fn a_thread_that_is_wired_wrong_does_not_go_on() {
    let topology = Topology::new(1, 1, 1);
    let (_, mail) = topology.cores[0].seal(&topology, CoreMail::WakeUp);
    drop(topology.rooms[0].open(mail));
}
