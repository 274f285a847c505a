//! Which limit of the server an answer speaks of: servers that name the setting which moves a limit
//! in the text of a refusal (`limit.requests_per_user_per_s is 10000`) let the reader of a result
//! raise it without a search.
//!
//! In: text of an answer. Out: the setting's name, if there is one. What to do about it is
//! `advice`'s.

/// Sections of settings whose names stand in refusals.
const SECTIONS: &[&str] = &["limit.", "match.", "socket.", "runtime.", "engine.", "database."];

/// The first name of a setting in a text: a section and a word of letters, digits and underscores
/// with at least one underscore, so that ordinary text is not taken for one.
pub(crate) fn setting_in(text: &str) -> Option<&str> {
    SECTIONS
        .iter()
        .filter_map(|section| first(text, section))
        .min_by_key(|(at, _)| *at)
        .map(|it| it.1)
}

fn first<'a>(text: &'a str, section: &str) -> Option<(usize, &'a str)> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.match_indices(section).find_map(|(at, _)| {
        let is_inside_word = text[..at].ends_with(|c: char| is_letter(c) || c == '.');
        let name = &text[at + section.len()..];
        let len = name.find(|c| !is_letter(c)).unwrap_or(name.len());
        let is_setting = name[..len].contains('_') && !is_inside_word;
        is_setting.then(|| (at, &text[at..at + section.len() + len]))
    })
}

/// The kind of an error of a refused request: its status, with the limit that the body names.
pub(crate) fn refused(what: &str, status: u16, body: &str) -> String {
    let limit = matches!(status, 429 | 503).then(|| setting_in(body)).flatten();
    match limit {
        Some(setting) => format!("{what} {status}: {setting}"),
        None => format!("{what} {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{refused, setting_in};

    #[test]
    fn settings_are_found_in_refusals() {
        for (text, setting) in [
            (
                r#"{"code":8,"message":"too many requests (limit.requests_per_user_per_s is 10000)"}"#,
                Some("limit.requests_per_user_per_s"),
            ),
            ("the limit is socket.max_message_size_bytes", Some("socket.max_message_size_bytes")),
            ("raise match.list_steps_max or limit.x_y", Some("match.list_steps_max")),
            ("no limit. match.ended, xlimit.a_b, game.limit.a_b", None),
            ("", None),
        ] {
            assert_eq!(setting_in(text), setting, "{text}");
        }
    }

    #[test]
    fn only_refusals_for_too_much_name_a_limit() {
        let body = "limit.calls_waiting is 16384";
        assert_eq!(refused("status", 429, body), "status 429: limit.calls_waiting");
        assert_eq!(refused("status", 503, "busy"), "status 503");
        assert_eq!(refused("status", 400, body), "status 400");
    }
}
