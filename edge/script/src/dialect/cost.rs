//! What hostile texts cost: steps are counted, never time.

use std::fmt::Write as _;

use super::{Trouble, Work, translate};
use crate::budget::{self, Allowed};

/// Steps that a byte of a text, and a byte of what it becomes, may take at most.
const STEPS_PER_BYTE: usize = 4;

/// Bytes of each text, about, and the most that it may become.
const BYTES: usize = 64 * 1024;
const TRANSLATED_BYTES: usize = 4 * BYTES;

/// `before`, then `part` until the text is full, then `after`.
fn full(before: &str, part: &str, after: &str) -> String {
    let count = BYTES.saturating_sub(before.len() + after.len()) / part.len();
    format!("{before}{}{after}", part.repeat(count))
}

fn numbered(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

/// Texts that repeat one thing.
fn repetitive() -> Vec<String> {
    let parts = [
        ("return x", ".a", ""),
        ("return x", ".a", "()"),
        ("return x", ".a()", ""),
        ("x", ":a()", ""),
        ("x", "[1]", " = 1"),
        ("x", "[a.b]", ".c()"),
        ("x", "''", ""),
        ("x", "{}", ""),
        ("x", "()", ""),
        ("return a", "..a", ""),
        ("return a", " == a", ""),
        ("return ", "- not ", "a"),
        ("return {", "{},", "}"),
        ("return {", "a={b=1},", "}"),
        ("a", ",a", " = 1"),
        ("a", ",a.b[1]", " = 1"),
        ("local a", ",a", ""),
        ("local a", ",a", " return a"),
        ("for a", ",a", " in b do end"),
        ("function a", ".b", "() end"),
        ("function f(a", ",a", ") return a end"),
        ("return f(a", ",a", ")"),
        ("", "local a ", ""),
        ("", "local function a() end ", ""),
        ("", "[ ", ""),
        ("", "[= ", ""),
        ("[", "=", ""),
        ("--[", "=", ""),
        ("", "--[=\n", ""),
        ("", "--[[]]", ""),
        ("return ", "[[]]..", "a"),
        ("x = [[", "]=", "]]"),
        ("return '", "\\300", "'"),
        ("return ", "5or ", "a"),
        ("", ";", ""),
        ("", "x()\n", ""),
        ("", "x\n(1)", ""),
        ("", "do end ", ""),
        ("if a then ", "elseif a then ", "end"),
        ("do ", "goto a ", " ::a:: end"),
        ("do ", "goto a ", " ::a:: x() end"),
        ("::a:: ", "goto a ", ""),
        ("while x do ", "goto a ", " ::a:: end"),
        ("while x do ", "do break end ", "end"),
        ("do local b ", "goto a ", " ::a:: end"),
        ("do goto a ", "local b ", " ::a:: end"),
        ("do ", "goto a local b ", " ::a:: end"),
        ("do ", "do goto a end local b ", " ::a:: end"),
        ("", "repeat goto a ::a:: until x ", ""),
        ("", "::a:: ", ""),
        ("goto a ", "::a::", ""),
    ];
    parts.iter().map(|(before, part, after)| full(before, part, after)).collect()
}

/// Texts with much of two things.
fn crossed() -> Vec<String> {
    let locals = numbered(1_900, |at| format!("local a{at} "));
    let labels = numbered(190, |at| format!("::a{at}:: "));
    let back = numbered(190, |at| format!("goto a{at} "));
    let loops = "while x do ".repeat(180);
    let ends = "end ".repeat(180);
    let functions = "return function(...) ".repeat(90);
    let nest = |count: usize, inner: &str| {
        let open =
            numbered(count, |at| format!("do {}x() ", labels.replace("::a", &format!("::b{at}_"))));
        format!("{open}{inner}{}", "end ".repeat(count))
    };
    let ways = numbered(30, |at| format!("::a{at}:: x() "));
    let mut texts = vec![
        full(&locals, "a=b ", ""),
        full(&format!("local {}", "a,".repeat(50_000)), "a,", "a return a"),
        full(&functions, "arg=arg ", &"end ".repeat(90)),
        full(&loops, "goto z ", &format!("{ends} ::z:: x()")),
        full(&loops, "do break end ", &ends),
        // One label after many that are jumped back to.
        full("", "goto z ", &format!("{labels} {back} ::z:: x()")),
        // Many jumps under many frames.
        full("", "goto a189 ", &format!("{labels} x()")),
        full(&nest(20, ""), "x() ", ""),
        full("", &format!("do {} end ", "do end ".repeat(30)), ""),
        full("", &format!("do {ways} end "), ""),
        full("", "(((((((((((((((((((((((x))))))))))))))))))))))))() ", ""),
    ];
    let mut names = String::new();
    for at in 0..40_000 {
        let _ = write!(names, "x{at}() ");
    }
    texts.push(names);
    texts
}

/// Texts that become many times as long.
fn growing() -> Vec<String> {
    let labels = numbered(190, |at| format!("::a{at}:: x() "));
    let jumps = numbered(190, |at| format!("goto a{at} "));
    let (loops, ends) = ("while x do ".repeat(150), "end ".repeat(150));
    vec![
        // Each loop asks for each jump that leaves it.
        full("", &format!("do {loops} {jumps} {ends} {labels} end "), ""),
        // Each label's loop is entered on the way to each later one.
        full("", &format!("do {jumps} {labels} {jumps} x() end "), ""),
    ]
}

fn steps(text: &str, ordered: bool) -> (Result<usize, Trouble>, usize) {
    let mut work = Work::new(TRANSLATED_BYTES);
    let bytes = translate(text.as_bytes(), ordered, &mut work).map(|it| it.text.len());
    (bytes, work.steps())
}

#[test]
fn no_text_takes_more_than_so_many_steps_for_a_byte() {
    for text in repetitive().iter().chain(&crossed()) {
        for ordered in [false, true] {
            let (made, steps) = steps(text, ordered);
            let shown = text.get(..60).unwrap_or(text);
            let bytes = text.len() + made.as_ref().copied().unwrap_or_default();
            assert!(steps <= STEPS_PER_BYTE * bytes, "{steps} of {bytes}: {shown}");
        }
    }
}

#[test]
fn no_text_grows_without_bound() {
    for text in growing() {
        let (made, steps) = steps(&text, false);
        assert!(matches!(made, Err(Trouble::TooLong(_))), "{made:?}: {text:.60}");
        assert!(steps <= STEPS_PER_BYTE * (text.len() + TRANSLATED_BYTES), "{steps}");
    }
}

#[test]
fn a_translation_ends_with_the_calls_time() {
    let allowed = Allowed { time_ms: 0, memory_bytes: usize::MAX, is_match: false };
    for text in repetitive().iter().chain(&crossed()) {
        let running = budget::begin(allowed);
        let (made, steps) = steps(text, false);
        assert!(running.end().is_some(), "{made:?} {steps}: {text:.60}");
        assert!(matches!(made, Err(Trouble::Budget(_))), "{made:?}: {text:.60}");
        assert!(steps < 10_000, "{steps}: {text:.60}");
    }
}
