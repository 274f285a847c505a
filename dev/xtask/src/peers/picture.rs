//! Curves as an SVG: steps on a logarithmic axis or an even one, values on one that begins at zero, the range of
//! the rounds as a bar at each point.
//!
//! In: the points. Out: the text of the file. Colours and sizes are for a page on white or black.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::table::{Spread, whole};

/// Of each line: steps, and what was found there.
pub type Points = Vec<(String, Vec<(u32, Spread)>)>;

/// What the axis along the bottom shows.
pub struct Along<'a> {
    /// In words.
    pub name: &'a str,
    /// Whether steps lie as far apart as they are; else each ratio has the same room.
    pub is_even: bool,
}

/// What the upright axis shows.
pub struct Upright<'a> {
    /// In words.
    pub name: &'a str,
    /// Its unit.
    pub unit: &'a str,
    /// How much of a value one of the unit is.
    pub per: f64,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [64.0, 36.0, 110.0, 48.0];
const COLOURS: [&str; 4] = ["#2f7ed8", "#e07b39", "#3a9d5d", "#8a4fbf"];
/// Steps of an even axis whose numbers are written.
const EVEN_LABELS: u32 = 5;
/// Lines across, besides that at zero.
const GRID: u32 = 4;

/// Draws.
pub fn svg(title: &str, along: &Along<'_>, upright: &Upright<'_>, points: &Points) -> String {
    let all = || points.iter().flat_map(|(_, points)| points);
    let first = all().map(|(step, _)| f64::from(*step)).fold(f64::INFINITY, f64::min);
    let last = all().map(|(step, _)| f64::from(*step)).fold(0.0, f64::max);
    let highest =
        nice(all().map(|(_, it)| it.highest).fold(0.0, f64::max) / upright.per) * upright.per;
    let [left, top, right, bottom] = MARGIN;
    let (wide, high) = (WIDTH - left - right, HEIGHT - top - bottom);
    let x = |step: f64| {
        let share = if along.is_even {
            (step - first) / (last - first).max(f64::EPSILON)
        } else {
            (step / first).ln() / (last / first).ln().max(f64::EPSILON)
        };
        left + wide * share
    };
    let y = |ns: f64| top + high * (1.0 - ns / highest);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n\
         <text x='{left}' y='20' font-size='14'>{title}</text>\n"
    );
    // Writing to a String cannot fail.
    for line in 0..=GRID {
        let ns = highest * f64::from(line) / f64::from(GRID);
        let _ = writeln!(
            svg,
            "<line x1='{left}' x2='{}' y1='{1:.1}' y2='{1:.1}' stroke='#ddd'/>\
             <text x='{2}' y='{3:.1}' text-anchor='end' fill='#555'>{4} {5}</text>",
            left + wide,
            y(ns),
            left - 6.0,
            y(ns) + 4.0,
            short(ns / upright.per),
            upright.unit,
        );
    }
    let steps: BTreeSet<u32> = all().map(|(step, _)| *step).collect();
    // On an even axis there is no room for the number of every step.
    let is_told = |step: &u32| !along.is_even || step.is_multiple_of(EVEN_LABELS);
    for step in steps.into_iter().filter(is_told).map(f64::from) {
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle' fill='#555'>{}</text>",
            x(step),
            top + high + 18.0,
            whole(step)
        );
    }
    let _ = writeln!(
        svg,
        "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>\
         <text x='14' y='{:.1}' transform='rotate(-90 14 {3:.1})' text-anchor='middle'>{4}</text>",
        left + wide / 2.0,
        HEIGHT - 8.0,
        along.name,
        top + high / 2.0,
        upright.name,
    );
    for ((_, points), colour) in points.iter().zip(COLOURS) {
        curve(&mut svg, points, colour, (&x, &y));
    }
    names(&mut svg, points, (&x, &y));
    svg + "</svg>\n"
}

/// The lines' names at their ends, one below the other where two lines end at the same height.
fn names(
    svg: &mut String,
    points: &[(String, Vec<(u32, Spread)>)],
    (x, y): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64),
) {
    const APART: f64 = 15.0;
    let end = |((line, points), colour)| {
        let (at, it): &(u32, Spread) = <[_]>::last(points)?;
        Some((y(it.median()) + 4.0, x(f64::from(*at)) + 8.0, line, colour))
    };
    let lines = points.iter().map(|(line, points)| (line, points.as_slice()));
    let mut ends: Vec<_> = lines.zip(COLOURS).filter_map(end).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut above = f64::MIN;
    for (height, right, line, colour) in ends {
        let height = height.max(above + APART);
        let _ = writeln!(svg, "<text x='{right:.1}' y='{height:.1}' fill='{colour}'>{line}</text>");
        above = height;
    }
}

/// One line with its points.
fn curve(
    svg: &mut String,
    points: &[(u32, Spread)],
    colour: &str,
    (x, y): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64),
) {
    let path: Vec<_> = points
        .iter()
        .map(|(at, it)| format!("{:.1},{:.1}", x(f64::from(*at)), y(it.median())))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'/>",
        path.join(" ")
    );
    for (at, it) in points {
        let _ = writeln!(
            svg,
            "<line x1='{0:.1}' x2='{0:.1}' y1='{1:.1}' y2='{2:.1}' stroke='{colour}'/>\
             <circle cx='{0:.1}' cy='{3:.1}' r='3' fill='{colour}'/>",
            x(f64::from(*at)),
            y(it.lowest),
            y(it.highest),
            y(it.median()),
        );
    }
}

/// The next number of one or two digits that four lines divide well.
fn nice(value: f64) -> f64 {
    let unit = 10_f64.powf(value.max(1e-9).log10().floor());
    let fits = |part: &&f64| **part * unit >= value;
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0]
        .iter()
        .find(fits)
        .map_or(value, |it| it * unit)
}

fn short(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::super::table::Spread;
    use super::{Along, Upright, nice, svg};

    const CONNECTIONS: Along<'_> = Along { name: "connections", is_even: false };

    const MICROSECONDS: Upright<'_> = Upright { name: "CPU", unit: "µs", per: 1e3 };

    #[test]
    fn a_curve_has_its_points_and_names() {
        let spread = |ns: f64| Spread::of(vec![ns - 100.0, ns, ns + 100.0]).unwrap();
        let points =
            vec![("uring".to_owned(), vec![(100, spread(900.0)), (10_000, spread(1500.0))])];
        let text = svg("echo", &CONNECTIONS, &MICROSECONDS, &points);
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(
            text.contains(">10,000<") && text.contains(">1.6 µs<") && text.contains(">uring<"),
            "{text}"
        );
    }

    #[test]
    fn names_of_lines_that_end_together_do_not_cover_each_other() {
        let end = |name: &str, ns: f64| {
            let spread = Spread::of(vec![ns]).unwrap();
            (name.to_owned(), vec![(100, spread)])
        };
        let text =
            svg("echo", &CONNECTIONS, &MICROSECONDS, &vec![end("low", 900.0), end("high", 901.0)]);
        let height = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.contains(&format!(">{name}<"))).unwrap();
            line.split("y='").nth(1).unwrap().split('\'').next().unwrap().parse().unwrap()
        };
        assert!(height("low") - height("high") >= 15.0, "{text}");
    }

    #[test]
    fn steps_of_an_even_axis_are_as_far_apart_as_they_are() {
        let spread = || Spread::of(vec![1_000.0]).unwrap();
        let points = vec![("one".to_owned(), [5, 6, 10].map(|at| (at, spread())).to_vec())];
        let even = Along { name: "seconds", is_even: true };
        let text = svg("load", &even, &MICROSECONDS, &points);
        let x = |part: &str| part.split('\'').next().unwrap().parse::<f64>().unwrap();
        let xs: Vec<f64> = text.split("cx='").skip(1).map(x).collect();
        assert!((xs[2] - xs[0] - 5.0 * (xs[1] - xs[0])).abs() < 0.5, "{xs:?}");
        assert!(text.contains(">5<") && text.contains(">10<") && !text.contains(">6<"), "{text}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0.4, 7.9, 950.0, 1_100.0, 6_500.0].map(|value| format!("{:.1}", nice(value)));
        assert_eq!(ends, ["0.4", "8.0", "1000.0", "1200.0", "8000.0"]);
    }
}
