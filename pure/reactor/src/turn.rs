//! What a driver has to do for a core thread, and the loop of one: wait, reap, mail, bytes, datagrams,
//! wake, the companion's turn, end of turn, submit. The order inside a turn is what the rest of the
//! server relies on; it is promised by [`event::Handler`].

use std::time::Duration;

use event::{Input, Now};

use crate::counters::Count;
use crate::net::Net;
use crate::reactor::Reactor;

/// The kernel side of a core thread. It never calls the handler save from [`Driver::deliver`].
///
/// What it must do for a connection follows from [`crate::Conn::phase`] and from what is asked of
/// [`Net`]: receive as [`Net::receive_wish`] says, send what [`crate::Outgoing::pin`] offers, watch
/// for a reset where [`crate::Conn::wants_watch`] says so, shut the sending side down when it
/// lingers, and close it when it is dying, after the kernel has let go of everything of it. Nothing
/// that the kernel reports may be lost, and each connection's must stay in order; connections among
/// each other may be told in any order.
pub trait Driver<M> {
    /// What waiting may fail with, which no peer can bring about.
    type Error;

    /// Hands the kernel what is prepared and sleeps until something has happened, at most
    /// `patience`; takes over what has happened without looking at it, and says what time it is
    /// then. With `coalesce`, patience is short and it may sleep all of it, to find more at once.
    ///
    /// # Errors
    /// When waiting itself fails.
    fn wait(
        &mut self,
        net: &mut Net<M>,
        patience: Option<Duration>,
        coalesce: bool,
    ) -> Result<Now, Self::Error>;

    /// Tells the reactor what the kernel has brought, the oldest first, until there is nothing left
    /// or [`Net::is_turn_spent`].
    fn deliver(&mut self, reactor: &mut Reactor<M>);

    /// Tells the reactor what the kernel has of datagrams ([`Reactor::on_datagrams`]), until there are
    /// none left or [`Net::are_datagrams_spent`]. What is left stays where it is, and the next turn
    /// is not waited for. After taking datagrams from the kernel, and before telling them, it calls
    /// [`Reactor::take_mail`]: they may have come because of what another thread told a client after
    /// posting to this one.
    fn deliver_datagrams(&mut self, reactor: &mut Reactor<M>) {
        let _ = reactor;
    }

    /// Whether [`Self::deliver`] has left something for the next turn.
    fn has_more(&self) -> bool;

    /// Prepares what the connections in the dirty list now want of the kernel
    /// ([`Net::work_off_dirty`]), offers it every datagram that is to be sent ([`Net::outbox`]), and
    /// starts or stops accepting.
    fn reconcile(&mut self, net: &mut Net<M>);

    /// Large answers have left memory behind: asks the allocator to give it back to the system.
    fn trim_memory(&mut self) {}

    /// Called between two turns.
    fn turned(&mut self, net: &mut Net<M>) {
        let _ = net;
    }
}

/// Runs a core thread until its handler stops it.
///
/// # Errors
/// When waiting itself fails, which no peer can bring about.
pub fn run<M: Send + 'static, D: Driver<M>>(
    mut reactor: Reactor<M>,
    mut driver: D,
) -> Result<(), D::Error> {
    let result = take_turns(&mut reactor, &mut driver);
    reactor.end();
    // The driver goes first: the kernel may be reading memory of the reactor's until then.
    drop(driver);
    drop(reactor);
    result
}

fn take_turns<M: Send + 'static, D: Driver<M>>(
    reactor: &mut Reactor<M>,
    driver: &mut D,
) -> Result<(), D::Error> {
    driver.reconcile(&mut reactor.net);
    while !reactor.is_finished() {
        take_turn(reactor, driver)?;
    }
    Ok(())
}

#[inline]
pub(crate) fn take_turn<M: Send + 'static, D: Driver<M>>(
    reactor: &mut Reactor<M>,
    driver: &mut D,
) -> Result<(), D::Error> {
    let has_more = driver.has_more();
    // Datagrams that had no room in the last turn are more, too.
    let coalesce = reactor.take_was_lazy() && !has_more && !reactor.net.are_datagrams_spent();
    let patience = if has_more { Some(Duration::ZERO) } else { reactor.fall_asleep() };
    let now = if coalesce {
        let coalesce = Duration::from_nanos(reactor.net.coalesce_ns);
        let patience = patience.map_or(coalesce, |patience| patience.min(coalesce));
        driver.wait(&mut reactor.net, Some(patience), true)?
    } else {
        driver.wait(&mut reactor.net, patience, false)?
    };
    reactor.begin_turn(now, has_more);
    // Mail before bytes: what another thread posted before a client got an answer is seen
    // before that client's next request.
    reactor.take_mail();
    // However much mail there was, the kernel is heard.
    reactor.net.spend_anew();
    driver.deliver(reactor);
    driver.deliver_datagrams(reactor);
    reactor.take_deferred();
    reactor.resume_held();
    reactor.take_timers();
    reactor.take_companions_turn();
    reactor.end_turn();
    driver.reconcile(&mut reactor.net);
    reactor.publish();
    if std::mem::take(&mut reactor.net.trim) {
        driver.trim_memory();
    }
    driver.turned(&mut reactor.net);
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
