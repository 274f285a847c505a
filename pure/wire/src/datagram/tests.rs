//! The form at every size, cut and change; numbers that come in any order; and the example that
//! docs/datagrams.md shows.

use std::fmt::Write as _;

use super::*;

fn key(of: u8) -> Key {
    Key::new(&[of; KEY_BYTES])
}

fn head(kind: Kind, sequence: u32) -> Head {
    let acks = Acks { newest: 0x0a0b_0c0d, bits: 0xf000_0001 };
    Head { kind, id: 0x1122_3344_5566_7788, sequence, acks }
}

fn sealed(key: &Key, head: &Head, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    key.seal(head, body, &mut bytes);
    bytes.split_off(6)
}

#[test]
fn every_kind_and_size_reads_back() {
    for (_, kind) in Kind::ALL {
        for len in 0..=BODY_BYTES_MAX {
            let body: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let head = head(kind, u32::MAX);
            let bytes = sealed(&key(1), &head, &body);
            assert_eq!(bytes.len(), BYTES_MIN + len);
            assert_eq!(peek(&bytes), Ok(head));
            assert_eq!(key(1).open(&bytes), Ok((head, &body[..])), "{kind:?} {len}");
        }
    }
    assert_eq!(BYTES_MIN + BODY_BYTES_MAX, BYTES_MAX);
}

#[test]
fn no_part_of_one_is_one() {
    let bytes = sealed(&key(1), &head(Kind::ServerData, 7), b"some data in a body");
    for cut in 0..bytes.len() {
        let wanted = if cut < BYTES_MIN { Unreadable::Malformed } else { Unreadable::Forged };
        assert_eq!(key(1).open(&bytes[..cut]), Err(wanted), "{cut}");
        let longer = [&bytes[..], &vec![0; cut + 1]].concat();
        assert_eq!(key(1).open(&longer), Err(Unreadable::Forged));
    }
    let too_long = vec![1; BYTES_MAX + 1];
    assert_eq!(key(1).open(&too_long), Err(Unreadable::Malformed));
}

#[test]
fn whatever_is_changed_is_found() {
    let bytes = sealed(&key(1), &head(Kind::ClientData, 7), b"body");
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(key(1).open(&changed).is_err(), "bit {at}");
    }
    assert_eq!(key(2).open(&bytes), Err(Unreadable::Forged));
    for kind in 0..=u8::MAX {
        let mut other = bytes.clone();
        other[0] = kind;
        let is_kind = Kind::ALL.iter().any(|(byte, _)| *byte == kind);
        assert_eq!(peek(&other).is_ok(), is_kind, "{kind}");
        assert_eq!(key(1).open(&other).is_ok(), kind == 3, "{kind}");
    }
}

#[test]
fn a_number_is_heeded_once_in_any_order() {
    let mut window = Window::default();
    assert_eq!(window.acks(), Acks { newest: 0, bits: 0 });
    assert!(window.take(0).is_err());
    for sequence in [5, 3, 4, 1, 2] {
        assert_eq!(window.take(sequence), Ok(()));
        assert_eq!(window.take(sequence), Err(Stale { sequence }));
    }
    assert_eq!(window.acks(), Acks { newest: 5, bits: 0b1111 });
    // A leap over all that is remembered, and what is too old to know.
    for (sequence, is_new) in
        [(1_000, true), (873, true), (872, false), (873, false), (999, true), (0, false)]
    {
        assert_eq!(window.take(sequence).is_ok(), is_new, "{sequence}");
    }
    assert_eq!(window.acks(), Acks { newest: 1_000, bits: 1 });
    assert_eq!(window.take(u32::MAX), Ok(()));
    assert_eq!(window.take(u32::MAX), Err(Stale { sequence: u32::MAX }));
    assert_eq!(window.acks(), Acks { newest: u32::MAX, bits: 0 });
    assert!(window.take(1_000).is_err());
}

/// The same as a list of all numbers that came, whatever comes.
#[test]
fn a_window_is_as_a_list_of_all_that_came() {
    let mut random = event::Random::from_number(5);
    for _ in 0..200 {
        let (mut window, mut came, mut newest) = (Window::default(), Vec::new(), 0_u32);
        for _ in 0..300 {
            let below = random.below(160);
            let sequence = (newest + random.below(1 + below / 8)).saturating_sub(below);
            let is_new = sequence > 0 && newest.saturating_sub(sequence) < 128;
            let is_new = is_new && !came.contains(&sequence);
            assert_eq!(window.take(sequence).is_ok(), is_new, "{sequence} after {newest}");
            if is_new {
                came.push(sequence);
                newest = newest.max(sequence);
            }
            let acks = window.acks();
            assert_eq!(acks.newest, newest);
            for sequence in newest.saturating_sub(32)..newest + 3 {
                assert_eq!(acks.names(sequence), came.contains(&sequence), "{sequence}");
            }
            assert!(!acks.names(newest.saturating_sub(33)));
        }
    }
}

fn message<'a>(name: Option<&'a str>, data: &'a [u8]) -> MatchData<'a> {
    MatchData {
        match_uuid: *b"0123456789abcdef",
        is_authoritative: name.is_none(),
        op_code: -2,
        sender: name.map(|username| Sender { user_id: [7; 16], session_id: [8; 16], username }),
        data,
    }
}

#[test]
fn messages_of_every_size_read_back_as_far_as_they_fit() {
    let long = "é".repeat(200);
    for name in [None, Some(""), Some("ada"), Some(&long[..254]), Some(&long[..256])] {
        for len in [0, 1, 100, 1_141, 1_142, 1_143, BODY_BYTES_MAX, 5_000] {
            let data = vec![9; len];
            let message = message(name, &data);
            let mut body = b"before".to_vec();
            let of_sender = name.map_or(0, |name| 33 + name.len());
            let fits =
                name.is_none_or(|name| name.len() < 256) && 21 + of_sender + len <= BODY_BYTES_MAX;
            assert_eq!(message.encode(&mut body), fits, "{name:?} {len}");
            let body = body.split_off(6);
            if fits {
                assert_eq!(MatchData::decode(&body), Ok(message));
            } else {
                assert!(body.is_empty());
            }
        }
    }
    assert_eq!(MatchData::DATA_BYTES_MAX, 1_142);
}

#[test]
fn cut_messages_and_unknown_flags_are_none() {
    let mut body = Vec::new();
    assert!(message(Some("ada"), b"").encode(&mut body));
    for cut in 0..body.len() {
        assert_eq!(MatchData::decode(&body[..cut]), Err(Unreadable::Malformed), "{cut}");
    }
    for flags in 4..=u8::MAX {
        body[0] = flags;
        assert_eq!(MatchData::decode(&body), Err(Unreadable::Malformed), "{flags}");
    }
    body[0] = 2;
    let name_at = body.len() - 3;
    body[name_at] = 0xff;
    assert_eq!(MatchData::decode(&body), Err(Unreadable::Malformed), "a name that is no text");
}

/// The page shows these bytes.
#[test]
fn the_example_of_the_page_is_this_one() {
    let page = include_str!("../../../../docs/datagrams.md");
    let secret: [u8; KEY_BYTES] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let message = MatchData {
        match_uuid: [0x5a, 0x0e, 0x8b, 0x1c, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 1],
        is_authoritative: true,
        op_code: 2,
        sender: None,
        data: b"hello",
    };
    let mut body = Vec::new();
    assert!(message.encode(&mut body));
    let acks = Acks { newest: 3, bits: 0b11 };
    let id = u64::from_le_bytes([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    let head = Head { kind: Kind::ClientData, id, sequence: 7, acks };
    let bytes = sealed(&Key::new(&secret), &head, &body);
    let mut lines = String::new();
    for line in bytes.chunks(16) {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(lines, "{}", hex.join(" "));
    }
    assert!(page.contains(&lines), "docs/datagrams.md does not have\n{lines}");
    assert_eq!(Key::new(&secret).open(&bytes), Ok((head, &body[..])));
}
