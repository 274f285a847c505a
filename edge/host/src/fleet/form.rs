//! What the TOML reader says of a file that has not the form of a fleet, said so that whoever wrote the
//! file finds the place and knows what to write.
//!
//! In: the file and the reader's error. Out: one text.

use wire::nearest::did_you_mean;

/// The error with its line, as the file has it.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let what = if let Some(rest) = message.strip_prefix("unknown field ") {
        unknown("key", rest)
    } else if let Some(rest) = message.strip_prefix("unknown variant ") {
        unknown("word", rest)
    } else if let Some(key) = message.strip_prefix("missing field ") {
        let key = key.split('`').nth(1).unwrap_or(key);
        format!("lacks `{key}`{}", example(key))
    } else {
        message.to_owned()
    };
    let Some(span) = error.span() else { return what };
    let what = what + &cure(text, span.clone()).unwrap_or_default();
    let number = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number}: `{line}`: {what}")
}

/// What to write where something of another kind stands: the key before it says it.
fn cure(text: &str, span: std::ops::Range<usize>) -> Option<String> {
    let value = text.get(span.clone())?.trim();
    let before = text.get(..span.start)?.lines().last().unwrap_or_default().trim_end();
    let key = before.strip_suffix('=').unwrap_or_default().trim_end();
    let key = key.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    let inner = value.trim_matches(['"', '\'']);
    let is_text = inner.len() < value.len();
    if value.starts_with("[server]") {
        return Some(": every server is a table of a list: write [[server]]".to_owned());
    }
    match key {
        "command" if is_text => {
            let words: Vec<String> =
                inner.split_whitespace().map(|it| format!("\"{it}\"")).collect();
            Some(format!(": write command = [{}]: no shell takes it apart", words.join(", ")))
        }
        "stop_grace" | "timeout" | "initial_delay" | "period" if value.parse::<u64>().is_ok() => {
            Some(format!(": write {key} = \"{value}s\""))
        }
        "api" => {
            let port = inner.rsplit(':').next().filter(|it| it.parse::<u16>().is_ok());
            Some(format!(": write api = \"127.0.0.1:{}\"", port.unwrap_or("9400")))
        }
        "port" | "count" if is_text && inner.parse::<u16>().is_ok() => {
            Some(format!(": write {key} = {inner}, without quotes"))
        }
        _ => None,
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "name" => ": write name = \"arena\"",
        "command" => ": write command = [\"program\", \"argument\"]",
        _ => "",
    }
}

/// "`wieght`, expected one of `name`, `weight`", in our words.
fn unknown(what: &str, rest: &str) -> String {
    let mut names = rest.split('`').skip(1).step_by(2);
    let name = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    let meant = did_you_mean(name, known.iter().copied());
    format!("there is no {what} `{name}` here, but {}{meant}", known.join(", "))
}
