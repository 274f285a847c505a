//! Several runs on one page: what differs between the machines, the verdicts, then a section for each
//! scenario and loop, with charts over one another, the table, and how each run can be done again.
//!
//! What stands together and what may be said of it is [`compare`](crate::load::view::compare)'s.

use std::fmt::Write as _;

use super::overlays;
use crate::load::result::figures;
use crate::load::view::compare::{
    MARKS, Row, Run, Section, common, differences, remarks, rows, sections, verdicts,
};
use crate::measure::number::group_f64;
use crate::measure::page::{self, Mood, badge, banner, stamp};
use crate::measure::text::escape;

/// Names that stand in the title.
const NAMES_MAX: usize = 6;

/// Runs of any scenarios as one page that needs nothing else.
#[must_use]
pub fn comparison(runs: &[Run]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, runs);
    out
}

fn write_page(out: &mut String, runs: &[Run]) -> std::fmt::Result {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&&*run.name) {
            names.push(&run.name);
        }
    }
    let title = match &*names {
        [first, .., last] if names.len() > NAMES_MAX => {
            format!("{first} to {last}: {} columns", names.len())
        }
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.concat(),
    };
    let sections = sections(runs);
    page::open(out, &format!("{title}: throng compare"))?;
    write!(
        out,
        "<header><p class=\"kind\"><span>throng compare · {} runs side by side</span></p>\
         <h1>{}</h1>",
        runs.len(),
        escape(&title),
    )?;
    out.push_str("</header>");
    let found = differences(runs);
    if found.is_empty() {
        banner(out, Mood::Note, "Same environment,", "as far as the results tell.")?;
    } else {
        pairs(out, "What differs between the runs", &found)?;
    }
    out.push_str("<header><ul class=\"verdicts\">");
    for section in &sections {
        out.push_str("<li>");
        verdict(out, section, sections.len() > 1)?;
        out.push_str("</li>");
    }
    out.push_str("</ul>");
    overlays::legend_of_sides(out, &sections);
    out.push_str("</header>");
    for section in &sections {
        write_section(out, section)?;
    }
    pairs(out, "Where it was measured, the same for all", &common(runs))?;
    page::close(out);
    Ok(())
}

/// What a section says, and what it was run like.
fn verdict(out: &mut String, section: &Section<'_>, is_linked: bool) -> std::fmt::Result {
    out.push_str("<p class=\"kind\">");
    if is_linked {
        let (anchor, name) = (escape(&section.anchor()), escape(section.scenario));
        write!(out, "<a href=\"#{anchor}\">{name}</a>")?;
    }
    badges(out, section)?;
    out.push_str("</p>");
    for verdict in verdicts(section) {
        let void = if verdict.is_void { " void" } else { "" };
        write!(
            out,
            "<p class=\"verdict{void}\">{}</p>",
            escape(&verdict.text.replace(" ×", "\u{a0}×"))
        )?;
    }
    write!(out, "<p class=\"how\">{}</p>", escape(&section.how()))
}

fn badges(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    let runs = || section.columns.iter().flat_map(|column| &column.runs);
    match runs().filter(|run| !run.summary.invalid.is_empty()).count() {
        0 => badge(out, Mood::Good, "valid")?,
        count if count == runs().count() => badge(out, Mood::Bad, "INVALID")?,
        count => badge(out, Mood::Bad, &format!("{count} of {} runs INVALID", runs().count()))?,
    }
    if !section.is_flow() {
        badge(out, Mood::Note, if section.is_closed { "closed loop" } else { "open loop" })?;
    }
    let failed = |it: &&&Run| it.summary.expectations.iter().any(|it| !it.holds);
    match runs().filter(failed).count() {
        0 => {}
        count => {
            let text = format!("expectations failed in {count} of {} runs", runs().count());
            badge(out, Mood::Bad, &text)?;
        }
    }
    let errors: f64 = runs().filter_map(|run| figures::errors(&run.summary)).sum();
    if errors > 0.0 {
        badge(out, Mood::Warn, &format!("{} errors", group_f64(errors)))?;
    }
    Ok(())
}

fn write_section(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    write!(
        out,
        "<section class=\"part\" id=\"{}\"><h2>{}</h2>",
        escape(&section.anchor()),
        escape(&format!("{}: {}", section.scenario, section.title)),
    )?;
    let remarks = remarks(section);
    let looks = [
        (Mood::Bad, "INVALID."),
        (Mood::Bad, "Ended early."),
        (Mood::Bad, "FAILED."),
        (Mood::Warn, "Errors."),
    ];
    for (mark, (mood, word)) in MARKS.into_iter().zip(looks) {
        let told: Vec<&str> =
            remarks.iter().filter(|it| it.mark == mark).map(|it| &*it.text).collect();
        if !told.is_empty() {
            banner(out, mood, word, &told.join("\n"))?;
        }
    }
    if section.is_closed && !section.is_flow() {
        let text = "Each operation began when the last was answered: this finds throughput, and \
                    its times say nothing about what users feel.";
        banner(out, Mood::Note, "Closed loop.", text)?;
    }
    overlays::charts(out, section)?;
    write_table(out, section)?;
    write_runs(out, section)?;
    let mut commands = String::new();
    for (name, run) in section.named_runs() {
        writeln!(commands, "# {name}\n{}", run.summary.environment.command_line())?;
    }
    page::commands(out, commands.trim_end())?;
    out.push_str("</section>");
    Ok(())
}

fn write_table(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    let factor = section.factor_name();
    out.push_str("<section><div class=\"scroll\"><table class=\"sides\"><thead><tr><th></th>");
    for column in &section.columns {
        let name = escape(&column.name);
        let chip = overlays::chip(column);
        if column.is_valid() {
            write!(out, "<th>{chip}{name}</th>")?;
        } else {
            write!(out, "<th class=\"void\">{chip}{name}<small>INVALID</small></th>")?;
        }
    }
    if let Some(name) = &factor {
        write!(out, "<th>{}</th>", escape(name))?;
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows(section) {
        write_row(out, section, &row, factor.is_some())?;
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

fn write_row(
    out: &mut String,
    section: &Section<'_>,
    row: &Row,
    has_factor: bool,
) -> std::fmt::Result {
    let name = escape(&row.name);
    if row.cells.is_empty() {
        let width = section.columns.len() + 1 + usize::from(has_factor);
        return write!(out, "<tr class=\"block\"><th colspan=\"{width}\">{name}</th></tr>");
    }
    write!(out, "<tr><td>{name}</td>")?;
    for (cell, column) in row.cells.iter().zip(&section.columns) {
        let void = if column.is_valid() { "" } else { " class=\"void\"" };
        write!(out, "<td{void}>{}", escape(&cell.text))?;
        if !cell.range.is_empty() {
            write!(out, "<small>{}</small>", escape(&cell.range))?;
        }
        out.push_str("</td>");
    }
    if has_factor {
        write!(out, "<td>{}</td>", escape(&row.against()))?;
    }
    out.push_str("</tr>");
    Ok(())
}

/// Every run by itself, with the way to its own report.
fn write_runs(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    out.push_str(
        "<section><h2>The runs</h2><div class=\"scroll\"><table class=\"t1\"><thead><tr>\
         <th>Run</th><th>Begun</th><th>Counted</th><th>Operations per CPU-second</th>\
         <th>Errors</th><th>Expectations that hold</th><th></th><th></th></tr></thead><tbody>",
    );
    for (name, run) in section.named_runs() {
        let it = &run.summary;
        let efficiency = figures::ops_per_cpu_s(it).map_or("–".to_owned(), group_f64);
        let errors = figures::errors(it).map_or_else(String::new, group_f64);
        write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{:.1} s of {:.0}</td><td>{efficiency}</td>\
             <td>{errors}</td><td>{}</td><td>",
            escape(&name),
            escape(&stamp(it.started_unix_s)),
            it.counted_s,
            it.settings.planned_s,
            match it.expectations.iter().filter(|it| it.holds).count() {
                _ if it.expectations.is_empty() => "–".to_owned(),
                held => format!("{held} of {}", it.expectations.len()),
            },
        )?;
        if it.invalid.is_empty() {
            badge(out, Mood::Good, "valid")?;
        } else {
            badge(out, Mood::Bad, "INVALID")?;
        }
        out.push_str("</td><td>");
        if let Some(link) = &run.report {
            write!(out, "<a href=\"{}\">report</a>", escape(link))?;
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

/// Names and values, of which the second may be long.
fn pairs(out: &mut String, title: &str, rows: &[(String, String)]) -> std::fmt::Result {
    page::pairs(out, title, rows.iter().map(|(name, value)| (&**name, value.clone())))
}

#[cfg(test)]
mod tests {
    use super::comparison;
    use crate::load::record::Stage;
    use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, Summary};
    use crate::load::result::{Second, SecondOp};
    use crate::load::view::compare::Run;
    use crate::measure::percentiles::CurvePoint;

    fn run(name: &str, ops_per_cpu_s: f64) -> Run {
        let second = |at: u32| Second {
            at_s: f64::from(at),
            length_s: 1.0,
            stage: Stage::Counted,
            ops: vec![SecondOp { done: 5, ..SecondOp::default() }],
            ..Second::default()
        };
        let point = |quantile| CurvePoint { quantile, service_ns: 5, response_ns: 0 };
        let mut summary = Summary {
            scenario: "rpc<lua".to_owned(),
            headline: "rpc".to_owned(),
            counted_s: 3.0,
            ops: vec![OpSummary {
                name: "rpc".to_owned(),
                counted: true,
                done: 15,
                curve: vec![point(0.0), point(0.5), point(0.99)],
                ..OpSummary::default()
            }],
            server: Some(ServerCost {
                ops_per_cpu_s,
                resident_end_bytes: 1,
                ..ServerCost::default()
            }),
            series: (1..=3).map(second).collect(),
            ..Summary::default()
        };
        summary.settings.saturate = true;
        Run { name: name.to_owned(), summary, report: Some("a/report.html".to_owned()) }
    }

    #[test]
    fn the_page_has_verdict_charts_table_and_links() {
        let mut bad = run("c", 1.0);
        bad.summary.invalid.push("it was late".to_owned());
        let page = comparison(&[run("b", 10.0), bad, run("<a>", 30.0), run("<a>", 20.0)]);
        assert!(!page.contains("NaN") && !page.contains("<a>") && !page.contains("<script"));
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
        let says = "rpc&lt;lua: 25 operations per CPU-second on &lt;a&gt;: 2.5\u{a0}× higher than \
                    on b (10; single run, no interval); 1 on c (no factor";
        assert!(page.contains(says), "{page}");
        assert!(page.contains("1 of 4 runs INVALID") && page.contains("it was late"));
        // Percentiles and throughput over time; three columns' efficiency, throughput and memory.
        assert_eq!(page.matches("<svg viewBox").count(), 2);
        assert_eq!(page.matches("<svg class=\"bars\"").count(), 9);
        // A curve and a line over time for each run.
        assert_eq!(page.matches("class=\"line c").count(), 8);
        assert_eq!(page.matches("<a href=\"a/report.html\"").count(), 4);
        // One column has rounds that differ, in one figure.
        assert_eq!(page.matches("class=\"range\"").count(), 3);
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
    }

    #[test]
    fn runs_without_anything_make_a_page() {
        let page = comparison(&[Run::default(), Run { name: "b".to_owned(), ..Run::default() }]);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        assert_eq!(page.matches("<svg").count(), 0);
    }

    #[test]
    fn a_file_may_hold_any_numbers() {
        let mut run = run("a", 5.0);
        let it = &mut run.summary;
        it.started_unix_s = u64::MAX;
        it.ops.push(OpSummary { name: "z".to_owned(), ..it.ops[0].clone() });
        for op in &mut it.ops {
            op.done = u64::MAX;
        }
        let error = ErrorSummary { count: u64::MAX, ..ErrorSummary::default() };
        it.errors = vec![error.clone(), error];
        let mut second = it.series[0].clone();
        second.heat = vec![(u16::MAX, u64::MAX), (170, u64::MAX), (0, 1)];
        it.series = vec![second; 2_000];
        for (at, second) in it.series.iter_mut().enumerate() {
            second.at_s = [1e300, 1e-320, -5.0][at % 3];
            second.length_s = [1e300, 1e-320, 1.0][at % 3];
            second.ops = vec![SecondOp { done: u64::MAX, ..SecondOp::default() }; at % 4];
        }
        let page = comparison(&[run.clone(), run]);
        assert!(page.contains("2 runs side by side"));
    }

    #[test]
    fn many_columns_are_drawn_up_to_a_limit_and_all_stand_in_the_table() {
        let runs: Vec<Run> = (0..20).map(|at| run(&format!("node {at}"), 5.0)).collect();
        let page = comparison(&runs);
        assert_eq!(page.matches("class=\"line c").count(), 24);
        assert!(page.contains("first 12 columns"));
        assert!(page.contains("</i>node 19</th>"));
        assert!(page.contains("<h1>node 0 to node 19: 20 columns</h1>"));
        assert!(page.contains("15 more in the table"));
    }
}
