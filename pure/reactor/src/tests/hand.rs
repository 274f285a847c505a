//! A core thread that a test turns by hand: the test is the kernel and the clock, and sees what the
//! driver is asked. What happens is kept as text, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use event::{ConnId, Handler, Input, ListenerId, Now, Output, SocketId, ThreadId, Urgency};

use crate::{
    Conn, Count, Counters, Driver, Limits, Net, Phase, Process, Reactor, Receive, Scarce, Taken,
    turn::take_turn,
};

/// Mail is a number.
pub(crate) type Mail = u32;

/// What has happened, in order.
pub(crate) type Log = Rc<RefCell<Vec<String>>>;

/// The rest of the process: what is posted is noted, everybody sleeps and is woken.
pub(crate) struct Others {
    log: Log,
    /// Mail to the thread itself.
    pub(crate) mail: RefCell<VecDeque<Mail>>,
    /// How much more mail the others take.
    pub(crate) room: Cell<u32>,
    pub(crate) stop: Cell<bool>,
    published: Cell<Counters>,
}

impl Process<Mail> for Others {
    fn post(&self, to: ThreadId, mail: Mail, urgency: Urgency) -> Result<bool, Mail> {
        let Some(room) = self.room.get().checked_sub(1) else { return Err(mail) };
        self.room.set(room);
        self.log.borrow_mut().push(format!("post {mail} to {}", to.0));
        Ok(urgency == Urgency::Wake)
    }

    fn wake(&self, to: ThreadId) -> bool {
        self.log.borrow_mut().push(format!("wake {}", to.0));
        true
    }

    fn pop(&self) -> Option<Mail> {
        self.mail.borrow_mut().pop_front()
    }

    fn is_idle(&self) -> bool {
        self.mail.borrow().is_empty() && !self.stop.get()
    }

    fn mail_max(&self) -> usize {
        4
    }

    fn take_stop(&self) -> bool {
        self.stop.take()
    }

    fn try_sleep(&self) -> bool {
        self.is_idle()
    }

    fn awake(&self) {}

    fn close(&self) {
        self.log.borrow_mut().push("mailbox closed".into());
    }

    fn publish(&self, counters: &Counters) {
        self.published.set(*counters);
    }
}

/// What the kernel reports in a turn.
type Report = Box<dyn FnOnce(&mut Reactor<Mail>)>;

/// The kernel side: reports what the test says, sends nothing by itself, lets go at once.
#[derive(Default)]
pub(crate) struct Kernel {
    now: Now,
    report: Option<Report>,
    /// Something of the last turn is left.
    pub(crate) has_more: bool,
    /// How long the last turn was to wait at most, and whether it was to coalesce.
    pub(crate) waited: (Option<Duration>, bool),
    /// How each connection on the driver's list was to be received from, in order, in this turn.
    pub(crate) wishes: Vec<(u32, Receive)>,
    pub(crate) trims: u32,
    /// Free receive buffers.
    pub(crate) buffers: Option<u32>,
    /// What is to be sent of datagrams stays for the test to look at; else all of it is taken.
    pub(crate) keeps_datagrams: bool,
}

impl Driver<Mail> for Kernel {
    type Error = Infallible;

    fn wait(
        &mut self,
        _: &mut Net<Mail>,
        patience: Option<Duration>,
        coalesce: bool,
    ) -> Result<Now, Infallible> {
        self.waited = (patience, coalesce);
        self.wishes.clear();
        Ok(self.now)
    }

    fn deliver(&mut self, reactor: &mut Reactor<Mail>) {
        if let Some(report) = self.report.take() {
            report(reactor);
        }
    }

    fn has_more(&self) -> bool {
        self.has_more
    }

    fn reconcile(&mut self, net: &mut Net<Mail>) {
        if let Some(buffers) = self.buffers {
            net.limit_pieces(buffers);
        }
        for socket in (0..net.sockets()).map(SocketId).filter(|_| !self.keeps_datagrams) {
            let mut taken = Taken::default();
            for bundle in net.outbox(socket).bundles() {
                taken.datagrams += u64::from(bundle.count);
                taken.bytes += bundle.bytes.len() as u64;
            }
            net.on_datagrams_offered(socket, taken);
        }
        net.work_off_dirty(|net, slot| {
            let turn = net.turn();
            let state = net.conns.at(slot);
            match state.phase() {
                Phase::Free | Phase::Gone | Phase::Connecting => return,
                Phase::Dying => {
                    if let Some(out) = state.out.as_mut().filter(|out| out.is_pinned()) {
                        out.unpin();
                    }
                    return net.on_released(slot);
                }
                Phase::Open | Phase::Flushing | Phase::Lingering => {}
            }
            if let Some(out) = &mut state.out {
                let _ = out.pin(turn);
            }
            let wish = net.receive_wish(slot);
            self.wishes.push((slot, wish));
        });
    }

    fn trim_memory(&mut self) {
        self.trims += 1;
    }

    fn turned(&mut self, net: &mut Net<Mail>) {
        if !self.keeps_datagrams {
            net.assert_legal();
        }
    }
}

/// A handler that is a function; what it is told is kept.
struct Script<F>(F, Log);

impl<F> Handler for Script<F>
where
    F: FnMut(Now, Input<'_, Mail>, &mut Output<Mail>),
{
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.1.borrow_mut().push(match &input {
            Input::Bytes { conn, bytes } => format!("{} bytes of {}", bytes.len(), conn.slot),
            Input::Opened { conn, .. } => format!("opened {}", conn.slot),
            Input::Connected { conn, token } => format!("connected {} for {token}", conn.slot),
            Input::ConnectFailed { token, failure } => {
                format!("not connected {token}: {failure:?}")
            }
            Input::Eof { conn } => format!("end of {}", conn.slot),
            Input::Sent { conn } => format!("sent {}", conn.slot),
            Input::Closed { conn, reason } => format!("closed {}: {reason:?}", conn.slot),
            Input::Mail(mail) => format!("mail {mail}"),
            Input::Refused { to, mail } => format!("refused {mail} to {}", to.0),
            Input::Wake => "wake".into(),
            Input::TurnEnd => "turn end".into(),
            Input::Stop => "stop".into(),
            Input::Datagrams(all) => {
                format!(
                    "{} datagrams, {} bytes, of port {}",
                    all.count(),
                    all.bytes(),
                    all.from.port()
                )
            }
        });
        (self.0)(now, input, out);
    }
}

/// Does what the bytes that come say, each an order.
pub(crate) fn orders(_: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
    let Input::Bytes { conn, bytes } = input else { return };
    for order in bytes.iter() {
        match order {
            b'l' => out.mail_lazy(ThreadId(1), 1),
            b'm' => out.mail(ThreadId(1), 2),
            b's' => out.send(conn, b"!"),
            b'S' => out.send(conn, &[0; 1 << 10]),
            b't' => out.tell_when_sent(conn),
            b'c' => out.close(conn),
            b'a' => out.abort(conn),
            b'p' => out.reading(conn, false),
            b'q' => out.stop_accepting(),
            b'x' => out.stop(),
            _ => {}
        }
    }
}

/// A thread, and who turns it.
pub(crate) struct Hand {
    pub(crate) reactor: Reactor<Mail>,
    pub(crate) kernel: Kernel,
    pub(crate) others: Rc<Others>,
    log: Log,
}

impl Hand {
    pub(crate) fn new(
        limits: Limits,
        script: impl FnMut(Now, Input<'_, Mail>, &mut Output<Mail>) + 'static,
    ) -> Self {
        let log = Log::default();
        let others = Rc::new(Others {
            log: log.clone(),
            mail: RefCell::default(),
            room: Cell::new(u32::MAX),
            stop: Cell::new(false),
            published: Cell::default(),
        });
        let handler = Box::new(Script(script, log.clone()));
        let bound = Scarce::Connections;
        let reactor = Reactor::new(handler, Now::default(), limits, bound, others.clone());
        Self { reactor, kernel: Kernel::default(), others, log }
    }

    /// Gives the thread so many sockets for datagrams.
    pub(crate) fn with_sockets(mut self, count: u16) -> Self {
        self.reactor = self.reactor.with_sockets(count);
        self
    }

    /// A turn that begins `ms` later, in which the kernel reports something.
    pub(crate) fn turn(&mut self, ms: u64, report: impl FnOnce(&mut Reactor<Mail>) + 'static) {
        self.kernel.now = self.kernel.now.after_ms(ms);
        self.kernel.report = Some(Box::new(report));
        let Ok(()) = take_turn(&mut self.reactor, &mut self.kernel);
    }

    /// Turns that begin `ms` later and right after, in which nothing comes: what was put off is
    /// told then.
    pub(crate) fn rest(&mut self, ms: u64) {
        self.turn(ms, |_| ());
        self.turn(0, |_| ());
    }

    /// Accepts a connection, in a turn of its own.
    pub(crate) fn accept(&mut self) -> ConnId {
        let before = self.reactor.net.conns.taken();
        self.turn(0, |reactor| {
            let peer = ([127, 0, 0, 1], 1).into();
            assert!(reactor.on_accepted(ListenerId(0), peer, 0).is_some());
        });
        let taken = self.reactor.net.conns.taken();
        let slot = taken.into_iter().find(|slot| !before.contains(slot)).unwrap();
        self.reactor.net.conns.id(slot)
    }

    /// Bytes come in on a connection, in a turn of their own.
    pub(crate) fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.turn(0, move |reactor| reactor.on_bytes(conn.slot, &mut bytes));
    }

    /// The kernel takes the first `bytes` of what it was offered.
    pub(crate) fn takes(&mut self, ms: u64, conn: ConnId, bytes: usize) {
        self.turn(ms, move |reactor| sent(reactor, conn, bytes));
    }

    pub(crate) fn conn(&mut self, conn: ConnId) -> &mut Conn {
        self.reactor.net.conns.at(conn.slot)
    }

    pub(crate) fn phase(&mut self, conn: ConnId) -> Phase {
        self.conn(conn).phase()
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        self.others.published.get().value(count)
    }

    /// What has happened since this was last asked.
    pub(crate) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut *self.log.borrow_mut())
    }

    /// The same, in one line.
    pub(crate) fn line(&mut self) -> String {
        self.log().join(", ")
    }
}

/// The kernel has taken the first `bytes` of what it was offered of a connection.
pub(crate) fn sent(reactor: &mut Reactor<Mail>, conn: ConnId, bytes: usize) {
    let state = reactor.net.conns.at(conn.slot);
    state.out.as_mut().unwrap().unpin();
    reactor.net.on_sent(conn.slot, bytes);
}
