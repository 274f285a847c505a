//! Which numbers of the other side came: no datagram is heeded twice, and each that is sent says what came.
//!
//! Not here: who sent them; only numbers of datagrams whose tag is right belong here.

use thiserror::Error;

/// Numbers that are remembered below the newest one. Who is overtaken by more is too late.
const REMEMBERED: u32 = u128::BITS;

/// What one side tells the other of what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// The newest number that came; 0 if none did.
    pub newest: u32,
    /// Of the 32 numbers below it, which came: the next lower one in bit 0.
    pub bits: u32,
}

impl Acks {
    /// Whether it says that this number came.
    #[must_use]
    pub fn names(self, sequence: u32) -> bool {
        match self.newest.checked_sub(sequence) {
            _ if sequence == 0 => false,
            Some(0) => true,
            Some(age) => self.bits.checked_shr(age - 1).is_some_and(|bits| bits & 1 == 1),
            None => false,
        }
    }
}

/// A number that is not to be heeded: it came already, or too late to know.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the number {sequence} came already, or is too old")]
pub struct Stale {
    /// The number.
    pub sequence: u32,
}

/// The numbers that came, of the last 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    newest: u32,
    /// Bit `i`: the number that is `i` below the newest one came.
    came: u128,
}

impl Window {
    /// Notes that a number came.
    ///
    /// # Errors
    /// [`Stale`]; nothing has changed then.
    pub fn take(&mut self, sequence: u32) -> Result<(), Stale> {
        let stale = Stale { sequence };
        if sequence == 0 {
            return Err(stale);
        }
        if let Some(ahead) = sequence.checked_sub(self.newest).filter(|ahead| *ahead > 0) {
            self.came = self.came.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = sequence;
            return Ok(());
        }
        let age = self.newest - sequence;
        if age >= REMEMBERED || self.came >> age & 1 == 1 {
            return Err(stale);
        }
        self.came |= 1 << age;
        Ok(())
    }

    /// What the other side is told.
    #[must_use]
    pub fn acks(&self) -> Acks {
        let bits = u32::try_from(self.came >> 1 & u128::from(u32::MAX)).unwrap_or(0);
        Acks { newest: self.newest, bits }
    }
}
