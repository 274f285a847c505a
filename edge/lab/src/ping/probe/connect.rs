//! Connections of TCP, made and closed: the time from the attempt until the connection stands.
//!
//! Source: connect(2), tcp(7).

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::plan::{Amount, Plan};
use super::{Answered, Clock, Gone, Probe, Start, Traffic};

/// Connections of one run from which on they are reset when they have been timed: closed in order,
/// each keeps a local port for a minute.
const ORDERLY_MAX: u64 = 10_000;

pub(super) struct Connect {
    plan: Plan,
    socket: Socket,
    number: Option<u64>,
    /// When it stood, if it did at once.
    stood_ns: Option<u64>,
    is_reset: bool,
    traffic: Traffic,
}

fn socket(plan: &Plan, is_reset: bool) -> Result<Socket, Gone> {
    let domain = Domain::for_address(plan.place.addr);
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP));
    let socket = socket.map_err(Gone::Network)?;
    if is_reset {
        socket.set_linger(Some(Duration::ZERO)).map_err(Gone::Network)?;
    }
    Ok(socket)
}

impl Connect {
    pub(super) fn new(start: Start<'_>) -> Result<Self, Gone> {
        let plan = start.plan.clone();
        let interval_ns = plan.interval.as_nanos().max(1);
        let of = |amount: Amount| match amount {
            Amount::Count(count) => u128::from(count),
            Amount::Time(_) if plan.is_closed() => u128::MAX / 4,
            Amount::Time(time) => time.as_nanos() / interval_ns,
        };
        let all = (of(plan.amount) + of(plan.warm_up)) * u128::from(plan.streams);
        let is_reset = all > u128::from(ORDERLY_MAX);
        let mut traffic = Traffic::default();
        // One before the others: whether anything listens there.
        drop(super::wire::connect(&plan, start.clock, &mut traffic)?);
        let socket = socket(&plan, is_reset)?;
        let traffic = Traffic::default();
        Ok(Self { plan, socket, number: None, stood_ns: None, is_reset, traffic })
    }

    fn is_writable(&self) -> Result<bool, Gone> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = poll(&mut fds, Some(&now)).map_err(|error| Gone::Network(error.into()))?;
        Ok(ready > 0)
    }
}

impl Probe for Connect {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = if self.number.is_some() { PollFlags::OUT } else { PollFlags::empty() };
        (self.socket.as_fd(), flags)
    }

    fn waiting_max(&self) -> usize {
        1
    }

    fn begin(&mut self, clock: Clock, number: u64, _: u32) -> Result<u64, Gone> {
        self.number = Some(number);
        let addr = SockAddr::from(self.plan.place.addr);
        let sent_ns = clock.now();
        match self.socket.connect(&addr) {
            Ok(()) => self.stood_ns = Some(clock.now()),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(self.plan.unreachable(error)),
        }
        Ok(sent_ns)
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        if self.number.is_none() {
            return Ok(false);
        }
        let at_ns = match self.stood_ns.take() {
            Some(at_ns) => at_ns,
            None if self.is_writable()? => {
                let at_ns = clock.now();
                if let Some(error) = self.socket.take_error().map_err(Gone::Network)? {
                    return Err(self.plan.unreachable(error));
                }
                at_ns
            }
            None => return Ok(false),
        };
        if let Some(number) = self.number.take() {
            answers.push(Answered { number, at_ns, bad_status: None });
        }
        self.traffic.connecting.connect.record(1, 0);
        self.socket = socket(&self.plan, self.is_reset)?;
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}
