//! A live screen: a text cut to the terminal's size, and the key that ends it.
//!
//! In: lines, keys. Out: lines that are no longer than the terminal is wide, and whether somebody has had
//! enough. The terminal is as before when [`Keys`] go.

use std::io::IsTerminal as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The keys of a terminal, one by one and not shown; of something else, none.
pub(super) struct Keys {
    before: Option<Termios>,
}

impl Keys {
    /// Takes them, if there is a terminal.
    pub(super) fn take() -> Self {
        let stdin = std::io::stdin();
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten();
        if let Some(before) = &before {
            let mut each = before.clone();
            each.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Without it a key comes with its line's end, which does as well.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &each);
        }
        Self { before }
    }

    /// What to press.
    pub(super) fn hint(&self) -> &'static str {
        if self.before.is_some() { "[q ends this]" } else { "[Ctrl-C ends this]" }
    }

    /// Waits so long. Whether `q` was pressed in that time, or a signal has come.
    pub(super) fn quits_within(&self, time: Duration) -> bool {
        if self.before.is_none() {
            std::thread::sleep(time);
            return false;
        }
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let Ok(left) = Timespec::try_from(left) else { return false };
            let stdin = std::io::stdin();
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left)) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {
                    let mut keys = [0; 16];
                    // A terminal that is gone has no keys.
                    let len = rustix::io::read(&stdin, &mut keys).unwrap_or(0);
                    if len == 0 || keys[..len].iter().any(|key| b"qQ".contains(key)) {
                        return true;
                    }
                }
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// As much of a text as a terminal of that size has room for, so that no line is broken; 0 columns are of one
/// that does not know its width.
pub(super) fn fit(text: &str, rows: u16, columns: u16) -> String {
    let columns = if columns == 0 { usize::MAX } else { usize::from(columns) };
    let mut out = String::new();
    // The last one is the cursor's.
    for line in text.lines().take(usize::from(rows.max(3)) - 1) {
        out.extend(line.chars().take(columns));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_text_is_cut_to_the_terminal() {
        let text = "head of all\nNAME  WHAT\na  äöü ended\nb\nc\n";
        assert_eq!(fit(text, 4, 6), "head o\nNAME  \na  äöü\n");
        assert_eq!(fit(text, 24, 0), text);
        assert_eq!(fit(text, 0, 4), "head\nNAME\n");
    }
}
