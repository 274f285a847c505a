//! What a ramp is asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::gate::{BadGate, Gate};
use crate::games::query::Query;
use crate::measure::processors::cpus;

/// Repeats of every number of servers, at most.
const REPEATS_MAX: u32 = 100;
/// Players on one server, at most.
const PLAYERS_MAX: u32 = 1_000;
/// Datagrams a second of one player, at most.
const RATE_HZ_MAX: f64 = 1_000.0;
/// Shortest and longest time of a step that counts.
const SPAN: [Duration; 2] = [Duration::from_secs(1), Duration::from_hours(1)];
/// Threads of players, at most.
const THREADS_MAX: usize = 64;

/// A ramp.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the servers answer, and with it who can play there.
    pub query: Query,
    /// The server's table in its file, and its wall, for the result.
    pub server: String,
    /// Likewise.
    pub wall: String,
    /// Players on each, where we have some.
    pub players: u32,
    /// Players that each has to tell of before it counts: bots of its own.
    pub bots: u32,
    /// Datagrams a second of each player.
    pub rate_hz: f64,
    /// Length of a tick, of servers that do not say it.
    pub tick: Option<Duration>,
    /// What has to hold.
    pub gate: Gate,
    /// Time that counts of each step, and of the controls between.
    pub span: Duration,
    /// Likewise.
    pub control: Duration,
    /// Time before it in which all play already.
    pub warm_up: Duration,
    /// Time for servers and players to be there.
    pub patience: Duration,
    /// How often every number is measured.
    pub repeats: u32,
    /// Servers, at most.
    pub most: u32,
    /// The numbers of servers; the usual ones if there are none.
    pub steps: Vec<u32>,
    /// Order of the repeats, and what players do.
    pub seed: u64,
    /// Threads that play.
    pub threads: usize,
    /// Their processors; any if there are none.
    pub cores: Vec<usize>,
    /// Whether they go before all ordinary threads.
    pub is_realtime: bool,
    /// By how much a control may differ from the one before, as a part of a tick.
    pub drift: f64,
    /// Part of the processors' time that somebody else may take from this machine.
    pub steal: f64,
    /// How late players may send themselves, as a part of a tick at the 99th percentile.
    pub late: f64,
    /// What an hour of this machine costs.
    pub price: Option<f64>,
    /// Watts of an idle and of a busy processor, for the model.
    pub watts: Option<[f64; 2]>,
    /// Ends it when it is set; what was measured until then is kept.
    pub stop: Arc<AtomicBool>,
}

/// Why it cannot be done so.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The gate.
    #[error("--gate: {0}")]
    Gate(BadGate),
    /// A number.
    #[error("--{flag}: {what}")]
    Wrong {
        /// The flag.
        flag: &'static str,
        /// What is wrong, and what to write.
        what: String,
    },
}

// Not a source: who prints those as well would say it twice.
impl From<BadGate> for PlanError {
    fn from(error: BadGate) -> Self {
        Self::Gate(error)
    }
}

impl Plan {
    /// Of servers of a kind, with what is usual for them.
    #[must_use]
    pub fn usual(query: Query) -> Self {
        let has_players = matches!(query, Query::Throng | Query::Teeworlds);
        Self {
            query,
            server: String::new(),
            wall: String::new(),
            players: if has_players { 12 } else { 0 },
            bots: 0,
            rate_hz: if query == Query::Teeworlds { 50.0 } else { 30.0 },
            tick: None,
            gate: Gate::usual(query),
            span: Duration::from_secs(20),
            control: Duration::from_secs(10),
            warm_up: Duration::from_secs(3),
            patience: Duration::from_mins(3),
            repeats: 3,
            most: 256,
            steps: Vec::new(),
            seed: 1,
            threads: 1,
            cores: Vec::new(),
            is_realtime: false,
            drift: 0.02,
            steal: 0.005,
            late: 0.10,
            price: None,
            watts: None,
            stop: Arc::default(),
        }
    }

    /// Between two datagrams of a player.
    pub(super) fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rate_hz.max(1e-3))
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |flag, what: String| Err(PlanError::Wrong { flag, what });
        self.gate.check(self.query)?;
        let has_players = matches!(self.query, Query::Throng | Query::Teeworlds);
        if has_players && !(1..=PLAYERS_MAX).contains(&self.players) {
            return wrong("players", format!("1 to {PLAYERS_MAX}"));
        }
        if !has_players && self.players > 0 {
            return wrong(
                "players",
                "nobody here can play there: the servers' own bots do, --bots N waits for them"
                    .to_owned(),
            );
        }
        if !has_players && self.tick.is_none() {
            return wrong("tick", "such servers do not say it: 50ms for sv_fps 20".to_owned());
        }
        if self.tick.is_some_and(|it| it.is_zero()) {
            return wrong("tick", "longer than nothing".to_owned());
        }
        if !(1.0..=RATE_HZ_MAX).contains(&self.rate_hz) {
            return wrong("rate", format!("1 to {RATE_HZ_MAX} datagrams a second"));
        }
        for (flag, span) in [("span", self.span), ("control", self.control)] {
            if !(SPAN[0]..=SPAN[1]).contains(&span) {
                return wrong(flag, "1s to 1h".to_owned());
            }
        }
        if !(1..=REPEATS_MAX).contains(&self.repeats) {
            return wrong("repeats", format!("1 to {REPEATS_MAX}"));
        }
        if let Some(step) = self.steps.iter().find(|it| !(1..=self.most).contains(*it)) {
            return wrong("steps", format!("{step} servers: 1 to {} (--most)", self.most));
        }
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return wrong("threads", format!("1 to {THREADS_MAX}"));
        }
        let here = cpus();
        if let Some(core) = self.cores.iter().find(|it| !here.contains(it)) {
            return wrong("cores", format!("there is no processor {core} for this program"));
        }
        if self.watts.is_some_and(|[idle, full]| !(0.0 <= idle && idle <= full && full < 1e6)) {
            return wrong("watts", "IDLE,BUSY of one processor, such as 0.45,2.02".to_owned());
        }
        if self.price.is_some_and(|it| !(0.0..1e9).contains(&it)) {
            return wrong("price", "what an hour of this machine costs, such as 0.10".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Plan, Query};

    #[test]
    fn what_cannot_be_done_is_said_before() {
        let usual = || Plan::usual(Query::Throng);
        assert!(usual().check().is_ok() && Plan::usual(Query::Teeworlds).check().is_ok());
        let quake = || Plan { tick: Some(Duration::from_millis(50)), ..Plan::usual(Query::Quake3) };
        assert!(quake().check().is_ok());
        for (plan, flag) in [
            (Plan { players: 0, ..usual() }, "--players"),
            (Plan { players: 3, ..quake() }, "--players"),
            (Plan { tick: None, ..quake() }, "--tick"),
            (Plan { rate_hz: 0.0, ..usual() }, "--rate"),
            (Plan { span: Duration::ZERO, ..usual() }, "--span"),
            (Plan { repeats: 0, ..usual() }, "--repeats"),
            (Plan { steps: vec![300], ..usual() }, "--steps"),
            (Plan { threads: 0, ..usual() }, "--threads"),
            (Plan { cores: vec![9_999], ..usual() }, "--cores"),
            (Plan { watts: Some([2.0, 1.0]), ..usual() }, "--watts"),
            (Plan { price: Some(-1.0), ..usual() }, "--price"),
            (Plan { gate: Plan::usual(Query::Throng).gate, ..quake() }, "--gate"),
        ] {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(flag), "{flag}: {error}");
        }
    }
}
