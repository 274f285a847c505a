//! One line of the live screen, never wider than the terminal.

use super::Look;

/// Columns before every line.
pub(super) const INDENT: usize = 2;

/// Parts of a line, each with its colour; what does not fit is cut.
pub(super) struct Row {
    look: Look,
    text: String,
    /// Characters in it, without those that colour.
    columns: usize,
    is_cut: bool,
}

impl Row {
    pub(super) fn new(look: Look) -> Self {
        Self { look, text: String::new(), columns: 0, is_cut: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// Adds a part. `code` is ANSI's, or nothing. What a server said may stand in `text`: control
    /// characters are left out, so that it can neither move the cursor nor colour anything.
    pub(super) fn push(&mut self, code: &str, text: &str) {
        if self.is_cut {
            return;
        }
        if self.is_empty() {
            self.text.push_str(&" ".repeat(INDENT));
            self.columns = INDENT;
        }
        let mut chars: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
        // The last column stays free: some terminals wrap as soon as it is written.
        let room = self.look.columns.saturating_sub(1).saturating_sub(self.columns);
        if chars.len() > room {
            self.is_cut = true;
            chars.truncate(room);
            if let Some(last) = chars.last_mut() {
                *last = '…';
            }
        }
        self.columns += chars.len();
        let has_colour = self.look.colours && !code.is_empty() && !chars.is_empty();
        if has_colour {
            self.text.extend(["\x1b[", code, "m"]);
        }
        self.text.extend(chars);
        if has_colour {
            self.text.push_str("\x1b[0m");
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
