//! `result.json` as text: broken into lines where people look, and a line for each element of what
//! is long (a second of the series, a point of a curve, a check of the machine), so that a result of minutes stays a file
//! that one can open, search and compare.
//!
//! In: a result. Out: its JSON. What its fields mean stands in its schema.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Values nested deeper than this stay on their line: fields of the summary, of an operation and of
/// its percentiles have lines of their own.
const DEPTH_OF_LINES: usize = 4;
/// Elements of these lists are a line each however deep they stand, without lines within.
const LISTS: [&str; 3] = ["series", "curve", "checks"];

/// The result as it is written to a file, with a line feed at the end.
///
/// # Errors
/// None that a summary can cause: its numbers are finite and its keys are text.
pub fn json(summary: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    summary.serialize(&mut Serializer::with_formatter(&mut text, Lines::default()))?;
    text.push(b'\n');
    Ok(text)
}

/// Where lines break.
#[derive(Default)]
struct Lines {
    depth: usize,
    /// The last key, or the one being written.
    key: Vec<u8>,
    is_key: bool,
    /// Depth of the list of [`LISTS`] that is being written.
    list: Option<usize>,
    has_values: bool,
}

impl Lines {
    /// A line break before a value or key, or before a closing bracket, at the present depth.
    fn break_line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let is_broken = match self.list {
            Some(depth) => self.depth == depth,
            None => self.depth <= DEPTH_OF_LINES,
        };
        if !is_broken {
            return Ok(());
        }
        write!(out, "\n{:1$}", "", self.depth)
    }

    fn open(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_values = false;
        out.write_all(bracket)
    }

    fn close(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        let was_list = self.list == Some(self.depth);
        let is_broken = if self.list.is_some() { was_list } else { self.depth <= DEPTH_OF_LINES };
        self.depth -= 1;
        if was_list {
            self.list = None;
        }
        if self.has_values && is_broken {
            write!(out, "\n{:1$}", "", self.depth)?;
        }
        self.has_values = true;
        out.write_all(bracket)
    }

    fn separate(&self, out: &mut (impl Write + ?Sized), is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        self.break_line(out)
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")?;
        if self.list.is_none() && LISTS.iter().any(|list| list.as_bytes() == self.key) {
            self.list = Some(self.depth);
        }
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_values = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)?;
        self.key.clear();
        self.is_key = true;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.is_key {
            self.key.extend_from_slice(fragment.as_bytes());
        }
        out.write_all(fragment.as_bytes())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.list.is_some() { b":" } else { b": " })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_values = true;
        Ok(())
    }
}
