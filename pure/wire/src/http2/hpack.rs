//! Header compression: blocks that clients send are decoded, with their dynamic table; ours are
//! written without one, every field in full, since answers have few.
//!
//! In: a whole header block. Out: its fields, lent one by one; or, for ours, the bytes of a block.
//!
//! Source: RFC 7541.

use std::collections::VecDeque;

use super::{Error, FIELDS_MAX, huffman};

/// Bytes of the dynamic table that clients may use: what holds if SETTINGS say nothing.
const TABLE_BYTES_MAX: usize = 4_096;
/// What each entry counts besides its texts (RFC 7541 section 4.1).
pub(super) const ENTRY_BYTES: usize = 32;
/// Bytes behind the prefix of a number; more make it larger than anything here may be.
const NUMBER_BYTES_MAX: usize = 4;

/// A name and a value.
type Entry = (Box<[u8]>, Box<[u8]>);

/// The decoder of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The latest first.
    table: VecDeque<Entry>,
    table_bytes: usize,
    /// What the client wants of [`TABLE_BYTES_MAX`].
    table_bytes_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            table_bytes: 0,
            table_bytes_max: TABLE_BYTES_MAX,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Reads a block and hands out its fields. After an error the connection cannot be used further.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let block = &mut block;
        let mut count = 0;
        while let Some(&first) = block.first() {
            if first & 0xe0 == 0x20 {
                // Only before the first field.
                self.resize(number(block, 5)?, count > 0)?;
                continue;
            }
            count += 1;
            if count > FIELDS_MAX {
                return Err(Error::Calm("too many header fields"));
            }
            if first & 0x80 != 0 {
                let index = number(block, 7)?;
                let (name, value) = self.entry(index)?;
                field(name, value);
                continue;
            }
            let is_kept = first & 0x40 != 0;
            self.literal(block, if is_kept { 6 } else { 4 })?;
            field(&self.name, &self.value);
            if is_kept {
                self.keep();
            }
        }
        Ok(())
    }

    /// A field that is not in the table as a whole: into `name` and `value`.
    fn literal(&mut self, block: &mut &[u8], prefix: u32) -> Result<(), Error> {
        let index = number(block, prefix)?;
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        if index == 0 {
            text(block, &mut name)?;
        } else {
            name.extend_from_slice(self.entry(index)?.0);
        }
        self.name = name;
        self.value.clear();
        text(block, &mut self.value)
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Error> {
        let index = index.checked_sub(1).ok_or(Error::Compression)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.table.get(index - STATIC.len()).ok_or(Error::Compression)?;
        Ok((&entry.0, &entry.1))
    }

    fn resize(&mut self, bytes: usize, is_late: bool) -> Result<(), Error> {
        if is_late || bytes > TABLE_BYTES_MAX {
            return Err(Error::Compression);
        }
        self.table_bytes_max = bytes;
        self.evict(0);
        Ok(())
    }

    /// Adds the last literal to the table.
    fn keep(&mut self) {
        let bytes = self.name.len() + self.value.len() + ENTRY_BYTES;
        self.evict(bytes);
        if bytes <= self.table_bytes_max {
            self.table_bytes += bytes;
            self.table.push_front((self.name.as_slice().into(), self.value.as_slice().into()));
        }
    }

    /// Makes room for so many bytes.
    fn evict(&mut self, more: usize) {
        while self.table_bytes + more > self.table_bytes_max
            && let Some((name, value)) = self.table.pop_back()
        {
            self.table_bytes -= name.len() + value.len() + ENTRY_BYTES;
        }
    }
}

/// A number whose first bits are the low `prefix` bits of the first byte.
fn number(block: &mut &[u8], prefix: u32) -> Result<usize, Error> {
    let (first, mut rest) = block.split_first().ok_or(Error::Compression)?;
    let mask = (1_usize << prefix) - 1;
    let mut value = usize::from(*first) & mask;
    if value == mask {
        for shift in (0..).step_by(7).take(NUMBER_BYTES_MAX + 1) {
            let (byte, behind) = rest.split_first().ok_or(Error::Compression)?;
            rest = behind;
            if shift == 7 * NUMBER_BYTES_MAX {
                return Err(Error::Compression);
            }
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Ok(value)
}

/// Appends a text, as it is or in the Huffman code.
fn text(block: &mut &[u8], to: &mut Vec<u8>) -> Result<(), Error> {
    let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let len = number(block, 7)?;
    let (bytes, rest) = block.split_at_checked(len).ok_or(Error::Compression)?;
    *block = rest;
    if is_coded {
        return huffman::decode(bytes, to).ok_or(Error::Compression);
    }
    to.extend_from_slice(bytes);
    Ok(())
}

/// Says that our blocks keep no table; to stand before the first block of a connection, so that a
/// client that wants a smaller one is obeyed.
pub(super) fn write_no_table(to: &mut Vec<u8>) {
    to.push(0x20);
}

/// Appends a field that nobody is to keep.
pub(super) fn write(to: &mut Vec<u8>, name: &str, value: &[u8]) {
    if name == ":status" && value == b"200" {
        return to.push(0x88);
    }
    to.push(0);
    write_text(to, name.as_bytes());
    write_text(to, value);
}

fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    let Some(mut rest) = text.len().checked_sub(0x7f) else {
        // Below the mask, by the line above.
        to.push(u8::try_from(text.len()).unwrap_or(0));
        return to.extend_from_slice(text);
    };
    to.push(0x7f);
    while rest >= 0x80 {
        to.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    to.push(u8::try_from(rest).unwrap_or(0));
    to.extend_from_slice(text);
}

/// RFC 7541, appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The block's fields as text, a line each, or the error.
    fn read(decoder: &mut Decoder, block: &[u8]) -> String {
        let mut lines = String::new();
        let line = |name: &[u8], value: &[u8]| {
            lines.extend([format!("{}: {}\n", name.escape_ascii(), value.escape_ascii())]);
        };
        match decoder.decode(block, line) {
            Ok(()) => lines,
            Err(error) => error.to_string(),
        }
    }

    /// Source: RFC 7541, appendix C.4: three requests on one connection, in the Huffman code.
    #[test]
    fn requests_of_the_standard_are_read() {
        let mut decoder = Decoder::new();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let head = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
        assert_eq!(read(&mut decoder, first), head);
        let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
        assert_eq!(read(&mut decoder, second), format!("{head}cache-control: no-cache\n"));
        let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\
            \xe9\x5b\xb8\xe8\xb4\xbf";
        assert_eq!(
            read(&mut decoder, third),
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
             custom-key: custom-value\n"
        );
        assert_eq!(decoder.table_bytes, 164);
    }

    #[test]
    fn the_table_holds_so_many_bytes() {
        let mut decoder = Decoder::new();
        let mut block = Vec::new();
        for index in 0..100 {
            block.push(0x40);
            write_text(&mut block, format!("name-{index}").as_bytes());
            write_text(&mut block, &[b'x'; 100]);
        }
        read(&mut decoder, &block);
        assert!(decoder.table_bytes <= TABLE_BYTES_MAX && decoder.table.len() == 29);
        assert!(read(&mut decoder, b"\xbe").starts_with("name-99: xxx"));
        // Larger than the table: it empties it, and is still a field.
        let mut large = vec![0x40, 1, b'a'];
        write_text(&mut large, &[b'y'; 5_000]);
        assert!(read(&mut decoder, &large).starts_with("a: yyy"));
        assert!(decoder.table.is_empty() && decoder.table_bytes == 0);
        assert_eq!(read(&mut decoder, b"\x20\x40\x01a\x01b"), "a: b\n");
        assert!(decoder.table.is_empty(), "the client wants no table");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for block in [
            &b"\x80"[..],
            b"\xbe",
            b"\xff",
            b"\xff\xff\xff\xff\xff\xff\x7f",
            b"\x3f\xe2\x1f",
            b"\x82\x20",
            b"\x00\x05abc",
            b"\x00\x01a",
            b"\x40\x01a\x83\xff\xff\xff",
        ] {
            let error = read(&mut Decoder::new(), block);
            assert_eq!(error, "malformed header block", "{}", block.escape_ascii());
        }
        let many = vec![0x82; FIELDS_MAX + 1];
        assert_eq!(read(&mut Decoder::new(), &many), "too many header fields");
        // 4,096 is what clients may have.
        assert_eq!(read(&mut Decoder::new(), b"\x3f\xe1\x1f\x82"), ":method: GET\n");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut block = Vec::new();
        write_no_table(&mut block);
        write(&mut block, ":status", b"200");
        let values = [0, 1, 126, 127, 128, 254, 255, 300, 5_000].map(|len| vec![b'v'; len]);
        for value in &values {
            write(&mut block, "grpc-message", value);
        }
        let mut found = Vec::new();
        let mut decoder = Decoder::new();
        decoder.decode(&block, |name, value| found.push((name.to_vec(), value.to_vec()))).unwrap();
        assert_eq!(found.remove(0), (b":status".to_vec(), b"200".to_vec()));
        assert_eq!(found.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values);
    }
}
