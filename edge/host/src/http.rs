//! HTTP/1.1 on a thread for each connection: few clients, small questions. The bytes are `wire`'s.
//!
//! In: a listener, and a function from questions to answers. Out: answers. A listener has a bounded number
//! of connections, and each a bounded time for a whole question, so that who holds some delays only others of
//! the same listener.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::http1::{Connection, Decoder, Limits, ResponseHead, date, respond};

/// Time for a question to arrive, and for an answer to leave.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a question's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Stack of a connection's thread.
const STACK_BYTES: usize = 256 << 10;

/// A question.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) authorization: Option<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Told {
    pub(crate) fn json(status: u16, value: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self { status, kind: "application/json", body }
    }

    pub(crate) fn error(status: u16, what: &str) -> Self {
        Self::json(status, &serde_json::json!({ "error": what }))
    }
}

/// A connection of either kind.
pub(crate) trait Stream: Read + Write + Send + 'static {
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }
}

impl Stream for UnixStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }
}

/// A listener of either kind.
pub(crate) trait Listener: Send + 'static {
    type Stream: Stream;
    fn take(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    fn take(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    fn take(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

/// From questions to answers.
pub(crate) type Answers = Arc<dyn Fn(&Asked) -> Told + Send + Sync>;

/// Serves a listener for as long as the process lives. A connection beyond `most` is closed.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn serve(listener: impl Listener, most: usize, answers: Answers) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        loop {
            let Ok(stream) = listener.take() else {
                // Out of files: until some are free, accept fails at once again and again.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if open.load(Ordering::Relaxed) >= most {
                continue;
            }
            open.fetch_add(1, Ordering::Relaxed);
            let (answers, counted) = (Arc::clone(&answers), Arc::clone(&open));
            let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                // A client that leaves is its own business.
                let _ = converse(stream, &*answers);
                counted.fetch_sub(1, Ordering::Relaxed);
            });
            if spawned.is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    let builder = std::thread::Builder::new().name("http".to_owned()).stack_size(STACK_BYTES);
    builder.spawn(accept).map(drop)
}

fn converse(mut stream: impl Stream, answers: &dyn Fn(&Asked) -> Told) -> io::Result<()> {
    let limits = Limits { body_bytes_max: BODY_BYTES_MAX, ..Limits::default() };
    let mut decoder = Decoder::new();
    let mut piece = [0; 8 << 10];
    let mut since = Instant::now();
    loop {
        // Of the whole question: else a byte now and then would hold a place for ever.
        let left = PATIENCE.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_patience(left)?;
        let len = stream.read(&mut piece)?;
        if len == 0 {
            return Ok(());
        }
        let mut input = &piece[..len];
        loop {
            let (told, connection) = match decoder.next(&mut input, &limits) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    let asked = Asked {
                        method: request.method.to_owned(),
                        path: request.target.path.to_owned(),
                        query: request.target.query.to_owned(),
                        authorization: request.header("authorization").map(<[u8]>::to_vec),
                        body: request.body.to_vec(),
                    };
                    (answers(&asked), Connection::asked_by(&request))
                }
                Err(error) => (Told::error(error.status(), &error.to_string()), Connection::Close),
            };
            let is_last = matches!(connection, Connection::Close);
            stream.set_patience(PATIENCE)?;
            send(&mut stream, &told, connection)?;
            since = Instant::now();
            if is_last {
                return Ok(());
            }
        }
        if decoder.wants_continue() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
    }
}

fn send(stream: &mut impl Write, told: &Told, connection: Connection) -> io::Result<()> {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let mut out = Vec::with_capacity(told.body.len() + 256);
    let head = ResponseHead::new(told.status, told.kind, connection);
    respond(&mut out, &head, &told.body, &date(unix_s));
    stream.write_all(&out)
}
