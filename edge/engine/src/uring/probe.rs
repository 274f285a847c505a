//! What the ring driver needs of the kernel, and whether it is there: tried, not guessed from a
//! version. Linux 6.1 has all of it.

use std::io;

use io_uring::{IoUring, Probe, opcode};

use super::buffers::BufferRing;
use crate::choice::Missing;

/// Operations that must exist, with their names.
const NEEDED: &[(u8, &str)] = &[
    (opcode::Accept::CODE, "accept"),
    (opcode::RecvMulti::CODE, "receive"),
    (opcode::Send::CODE, "send"),
    (opcode::SendMsg::CODE, "sendmsg"),
    (opcode::PollAdd::CODE, "poll"),
    (opcode::Shutdown::CODE, "shutdown"),
    (opcode::Socket::CODE, "socket"),
    (opcode::Connect::CODE, "connect"),
    (opcode::AsyncCancel2::CODE, "cancel"),
    (opcode::Close::CODE, "close"),
    (opcode::Read::CODE, "read"),
];

/// A ring as the driver uses it. One thread submits, and the kernel's own work for its
/// completions is done only when that thread asks for them: no interruptions.
pub(crate) fn build_ring(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
    builder.setup_cqsize(completions).build(submissions)
}

/// Tries a small ring.
pub(crate) fn probe() -> Result<(), Missing> {
    let ring = build_ring(8, 16).map_err(refused)?;
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return Err(Missing::Feature);
    }
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known).map_err(refused)?;
    if let Some((_, operation)) = NEEDED.iter().find(|(code, _)| !known.is_supported(*code)) {
        return Err(Missing::Operation { operation });
    }
    ring.submitter().register_files_sparse(8).map_err(|error| Missing::Files { error })?;
    let buffers = BufferRing::new(8, 64).map_err(|error| Missing::Buffers { error })?;
    let registered = buffers.register(&ring.submitter(), 0);
    drop(ring);
    registered.map_err(|error| Missing::Buffers { error })
}

fn refused(error: io::Error) -> Missing {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Missing::Absent,
        Some(libc::EPERM) => Missing::Forbidden,
        Some(libc::EINVAL) => Missing::TooOld,
        _ => Missing::Ring { error },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::{build_ring, probe, refused};

    /// A kernel that takes the flags has all the rest, so that a probe which refuses it is wrong:
    /// every test of the ring would be skipped.
    #[test]
    fn a_ring_that_can_be_built_is_not_refused() {
        let (built, probed) = (build_ring(8, 16), probe());
        assert_eq!(probed.is_ok(), built.is_ok(), "{probed:?}");
    }

    #[test]
    fn every_refusal_has_its_words() {
        for (errno, words) in [
            (libc::ENOSYS, "the system has no io_uring"),
            (libc::EPERM, "io_uring is forbidden"),
            (libc::EINVAL, "Linux 6.1 or later is needed"),
            (libc::ENOMEM, "io_uring cannot be set up: "),
        ] {
            let missing = refused(Error::from_raw_os_error(errno)).to_string();
            assert!(missing.contains(words), "{errno}: {missing}");
        }
    }
}
