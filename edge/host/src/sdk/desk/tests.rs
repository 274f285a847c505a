//! What a server may write down, what it is refused, and when the daemon is told.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::super::messages::{
    Count, CounterUpdate, Empty, KeyValue, List as ListMessage, ListValue, Mask, Named, Number,
    PlayerId, Seconds, UpdateCounter, UpdateList,
};
use super::{Code, Desk, Metadata, Wanted, Who, Word};
use crate::daemon::Event;
use crate::fleet::sdk::{Agones, Counter, List};

fn desk() -> (Desk, Receiver<Event>) {
    let (sender, events) = channel();
    let settings = Agones {
        counters: [("rooms".to_owned(), Counter { count: 1, capacity: 10 })].into(),
        lists: [("players".to_owned(), List { capacity: 2, values: vec!["a".to_owned()] })].into(),
        players: Some(1),
        ..Agones::default()
    };
    let desk = Desk::new(3, settings, sender);
    desk.begin(1, Who { name: "s".to_owned(), created_s: 7, ..Who::default() });
    (desk, events)
}

fn named(name: &str) -> Named {
    Named { name: name.to_owned() }
}

fn update(count: Option<i64>, capacity: Option<i64>, count_diff: i64) -> UpdateCounter {
    let number = |it: Option<i64>| it.map(|value| Number { value });
    let name = "rooms".to_owned();
    let update =
        CounterUpdate { name, count: number(count), capacity: number(capacity), count_diff };
    UpdateCounter { update: Some(update) }
}

fn value(value: &str) -> ListValue {
    ListValue { name: "players".to_owned(), value: value.to_owned() }
}

#[test]
fn counters_stay_between_zero_and_their_capacity() {
    let (desk, _events) = desk();
    assert_eq!(desk.update_counter(update(None, None, 9)).unwrap().count, 10);
    let refused = desk.update_counter(update(None, None, 1)).unwrap_err();
    assert_eq!(refused.code, Code::Unknown);
    assert!(refused.message.starts_with("out of range. Count"), "{}", refused.message);
    assert!(desk.update_counter(update(Some(-1), None, 0)).is_err());
    assert!(desk.update_counter(update(None, None, i64::MIN)).is_err());
    assert!(desk.update_counter(update(None, Some(-1), 0)).is_err());
    assert!(desk.update_counter(update(None, None, 0)).is_err());
    assert_eq!(desk.update_counter(update(None, Some(4), 0)).unwrap().count, 4);
    assert_eq!(desk.counter(named("rooms")).unwrap().capacity, 4);
    assert_eq!(desk.counter(named("x")).unwrap_err().message, "counter not found: x");
}

#[test]
fn lists_hold_different_values_up_to_their_capacity() {
    let (desk, _events) = desk();
    assert!(desk.add_value(value("a")).unwrap_err().message.starts_with("already exists."));
    assert_eq!(desk.add_value(value("b")).unwrap().values, ["a", "b"]);
    assert!(desk.add_value(value("c")).unwrap_err().message.starts_with("out of range."));
    assert_eq!(desk.remove_value(value("a")).unwrap().values, ["b"]);
    assert!(desk.remove_value(value("a")).is_err());
    let list = |capacity, values: &[&str], paths: &[&str]| UpdateList {
        list: Some(ListMessage {
            name: "players".to_owned(),
            capacity,
            values: values.iter().map(|it| (*it).to_owned()).collect(),
        }),
        mask: Some(Mask { paths: paths.iter().map(|it| (*it).to_owned()).collect() }),
    };
    assert_eq!(desk.update_list(list(1_000, &["x"], &[])).unwrap().values, ["b"]);
    assert!(desk.update_list(list(1_001, &[], &[])).unwrap_err().message.contains("[0,1000]"));
    let changed = desk.update_list(list(0, &["x", "y", "x"], &["values"])).unwrap();
    assert_eq!((changed.capacity, changed.values), (1_000, vec!["x".to_owned(), "y".to_owned()]));
    assert!(desk.update_list(list(1, &[], &["capacity"])).unwrap().values == ["x"]);
    assert_eq!(desk.update_list(list(1, &[], &["size"])).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn players_are_tracked_up_to_their_capacity() {
    let (desk, _events) = desk();
    let id = |id: &str| PlayerId { id: id.to_owned() };
    assert!(desk.connect_player(id("p")).unwrap().bool);
    assert!(!desk.connect_player(id("p")).unwrap().bool);
    let full = desk.connect_player(id("q")).unwrap_err();
    assert_eq!(full.message, "players are already at capacity");
    desk.set_player_capacity(Count { count: 2 }).unwrap();
    assert!(desk.connect_player(id("q")).unwrap().bool);
    assert!(desk.disconnect_player(id("p")).unwrap().bool);
    assert!(!desk.disconnect_player(id("p")).unwrap().bool);
    assert_eq!(desk.player_ids(Empty {}).unwrap().list, ["q"]);
    assert!(desk.is_player(id("q")).unwrap().bool);
    let (sender, _events) = channel();
    let without = Desk::new(0, Agones::default(), sender);
    assert!(without.player_count(Empty {}).unwrap_err().message.contains("not enabled"));
}

#[test]
fn what_a_server_writes_down_is_bounded() {
    let (desk, _events) = desk();
    let set = |key: &str, value: &str| {
        desk.set_annotation(KeyValue { key: key.to_owned(), value: value.to_owned() })
    };
    let refused = |key: &str, value: &str| set(key, value).unwrap_err().code;
    assert_eq!(refused("", "v"), Code::InvalidArgument);
    assert_eq!(refused("a b", "v"), Code::InvalidArgument);
    assert_eq!(refused(&"k".repeat(60), "v"), Code::InvalidArgument);
    assert_eq!(refused("k", &"v".repeat(4_097)), Code::InvalidArgument);
    for number in 0..63 {
        set(&format!("k{number}"), &"v".repeat(4_096)).unwrap();
    }
    // No room for its bytes; and with few bytes, no room for one more of them.
    assert_eq!(refused("last", &"v".repeat(4_096)), Code::ResourceExhausted);
    set("last", "v").unwrap();
    assert_eq!(refused("more", "v"), Code::ResourceExhausted);
    // Of so much, only some is shown.
    let view = desk.view().unwrap();
    assert!(serde_json::to_vec(&view).unwrap().len() < 8 << 10);
    assert_eq!(view.annotations.len() as u64 + view.not_shown, 64);
    assert_eq!(view.lists["players"].values, ["a"]);
    let label =
        |value: &str| desk.set_label(KeyValue { key: "l".to_owned(), value: value.to_owned() });
    assert_eq!(label("-").unwrap_err().code, Code::InvalidArgument);
    label("").unwrap();
    let labels = desk.game_server(Empty {}).unwrap().object_meta.unwrap().labels;
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["agones.dev/sdk-l"]);
}

/// However often a server calls, the daemon hears of it twice a second at most, and of the last wish.
#[test]
fn the_daemon_is_told_seldom() {
    let (desk, events) = desk();
    let now = Instant::now();
    desk.ready(Empty {}).unwrap();
    assert_eq!(desk.tell(now, false), None);
    assert!(matches!(events.try_recv(), Ok(Event::Wanted { index: 3, round: 1 })));
    assert_eq!(desk.take(), Some(Wanted::Ready));
    for _ in 0..1_000 {
        desk.allocate(Empty {}).unwrap();
        desk.reserve(Seconds { seconds: 5 }).unwrap();
        if let Some(wait) = desk.tell(now, false) {
            assert_eq!(wait, Duration::from_millis(500));
        }
    }
    assert!(events.try_recv().is_err());
    assert_eq!(desk.tell(now + Duration::from_millis(500), true), None);
    assert!(events.try_recv().is_ok());
    assert_eq!(desk.take(), Some(Wanted::Reserved(Some(Duration::from_secs(5)))));
    // An end is not taken back.
    desk.shutdown(Empty {}).unwrap();
    desk.ready(Empty {}).unwrap();
    assert_eq!(desk.take(), Some(Wanted::Shutdown));
}

#[test]
fn who_is_silent_for_too_long_is_unhealthy() {
    let (desk, _events) = desk();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(desk.unhealthy(at(100)), None, "it does not run yet");
    desk.run(start);
    assert_eq!(desk.unhealthy(at(4)), None);
    assert_eq!(desk.unhealthy(at(6)), None);
    assert_eq!(desk.unhealthy(at(7)), None, "it is no time to look");
    assert_eq!(desk.unhealthy(at(11)), None);
    desk.health(at(12));
    for seconds in [17, 22, 27] {
        assert_eq!(desk.unhealthy(at(seconds)), None, "{seconds}");
    }
    let what = desk.unhealthy(at(32)).unwrap();
    assert!(what.starts_with("unhealthy: no Health() at 3 looks, one every 5 s"), "{what}");
}

#[test]
fn a_start_begins_anew_and_a_daemon_goes_on() {
    let (desk, _events) = desk();
    let watch = desk.watch();
    desk.update_counter(update(Some(5), None, 0)).unwrap();
    let metadata =
        Metadata { labels: [("map".to_owned(), "dm1".to_owned())].into(), ..Metadata::default() };
    desk.allocated(1_700_000_000, &metadata);
    let server = desk.game_server(Empty {}).unwrap();
    let meta = server.object_meta.unwrap();
    assert_eq!(meta.annotations["agones.dev/last-allocated"], "2023-11-14T22:13:20Z");
    assert_eq!((&*meta.labels["map"], &*server.status.unwrap().state), ("dm1", "Allocated"));
    assert!(watch.has_changed().unwrap());
    let paper = desk.paper().unwrap();
    desk.begin(2, Who::default());
    assert!(desk.is(2) && !desk.is(1));
    assert_eq!(desk.counter(named("rooms")).unwrap().count, 1);
    desk.resume(3, Who::default(), Some(paper));
    assert_eq!(desk.counter(named("rooms")).unwrap().count, 5);
    // The daemon's word does not hide a wish that it has not heard of yet.
    desk.ready(Empty {}).unwrap();
    desk.set_word(Word::Scheduled);
    assert_eq!(desk.view().unwrap().state, "RequestReady");
    desk.take();
    desk.set_word(Word::Ready);
    assert_eq!(desk.view().unwrap().state, "Ready");
}

#[test]
fn what_is_told_of_a_server_that_never_called_is_kept_and_shown() {
    let (desk, _events) = desk();
    desk.allocated(1_700_000_000, &Metadata::default());
    assert!(desk.view().is_none() && desk.paper().is_none());
    let metadata =
        Metadata { labels: [("map".to_owned(), "dm1".to_owned())].into(), ..Metadata::default() };
    desk.allocated(1_700_000_000, &metadata);
    assert_eq!(desk.view().unwrap().labels["map"], "dm1");
    assert_eq!(desk.paper().unwrap().labels["map"], "dm1");
    // Players are what a server says itself.
    assert_eq!(desk.players(), None);
}
