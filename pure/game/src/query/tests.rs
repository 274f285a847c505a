//! Queries put to a handful of documents, by data; then nonsense, which must not panic.

use event::Random;
use expect_test::{Expect, expect};

use super::{Fields, Query, QueryError};

/// Labels and their names.
const DOCUMENTS: [(&str, &str); 5] = [
    ("a", r#"{"mode":"ctf","n":5,"open":true,"at":"2026-01-01T00:00:00Z","tags":["x","y"]}"#),
    ("b", r#"{"mode":"ctf2","n":-2.5,"open":false,"at":"2026-06-01","tags":["y"]}"#),
    ("c", r#"{"mode":"free for all","n":"5","deep":{"map":{"name":"Dust"}}}"#),
    ("d", r#"{"mode":"a:b*c","n":[1,20],"id":"4ec4f126-3f9d-11e7-84ef-b7c182b36521","u":"żółw"}"#),
    ("e", r#"{"when":"12:30","v":"1.5.2","w":"a\\b","open":"true"}"#),
];

fn fields(json: &str) -> Fields {
    let mut fields = Fields::default();
    fields.add_json("label", &serde_json::from_str(json).unwrap());
    fields.seal();
    fields
}

/// Who is found with which score, or the error.
fn find(text: &str) -> String {
    let query = match Query::parse(text) {
        Ok(query) => query,
        Err(error) => return error.to_string(),
    };
    let found = DOCUMENTS.iter().filter_map(|(name, json)| {
        query.score(&fields(json)).map(|score| format!("{name}={score}"))
    });
    found.collect::<Vec<_>>().join(" ")
}

fn check(queries: &[&str], expected: Expect) {
    let lines: Vec<_> = queries.iter().map(|text| format!("{text} => {}\n", find(text))).collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn signs_and_scores() {
    check(
        &[
            "",
            "  ",
            "*",
            " * ",
            "+*",
            "-*",
            "* label.mode:ctf",
            "label.mode:ctf",
            "label.mode:ctf label.n:5",
            "+label.mode:ctf label.n:5 label.open:F",
            "+label.n:5 +label.open:T",
            "+label.n:5 -label.open:T",
            "-label.open:T",
            "-label.open:T -label.open:F",
            "label.n:5 -label.open:T",
            "label.mode:ctf^3 label.n:5^0.5",
            "label.mode:ctf^",
            "label.mode:ctf^-1",
            "+label.n:>0^2 label.tags:y^10",
            "ctf",
            "-ctf",
        ],
        expect![[r"
             => a=1 b=1 c=1 d=1 e=1
               => a=1 b=1 c=1 d=1 e=1
            * => a=1 b=1 c=1 d=1 e=1
             *  => a=1 b=1 c=1 d=1 e=1
            +* => a=1 b=1 c=1 d=1 e=1
            -* => 
            * label.mode:ctf => a=2 b=1 c=1 d=1 e=1
            label.mode:ctf => a=1
            label.mode:ctf label.n:5 => a=2 c=1
            +label.mode:ctf label.n:5 label.open:F => a=2
            +label.n:5 +label.open:T => a=2
            +label.n:5 -label.open:T => c=1
            -label.open:T => b=1 c=1 d=1 e=1
            -label.open:T -label.open:F => c=1 d=1 e=1
            label.n:5 -label.open:T => c=1
            label.mode:ctf^3 label.n:5^0.5 => a=3.5 c=0.5
            label.mode:ctf^ => a=1
            label.mode:ctf^-1 => a=-1
            +label.n:>0^2 label.tags:y^10 => a=12 d=2
            ctf => 
            -ctf => a=1 b=1 c=1 d=1 e=1
        "]],
    );
}

#[test]
fn words_phrases_and_escapes() {
    check(
        &[
            "label.mode:CTF",
            "label.open:true",
            "label.open:T",
            "label.tags:y",
            "label.deep.map.name:Dust",
            "label.deep.map:Dust",
            r#"label.mode:"free for all""#,
            r#"label.mode:"free"^2"#,
            r"label.mode:free\ for\ all",
            r"label.mode:a\:b\*c",
            r#"label.mode:"a:b*c""#,
            "label.when:12:30",
            "label.v:1.5.2",
            "label.id:4ec4f126-3f9d-11e7-84ef-b7c182b36521",
            r"label.w:a\\b",
            r"label.w:a\b",
            r"label.mo\de:ctf",
            "label.u:żółw",
            "label.mode: ctf",
            "label.mode :ctf",
            "+ label.mode:ctf",
            r#"label.x:"say \"hi\"""#,
        ],
        expect![[r#"
            label.mode:CTF => 
            label.open:true => e=1
            label.open:T => a=1
            label.tags:y => a=1 b=1
            label.deep.map.name:Dust => c=1
            label.deep.map:Dust => 
            label.mode:"free for all" => c=1
            label.mode:"free"^2 => 
            label.mode:free\ for\ all => c=1
            label.mode:a\:b\*c => d=1
            label.mode:"a:b*c" => d=1
            label.when:12:30 => e=1
            label.v:1.5.2 => e=1
            label.id:4ec4f126-3f9d-11e7-84ef-b7c182b36521 => d=1
            label.w:a\\b => e=1
            label.w:a\b => e=1
            label.mo\de:ctf => 
            label.u:żółw => d=1
            label.mode: ctf => a=1
            label.mode :ctf => a=1
            + label.mode:ctf => a=1
            label.x:"say \"hi\"" => 
        "#]],
    );
}

#[test]
fn numbers_and_dates() {
    check(
        &[
            "label.n:5",
            "label.n:5.0",
            "label.n:-2.5",
            "label.n:20",
            "label.n:>5",
            "label.n:>=5",
            "label.n:<5",
            "label.n:<=-2.5",
            "label.n:>=-3",
            "+label.n:>1 +label.n:<=5",
            "label.n:> =5",
            r#"label.at:>"2026-01-01T00:00:00Z""#,
            r#"label.at:>="2026-01-01T01:00:00+01:00""#,
            r#"label.at:<"2026-02-01""#,
            r#"label.at:<="2026-06-01 00:00:00""#,
            "label.at:>5",
            "label.at:2026-06-01",
        ],
        expect![[r#"
            label.n:5 => a=1 c=1
            label.n:5.0 => a=1
            label.n:-2.5 => b=1
            label.n:20 => d=1
            label.n:>5 => d=1
            label.n:>=5 => a=1 d=1
            label.n:<5 => b=1 d=1
            label.n:<=-2.5 => b=1
            label.n:>=-3 => a=1 b=1 d=1
            +label.n:>1 +label.n:<=5 => a=2 d=2
            label.n:> =5 => a=1 d=1
            label.at:>"2026-01-01T00:00:00Z" => b=1
            label.at:>="2026-01-01T01:00:00+01:00" => a=1 b=1
            label.at:<"2026-02-01" => a=1
            label.at:<="2026-06-01 00:00:00" => a=1 b=1
            label.at:>5 => 
            label.at:2026-06-01 => 
        "#]],
    );
}

#[test]
fn patterns() {
    check(
        &[
            "label.mode:ct*",
            "label.mode:ct?",
            "label.mode:*c",
            r"label.mode:*\*c",
            "label.mode:f*e*f*r*l",
            "label.mode:?*",
            "label.tags:*",
            "label.n:*",
            "label.u:?ółw",
            "label.mode:cft~",
            "label.mode:cft~2",
            "label.mode:ctf~",
            "label.mode:ctf~0",
            "label.mode:ctfff~2",
            "label.mode:c~2^4",
            "label.mode:/ct.*/",
            "label.mode:/ct/",
            "label.mode:/c.f|nothing/",
            r"label.mode:/c\w+\d/^2",
            r"label.mode:/a\:b.*/",
            "label.mode:/",
            "label.n:/5/",
        ],
        expect![[r"
            label.mode:ct* => a=1 b=1
            label.mode:ct? => a=1
            label.mode:*c => d=1
            label.mode:*\*c => d=1
            label.mode:f*e*f*r*l => c=1
            label.mode:?* => a=1 b=1 c=1 d=1
            label.tags:* => a=1 b=1
            label.n:* => a=1 b=1 c=1 d=1
            label.u:?ółw => d=1
            label.mode:cft~ => 
            label.mode:cft~2 => a=1 b=1
            label.mode:ctf~ => a=1 b=1
            label.mode:ctf~0 => a=1
            label.mode:ctfff~2 => a=1 b=1
            label.mode:c~2^4 => a=4
            label.mode:/ct.*/ => a=1 b=1
            label.mode:/ct/ => 
            label.mode:/c.f|nothing/ => a=1
            label.mode:/c\w+\d/^2 => b=2
            label.mode:/a\:b.*/ => d=1
            label.mode:/ => 
            label.n:/5/ => c=1
        "]],
    );
}

#[test]
fn errors() {
    check(
        &[
            "+",
            "-",
            "+ +a:b",
            "a:",
            "a:+5",
            "a:-b",
            ":b",
            "a:b:c",
            ">5",
            "a:>b",
            "a:>=",
            "a:>-",
            "a:=5",
            "^2",
            "a:b^2^3",
            "a:b^x",
            "a:b^inf",
            "a:b~3",
            "a:b~-1",
            "a:b~x",
            r#"a:"b"~1"#,
            r#"a:"b"#,
            r#"a:>"yesterday""#,
            "a:/(/",
            "a:/a)|(b/",
        ],
        expect![[r#"
            + => syntax error at byte 1: a field or a value expected
            - => syntax error at byte 1: a field or a value expected
            + +a:b => syntax error at byte 2: a field or a value expected
            a: => syntax error at byte 2: a value expected
            a:+5 => syntax error at byte 2: a value expected
            a:-b => syntax error at byte 3: a number or a date in quotes expected
            :b => syntax error at byte 0: a field or a value expected
            a:b:c => syntax error at byte 3: a field or a value expected
            >5 => syntax error at byte 0: a field or a value expected
            a:>b => syntax error at byte 3: a number or a date in quotes expected
            a:>= => syntax error at byte 4: a number or a date in quotes expected
            a:>- => syntax error at byte 4: a number or a date in quotes expected
            a:=5 => syntax error at byte 2: a value expected
            ^2 => syntax error at byte 0: a field or a value expected
            a:b^2^3 => parse error: invalid boost value: "2^3"
            a:b^x => parse error: invalid boost value: "x"
            a:b^inf => parse error: invalid boost value: "inf"
            a:b~3 => parse error: invalid fuzziness value: "3", must be 0-2
            a:b~-1 => parse error: invalid fuzziness value: "-1", must be 0-2
            a:b~x => parse error: invalid fuzziness value: "x", must be 0-2
            a:"b"~1 => syntax error at byte 5: a field or a value expected
            a:"b => parse error: unterminated quote at byte 2
            a:>"yesterday" => parse error: invalid time: "yesterday"
            a:/(/ => parse error: invalid regular expression "(": found open group without closing ')'
            a:/a)|(b/ => parse error: invalid regular expression "a)|(b": found closing ')' without matching '('
        "#]],
    );
}

#[test]
fn limits() {
    let long = "x".repeat(Query::BYTES_MAX);
    assert!(Query::parse(&long).is_ok());
    assert!(matches!(Query::parse(&format!("{long}x")), Err(QueryError::TooLong { .. })));

    let many = "a:b ".repeat(Query::TERMS_MAX);
    assert!(Query::parse(&many).is_ok());
    assert_eq!(Query::parse(&format!("{many}c")).unwrap_err(), QueryError::TooManyTerms);

    let many = "a:/b/ ".repeat(Query::REGEXES_MAX);
    assert!(Query::parse(&many).is_ok());
    assert_eq!(Query::parse(&format!("{many}a:/c/")).unwrap_err(), QueryError::TooManyRegexes);

    for regex in ["a{9999}", "((a{99}){99}){99}", &"(".repeat(99)] {
        let error = Query::parse(&format!("a:/{regex}/")).unwrap_err();
        assert!(matches!(error, QueryError::Regex { .. }), "{regex}");
    }
    let digits = "9".repeat(400);
    let error = Query::parse(&digits).unwrap_err();
    assert_eq!(error, QueryError::Number { text: digits[..64].to_owned() });
}

/// Whatever is wrong with a long text, the error has 64 characters of it at most.
#[test]
fn errors_quote_excerpts() {
    let long = "é".repeat(2_000);
    let nines = "9".repeat(2_000);
    for query in [
        format!("a:/({long}/"),
        format!("a:>\"{long}\""),
        format!("a:>{nines}"),
        format!("a:b^{nines}"),
        format!("a:b~{nines}"),
    ] {
        let error = Query::parse(&query).unwrap_err().to_string();
        assert!(error.starts_with("parse error") && error.chars().count() < 160, "{error}");
    }
}

/// Pieces that mean something, so that nonsense gets deep.
const PIECES: [&str; 32] = [
    "label.mode",
    "label.n",
    "a",
    ":",
    ":",
    ":",
    " ",
    " ",
    " ",
    "+",
    "-",
    ">",
    "<",
    "=",
    "\"",
    "^2",
    "^",
    "~",
    "~2",
    "*",
    "?",
    "/",
    "\\",
    "5",
    ".",
    "2026-01-01",
    "(",
    "|",
    "ż",
    "\u{0}",
    "\n",
    "ctf",
];

#[test]
fn nonsense_is_refused_or_evaluated() {
    let documents: Vec<_> = DOCUMENTS.iter().map(|(_, json)| fields(json)).collect();
    let mut random = Random::from_number(4);
    let (mut parsed_count, mut refused_count, mut found_count) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..random.below(14) {
            text.push_str(PIECES[random.below(32) as usize]);
        }
        let Ok(query) = Query::parse(&text) else {
            refused_count += 1;
            continue;
        };
        parsed_count += 1;
        for document in &documents {
            found_count += usize::from(query.score(document).is_some_and(f64::is_finite));
        }
    }
    assert!(parsed_count > 3_000 && refused_count > 3_000 && found_count > 3_000);
}

#[test]
fn every_prefix_is_refused_or_parsed() {
    let text =
        r#"+label.mode:"a \"b\" ż"^2.5 -l\:x:>=-5 y:<"2026-01-01T00:00:00Z" z:/a\/.+/ w:q*?~2"#;
    let oks = text.char_indices().filter(|(end, _)| Query::parse(&text[..*end]).is_ok()).count();
    assert!(oks > 10, "{oks}");
}

/// Letters that must change to make `a` into `b`, by the textbook's table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Fuzzy words and wildcards agree with slow, obvious ways to say the same.
#[test]
fn patterns_agree_with_oracles() {
    let mut random = Random::from_number(5);
    let mut letters = |alphabet: &[char], len_max: u32| -> String {
        let len = random.below(len_max + 1);
        let pick = |_| alphabet[random.below(u32::try_from(alphabet.len()).unwrap()) as usize];
        (0..len).map(pick).collect()
    };
    let mut found_count = 0;
    for _ in 0..20_000 {
        let text = letters(&['a', 'b', 'ż'], 6);
        let mut document = Fields::default();
        document.add_string("f", &text);
        document.seal();
        let mut finds = |query: &str| {
            let found = Query::parse(query).unwrap().score(&document).is_some();
            found_count += usize::from(found);
            found
        };

        let word = format!("a{}", letters(&['a', 'b', 'ż'], 5));
        let (a, b): (Vec<_>, Vec<_>) = (word.chars().collect(), text.chars().collect());
        assert_eq!(finds(&format!("f:{word}~1")), distance(&a, &b) <= 1, "{word} {text}");
        assert_eq!(finds(&format!("f:{word}~2")), distance(&a, &b) <= 2, "{word} {text}");

        let wild = format!("a{}", letters(&['a', 'b', '*', '?', 'ż'], 6));
        let regex = format!("^{}$", wild.replace('*', ".*").replace('?', "."));
        let regex = regex_lite::Regex::new(&regex).unwrap();
        assert_eq!(finds(&format!("f:{wild}")), regex.is_match(&text), "{wild} {text}");
    }
    assert!(found_count > 1_000, "{found_count}");
}
