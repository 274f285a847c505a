//! News that pilots are about to be told: who was shot down by whom, some times a second.
//!
//! Data in: kills. Data out: packets for all who fly. What is deliberately not here: which kills are news
//! (`home::kills`), and who is told.

use std::collections::VecDeque;

use world::{Kill, News};

/// Kills that wait to be told; the oldest give way.
const WAITING_MAX: usize = 64;
/// News in a second of the zone.
const PER_SECOND: u32 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Feed {
    waiting: VecDeque<Kill>,
}

impl Feed {
    /// Something has happened. Tells whether an older one gave way.
    pub(super) fn push(&mut self, kill: Kill) -> bool {
        let is_full = self.waiting.len() == WAITING_MAX;
        if is_full {
            self.waiting.pop_front();
        }
        self.waiting.push_back(kill);
        is_full
    }

    /// What pilots are to be told in this tick, if anything is.
    pub(super) fn take(&mut self, tick: u32, tick_rate_hz: u8) -> Option<News> {
        let every = (u32::from(tick_rate_hz) / PER_SECOND).max(1);
        if self.waiting.is_empty() || !tick.is_multiple_of(every) {
            return None;
        }
        let count = self.waiting.len().min(News::KILLS_MAX);
        Some(News { kills: self.waiting.drain(..count).collect() })
    }
}

#[cfg(test)]
mod tests {
    use world::{EntityId, Kill};

    use super::{Feed, WAITING_MAX};

    #[test]
    fn news_come_four_times_a_second_and_the_oldest_give_way() {
        let mut feed = Feed::default();
        let id = |slot| EntityId { slot, generation: 0 };
        let kill = |tick| Kill {
            tick,
            victim: id(1),
            by: id(2),
            victim_name: String::new(),
            by_name: String::new(),
            text: String::new(),
        };
        assert!((0..).take(WAITING_MAX).all(|tick| !feed.push(kill(tick))));
        assert!(feed.push(kill(64)) && feed.push(kill(65)));
        let told: Vec<(u32, usize, u32)> = (0..30)
            .filter_map(|tick| {
                let news = feed.take(tick, 20)?;
                Some((tick, news.kills.len(), news.kills[0].tick))
            })
            .collect();
        assert_eq!(told, [(0, 16, 2), (5, 16, 18), (10, 16, 34), (15, 16, 50)]);
        assert!(!feed.push(kill(9)) && feed.take(3, 1).is_some(), "a slow zone tells each tick");
    }
}
