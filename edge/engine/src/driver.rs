//! What a driver has to do for a core thread, and the loop of one: wait, reap, mail, bytes, wake,
//! end of turn, submit. The order inside a turn is what the rest of the server relies on.

use std::io;
use std::time::Duration;

use event::Input;

use crate::counters::Count;
use crate::reactor::Reactor;

/// The kernel side of a core thread. It never calls the handler save from [`Driver::deliver`].
pub(crate) trait Driver<M> {
    /// Hands the kernel what is prepared and sleeps until something has happened, at most
    /// `patience`; takes over what has happened without looking at it. With `gather`, patience is
    /// short and it may sleep all of it, to find more at once.
    fn wait(
        &mut self,
        reactor: &mut Reactor<M>,
        patience: Option<Duration>,
        gather: bool,
    ) -> io::Result<()>;

    /// Tells the reactor what the last wait has brought.
    fn deliver(&mut self, reactor: &mut Reactor<M>);

    /// Prepares what the connections in the reactor's dirty list now want of the kernel, and
    /// starts or stops accepting.
    fn reconcile(&mut self, reactor: &mut Reactor<M>);
}

/// How long a thread lets events gather after a turn that brought nothing urgent, unless its handler
/// says otherwise. A wake-up costs more than handling a message that only waits for a tick (4,000 of
/// them a second took 4,900 turns and 70 ms; gathered for 4 ms, 280 turns and 36 ms). The first turn
/// with something urgent in it (an answer, a connection, mail) ends the gathering.
pub(crate) const GATHER_NS: u64 = 1_000_000;

/// Runs a core thread until its handler stops it.
///
/// # Errors
/// When waiting itself fails, which no peer can bring about.
pub(crate) fn run<M: Send + 'static, D: Driver<M>>(
    mut reactor: Reactor<M>,
    mut driver: D,
) -> io::Result<()> {
    let result = take_turns(&mut reactor, &mut driver);
    reactor.close_mailbox();
    // The driver goes first: the kernel may be reading memory of the reactor's until then.
    drop(driver);
    drop(reactor);
    result
}

fn take_turns<M: Send + 'static, D: Driver<M>>(
    reactor: &mut Reactor<M>,
    driver: &mut D,
) -> io::Result<()> {
    driver.reconcile(reactor);
    while !reactor.is_finished() {
        let gather = reactor.take_was_unhurried();
        let patience = reactor.fall_asleep();
        if gather {
            let gather = Duration::from_nanos(reactor.net.gather_ns);
            let patience = patience.map_or(gather, |patience| patience.min(gather));
            driver.wait(reactor, Some(patience), true)?;
        } else {
            driver.wait(reactor, patience, false)?;
        }
        reactor.begin_turn();
        // Mail before bytes: what another thread posted before a client got an answer is seen
        // before that client's next request.
        reactor.take_mail();
        driver.deliver(reactor);
        reactor.take_deferred();
        reactor.resume_held();
        reactor.take_timers();
        reactor.end_turn();
        driver.reconcile(reactor);
        reactor.publish();
    }
    Ok(())
}

impl<M: Send + 'static> Reactor<M> {
    /// Ends the handler's batch, if there was anything in it.
    fn end_turn(&mut self) {
        if self.take_was_busy() {
            self.handle(Input::TurnEnd);
            // Which was no input to end another turn for.
            self.take_was_busy();
        }
        self.net.flush_wakes();
        self.net.counters.add(Count::Turns, 1);
    }
}
