//! What somebody may have meant who wrote a name that there is not.

/// How alike two names are, at least, to be offered for one another: 1 is the same.
const LIKENESS_MIN: f64 = 0.7;
/// Names that are looked at, at most: beyond, nobody has typed one of them wrongly.
const NAMES_MAX: usize = 1_000;

/// `; did you mean `rate`?`, or nothing if no name is like the one that was written.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let alike = known.into_iter().take(NAMES_MAX).map(|it| (strsim::jaro_winkler(name, it), it));
    let best = alike.filter(|it| it.0 >= LIKENESS_MIN).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(String::new, |(_, it)| format!("; did you mean `{it}`?"))
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn the_likest_name_is_offered_and_no_unlike_one() {
        let known = ["register", "rpc-lua", "rpc-js", "match"];
        for (name, wanted) in [
            ("rpc-lau", "; did you mean `rpc-lua`?"),
            ("rpc-j", "; did you mean `rpc-js`?"),
            ("regsiter", "; did you mean `register`?"),
            ("zzz", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(name, known), wanted, "{name}");
        }
        assert_eq!(did_you_mean("rpc", []), "");
    }
}
