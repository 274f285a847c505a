//! Pictures are well formed, whatever the numbers and names.

use super::{Axis, Bar, Bars, Chart, Columns, Dress, HeatMap, Line, Shade, Stack};

#[test]
fn bars_are_shares_of_the_longest() {
    let bar = |value, highest| Bar {
        label: "a<b".to_owned(),
        text: "5".to_owned(),
        dress: Dress { colour: 1, dash: 0 },
        value,
        lowest: value,
        highest,
        is_invalid: false,
    };
    let svg = Bars { bars: vec![bar(25.0, 25.0), bar(40.0, 50.0)] }.svg();
    assert!(svg.contains("width=\"50.00%\"") && svg.contains("width=\"80.00%\""), "{svg}");
    assert_eq!(svg.matches("class=\"range\"").count(), 3, "{svg}");
    assert!(!svg.contains("a<b") && svg.contains("x2=\"100.00%\""), "{svg}");
    assert!(!Bars { bars: vec![bar(0.0, 0.0)] }.svg().contains("NaN"));
}

#[test]
fn charts_are_well_formed_and_escape_names() {
    let tell = |value: f64| format!("{value}<");
    let told: (&super::Tell<'_>, &super::Tell<'_>) = (&tell, &tell);
    let shades = || vec![Shade { from: 0.0, until: 2.0, name: "a<b" }];
    let dress = Dress { colour: 9, dash: 9 };
    let line = |points| Line { name: "a<b".to_owned(), dress, points, filled: true };
    let chart = Chart {
        x: Axis::seconds(0.0, 10.0).with_clock(0),
        y: Axis::powers(3.0, 6.5, |value| format!("{value}")),
        x_name: "seconds",
        lines: vec![
            line(vec![(0.0, 3.0), (5.0, f64::NAN), (10.0, 7.0)]),
            line(vec![]),
            line(vec![(1.0, 4.0)]),
        ],
        shades: shades(),
        tell: told,
    };
    let map = HeatMap {
        x: Axis::seconds(0.0, 0.0),
        y: Axis::powers(0.0, 1.0, |value| format!("{value}")),
        x_name: "seconds",
        cells: vec![[0.0, 1.0, 0.0, 0.1, 5.0]],
        unit: " µs",
        shades: shades(),
        tell: told,
    };
    let stack = |values| Stack { from: 1.0, until: 2.0, values };
    let columns = Columns {
        x: Axis::seconds(0.0, 4.0),
        y: Axis::linear(3.0, |value| format!("{value}")),
        x_name: "seconds",
        kinds: vec![("a<b".to_owned(), 0), ("c".to_owned(), 1)],
        stacks: vec![stack(vec![1.0, 2.0]), stack(vec![0.0, 0.0])],
        shades: shades(),
        tell: told,
    };
    for svg in [chart.svg(), map.svg(), columns.svg()] {
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a<b"), "{svg}");
        for name in ["svg", "div", "p", "span", "text"] {
            let opened = svg.matches(&format!("<{name} ")).count()
                + svg.matches(&format!("<{name}>")).count();
            assert_eq!(opened, svg.matches(&format!("</{name}>")).count(), "{name}: {svg}");
        }
        assert!(svg.contains("not counted"), "{svg}");
    }
    assert!(chart.svg().contains("00:00:10"), "{}", chart.svg());
    assert_eq!(columns.svg().matches("class=\"column\"").count(), 2, "empty ones are not drawn");
}

#[test]
fn what_stands_at_the_pointer_is_what_was_drawn_there() {
    let tell = |value: f64| format!("{value}");
    let line = |name: &str, colour, points| Line {
        name: name.to_owned(),
        dress: Dress { colour, dash: 0 },
        points,
        filled: false,
    };
    let chart = Chart {
        x: Axis::seconds(0.0, 10.0),
        y: Axis::linear(100.0, |value| format!("{value}")),
        x_name: "",
        lines: vec![
            line("a", 0, (0..=10).map(|at| (f64::from(at), f64::from(at * 10))).collect()),
            // A second round, of which one point lies in the strip around 3.
            line("", 0, vec![(3.2, 31.0)]),
            line("b", 1, vec![(3.0, 7.0), (4.0, f64::NAN)]),
        ],
        shades: Vec::new(),
        tell: (&tell, &tell),
    };
    let svg = chart.svg();
    let note = "<b>3</b><span class=\"k0\">a<em>30 · 31</em></span>\
                <span class=\"k1\">b<em>7</em></span>";
    assert!(svg.contains(note), "{svg}");
    assert!(svg.contains("<b>4</b><span class=\"k0\">a<em>40</em></span></p>"), "{svg}");
    let strips = svg.matches("<b>").count();
    assert_eq!(strips, 11, "{svg}");
}

#[test]
fn long_lines_have_as_many_strips_as_can_be_pointed_at() {
    let tell = |value: f64| format!("{value}");
    let points = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
    let line = Line { name: String::new(), dress: Dress::default(), points, filled: false };
    let chart = Chart {
        x: Axis::seconds(0.0, 100_000.0),
        y: Axis::linear(1.0, |value| format!("{value}")),
        x_name: "",
        lines: vec![line],
        shades: Vec::new(),
        tell: (&tell, &tell),
    };
    assert_eq!(chart.svg().matches("<b>").count(), 150);
}
