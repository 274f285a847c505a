//! Names to addresses, by the system's resolver, which blocks: on threads of the runtime, of which
//! there are [`LOOKUPS_MAX`]. A lookup that nobody waits for any more keeps its place until the
//! system gives up, so that slow name servers cost so many threads and no more, and of one user
//! [`LOOKUPS_EACH_MAX`]; the last ones are for users who have none (`seats`).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use game::fetch::FetchPayer;

use crate::error::FetchError;
use crate::seats::Seats;
use crate::stats::FetchStats;
use crate::target::Target;

/// Lookups at one time.
pub(crate) const LOOKUPS_MAX: usize = 32;
/// Of one user.
const LOOKUPS_EACH_MAX: usize = 4;

/// The resolver.
#[derive(Debug)]
pub(crate) struct Names {
    seats: Seats<()>,
    stats: Arc<FetchStats>,
}

impl Names {
    pub(crate) fn new(stats: Arc<FetchStats>) -> Self {
        Self { seats: Seats::new(LOOKUPS_MAX, LOOKUPS_EACH_MAX), stats }
    }

    /// All addresses of a target, in the system's order.
    pub(crate) async fn of(
        &self,
        target: &Target,
        payer: FetchPayer,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let seat = self.seats.take((), payer).await;
        let (host, port, stats) = (target.host.clone(), target.port, Arc::clone(&self.stats));
        let lookup = tokio::task::spawn_blocking(move || {
            stats.fetch_lookups_now.up();
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            stats.fetch_lookups_now.down();
            drop(seat);
            found
        });
        let host = || target.to_string();
        match lookup.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(FetchError::NoAddress { host: host(), why: error.to_string() }),
            // The runtime ends.
            Err(_) => Err(FetchError::Stopping),
        }
    }
}
