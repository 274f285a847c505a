//! A connection to a database in memory that fails, stalls, and gathers commits as one on a disk does
//! (`edge/store/src/group.rs`).
//!
//! A failure is what `game::db` says it is: of a statement, nothing of it has happened; of a commit,
//! nothing of its transaction; of a group, none of its commits. A statement that undoes
//! something and fails takes the transaction with it, or the group, as a disk does that fails under
//! SQLite: after it nobody knows what is there. A stall lets the other threads run,
//! where no lock is held: whoever wants the lock meanwhile would wait for one who waits for him.

use game::db::{Database, DbError, Param, Row};
use store::Sqlite;

use super::play::Broken;
use super::world::world;

/// How statements begin that undo something, or keep it: the last one takes back an account whose
/// device could not be written (`game::account`).
const CONTROLS: [&str; 4] = ["SAVEPOINT", "ROLLBACK", "RELEASE", "DELETE FROM users"];

/// How the connection stands to groups of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Each commit is made at once.
    Never,
    /// None has gathered.
    Closed,
    /// Some have, and the lock is held.
    Open,
    /// They were lost, and nobody has been told.
    Failed,
}

/// The connection.
pub(crate) struct Faulty {
    db: Sqlite,
    group: Group,
    /// A transaction is open within a group.
    has_joined: bool,
    /// The open transaction is rolled back already, and its end will say so.
    is_lost: bool,
    is_dirty: bool,
    is_reading: bool,
}

fn failed() -> DbError {
    world().count(|happened| happened.db_faults += 1);
    world().tell(format_args!("the database fails"));
    DbError::Machine("made up".into())
}

impl Faulty {
    pub(crate) fn new(db: Sqlite) -> Self {
        let (group, has_joined, is_lost) = (Group::Never, false, false);
        Self { db, group, has_joined, is_lost, is_dirty: false, is_reading: false }
    }

    fn holds_lock(&self) -> bool {
        self.db.in_transaction()
    }

    /// Somebody may be slow here.
    fn may_stall(&self) {
        let world = world();
        if !self.is_reading && !world.is_db_locked.get() && world.fails(world.profile.stalls) {
            world.count(|happened| happened.db_stalls += 1);
            world.tell(format_args!("the database stalls"));
            world.stall();
            world.tell(format_args!("the database goes on"));
        }
    }

    fn may_fail(&self) -> Result<(), DbError> {
        let world = world();
        if world.fails(world.profile.db_faults) { Err(failed()) } else { Ok(()) }
    }

    /// The open transaction, or the group it is part of, is gone.
    fn lose(&mut self) -> Result<(), DbError> {
        if self.group == Group::Open {
            self.group = Group::Failed;
        }
        self.is_lost = true;
        world().is_db_locked.set(false);
        self.db.rollback()
    }

    /// Whether what was open is lost; it is no longer.
    fn end_lost(&mut self) -> bool {
        self.has_joined &= !self.is_lost;
        std::mem::take(&mut self.is_lost)
    }

    fn check(&self) -> Result<(), DbError> {
        if self.is_lost {
            return Err(DbError::Machine("the transaction was rolled back".into()));
        }
        self.check_group()
    }

    fn check_group(&self) -> Result<(), DbError> {
        if self.group == Group::Failed && !self.has_joined {
            return Err(DbError::Machine("commits before this one have failed".into()));
        }
        Ok(())
    }

    /// What is open ends: kept, lost because the database fails, or lost by one that lies.
    fn end(&mut self) -> Result<(), DbError> {
        let fails = self.may_fail();
        let lies = world().is_broken(Broken::LosesCommits, 10);
        let ended = if fails.is_err() || lies { self.db.rollback() } else { self.db.commit() };
        world().is_db_locked.set(false);
        self.is_dirty = true;
        fails.and(ended)
    }
}

impl Database for Faulty {
    fn begin(&mut self) -> Result<(), DbError> {
        self.check()?;
        if self.group == Group::Open {
            self.db.execute("SAVEPOINT joined", &[])?;
            self.has_joined = true;
            return Ok(());
        }
        self.is_reading = false;
        self.db.end_reading()?;
        self.may_stall();
        self.may_fail()?;
        assert!(!world().is_db_locked.get(), "somebody waits while he holds the lock");
        self.db.begin()?;
        world().is_db_locked.set(true);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DbError> {
        if self.end_lost() {
            return Err(DbError::Machine("the transaction was rolled back".into()));
        }
        if std::mem::take(&mut self.has_joined) {
            let fails = self.may_fail();
            if fails.is_err() {
                self.db.execute("ROLLBACK TO joined", &[])?;
            }
            self.db.execute("RELEASE joined", &[])?;
            return fails;
        }
        if self.group == Group::Closed {
            self.group = Group::Open;
            self.is_dirty = true;
            return Ok(());
        }
        self.end()
    }

    fn sync(&mut self) {
        assert!(self.group != Group::Open, "a group is committed before it is synced");
        if self.group == Group::Failed {
            self.group = Group::Closed;
        }
        if std::mem::take(&mut self.is_dirty) {
            self.may_stall();
        }
    }

    fn is_synced(&self) -> bool {
        !self.is_dirty && self.group != Group::Open && self.group != Group::Failed
    }

    fn group_commits(&mut self) {
        self.group = Group::Closed;
    }

    fn commit_group(&mut self) -> Result<(), DbError> {
        if self.group == Group::Open {
            self.group = Group::Closed;
            if self.end().is_err() {
                self.group = Group::Failed;
            }
        }
        self.check_group()
    }

    fn rest(&mut self, is_for_long: bool) {
        if !self.in_transaction() && (is_for_long || world().once_in(8)) {
            let _ = self.commit_group();
        }
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        if self.end_lost() {
            return Ok(());
        }
        if std::mem::take(&mut self.has_joined) {
            self.db.execute("ROLLBACK TO joined", &[])?;
            self.db.execute("RELEASE joined", &[])?;
            return Ok(());
        }
        world().is_db_locked.set(false);
        self.db.rollback()
    }

    fn in_transaction(&self) -> bool {
        self.is_lost || self.has_joined || self.holds_lock() && self.group != Group::Open
    }

    fn begin_reading(&mut self) -> Result<(), DbError> {
        if !self.holds_lock() && !self.is_lost {
            self.is_reading = true;
            self.db.begin_reading()?;
        }
        Ok(())
    }

    fn end_reading(&mut self) -> Result<(), DbError> {
        self.is_reading = false;
        self.db.end_reading()
    }

    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        let is_slice_over = world().is_slice_over.take();
        if is_slice_over && world().is_broken(Broken::KeepsUndone, 1) {
            return Ok(());
        }
        self.execute("ROLLBACK TO SAVEPOINT job", &[]).map(drop)
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.check()?;
        let is_control = CONTROLS.iter().any(|control| sql.starts_with(control));
        if let Err(error) = self.may_fail() {
            if is_control {
                self.lose()?;
            }
            return Err(error);
        }
        if !self.holds_lock() {
            self.is_reading = false;
            assert!(!world().is_db_locked.get(), "somebody waits while he holds the lock");
            self.is_dirty = true;
        }
        self.db.execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.check()?;
        if !self.holds_lock() {
            self.may_stall();
        }
        self.may_fail()?;
        self.db.query(sql, params, each)
    }

    fn guest_execute(&mut self, _sql: &str, _params: &[Param<'_>]) -> Result<u64, DbError> {
        Err(DbError::Statement("no script has SQL here".into()))
    }

    fn guest_query(
        &mut self,
        _sql: &str,
        _params: &[Param<'_>],
        _each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        Err(DbError::Statement("no script has SQL here".into()))
    }
}
