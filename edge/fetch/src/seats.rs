//! Places by key: so many things at one time of each host, or of all together, while others wait for
//! their turn.
//!
//! Who has fewest is next, so that a payer who asks for much, slowly, keeps nobody who asks for
//! little: among payers with equally many, who came first. The last quarter of a key's places is only
//! for payers who have none there, because a place that is taken by a slow server comes back late,
//! however fair the turns are. Accounts cost nothing, so that addresses come in as well: of payers
//! with equally many, those whose address has fewest are next, and half of that quarter is only for
//! those whose address has none, and for no matches.
//!
//! In: a key and who pays. Out: a [`Seat`], at once or later. Not here: how many may wait (`desk`),
//! and for how long.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use game::fetch::{FetchPayer, Principal};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Of a key's places, one in so many is only for payers who have none there.
const SPARE_SHARE: usize = 4;
/// Of these one in so many, only for those whose address has none.
const NEW_SHARE: usize = 2;

/// Places of each key. Keys of which nobody has or wants a place are forgotten.
#[derive(Debug)]
pub(crate) struct Seats<K: Ord> {
    /// Of a key, at least 1.
    most: usize,
    /// Of these, of one payer, at least 1.
    each: usize,
    rows: Arc<Mutex<BTreeMap<K, Row>>>,
}

/// The places of one key.
#[derive(Debug, Default)]
struct Row {
    taken: usize,
    /// How many each payer has; nobody has none.
    of: BTreeMap<Principal, usize>,
    /// The same of each address.
    of_clients: BTreeMap<u128, usize>,
    /// Who waits, by numbers that rise.
    waiting: BTreeMap<u64, (FetchPayer, Sender<()>)>,
    last: u64,
}

/// A place, or that of somebody who waits for one. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat<K: Ord> {
    most: usize,
    each: usize,
    rows: Arc<Mutex<BTreeMap<K, Row>>>,
    key: K,
    payer: FetchPayer,
    number: u64,
}

impl<K: Ord + Clone> Seats<K> {
    /// So many of each key, and of these so many of one payer.
    pub(crate) fn new(most: usize, each: usize) -> Self {
        assert!(most > 0 && each > 0, "{most} places, {each} of one payer");
        Self { most, each, rows: Arc::default() }
    }

    /// Waits for a place.
    pub(crate) async fn take(&self, key: K, payer: FetchPayer) -> Seat<K> {
        let (seat, turn) = self.queue(key, payer);
        // Told once, while the seat is there.
        let _ = turn.await;
        seat
    }

    /// A place, if there is one for this payer now.
    pub(crate) fn try_take(&self, key: K, payer: FetchPayer) -> Option<Seat<K>> {
        let (seat, mut turn) = self.queue(key, payer);
        turn.try_recv().is_ok().then_some(seat)
    }

    /// A place in the queue, and what tells when it has become a seat: at once if there is one.
    fn queue(&self, key: K, payer: FetchPayer) -> (Seat<K>, Receiver<()>) {
        let (told, turn) = channel();
        let mut rows = lock(&self.rows);
        let row = rows.entry(key.clone()).or_default();
        row.last += 1;
        let number = row.last;
        row.waiting.insert(number, (payer, told));
        row.seat_next(self.most, self.each);
        drop(rows);
        let (most, each, rows) = (self.most, self.each, Arc::clone(&self.rows));
        (Seat { most, each, rows, key, payer, number }, turn)
    }
}

impl<K: Ord> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut rows = lock(&self.rows);
        let Some(row) = rows.get_mut(&self.key) else { unreachable!("a seat of no row") };
        if row.waiting.remove(&self.number).is_none() {
            row.stand_up(self.payer);
            row.seat_next(self.most, self.each);
        }
        if row.taken == 0 && row.waiting.is_empty() {
            rows.remove(&self.key);
        }
    }
}

impl Row {
    /// Seats everybody who waits and may sit.
    fn seat_next(&mut self, most: usize, each: usize) {
        while self.taken < most
            && let Some(number) = self.next(most, each)
        {
            let Some((payer, told)) = self.waiting.remove(&number) else {
                unreachable!("{number} waits and is not there")
            };
            self.taken += 1;
            *self.of.entry(payer.principal).or_default() += 1;
            if let Some(client) = payer.client {
                *self.of_clients.entry(client).or_default() += 1;
            }
            // Who waits is there for as long as its number is.
            let _ = told.send(());
        }
        assert!(self.taken <= most, "{} of {most} places are taken", self.taken);
    }

    /// Whose turn it is: of those who may sit, who has fewest; of these, whose address has; of
    /// these, who came first.
    fn next(&self, most: usize, each: usize) -> Option<u64> {
        let spare = most / SPARE_SHARE;
        let free = most - self.taken;
        let mut next = None;
        for (&number, (payer, _)) in &self.waiting {
            let has = self.of.get(&payer.principal).copied().unwrap_or(0);
            let client_has = payer.client.and_then(|it| self.of_clients.get(&it)).copied();
            let client_has = client_has.unwrap_or(0);
            let is_new = client_has == 0 && !matches!(payer.principal, Principal::Match(_));
            let is_allowed = match has {
                0 => is_new || free > spare / NEW_SHARE,
                _ => has < each && free > spare,
            };
            if is_allowed && (has, client_has) == (0, 0) {
                // Nobody has fewer.
                return Some(number);
            }
            let rank = (has, client_has, number);
            if is_allowed && next.is_none_or(|least| rank < least) {
                next = Some(rank);
            }
        }
        next.map(|(_, _, number)| number)
    }

    fn stand_up(&mut self, payer: FetchPayer) {
        take_one(&mut self.of, payer.principal);
        if let Some(client) = payer.client {
            take_one(&mut self.of_clients, client);
        }
        self.taken -= 1;
    }
}

/// One fewer; nobody has none.
pub(crate) fn take_one<T: Ord + Debug>(of: &mut BTreeMap<T, usize>, payer: T) {
    let Some(has) = of.get_mut(&payer) else {
        unreachable!("{payer:?} has one and is not counted")
    };
    *has -= 1;
    if *has == 0 {
        of.remove(&payer);
    }
}

fn lock<K>(rows: &Mutex<BTreeMap<K, Row>>) -> MutexGuard<'_, BTreeMap<K, Row>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use game::fetch::{FetchPayer, Principal};
    use tokio::sync::oneshot::Receiver;

    use uuid::Uuid;

    use super::{Seat, Seats};

    type Queued = (Seat<char>, Receiver<()>);

    /// Nobody's address is known.
    fn payer(number: u128) -> FetchPayer {
        Principal::User(Uuid::from_u128(number)).into()
    }

    fn at(client: u128, number: u128) -> FetchPayer {
        FetchPayer { client: Some(client), ..payer(number) }
    }

    fn sits((_, turn): &mut Queued) -> bool {
        turn.try_recv().is_ok()
    }

    #[test]
    fn each_key_has_its_places_and_is_forgotten_without_guests() {
        let seats = Seats::new(2, 2);
        let take = |key| seats.try_take(key, payer(1));
        let (a, b) = (take('a'), take('a'));
        assert!(a.is_some() && b.is_some() && take('a').is_none());
        let other = take('b');
        assert!(other.is_some());
        drop(a);
        assert!(take('a').is_some());
        drop((b, other));
        assert_eq!(seats.rows.lock().unwrap().len(), 0);
    }

    #[test]
    fn the_last_quarter_is_for_payers_who_have_none() {
        let seats = Seats::new(16, 100);
        let much: Vec<_> = (0..100).filter_map(|_| seats.try_take('a', payer(1))).collect();
        assert_eq!(much.len(), 12);
        let little: Vec<_> = (2..100).filter_map(|it| seats.try_take('a', payer(it))).collect();
        assert_eq!(little.len(), 4);
        drop(much);
        let more: Vec<_> = (0..100).filter_map(|_| seats.try_take('a', payer(2))).collect();
        assert_eq!((little.len(), more.len()), (4, 8));
    }

    #[test]
    fn the_last_eighth_is_for_addresses_that_have_none_and_for_no_matches() {
        let seats = Seats::new(16, 100);
        let many: Vec<_> = (0..100).filter_map(|it| seats.try_take('a', at(7, it))).collect();
        assert_eq!(many.len(), 14);
        let of_match = Principal::Match(Uuid::from_u128(1)).into();
        assert!(seats.try_take('a', of_match).is_none());
        let others: Vec<_> =
            (0..9).filter_map(|it| seats.try_take('a', at(it, 200 + it))).collect();
        assert_eq!(others.len(), 2);
        drop(many);
        assert!(seats.try_take('a', of_match).is_some());
    }

    #[test]
    fn whose_address_has_fewest_is_next() {
        let seats = Seats::new(2, 2);
        let mut sitting: Vec<_> = (0..2).map(|it| seats.queue('a', at(7, it))).collect();
        assert!(sitting.iter_mut().all(sits));
        let mut same = seats.queue('a', at(7, 2));
        let mut other = seats.queue('a', at(8, 3));
        sitting.remove(0);
        assert!(sits(&mut other) && !sits(&mut same));
    }

    #[test]
    fn nobody_has_more_than_each_may() {
        let seats = Seats::new(16, 3);
        let much: Vec<_> = (0..16).filter_map(|_| seats.try_take('a', payer(1))).collect();
        assert_eq!(much.len(), 3);
        let mut waits = seats.queue('a', payer(1));
        assert!(!sits(&mut waits));
        drop(much);
        assert!(sits(&mut waits));
    }

    #[test]
    fn who_has_fewest_is_next_and_then_who_came_first() {
        let seats = Seats::new(3, 3);
        let mut of_ann: Vec<_> = (0..6).map(|_| seats.queue('a', payer(1))).collect();
        assert!(of_ann[..3].iter_mut().all(sits) && !of_ann[3..].iter_mut().any(sits));
        let mut of_bob: Vec<_> = (0..2).map(|_| seats.queue('a', payer(2))).collect();
        let mut of_eve = seats.queue('a', payer(3));
        // Whoever goes, the next one is of those who have none.
        of_ann.remove(0);
        assert!(sits(&mut of_bob[0]) && !sits(&mut of_eve) && !of_ann[2..].iter_mut().any(sits));
        of_ann.remove(0);
        assert!(sits(&mut of_eve) && !sits(&mut of_bob[1]));
        // Everybody has one: the first of those who wait.
        drop(of_eve);
        assert!(sits(&mut of_ann[1]) && !sits(&mut of_bob[1]));
    }

    #[test]
    fn who_gives_up_waiting_keeps_nothing() {
        let seats = Seats::new(1, 1);
        let first = seats.queue('a', payer(1));
        let given_up = seats.queue('a', payer(2));
        let mut last = seats.queue('a', payer(3));
        drop(given_up);
        assert!(!sits(&mut last));
        drop(first);
        assert!(sits(&mut last));
        drop(last);
        assert!(seats.rows.lock().unwrap().is_empty());
    }
}
