//! What the records say: medians with their ranges, and ratios round by round. Pure; the same from a
//! run as from a file.

use std::fmt::Write as _;

use serde_json::Value;

use super::plan::THRONG;
use super::record::Record;
use super::rows::{Figure, ROWS, Row};

/// A median with the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    median: f64,
    /// The lowest of them.
    pub lowest: f64,
    /// The highest of them.
    pub highest: f64,
}

impl Spread {
    /// Of some values; none of none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, lowest, highest })
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.median
    }

    /// From the lowest to the highest.
    pub fn range(&self, number: impl Fn(f64) -> String) -> String {
        format!("{}–{}", number(self.lowest), number(self.highest))
    }

    /// The median, with the range if there is one.
    pub fn text(&self, number: impl Fn(f64) -> String) -> String {
        let [median, lowest, highest] = [self.median, self.lowest, self.highest].map(number);
        if lowest == highest { median } else { format!("{median} ({lowest}–{highest})") }
    }
}

/// The runs of one server in one row.
struct Runs<'a>(Vec<&'a Record>);

impl<'a> Runs<'a> {
    fn of(records: &'a [Record], row: &Row, who: &str) -> Self {
        Self(records.iter().filter(|it| it.row == row.name && it.who == who).collect())
    }

    fn spread(&self, figure: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.0.iter().filter_map(|record| figure(record)).collect())
    }

    /// A figure of the result.
    fn text(&self, figure: impl Fn(&Value) -> Option<f64>, number: fn(f64) -> String) -> String {
        let spread = self.spread(|record| figure(&record.result));
        spread.map_or("–".to_owned(), |it| it.text(number))
    }

    fn per_cpu_second(&self) -> Option<Spread> {
        self.spread(|record| per_cpu_second(&record.result))
    }
}

/// Ratios throng ÷ other of the rounds that both have.
fn paired(throng: &Runs<'_>, other: &Runs<'_>) -> Option<Spread> {
    let in_round = |mine: &&Record| {
        let theirs = other.0.iter().find(|theirs| theirs.round == mine.round)?;
        Some(per_cpu_second(&mine.result)? / per_cpu_second(&theirs.result)?)
    };
    Spread::of(throng.0.iter().filter_map(in_round).collect())
}

/// Who was measured in a row, throng first, the others by what they do.
fn servers(records: &[Record], row: &Row) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for record in records.iter().filter(|it| it.row == row.name) {
        if !names.contains(&record.who) {
            names.push(record.who.clone());
        }
    }
    let median = |name: &str| {
        let spread = Runs::of(records, row, name).per_cpu_second();
        if name == THRONG { f64::INFINITY } else { spread.map_or(0.0, |it| it.median) }
    };
    names.sort_by(|a, b| median(b).total_cmp(&median(a)));
    names
}

/// The paired ratio of throng to the best other server of a row.
pub fn ratio(records: &[Record], row: &Row) -> Option<Spread> {
    let best = servers(records, row).into_iter().find(|name| name != THRONG)?;
    paired(&Runs::of(records, row, THRONG), &Runs::of(records, row, &best))
}

/// The ratio of throng in a row to throng in another one, of the rounds that both have.
pub fn ratio_to(records: &[Record], row: &Row, against: &Row) -> Option<Spread> {
    paired(&Runs::of(records, row, THRONG), &Runs::of(records, against, THRONG))
}

/// What throng does in rows beside what it does in another one, as Markdown.
pub fn against(records: &[Record], rows: &[&Row], against: &Row) -> String {
    let mut text =
        format!("| throng, per CPU-second | ÷ {}, paired |\n|---|---:|\n", against.title);
    for row in rows {
        let ratio = ratio_to(records, row, against);
        let ratio = ratio.map_or("–".to_owned(), |it| it.text(|ratio| format!("{ratio:.2}")));
        let _ = writeln!(text, "| {} | {ratio} |", row.title);
    }
    text
}

/// Writes the lines of a row.
type Lines = fn(&mut String, &[Record], &Row);

/// Everything as Markdown.
pub fn markdown(records: &[Record]) -> String {
    let mut text = head(records);
    let parts: [(Figure, &str, Lines); 2] =
        [(Figure::PerCpuSecond, PER_CPU_SECOND, much), (Figure::Time, TIME, slow)];
    for (figure, head, lines) in parts {
        let rows = ROWS.iter().filter(|row| row.figure == figure);
        let rows: Vec<_> =
            rows.filter(|row| records.iter().any(|record| record.row == row.name)).collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(head);
        for row in rows {
            lines(&mut text, records, row);
        }
        text.push('\n');
    }
    text
}

/// Where and when, and who took part, as the records say it.
fn head(records: &[Record]) -> String {
    let mut text = String::from("Made by `cargo xtask peers` from the records beside it.\n\n");
    let said = |record: &Record, pointer: &str| {
        record.result.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let about = |record: &Record| {
        let names = ["vendor_id", "model name", "cpu family", "model", "stepping"];
        let known = |name: &&str| Some(format!("{name} {}", record.processor.get(*name)?));
        let processor: Vec<_> = names.iter().filter_map(known).collect();
        let count = record.result.pointer("/environment/processors").and_then(Value::as_u64);
        let kernel = said(record, "/environment/kernel");
        let commit = said(record, "/environment/commit");
        let processor = processor.join(", ");
        let count = count.unwrap_or(0);
        format!(
            "- {count} processors ({processor}), Linux {kernel}; generator and throng: {commit}"
        )
    };
    let server = |record: &Record| {
        let (peer, server) =
            (said(record, "/environment/peer"), said(record, "/environment/server"));
        format!("- {peer}{}", if server.is_empty() { server } else { format!(" (`{server}`)") })
    };
    let mut lines: Vec<String> = records.iter().map(about).collect();
    lines.extend(records.iter().map(server));
    let mut told: Vec<&String> = Vec::new();
    for line in &lines {
        if !told.contains(&line) {
            told.push(line);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
    }
    text.push('\n');
    text
}

const PER_CPU_SECOND: &str = "\
Operations per CPU-second of the server process, median (lowest–highest); the ratio is of the two runs of
a round. With its database: what the processes beside it used in the counted time is added. CPU: share of
its processor that server and generator used; where neither comes near all of it in a closed loop, the
machine was busy with something else. CPU-s: what was counted, in steps of 10 ms.

| row | server | per CPU-second | throng ÷ it | with its database | CPU of server · generator | CPU-s | rounds |
|---|---|---:|---:|---:|---:|---:|---:|
";

const TIME: &str = "\
Response times from the intended start, of the row's operation, median (lowest–highest) of the rounds.
Late: how late the generator itself was, at p99; it is in the times.

| row | server | mean | p99 | late | CPU of server | memory each | rounds |
|---|---|---:|---:|---:|---:|---:|---:|
";

/// Lines of a row about how much.
fn much(text: &mut String, records: &[Record], row: &Row) {
    let throng = Runs::of(records, row, THRONG);
    for name in servers(records, row) {
        let runs = Runs::of(records, row, &name);
        let ratio = if name == THRONG { None } else { paired(&throng, &runs) };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {name} | {} | {} | {} | {} · {} | {} | {} |",
            row.title,
            runs.text(per_cpu_second, whole),
            ratio.map_or(String::new(), |it| it.text(times)),
            runs.spread(with_beside).map_or(String::new(), |it| it.text(whole)),
            runs.text(server_share, percent),
            runs.text(|it| number(it, "/generator/cpu_share"), percent),
            runs.text(cpu_s, |it| format!("{it:.1}")),
            rounds(&runs),
        );
    }
}

/// Lines of a row about how slow.
fn slow(text: &mut String, records: &[Record], row: &Row) {
    for name in servers(records, row) {
        let runs = Runs::of(records, row, &name);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {name} | {} | {} | {} | {} | {} | {} |",
            row.title,
            runs.text(|it| headline(it, "/response/mean_ns"), time),
            runs.text(|it| headline(it, "/response/p99_ns"), time),
            runs.text(|it| number(it, "/generator/behind/p99_ns"), time),
            runs.text(server_share, percent),
            runs.text(memory_each, |it| format!("{:.2} KB", it / 1e3)),
            rounds(&runs),
        );
    }
}

/// Their number, and how many the generator called invalid or had errors in.
fn rounds(runs: &Runs<'_>) -> String {
    let has = |record: &&&Record, name: &str| {
        record.result[name].as_array().is_some_and(|list| !list.is_empty())
    };
    let invalid = runs.0.iter().filter(|record| has(record, "invalid")).count();
    let failed = runs.0.iter().filter(|record| has(record, "errors")).count();
    let mut text = runs.0.len().to_string();
    for (count, word) in [(invalid, "invalid"), (failed, "with errors")] {
        if count > 0 {
            let _ = write!(text, ", {count} {word}");
        }
    }
    text
}

fn number(result: &Value, pointer: &str) -> Option<f64> {
    result.pointer(pointer)?.as_f64()
}

/// What a server does in a second of its processor.
pub fn per_cpu_second(result: &Value) -> Option<f64> {
    number(result, "/server/ops_per_cpu_s").filter(|it| *it > 0.0)
}

/// The same, with the processor time of the processes beside it; none without them.
fn with_beside(record: &Record) -> Option<f64> {
    let result = &record.result;
    let own = server_share(result)?;
    Some(per_cpu_second(result)? * own / (own + beside_share(record)?))
}

/// Processors that the processes beside the server used while the run was counted: from the end of the
/// first counted second to that of the last, or to the last sample, which may be a little before.
fn beside_share(record: &Record) -> Option<f64> {
    let is_counted = |second: &&Value| second["stage"].as_str() == Some("counted");
    let mut counted = record.result["series"].as_array()?.iter().filter(is_counted);
    let first_s = counted.next()?["at_s"].as_f64()?;
    let last_s = counted.next_back()?["at_s"].as_f64()?;
    let started_s = number(&record.result, "/series_unix_ms")? / 1e3;
    let sampled_s = record.beside.last()?[0];
    let (from_s, until_s) = (started_s + first_s, (started_s + last_s).min(sampled_s));
    if until_s <= from_s {
        return None;
    }
    Some((used_by(record, until_s)? - used_by(record, from_s)?) / (until_s - from_s))
}

/// What the processes beside the server had used by a time, between the samples around it.
fn used_by(record: &Record, at_s: f64) -> Option<f64> {
    let next = record.beside.iter().position(|[sampled_s, _]| *sampled_s >= at_s)?;
    let [until_s, until] = record.beside[next];
    let [from_s, from] = *record.beside.get(next.checked_sub(1)?)?;
    Some(from + (until - from) * (at_s - from_s) / (until_s - from_s))
}

fn cpu_s(result: &Value) -> Option<f64> {
    Some(number(result, "/server/user_s")? + number(result, "/server/system_s")?)
}

fn server_share(result: &Value) -> Option<f64> {
    Some(cpu_s(result)? / number(result, "/server/wall_s")?)
}

/// Of the operation that the row is about.
fn headline(result: &Value, pointer: &str) -> Option<f64> {
    let name = result["headline"].as_str()?;
    let op = result["ops"].as_array()?.iter().find(|op| op["name"].as_str() == Some(name))?;
    number(op, pointer)
}

/// Memory by which the server grew while the players came, where they are many.
fn memory_each(result: &Value) -> Option<f64> {
    const PLAYERS_MIN: f64 = 1_000.0;
    let players = number(result, "/settings/players").filter(|it| *it >= PLAYERS_MIN)?;
    let at = |name: &str| number(result, &format!("/server/resident_{name}_bytes"));
    Some((at("ready")? - at("before")?) / players)
}

/// With thousands apart, three digits of it real.
pub fn whole(value: f64) -> String {
    let mut rest = format!("{value:.0}");
    let mut parts = Vec::new();
    while rest.len() > 3 {
        parts.push(rest.split_off(rest.len() - 3));
    }
    parts.push(rest);
    parts.reverse();
    parts.join(",")
}

fn times(value: f64) -> String {
    format!("{value:.2}")
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn time(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{Spread, against, markdown, ratio, whole};
    use crate::peers::record::Record;
    use crate::peers::rows::ROWS;

    fn record(row: &str, who: &str, round: usize, ops_per_cpu_s: f64) -> Record {
        let result = json!({
            "headline": "echo",
            "settings": { "players": 2_000 },
            "server": {
                "ops_per_cpu_s": ops_per_cpu_s, "user_s": 1.0, "system_s": 1.0, "wall_s": 4.0,
                "resident_before_bytes": 1_000_000, "resident_ready_bytes": 5_000_000,
            },
            "generator": { "cpu_share": 0.25, "behind": { "p99_ns": 1e4 } },
            "environment": { "processors": 2, "kernel": "6.1", "commit": "abc", "peer": who },
            "series_unix_ms": 100_000,
            "series": [
                { "stage": "warm-up", "at_s": 1.0 },
                { "stage": "counted", "at_s": 2.0 },
                { "stage": "counted", "at_s": 3.0 },
                { "stage": "counted", "at_s": 4.0 },
            ],
            "ops": [{
                "name": "echo", "response": { "mean_ns": 1e6, "p99_ns": 2.5e6 },
            }],
            "invalid": if who == "slow" { vec!["late"] } else { vec![] },
        });
        Record {
            row: row.to_owned(),
            who: who.to_owned(),
            round,
            place: 1,
            processor: BTreeMap::from([("model".to_owned(), "7".to_owned())]),
            // 1.5 processors from second 99 on; the last sample comes before the last second ends.
            beside: if who == "slow" {
                vec![[90.0, 5.0], [99.0, 5.0], [103.5, 11.75]]
            } else {
                vec![]
            },
            result,
            histograms: BTreeMap::new(),
        }
    }

    #[test]
    fn a_spread_has_a_middle() {
        assert_eq!(Spread::of(Vec::new()), None);
        for (values, median) in [(&[3.0][..], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)] {
            assert!((Spread::of(values.to_vec()).unwrap().median() - median).abs() < 1e-9);
        }
    }

    #[test]
    fn a_row_is_beside_another_round_by_round() {
        let row = |name: &str| ROWS.iter().find(|row| row.name == name).unwrap();
        let records = [
            record("register-max", "throng", 1, 100.0),
            record("register-max", "throng", 2, 200.0),
            record("register-max", "other", 2, 1.0),
            record("rpc-write-max", "throng", 1, 50.0),
            record("rpc-write-max", "throng", 2, 120.0),
            record("rpc-write-max", "throng", 3, 1.0),
        ];
        let rows = [row("rpc-write-max"), row("transfer-max")];
        let text = against(&records, &rows, row("register-max"));
        assert!(
            text.contains("writes one object, durable, 64 connections | 0.55 (0.50–0.60) |"),
            "{text}"
        );
        assert!(text.ends_with("durable, 64 connections | – |\n"), "{text}");
    }

    #[test]
    fn ratios_are_of_one_round_and_the_best_other() {
        // Of the medians the ratio would be 1; round by round it is 2, 1 and 0.5: 1 as well, but of
        // the two rounds that `part` was in 2 and 1.
        let records: Vec<_> = [
            ("throng", [200.0, 400.0, 800.0]),
            ("fast", [100.0, 400.0, 1_600.0]),
            ("slow", [10.0, 20.0, 40.0]),
        ]
        .iter()
        .flat_map(|(who, rounds)| {
            (1..).zip(rounds).map(move |(round, ops)| record("ws-64", who, round, *ops))
        })
        .collect();
        let row = ROWS.iter().find(|row| row.name == "ws-64").unwrap();
        assert_eq!(ratio(&records, row), Spread::of(vec![2.0, 1.0, 0.5]));
        let text = markdown(&records);
        for part in [
            "- 2 processors (model 7), Linux 6.1; generator and throng: abc\n- throng\n- fast\n",
            "| throng | 400 (200–800) |  |  | 50 % · 25 % | 2.0 | 3 |",
            "| fast | 400 (100–1,600) | 1.00 (0.50–2.00) |  |",
            // Half a processor, and one and a half beside it.
            "| slow | 20 (10–40) | 20.00 | 5 (2–10) | 50 % · 25 % | 2.0 | 3, 3 invalid |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(ratio(&records[..3], row), None);
    }

    #[test]
    fn times_have_a_table_of_their_own() {
        let text = markdown(&[record("ccu", "throng", 1, 5.0)]);
        let line = "| throng | 1.00 ms | 2.50 ms | 0.01 ms | 50 % | 2.00 KB | 1 |";
        assert!(text.contains(line) && !text.contains("throng ÷"), "{text}");
    }

    #[test]
    fn thousands_stand_apart() {
        for (value, text) in [(0.4, "0"), (999.0, "999"), (1_000.0, "1,000"), (1e6, "1,000,000")] {
            assert_eq!(whole(value), text);
        }
    }
}
