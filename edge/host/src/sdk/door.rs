//! Where a server's connections come in: how many, whose, and how much in a second.
//!
//! Everything that a server can make the SDK's thread do is paid from one purse, in bytes: what is read and
//! written, and so many for each read, call and connection as their work is worth. It fills at
//! [`BYTES_PER_S`]; who has nothing left waits, and reads of its connections with it, so that a server that
//! floods is as slow as that, and costs the machine a few percent of one processor. No call is refused for it.
//!
//! In: a listener. Out: requests for `grpc` and `rest`. Not here: what they mean.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use super::desk::Desk;
use super::peer::Peers;
use super::{grpc, rest};

/// Connections of a server at one time, both ports together; one more is closed.
const CONNECTIONS_MAX: usize = 16;
/// Calls of a gRPC connection at one time, streams among them; the protocol tells the client.
const STREAMS_MAX: u32 = 32;
/// Watches of a server at one time; one more is refused.
const WATCHES_MAX: usize = 16;
/// Bytes of a request, of gRPC or of REST.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time for a request to arrive.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a server may use of the thread, in bytes; see above.
const BYTES_PER_S: i64 = 512 << 10;
/// What it may use at once after a pause.
const PURSE_BYTES_MAX: i64 = 2 << 20;
/// What a read costs at least, a call, and a connection.
const READ_COST: usize = 64;
pub(super) const CALL_COST: usize = 2 << 10;
const CONNECTION_COST: usize = 8 << 10;

/// Which protocol a listener speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Speech {
    Grpc,
    Rest,
}

#[derive(Debug)]
struct Purse {
    bytes: i64,
    at: Instant,
}

impl Purse {
    /// Takes so much out of it. The time until it holds something again, if it does not.
    fn spend(&mut self, cost: usize, now: Instant) -> Option<Duration> {
        let micros = i64::try_from(now.duration_since(self.at).as_micros()).unwrap_or(i64::MAX);
        // A second fills less than a quarter of it, so that ten fill it whole.
        let grown = micros.min(10_000_000) * BYTES_PER_S / 1_000_000;
        if grown > 0 {
            self.bytes = (self.bytes + grown).min(PURSE_BYTES_MAX);
            self.at = now;
        }
        self.bytes -= i64::try_from(cost).unwrap_or(i64::MAX);
        let lack = u64::try_from(-self.bytes).ok().filter(|it| *it > 0)?;
        Some(Duration::from_micros(lack * 1_000_000 / BYTES_PER_S.unsigned_abs()))
    }
}

/// One server's way in.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) desk: Arc<Desk>,
    pub(super) round: u64,
    /// Whose connections are taken; anybody's where nobody else can come.
    user: Option<u32>,
    purse: Mutex<Purse>,
    seats: Arc<Semaphore>,
    pub(super) watches: Arc<Semaphore>,
}

impl Door {
    pub(super) fn new(desk: Arc<Desk>, round: u64, user: Option<u32>) -> Self {
        Self {
            desk,
            round,
            user,
            purse: Mutex::new(Purse { bytes: PURSE_BYTES_MAX, at: Instant::now() }),
            seats: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
        }
    }

    fn spend(&self, cost: usize) -> Option<Duration> {
        let mut purse = self.purse.lock().unwrap_or_else(PoisonError::into_inner);
        purse.spend(cost, Instant::now())
    }

    /// Pays, and waits if there is nothing to pay with.
    pub(super) async fn pay(&self, cost: usize) {
        if let Some(wait) = self.spend(cost) {
            self.desk.trouble(|it| it.waited += 1);
            sleep(wait).await;
        }
    }

    /// Whether the server that it was opened for still runs.
    pub(super) fn is_open(&self) -> bool {
        self.desk.is(self.round)
    }

    /// Tells the daemon what the server wants, now or in time.
    pub(super) fn tell(self: &Arc<Self>) {
        let Some(mut wait) = self.desk.tell(Instant::now(), false) else { return };
        let door = Arc::clone(self);
        // One at a time: the desk gives a time only if no timer runs.
        tokio::spawn(async move {
            loop {
                sleep(wait).await;
                // Once more, should the timer have come early.
                let Some(more) = door.desk.tell(Instant::now(), true) else { return };
                wait = more;
            }
        });
    }

    /// Whether a connection may be this server's.
    fn is_its(&self, stream: &TcpStream, peers: Option<&Peers>) -> bool {
        let Some(user) = self.user else { return true };
        let (Ok(SocketAddr::V4(near)), Ok(SocketAddr::V4(far))) =
            (stream.peer_addr(), stream.local_addr())
        else {
            return false;
        };
        let opener = peers.and_then(|it| it.user(near, far).ok().flatten());
        opener.is_some_and(|it| it == user || it == 0)
    }
}

/// Takes a server's connections for as long as it is not dropped.
pub(super) async fn stand(
    door: Arc<Door>,
    listener: TcpListener,
    speech: Speech,
    peers: Arc<Option<Peers>>,
) {
    // They end with this task.
    let mut talks = JoinSet::new();
    loop {
        while talks.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files: until some are free, accept fails at once again and again.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Of strangers first: they may not make this server wait, nor take its seats.
        if !door.is_its(&stream, peers.as_ref().as_ref()) {
            door.desk.trouble(|it| it.strangers += 1);
            continue;
        }
        door.pay(CONNECTION_COST).await;
        let Ok(seat) = Arc::clone(&door.seats).try_acquire_owned() else {
            door.desk.trouble(|it| it.refused += 1);
            continue;
        };
        // Answers are small, and each is waited for.
        let _ = stream.set_nodelay(true);
        let stream = Metered { stream, door: Arc::clone(&door), pause: None };
        let door = Arc::clone(&door);
        talks.spawn(async move {
            let _seat = seat;
            talk(stream, door, speech).await;
        });
    }
}

/// One connection, to its end. How it ends is the server's business.
async fn talk(stream: Metered, door: Arc<Door>, speech: Speech) {
    let stream = TokioIo::new(stream);
    match speech {
        Speech::Grpc => {
            let service = service_fn(move |request| grpc::answer(Arc::clone(&door), request));
            let window = u32::try_from(REQUEST_BYTES_MAX).unwrap_or(u32::MAX);
            let _ = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .initial_stream_window_size(window)
                .initial_connection_window_size(2 * window)
                .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
                .max_send_buf_size(REQUEST_BYTES_MAX)
                .serve_connection(stream, service)
                .await;
        }
        Speech::Rest => {
            let service = service_fn(move |request| rest::answer(Arc::clone(&door), request));
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(6 * PATIENCE)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(stream, service)
                .await;
        }
    }
}

/// A connection whose bytes are paid for.
struct Metered {
    stream: TcpStream,
    door: Arc<Door>,
    /// Until there is something to pay with.
    pause: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let len = buf.filled().len() - before;
        if let Some(wait) = self.door.spend(len.max(READ_COST)) {
            self.door.desk.trouble(|it| it.waited += 1);
            self.pause = Some(Box::pin(sleep(wait)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        // What is too much delays the next read, not this answer.
        let _ = self.door.spend(len);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{BYTES_PER_S, PURSE_BYTES_MAX, Purse};

    #[test]
    fn who_spends_too_much_waits() {
        let start = Instant::now();
        let mut purse = Purse { bytes: PURSE_BYTES_MAX, at: start };
        let all = usize::try_from(PURSE_BYTES_MAX).unwrap();
        let second = usize::try_from(BYTES_PER_S).unwrap();
        assert_eq!(purse.spend(all, start), None);
        assert_eq!(purse.spend(second, start), Some(Duration::from_secs(1)));
        let later = start + Duration::from_secs(3);
        assert_eq!(purse.spend(2 * second, later), None);
        assert_eq!(purse.spend(second / 2, later), Some(Duration::from_millis(500)));
        // However long it pauses, it holds no more than it may.
        let later = start + Duration::from_secs(1_000);
        assert_eq!(purse.spend(all, later), None);
        assert!(purse.spend(1, later).is_some());
    }
}
