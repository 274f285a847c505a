//! What becomes of ships that were shot down in a tick: scores, and, by what a rule says or without one, points and
//! news.
//!
//! Data in: what cells showed of a tick. Data out: scores (`saving`), news for all who fly. What is
//! deliberately not here: when a score may be told (`saving`), and what a shot does (`world`).

use event::Now;
use game::guest::Presence;
use world::{Downed, EntityId, Kill};

use super::{Home, Open};
use crate::mail::Member;
use crate::stats::RoomStats;

/// Points of who shoots another ship down.
const POINTS: i32 = 1;

/// A ship was shot down, with who steered it and who the other one, if anybody did.
#[derive(Clone, Debug)]
pub(super) struct Downing {
    pub(super) downed: Downed,
    pub(super) victim: Option<Presence>,
    pub(super) by: Option<Presence>,
}

/// What it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// For who hit last.
    pub(super) points: i32,
    /// For who was shot down.
    pub(super) victim_points: i32,
    /// What is said of it besides.
    pub(super) text: String,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { points: POINTS, victim_points: 0, text: String::new() }
    }
}

impl Home {
    /// Who steers a ship.
    pub(super) fn steers(&self, ship: EntityId) -> Option<Presence> {
        let pilot = self.sessions.get(&ship).and_then(|session_id| self.pilots.get(session_id));
        pilot.map(|pilot| pilot.member.presence.clone())
    }

    /// Who was shot down in a tick, in an order that does not tell of cells.
    pub(super) fn shot_down(&mut self, now: Now, open: &Open, stats: &RoomStats) {
        let all = open.published.iter().flat_map(|published| &published.downed);
        let mut all: Vec<Downed> = all.copied().collect();
        all.sort_unstable();
        if let Some(Downed { tick, .. }) = all.first() {
            self.rules.score.take_turns(*tick, &mut all);
        }
        for downed in all {
            self.saving.downed(downed);
            let (victim, by) = (self.steers(downed.victim), self.steers(downed.by));
            let is_of_pilots = victim.is_some() || by.is_some();
            let downing = Downing { downed, victim, by };
            let own = if is_of_pilots {
                self.rules.score.push(now.mono_ns, downing).err()
            } else {
                Some(downing)
            };
            if let Some(downing) = own {
                self.settle(&downing, Verdict::default(), stats);
            }
        }
    }

    /// Gives points, and tells who flies. What ships without pilots do to each other is no news.
    pub(super) fn settle(&mut self, downing: &Downing, verdict: Verdict, stats: &RoomStats) {
        let Downing { downed: Downed { tick, victim, by }, .. } = *downing;
        let Verdict { points, victim_points, text } = verdict;
        if by != victim {
            self.saving.points(by, points);
        }
        self.saving.points(victim, victim_points);
        if downing.victim.is_none() && downing.by.is_none() {
            return;
        }
        let name = |of: &Option<Presence>| of.as_ref().map(|it| it.username.to_string());
        let victim_name = name(&downing.victim).unwrap_or_default();
        let by_name = name(&downing.by).unwrap_or_default();
        if self.feed.push(Kill { tick, victim, by, victim_name, by_name, text }) {
            stats.zone_news_dropped.up();
        }
    }

    /// What all who fly are to be told, and who they are.
    pub(crate) fn take_news(&mut self) -> Option<(Vec<u8>, impl Iterator<Item = &Member> + Clone)> {
        let news = self.news.take()?;
        Some((news, self.pilots.values().map(|pilot| &pilot.member)))
    }
}
