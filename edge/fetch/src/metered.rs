//! A connection of which no more is read than an answer may have: what is no part of it, such as interim
//! answers (RFC 9110 section 15.2) and the sizes of chunks, would else have no bound but the time.
//!
//! In: a stream. Out: the same, whose reads fail when too much has come. Not here: what an answer's content
//! may have (`carry`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes on the connection for each byte of content: in chunks of a byte there are six.
const PER_BYTE: usize = 8;

/// The bytes that may come for an answer of so many, with a head of so many.
pub(crate) fn bytes_max(content: usize, head: usize) -> usize {
    content.saturating_mul(PER_BYTE).saturating_add(head)
}

/// Whether too much has come, told to who asked for the answer.
pub(crate) type Exceeded = Arc<AtomicBool>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    left: usize,
    exceeded: Exceeded,
}

impl<S> Metered<S> {
    /// At most so many bytes are read.
    pub(crate) fn new(stream: S, most: usize, exceeded: Exceeded) -> Self {
        Self { stream, left: most, exceeded }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buf);
        let came = buf.filled().len() - before;
        match self.left.checked_sub(came) {
            Some(left) => self.left = left,
            None => {
                self.exceeded.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(io::Error::other("too many bytes")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
