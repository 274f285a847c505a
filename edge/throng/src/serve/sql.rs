//! What SQL statements of scripts may use (`runtime.sql_*`), by where the script runs. The database
//! keeps them to it (`edge/store`).

use game::db::GuestBudget;

use crate::config::Config;

/// What statements of scripts may use, by where the script runs.
pub(super) struct SqlBudgets {
    /// While modules load nobody waits for them yet.
    pub(super) loading: GuestBudget,
    pub(super) caller: GuestBudget,
    /// In a match: others wait for its callback.
    pub(super) room: GuestBudget,
}

impl SqlBudgets {
    pub(super) fn new(config: &Config) -> Self {
        let caller = config.runtime.sql;
        let load_ms = config.runtime.load_budget_ms;
        let room_ms = caller.time_ms.min(config.matches.callback_budget_ms);
        Self {
            loading: GuestBudget { time_ms: load_ms, write_ms: load_ms, ..caller },
            caller,
            room: GuestBudget { time_ms: room_ms, ..caller },
        }
    }
}
