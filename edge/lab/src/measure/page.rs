//! The pieces that pages are put together from: head and foot, badges, tiles, figures, tables.

use std::fmt::{Result, Write as _};

use serde::Serialize;

use crate::measure::environment::Environment;
use crate::measure::text::escape;

const STYLE: &str = include_str!("style.css");

/// Begins a page.
pub(crate) fn open(out: &mut String, title: &str) -> Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{}</title><style>{STYLE}</style></head><body><main>",
        escape(title)
    )
}

/// Ends it.
pub(crate) fn close(out: &mut String) {
    out.push_str("</main></body></html>\n");
}

/// Ends it with the whole result in it, for programs.
pub(crate) fn close_with(out: &mut String, result: &impl Serialize) -> Result {
    let json = serde_json::to_string(result).unwrap_or_default().replace('<', "\\u003c");
    write!(out, "<script type=\"application/json\" id=\"result\">{json}</script>")?;
    close(out);
    Ok(())
}

/// What a badge says about what it stands at.
#[derive(Clone, Copy)]
pub(crate) enum Mood {
    Good,
    Bad,
    Warn,
    Note,
}

impl Mood {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Note => "note",
        }
    }
}

pub(crate) fn badge(out: &mut String, mood: Mood, text: &str) -> Result {
    write!(out, "<span class=\"badge {}\">{}</span>", mood.class(), escape(text))
}

/// A line across the page: a word, and what there is to say.
pub(crate) fn banner(out: &mut String, mood: Mood, word: &str, text: &str) -> Result {
    let (word, text) = (escape(word), escape(text));
    write!(out, "<p class=\"banner {}\"><b>{word}</b> {text}</p>", mood.class())
}

pub(crate) fn tile(out: &mut String, name: &str, value: &str, note: &str) -> Result {
    write!(
        out,
        "<div class=\"tile\"><span>{}</span><b>{}</b><small>{}</small></div>",
        escape(name),
        escape(value),
        escape(note)
    )
}

/// A chart with its title; `svg` is markup.
pub(crate) fn figure(out: &mut String, title: &str, note: &str, svg: &str) -> Result {
    write!(
        out,
        "<figure><figcaption><b>{}</b> {}</figcaption>{svg}</figure>",
        escape(title),
        escape(note)
    )
}

/// A table whose first `texts` columns hold words, which stand on the left.
pub(crate) fn table(
    out: &mut String,
    (title, texts): (&str, usize),
    heads: &[&str],
    rows: &[Vec<String>],
) -> Result {
    write!(
        out,
        "<section><h2>{}</h2><div class=\"scroll\"><table class=\"t{texts}\"><thead><tr>",
        escape(title)
    )?;
    for head in heads {
        write!(out, "<th>{}</th>", escape(head))?;
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            write!(out, "<td>{}</td>", escape(cell))?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

/// Names and values.
pub(crate) fn pairs<'a>(
    out: &mut String,
    title: &str,
    rows: impl IntoIterator<Item = (&'a str, String)>,
) -> Result {
    write!(
        out,
        "<section><h2>{}</h2><div class=\"scroll\"><table class=\"pairs\">",
        escape(title)
    )?;
    for (name, value) in rows {
        write!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value))?;
    }
    out.push_str("</table></div></section>");
    Ok(())
}

/// Text to be typed.
pub(crate) fn commands(out: &mut String, text: &str) -> Result {
    write!(out, "<section><h2>How to reproduce it</h2><pre>{}</pre></section>", escape(text))
}

/// How it was measured, and where.
pub(crate) fn origin(out: &mut String, environment: &Environment) -> Result {
    commands(out, &environment.command_line())?;
    pairs(out, "Where it was measured", environment.rows())
}

/// When something began, for people.
pub(crate) fn stamp(unix_s: u64) -> String {
    String::from_utf8_lossy(&wire::http1::date(unix_s)).into_owned()
}
