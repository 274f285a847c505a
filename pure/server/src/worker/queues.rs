//! What each kind of worker does with the jobs that wait for it.
//!
//! * The batcher runs what has come in one transaction: at most [`BATCH_CALLS_MAX`] calls and about
//!   [`BATCH_MS_MAX`], then it commits, answers and looks into its mailbox. What is left takes
//!   turns by user. Calls that are much work, such as a write of many objects or large ones, have
//!   batches of their own, of [`HEAVY_BATCH_ROWS`], which take turns with the others': whoever
//!   registers waits for one of them, however many users send such calls.
//! * A caller has one job at a time; who is next its cores decide (`core::dispatch`). A companion's
//!   calls that have had a slice have the next one in turns (`companion`).
//!   Functions that guests wait for are in these batches as calls of clients are, by the same rules.
//! * The hasher looks at one password at a time, the users and addresses in turns, and at none of
//!   an account or address that was wrong too often.

use event::{Allowed, Attempts, Now};
use game::account;
use game::api::ApiCall;
use game::error::{ApiError, Code};
use uuid::Uuid;

use super::Worker;
use super::shipped::Task;
use crate::limits::{Limit, client_text};
use crate::mail::{Job, Outcome, Work, WorkerAddress};
use crate::settings::LimitSettings;

/// Calls in one transaction.
const BATCH_CALLS_MAX: usize = 1_024;
/// Milliseconds after which a batch takes no more calls: a tenth of what a neighbour may wait.
const BATCH_MS_MAX: u64 = 25;
/// So few calls are run as they came, because none of them waits long for the others.
const UNSORTED_MAX: usize = 64;

/// Calls of so many rows ([`ApiCall::weight_rows`]) or more are much work: about a millisecond, as
/// long as thirty registrations.
pub(super) const HEAVY_ROWS_MIN: usize = 32;
/// A batch of such calls begins no other one once it has had so many rows: a quarter of what one
/// call may have, because nobody but their senders gains by a longer one.
const HEAVY_BATCH_ROWS: usize = 256;

/// Wrong passwords of late.
#[derive(Debug)]
pub(super) struct Guesses {
    accounts: Attempts,
    addresses: Attempts,
}

impl Guesses {
    pub(super) fn new(limits: &LimitSettings) -> Self {
        Self {
            accounts: Attempts::new(Allowed {
                failures: limits.password_attempts_per_account,
                period_s: limits.password_lockout_account_s,
            }),
            addresses: Attempts::new(Allowed {
                failures: limits.password_attempts_per_address,
                period_s: limits.password_lockout_address_s,
            }),
        }
    }

    /// The limit that stands against another try, and for how many seconds more.
    fn limit_met(&self, now: Now, account: u128, client: u128) -> Option<(Limit, u32)> {
        if let Some(left_s) = self.accounts.locked_s(now, account) {
            return Some((Limit::PasswordAttemptsPerAccount, left_s));
        }
        let left_s = self.addresses.locked_s(now, client)?;
        Some((Limit::PasswordAttemptsPerAddress, left_s))
    }

    /// Notes what came of a try. An unknown account counts against the address alone, as in Nakama.
    fn note(&mut self, now: Now, account: u128, client: u128, error: Option<&ApiError>) {
        match error.map(|error| error.code) {
            None => self.accounts.succeed(account),
            Some(Code::Unauthenticated) => {
                self.accounts.fail(now, account);
                self.addresses.fail(now, client);
            }
            Some(Code::NotFound) => self.addresses.fail(now, client),
            Some(_) => {}
        }
    }
}

/// Email address and username of the login with a password, where there is one.
fn login_of(work: &Work) -> Option<(&str, &str)> {
    let call = match work {
        Work::Api(call) => &**call,
        Work::Hooked(hooked) => &hooked.call,
        _ => return None,
    };
    match call {
        ApiCall::AuthenticateEmail(login) => {
            let email = login.account.as_ref().map_or("", |account| &account.email);
            Some((email, &login.username))
        }
        _ => None,
    }
}

/// The account that a password is tried for, as a number; `None` where none is tried.
fn account_of(work: &Work) -> Option<u128> {
    let (email, username) = login_of(work)?;
    let name = if email.is_empty() { username } else { email };
    Some(Uuid::new_v5(&Uuid::NAMESPACE_DNS, name.to_lowercase().as_bytes()).as_u128())
}

impl Worker {
    /// Whether jobs wait here.
    pub(super) fn has_more(&self) -> bool {
        let has_new = self.has_light() || !self.heavy.is_empty() || self.has_events();
        let has_old = !self.again.is_empty() || self.waiting.has_answered();
        has_new || has_old || self.rereads_revoked || !self.paused.is_empty()
    }

    /// Whether the thread of events has something to do.
    fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.rules.is_empty()
    }

    /// Whether jobs wait here that are little work.
    fn has_light(&self) -> bool {
        !self.incoming.is_empty() || !self.queue.is_empty()
    }

    /// One more for the batcher.
    pub(super) fn take_in(&mut self, task: Task) {
        if task.weight_rows() < HEAVY_ROWS_MIN {
            self.incoming.push_back(task);
        } else {
            self.heavy.push(task.line(), task);
        }
    }

    /// Does what waits, as much as one turn may take.
    pub(super) fn run_waiting(&mut self, now: Now) {
        self.reread_revoked();
        if self.run_again(now) {
            return;
        }
        match self.me {
            WorkerAddress::Batcher(_) => {
                let is_heavys =
                    !self.heavy.is_empty() && (self.is_others_turn || !self.has_light());
                if is_heavys {
                    self.run_heavy(now);
                } else {
                    self.run_batch(now);
                }
                self.is_others_turn = !is_heavys;
            }
            WorkerAddress::Hasher(_) => self.hash_next(now),
            WorkerAddress::Events(_) => {
                let is_rules =
                    !self.rules.is_empty() && (!self.is_others_turn || self.events.is_empty());
                if is_rules {
                    self.run_rule(now);
                } else {
                    self.run_event(now);
                }
                self.is_others_turn = is_rules;
            }
            WorkerAddress::Caller(_) => self.run_paused(now),
        }
    }

    fn run_heavy(&mut self, now: Now) {
        let began_ms = (self.resources.unix_ms)();
        let mut rows = 0;
        while rows < HEAVY_BATCH_ROWS
            && (self.resources.unix_ms)().saturating_sub(began_ms) < BATCH_MS_MAX
            && let Some(task) = self.heavy.pop()
        {
            rows += task.weight_rows();
            self.jobs_in_batch += 1;
            self.run_task(now, task);
        }
        self.stats.db_batches_heavy.up();
        if !self.heavy.is_empty() {
            self.stats.db_batches_cut.up();
        }
    }

    fn run_batch(&mut self, now: Now) {
        if self.incoming.len() + self.queue.len() > 1 {
            // One look at the database for all reads of the batch, until the first write.
            let _ = self.resources.db.begin_reading();
        }
        let is_sorted = !self.queue.is_empty() || self.incoming.len() > UNSORTED_MAX;
        if is_sorted {
            self.sort_incoming();
        }
        let began_ms = (self.resources.unix_ms)();
        for _ in 0..BATCH_CALLS_MAX {
            let next = if is_sorted { self.queue.pop() } else { self.incoming.pop_front() };
            let Some(task) = next else { break };
            self.jobs_in_batch += 1;
            self.run_task(now, task);
            if (self.resources.unix_ms)().saturating_sub(began_ms) >= BATCH_MS_MAX {
                break;
            }
        }
        self.sort_incoming();
        if !self.queue.is_empty() {
            self.stats.db_batches_cut.up();
        }
    }

    fn sort_incoming(&mut self) {
        for task in self.incoming.drain(..) {
            self.queue.push(task.line(), task);
        }
    }

    fn hash_next(&mut self, now: Now) {
        let job = match self.queue.pop() {
            None => return,
            Some(Task::Call(call)) => return self.run_call(now, call),
            Some(Task::Zone(_)) => unreachable!("the batcher keeps the zone"),
            Some(Task::Job(job)) => job,
        };
        let Some(account) = account_of(&job.work) else { return self.run(now, job) };
        let client = job.client;
        if let Some((limit, left_s)) = self.guesses.limit_met(now, account, client) {
            return self.refuse_password(now, &job, limit, left_s);
        }
        let core = job.address.core;
        self.run(now, job);
        let done = self.done.iter().find(|(to, _)| *to == core).and_then(|(_, list)| list.last());
        match done.map(|done| &done.outcome) {
            Some(Outcome::Api(outcome)) => {
                self.guesses.note(now, account, client, outcome.as_ref().err());
            }
            // The after-hook comes next.
            Some(Outcome::Next(_)) => self.guesses.note(now, account, client, None),
            _ => {}
        }
    }

    fn refuse_password(&mut self, now: Now, job: &Job, limit: Limit, left_s: u32) {
        match limit {
            Limit::PasswordAttemptsPerAccount => {
                self.stats.limited_password_attempts_per_account.up();
            }
            Limit::PasswordAttemptsPerAddress => {
                self.stats.limited_password_attempts_per_address.up();
            }
            other => unreachable!("{other:?} is no limit of passwords"),
        }
        let refusal = limit.refusal_for(&self.settings.limits, left_s);
        // Once a second at most: whoever tries on must not cost a query of the database each time.
        self.limit_log.hit_by(now, limit.setting(), || {
            // Who is meant an operator has to find: the id, because an email address is nobody's
            // business.
            let user_id = login_of(&job.work).and_then(|(email, username)| {
                account::id_of_login(&mut *self.resources.db, email, username).ok().flatten()
            });
            let user =
                user_id.map_or_else(|| "an unknown account".into(), |id| format!("user {id}"));
            let (from, message) = (client_text(job.client), &refusal.message);
            format!("a login of {user} from {from} is refused: {message}")
        });
        let of = (job.queue, job.address.conn, job.stream, None);
        self.answer((job.address.core, job.group), of, Outcome::Api(Err(refusal)));
    }
}
