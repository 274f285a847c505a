//! What a script's statement may name. SQLite asks while it prepares a statement, for everything
//! that the statement would do, triggers and views included (`sqlite3_set_authorizer`).
//!
//! Refused are: transactions and settings, files, temporary and virtual tables, functions whose
//! time cannot be bounded, and changes to the server's own tables. Passwords read as NULL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use game::schema::SECRETS;
use rusqlite::hooks::{AuthAction, Authorization};

use crate::functions::REFUSED;
use crate::own::OwnTables;

const TRANSACTIONS: &str =
    "transactions and savepoints are not for scripts: every statement is one of its own";
const SETTINGS: &str = "PRAGMA, ATTACH, DETACH, VACUUM and ANALYZE are not for scripts";
const TEMPORARY: &str = "temporary tables, views and triggers are not for scripts: the next call \
    may run on another connection";
const VIRTUAL: &str = "virtual tables are not for scripts";

/// Judges one connection's statements.
#[derive(Debug)]
pub(crate) struct Rules {
    own: Arc<OwnTables>,
    opens_own: bool,
    /// Whether the statement being prepared is the server's.
    is_server: AtomicBool,
    notes: Mutex<Notes>,
}

/// What was noticed while the last statement was prepared.
#[derive(Debug, Default)]
struct Notes {
    refusal: Option<String>,
    drops: Vec<String>,
    frees: Vec<String>,
}

impl Rules {
    pub(crate) fn new(own: Arc<OwnTables>, opens_own: bool) -> Self {
        Self { own, opens_own, is_server: AtomicBool::new(false), notes: Mutex::default() }
    }

    /// Before another statement is prepared.
    pub(crate) fn forget(&self) {
        *self.notes() = Notes::default();
    }

    /// The tables that the statement drops.
    pub(crate) fn drops(&self) -> Vec<String> {
        self.notes().drops.clone()
    }

    /// The indexes that the statement frees in one step: those that it drops or makes anew.
    pub(crate) fn frees(&self) -> Vec<String> {
        self.notes().frees.clone()
    }

    /// Why the statement was refused, if it was.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.notes().refusal.clone()
    }

    /// Lets `act` prepare what scripts may not.
    pub(crate) fn as_server<T>(&self, act: impl FnOnce() -> T) -> T {
        self.is_server.store(true, Ordering::Relaxed);
        let done = act();
        self.is_server.store(false, Ordering::Relaxed);
        done
    }

    /// Whether one thing that a statement would do is allowed.
    pub(crate) fn judge(&self, action: &AuthAction<'_>) -> Authorization {
        if self.is_server.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        if let Some(why) = self.refuses(action) {
            self.notes().refusal.get_or_insert(why);
            return Authorization::Deny;
        }
        match *action {
            AuthAction::Read { table_name, column_name }
                if self.is_secret(table_name, column_name) =>
            {
                Authorization::Ignore
            }
            AuthAction::DropTable { table_name } => {
                self.notes().drops.push(table_name.to_owned());
                Authorization::Allow
            }
            AuthAction::DropIndex { index_name, .. } | AuthAction::Reindex { index_name } => {
                self.notes().frees.push(index_name.to_owned());
                Authorization::Allow
            }
            // Deleting all rows would be one step that cannot be stopped; "ignore" means row by
            // row here. SQLite asks the same before it drops a table, and of its own tables, where
            // it would mean to do nothing.
            AuthAction::Delete { table_name }
                if !is_sqlites(table_name)
                    && !self.notes().drops.iter().any(|dropped| dropped == table_name) =>
            {
                Authorization::Ignore
            }
            _ => Authorization::Allow,
        }
    }

    fn refuses(&self, action: &AuthAction<'_>) -> Option<String> {
        let why = match *action {
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                TRANSACTIONS.to_owned()
            }
            AuthAction::Pragma { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::Analyze { .. }
            | AuthAction::Unknown { .. } => SETTINGS.to_owned(),
            AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropTempView { .. } => TEMPORARY.to_owned(),
            AuthAction::CreateVtable { .. } | AuthAction::DropVtable { .. } => VIRTUAL.to_owned(),
            // It reads the whole database in a single step.
            AuthAction::Read { table_name: "dbstat", .. } => VIRTUAL.to_owned(),
            AuthAction::Function { function_name } => {
                let is_refused =
                    REFUSED.iter().any(|name| name.eq_ignore_ascii_case(function_name));
                is_refused
                    .then(|| format!("the SQL function {function_name} is not for scripts"))?
            }
            AuthAction::Insert { table_name }
            | AuthAction::Update { table_name, .. }
            | AuthAction::Delete { table_name }
            | AuthAction::DropTable { table_name }
            | AuthAction::AlterTable { table_name, .. }
            | AuthAction::CreateIndex { table_name, .. }
            | AuthAction::DropIndex { table_name, .. }
            | AuthAction::CreateTrigger { table_name, .. }
            | AuthAction::DropTrigger { table_name, .. } => {
                let is_own = (self.own.has(table_name) && !self.opens_own)
                    || table_name.starts_with("sqlite_stat");
                is_own.then(|| {
                    format!(
                        "the table {table_name} is the server's own and cannot be changed by SQL \
                         (runtime.sql_write_own_tables)"
                    )
                })?
            }
            // Asked when an index is made, too.
            AuthAction::Reindex { index_name } => {
                let is_own = self.own.has_index(index_name) && !self.opens_own;
                is_own.then(|| format!("the index {index_name} is the server's own"))?
            }
            AuthAction::Read { .. }
            | AuthAction::Select
            | AuthAction::Recursive
            | AuthAction::CreateTable { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::DropView { .. } => return None,
            _ => SETTINGS.to_owned(),
        };
        Some(why)
    }

    fn is_secret(&self, table: &str, column: &str) -> bool {
        let same = |(secret_table, secret_column): &(&str, &str)| {
            secret_table.eq_ignore_ascii_case(table) && secret_column.eq_ignore_ascii_case(column)
        };
        !self.opens_own && SECRETS.iter().any(same)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_sqlites(table: &str) -> bool {
    table.len() > 7 && table.is_char_boundary(7) && table[..7].eq_ignore_ascii_case("sqlite_")
}
