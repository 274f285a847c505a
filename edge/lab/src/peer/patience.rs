//! Waiting for the other end, which ends when its time is up, and within a moment when the run is to
//! stop: whoever presses ^C is not kept by a timeout of minutes.
//!
//! In: a time, and the word to stop. Out: connections and bytes, or why there are none.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use super::gone::{Gone, would_wait};

/// How often the word to stop is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// How long something may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience<'a> {
    timeout: Duration,
    began: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    /// From now on.
    pub(crate) fn new(timeout: Duration, stop: &'a AtomicBool) -> Self {
        Self { timeout, began: Instant::now(), stop }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn is_up(&self) -> bool {
        self.began.elapsed() >= self.timeout
    }

    /// Fails when the run is to stop.
    pub(crate) fn go_on(&self) -> Result<(), Gone> {
        if self.stop.load(Ordering::Relaxed) { Err(Gone::Stopped) } else { Ok(()) }
    }

    /// Waits for a socket, but not for longer than a look; the caller asks again. Whether it is ready.
    pub(crate) fn wait(&self, fd: impl AsFd, flags: PollFlags) -> Result<bool, Gone> {
        self.go_on()?;
        let left = self.timeout.saturating_sub(self.began.elapsed()).min(LOOK);
        let timeout = Timespec::try_from(left).map_err(|error| {
            // A hundred milliseconds are not too many for it.
            Gone::Network(std::io::Error::other(error))
        })?;
        let mut fds = [PollFd::new(&fd, flags)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Gone::Network(error.into())),
        }
    }

    /// Connects; `needs_server` says whether only `throng ping serve` will do there.
    pub(crate) fn connect(&self, addr: SocketAddr, needs_server: bool) -> Result<TcpStream, Gone> {
        let failed = |error| Gone::connecting((addr, self.timeout), needs_server, error);
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP));
        let socket = socket.map_err(Gone::Network)?;
        let begun = socket.connect(&addr.into());
        let in_progress = rustix::io::Errno::INPROGRESS.raw_os_error();
        match begun {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(in_progress) => {
                while !self.wait(&socket, PollFlags::OUT)? {
                    if self.is_up() {
                        return Err(failed(ErrorKind::TimedOut.into()));
                    }
                }
                if let Some(error) = socket.take_error().map_err(Gone::Network)? {
                    return Err(failed(error));
                }
            }
            Err(error) => return Err(failed(error)),
        }
        socket.set_nonblocking(false).map_err(Gone::Network)?;
        Ok(socket.into())
    }

    /// Reads what there is, when there is something; none when the time is up.
    pub(crate) fn read(
        &self,
        mut stream: &TcpStream,
        bytes: &mut [u8],
    ) -> Result<Option<usize>, Gone> {
        loop {
            if self.wait(stream, PollFlags::IN)? {
                match stream.read(bytes) {
                    Ok(len) => return Ok(Some(len)),
                    Err(error) if would_wait(&error) => {}
                    Err(error) => return Err(Gone::of(error)),
                }
            }
            if self.is_up() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::{Gone, Patience};

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn whoever_is_to_stop_waits_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let read = std::thread::scope(|scope| {
            let read = scope.spawn(|| Patience::new(LONG, &stop).read(&stream, &mut [0]));
            std::thread::sleep(Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
            read.join().unwrap()
        });
        assert!(matches!(read, Err(Gone::Stopped)), "{read:?}");
        assert!(began.elapsed() < LONG / 10);
        let addr = listener.local_addr().unwrap();
        assert!(Patience::new(LONG, &AtomicBool::new(false)).connect(addr, true).is_ok());
        let nothing = Patience::new(Duration::from_millis(20), &AtomicBool::new(false))
            .read(&stream, &mut [0]);
        assert!(matches!(nothing, Ok(None)), "{nothing:?}");
    }
}
