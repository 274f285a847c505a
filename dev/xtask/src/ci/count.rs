//! Runs a command, shows its output, and counts the tests that it reports.
//!
//! Counts come from the last lines of libtest and of node's test runner; a command that reports
//! none counts as one check.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// What ran, and how it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Counts {
    /// The counts of one line of output.
    fn of(line: &str) -> Self {
        if let Some(rest) = line.trim_start().strip_prefix("test result: ") {
            // "ok. 37 passed; 0 failed; 0 ignored; …"
            return Self { passed: before(rest, " passed;"), failed: before(rest, " failed;") };
        }
        // node's spec reporter: "ℹ pass 12", maybe in colours.
        Self { passed: after(line, "ℹ pass "), failed: after(line, "ℹ fail ") }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

fn before(text: &str, mark: &str) -> u64 {
    let number = text.split_once(mark).and_then(|(head, _)| head.split_whitespace().last());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn after(text: &str, mark: &str) -> u64 {
    let Some((_, tail)) = text.split_once(mark) else { return 0 };
    let digits: String = tail.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Runs a command to its end, at most for `patience`.
///
/// # Errors
/// If it cannot be started, or takes longer.
pub fn run(command: &mut Command, patience: Duration) -> anyhow::Result<Counts> {
    reported(command, patience).map(|(counts, succeeded)| settled(counts, succeeded))
}

/// The same, but only what the command itself reports, and whether it succeeded.
///
/// # Errors
/// As [`run`].
pub fn reported(command: &mut Command, patience: Duration) -> anyhow::Result<(Counts, bool)> {
    let deadline = Instant::now() + patience;
    let what = command.get_program().display().to_string();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {what}"))?;
    let lines = lines(&mut child);
    let mut counts = Counts::default();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                println!("{line}");
                counts.add(Counts::of(&line));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill().context("cannot stop it")?;
                child.wait()?;
                anyhow::bail!("took longer than {} s, stopped", patience.as_secs());
            }
        }
    }
    let succeeded = child.wait()?.success();
    Ok((counts, succeeded))
}

/// A failure that no test explains, such as a compile error, counts as one, and so does a success.
fn settled(counts: Counts, succeeded: bool) -> Counts {
    match (succeeded, counts) {
        (false, Counts { failed: 0, passed }) => Counts { failed: 1, passed },
        (true, Counts { passed: 0, failed: 0 }) => Counts { passed: 1, failed: 0 },
        (_, counts) => counts,
    }
}

/// The lines of the command's output, read on a thread so that waiting can end.
fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    // The bound makes a chatty command wait for the terminal instead of filling the memory.
    const LINES_MAX: usize = 1024;
    let (sender, receiver) = mpsc::sync_channel(LINES_MAX);
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_counted() {
        for (line, passed, failed) in [
            ("test result: ok. 37 passed; 0 failed; 0 ignored; 0 measured", 37, 0),
            ("test result: FAILED. 36 passed; 1 failed; 0 ignored", 36, 1),
            ("ℹ pass 12", 12, 0),
            ("\u{1b}[34mℹ fail 3\u{1b}[39m", 0, 3),
            ("test http1::passed ... ok", 0, 0),
            ("a line about 5 passed; things", 0, 0),
            ("", 0, 0),
        ] {
            assert_eq!(Counts::of(line), Counts { passed, failed }, "{line}");
        }
    }

    #[test]
    fn an_end_without_report_counts_as_one() {
        let counts = |passed, failed| Counts { passed, failed };
        assert_eq!(settled(counts(0, 0), true), counts(1, 0));
        assert_eq!(settled(counts(0, 0), false), counts(0, 1));
        assert_eq!(settled(counts(5, 0), false), counts(5, 1));
        assert_eq!(settled(counts(5, 2), false), counts(5, 2));
        assert_eq!(settled(counts(5, 0), true), counts(5, 0));
    }

    #[test]
    fn a_command_is_run_counted_and_stopped() {
        let shell = |script: &str, patience| {
            run(Command::new("sh").args(["-c", script]), Duration::from_millis(patience))
        };
        let report = "echo 'test result: ok. 2 passed; 0 failed;'";
        assert_eq!(shell(report, 60_000).unwrap(), Counts { passed: 2, failed: 0 });
        assert_eq!(shell("exit 3", 60_000).unwrap(), Counts { passed: 0, failed: 1 });
        assert!(shell("exec tail -f /dev/null", 50).is_err());
        assert!(run(&mut Command::new("no-such-program"), Duration::from_secs(1)).is_err());
    }
}
