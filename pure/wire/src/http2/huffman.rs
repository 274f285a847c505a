//! The Huffman code of header compression. It is canonical: codes of one length follow one another
//! in the order of their symbols, and shorter codes are smaller, so that the lengths are all there
//! is to know. In: bytes. Out: bytes, or nothing if they are no such code.
//!
//! Source: RFC 7541 section 5.2 and appendix B.

/// Bits of the code of each byte. The end of the string, 256, has 30 ones and is an error.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

/// Bits of the longest code.
const BITS_LONGEST: usize = 30;

/// The codes of one length.
#[derive(Clone, Copy)]
struct Row {
    /// The first code, in the low bits.
    first: u32,
    /// How many there are.
    count: u32,
    /// Where their symbols begin in [`Table::symbols`].
    start: u32,
}

struct Table {
    rows: [Row; BITS_LONGEST + 1],
    symbols: [u8; 256],
}

const TABLE: Table = table();

/// Lays the lengths out as codes, when this is compiled.
const fn table() -> Table {
    let mut table =
        Table { rows: [Row { first: 0, count: 0, start: 0 }; BITS_LONGEST + 1], symbols: [0; 256] };
    let (mut bits, mut code, mut placed) = (1, 0_u32, 0_u32);
    while bits <= BITS_LONGEST {
        code <<= 1;
        table.rows[bits] = Row { first: code, count: 0, start: placed };
        let mut symbol = 0_u8;
        loop {
            if LENGTHS[symbol as usize] as usize == bits {
                table.symbols[placed as usize] = symbol;
                table.rows[bits].count += 1;
                placed += 1;
                code += 1;
            }
            if symbol == u8::MAX {
                break;
            }
            symbol += 1;
        }
        bits += 1;
    }
    table
}

/// Appends what `coded` stands for; `None` if it is no code, or is padded with anything but the
/// first bits of the end of the string, at most seven.
pub(super) fn decode(coded: &[u8], to: &mut Vec<u8>) -> Option<()> {
    // The bits that are not decoded yet, the oldest on top.
    let (mut window, mut bits) = (0_u64, 0_usize);
    let mut rest = coded.iter();
    loop {
        while bits <= 32
            && let Some(byte) = rest.next()
        {
            window = window << 8 | u64::from(*byte);
            bits += 8;
        }
        let Some((symbol, used)) = first(window, bits) else { break };
        to.push(symbol);
        bits -= used;
        window &= (1 << bits) - 1;
    }
    let is_padding = bits < 8 && window == (1 << bits) - 1;
    is_padding.then_some(())
}

/// The symbol at the top of a window of so many bits, and how many it takes.
fn first(window: u64, bits: usize) -> Option<(u8, usize)> {
    // No code is shorter.
    for used in 5..=bits.min(BITS_LONGEST) {
        let row = TABLE.rows[used];
        let code = u32::try_from(window >> (bits - used)).ok()?;
        let Some(nth) = code.checked_sub(row.first) else { continue };
        if nth < row.count {
            let symbol = TABLE.symbols.get((row.start + nth) as usize)?;
            return Some((*symbol, used));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{LENGTHS, decode};

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    #[test]
    fn the_codes_leave_no_gap() {
        // Of 2^30: all symbols, and the end of the string.
        let all: u64 = LENGTHS.iter().map(|bits| 1_u64 << (30 - bits)).sum();
        assert_eq!(all + 1, 1 << 30);
    }

    /// Source: RFC 7541, appendix C.4 and C.6.
    #[test]
    fn strings_of_the_standard_are_read() {
        for (coded, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], &b"www.example.com"[..]),
            (b"\xa8\xeb\x10\x64\x9c\xbf", b"no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", b"custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", b"custom-value"),
            (b"\x64\x02", b"302"),
            (b"\xae\xc3\x77\x1a\x4b", b"private"),
            (b"", b""),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for (coded, why) in [
            (&b"\xff"[..], "padding of eight bits"),
            (b"\xff\xff\xff\xff", "the end of the string"),
            (b"\x00\x00\x00", "padding with zeros"),
            (b"\x64\x02\xff", "a byte of padding more"),
        ] {
            assert_eq!(decoded(coded), None, "{why}");
        }
    }
}
