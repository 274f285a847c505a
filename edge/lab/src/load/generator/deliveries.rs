//! Match messages: which are the run's, which a player has got, and which were on their way when
//! something ended. What each player has got stands in its inbox, what came of it in the record.

use super::Settings;
use super::inbox::{Arrival, numbers_between};
use super::player::Player;
use super::players::Players;
use crate::load::record::DeliveryRecord;
use crate::load::scenario::Audience;
use crate::load::scenario::mark::Mark;
use crate::load::scenario::program::{Program, audience_index};

/// Whether a message is of this run, and for the player that got it.
pub(super) fn is_ours(settings: &Settings, player: &Player, mark: &Mark, to: Audience) -> bool {
    let is_mine = mark.sender == settings.sender_of(player.number);
    mark.run == settings.run_tag && (to == Audience::All || is_mine)
}

/// Takes note of a delivery to the player; `false` if it came already.
pub(super) fn take(
    player: &mut Player,
    mark: &Mark,
    to: Audience,
    record: &mut DeliveryRecord,
) -> bool {
    match player.inbox.take(mark.sender, to, mark.number) {
        Arrival::InOrder => {}
        Arrival::After { skipped } => record.lost += i64::from(skipped),
        Arrival::Late => {
            record.lost -= 1;
            record.reordered += 1;
        }
        Arrival::Untracked => record.untracked += 1,
        Arrival::Doubled => {
            record.doubled += 1;
            return false;
        }
    }
    record.received[audience_index(to)] += 1;
    true
}

/// Who sends to whom.
pub(super) struct Senders<'a> {
    pub(super) settings: &'a Settings,
    pub(super) program: &'a Program,
    pub(super) players: &'a Players,
}

impl Senders<'_> {
    /// Messages that players of this generator have sent to this one's match and that it has not
    /// got, of the senders that it has heard of and that `counts` holds of.
    pub(super) fn under_way_to(&self, index: usize, counts: impl Fn(usize) -> bool) -> u64 {
        let receiver = &self.players[index];
        let mut count = 0;
        for (sender, to, last) in receiver.inbox.last_of_each() {
            let Some(place) = sender.checked_sub(self.settings.first_sender) else { continue };
            let place = place as usize;
            let Some(sender) = self.players.all().get(place) else { continue };
            let ids = [&sender.captured, &receiver.captured];
            let [theirs, ours] = ids.map(|captured| self.program.match_id(captured));
            if theirs == ours && counts(place) {
                let newest = sender.numbers[audience_index(to)].wrapping_sub(1);
                count += u64::from(numbers_between(last, newest));
            }
        }
        count
    }

    /// Messages that were sent last and never came: known when both sides are ours and still in
    /// the same match, and connected.
    pub(super) fn never_came(&self, is_connected: impl Fn(usize) -> bool) -> i64 {
        if self.settings.has_phases() {
            return 0;
        }
        let receivers = 0..self.players.len();
        let lost: u64 = receivers.map(|index| self.under_way_to(index, &is_connected)).sum();
        i64::try_from(lost).unwrap_or(i64::MAX)
    }
}
