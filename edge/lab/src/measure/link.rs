//! Links from one file to another on the same disk.

use std::fmt::Write as _;
use std::path::{Component, Path};

/// The link that leads from a page in the folder `from` to the file `to`, percent-encoded. Both
/// are absolute and free of `..`; none if they have no root in common.
#[must_use]
pub fn relative(from: &Path, to: &Path) -> Option<String> {
    let from: Vec<Component<'_>> = from.components().collect();
    let to: Vec<Component<'_>> = to.components().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return None;
    }
    let mut parts = vec!["..".to_owned(); from.len() - common];
    parts.extend(to.iter().skip(common).map(|part| encode(part.as_os_str().as_encoded_bytes())));
    Some(parts.join("/"))
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~+=,@".contains(byte) {
            out.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::relative;

    #[test]
    fn links_are_relative_and_encoded() {
        for (from, to, wanted) in [
            ("/a/b", "/a/b/run/report.html", Some("run/report.html")),
            ("/a/b/c", "/a/x y#1/report.html", Some("../../x%20y%231/report.html")),
            ("/a", "/a/ä.html", Some("%C3%A4.html")),
            ("a", "/a/report.html", None),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)).as_deref(), wanted);
        }
    }
}
