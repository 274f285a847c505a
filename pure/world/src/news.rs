//! News for all pilots: who was shot down by whom.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 6, the kind |
//! | 1 | how many, at most [`News::KILLS_MAX`] |
//! | … | of each: |
//! | 4 | the tick |
//! | 8 | slot and generation of the ship that was shot down |
//! | 8 | slot and generation of the one that hit it last |
//! | 1, … | how many bytes, the name of the first one's pilot; none of a ship without one |
//! | 1, … | the same of the second |
//! | 1, … | how many bytes, what a rule says of it; none if it says nothing |
//!
//! Numbers are little-endian, texts are UTF-8 of [`Kill::TEXT_BYTES_MAX`] bytes at most: longer ones are cut.
//! Data in: kills. Out: a packet, and back. What is deliberately not here: which kills are news, and
//! when they are told.

use crate::ids::EntityId;
use crate::packet::{Malformed, Reader};

const NEWS: u8 = 6;

/// One ship was shot down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// In this tick.
    pub tick: u32,
    /// Whose ship.
    pub victim: EntityId,
    /// Which one hit it last.
    pub by: EntityId,
    /// Who steered the first one; empty if nobody did.
    pub victim_name: String,
    /// Who steered the other one; empty if nobody did.
    pub by_name: String,
    /// What a rule says of it; empty if nothing.
    pub text: String,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// In the order in which they happened.
    pub kills: Vec<Kill>,
}

impl Kill {
    /// Bytes of a name and of a text.
    pub const TEXT_BYTES_MAX: usize = 128;
}

impl News {
    /// The first byte of the packet.
    pub const KIND: u8 = NEWS;
    /// Kills of one packet.
    pub const KILLS_MAX: usize = 16;

    /// The packet, of the first [`Self::KILLS_MAX`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kills = self.kills.iter().take(Self::KILLS_MAX);
        let mut out = vec![NEWS, u8::try_from(kills.len()).unwrap_or(0)];
        for kill in kills {
            out.extend(kill.tick.to_le_bytes());
            for id in [kill.victim, kill.by] {
                out.extend(id.slot.to_le_bytes());
                out.extend(id.generation.to_le_bytes());
            }
            for text in [&kill.victim_name, &kill.by_name, &kill.text] {
                let text = &text[..text.floor_char_boundary(Kill::TEXT_BYTES_MAX)];
                out.push(u8::try_from(text.len()).unwrap_or(0));
                out.extend(text.as_bytes());
            }
        }
        out
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let [kind, count] = reader.take()?;
        if kind != NEWS {
            return Err(Malformed::Kind(kind));
        }
        if usize::from(count) > Self::KILLS_MAX {
            return Err(Malformed::Outside { what: "how many kills", value: count.into() });
        }
        let kills = (0..count).map(|_| reader.kill()).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Self { kills })
    }
}

impl Reader<'_> {
    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let [length] = self.take()?;
        let length = usize::from(length);
        if length > Kill::TEXT_BYTES_MAX {
            return Err(Malformed::Outside { what: "bytes of a text", value: length as u64 });
        }
        let (text, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| Malformed::Text)
    }

    fn kill(&mut self) -> Result<Kill, Malformed> {
        let tick = self.u32()?;
        let victim = EntityId { slot: self.u32()?, generation: self.u32()? };
        let by = EntityId { slot: self.u32()?, generation: self.u32()? };
        let (victim_name, by_name, text) = (self.text()?, self.text()?, self.text()?);
        Ok(Kill { tick, victim, by, victim_name, by_name, text })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kill, News};
    use crate::{EntityId, Malformed};

    fn kill(number: u32, text: &str) -> Kill {
        Kill {
            tick: number,
            victim: EntityId { slot: number, generation: 1 },
            by: EntityId { slot: 9, generation: number },
            victim_name: "ada".to_owned(),
            by_name: String::new(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_or_longer() {
        let news = News { kills: (0..16).map(|number| kill(number, "é was hit")).collect() };
        let bytes = news.encode();
        assert_eq!(News::decode(&bytes).as_ref(), Ok(&news));
        for length in 0..bytes.len() {
            assert_eq!(News::decode(&bytes[..length]), Err(Malformed::Short), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(News::decode(&longer), Err(Malformed::Long { extra: 1 }));
    }

    #[test]
    fn what_is_too_much_is_cut_and_never_within_a_letter() {
        let kills = (0..40).map(|number| kill(number, &"é".repeat(200))).collect();
        let read = News::decode(&News { kills }.encode()).unwrap();
        assert_eq!((read.kills.len(), read.kills[0].text.len()), (News::KILLS_MAX, 128));
        let odd = News { kills: vec![kill(1, &format!("x{}", "é".repeat(200)))] };
        assert_eq!(News::decode(&odd.encode()).unwrap().kills[0].text.len(), 127);
    }

    #[test]
    fn bytes_that_are_no_news_are_refused() {
        let bytes = News { kills: vec![kill(1, "text")] }.encode();
        let with = |at: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[at] = byte;
            News::decode(&changed)
        };
        assert_eq!(with(0, 5), Err(Malformed::Kind(5)));
        assert!(matches!(with(1, 17), Err(Malformed::Outside { value: 17, .. })));
        // The length of the first name, and a letter of it.
        assert!(matches!(with(22, 129), Err(Malformed::Outside { value: 129, .. })));
        assert_eq!(with(23, 0xff), Err(Malformed::Text));
    }
}
