//! The thread of requests: takes orders, keeps count of who has how many, and posts outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Now, OncePerSecond, ThreadId};
use game::fetch::{FetchAnswer, FetchFailed, FetchPayer, FetchRequest, Principal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinSet};

use crate::carry::Carrier;
use crate::error::{Class, FetchError, Progress};
use crate::seats::take_one;
use crate::{Outcome, Post};

/// How often a full mailbox is tried again, and for how long.
const POST_AGAIN: Duration = Duration::from_millis(10);
const POST_TRIES_MAX: u32 = 1_000;

/// Whose request, and which.
type Key = (ThreadId, u64);

/// What threads want.
#[derive(Debug)]
pub(crate) enum Order {
    Start { key: Key, payer: FetchPayer, request: FetchRequest },
    Cancel { thread: ThreadId, ticket: u64 },
    Stop,
}

/// What a request came to.
type Carried = Result<FetchAnswer, FetchError>;

/// A request that is under way or waits.
struct Running {
    key: Key,
    payer: FetchPayer,
    task: AbortHandle,
}

/// The state of the thread.
pub(crate) struct Desk {
    carrier: Arc<Carrier>,
    post: Arc<Post>,
    tasks: JoinSet<(u64, Carried)>,
    /// Outcomes for which there was no room yet.
    unposted: JoinSet<()>,
    /// Requests by numbers of their own.
    running: BTreeMap<u64, Running>,
    started: u64,
    tickets: BTreeMap<Key, u64>,
    payers: BTreeMap<Principal, usize>,
    /// The same of addresses, of which limits hold.
    clients: BTreeMap<u128, usize>,
    /// How many all matches have.
    of_matches: usize,
    is_stopping: bool,
    log: OncePerSecond,
    began: Instant,
}

impl Desk {
    pub(crate) fn new(carrier: Carrier, post: Arc<Post>) -> Self {
        Self {
            carrier: Arc::new(carrier),
            post,
            tasks: JoinSet::new(),
            unposted: JoinSet::new(),
            running: BTreeMap::new(),
            started: 0,
            tickets: BTreeMap::new(),
            payers: BTreeMap::new(),
            clients: BTreeMap::new(),
            of_matches: 0,
            is_stopping: false,
            log: OncePerSecond::default(),
            began: Instant::now(),
        }
    }

    /// Serves until nobody is left who could order.
    pub(crate) async fn serve(mut self, mut orders: UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Start { key, payer, request }) => self.start(key, payer, request),
                    Some(Order::Cancel { thread, ticket }) => self.cancel((thread, ticket)),
                    Some(Order::Stop) => self.stop(),
                    None => return,
                },
                // One that was cancelled is not there any more, and nobody waits for it.
                Some(ended) = self.tasks.join_next() => if let Ok((id, carried)) = ended
                    && let Some(key) = self.leave(id)
                {
                    self.deliver(key, carried);
                },
                Some(_) = self.unposted.join_next() => {}
            }
        }
    }

    fn start(&mut self, key: Key, payer: FetchPayer, request: FetchRequest) {
        let stats = &self.carrier.stats;
        stats.fetch_requests.up();
        if let Err(error) = self.admit(payer, &request) {
            self.tell(payer.principal, &error);
            return self.deliver(key, Err(error));
        }
        stats.fetch_requests_now.up();
        self.started += 1;
        let id = self.started;
        let before = self.tickets.insert(key, id);
        assert!(before.is_none(), "ticket {} of thread {} is used twice", key.1, key.0.0);
        *self.payers.entry(payer.principal).or_default() += 1;
        self.of_matches += usize::from(is_match(payer.principal));
        if let Some(client) = payer.client {
            *self.clients.entry(client).or_default() += 1;
        }
        let carrier = Arc::clone(&self.carrier);
        let task = self.tasks.spawn(async move { (id, in_time(&carrier, payer, request).await) });
        self.running.insert(id, Running { key, payer, task });
    }

    /// Whether there is room for one more, and it may wait as long as it wants.
    fn admit(&self, payer: FetchPayer, request: &FetchRequest) -> Result<(), FetchError> {
        if self.is_stopping {
            return Err(FetchError::Stopping);
        }
        let settings = &self.carrier.settings;
        let most_ms = settings.timeout_max_ms;
        if request.timeout_ms > most_ms {
            return Err(FetchError::LongTimeout { wanted_ms: request.timeout_ms, most_ms });
        }
        let room = settings.requests_max + settings.waiting_max;
        let FetchPayer { principal, client } = payer;
        let has = self.payers.get(&principal).copied().unwrap_or(0);
        match principal {
            Principal::Server if has >= room.div_ceil(2) => {
                return Err(FetchError::Waiting { most: settings.waiting_max });
            }
            Principal::User(_) | Principal::Address(_) | Principal::Match(_)
                if has >= settings.requests_per_user =>
            {
                let most = settings.requests_per_user;
                return Err(FetchError::PerUser { payer: principal.to_string(), most });
            }
            // A player makes as many as may be made, and they cost no account.
            Principal::Match(_) if self.of_matches >= room.div_ceil(2) => {
                return Err(FetchError::Waiting { most: settings.waiting_max });
            }
            _ => {}
        }
        let client_has = client.and_then(|client| self.clients.get(&client)).copied();
        if client_has.unwrap_or(0) >= settings.requests_per_address {
            return Err(FetchError::PerAddress { most: settings.requests_per_address });
        }
        if self.running.len() >= room {
            return Err(FetchError::Waiting { most: settings.waiting_max });
        }
        Ok(())
    }

    fn cancel(&mut self, key: Key) {
        let Some(id) = self.tickets.get(&key).copied() else { return };
        if let Some(running) = self.running.get(&id) {
            running.task.abort();
            self.carrier.stats.fetch_cancelled.up();
            self.leave(id);
        }
    }

    /// Gives everything up: whoever waits is told, now and from now on.
    fn stop(&mut self) {
        self.is_stopping = true;
        let all: Vec<u64> = self.running.keys().copied().collect();
        for id in all {
            if let Some(running) = self.running.get(&id) {
                running.task.abort();
            }
            if let Some(key) = self.leave(id) {
                self.deliver(key, Err(FetchError::Stopping));
            }
        }
    }

    /// Counts a request no more; who waits for it, if it was counted.
    fn leave(&mut self, id: u64) -> Option<Key> {
        let Running { key, payer, .. } = self.running.remove(&id)?;
        self.tickets.remove(&key);
        self.carrier.stats.fetch_requests_now.down();
        take_one(&mut self.payers, payer.principal);
        self.of_matches -= usize::from(is_match(payer.principal));
        if let Some(client) = payer.client {
            take_one(&mut self.clients, client);
        }
        Some(key)
    }

    /// Counts what came of a request and says it.
    fn deliver(&mut self, (thread, ticket): Key, carried: Carried) {
        let stats = &self.carrier.stats;
        match carried.as_ref().map_err(FetchError::class) {
            Ok(_) => stats.fetch_answered.up(),
            Err(Class::Refused) => stats.fetch_refused.up(),
            Err(Class::Limited) => stats.fetch_limited.up(),
            Err(Class::TooLarge) => stats.fetch_too_large.up(),
            Err(Class::TimedOut) => stats.fetch_timeouts.up(),
            Err(Class::Failed) => stats.fetch_failed.up(),
        }
        let result = carried.map_err(|error| FetchFailed(error.to_string()));
        self.mail(Outcome { thread, ticket, result });
    }

    /// Posts an outcome, later if there is no room now.
    fn mail(&mut self, outcome: Outcome) {
        let Err(outcome) = (self.post)(outcome) else { return };
        let (carrier, post) = (Arc::clone(&self.carrier), Arc::clone(&self.post));
        self.unposted.spawn(async move {
            let mut outcome = outcome;
            for _ in 0..POST_TRIES_MAX {
                tokio::time::sleep(POST_AGAIN).await;
                match post(outcome) {
                    Ok(()) => return,
                    Err(back) => outcome = back,
                }
            }
            carrier.stats.fetch_answers_dropped.up();
        });
    }

    /// What is beyond a limit is in the log once a second.
    fn tell(&mut self, payer: Principal, error: &FetchError) {
        let mono_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(others) = self.log.note(Now { mono_ns, unix_ms: 0 }, "limited") {
            tracing::warn!(others, "a request of a script ({payer}) was refused: {error}");
        }
    }
}

fn is_match(payer: Principal) -> bool {
    matches!(payer, Principal::Match(_))
}

/// Makes a request within the time that its script gave.
async fn in_time(carrier: &Carrier, payer: FetchPayer, request: FetchRequest) -> Carried {
    let timeout_ms = request.timeout_ms;
    let progress = Progress::default();
    let carried = carrier.carry(payer, request, &progress);
    match tokio::time::timeout(Duration::from_millis(timeout_ms), carried).await {
        Ok(result) => result,
        Err(_) => Err(FetchError::TimedOut { timeout_ms, phase: progress.take() }),
    }
}
