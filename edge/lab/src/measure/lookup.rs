//! Addresses of a name, as the system knows them, without waiting longer than somebody wants.
//!
//! The system's resolver waits for servers that may be silent, and nothing interrupts it: it is asked by
//! a thread of its own, which is left behind when the wait is given up, and ends with the resolver or the
//! process. In: a name, a port, a flag. Out: addresses, or why there are none.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the flag is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The addresses of `name`, which has no brackets, in the order of the system.
///
/// # Errors
/// As the system says; [`ErrorKind::Interrupted`] as soon as `stop` is set.
pub(crate) fn addresses(name: &str, port: u16, stop: &AtomicBool) -> Result<Vec<SocketAddr>> {
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = name.to_owned();
    unless(stop, move || Ok((&*name, port).to_socket_addrs()?.collect()))
}

/// What `look_up` says, unless the flag is set before.
fn unless<T: Send + 'static>(
    stop: &AtomicBool,
    look_up: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name("look-up".to_owned());
    // Whoever asked may have gone.
    thread.spawn(move || drop(tell.send(look_up())))?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                return Err(Error::new(ErrorKind::Interrupted, "stopped while it was looked up"));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::other("no answer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{addresses, unless};

    #[test]
    fn a_resolver_that_is_silent_holds_nobody_who_wants_to_stop() {
        let stop = Arc::new(AtomicBool::new(false));
        let (release, held) = channel::<()>();
        let (tell, told) = channel();
        let flag = stop.clone();
        std::thread::spawn(move || {
            let found = unless(&flag, move || {
                // As long as the test lasts.
                let _ = held.recv();
                Ok(())
            });
            tell.send(found.map_err(|error| error.kind())).unwrap();
        });
        stop.store(true, Ordering::Relaxed);
        let found = told.recv_timeout(Duration::from_secs(10)).expect("held");
        assert_eq!(found, Err(ErrorKind::Interrupted));
        drop(release);
    }

    #[test]
    fn numbers_are_not_looked_up_and_names_are() {
        let stop = AtomicBool::new(false);
        let found = addresses("::1", 7, &stop).unwrap();
        assert_eq!(found, ["[::1]:7".parse().unwrap()]);
        assert!(addresses("localhost", 7, &stop).unwrap().iter().all(|it| it.ip().is_loopback()));
        assert!(addresses("no such name", 7, &stop).is_err());
    }
}
