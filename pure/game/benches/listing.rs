//! What listing costs: `cargo bench -p game --bench listing`. As a test it only runs through once.
//! Prints nanoseconds a call, the best of several rounds, and a count of what was found, so that
//! the work cannot be left out.

use std::hint::black_box;
use std::time::Duration;

use event::Random;
use game::directory::{Directory, DirectoryEvent, ListFilter, MatchInfo, Version};
use game::match_id::MatchId;
use game::node::Nodes;
use game::query::{Fields, Query};

fn version(number: u64) -> Version {
    Version { node: Nodes::default().here(), number }
}

/// `count` matches of 0 to 10 players with labels as games use them.
fn directory(count: u32) -> (Directory, Vec<MatchId>) {
    let mut random = Random::from_number(1);
    let mut directory = Directory::default();
    let mut ids = Vec::new();
    for number in 0..count {
        let uuid = uuid::Uuid::from_bytes(random.bytes());
        let id = MatchId::authoritative(uuid, directory.nodes().here());
        let mode = ["ctf", "duel", "free for all", "race"][random.below(4) as usize];
        let rank = random.below(100);
        let label = format!(
            r#"{{"mode":"{mode}","rank":{rank},"open":true,"map":{{"name":"m{rank}","size":4}},"tags":["a","b"]}}"#
        );
        directory.apply(&DirectoryEvent::MatchCreated {
            id,
            version: version(u64::from(number) + 1),
            info: MatchInfo::authoritative("arena".into(), 10, &label, u64::from(number)).into(),
            size: random.below(11),
        });
        ids.push(id);
    }
    (directory, ids)
}

/// Runs `call` as often as the mode allows and prints how long one took at best.
fn report(name: &str, calls: u32, mut call: impl FnMut() -> usize) {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, calls) = if is_bench { (20, calls) } else { (1, 1) };
    let mut best = Duration::MAX;
    let mut found = 0;
    for _ in 0..rounds {
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let start = std::time::Instant::now();
        for _ in 0..calls {
            found += black_box(call());
        }
        best = best.min(start.elapsed());
    }
    println!("{name:<52} {:>10} ns   found {found}", best.as_nanos() / u128::from(calls));
}

fn list(directory: &Directory, limit: u32, max_size: Option<i32>, query: Option<&str>) -> usize {
    let query = query.map(str::to_owned);
    let filter = ListFilter { limit, max_size, query, ..ListFilter::default() };
    directory.list(&filter).map_or(0, |found| found.len())
}

fn main() {
    for count in [2_000, 20_000] {
        let (mut directory, ids) = directory(count);
        report(&format!("{count}: max_size 9, limit 1"), 10_000, || {
            list(&directory, 1, Some(9), None)
        });
        report(&format!("{count}: max_size 9, limit 100"), 1_000, || {
            list(&directory, 100, Some(9), None)
        });
        for query in [
            "+label.mode:ctf",
            "+label.mode:ctf +label.rank:>=10 +label.rank:<20 label.open:T^2",
            "label.map.name:m1* label.mode:duel~1 -label.tags:c",
            "label.mode:/f.*all/",
        ] {
            report(&format!("{count}: {query:.40}, limit 10"), 20, || {
                list(&directory, 10, Some(9), Some(query))
            });
        }
        let mut random = Random::from_number(2);
        let mut number = u64::from(count);
        report(&format!("{count}: apply Resized"), 10_000, || {
            number += 1;
            let id = ids[random.below(count) as usize];
            directory.apply(&DirectoryEvent::Resized {
                id,
                version: version(number),
                size: random.below(11),
            });
            1
        });
    }
    report("parse: +label.mode:ctf +label.rank:>=10", 10_000, || {
        Query::parse("+label.mode:ctf +label.rank:>=10").map_or(0, |_| 1)
    });
    steps();
}

/// What a step of [`Query::score_counting`] costs with the dearest tests.
fn steps() {
    let mut fields = Fields::default();
    fields.add_keyword("f", &"ab".repeat(1_000));
    fields.seal();
    for text in [
        "f:/(a*)*b?(a*)*b?(a*)*x/",
        "f:/(((a|b)*(a|b)*)*((a|b)*(a|b)*)*)*x/",
        "f:/.*.*.*.*.*.*.*.*x/",
        "f:/((a|b){6}){6}.*x/",
        "f:/((a|b)*(a|b)*(a|b)*(a|b)*){8}x/",
        r"f:/\w*\w*\w*\w*x/",
        "f:*a?a*b?b*abc*c",
        "f:*abababababababababababababababababababababababababababc*",
        "f:ababab~2",
        "f:nothing",
    ] {
        let query = Query::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let mut steps = 0;
        query.score_counting(&fields, &mut steps);
        report(&format!("{steps} steps: {text:.30}"), 5, || query.score(&fields).map_or(0, |_| 1));
    }
}
