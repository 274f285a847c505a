//! What somebody may have meant who wrote a name that there is not.

/// Bytes of a name that is looked at: longer input is no slip of the finger.
const NAME_BYTES_MAX: usize = 128;

/// Letters from which on the beginning of a name stands for it.
const BEGINNING_MIN: usize = 4;

/// The name among `known` that is nearest to a mistyped one, if any is near: at most a third of the
/// letters differ, or it begins with what was written.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let distance = |it: &str| {
        let is_beginning = name.len() >= BEGINNING_MIN && it.starts_with(name);
        if is_beginning { 1 } else { strsim::osa_distance(name, it) }
    };
    let all = known.into_iter().map(|it| (distance(it), it));
    all.min_by_key(|(distance, _)| *distance)
        .filter(|(distance, it)| *distance <= it.len() / 3)
        .map(|(_, it)| it)
}

/// ``; did you mean `name`?``, or nothing if no name is near the one that was written.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |it| format!("; did you mean `{it}`?"))
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES_MAX, did_you_mean};

    #[test]
    fn the_likest_name_is_offered_and_no_unlike_one() {
        let known = ["json_encode", "json_decode", "time", "storage_write"];
        for (name, wanted) in [
            ("json_encod", "; did you mean `json_encode`?"),
            ("jsno_decode", "; did you mean `json_decode`?"),
            ("storageWrite", "; did you mean `storage_write`?"),
            ("storage", "; did you mean `storage_write`?"),
            ("frobnicate", ""),
            ("timeout", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(name, known), wanted, "{name}");
        }
        for (bytes, is_offered) in [(NAME_BYTES_MAX, true), (NAME_BYTES_MAX + 1, false)] {
            let name = "x".repeat(bytes);
            let longer = format!("{name}y");
            assert_eq!(!did_you_mean(&name, [&*longer]).is_empty(), is_offered, "{bytes}");
        }
        let scenarios = ["register", "rpc-lua", "rpc-js", "match"];
        for (name, wanted) in
            [("rpc-lau", "rpc-lua"), ("rpc-j", "rpc-js"), ("regsiter", "register")]
        {
            assert_eq!(did_you_mean(name, scenarios), format!("; did you mean `{wanted}`?"));
        }
        assert_eq!(did_you_mean("rpc", []), "");
    }
}
