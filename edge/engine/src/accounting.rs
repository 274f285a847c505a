//! What the kernel has counted: the processor time of a thread, and what TCP knows of a connection.
//!
//! In: who is asked about. Out: numbers as the kernel keeps them. What they mean for a measurement is
//! not decided here.
//!
//! Unsafe code hands the kernel the address of a value of ours and its size, for the length of a call.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

/// Room for what the kernel tells of a connection, whose structure grows at the end. Source:
/// linux/tcp.h, `struct tcp_info`, 248 bytes in Linux 6.18.
pub const TCP_INFO_BYTES: usize = 512;

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In user mode.
    pub user: Duration,
    /// In the kernel, on behalf of it; interrupts that came meanwhile are in it where the kernel does
    /// not account them apart.
    pub system: Duration,
}

/// What the calling thread has used since it began. Source: getrusage(2), `RUSAGE_THREAD`.
///
/// # Errors
/// When the system does not say; Linux always does.
pub fn thread_usage() -> io::Result<Usage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to the address of one, which outlives the call.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers only, all of which were zero at least.
    let usage = unsafe { usage.assume_init() };
    let span = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    Ok(Usage { user: span(usage.ru_utime), system: span(usage.ru_stime) })
}

/// What TCP knows of a connection, as the kernel has it: `struct tcp_info` of linux/tcp.h, as many of
/// its bytes as this kernel knows. Source: tcp(7), `TCP_INFO`.
///
/// # Errors
/// When it is no socket of TCP.
pub fn tcp_info(socket: impl AsFd, room: &mut [u8; TCP_INFO_BYTES]) -> io::Result<&[u8]> {
    let fd = socket.as_fd().as_raw_fd();
    let Ok(mut len) = libc::socklen_t::try_from(room.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let value = room.as_mut_ptr().cast();
    // SAFETY: the kernel writes `len` bytes at most, which `room` has, and says in it how many.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut len) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let len = usize::try_from(len).unwrap_or(0).min(room.len());
    Ok(&room[..len])
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    use super::{TCP_INFO_BYTES, tcp_info, thread_usage};

    #[test]
    fn a_thread_that_works_uses_time_and_one_that_sleeps_does_not() {
        let used = |it: super::Usage| it.user + it.system;
        let before = used(thread_usage().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        // The kernel counts in ticks where it does not count exactly.
        while used(thread_usage().unwrap()) < before + Duration::from_millis(20) {
            assert!(Instant::now() < deadline);
        }
        let other = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            thread_usage().unwrap()
        });
        assert!(used(other.join().unwrap()) < used(thread_usage().unwrap()));
    }

    #[test]
    fn a_connection_is_told_and_what_is_none_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut room = [0; TCP_INFO_BYTES];
        let info = tcp_info(&stream, &mut room).unwrap();
        // `tcpi_state` is the first byte: 1 is established. Linux 4.9 tells 192 bytes.
        assert!(info.len() >= 104 && info[0] == 1, "{info:?}");
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(&datagrams, &mut room).is_err());
    }
}
