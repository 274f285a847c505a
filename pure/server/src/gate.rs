//! The gate: the thread through which mail to other nodes leaves, as bytes, and theirs comes in; and which
//! tells all threads that a node has come or gone.
//!
//! ```text
//! thread ── GateMail::Parcel, Directory, Cache, Sessions ──▶ gate ── letters ──▶ Way (a transport)
//! (a transport) ── GateMail::Letter ──▶ gate ── mail ──▶ thread
//! (membership) ── GateMail::Node ──▶ gate ── Nodes ──▶ every thread
//! ```
//!
//! What the other side of [`Way`] has to keep: letters between two lives of two nodes come whole, once and
//! in order, or else one node has the other one taken for gone, which is for good ([`game::node::Nodes::set`]).
//! A node is told of another one's life before it is handed that life's first letter. So threads are told
//! that a node has gone after all that came of it, and of a new life before anything of it.
//!
//! Letters are hostile until they are read (`letter`), and what they say is checked for whom it may be for
//! and of whom it may speak (`check`); what is refused is counted, and its node is to be parted with, because
//! something is lost between the two then.
//!
//! What deliberately is not here: sockets between nodes, who a node is, and how a cluster agrees about its
//! members. No server has a gate yet.

mod check;
mod letter;

use std::sync::Arc;

use event::{Handler, Input, Now, Output, ThreadId};
use game::node::{Incarnation, NodeId};

use self::check::Check;
use self::letter::{Body, Head};
pub use self::letter::{LETTER_BYTES_MAX, LetterError};
use crate::limit_log::LimitLog;
use crate::mail::{
    Address, CoreMail, GateMail, ListerMail, Mail, News, Parcel, Peer, RoomMail, Topology,
};
use crate::retry_queue::RetryQueue;
use crate::stats::GateStats;

/// The way to other nodes, which a transport has.
pub trait Way {
    /// A letter for a node, behind all that were sent to it before. What cannot be taken is lost, and then
    /// the node has to be.
    fn send(&mut self, to: NodeId, letter: Vec<u8>);

    /// Something of that node could not be read, and is lost: it has to be taken for gone.
    fn part(&mut self, from: NodeId);
}

/// What is known of a node: that it lives, and with how many threads; or that it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNews {
    /// Its name.
    pub name: String,
    /// Which of its lives; nothing but a newer one than all before is news.
    pub life: Incarnation,
    /// Its threads; `None` if it is gone.
    pub peer: Option<Peer>,
}

/// The handler of the gate's thread.
pub struct Gate {
    me: Address<GateMail>,
    topology: Arc<Topology>,
    way: Box<dyn Way + Send>,
    stats: Arc<GateStats>,
    retries: RetryQueue,
    limit_log: LimitLog,
}

impl Gate {
    /// A gate of this node, with the topology that its threads begin with.
    ///
    /// # Panics
    /// The node is alone.
    #[must_use]
    pub fn new(topology: Arc<Topology>, way: Box<dyn Way + Send>, stats: Arc<GateStats>) -> Self {
        let Some(me) = topology.gate() else { panic!("a node that is alone has no gate") };
        let (retries, limit_log) = (RetryQueue::default(), LimitLog::default());
        Self { me, topology, way, stats, retries, limit_log }
    }

    fn mail(&mut self, now: Now, mail: GateMail, out: &mut Output<Mail>) {
        match mail {
            GateMail::Parcel(parcel) => {
                let Parcel { node, thread, mail } = *parcel;
                if mail.is_wake_up() {
                    return; // Letters wake.
                }
                match Body::of(node, thread, mail) {
                    Ok(body) => self.send(now, &[node], body),
                    Err(kind) => unreachable!("{kind} is posted to another node"),
                }
            }
            GateMail::Directory(events) => self.send_all(now, Body::Directory(events)),
            GateMail::Cache(changes) => self.send_all(now, Body::Cache(changes)),
            GateMail::Sessions(session_changes) => {
                let session_changes =
                    Arc::try_unwrap(session_changes).unwrap_or_else(|shared| (*shared).clone());
                self.send_all(now, Body::Sessions(session_changes));
            }
            GateMail::Letter { from, bytes } => self.open(now, from, &bytes, out),
            GateMail::Node(news) => self.node(&news, out),
        }
    }

    fn send_all(&mut self, now: Now, body: Body) {
        let nodes = &self.topology.nodes;
        let living: Vec<NodeId> = nodes.others().filter(|node| nodes.is_living(*node)).collect();
        if !living.is_empty() {
            self.send(now, &living, body);
        }
    }

    /// Writes mail once, and sends it to these nodes: in several letters, if it is a long list.
    fn send(&mut self, now: Now, to: &[NodeId], body: Body) {
        let lost = to.iter().filter(|node| !self.is_other(**node)).count();
        self.stats.node_mail_lost.add(lost as u64);
        if lost == to.len() {
            return;
        }
        let mut bodies = Vec::new();
        let too_long = letter::write(body, &mut bodies);
        if too_long > 0 {
            self.stats.node_mail_too_long.add(too_long);
            let what = "mail to another node is too long, and is lost";
            self.limit_log.note(now, "mail between nodes", format_args!("{what}"));
        }
        for node in to.iter().copied() {
            if !self.is_other(node) {
                continue;
            }
            let head = Head::of(&self.topology.nodes, self.topology.nodes.here(), node);
            for body in &bodies {
                self.stats.node_letters_sent.up();
                self.way.send(node, letter::with_head(head, body));
            }
        }
    }

    /// Whether that is another node in its present life.
    fn is_other(&self, node: NodeId) -> bool {
        let nodes = &self.topology.nodes;
        nodes.is_living(node) && !nodes.is_here(node)
    }

    /// A letter that has come from a node.
    fn open(&mut self, now: Now, from: NodeId, bytes: &[u8], out: &mut Output<Mail>) {
        match self.read(now, from, bytes) {
            Ok(body) => {
                self.stats.node_letters_opened.up();
                self.hand_out(body, out);
            }
            Err(LetterError::Late) => self.stats.node_letters_late.up(),
            Err(error) => {
                self.stats.node_letters_refused.up();
                let name = self.topology.nodes.name_of(from);
                let what = format_args!("a letter of node {name} is refused: {error}");
                self.limit_log.note(now, "mail between nodes", what);
                self.way.part(from);
            }
        }
    }

    /// What a letter says, if its sender may say that.
    fn read(&self, now: Now, from: NodeId, bytes: &[u8]) -> Result<Body, LetterError> {
        let (head, body) = letter::head(bytes)?;
        // Of a life that is over, or for one.
        let nodes = &self.topology.nodes;
        if !self.is_other(from) || head != Head::of(nodes, from, nodes.here()) {
            return Err(LetterError::Late);
        }
        let body = letter::body(body)?;
        let check = Check { topology: &self.topology, from, now };
        if check.is_allowed(&body) { Ok(body) } else { Err(LetterError::NotAllowed) }
    }

    fn hand_out(&self, body: Body, out: &mut Output<Mail>) {
        let it = &*self.topology;
        let mut post = |(to, mail)| out.mail(to, mail);
        match body {
            Body::Core(to, mail) => post(to.seal(it, mail)),
            Body::Room(to, mail) => post(to.seal(it, mail)),
            Body::Worker(to, news) => post(to.seal(it, news)),
            Body::Directory(events) => {
                let rooms = it.rooms.iter();
                rooms.for_each(|to| post(to.seal(it, RoomMail::Directory(events.clone()))));
                it.workers().for_each(|to| post(to.seal(it, News::Directory(events.clone()))));
                post(it.lister.seal(it, ListerMail::Directory(events)));
            }
            Body::Cache(changes) => {
                let rooms = it.rooms.iter();
                rooms.for_each(|to| post(to.seal(it, RoomMail::Cache(changes.clone()))));
                it.workers().for_each(|to| post(to.seal(it, News::Cache(changes.clone()))));
            }
            Body::Sessions(session_changes) => {
                let session_changes = Arc::new(session_changes);
                let cores = it.cores.iter();
                cores.for_each(|to| {
                    post(to.seal(it, CoreMail::Sessions(Arc::clone(&session_changes))));
                });
            }
        }
    }

    /// A node lives from now on, or is gone. One that comes back without having gone has gone before.
    fn node(&mut self, news: &NodeNews, out: &mut Output<Mail>) {
        let Some(node) = self.topology.nodes.named(&news.name) else { return };
        if news.peer.is_some() && news.life > self.topology.nodes.incarnation(node) {
            self.set(node, Incarnation::default(), None, out);
        }
        self.set(node, news.life, news.peer, out);
    }

    fn set(&mut self, node: NodeId, life: Incarnation, peer: Option<Peer>, out: &mut Output<Mail>) {
        let Some(topology) = self.topology.with_node(node, life, peer) else { return };
        self.topology = Arc::new(topology);
        let it = &*self.topology;
        let new = || Arc::clone(&self.topology);
        let mut post = |(to, mail): (ThreadId, Mail)| out.mail(to, mail);
        it.workers().for_each(|to| post(to.seal(it, News::Nodes(new()))));
        post(it.lister.seal(it, ListerMail::Nodes(new())));
        it.rooms.iter().for_each(|to| post(to.seal(it, RoomMail::Nodes(new()))));
        it.cores.iter().for_each(|to| post(to.seal(it, CoreMail::Nodes(new()))));
    }
}

impl Handler for Gate {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        match input {
            Input::Mail(mail) => {
                self.mail(now, self.me.open(mail), out);
                // It leaves at once: nothing overtakes what a thread has not taken yet.
                self.retries.hold_back(now, out, &self.stats.dropped_mail);
            }
            Input::TurnEnd => {
                out.wake_at(self.retries.due_ns());
            }
            Input::Wake => self.retries.post_due(now, out),
            // Mail between nodes is lost no more than mail between threads.
            Input::Refused { to, mail } => {
                let counters = (&self.stats.refused_mail, &self.stats.dropped_mail);
                self.retries.given_back(now, (to, mail), counters, &mut self.limit_log);
            }
            Input::Stop => out.stop(),
            // What carries letters has sockets; the gate has none.
            event::of_sockets!() => {}
        }
    }
}

#[cfg(test)]
mod tests;
