//! Requests of scripts to other servers over HTTP/1.1 (`nk.http_request`), and whom they may reach.
//!
//! One thread for all of them: an asynchronous runtime, because most of what a request does is wait.
//! Threads that run scripts order through a [`Door`]; what comes of an order is handed to
//! [`Post`], which mails it back.
//!
//! ```text
//! script → thread → Door ─ order ─▶ desk ─▶ carry: names → addresses → TLS → HTTP ─▶ Post ─ mail ─▶ thread
//! ```
//!
//! Scripts do what clients say, sometimes too literally: which hosts (`target`) and which addresses
//! (`address`) may be reached is decided for every hop, and by default no address that only this
//! machine or its network can reach. What is deliberately not here: HTTP/2, proxies, cookies,
//! caches, connections that are kept, and content that is unpacked.

#![forbid(unsafe_code)]

mod address;
mod carry;
mod desk;
mod error;
mod head;
mod metered;
mod names;
mod seats;
mod stats;
mod target;
mod tls;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use event::{Network, ThreadId};
use game::fetch::{Fetch, FetchAnswer, FetchFailed, FetchPayer, FetchRequest};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use stats::{FetchSample, FetchStats};
pub use target::HostPattern;
pub use tls::TlsError;

use carry::Carrier;
use desk::{Desk, Order};

/// What requests may do; named as the settings `fetch.*`.
#[derive(Clone, Debug)]
pub struct FetchSettings {
    /// `fetch.allow`: hosts that may be asked.
    pub allow: Vec<HostPattern>,
    /// `fetch.deny`: of these, hosts that may not.
    pub deny: Vec<HostPattern>,
    /// `fetch.networks`: networks that may be reached although they are not public.
    pub networks: Vec<Network>,
    /// `fetch.requests_max`: requests at one time, at least 1.
    pub requests_max: usize,
    /// `fetch.requests_per_user`: of one user, waiting ones included, at least 1.
    pub requests_per_user: usize,
    /// `fetch.requests_per_address`: of all users of one address, at least 1.
    pub requests_per_address: usize,
    /// `fetch.requests_per_host`: to one port of a host, at least 1.
    pub requests_per_host: usize,
    /// `fetch.waiting_max`: requests that wait for a place.
    pub waiting_max: usize,
    /// `fetch.request_max_bytes`: of a request's content.
    pub request_bytes_max: usize,
    /// `fetch.answer_max_bytes`: of an answer's content.
    pub answer_bytes_max: usize,
    /// `fetch.memory_max_bytes`: of the contents of all requests and answers at one time.
    pub memory_bytes_max: usize,
    /// `fetch.connect_timeout_ms`: from a name to an encrypted connection, for each hop.
    pub connect_timeout_ms: u64,
    /// `fetch.timeout_max_ms`: the longest time that a script may give.
    pub timeout_max_ms: u64,
    /// `fetch.redirects_max`: 0 hands them to the script.
    pub redirects_max: u32,
    /// `fetch.downgrade`: whether a redirect may lead from https to http.
    pub allows_downgrade: bool,
    /// `fetch.insecure`: whether a script may ask for no check of certificates.
    pub allows_insecure: bool,
    /// `fetch.ca_file`: authorities that are trusted besides the machine's.
    pub ca_file: Option<PathBuf>,
}

/// What came of an order.
#[derive(Debug)]
pub struct Outcome {
    /// Whose.
    pub thread: ThreadId,
    /// Which, by the number that the thread gave.
    pub ticket: u64,
    /// The answer, or the text for the script.
    pub result: Result<FetchAnswer, FetchFailed>,
}

/// Mails an outcome to its thread; gives it back while there is no room.
pub type Post = dyn Fn(Outcome) -> Result<(), Outcome> + Send + Sync;

/// Why there can be no requests.
#[derive(Debug, thiserror::Error)]
pub enum FetchStartError {
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses a thread, or what it waits with.
    #[error("cannot start the thread of requests: {0}")]
    Thread(#[from] io::Error),
}

/// The thread of requests. It ends with the last handle and door; what is under way then is given up.
#[derive(Clone, Debug)]
pub struct Fetcher {
    orders: UnboundedSender<Order>,
    stats: Arc<FetchStats>,
}

impl Fetcher {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`FetchStartError`].
    pub fn start(settings: FetchSettings, post: Arc<Post>) -> Result<Self, FetchStartError> {
        let stats = Arc::new(FetchStats::default());
        let carrier = Carrier::new(settings, Arc::clone(&stats))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(names::LOOKUPS_MAX)
            .build()?;
        // As many orders as scripts have calls that wait, which are bounded.
        let (orders, received) = unbounded_channel();
        let desk = Desk::new(carrier, post);
        std::thread::Builder::new().name("fetch".to_owned()).spawn(move || {
            runtime.block_on(desk.serve(received));
            // A name server that does not answer keeps nobody from stopping.
            runtime.shutdown_background();
        })?;
        Ok(Self { orders, stats })
    }

    /// Gives all requests up, and refuses those that come: the server stops, and nobody is to wait.
    pub fn stop(&self) {
        // As for a door.
        let _ = self.orders.send(Order::Stop);
    }

    /// The way in for one thread.
    #[must_use]
    pub fn door(&self, thread: ThreadId) -> Door {
        Door { orders: self.orders.clone(), thread }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> Arc<FetchStats> {
        Arc::clone(&self.stats)
    }
}

/// One thread's way to order requests.
#[derive(Clone, Debug)]
pub struct Door {
    orders: UnboundedSender<Order>,
    thread: ThreadId,
}

impl Fetch for Door {
    fn start(&self, ticket: u64, payer: FetchPayer, request: FetchRequest) {
        // The thread lives as long as there is a door.
        let key = (self.thread, ticket);
        let _ = self.orders.send(Order::Start { key, payer, request });
    }

    fn cancel(&self, ticket: u64) {
        let _ = self.orders.send(Order::Cancel { thread: self.thread, ticket });
    }
}
