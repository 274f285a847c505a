//! SIGTERM and SIGINT: the first asks to stop, the second stops at once.
//!
//! What is deliberately not here: what stopping means, which the wiring decides.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
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

    /// Blocks the calling thread until the first signal. From then on a thread waits for the
    /// second, which ends the process at once with code 128 + its number.
    ///
    /// # Errors
    /// If that thread cannot be started; the signal has come all the same.
    pub fn wait(mut self) -> io::Result<Signal> {
        let first = self.next();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let second = self.next();
            std::process::exit(128 + second.number());
        })?;
        Ok(first)
    }

    fn next(&mut self) -> Signal {
        // `forever` only ends when the handle is closed, and nobody has it.
        self.0.forever().next().map_or(Signal::Terminate, Signal::from_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_waited_for() {
        let stop = StopSignals::catch().unwrap();
        // From here on the signal is caught, so that the test's process survives it.
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(stop.wait().unwrap(), Signal::Terminate);
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
