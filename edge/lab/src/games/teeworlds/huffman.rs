//! The code by which Teeworlds compresses payloads: bytes and an end, each with a code of its own, bits from
//! the lowest of each byte on.
//!
//! Source: libtw2 doc/huffman.md, appendix.

use std::sync::LazyLock;

/// The symbol behind the last byte.
const END: u16 = 256;

/// The code of each symbol: below the highest bit that is set, the first bit highest.
#[rustfmt::skip]
const CODES: [u16; 257] = [
    0x0003, 0x0011, 0x0028, 0x0168, 0x005e, 0x00b7, 0x016c, 0x0176, 0x0024, 0x0099, 0x00af, 0x017f,
    0x00a7, 0x005c, 0x012f, 0x02ee, 0x00ab, 0x02ca, 0x009d, 0x02aa, 0x010f, 0x05f6, 0x0258, 0x027c,
    0x0084, 0x0279, 0x0290, 0x0216, 0x02a0, 0x00b3, 0x0153, 0x05d2, 0x026b, 0x0262, 0x02bb, 0x0597,
    0x0218, 0x02a2, 0x02b7, 0x029a, 0x00b5, 0x015c, 0x0291, 0x05fa, 0x025b, 0x05b5, 0x05d1, 0x05a6,
    0x05d7, 0x05f2, 0x05f4, 0x056b, 0x09e2, 0x138b, 0x2fac, 0x151c, 0x12ba, 0x10e7, 0x10a5, 0x12e6,
    0x2f87, 0x0970, 0x2cb4, 0x14a8, 0x0152, 0x027b, 0x056a, 0x04c7, 0x0566, 0x0536, 0x04f0, 0x0438,
    0x04fa, 0x0129, 0x0552, 0x02ab, 0x04c3, 0x042e, 0x0b21, 0x0bf7, 0x0ba8, 0x0bef, 0x0be0, 0x009b,
    0x04a1, 0x026a, 0x0ae8, 0x0ac0, 0x0433, 0x0a55, 0x2a3a, 0x159e, 0x2ba7, 0x12e3, 0x27dc, 0x2b39,
    0x2b38, 0x138a, 0x2da3, 0x2571, 0x1391, 0x1390, 0x25cf, 0x25ce, 0x2eb5, 0x2eb4, 0x2b3b, 0x2b3a,
    0x5d48, 0x12e2, 0x2eb7, 0x2da2, 0x2ba6, 0x10e6, 0x0872, 0x12e5, 0x10a4, 0x2da5, 0x5f5a, 0xa8ed,
    0x2eb6, 0x10a7, 0x2570, 0x2eb1, 0x2da4, 0x12ad, 0x5d49, 0x271d, 0x0020, 0x05f9, 0x0269, 0x0bf6,
    0x02b1, 0x0bbc, 0x0294, 0x0bab, 0x02b4, 0x0be2, 0x0299, 0x04a0, 0x025a, 0x0bf1, 0x027f, 0x04c6,
    0x02c9, 0x0bf0, 0x0268, 0x0432, 0x0058, 0x0546, 0x0298, 0x0b23, 0x0259, 0x0537, 0x02a8, 0x0aea,
    0x0297, 0x0be3, 0x0273, 0x04e5, 0x027e, 0x0561, 0x05f3, 0x05df, 0x02db, 0x0260, 0x02d2, 0x04c2,
    0x02b6, 0x05a7, 0x02b2, 0x04af, 0x0296, 0x042f, 0x0256, 0x0bee, 0x010d, 0x0254, 0x021d, 0x0baa,
    0x0215, 0x0b22, 0x02a1, 0x0ba7, 0x0251, 0x0ba6, 0x0270, 0x0bbd, 0x027a, 0x05d0, 0x025d, 0x0553,
    0x15d7, 0x14ad, 0x13c7, 0x16d3, 0x1393, 0x15d6, 0x17c2, 0x13c6, 0x17d5, 0x16d0, 0x1392, 0x10a6,
    0x151f, 0x13ed, 0x1753, 0x14ac, 0x14af, 0x13ec, 0x1659, 0x15d2, 0x10a1, 0x1658, 0x151e, 0x12ac,
    0x09c4, 0x1641, 0x2eb0, 0x13ef, 0x2b05, 0x12af, 0x12ae, 0x165b, 0x138d, 0x12a9, 0x2eb3, 0x12e4,
    0x27dd, 0x10a0, 0x17d7, 0x2b04, 0x12a8, 0x2eb2, 0x12bb, 0x12ab, 0x2f86, 0x1640, 0x10a3, 0x12aa,
    0x5f5b, 0x271c, 0x159f, 0x14ae, 0x14a9, 0x10a2, 0x138c, 0x2fa9, 0x5477, 0x2fa8, 0x2ea5, 0x138f,
    0x2cb5, 0x12b9, 0x1583, 0x0149, 0xa8ec,
];

/// Two ways on from each place: another place, or a symbol.
struct Tree(Vec<[Way; 2]>);

#[derive(Clone, Copy)]
enum Way {
    Nowhere,
    Place(usize),
    Symbol(u16),
}

static TREE: LazyLock<Tree> = LazyLock::new(|| {
    let mut places = vec![[Way::Nowhere; 2]];
    for (symbol, code) in (0..).zip(CODES) {
        let mut at = 0;
        for bit in (0..code.ilog2()).rev() {
            let side = usize::from(code >> bit & 1);
            let next = places.len();
            let Some(way) = places.get_mut(at).and_then(|it| it.get_mut(side)) else { break };
            if bit == 0 {
                *way = Way::Symbol(symbol);
            } else if let Way::Place(place) = *way {
                at = place;
            } else {
                *way = Way::Place(next);
                places.push([Way::Nowhere; 2]);
                at = next;
            }
        }
    }
    Tree(places)
});

/// Adds what the bytes say; nothing if they do not end, or say more than `bytes_max`.
pub(super) fn decompress(bytes: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Option<()> {
    let tree = &TREE.0;
    let mut at = 0;
    for bit in bytes.iter().flat_map(|byte| (0..8).map(move |bit| usize::from(byte >> bit & 1))) {
        match *tree.get(at)?.get(bit)? {
            Way::Place(place) => at = place,
            Way::Symbol(END) => return Some(()),
            Way::Symbol(symbol) => {
                if out.len() >= bytes_max {
                    return None;
                }
                out.push(u8::try_from(symbol).ok()?);
                at = 0;
            }
            Way::Nowhere => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{CODES, END, decompress};

    /// As the example of the source has it.
    #[test]
    fn the_example_is_read() {
        let bytes = [0b1011_0001, 0b0000_1000, 0b0010_1010, 0b0110_1110, 0];
        let mut out = Vec::new();
        assert_eq!(decompress(&bytes, &mut out, 100), Some(()));
        assert_eq!(out, [0, 1, 0, 2, 0, 0x80, 0]);
        assert_eq!(decompress(&bytes, &mut Vec::new(), 6), None);
        for cut in 0..4 {
            assert_eq!(decompress(&bytes[..cut], &mut Vec::new(), 100), None);
        }
    }

    #[test]
    fn every_symbol_comes_back() {
        let mut bits = Vec::new();
        for code in (0..256).chain([usize::from(END)]).map(|it| CODES[it]) {
            bits.extend((0..code.ilog2()).rev().map(|bit| code >> bit & 1));
        }
        let bytes: Vec<u8> = bits
            .chunks(8)
            .map(|eight| {
                eight.iter().zip(0..).map(|(bit, at)| u8::try_from(*bit).unwrap() << at).sum()
            })
            .collect();
        let mut out = Vec::new();
        assert_eq!(decompress(&bytes, &mut out, 1_000), Some(()));
        assert_eq!(out, (0..=255).collect::<Vec<u8>>());
    }
}
