//! The result as text for a terminal, and over time as CSV.

use std::fmt::Write as _;

use super::result::{Figures, Path, Round, Row, Side, StylesResult};
use crate::measure::change::Change;
use crate::measure::number::{bytes, float, group_f64, rate, share, time_f64};
use crate::measure::text::wrap;

/// Columns for sentences.
const COLUMNS: usize = 100;

/// Heads of the columns; the first one is words.
pub(super) const HEADS: [&str; 10] = [
    "style",
    "per CPU-second",
    "ratio",
    "rate",
    "lost",
    "user",
    "system",
    "waiting",
    "machine",
    "received",
];

/// What the columns are, for below the tables.
pub(super) const LEGEND: &str = "Medians of the rounds; ranges in brackets. per CPU-second: datagrams \
    for each second of the compared thread's processor time. ratio: to the first row, with the 99 % \
    interval over the rounds. rate, received: datagrams a second, and in the time that counts (of \
    senders: sent). lost: of what was sent. user, system: share of a processor that the compared thread \
    used. waiting: most bytes that waited in the kernel for the receiver. machine: time of all \
    processors for each datagram received, counted at the kernel's ticks; in it is what the kernel does \
    on the way, whoever it is counted for. In the receiver's own time are its system calls, and not the \
    way of a datagram to its socket or ring: that is in the sender's, or, where the kernel counts \
    softirqs apart (CONFIG_IRQ_TIME_ACCOUNTING) or leaves them to ksoftirqd, in no thread's here. Softirqs \
    that interrupt the receiver are in its time where they are not counted apart. By gro and uring-gro \
    the socket counts what it drops (result.json) in pieces of up to 64 datagrams.";

/// The title of rows that are compared.
pub(super) fn title(row: &Row) -> String {
    let path = match row.path {
        Path::Loopback => "loopback",
        Path::Veth => "veth pair",
    };
    let flows = if row.flows == 1 { "one flow".to_owned() } else { format!("{} flows", row.flows) };
    match row.side {
        Side::Receive if row.other == "one" => {
            format!("Receiving over {path}, {flows}, sent one by one")
        }
        Side::Receive => format!("Receiving over {path}, {flows}, sent by {}", row.other),
        Side::Send => format!("Sending over {path}, {flows}, received by {}", row.other),
    }
}

/// How it was measured, in one sentence.
pub(super) fn how(result: &StylesResult) -> String {
    let it = &result.settings;
    let [one, many] = it.bursts;
    let rate = if it.rate > 0.0 {
        format!("{} a second", rate(it.rate))
    } else {
        "as fast as the sender can".to_owned()
    };
    let processors = match it.processors {
        Some([sender, receiver]) => {
            let core = if it.is_one_core { ", two threads of one core" } else { "" };
            format!("sender on processor {sender}, receiver on processor {receiver}{core}")
        }
        None => "sender and receiver share one processor: figures of little meaning".to_owned(),
    };
    let work = if it.work_ns > 0 {
        format!("; {} of work for each", time_f64(float(it.work_ns)))
    } else {
        String::new()
    };
    let given = result.rows.iter().flat_map(|row| &row.rounds).map(|it| it.buffer_bytes);
    let buffer = match given.filter(|it| *it > 0).min() {
        Some(given) if given < it.buffer_bytes => format!(
            "; receive buffers of {} and not {}, as the system gives no more",
            bytes(given as u64),
            bytes(it.buffer_bytes as u64)
        ),
        _ => String::new(),
    };
    format!(
        "Datagrams of {} bytes, {rate}, {one} of a flow together ({many} where there are many \
         flows){work}; {} rounds of {} s; styles of many a call take {} pieces, and let more come \
         for {} µs once they had to wait; {processors}{buffer}.",
        it.bytes, it.rounds, it.span_s, it.batch, it.gather_us
    )
}

/// The cells of a row; one long one where there is nothing measured.
fn cells(row: &Row, first: &Row) -> Vec<String> {
    let mut cells = vec![row.style.clone()];
    let Some(per_cpu_s) = row.per_cpu_s() else {
        let why = if row.why.is_empty() { "not measured" } else { &row.why };
        cells.push(why.to_owned());
        return cells;
    };
    let median = |figure: &dyn Fn(&Round) -> f64| row.spread(figure).map_or(0.0, |it| it.median);
    let part = |used_s: fn(&Figures) -> f64| {
        let value = median(&|it| used_s(&it.of(row.side).1) / it.span_s.max(1e-9));
        format!("{:.0} %", value * 100.0)
    };
    let count = |it: &Round| float(it.of(row.side).0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
    let waiting = median(&|it| float(it.waiting_bytes_max())) as u64;
    cells.extend([
        per_cpu_s.cell(group_f64).line(),
        ratio(row, first),
        format!("{}/s", group_f64(median(&|it| count(it) / it.span_s.max(1e-9)))),
        share(median(&|it| it.lost_share())),
        part(|it| it.user_s),
        part(|it| it.system_s),
        bytes(waiting),
        time_f64(median(&|it| it.machine_ns())),
        group_f64(median(&count)),
    ]);
    cells
}

/// The lines of a section: the cells of each row, and beneath a row that failed in a later round one
/// that says so.
pub(super) fn lines(section: &[Row], rounds: u32) -> Vec<Vec<String>> {
    let Some(first) = section.first() else { return Vec::new() };
    let of = |row| {
        let rest = is_partial(row).then(|| {
            let why = format!("{} of {rounds} rounds: {}", row.rounds.len(), row.why);
            vec![row.style.clone(), why]
        });
        std::iter::once(cells(row, first)).chain(rest)
    };
    section.iter().flat_map(of).collect()
}

/// Whether some rounds were measured, and one was not.
pub(super) fn is_partial(row: &Row) -> bool {
    !row.rounds.is_empty() && !row.why.is_empty()
}

/// By how much a row differs from the first, if there are rounds enough to say.
fn change(row: &Row, first: &Row) -> Option<Change> {
    let values = |row: &Row| row.rounds.iter().map(|it| it.per_cpu_s(row.side)).collect::<Vec<_>>();
    Change::of(&values(first), &values(row))
}

/// How many times as good as the first row.
fn ratio(row: &Row, first: &Row) -> String {
    if row.style == first.style {
        return "1".to_owned();
    }
    if let Some(change) = change(row, first) {
        return format!("{:.2} × ({:.2}–{:.2})", change.ratio, change.lowest, change.highest);
    }
    match (first.per_cpu_s(), row.per_cpu_s()) {
        (Some(one), Some(other)) if one.median > 0.0 => {
            format!("{:.2} ×", other.median / one.median)
        }
        _ => String::new(),
    }
}

/// The result for a terminal.
#[must_use]
pub fn text(result: &StylesResult) -> String {
    let mut out = String::new();
    for section in result.sections() {
        let Some(first) = section.first() else { continue };
        let mut lines = Vec::new();
        if section.iter().any(|row| !row.rounds.is_empty()) {
            lines.push(HEADS.map(str::to_owned).to_vec());
        }
        lines.extend(self::lines(section, result.settings.rounds));
        // A reason is as long as it is, and stands in no column.
        let whole = lines.iter().filter(|cells| cells.len() == HEADS.len());
        let mut widths = [0; HEADS.len()];
        for cells in whole {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths[0] = lines.iter().map(|cells| cells[0].chars().count()).max().unwrap_or(0);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", title(first));
        for cells in &lines {
            let mut line = format!("  {:<1$}", cells[0], widths[0]);
            if cells.len() == HEADS.len() {
                for (cell, width) in cells.iter().zip(widths).skip(1) {
                    let _ = write!(line, "  {cell:>width$}");
                }
            } else {
                let _ = write!(line, "  {}", cells[1..].join(" "));
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
    for sentence in [how(result), LEGEND.to_owned()] {
        for line in wrap("", "", &sentence, COLUMNS) {
            let _ = writeln!(out, "{line}");
        }
    }
    if !result.ended.is_empty() {
        let _ = writeln!(out, "Ended early: {}.", result.ended);
    }
    out
}

/// Everything over time, a line for each look.
#[must_use]
pub fn csv(result: &StylesResult) -> String {
    let mut out = "path,flows,side,style,round,at_s,received_per_s,sent_per_s,user,system,\
                   waiting_bytes,resident_bytes\n"
        .to_owned();
    for row in &result.rows {
        let side = match row.side {
            Side::Receive => "receive",
            Side::Send => "send",
        };
        for round in &row.rounds {
            for it in &round.series {
                let _ = writeln!(
                    out,
                    "{},{},{side},{},{},{:.3},{:.0},{:.0},{:.4},{:.4},{},{}",
                    row.path.name(),
                    row.flows,
                    row.style,
                    round.round,
                    it.at_s,
                    it.received_per_s,
                    it.sent_per_s,
                    it.user,
                    it.system,
                    it.waiting_bytes,
                    it.resident_bytes
                );
            }
        }
    }
    out
}

/// Words for what the best style is, of each section of receivers.
pub(super) fn verdicts(result: &StylesResult) -> Vec<String> {
    let mut told = Vec::new();
    for section in result.sections() {
        let Some((first, others)) = section.split_first() else { continue };
        let Some(plain) = first.per_cpu_s() else { continue };
        let best = others
            .iter()
            .filter_map(|row| Some((row, row.per_cpu_s()?.median)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((best, _)) = best else { continue };
        let (title, plain) = (title(first), group_f64(plain.median));
        let first_style = &first.style;
        let verdict = if change(best, first).is_some_and(|it| !it.is_real()) {
            format!(
                "{title}: no style does more than {first_style} beyond noise ({plain} datagrams a \
                 CPU-second)."
            )
        } else {
            format!(
                "{title}: with the same processor time {} does {} what {first_style} does ({plain} \
                 datagrams a CPU-second).",
                best.style,
                ratio(best, first)
            )
        };
        told.push(format!("{verdict} {}", machine(section, best, first)));
    }
    told
}

/// Words for what the best row takes of all processors, and which row takes less of them: part of the
/// work may be done for the receiver by others.
fn machine(section: &[Row], best: &Row, first: &Row) -> String {
    let of = |row: &Row| row.spread(Round::machine_ns).map_or(f64::MAX, |it| it.median);
    let (best_ns, first_ns) = (of(best), of(first));
    let told = format!(
        "(machine: {} for each datagram, {} {})",
        time_f64(best_ns),
        first.style,
        time_f64(first_ns)
    );
    match section.iter().min_by(|a, b| of(a).total_cmp(&of(b))) {
        Some(least) if of(least) < best_ns => {
            format!(
                "{told} Of all processors {} takes least: {}.",
                least.style,
                time_f64(of(least))
            )
        }
        _ => told,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::result::Sample;
    use super::*;

    /// Two sections: one of three rounds in which the second style does four times as much, one
    /// where nothing could be measured.
    pub(in super::super) fn made_up() -> StylesResult {
        let figures =
            |cpu_s| Figures { cpu_s, user_s: cpu_s / 4.0, system_s: cpu_s * 0.75, calls: 9 };
        let round = |round, received, cpu_s| Round {
            round,
            span_s: 2.0,
            received,
            sent: 3_000_000,
            lost: 1_000_000,
            sent_in_all: 4_000_000,
            receiver: figures(cpu_s),
            sender: figures(2.0),
            machine_busy_s: 3.0,
            series: (1..=3_u8)
                .map(|at| Sample {
                    at_s: f64::from(at),
                    received_per_s: 1e6,
                    sent_per_s: 2e6,
                    user: 0.25,
                    system: 0.75,
                    waiting_bytes: u64::from(at) * 1_000,
                    resident_bytes: 5_000_000,
                })
                .collect(),
            ..Round::default()
        };
        let row = |path, style: &str, rounds: Vec<Round>, why: &str| Row {
            path,
            flows: 1,
            side: Side::Receive,
            style: style.to_owned(),
            other: "gso".to_owned(),
            why: why.to_owned(),
            rounds,
        };
        let plain = [1_000_000, 1_010_000, 990_000];
        let plain = plain.into_iter().zip(1..).map(|(it, number)| round(number, it, 1.0));
        let good = (1..=3).map(|number| round(number, 2_000_000, 0.5)).collect();
        StylesResult {
            rows: vec![
                row(Path::Loopback, "recv", plain.collect(), ""),
                row(Path::Loopback, "gro", good, ""),
                row(Path::Loopback, "xdp", vec![], "loopback has no <queues>"),
                row(Path::Veth, "recv", vec![], "no veth"),
            ],
            ..StylesResult::default()
        }
    }

    #[test]
    fn the_table_tells_all_styles_and_why_some_are_missing() {
        let text = text(&made_up());
        for part in [
            "Receiving over loopback, one flow, sent by gso\n",
            "1,000,000 (990,000–1,010,000)                   1  ",
            "25 %",
            "4,000,000  4.00 × (3.",
            "  xdp    loopback has no <queues>\n",
            "Receiving over veth pair",
            "sent by gso\n  recv  no veth\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let verdicts = verdicts(&made_up());
        assert!(
            verdicts.len() == 1 && verdicts[0].contains("time gro does 4.00 ×"),
            "{verdicts:?}"
        );
    }

    #[test]
    fn a_verdict_tells_what_the_machine_took_and_who_took_least() {
        let mut result = made_up();
        let told = &verdicts(&result)[0];
        assert!(told.ends_with("(machine: 1.50 µs for each datagram, recv 3.00 µs)"), "{told}");
        for round in &mut result.rows[1].rounds {
            round.machine_busy_s = 8.0;
        }
        let told = &verdicts(&result)[0];
        let wanted = "gro does 4.00 ×";
        assert!(told.contains(wanted) && told.contains("(machine: 4.00 µs"), "{told}");
        assert!(told.ends_with("Of all processors recv takes least: 3.00 µs."), "{told}");
    }

    #[test]
    fn a_row_that_failed_later_says_how_many_rounds_it_is_of() {
        let mut result = made_up();
        result.settings.rounds = 4;
        result.rows[1].why = "receiving: it broke".to_owned();
        let text = text(&result);
        assert!(text.contains("4.00 × (3."), "{text}");
        assert!(text.contains("\n  gro    3 of 4 rounds: receiving: it broke\n"), "{text}");
        let page = super::super::report(&result);
        assert!(page.contains("3 of 4 rounds: receiving: it broke"));
        assert!(page.contains("2 of 4 rows not measured"));
        assert!(page.contains("1 of 4 rows measured in part"));
    }

    #[test]
    fn what_the_machine_did_not_give_is_said() {
        let mut result = made_up();
        result.settings.processors = Some([0, 1]);
        result.settings.buffer_bytes = 4_000_000;
        assert!(how(&result).ends_with("receiver on processor 1."));
        result.settings.is_one_core = true;
        result.rows[1].rounds[1].buffer_bytes = 212_992;
        let how = how(&result);
        let words = "two threads of one core; receive buffers of 213.0 KB and not 4.0 MB, as";
        assert!(how.contains(words), "{how}");
    }

    #[test]
    fn every_look_is_a_line() {
        let csv = csv(&made_up());
        assert_eq!(csv.lines().count(), 1 + 6 * 3);
        assert!(csv.contains(
            "\nloopback,1,receive,gro,2,3.000,1000000,2000000,0.2500,0.7500,3000,5000000\n"
        ));
    }
}
