//! The network as threads with scripts have it: what they ask other servers is a list, and what comes of
//! it is what a test says.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use event::ThreadId;
use game::fetch::{Fetch, FetchAnswer, FetchFailed, FetchPayer, FetchRequest};
use server::mail::{Fetched, Mail, Topology};

/// A request that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Whose it is: a node, by its number, and a thread of it.
    pub(crate) node: usize,
    pub(crate) thread: ThreadId,
    pub(crate) ticket: u64,
    pub(crate) payer: FetchPayer,
    pub(crate) url: String,
}

impl Request {
    fn key(&self) -> Key {
        (self.node, self.thread, self.ticket)
    }

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

/// What a request is told from all others by: node, thread, ticket.
type Key = (usize, ThreadId, u64);

#[derive(Debug)]
enum Order {
    Start(Request),
    Cancel(Key),
}

/// All requests.
pub(crate) struct Network {
    orders: Receiver<Order>,
    sender: Sender<Order>,
    running: RefCell<Vec<Request>>,
    /// Of these, those whose server says nothing.
    silent: RefCell<Vec<Request>>,
    /// Given up before they were answered, and how many have been.
    given_up: RefCell<Vec<Request>>,
    cancelled: Cell<u64>,
}

impl Default for Network {
    fn default() -> Self {
        let (sender, orders) = channel();
        let lists = (RefCell::default(), RefCell::default(), RefCell::default());
        let (running, silent, given_up) = lists;
        Self { orders, sender, running, silent, given_up, cancelled: Cell::default() }
    }
}

impl Network {
    /// The way to it of one thread of a node.
    pub(crate) fn door(&self, node: usize, thread: ThreadId) -> Box<dyn Fetch + Send> {
        Box::new(Door { node, thread, orders: self.sender.clone() })
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

    /// One that was taken out is under way still.
    pub(crate) fn put_back(&self, request: Request) {
        self.running.borrow_mut().push(request);
    }

    /// Nothing comes of one until it is given up.
    pub(crate) fn silence(&self, request: Request) {
        self.silent.borrow_mut().push(request);
    }

    /// Of how many nothing comes.
    pub(crate) fn silent(&self) -> usize {
        self.look();
        self.silent.borrow().len()
    }

    /// Of how many that were given up an answer is on its way.
    pub(crate) fn given_up(&self) -> usize {
        self.look();
        self.given_up.borrow().len()
    }

    /// One that was given up, of which an answer was on its way.
    pub(crate) fn take_given_up(&self) -> Option<Request> {
        self.look();
        self.given_up.borrow_mut().pop()
    }

    /// How many were given up before they were answered.
    pub(crate) fn cancelled(&self) -> u64 {
        self.look();
        self.cancelled.get()
    }

    /// A node is gone: nothing comes of what it asked, before it has a new life.
    pub(crate) fn lose(&self, node: usize) {
        self.look();
        for requests in [&self.running, &self.silent, &self.given_up] {
            requests.borrow_mut().retain(|request| request.node != node);
        }
    }

    fn look(&self) {
        let mut running = self.running.borrow_mut();
        for order in self.orders.try_iter() {
            match order {
                Order::Start(request) => {
                    let is_same = |other: &Request| other.key() == request.key();
                    assert!(!running.iter().any(is_same), "{request:?} twice");
                    running.push(request);
                }
                Order::Cancel(key) => {
                    let is_it = |one: &mut Request| one.key() == key;
                    let mut given_up = self.given_up.borrow_mut();
                    let mut silent = self.silent.borrow_mut();
                    let all = running.extract_if(.., is_it).chain(silent.extract_if(.., is_it));
                    for request in all {
                        given_up.push(request);
                        self.cancelled.set(self.cancelled.get() + 1);
                    }
                }
            }
        }
    }
}

struct Door {
    node: usize,
    thread: ThreadId,
    orders: Sender<Order>,
}

impl Fetch for Door {
    fn start(&self, ticket: u64, payer: FetchPayer, request: FetchRequest) {
        let FetchRequest { url, .. } = request;
        let request = Request { node: self.node, thread: self.thread, ticket, payer, url };
        self.orders.send(Order::Start(request)).unwrap();
    }

    fn cancel(&self, ticket: u64) {
        // What is dropped after the network asks for nothing any more.
        let _ = self.orders.send(Order::Cancel((self.node, self.thread, ticket)));
    }
}
