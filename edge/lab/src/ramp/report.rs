//! The result as one HTML file that needs nothing else: how many servers, and what they did to players,
//! processors and power.

use std::fmt::Write as _;

use super::Gate;
use super::gate::REPORTED;
use super::judge::judge;
use super::result::{RampResult, Step};
use super::text::{
    HEADS, STEP_HEADS, gate_value, how, mean, never_measured, power, rows, step_rows, verdict,
    worst,
};
use crate::measure::chart::{Axis, Chart, Dress, Line};
use crate::measure::number::{bytes_f64, float, time_f64};
use crate::measure::page::{self, Mood, badge, banner, figure, stamp};
use crate::measure::text::escape;

/// The page.
#[must_use]
pub fn report(result: &RampResult) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, result);
    out
}

fn write_page(out: &mut String, result: &RampResult) -> std::fmt::Result {
    page::open(out, "throng host ramp")?;
    write!(
        out,
        "<header><p class=\"kind\"><span>throng host ramp · {}</span>",
        escape(&stamp(result.unix_ms / 1_000))
    )?;
    let discarded = result.steps.iter().filter(|it| !it.discarded.is_empty()).count();
    if discarded > 0 {
        badge(out, Mood::Note, &format!("{discarded} of {} discarded", result.steps.len()))?;
    }
    let name = escape(&result.settings.server);
    write!(out, "</p><h1>How many {name} this machine carries</h1><ul class=\"verdicts\">")?;
    for gate in &result.gates {
        write!(out, "<li><p class=\"verdict\">{}</p></li>", escape(&verdict(gate, result)))?;
    }
    write!(out, "</ul><p class=\"how\">{}</p></header>", escape(&how(result)))?;
    if !result.ended.is_empty() {
        banner(out, Mood::Bad, "Ended early.", &result.ended)?;
    }
    for it in result.never_measured() {
        banner(out, Mood::Warn, "Not measured.", &never_measured(&it))?;
    }
    charts(out, result)?;
    page::table(out, ("By number of servers", 1), &HEADS, &rows(result))?;
    page::table(out, ("Every stretch, in the order of time", 1), &STEP_HEADS, &step_rows(result))?;
    worst_servers(out, result)?;
    page::origin(out, &result.environment)?;
    page::close_with(out, result)
}

/// A figure of a step.
type Of<'a> = &'a dyn Fn(&Step) -> Option<f64>;

/// A line of a chart.
struct Drawn<'a> {
    name: &'a str,
    of: Of<'a>,
}

fn charts(out: &mut String, result: &RampResult) -> std::fmt::Result {
    out.push_str("<section class=\"charts\">");
    let tick_ns = float(result.settings.tick_ns.max(1));
    let percent = |value: f64| format!("{value:.0} %");
    let cpu: Of<'_> = &|it| Some(it.machine.cpu_percent);
    let players: Of<'_> = &|it| {
        let processors = f64::from(result.settings.processors.max(1));
        Some(it.generator.cpu_percent / processors)
    };
    let lines =
        [Drawn { name: "machine", of: cpu }, Drawn { name: "players of ours", of: players }];
    figure(out, "Processors", "busy, of all", &chart(result, &lines, &[], &percent))?;
    let watts: Of<'_> = &|it| Some(it.machine.watts);
    let of_power = [Drawn { name: "power", of: watts }];
    let write_watts = |value: f64| format!("{value:.1} W");
    figure(out, "Power", &power(result), &chart(result, &of_power, &[], &write_watts))?;
    let late: Of<'_> = &|it| worst(it).map(|part| part * 100.0);
    let alone = asked(result).and_then(|it| it.alone());
    let gates = REPORTED.map(|part| (alone.unwrap_or(0.0) + part) * 100.0);
    let of_late = [Drawn { name: "worst server, p99", of: late }];
    let title = if has_snapshots(result) { "Lateness of snapshots" } else { "Status queries" };
    let note = match alone {
        None => "in percent of a tick; the lines are the gates of 10 % and 25 %".to_owned(),
        Some(part) => format!(
            "in percent of a tick; the lines are 10 % and 25 % above the {:.1} % that one server alone has",
            part * 100.0
        ),
    };
    figure(out, title, &note, &chart(result, &of_late, &gates, &percent))?;
    let ms = |value: f64| time_f64(value);
    let p50: Of<'_> = &|it| (it.transactions.count > 0).then_some(float(it.transactions.p50_ns));
    let p99: Of<'_> = &|it| it.transactions.p99().map(float);
    let both = [Drawn { name: "p50", of: p50 }, Drawn { name: "p99", of: p99 }];
    if result.counted().any(|it| it.transactions.count > 0) {
        let note =
            format!("a command through the simulation and back; a tick is {}", time_f64(tick_ns));
        figure(out, "In-game transactions", &note, &chart(result, &both, &[], &ms))?;
    }
    let wait: Of<'_> = &|it| mean(it, |it| it.runqueue_wait_ms_per_s);
    let of_wait = [Drawn { name: "mean of the servers", of: wait }];
    let write_wait = |value: f64| format!("{value:.0} ms/s");
    figure(
        out,
        "Wait for a processor",
        "of each server",
        &chart(result, &of_wait, &[], &write_wait),
    )?;
    let memory: Of<'_> = &|it| Some(float(it.machine.servers_memory_bytes));
    let of_memory = [Drawn { name: "all servers", of: memory }];
    figure(out, "Memory", "of all servers", &chart(result, &of_memory, &[], &|it| bytes_f64(it)))?;
    out.push_str("</section>");
    Ok(())
}

fn has_snapshots(result: &RampResult) -> bool {
    result.counted().any(|it| it.lateness.count > 0)
}

/// Servers against figures: for each a line over the medians of its repeats, and a dot for every repeat.
fn chart(
    result: &RampResult,
    drawn: &[Drawn<'_>],
    gates: &[f64],
    write: &dyn Fn(f64) -> String,
) -> String {
    let levels = result.levels();
    let most = levels.last().copied().unwrap_or(1);
    let (mut lines, mut highest) = (Vec::new(), gates.iter().copied().fold(0.0, f64::max));
    for (colour, it) in drawn.iter().enumerate() {
        let values = |level: u32| {
            let steps = result.counted().filter(move |step| step.servers == level);
            steps.filter_map(|step| (it.of)(step)).collect::<Vec<f64>>()
        };
        let dress = Dress { colour, dash: 0 };
        let median = |level: &u32| {
            let spread = crate::measure::spread::Spread::of(values(*level).into_iter());
            (f64::from(*level), spread.map_or(f64::NAN, |it| it.median))
        };
        let points: Vec<_> = levels.iter().map(median).collect();
        lines.push(Line { name: it.name.to_owned(), dress, points, filled: false });
        for level in &levels {
            for value in values(*level) {
                highest = f64::max(highest, value);
                let points = vec![(f64::from(*level), value)];
                lines.push(Line { name: String::new(), dress, points, filled: false });
            }
        }
    }
    for gate in gates {
        let points = vec![(0.0, *gate), (f64::from(most), *gate)];
        let dress = Dress { colour: 4, dash: 1 };
        lines.push(Line { name: format!("{gate:.0} %"), dress, points, filled: false });
    }
    let servers = |at: f64| format!("{at:.0} servers");
    Chart {
        x: Axis::linear(f64::from(most), |at| format!("{at:.0}")),
        y: Axis::linear(highest, write),
        x_name: "servers",
        lines,
        shades: Vec::new(),
        tell: (&servers, write),
    }
    .svg()
}

/// The gate that was asked for.
fn asked(result: &RampResult) -> Option<Gate> {
    let gate = result.gates.first()?.gate.parse::<Gate>().ok()?;
    Some(gate.beside(&result.steps))
}

/// Of each step the server that decided, by the gate that was asked for.
fn worst_servers(out: &mut String, result: &RampResult) -> std::fmt::Result {
    let Some(gate) = asked(result) else { return Ok(()) };
    let row = |step: &Step| {
        let (found, name) = judge(&gate, step);
        let it = step.each.iter().find(|it| it.name == name)?;
        let number =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| format!("{it:.1}"));
        Some(vec![
            step.number.to_string(),
            step.servers.to_string(),
            name.to_owned(),
            found.metric.name().to_owned(),
            gate_value(step, found),
            if found.holds { "passes" } else { "fails" }.to_owned(),
            number(it.cpu_percent),
            number(it.runqueue_wait_ms_per_s),
            number(it.preempted_per_s),
            it.gaps.to_string(),
            it.missed.to_string(),
            it.ticks_late.map_or_else(|| "–".to_owned(), |late| late.to_string()),
            it.lost.to_string(),
        ])
    };
    let rows: Vec<_> = result.counted().filter_map(row).collect();
    let heads = [
        "step",
        "servers",
        "server",
        "figure",
        "value",
        "",
        "CPU %",
        "wait ms/s",
        "preempted/s",
        "gaps",
        "missed",
        "ticks late",
        "lost",
    ];
    page::table(out, ("The server that decided", 3), &heads, &rows)
}

#[cfg(test)]
mod tests {
    use super::super::judge::result;
    use super::super::judge::tests::{made_up, step};
    use super::{RampResult, report};

    #[test]
    fn the_page_holds_charts_tables_and_the_result_itself() {
        let mut all = made_up(vec![step(1, 1, 100, 0), step(2, 1, 100, 3_000), step(1, 2, 200, 0)]);
        all.settings.server = "<b>".to_owned();
        all.gates = vec![result(&"lateness_p99 <= 10%".parse().unwrap(), &all)];
        let page = report(&all);
        assert_eq!(page.matches("<figure>").count(), 6);
        assert_eq!(page.matches("<table class=\"t").count(), 3);
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b> "));
        let json = page.split_once("id=\"result\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: RampResult = serde_json::from_str(json).unwrap();
        assert_eq!((read.steps.len(), read.gates.len()), (3, 1));
    }

    #[test]
    fn a_number_that_was_always_disturbed_is_marked() {
        let mut disturbed = step(2, 1, 100, 0);
        disturbed.discarded = "the machine changed".to_owned();
        let page = report(&made_up(vec![step(1, 1, 100, 0), disturbed]));
        assert!(page.contains("</b> 2 servers were never measured undisturbed, in one try,"));
        assert!(page.contains("none of 1"));
    }

    #[test]
    fn a_ramp_without_steps_has_a_page() {
        assert!(report(&made_up(vec![])).contains("</html>"));
    }
}
