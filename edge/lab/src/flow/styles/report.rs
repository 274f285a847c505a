//! The result as one HTML file that needs nothing else.

use std::fmt::Write as _;

use super::result::{Row, Sample, StylesResult};
use super::table::{HEADS, LEGEND, how, is_partial, lines, title, verdicts};
use crate::measure::chart::{Axis, Bar, Bars, Chart, Dress, Line};
use crate::measure::number::{bytes_f64, float, group_f64};
use crate::measure::page::{self, Mood, badge, banner, figure, stamp};
use crate::measure::text::escape;

/// The page.
#[must_use]
pub fn report(result: &StylesResult) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, result);
    out
}

fn write_page(out: &mut String, result: &StylesResult) -> std::fmt::Result {
    let heading = "How datagrams are best received and sent here";
    page::open(out, "throng flow styles")?;
    write!(
        out,
        "<header><p class=\"kind\"><span>throng flow styles · {}</span>",
        escape(&stamp(result.unix_ms / 1_000))
    )?;
    let count = |is: fn(&Row) -> bool| result.rows.iter().filter(|row| is(row)).count();
    let missing = count(|row| row.rounds.is_empty() && !row.why.is_empty());
    for (count, what) in [(missing, "not measured"), (count(is_partial), "measured in part")] {
        if count > 0 {
            badge(out, Mood::Warn, &format!("{count} of {} rows {what}", result.rows.len()))?;
        }
    }
    write!(out, "</p><h1>{heading}</h1><ul class=\"verdicts\">")?;
    for verdict in verdicts(result) {
        write!(out, "<li><p class=\"verdict\">{}</p></li>", escape(&verdict))?;
    }
    write!(out, "</ul><p class=\"how\">{}</p></header>", escape(&how(result)))?;
    if !result.ended.is_empty() {
        banner(out, Mood::Bad, "Ended early.", &result.ended)?;
    }
    for section in result.sections() {
        if let Some(first) = section.first() {
            write_section(out, first, section, result.settings.rounds)?;
        }
    }
    write!(out, "<section><p class=\"how\">{}</p></section>", escape(LEGEND))?;
    page::origin(out, &result.environment)?;
    page::close_with(out, result)
}

/// A title, what is drawn of each look, and how it is told.
type OverTime = (&'static str, fn(&Sample) -> f64, fn(f64) -> String);

fn write_section(out: &mut String, first: &Row, section: &[Row], rounds: u32) -> std::fmt::Result {
    let rows: Vec<_> = lines(section, rounds)
        .into_iter()
        .map(|mut cells| {
            cells.resize(HEADS.len(), String::new());
            cells
        })
        .collect();
    page::table(out, (&title(first), 1), &HEADS, &rows)?;
    if section.iter().all(|row| row.rounds.is_empty()) {
        return Ok(());
    }
    out.push_str("<section class=\"charts\">");
    figure(out, "Datagrams per CPU-second", "median and range of the rounds", &bars(section))?;
    let charts: [OverTime; 4] = [
        ("Received a second", |it| it.received_per_s, group_f64),
        ("Waiting in the kernel", |it| float(it.waiting_bytes), bytes_f64),
        ("Processor of the receiver", |it| it.user + it.system, percent),
        ("Memory of the process", |it| float(it.resident_bytes), bytes_f64),
    ];
    for (name, value, write) in charts {
        figure(out, name, "over time, a line for each round", &over_time(section, value, write))?;
    }
    out.push_str("</section>");
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn bars(section: &[Row]) -> String {
    let bar = |(colour, row): (usize, &Row)| {
        let spread = row.per_cpu_s()?;
        Some(Bar {
            label: row.style.clone(),
            text: spread.cell(group_f64).line(),
            dress: Dress { colour, dash: 0 },
            value: spread.median,
            lowest: spread.lowest,
            highest: spread.highest,
            is_invalid: false,
        })
    };
    Bars { bars: section.iter().enumerate().filter_map(bar).collect() }.svg()
}

fn over_time(section: &[Row], value: fn(&Sample) -> f64, write: fn(f64) -> String) -> String {
    let mut lines = Vec::new();
    let (mut until, mut most) = (0.0_f64, 0.0_f64);
    for (colour, row) in section.iter().enumerate() {
        for (index, round) in row.rounds.iter().enumerate() {
            let points: Vec<_> = round.series.iter().map(|it| (it.at_s, value(it))).collect();
            for (at_s, value) in &points {
                (until, most) = (until.max(*at_s), most.max(*value));
            }
            let name = if index == 0 { row.style.clone() } else { String::new() };
            let dash = colour / crate::measure::chart::COLOURS;
            lines.push(Line { name, dress: Dress { colour, dash }, points, filled: false });
        }
    }
    let second = |at_s: f64| format!("{at_s:.1} s");
    Chart {
        x: Axis::seconds(0.0, until),
        y: Axis::linear(most, write),
        x_name: "seconds",
        lines,
        shades: Vec::new(),
        tell: (&second, &write),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::made_up;
    use super::report;

    #[test]
    fn the_page_holds_tables_charts_and_the_result_itself() {
        let page = report(&made_up());
        assert_eq!(page.matches("<table class=\"t1\">").count(), 2);
        assert_eq!(page.matches("<figure>").count(), 5);
        assert!(page.contains("loopback has no &lt;queues&gt;") && !page.contains("<queues>"));
        let json = page.split_once("id=\"result\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: super::StylesResult = serde_json::from_str(json).unwrap();
        assert_eq!(read.rows.len(), 4);
        assert_eq!(read.rows[1].rounds[2].received, 2_000_000);
    }
}
