//! The network as threads with scripts have it: what they ask other servers is a list, and what comes of
//! it is what a test says.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use event::ThreadId;
use game::fetch::{Fetch, FetchAnswer, FetchFailed, FetchRequest, Principal};
use server::mail::{Fetched, Mail, Topology};

/// A request that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) thread: ThreadId,
    pub(crate) ticket: u64,
    pub(crate) payer: Principal,
    pub(crate) url: String,
}

impl Request {
    /// What came of it, as mail.
    pub(crate) fn outcome(
        &self,
        topology: &Topology,
        result: Result<&str, &str>,
    ) -> (ThreadId, Mail) {
        let answer = |text: &str| {
            let body = Bytes::copy_from_slice(text.as_bytes());
            FetchAnswer { code: 200, headers: Vec::new(), body }
        };
        let result = result.map(answer).map_err(|text| FetchFailed(text.to_owned()));
        let asker = topology.asker(self.thread).unwrap();
        asker.seal_fetched(topology, Fetched { number: self.ticket, result })
    }
}

#[derive(Debug)]
enum Order {
    Start(Request),
    Cancel(ThreadId, u64),
}

/// All requests.
pub(crate) struct Network {
    orders: Receiver<Order>,
    sender: Sender<Order>,
    running: RefCell<Vec<Request>>,
    cancelled: Cell<u64>,
}

impl Default for Network {
    fn default() -> Self {
        let (sender, orders) = channel();
        Self { orders, sender, running: RefCell::default(), cancelled: Cell::default() }
    }
}

impl Network {
    /// One thread's way to it.
    pub(crate) fn door(&self, thread: ThreadId) -> Box<dyn Fetch + Send> {
        Box::new(Door { thread, orders: self.sender.clone() })
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.look();
        self.running.borrow().len()
    }

    /// Takes one out.
    pub(crate) fn take(&self, index: usize) -> Request {
        self.look();
        self.running.borrow_mut().remove(index)
    }

    /// How many were given up before they were answered.
    pub(crate) fn cancelled(&self) -> u64 {
        self.look();
        self.cancelled.get()
    }

    fn look(&self) {
        let mut running = self.running.borrow_mut();
        for order in self.orders.try_iter() {
            match order {
                Order::Start(request) => {
                    let is_same = |other: &Request| {
                        (other.thread, other.ticket) == (request.thread, request.ticket)
                    };
                    assert!(!running.iter().any(is_same), "{request:?} twice");
                    running.push(request);
                }
                Order::Cancel(thread, ticket) => {
                    let before = running.len();
                    running.retain(|one| (one.thread, one.ticket) != (thread, ticket));
                    let gone = u64::try_from(before - running.len()).unwrap();
                    self.cancelled.set(self.cancelled.get() + gone);
                }
            }
        }
    }
}

struct Door {
    thread: ThreadId,
    orders: Sender<Order>,
}

impl Fetch for Door {
    fn start(&self, ticket: u64, payer: Principal, request: FetchRequest) {
        let FetchRequest { url, .. } = request;
        let request = Request { thread: self.thread, ticket, payer, url };
        self.orders.send(Order::Start(request)).unwrap();
    }

    fn wait(&self, _: Principal, request: FetchRequest) -> Result<FetchAnswer, FetchFailed> {
        panic!("{} is waited for", request.url);
    }

    fn cancel(&self, ticket: u64) {
        // What is dropped after the network asks for nothing any more.
        let _ = self.orders.send(Order::Cancel(self.thread, ticket));
    }
}
