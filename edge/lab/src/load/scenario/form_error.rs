//! What the TOML reader says of a file that has not the form of a scenario, said so that whoever
//! wrote the file finds the place and knows what to write.
//!
//! In: the file and the reader's error. Out: one text. The reader knows neither what was meant by
//! a misspelt key nor, of a key that lacks, which table it lacks in.

use std::ops::Range;

use wire::nearest::did_you_mean;

/// Keys that are offered for an unknown one, at most.
const NAMES_MAX: usize = 64;

/// The error with its line, as the file has it.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let start = error.span().map_or(0, |span| span.start);
    if let Some(key) = message.strip_prefix("missing field ").and_then(quoted) {
        return missing(text, error.span().unwrap_or(0..0), key);
    }
    let what = if let Some(rest) = message.strip_prefix("unknown field ") {
        unknown("key", rest)
    } else if let Some(rest) = message.strip_prefix("unknown variant ") {
        unknown("word", rest)
    } else {
        message.to_owned()
    };
    let what = number_key(line(text, start)).unwrap_or(what);
    match error.span() {
        Some(_) => format!("line {}: `{}`: {what}", line_number(text, start), line(text, start)),
        None => what,
    }
}

fn missing(text: &str, span: Range<usize>, key: &str) -> String {
    let start = span.start;
    let head = line(text, start);
    // The root begins where the file does, whatever stands there; of a table the head is shown.
    let is_root = start == 0 && span.len() != head.len();
    let of = match key {
        "title" => ": one line for the head of a report",
        "session" => ": what players do, a table that begins with [[session]]",
        _ => "",
    };
    if is_root || ["title", "session"].contains(&key) {
        return format!("the file lacks `{key}`{of}");
    }
    let number = line_number(text, start);
    let name = name_after(text, start).map_or_else(String::new, |name| format!(" of `{name}`"));
    format!("line {number}: `{head}`{name} lacks `{key}`")
}

/// What a table is called, by its own `name` or `op`.
fn name_after(text: &str, start: usize) -> Option<&str> {
    let lines = text.get(start..)?.lines().skip(1).map(str::trim);
    let mut lines = lines.take_while(|line| !line.starts_with('['));
    lines.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        ["name", "op"].contains(&key.trim()).then(|| value.trim().trim_matches(['"', '\'']))
    })
}

/// "`wieght`, expected one of `name`, `weight`", in our words.
fn unknown(what: &str, rest: &str) -> String {
    let mut names = rest.split('`').skip(1).step_by(2).take(NAMES_MAX);
    let name = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    let meant = did_you_mean(name, known.iter().copied());
    format!("there is no {what} `{name}` here, but {}{meant}", known.join(", "))
}

/// That a key which is a number has something else, if a line is of one.
fn number_key(line: &str) -> Option<String> {
    const KEYS: [&str; 12] = [
        "players",
        "rate",
        "rate_end",
        "pipeline",
        "weight",
        "count",
        "rounds",
        "arrivals",
        "players_max",
        "size",
        "op_code",
        "group",
    ];
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let is_number = value.replace('_', "").parse::<f64>().is_ok();
    let key = key.trim();
    (KEYS.contains(&key) && !is_number).then(|| format!("`{key}` expects a number"))
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.split('`').next()
}

fn line_number(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The line in which a byte stands.
fn line(text: &str, at: usize) -> &str {
    text.lines().nth(line_number(text, at) - 1).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use crate::load::scenario::parse;

    #[test]
    fn mistakes_of_form_say_where_what_and_how() {
        let steps = "name='a'\ntitle='b'\n[[session]]\nname='c'\n[[session.loop]]\n";
        let think = "line 6: `think=";
        for (text, wanted) in [
            (
                "name='a'\n[[session]]\nname='c'\n".to_owned(),
                vec!["the file lacks `title`: one line"],
            ),
            ("title='a'\n[[session]]\nname='c'\n".to_owned(), vec!["the file lacks `name`"]),
            ("[[session]]\nname='c'\n".to_owned(), vec!["the file lacks `"]),
            ("name='a'\ntitle='b'\n".to_owned(), vec!["the file lacks `session`", "[[session]]"]),
            (
                "name='a'\ntitle='b'\n[[session]]\nweight=1.0\n".to_owned(),
                vec!["line 3: `[[session]]` lacks `name`"],
            ),
            (
                format!("{steps}op='x'\nmatch_send={{ size=3, to='all' }}\n"),
                vec!["line 7: `match_send={ size=3, to='all' }` lacks `op_code`"],
            ),
            (
                "name='a'\ntitle='b'\n[[session]]\nname='c'\n[[phase]]\nname='p'\nduration='1s'\n"
                    .to_owned(),
                vec!["line 5: `[[phase]]` of `p` lacks `arrivals`"],
            ),
            (
                "name='a'\nplayers = fifty\n".to_owned(),
                vec!["line 2", "`players` expects a number"],
            ),
            ("name='a'\nplayers='50'\n".to_owned(), vec!["line 2", "`players` expects a number"]),
            (
                format!("{steps}wieght=1\n"),
                vec!["line 6: `wieght=1`: there is no key `wieght` here, but op, get"],
            ),
            (format!("{steps}exepct=1\n"), vec!["did you mean `expect`?"]),
            (format!("{steps}auth='tokn'\n"), vec!["no word `tokn`", "did you mean `token`?"]),
            (format!("{steps}think=3\n"), vec![think, "{ min = \"1s\", max = \"3s\" }"]),
            (format!("{steps}think={{}}\n"), vec![think, "`think` is \"2s\", { mean"]),
            (format!("{steps}think={{min='1s'}}\n"), vec![think, "`think` is \"2s\", { mean"]),
            (format!("{steps}think={{mena='1s'}}\n"), vec!["line 6", "did you mean `mean`?"]),
            (format!("{steps}think='5'\n"), vec![think, "`5` is not a length of time"]),
            (format!("{steps}think='1000h'\n"), vec!["`1000h` is too long: 720 h are the most"]),
            ("name='a\n".to_owned(), vec!["line 1: `name='a`: invalid"]),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            for part in wanted {
                assert!(error.contains(part), "{part}\n{text}\n{error}");
            }
            assert!(!error.contains("enum") && !error.contains("field"), "{error}");
        }
    }
}
