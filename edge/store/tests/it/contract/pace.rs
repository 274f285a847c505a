//! Two writers whose statements take turns. Whose turn is next is drawn from a seed each time a
//! statement has ended; who waits in the database for the other one loses its turn.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use event::Random;
use game::db::{Database, DbError, Param, Row};

/// After how long it is taken that the other one waits in the database.
const STUCK: Duration = Duration::from_millis(2);

/// The order of both writers' statements.
pub(super) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    random: Random,
    turn: usize,
    has_ended: [bool; 2],
    /// Who was not heard of for [`STUCK`] when it was its turn.
    is_stuck: [bool; 2],
}

impl Pace {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::from_number(seed);
        let turn = usize::from(random.bytes::<1>()[0] & 1);
        let state = State { random, turn, has_ended: [false; 2], is_stuck: [false; 2] };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Before each statement: gives the turn on, perhaps, and waits for the next.
    fn step(&self, who: usize) {
        let mut state = self.state.lock().unwrap();
        let other = 1 - who;
        state.is_stuck[who] = false;
        if state.turn == who {
            state.turn = usize::from(state.random.bytes::<1>()[0] & 1);
            self.changed.notify_all();
        }
        let until = Instant::now() + STUCK;
        while state.turn != who && !state.has_ended[other] && !state.is_stuck[other] {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_stuck[other] = true;
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
        state.turn = who;
    }

    /// A writer is done.
    pub(super) fn end(&self, who: usize) {
        self.state.lock().unwrap().has_ended[who] = true;
        self.changed.notify_all();
    }
}

/// A connection of one of the two.
pub(super) struct Paced<'a> {
    pub(super) db: &'a mut (dyn Database + Send),
    pub(super) pace: &'a Pace,
    pub(super) who: usize,
}

impl Database for Paced<'_> {
    fn begin(&mut self) -> Result<(), DbError> {
        self.pace.step(self.who);
        self.db.begin()
    }

    fn commit(&mut self) -> Result<(), DbError> {
        self.pace.step(self.who);
        self.db.commit()
    }

    fn sync(&mut self) {
        self.db.sync();
    }

    fn is_synced(&self) -> bool {
        self.db.is_synced()
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        self.db.rollback()
    }

    fn in_transaction(&self) -> bool {
        self.db.in_transaction()
    }

    fn savepoint(&mut self) -> Result<(), DbError> {
        self.db.savepoint()
    }

    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        self.db.undo_to_savepoint()
    }

    fn release_savepoint(&mut self) -> Result<(), DbError> {
        self.db.release_savepoint()
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.pace.step(self.who);
        self.db.execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.pace.step(self.who);
        self.db.query(sql, params, each)
    }

    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.db.guest_execute(sql, params)
    }

    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.db.guest_query(sql, params, each)
    }
}
