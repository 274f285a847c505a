//! `string.lower` and `string.upper` of text beyond ASCII, letter by letter as Go's
//! `strings.ToLower` and `strings.ToUpper` map it: Nakama's Lua has these for its own. What is not
//! UTF-8 stays as it is, byte by byte (Go would put U+FFFD in its place).
//!
//! The library calls this for strings with bytes above 127 and for long ones. The cost is linear, the result at
//! most three times as long as the text.

use mlua::{Function, Lua, LuaString};

/// `map_case(text, to_upper)`.
pub(crate) fn function(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, (text, to_upper): (LuaString, bool)| {
        let text = text.as_bytes();
        lua.create_string(match (text.is_ascii(), to_upper) {
            (true, true) => text.to_ascii_uppercase(),
            (true, false) => text.to_ascii_lowercase(),
            (false, true) => map(&text, upper),
            (false, false) => map(&text, lower),
        })
    })
}

fn map(text: &[u8], letter: fn(char) -> char) -> Vec<u8> {
    let mut mapped = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for from in chunk.valid().chars() {
            let mut bytes = [0; 4];
            mapped.extend_from_slice(letter(from).encode_utf8(&mut bytes).as_bytes());
        }
        mapped.extend_from_slice(chunk.invalid());
    }
    mapped
}

/// The one letter of the simple case mapping (Unicode's `UnicodeData.txt`), which Rust has only as
/// the first of the full mapping.
fn lower(from: char) -> char {
    // The only letter whose lower case is more than one: a dotted I.
    if from == '\u{130}' { 'i' } else { only(from.to_lowercase()).unwrap_or(from) }
}

fn upper(from: char) -> char {
    match from {
        // Greek letters with an iota below: the full mapping writes the iota beside them.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            offset(from, 8)
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => offset(from, 9),
        _ => only(from.to_uppercase()).unwrap_or(from),
    }
}

fn offset(from: char, by: u32) -> char {
    char::from_u32(u32::from(from) + by).unwrap_or(from)
}

fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next();
    first.filter(|_| letters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::{lower, map, upper};

    #[test]
    fn letters_change_one_by_one_and_other_bytes_not_at_all() {
        for (text, low, up) in [
            ("ÄÖÜ äöü", "äöü äöü", "ÄÖÜ ÄÖÜ"),
            ("ΣΑΣ ПРИВЕТ ǆ", "σασ привет ǆ", "ΣΑΣ ПРИВЕТ Ǆ"),
            ("straße ŉ ﬃ", "straße ŉ ﬃ", "STRAßE ŉ ﬃ"),
            ("İı", "iı", "İI"),
            ("ᾳ ᾀ", "ᾳ ᾀ", "ᾼ ᾈ"),
            ("日本", "日本", "日本"),
        ] {
            assert_eq!(String::from_utf8(map(text.as_bytes(), lower)).unwrap(), low);
            assert_eq!(String::from_utf8(map(text.as_bytes(), upper)).unwrap(), up);
        }
        assert_eq!(map(b"A\xff\xc3Z\xc3\x84", lower), b"a\xff\xc3z\xc3\xa4");
    }
}
