//! Counters of the database, shared by all its connections and read by `/metrics`. Several threads
//! add to each.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter as `/metrics` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSample {
    /// Name without the configured prefix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Its value.
    pub value: u64,
}

/// A number that any thread may raise.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn up(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// What has happened in the database since the start.
        #[derive(Debug, Default)]
        pub struct StoreStats {
            $($(#[doc = $help])+ pub(crate) $name: Count,)+
        }

        impl StoreStats {
            /// All counters.
            #[must_use]
            pub fn samples(&self) -> Vec<StoreSample> {
                vec![$(StoreSample {
                    name: stringify!($name),
                    help: concat!($($help),+).trim_ascii(),
                    value: self.$name.0.load(Ordering::Relaxed),
                },)+]
            }
        }
    };
}

counters! {
    /// SQL statements of scripts run.
    sql_statements,
    /// SQL statements of scripts stopped because their time was over.
    sql_out_of_time,
    /// SQL statements of scripts stopped because they read or wrote too much.
    sql_over_limit,
    /// SQL statements of scripts refused because they touch what is the server's own.
    sql_refused,
    /// Rows of tables that SQL statements of scripts read one after the other, where no index led to them.
    sql_rows_scanned,
    /// Failures of the database: the disk, a damaged file, a table that is not there.
    db_errors,
    /// Transactions not begun because others held the database for too long.
    db_lock_timeouts,
    /// Transactions not begun because another process held the database.
    db_busy,
    /// Statements that failed because another writer was in the way.
    db_conflicts,
    /// Jobs run once more because another writer was in the way.
    db_retries,
    /// Transactions of scripts that joined the commit of the one before.
    db_commits_grouped,
    /// Such commits made because they had kept others from writing for long enough.
    db_groups_cut,
    /// Times that the disk was waited for, so that what was committed until then is durable.
    db_syncs,
    /// Times that the log was copied back into the database's file.
    db_checkpoints,
    /// Calls refused because the database's file was deleted or replaced.
    db_file_missing,
}
