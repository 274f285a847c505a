//! SPEC.md as data: the rows of its tables with the commands that show them, and the words of such a
//! command. What is deliberately not here: running them (`claims`) and judging them (`tidy`).

/// The page.
pub const SPEC: &str = "SPEC.md";

/// One promise.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Line in the page, from 1.
    pub line: usize,
    /// The first cell: what is promised.
    pub promise: String,
    /// The commands in the row, in order; empty is a mistake of the page.
    pub commands: Vec<String>,
}

/// All rows below the heads of tables.
pub fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut in_body = false;
    for (line, text) in (1..).zip(page.lines()) {
        if !text.starts_with('|') {
            in_body = false;
        } else if text.chars().all(|c| "|-: ".contains(c)) {
            in_body = true;
        } else if in_body {
            let promise = text.trim_matches('|').split('|').next().unwrap_or("").trim().to_owned();
            let marked = text.split('`').skip(1).step_by(2).filter(|text| is_command(text));
            rows.push(Row { line, promise, commands: marked.map(str::to_owned).collect() });
        }
    }
    rows
}

fn is_command(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    matches!(first, "cargo" | "throng" | "node" | "npm") && text.contains(' ')
}

/// The words of a command as a shell takes it apart; single quotes are the only ones known.
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{Row, quoted, rows, words};

    #[test]
    fn rows_have_a_promise_and_commands() {
        let page = "# Spec\n\n| what | command |\n|---|---|\n| fast | `cargo test -p wire`, `x` |\n\
                    | slow | `throng echo --port 1` and `node dev/a.mjs` |\n\n| `node a` |\n";
        let row = |line, promise: &str, commands: &[&str]| Row {
            line,
            promise: promise.to_owned(),
            commands: commands.iter().map(|it| it.to_string()).collect(),
        };
        let wanted = [
            row(5, "fast", &["cargo test -p wire"]),
            row(6, "slow", &["throng echo --port 1", "node dev/a.mjs"]),
        ];
        assert_eq!(rows(page), wanted);
    }

    #[test]
    fn commands_come_apart_and_together() {
        for (command, wanted) in [
            ("throng echo", &["throng", "echo"][..]),
            ("a  --b 'c d' ''", &["a", "--b", "c d", ""]),
            ("--server='throng echo'", &["--server=throng echo"]),
        ] {
            assert_eq!(words(command), wanted);
            let again: Vec<_> = wanted.iter().map(|word| quoted(word)).collect();
            assert_eq!(words(&again.join(" ")), wanted);
        }
    }
}
