//! SIGTERM and SIGINT: the first asks to stop, the second stops at once. SIGHUP, for who wants it, asks to
//! load the modules again.
//!
//! What is deliberately not here: what stopping and loading mean, which the wiring decides.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM, as service managers send it.
    Terminate,
}

impl Signal {
    fn from_number(number: i32) -> Self {
        if number == SIGINT { Self::Interrupt } else { Self::Terminate }
    }

    /// The name as the manual writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
        }
    }
}

/// The signals that stop the process, caught from the moment this exists.
pub struct StopSignals(Signals);

impl StopSignals {
    /// Catches the signals; from here on only [`StopSignals::wait`] reacts to them. To be called
    /// before the server says that it listens.
    ///
    /// # Errors
    /// If the system refuses to register the handlers.
    pub fn catch() -> io::Result<Self> {
        Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// The same, with SIGHUP, which would end the process by itself.
    ///
    /// # Errors
    /// If the system refuses to register the handlers.
    pub fn catch_with_reload() -> io::Result<Self> {
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Self)
    }

    /// Blocks the calling thread until the first signal that stops. From then on a thread waits for the
    /// second, which ends the process at once with code 128 + its number.
    ///
    /// # Errors
    /// If that thread cannot be started; the signal has come all the same.
    pub fn wait(self) -> io::Result<Signal> {
        self.wait_and(|| {})
    }

    /// As [`StopSignals::wait`]; until then `reload` is called at each SIGHUP.
    ///
    /// # Errors
    /// As [`StopSignals::wait`].
    pub fn wait_and(mut self, reload: impl FnMut()) -> io::Result<Signal> {
        let first = self.next(reload);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let second = self.next(|| {});
            std::process::exit(128 + second.number());
        })?;
        Ok(first)
    }

    fn next(&mut self, mut reload: impl FnMut()) -> Signal {
        for number in self.0.forever() {
            if number != SIGHUP {
                return Signal::from_number(number);
            }
            reload();
        }
        // It only ends when the handle is closed, and nobody has it.
        Signal::Terminate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because from the end of it on a second signal ends the process.
    #[test]
    fn reloads_are_asked_for_until_the_first_signal_that_stops() {
        let stop = StopSignals::catch_with_reload().unwrap();
        // From here on the signals are caught, so that the test's process survives them.
        signal_hook::low_level::raise(SIGHUP).unwrap();
        let mut count = 0;
        let signal = stop.wait_and(|| {
            count += 1;
            signal_hook::low_level::raise(SIGTERM).unwrap();
        });
        assert_eq!((signal.unwrap(), count), (Signal::Terminate, 1));
    }

    #[test]
    fn numbers_are_the_systems() {
        for signal in [Signal::Interrupt, Signal::Terminate] {
            assert_eq!(Signal::from_number(signal.number()), signal);
        }
        assert_eq!((Signal::Interrupt.number(), Signal::Terminate.number()), (2, 15));
        assert_eq!(Signal::Terminate.name(), "SIGTERM");
    }
}
