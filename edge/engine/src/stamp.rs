//! Datagrams with the moment at which they came, as the kernel noted it: whoever reads late still knows
//! when they were there. For who measures; core threads do not ask.
//!
//! In: a socket. Out: one datagram a call, with the kernel's clock of the day. Not here: batches, which
//! hand out no moments.
//!
//! Unsafe code hands the kernel the addresses of two buffers and their sizes, for the length of a call.
//! Source: socket(7), `SO_TIMESTAMPNS`; recvmsg(2).

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// Room for one moment beside a datagram, and for what else the kernel may tell.
const CONTROL_WORDS: usize = 16;

/// Lets the kernel note when datagrams come to a socket.
///
/// # Errors
/// As the system says.
pub fn stamp_arrivals(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let Ok(len) = libc::socklen_t::try_from(size_of::<libc::c_int>()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the kernel reads `len` bytes from the address of a number that outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            len,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives one datagram without waiting: how many of its bytes `room` took, and when it came, since
/// 1970; without a moment if the kernel told none.
///
/// # Errors
/// As recv(2); `WouldBlock` when there is none.
pub fn receive_stamped(
    socket: &UdpSocket,
    room: &mut [u8],
) -> io::Result<(usize, Option<Duration>)> {
    let mut control = [0_usize; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: numbers and pointers only, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: the header names `room` and `control` with their sizes, and both outlive the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
    let told = header.msg_controllen / size_of::<usize>();
    Ok((len.min(room.len()), moment(control.get(..told).unwrap_or(&control))))
}

/// The moment in control messages: length, level and kind in the first two words, seconds and
/// nanoseconds behind. It is the only one that was asked for, so that it is the first.
fn moment(words: &[usize]) -> Option<Duration> {
    let [len, head, seconds, nanos, ..] = words else { return None };
    let head = head.to_ne_bytes();
    let number = |at: usize| Some(i32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let is_moment = number(0)? == libc::SOL_SOCKET && number(4)? == libc::SCM_TIMESTAMPNS;
    let nanos = u32::try_from(*nanos).ok()?;
    (is_moment && *len >= 4 * size_of::<usize>())
        .then(|| Duration::new(u64::try_from(*seconds).unwrap_or(0), nanos))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, SystemTime};

    use super::{receive_stamped, stamp_arrivals};

    #[test]
    fn who_reads_late_knows_when_it_came() {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        stamp_arrivals(&b).unwrap();
        let mut room = [0; 4];
        let none = receive_stamped(&b, &mut room).unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let slack = Duration::from_millis(5);
        // The kernel begins to note moments a little after it was asked.
        let is_noted = (0..100).any(|_| {
            let before = now();
            a.send_to(b"longer", b.local_addr().unwrap()).unwrap();
            let after = now();
            // As a reader that was kept away.
            std::thread::sleep(Duration::from_millis(20));
            let (len, moment) = receive_stamped(&b, &mut room).unwrap();
            assert_eq!((len, &room), (4, b"long"));
            let moment = moment.unwrap();
            before <= moment + slack && moment < after + slack
        });
        assert!(is_noted);
        // A socket that was not asked tells none.
        b.send_to(b"x", a.local_addr().unwrap()).unwrap();
        assert_eq!(receive_stamped(&a, &mut room).unwrap(), (1, None));
    }
}
