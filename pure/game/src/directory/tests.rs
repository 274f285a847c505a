//! Events in, lists out; then random lives of many matches against an obvious model.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::Random;
use expect_test::{Expect, expect};
use uuid::Uuid;

use super::{Directory, DirectoryEvent, ListError, ListFilter, MatchInfo, Version};
use crate::match_id::MatchId;
use crate::node::Nodes;

fn authoritative(number: u128) -> MatchId {
    MatchId::authoritative(Uuid::from_u128(number), Nodes::default().here())
}

fn relayed(number: u128) -> MatchId {
    MatchId::relayed(Uuid::from_u128(number))
}

fn version(number: u64) -> Version {
    Version { node: Nodes::default().here(), number }
}

fn created(id: MatchId, number: u64, label: &str, size: u32, at_ms: u64) -> DirectoryEvent {
    let info = if id.is_authoritative() {
        MatchInfo::authoritative("arena".into(), 10, label, at_ms)
    } else {
        MatchInfo::relayed(at_ms)
    };
    DirectoryEvent::MatchCreated { id, version: version(number), info: Arc::new(info), size }
}

/// Four authoritative matches, 1 to 4, and two relayed ones, 8 and 9; the higher the newer.
fn sample() -> Directory {
    let mut directory = Directory::new(Nodes::alone("n1"));
    for event in [
        created(authoritative(1), 1, r#"{"mode":"ctf","rank":10}"#, 3, 1_000),
        created(authoritative(3), 2, "plain text", 0, 3_000),
        created(authoritative(2), 3, r#"{"mode":"duel","rank":20}"#, 9, 2_000),
        created(authoritative(4), 4, r#"{"mode":"ctf","rank":30}"#, 10, 3_000),
        created(relayed(8), 5, "", 2, 500),
        created(relayed(9), 6, "", 4, 600),
    ] {
        directory.apply(&event);
    }
    directory
}

fn text_of(directory: &Directory, filter: &ListFilter) -> String {
    match directory.list(filter) {
        Ok(found) => {
            let names = found.iter().map(|listed| listed.id.uuid.as_u128().to_string());
            names.collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_match_in_a_list_has_all_that_clients_see() {
    let found = sample().list(&ListFilter { limit: 9, ..ListFilter::default() }).unwrap();
    assert_eq!(found.len(), 6);
    let newest = &found[0];
    assert_eq!(newest.id, authoritative(4));
    assert_eq!(newest.label(), Some(r#"{"mode":"ctf","rank":30}"#));
    let info = &newest.info;
    assert_eq!((newest.size, info.tick_rate_hz, &*info.handler_name), (10, 10, "arena"));
    assert_eq!(info.create_time_ms, 3_000);
    let last = &found[5];
    assert_eq!((last.id, last.label(), last.size), (relayed(8), None, 2));
    assert_eq!(sample().find(&authoritative(4)), Some(newest));
    assert_eq!(sample().find(&relayed(4)), None);
}

#[test]
fn filters_and_order() {
    let directory = sample();
    let check = |change: &dyn Fn(&mut ListFilter), expected: Expect| {
        let mut filter = ListFilter { limit: 10, ..ListFilter::default() };
        change(&mut filter);
        expected.assert_eq(&text_of(&directory, &filter));
    };
    let query = |text: &str| Some(text.to_owned());
    check(&|_| {}, expect!["4 3 2 1 9 8"]);
    check(&|f| f.limit = 5, expect!["4 3 2 1 9"]);
    check(&|f| f.limit = 1, expect!["4"]);
    check(&|f| f.limit = 0, expect![]);
    check(&|f| f.authoritative = Some(true), expect!["4 3 2 1"]);
    check(&|f| f.authoritative = Some(false), expect!["9 8"]);
    check(&|f| f.max_size = Some(9), expect!["3 2 1 9 8"]);
    check(&|f| (f.min_size, f.max_size) = (Some(3), Some(4)), expect!["1 9"]);
    check(&|f| (f.min_size, f.max_size) = (Some(4), Some(3)), expect![]);
    check(&|f| f.min_size = Some(-5), expect!["4 3 2 1 9 8"]);
    check(&|f| f.max_size = Some(-1), expect![]);
    check(&|f| f.label = query("plain text"), expect!["3"]);
    check(&|f| f.label = query("plain"), expect![]);
    check(&|f| f.label = query(""), expect![]);
    check(&|f| (f.label, f.authoritative) = (query(""), Some(false)), expect![]);
    check(&|f| f.query = query(""), expect!["4 3 2 1"]);
    check(&|f| f.query = query("*"), expect!["4 3 2 1"]);
    check(&|f| (f.query, f.authoritative) = (query("*"), Some(false)), expect![]);
    check(&|f| f.query = query("label.mode:ctf"), expect!["4 1"]);
    check(&|f| (f.query, f.limit) = (query("label.mode:ctf label.rank:10"), 1), expect!["1"]);
    check(&|f| f.query = query("+label.rank:>=10 label.mode:duel^5"), expect!["2 4 1"]);
    check(&|f| (f.query, f.max_size) = (query("label.rank:>=10"), Some(9)), expect!["2 1"]);
    check(&|f| f.query = query(r#"label_string:"plain text""#), expect!["3"]);
    check(&|f| f.query = query("node:n1"), expect!["4 3 2 1"]);
    check(&|f| f.query = query("node:n2"), expect![]);
    check(&|f| f.query = query("handler_name:arena -tick_rate:>10"), expect!["4 3 2 1"]);
    check(&|f| f.query = query("create_time:>=3000"), expect!["4 3"]);
    check(&|f| f.query = query(r#"create_time:<"1970-01-01T00:00:02Z""#), expect!["1"]);
    // A query, even an empty one, makes a label count for nothing.
    check(&|f| (f.query, f.label) = (query("label.mode:ctf"), query("")), expect!["4 1"]);
    check(&|f| (f.query, f.label) = (query("label.mode:ctf"), query("other")), expect!["4 1"]);
    check(&|f| (f.query, f.label) = (query(""), query("other")), expect!["4 3 2 1"]);
    check(
        &|f| f.query = query("label.mode:"),
        expect!["error parsing query string: syntax error at byte 11: a value expected"],
    );
}

#[test]
fn requests_are_checked_in_the_originals_order() {
    let fine = ListFilter { limit: 10, ..ListFilter::default() };
    let some = Some(String::new());
    let relayed = ListFilter { authoritative: Some(false), ..fine.clone() };
    let cases = [
        (ListFilter { limit: 100, ..fine.clone() }, Ok(())),
        (ListFilter { limit: 0, min_size: Some(-1), ..fine.clone() }, Err(ListError::Limit)),
        (ListFilter { limit: 101, ..fine.clone() }, Err(ListError::Limit)),
        (ListFilter { label: some.clone(), ..fine.clone() }, Ok(())),
        (
            ListFilter { label: some.clone(), query: some.clone(), ..relayed.clone() },
            Err(ListError::LabelOfRelayed),
        ),
        (ListFilter { query: some, ..relayed }, Err(ListError::QueryOfRelayed)),
        (ListFilter { min_size: Some(-1), ..fine.clone() }, Err(ListError::MinSize)),
        (ListFilter { max_size: Some(-1), ..fine.clone() }, Err(ListError::MaxSize)),
        (
            ListFilter { min_size: Some(2), max_size: Some(1), ..fine.clone() },
            Err(ListError::Sizes),
        ),
        (ListFilter { min_size: Some(1), max_size: Some(1), ..fine }, Ok(())),
    ];
    for (filter, expected) in cases {
        assert_eq!(filter.check_request(), expected, "{filter:?}");
    }
    assert_eq!(ListError::Limit.to_string(), "Invalid limit - limit must be between 1 and 100.");
}

#[test]
fn labels_change_what_queries_find() {
    let mut directory = sample();
    let red = ListFilter { limit: 9, query: Some("label.c:red".into()), ..ListFilter::default() };
    let relabel = |id, number, label: &str| {
        let info = Arc::new(MatchInfo::authoritative("arena".into(), 10, label, 1_000));
        DirectoryEvent::Relabelled { id, version: version(number), info }
    };
    let relabelled = |id, number| relabel(id, number, r#"{"c":"red"}"#);
    assert_eq!(text_of(&directory, &red), "");
    directory.apply(&relabelled(authoritative(1), 7));
    directory.apply(&relabelled(authoritative(3), 2));
    directory.apply(&relabelled(relayed(8), 7));
    assert_eq!(text_of(&directory, &red), "1");
    assert_eq!(directory.find(&relayed(8)).unwrap().label(), None);
    assert_eq!(directory.counters().events_stale_count, 1);
    for (number, text) in (8..).zip(["", "[1]", "{", r#""label.c:red""#, " ", "null"]) {
        directory.apply(&relabel(authoritative(2), number, text));
        assert_eq!(directory.find(&authoritative(2)).unwrap().label(), Some(text));
        assert_eq!(text_of(&directory, &red), "1", "{text}");
    }
}

#[test]
fn replicas_share_what_they_know_of_a_match_and_another_node_makes_it_anew() {
    let event = created(authoritative(1), 1, r#"{"c":"red"}"#, 0, 1_000);
    let red = ListFilter { limit: 9, query: Some("label.c:red".into()), ..ListFilter::default() };
    let mut replicas = [sample(), sample()];
    let event_of_other = created(authoritative(5), 7, r#"{"c":"red"}"#, 0, 5_000);
    for replica in &mut replicas {
        replica.apply(&event_of_other);
        assert_eq!(text_of(replica, &red), "5");
    }
    let infos = replicas.each_ref().map(|it| it.find(&authoritative(5)).unwrap().info.clone());
    assert!(Arc::ptr_eq(&infos[0], &infos[1]));
    assert!(infos[0].known_fields().is_some());

    let written = serde_json::to_string(&event).unwrap();
    let read: DirectoryEvent = serde_json::from_str(&written).unwrap();
    assert_eq!(read, event);
    let mut there = Directory::new(Nodes::alone("n1"));
    there.apply(&read);
    assert_eq!(text_of(&there, &red), "1");
}

#[test]
fn an_ended_match_stays_ended_until_it_truly_begins_again() {
    let mut directory = sample();
    let again = created(relayed(8), 5, "", 2, 500);
    directory.apply(&DirectoryEvent::Ended { id: relayed(8), version: version(9) });
    directory.apply(&again);
    directory.apply(&DirectoryEvent::Resized { id: relayed(8), version: version(10), size: 1 });
    directory.apply(&DirectoryEvent::Ended { id: relayed(8), version: version(11) });
    assert_eq!(directory.find(&relayed(8)), None);
    assert_eq!(directory.counters().events_stale_count, 3);
    // A named match may begin again under the same id.
    directory.apply(&created(relayed(8), 12, "", 1, 900));
    assert_eq!(directory.find(&relayed(8)).map(|listed| listed.size), Some(1));
    assert_eq!((directory.len(), directory.authoritative_count()), (6, 4));
}

#[test]
fn only_so_many_ended_matches_are_remembered() {
    let mut directory = Directory::default();
    for number in 0..Directory::ENDED_MAX as u128 + 10 {
        directory.apply(&created(relayed(number), 1, "", 1, 1));
        directory.apply(&DirectoryEvent::Ended { id: relayed(number), version: version(2) });
    }
    assert!(directory.is_empty());
    assert_eq!(directory.ended.len(), Directory::ENDED_MAX);
    assert_eq!(directory.ended_order.len(), Directory::ENDED_MAX);
    assert!(!directory.ended.contains_key(&relayed(9)));
    assert!(directory.ended.contains_key(&relayed(10)));
}

#[test]
fn online_as_long_as_one_session_is() {
    let mut directory = Directory::default();
    let user = Uuid::from_u128;
    let online = |user_id, session_id| DirectoryEvent::UserOnline { user_id, session_id };
    let offline = |user_id, session_id| DirectoryEvent::UserOffline { user_id, session_id };
    for event in [online(user(2), user(7)), online(user(2), user(7)), online(user(2), user(6))] {
        directory.apply(&event);
    }
    let who = |directory: &Directory| [1, 2, 3].map(|number| directory.is_online(user(number)));
    assert_eq!(who(&directory), [false, true, false]);
    assert_eq!(directory.online_sessions_count(), 2);
    directory.apply(&offline(user(2), user(7)));
    directory.apply(&offline(user(2), user(7)));
    assert_eq!(who(&directory), [false, true, false]);
    directory.apply(&offline(user(2), user(6)));
    assert_eq!(who(&directory), [false, false, false]);
}

#[test]
fn an_expensive_query_gives_up() {
    let mut directory = Directory::default();
    let label = format!(r#"{{"a":"{}"}}"#, "a".repeat(2_000));
    for number in 0..100 {
        directory.apply(&created(authoritative(number), 1, &label, 1, 1));
    }
    let cheap = "label.a:/a*/".to_owned();
    let dear = "+label.a:/(a*)*b?(a*)*b?(a*)*/ ".repeat(8);
    let list = |query| directory.list(&ListFilter { limit: 1, query, ..ListFilter::default() });
    assert_eq!(list(Some(cheap)).map(|found| found.len()), Ok(1));
    let Err(ListError::Expensive { seen_count, matches_count, .. }) = list(Some(dear)) else {
        panic!("listed");
    };
    assert!((1..100).contains(&seen_count), "{seen_count}");
    assert_eq!(matches_count, 100);
}

#[test]
fn relayed_matches_take_no_room_from_authoritative_ones() {
    let mut directory = Directory::new(Nodes::alone("n1"));
    let relayed_max = u128::try_from(Directory::RELAYED_MAX).unwrap();
    for number in 0..relayed_max + 5 {
        directory.apply(&created(relayed(number), 1, "", 1, 1));
    }
    directory.apply(&created(authoritative(7), 1, r#"{"mode":"ctf"}"#, 1, 1));
    assert_eq!(directory.counters().matches_refused_count, 5);
    assert_eq!((directory.len(), directory.authoritative_count()), (Directory::RELAYED_MAX + 1, 1));
    // Nor do they cost those who look for the others.
    for query in ["+label.mode:ctf", ""] {
        let query = Some(query.to_owned());
        let mut steps = 0;
        let filter = ListFilter { limit: 9, query, ..ListFilter::default() };
        let found = directory.list_counting(&filter, &mut steps).unwrap();
        assert!(found.len() == 1 && found[0].id == authoritative(7));
        assert!(steps < 2_000, "{steps}");
    }
}

#[test]
fn what_a_listing_costs_is_counted() {
    let mut directory = Directory::new(Nodes::alone("n1"));
    let label = format!(r#"{{"word":"wors","text":"{}"}}"#, "a".repeat(1_900));
    for number in 0..1_500 {
        directory.apply(&created(authoritative(number), 1, &label, 1, 1));
    }
    let cost = |label: Option<&str>, query: Option<String>| {
        let label = label.map(str::to_owned);
        let mut steps = 0;
        let filter = ListFilter { limit: 1, label, query, ..ListFilter::default() };
        let outcome = directory.list_counting(&filter, &mut steps);
        (steps, outcome.map(|found| found.len()).map_err(|error| error.to_string()))
    };
    let terms = |term: &str, count: usize| Some(vec![term; count].join(" "));
    // What games do is far below the limit, what nobody needs is refused by name.
    for query in ["label.word:wors", "label.word:word~", "+label.word:wo* -label.text:b"] {
        let (steps, outcome) = cost(None, terms(query, 1));
        assert!(steps < Directory::LIST_STEPS_MAX / 10 && outcome.is_ok(), "{query}: {steps}");
    }
    assert!(cost(Some("no such label"), None).0 >= 1_500 * 100, "labels are compared one by one");
    for (term, count) in [("label.n:7", 300), ("label_string:aaaaaaaaaaaaa~2", 200)] {
        let (steps, outcome) = cost(None, terms(term, count));
        assert!(steps < 2 * Directory::LIST_STEPS_MAX, "{term}: {steps}");
        assert!(outcome.unwrap_err().contains("match.list_steps_max is 10000000"), "{term}");
    }
    // A fuzzy word is put to texts of about its length only.
    let (steps, outcome) = cost(None, terms("label.text:aaaaaaaaaaaaa~2", 20));
    assert!(steps < 3_000_000 && outcome == Ok(0), "{steps}");
}

/// A match as the model knows it: creation, version of it, size.
type Model = BTreeMap<MatchId, (u64, u64, u32)>;

/// The model's answer: everything that fits, sorted.
fn expected(model: &Model, filter: &ListFilter) -> Vec<MatchId> {
    let fits = |size: u32| {
        filter.min_size.is_none_or(|min| i64::from(size) >= i64::from(min))
            && filter.max_size.is_none_or(|max| i64::from(size) <= i64::from(max))
    };
    let mut all: Vec<_> = model.iter().filter(|(_, (_, _, size))| fits(*size)).collect();
    all.sort_by_key(|(id, (at_ms, version, _))| (id.is_authoritative(), *at_ms, *version, **id));
    all.iter()
        .rev()
        .map(|(id, _)| **id)
        .filter(|id| filter.authoritative.is_none_or(|wanted| wanted == id.is_authoritative()))
        .filter(|id| filter.query.is_none() || id.is_authoritative())
        .take(filter.limit as usize)
        .collect()
}

#[test]
fn random_lives_agree_with_the_model() {
    let mut random = Random::from_number(11);
    let mut directory = Directory::default();
    let mut model = Model::new();
    let mut history: Vec<DirectoryEvent> = Vec::new();
    let mut listed_count = 0;
    for step in 1..4_000 {
        let (version, uuid) = (version(step), u128::from(random.below(120)));
        let id = if random.below(3) > 0 { authoritative(uuid) } else { relayed(uuid) };
        let size = random.below(12);
        let event = match random.below(5) {
            0 => DirectoryEvent::Ended { id, version },
            1 | 2 => DirectoryEvent::Resized { id, version, size },
            _ => created(id, step, "{}", size, u64::from(random.below(50))),
        };
        match &event {
            DirectoryEvent::MatchCreated { info, .. } => {
                model.insert(id, (info.create_time_ms, step, size));
            }
            DirectoryEvent::Resized { .. } => {
                model.entry(id).and_modify(|known| known.2 = size);
            }
            _ => {
                model.remove(&id);
            }
        }
        directory.apply(&event);
        // Any event may come again.
        history.push(event);
        let ago = random.below(200) as usize;
        if let Some(old) = history.iter().rev().nth(ago) {
            directory.apply(old);
        }
        let number = |random: &mut Random| Some(i32::try_from(random.below(14)).unwrap() - 1);
        let filter = ListFilter {
            limit: random.below(20),
            authoritative: [None, Some(true), Some(false)][random.below(3) as usize],
            label: None,
            min_size: if random.below(2) == 0 { None } else { number(&mut random) },
            max_size: if random.below(2) == 0 { None } else { number(&mut random) },
            query: [None, Some("handler_name:arena".to_owned())][random.below(2) as usize].clone(),
        };
        let found = directory.list(&filter).unwrap();
        let found: Vec<_> = found.iter().map(|listed| listed.id).collect();
        assert_eq!(found, expected(&model, &filter), "{step} {filter:?}");
        listed_count += found.len();
        assert_eq!(directory.len(), model.len());
    }
    assert!(listed_count > 4_000, "{listed_count}");
}
