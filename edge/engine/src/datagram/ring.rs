//! io_uring: one multishot receive that fills buffers which were provided before, with or without
//! UDP_GRO.
//!
//! Source: io_uring_prep_recvmsg_multishot(3), io_uring_enter(2) on `min_wait_usec`.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, types};

use super::address::{NAME_BYTES, length};
use super::control::CONTROL_BYTES;
use super::many::MERGED_BYTES;
use super::options::{Source, is_nothing};
use super::segments::{Piece, give};
use super::{Batch, Datagram, OpenError, Receiver, Setup};
use crate::uring::buffers::BufferRing;
use crate::uring::probe::build_ring;

/// Receives, cancels: there are never more.
const SUBMISSIONS: u32 = 8;
/// Buffers of one datagram each, and of merged ones.
const BUFFERS: u16 = 512;
const MERGED_BUFFERS: u16 = 128;
const GROUP: u16 = 0;
/// Before name, control messages and bytes, in each buffer. Source: `struct io_uring_recvmsg_out`.
const HEAD_BYTES: usize = 16;
/// Completions for which a gathering wait ends early.
const GATHERED_MAX: usize = 32;
/// Lets the kernel do its work for completions. Source: `IORING_ENTER_GETEVENTS` in linux/io_uring.h.
const GET_EVENTS: u32 = 1;

const RECEIVE: u64 = 1;
const CANCEL: u64 = 2;

/// [`super::Style::Uring`] and [`super::Style::UringGro`]. What the kernel may write to comes after
/// the ring, so that it goes later.
pub(super) struct Ring {
    ring: IoUring,
    buffers: BufferRing,
    /// Tells the kernel how a buffer is divided.
    form: Box<libc::msghdr>,
    source: Source,
    bytes_max: usize,
    batch: usize,
    gather: Duration,
    has_short_waits: bool,
    is_armed: bool,
}

impl Ring {
    pub(super) fn open(socket: UdpSocket, setup: &Setup, has_gro: bool) -> Result<Self, OpenError> {
        let source = Source::new(socket, setup, has_gro)?;
        let count = if has_gro { MERGED_BUFFERS } else { BUFFERS };
        let ring = build_ring(SUBMISSIONS, u32::from(count) * 2)
            .map_err(OpenError::of("io_uring_setup"))?;
        let control_bytes = if setup.ecn || has_gro { CONTROL_BYTES } else { 0 };
        let piece_bytes = if has_gro { MERGED_BYTES } else { setup.datagram_bytes_max };
        let all = HEAD_BYTES + NAME_BYTES + control_bytes + piece_bytes;
        let buffers = u32::try_from(all.next_multiple_of(8))
            .map_err(io::Error::other)
            .and_then(|bytes| BufferRing::new(count, bytes))
            .and_then(|buffers| buffers.register(&ring.submitter(), GROUP).map(|()| buffers))
            .map_err(OpenError::of("provided buffers"))?;
        // SAFETY: a header is numbers and pointers, for all of which zero is a value.
        let mut form: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        form.msg_namelen = length(NAME_BYTES);
        form.msg_controllen = control_bytes;
        let has_short_waits = ring.params().is_feature_min_timeout();
        let (bytes_max, gather) = (setup.datagram_bytes_max, setup.gather);
        Ok(Self {
            ring,
            buffers,
            form,
            source,
            bytes_max,
            batch: setup.batch,
            gather,
            has_short_waits,
            is_armed: false,
        })
    }

    /// Prepares an operation; there is always room for it.
    ///
    /// # Safety
    /// What the operation names must stay in its place until its last completion.
    unsafe fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
    }

    fn arm(&mut self) -> io::Result<()> {
        let file = types::Fd(self.source.socket.as_raw_fd());
        let entry = opcode::RecvMsgMulti::new(file, &raw const *self.form, GROUP).build();
        // SAFETY: the form is boxed, and the buffers are registered; both outlive the operation,
        // for whose end `drop` waits.
        unsafe { self.push(&entry.user_data(RECEIVE))? };
        self.is_armed = true;
        Ok(())
    }

    /// Submits what is prepared, and has the kernel complete what it can, without waiting.
    fn look(&mut self) -> io::Result<()> {
        let prepared = u32::try_from(self.ring.submission().len()).map_err(io::Error::other)?;
        let submitter = self.ring.submitter();
        // SAFETY: as many entries as are prepared, and no argument, which is why it has no size.
        passed(unsafe { submitter.enter::<()>(prepared, 0, GET_EVENTS, None) })
    }

    /// Submits what is prepared, waits for a completion, and then lets more come; how many calls it
    /// took.
    fn wait(&mut self, patience: Duration) -> io::Result<u64> {
        let timeout = Timespec::from(patience);
        let mut args = SubmitArgs::new().timespec(&timeout);
        let mut want = 1;
        let gathers = !self.gather.is_zero();
        if gathers && self.has_short_waits {
            args = args.min_wait_usec(u32::try_from(self.gather.as_micros()).unwrap_or(u32::MAX));
            want = self.batch.min(GATHERED_MAX);
        }
        passed(self.ring.submitter().submit_with_args(want, &args))?;
        if !gathers || self.has_short_waits || self.ring.completion().is_empty() {
            return Ok(1);
        }
        std::thread::sleep(self.gather);
        self.look()?;
        Ok(3)
    }

    /// Gives what the kernel has completed, `most` pieces at most; whether there was anything.
    fn take(
        &mut self,
        most: usize,
        batch: &mut Batch,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<bool> {
        let (mut failed, mut has_any) = (None, false);
        for entry in self.ring.completion().take(most) {
            if entry.user_data() != RECEIVE {
                continue;
            }
            let flags = entry.flags();
            if !cqueue::more(flags) {
                self.is_armed = false;
            }
            let Ok(len) = usize::try_from(entry.result()) else {
                let error = io::Error::from_raw_os_error(-entry.result());
                if !is_nothing(&error) && error.raw_os_error() != Some(libc::ECANCELED) {
                    failed = Some(error);
                }
                continue;
            };
            has_any = true;
            let Some(id) = cqueue::buffer_select(flags) else {
                batch.unreadable += 1;
                continue;
            };
            let filled = &*self.buffers.filled(id, len);
            if let Ok(out) = RecvMsgOut::parse(filled, &self.form) {
                let piece = Piece {
                    bytes: out.payload_data(),
                    name: out.name_data(),
                    control: out.control_data(),
                    is_truncated: out.is_payload_truncated(),
                };
                give(piece, self.bytes_max, batch, each);
            } else {
                batch.unreadable += 1;
            }
            self.buffers.give_back(id);
        }
        self.buffers.commit();
        failed.map_or(Ok(has_any), Err)
    }
}

impl Receiver for Ring {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch> {
        if !self.is_armed {
            self.arm()?;
        }
        let mut batch = Batch { calls: 1, ..Batch::default() };
        self.look()?;
        if self.take(self.batch, &mut batch, each)? || patience.is_zero() {
            return Ok(batch);
        }
        if !self.is_armed {
            self.arm()?;
        }
        batch.calls += self.wait(patience)?;
        self.take(self.batch, &mut batch, each)?;
        Ok(batch)
    }

    fn dropped(&self) -> io::Result<u64> {
        self.source.dropped()
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        self.source.waiting_bytes()
    }
}

impl Drop for Ring {
    /// Takes the receive back. If the kernel does not let go, which would be its mistake, the
    /// process ends: freed memory would be written to.
    fn drop(&mut self) {
        /// Rounds of cancelling and waiting 10 ms each.
        const ROUNDS_MAX: usize = 500;
        for _ in 0..ROUNDS_MAX {
            if !self.is_armed {
                return;
            }
            let cancel = opcode::AsyncCancel::new(RECEIVE).build().user_data(CANCEL);
            // SAFETY: the operation names no memory.
            let pushed = unsafe { self.push(&cancel) };
            self.gather = Duration::ZERO;
            let entered = pushed.and_then(|()| self.wait(Duration::from_millis(10)));
            // What comes now is for nobody, errors included; the flag is what counts.
            let _ = self.take(usize::MAX, &mut Batch::default(), &mut |_| {});
            if let Err(error) = entered {
                tracing::error!(%error, "cannot take memory back from the kernel");
                break;
            }
        }
        if self.is_armed {
            tracing::error!("the kernel does not give memory back");
            std::process::abort();
        }
    }
}

/// The result of entering, without what only means "nothing yet".
fn passed(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(error) if !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Errors of waiting that only mean "nothing yet" or "take your completions first".
pub(super) fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::{Ring, Setup};

    /// Also where the kernel has no wait that gathers.
    #[test]
    fn who_had_to_wait_gathers_however_the_kernel_waits() {
        const GATHER: Duration = Duration::from_millis(3);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let setup = Setup { gather: GATHER, ..Setup::default() };
        let mut ring = match Ring::open(socket, &setup, false) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        ring.has_short_waits = false;
        let (ask, asked) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                for () in asked {
                    std::thread::yield_now();
                    sender.send_to(b"now", to).unwrap();
                }
            });
            // The sender may be before the receiver, but not always.
            let has_waited = (0..1_000).any(|_| {
                ask.send(()).unwrap();
                let began = Instant::now();
                let batch =
                    super::Receiver::receive(&mut ring, Duration::from_secs(20), &mut |_| {});
                let (batch, took) = (batch.unwrap(), began.elapsed());
                assert_eq!(batch.datagrams, 1);
                let waited = batch.calls > 1;
                assert!(!waited || (batch.calls == 4 && took >= GATHER), "{batch:?} {took:?}");
                waited
            });
            drop(ask);
            assert!(has_waited);
        });
    }
}
