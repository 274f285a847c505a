//! Status queries of game servers: who is on it, and is it still there?
//!
//! In: datagrams of a server. Out: datagrams to it, and at the end what it says. Whatever is not an answer
//! to what was asked is passed over. Not here: sockets and times.
//!
//! Source: ioquake3 1.36 `sv_main.c` (getinfo), libtw2 doc/connless.md and packet7.md (Teeworlds 0.7),
//! developer.valvesoftware.com/wiki/Server_queries (`A2S_INFO`).

use serde::{Deserialize, Serialize};

use super::reference::protocol::{self, FromServer};
use super::teeworlds::number;

/// The status queries that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Query {
    /// `getstatus` of Quake III and what came of it.
    Quake3,
    /// Teeworlds 0.7.
    Teeworlds,
    /// Source and GoldSrc: `A2S_INFO`.
    A2s,
    /// The reference server of our own, which also tells its late ticks.
    Throng,
}

/// Bytes of an answer that are looked at: a datagram without fragments.
pub const ANSWER_BYTES_MAX: usize = 1_500;

/// What a server says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Players on it, bots included.
    pub players: u32,
    /// How many may be.
    pub players_max: u32,
    /// Ticks that began late or were left out, where the server tells.
    pub ticks_late: Option<u64>,
    /// Ticks that were due, likewise.
    pub ticks: Option<u64>,
}

/// What is to be done with an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this, and wait for more.
    Send(Vec<u8>),
    /// That is all.
    Done(Info),
    /// It is none.
    Ignore,
}

/// The token that a Teeworlds server is told for its answers.
const TOKEN: [u8; 4] = *b"thrg";
const OUT_OF_BAND: &[u8] = &[0xff; 4];
const NO_TOKEN: &[u8] = &[0xff; 4];

/// The first datagram.
#[must_use]
pub fn ask(query: Query) -> Vec<u8> {
    match query {
        Query::Quake3 => [OUT_OF_BAND, b"getinfo throng"].concat(),
        Query::Throng => protocol::status(),
        Query::A2s => [OUT_OF_BAND, b"TSource Engine Query\0"].concat(),
        Query::Teeworlds => {
            // A control packet: request a token. It is padded so that the answer is the smaller one.
            let mut packet = [&[0x04, 0, 0][..], NO_TOKEN, &[5], &TOKEN].concat();
            packet.resize(7 + 1 + 512, 0);
            packet
        }
    }
}

/// What an answer means.
#[must_use]
pub fn take(query: Query, answer: &[u8]) -> Step {
    let info = match query {
        Query::Quake3 => quake3(answer),
        Query::Throng => throng(answer),
        Query::A2s => match answer.strip_prefix(OUT_OF_BAND) {
            Some([b'A', challenge @ ..]) if challenge.len() == 4 => {
                return Step::Send([&*ask(query), challenge].concat());
            }
            Some(rest) => a2s(rest),
            None => None,
        },
        Query::Teeworlds => match answer {
            [0x04, _, 0, t0, t1, t2, t3, 5, token @ ..] if [*t0, *t1, *t2, *t3] == TOKEN => {
                let Some(token) = token.get(..4) else { return Step::Ignore };
                return Step::Send([&[0x21], token, &TOKEN, OUT_OF_BAND, b"gie3\x01"].concat());
            }
            _ => teeworlds(answer),
        },
    };
    info.map_or(Step::Ignore, Step::Done)
}

fn quake3(answer: &[u8]) -> Option<Info> {
    let text = answer.strip_prefix(OUT_OF_BAND)?.strip_prefix(b"infoResponse\n")?;
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.trim_start_matches('\\').split('\\').collect();
    let value = |key: &str| {
        let pair = words.chunks(2).find(|pair| pair.first() == Some(&key))?;
        pair.get(1)?.trim().parse().ok()
    };
    let (players, players_max) = (value("clients")?, value("sv_maxclients").unwrap_or(0));
    Some(Info { players, players_max, ..Info::default() })
}

/// A text up to its zero byte, and the rest.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn a2s(answer: &[u8]) -> Option<Info> {
    let (texts, mut rest, skipped) = match answer {
        // Name, map, folder, game, and the game's number.
        [b'I', _, rest @ ..] => (4, rest, 2),
        // GoldSrc: the address before them, and no number.
        [b'm', rest @ ..] => (5, rest, 0),
        _ => return None,
    };
    for _ in 0..texts {
        rest = text(rest)?.1;
    }
    let [players, players_max, ..] = rest.get(skipped..)? else { return None };
    let (players, players_max) = (u32::from(*players), u32::from(*players_max));
    Some(Info { players, players_max, ..Info::default() })
}

fn teeworlds(answer: &[u8]) -> Option<Info> {
    let rest = answer.get(9..)?.strip_prefix(OUT_OF_BAND)?.strip_prefix(b"inf3")?;
    let (_, mut rest) = number(rest)?;
    // Version, name, host, map, kind of game; then flags, skill, players, seats, clients and their most.
    for _ in 0..5 {
        rest = text(rest)?.1;
    }
    let mut numbers = [0; 6];
    for it in &mut numbers {
        (*it, rest) = number(rest)?;
    }
    let [_, _, _, _, clients, clients_max] = numbers.map(|it| u32::try_from(it).unwrap_or(0));
    Some(Info { players: clients, players_max: clients_max, ..Info::default() })
}

fn throng(answer: &[u8]) -> Option<Info> {
    let Some(FromServer::Told(told)) = protocol::from_server(answer) else { return None };
    Some(Info {
        players: told.players,
        players_max: told.players_max,
        ticks_late: Some(told.late + told.missed),
        ticks: Some(told.due),
    })
}

#[cfg(test)]
mod tests {
    use super::super::reference::protocol;
    use super::{Info, Query, Step, ask, take};

    fn info(players: u32, players_max: u32) -> Step {
        Step::Done(Info { players, players_max, ..Info::default() })
    }

    #[test]
    fn quake3_says_its_players() {
        let answer = b"\xff\xff\xff\xffinfoResponse\n\\challenge\\throng\\protocol\\71\\clients\\8\
            \\mapname\\oa_dm1\\sv_maxclients\\16\\hostname\\a";
        assert_eq!(take(Query::Quake3, answer), info(8, 16));
        for answer in [&b""[..], b"\xff\xff\xff\xffinfoResponse\n", b"\xff\xff\xff\xffprint\nno"] {
            assert_eq!(take(Query::Quake3, answer), Step::Ignore);
        }
    }

    #[test]
    fn a2s_answers_a_challenge_first() {
        let Step::Send(again) = take(Query::A2s, b"\xff\xff\xff\xffAabcd") else { panic!() };
        assert_eq!(again, [&*ask(Query::A2s), b"abcd"].concat());
        let source = b"\xff\xff\xff\xffI\x11name\0map\0folder\0game\0\x0a\x00\x07\x20\x01d";
        assert_eq!(take(Query::A2s, source), info(7, 32));
        let old = b"\xff\xff\xff\xffm1.2.3.4:5\0name\0map\0folder\0game\0\x03\x10";
        assert_eq!(take(Query::A2s, old), info(3, 16));
        assert_eq!(take(Query::A2s, b"\xff\xff\xff\xffI\x11name\0map"), Step::Ignore);
    }

    #[test]
    fn teeworlds_gives_a_token_first() {
        assert_eq!(ask(Query::Teeworlds).len(), 520);
        let token = b"\x04\x00\x00thrg\x05wxyz";
        let Step::Send(again) = take(Query::Teeworlds, token) else { panic!() };
        assert_eq!(again, b"\x21wxyzthrg\xff\xff\xff\xffgie3\x01");
        let answer = b"\x21thrgwxyz\xff\xff\xff\xffinf3\x010.7.5\0n\0h\0dm1\0DM\0\x00\x01\x02\x08\x03\x90\x01";
        assert_eq!(take(Query::Teeworlds, answer), info(3, 80));
        assert_eq!(take(Query::Teeworlds, &answer[..30]), Step::Ignore);
        assert_eq!(take(Query::Teeworlds, b"\x04\x00\x00else\x05wxyz"), Step::Ignore);
    }

    #[test]
    fn the_reference_server_tells_its_late_ticks() {
        let told = protocol::Told { players: 3, due: 90, late: 4, missed: 2, ..Default::default() };
        let Step::Done(info) = take(Query::Throng, &protocol::told(&told)) else { panic!() };
        assert_eq!((info.players, info.ticks, info.ticks_late), (3, Some(90), Some(6)));
        assert_eq!(take(Query::Throng, &protocol::full()), Step::Ignore);
    }
}
