//! The connection on which scripts' statements run, one for each thread that has any. It is apart
//! from the server's: its prepared statements were all judged as a script's, its settings and
//! limits bind only scripts, and nothing that a script does to it reaches the server's.
//!
//! Every statement is a transaction of its own. One that writes takes the write lock only while it
//! runs, for `runtime.sql_write_budget_ms` at most, and is undone if it goes beyond any limit. Not
//! here: what the limits are ([`GuestBudget`]), and what a statement may name (`rules.rs`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use game::db::{DbError, GuestBudget, Param, Row};
use rusqlite::limits::Limit;
use rusqlite::{CachedStatement, Connection, ErrorCode, Statement, StatementStatus};

use crate::functions::{self, PATTERN_BYTES_MAX};
use crate::lock::{WriteLock, Writer};
use crate::meter::{Meter, STEPS, Stop};
use crate::open::Shared;
use crate::row::{SqliteRow, bind};
use crate::rules::Rules;
use crate::waited::Waited;

/// Prepared statements that are kept, of at most [`KEPT_SQL_BYTES_MAX`] bytes each: their number
/// is the scripts' doing.
const STATEMENTS_MAX: usize = 64;

/// Longer statements are prepared anew each time.
const KEPT_SQL_BYTES_MAX: usize = 4_096;

/// Bytes of a statement.
const SQL_BYTES_MAX: i32 = 1 << 20;

/// Memory for pages, KiB; what does not fit is written, and counted as written.
const CACHE_KIB: u32 = 8_192;

/// What a cell of an answer costs beside its text: the script's table holds its name and value.
const CELL_BYTES: usize = 64;

/// Limits of SQLite that bound what a statement costs before it runs, or within one step of it.
const LIMITS: &[(Limit, i32)] = &[
    (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX),
    (Limit::SQLITE_LIMIT_COLUMN, 500),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_VDBE_OP, 100_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 16),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// Pages of an index that are freed in a millisecond, at least: 10,000 pages of 2 KiB took 102 ms where
/// the index was filled in order and 185 where not, and the commit 65 and 121 (2026-11, 2 shared
/// cores, busy).
const FREED_PAGES_PER_MS: i64 = 50;

/// What is done with each row.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&dyn Row);

pub(crate) struct Guest {
    conn: Connection,
    budget: GuestBudget,
    meter: Meter,
    rules: Arc<Rules>,
    waited: Waited,
}

/// The write lock, until this goes.
struct Held<'a>(&'a WriteLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Guest {
    pub(crate) fn open(
        path: &Path,
        shared: &Shared,
        budget: GuestBudget,
    ) -> Result<Self, rusqlite::Error> {
        let mut conn = shared.connect(path)?;
        // Temporary data goes to files, where it can be counted, and not to memory.
        conn.execute_batch(&format!(
            "PRAGMA temp_store = FILE; PRAGMA cache_size = -{CACHE_KIB};"
        ))?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        functions::replace_slow(&conn)?;
        for (limit, most) in LIMITS {
            conn.set_limit(*limit, *most)?;
        }
        let value_max = i32::try_from(budget.value_bytes_max).unwrap_or(i32::MAX);
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, value_max)?;
        let rules = Arc::new(Rules::new(Arc::clone(&shared.own), budget.opens_own_tables));
        let judge = Arc::clone(&rules);
        conn.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            judge.judge(&context.action)
        }))?;
        let meter = Meter::default();
        let progress = meter.clone();
        conn.progress_handler(STEPS, Some(move || progress.is_over()))?;
        shared.timer.watch(&meter, conn.get_interrupt_handle());
        Ok(Self { conn, budget, meter, rules, waited: Waited::default() })
    }

    /// For how long its statements waited for others, and for the disk, microseconds.
    pub(crate) fn waited_us(&self) -> u64 {
        self.waited.us()
    }

    /// Runs one statement. `each` is given for queries; without it rows are an error.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        sql: &str,
        params: &[Param<'_>],
        each: Option<Each<'_>>,
    ) -> Result<u64, DbError> {
        let stats = &shared.reporter.stats;
        stats.sql_statements.up();
        self.meter.start(&self.budget);
        shared.timer.wake();
        let (result, scanned) = self.run_metered(shared, sql, params, each);
        let stopped = self.meter.end();
        stats.sql_rows_scanned.add(scanned);
        match (result, stopped) {
            (Err(_), Some(stop)) => {
                match stop {
                    Stop::Time | Stop::Held => stats.sql_out_of_time.up(),
                    Stop::Written => stats.sql_over_limit.up(),
                }
                Err(stop.error(&self.budget, scanned))
            }
            (result, _) => result,
        }
    }

    /// Also gives how many rows the statement read one after the other, because no index leads to them.
    fn run_metered(
        &self,
        shared: &Shared,
        sql: &str,
        params: &[Param<'_>],
        each: Option<Each<'_>>,
    ) -> (Result<u64, DbError>, u64) {
        let sort = |error: &rusqlite::Error| self.sort(shared, error);
        self.rules.forget();
        let mut statement = match self.conn.prepare_cached(sql) {
            Ok(statement) => statement,
            Err(error) => return (Err(sort(&error)), 0),
        };
        let (drops, frees) = (self.rules.drops(), self.rules.frees());
        // A statement that is kept is not judged again: neither what it drops nor what it frees.
        let is_kept = sql.len() <= KEPT_SQL_BYTES_MAX && drops.is_empty() && frees.is_empty();
        let result = self
            .check_freed(shared, frees)
            .and_then(|()| bind(&mut statement, params, sort))
            .and_then(|()| {
                if statement.readonly() {
                    self.step(shared, &mut statement, each)
                } else {
                    self.write(shared, &mut statement, &drops, each)
                }
            });
        // Of this run alone: the count of a statement that is kept would go on.
        let scanned = statement.reset_status(StatementStatus::FullscanStep);
        if is_kept {
            drop::<CachedStatement<'_>>(statement);
        } else {
            statement.discard();
        }
        (result, u64::try_from(scanned).unwrap_or(0))
    }

    fn write(
        &self,
        shared: &Shared,
        statement: &mut Statement<'_>,
        drops: &[String],
        each: Option<Each<'_>>,
    ) -> Result<u64, DbError> {
        let _held = self.take_lock(shared)?;
        shared.check_file()?;
        self.begin(shared)?;
        let mut result =
            self.empty(shared, drops).and_then(|()| self.step(shared, statement, each));
        // Neither the commit nor the rollback may be stopped halfway.
        self.meter.finish();
        let commit = || pages::log::gathered(|| self.control(shared, "COMMIT"));
        if result.is_ok()
            && let Err(error) = self.waited.during(|| shared.committing(commit))
        {
            result = Err(error);
        }
        if !self.conn.is_autocommit() {
            let undone = self.control(shared, "ROLLBACK");
            result = result.and_then(|count| undone.map(|()| count));
        }
        self.waited.during(|| shared.copy_if_long(&self.conn));
        // Not acknowledged, if there is no file any more that holds it.
        result.and_then(|count| shared.check_file().map(|()| count))
    }

    /// Waits for the write lock; from then on others wait for this statement.
    fn take_lock<'a>(&self, shared: &'a Shared) -> Result<Held<'a>, DbError> {
        let patience_ms = self.budget.time_ms;
        let patience = Duration::from_millis(u64::from(patience_ms));
        if !self.waited.during(|| shared.lock.acquire(Writer::Guest, patience)) {
            shared.reporter.stats.db_lock_timeouts.up();
            return Err(DbError::Limit {
                what: format!("other transactions took longer than {patience_ms} ms"),
                setting: "runtime.sql_budget_ms",
            });
        }
        self.meter.hold(&self.budget);
        Ok(Held(&shared.lock))
    }

    /// Takes the rows out of tables that are to be dropped, one by one: dropping frees all pages of
    /// a table in a single step, which cannot be stopped.
    fn empty(&self, shared: &Shared, drops: &[String]) -> Result<(), DbError> {
        // Judged by itself now: not as part of the drop, where all rows go at once.
        self.rules.forget();
        for table in drops {
            let sql = format!("DELETE FROM main.\"{}\"", table.replace('"', "\"\""));
            let emptied = self.conn.prepare(&sql).and_then(|mut statement| statement.raw_execute());
            emptied.map_err(|error| self.sort(shared, &error))?;
        }
        Ok(())
    }

    /// Refuses to free an index that is too large to be freed within what others may have to
    /// wait: SQLite does that in a single step, which nothing stops.
    fn check_freed(&self, shared: &Shared, indexes: Vec<String>) -> Result<(), DbError> {
        const COUNT: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM dbstat WHERE name = ?1 LIMIT ?2)";
        let pages_max = i64::from(self.budget.write_ms) * FREED_PAGES_PER_MS;
        for index in indexes {
            let counted = self.rules.as_server(|| {
                let params = rusqlite::params![index, pages_max + 1];
                self.conn.query_row(COUNT, params, |row| row.get::<_, i64>(0))
            });
            if counted.map_err(|error| self.sort(shared, &error))? > pages_max {
                shared.reporter.stats.sql_over_limit.up();
                return Err(DbError::Limit {
                    what: format!(
                        "the index {index} has more than {pages_max} pages, which are freed in \
                         one step that keeps others waiting: drop it while modules load, or"
                    ),
                    setting: "runtime.sql_write_budget_ms",
                });
            }
        }
        Ok(())
    }

    fn begin(&self, shared: &Shared) -> Result<(), DbError> {
        let run = self.rules.as_server(|| {
            let begin = || self.conn.prepare("BEGIN IMMEDIATE")?.raw_execute();
            self.waited.during(|| shared.patience.take(&self.conn, begin))
        });
        run.map(drop).map_err(|error| self.sort(shared, &error))
    }

    fn step(
        &self,
        shared: &Shared,
        statement: &mut Statement<'_>,
        each: Option<Each<'_>>,
    ) -> Result<u64, DbError> {
        let sort = |error: &rusqlite::Error| self.sort(shared, error);
        let Some(each) = each else {
            let changed = statement.raw_execute().map_err(|error| sort(&error))?;
            return Ok(u64::try_from(changed).unwrap_or(u64::MAX));
        };
        let names: usize = statement.column_names().map(str::len).sum();
        let row_bytes = names + statement.column_count() * CELL_BYTES;
        let columns = statement.column_count();
        let (mut rows, mut count, mut bytes) = (statement.raw_query(), 0, 0);
        while let Some(row) = rows.next().map_err(|error| sort(&error))? {
            let row = SqliteRow(row);
            count += 1;
            bytes += row_bytes + (0..columns).map(|column| row.bytes(column)).sum::<usize>();
            self.check_answer(count, bytes).inspect_err(|_| {
                shared.reporter.stats.sql_over_limit.up();
            })?;
            each(&row);
        }
        Ok(0)
    }

    fn check_answer(&self, rows: usize, bytes: usize) -> Result<(), DbError> {
        let GuestBudget { rows_max, answer_bytes_max, .. } = self.budget;
        let (what, setting) = if rows > rows_max {
            (
                format!("more than {rows_max} rows: take a LIMIT, or count in SQL"),
                "runtime.sql_rows_max",
            )
        } else if bytes > answer_bytes_max {
            (format!("more than {answer_bytes_max} bytes"), "runtime.sql_answer_max_bytes")
        } else {
            return Ok(());
        };
        Err(DbError::Limit { what, setting })
    }

    /// Runs a statement about the transaction itself.
    fn control(&self, shared: &Shared, sql: &str) -> Result<(), DbError> {
        // Not kept: a script could name it and would be given it without being judged.
        let run = self
            .rules
            .as_server(|| self.conn.prepare(sql).and_then(|mut statement| statement.raw_execute()));
        run.map(drop).map_err(|error| self.sort(shared, &error))
    }

    fn sort(&self, shared: &Shared, error: &rusqlite::Error) -> DbError {
        let code = error.sqlite_error_code();
        match self.rules.refusal() {
            Some(why) if code == Some(ErrorCode::AuthorizationForStatementDenied) => {
                shared.reporter.stats.sql_refused.up();
                DbError::Statement(why)
            }
            _ => shared.reporter.guest(error, &self.budget),
        }
    }
}
