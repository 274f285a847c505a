//! A database that notes which statements the game runs on it.

use game::db::{Database, DbError, Param, Row};

/// Notes what goes through.
pub(crate) struct Watched<'a> {
    db: &'a mut dyn Database,
    /// The game's statements, in order.
    pub(crate) statements: Vec<String>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(db: &'a mut dyn Database) -> Self {
        Self { db, statements: Vec::new() }
    }
}

impl Database for Watched<'_> {
    fn begin(&mut self) -> Result<(), DbError> {
        self.db.begin()
    }

    fn commit(&mut self) -> Result<(), DbError> {
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

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.statements.push(sql.to_owned());
        self.db.execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.statements.push(sql.to_owned());
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
