//! Shares of what is bounded: so much for everybody together, and so much of it for one client.
//!
//! One client is an address of IPv4, or a /64 of IPv6 ([`event::client_bits`]). In: who wants how much.
//! Out: a [`Share`], which is given back when it is dropped, or which of the two bounds was met.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use event::client_bits;

use super::state::held;

/// What is bounded.
#[derive(Debug)]
pub(super) struct Shares {
    all_max: u64,
    each_max: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: u64,
    /// By client; who has nothing is not in it.
    of: HashMap<u128, u64>,
}

/// Which bound was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// That of everybody together.
    All,
    /// That of one client.
    Own,
}

impl Shares {
    pub(super) fn new(all_max: u64, each_max: u64) -> Arc<Self> {
        Arc::new(Self { all_max, each_max, taken: Mutex::default() })
    }

    /// Takes so much of it, or says which bound that would pass.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr, amount: u64) -> Result<Share, Full> {
        let client = client_bits(peer);
        let mut taken = held(&self.taken);
        let own = taken.of.get(&client).copied().unwrap_or(0);
        let (all, own) = (taken.all.saturating_add(amount), own.saturating_add(amount));
        if amount > 0 && all > self.all_max {
            return Err(Full::All);
        }
        if amount > 0 && own > self.each_max {
            return Err(Full::Own);
        }
        if amount > 0 {
            taken.all = all;
            taken.of.insert(client, own);
        }
        Ok(Share { shares: self.clone(), client, amount })
    }

    pub(super) fn is_free(&self) -> bool {
        held(&self.taken).all == 0
    }

    /// Of one client, at most.
    pub(super) fn each_max(&self) -> u64 {
        self.each_max
    }
}

/// What somebody has of it.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    client: u128,
    amount: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = held(&self.shares.taken);
        taken.all -= self.amount;
        if let Some(own) = taken.of.get_mut(&self.client) {
            *own -= self.amount;
            if *own == 0 {
                taken.of.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Full, Shares};

    #[test]
    fn a_neighbour_finds_what_one_client_cannot_have() {
        let ip = |text: &str| text.parse().unwrap();
        let shares = Shares::new(4, 3);
        // A /64 of IPv6 is one client, however many addresses it uses.
        let taken = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"]
            .map(|it| shares.take(ip(it), 1));
        assert_eq!(taken[3].as_ref().err(), Some(&Full::Own));
        let neighbour = shares.take(ip("2001:db8:0:1::1"), 1);
        assert!(neighbour.is_ok());
        assert_eq!(shares.take(ip("10.0.0.1"), 1).err(), Some(Full::All));
        // Nothing is never too much, and is given back as nothing.
        drop(shares.take(ip("10.0.0.1"), 0).unwrap());
        drop(taken);
        let more = shares.take(ip("10.0.0.1"), 3);
        assert_eq!(shares.take(ip("::ffff:10.0.0.1"), 1).err(), Some(Full::All));
        drop(neighbour);
        assert_eq!(shares.take(ip("::ffff:10.0.0.1"), 1).err(), Some(Full::Own));
        assert!(more.is_ok() && !shares.is_free());
        drop(more);
        assert!(shares.is_free() && shares.taken.lock().unwrap().of.is_empty());
    }
}
