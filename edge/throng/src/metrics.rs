//! Metrics for Prometheus: a list of samples that closures give when they are asked, in the text
//! format, on a port of its own.
//!
//! Names and labels are Nakama's where the meaning is the same (`metrics.prefix`,
//! `node_name`), so its dashboards find theirs; that is why the text is written here and not by a
//! library that adds `_total` to every counter. A thread accepts, and each connection gets one of
//! [`SCRAPES_MAX`] threads under a deadline: who is silent delays nobody. When all are taken, the
//! oldest that has not asked yet makes room.
//!
//! What is deliberately not here: counting. Threads count for themselves; the closures read.

mod custom;
mod process;
mod text;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use custom::CustomMetrics;

/// Bytes of a request's head; a longer one is refused.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Time for one request to arrive.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// Time for its answer to leave.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Connections that are served at one time.
pub const SCRAPES_MAX: usize = 16;

/// Samples of one answer; more are left out, and `metrics_left_out` says how many.
pub const SAMPLES_MAX: usize = 100_000;

/// Of samples in the text format.
const SAMPLES_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What kind of number a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, from 0 at the start.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Answers by size: samples with the suffixes `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Without the prefix, such as `sessions`; letters, digits and underscores. A name that begins
    /// with `process_` stands without prefix and node, as all programs write it.
    pub name: Cow<'static, str>,
    /// What is written behind the name, for histograms; else empty.
    pub suffix: &'static str,
    /// What is counted, with the unit; one line. The first sample of a name decides.
    pub help: &'static str,
    /// Counter or gauge; the first sample of a name decides.
    pub kind: Kind,
    /// Label names and values. Values come from a bounded set: methods, threads, reasons; never
    /// users, sessions or matches; of scripts' own metrics there is a bounded number.
    pub labels: Vec<(Cow<'static, str>, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A counter without labels. Beyond 2⁵³ the last digits are rounded, as Prometheus does.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus numbers are doubles")]
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        let (name, kind) = (Cow::Borrowed(name), Kind::Counter);
        Self { name, suffix: "", help, kind, labels: Vec::new(), value: value as f64 }
    }

    /// A gauge without labels; rounded as counters are.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus numbers are doubles")]
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        let (name, kind) = (Cow::Borrowed(name), Kind::Gauge);
        Self { name, suffix: "", help, kind, labels: Vec::new(), value: value as f64 }
    }

    /// The same with one more label.
    pub fn with(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((label.into(), value.into()));
        self
    }
}

/// Adds its samples to the list.
type Source = Box<dyn Fn(&mut Vec<Sample>) + Send>;

/// Makes a page.
type Page = Box<dyn Fn() -> String + Send>;

/// Where the samples come from.
pub struct Registry {
    prefix: String,
    common: Vec<(&'static str, String)>,
    sources: Vec<Source>,
    /// By their paths, with their content types.
    pages: Vec<(&'static str, &'static str, Page)>,
}

impl Registry {
    /// A registry with the process's own numbers. `prefix` and `namespace` may be empty.
    pub fn new(prefix: &str, node_name: &str, namespace: &str) -> Self {
        let mut common = vec![("node_name", node_name.to_owned())];
        if !namespace.is_empty() {
            common.push(("namespace", namespace.to_owned()));
        }
        let mut registry =
            Self { prefix: prefix.to_owned(), common, sources: Vec::new(), pages: Vec::new() };
        registry.add(process::samples);
        registry
    }

    /// Adds a source, which is asked at every scrape, on the metrics thread.
    pub fn add(&mut self, source: impl Fn(&mut Vec<Sample>) + Send + 'static) {
        self.sources.push(Box::new(source));
    }

    /// Adds a page of a content type, which is asked when its path is.
    pub fn add_page(
        &mut self,
        (path, content_type): (&'static str, &'static str),
        page: impl Fn() -> String + Send + 'static,
    ) {
        self.pages.push((path, content_type, Box::new(page)));
    }

    /// What a path is answered with: its content type and text. What is no page gets the samples.
    fn answer(&self, path: &str) -> (&'static str, String) {
        match self.pages.iter().find(|(known, ..)| *known == path) {
            Some((_, content_type, page)) => (content_type, page()),
            None => (SAMPLES_TYPE, self.render()),
        }
    }

    /// All samples now, in the text format 0.0.4.
    pub fn render(&self) -> String {
        let mut samples = Vec::new();
        for source in &self.sources {
            source(&mut samples);
        }
        let left_out = samples.len().saturating_sub(SAMPLES_MAX);
        samples.truncate(SAMPLES_MAX);
        let help = "Samples of this answer that were left out because there are too many.";
        samples.push(Sample::gauge("metrics_left_out", help, left_out as u64));
        text::write(&self.prefix, &self.common, &samples)
    }
}

/// The running metrics port. Dropping it stops the thread.
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens and answers every GET, whatever its path, as Nakama does.
    ///
    /// # Errors
    /// If the address is taken or not ours, or the thread cannot be started.
    pub fn start(address: SocketAddr, mut registry: Registry) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let port = Arc::new(Port::default());
        let counted = Arc::downgrade(&port);
        registry.add(move |out| {
            let refused = counted.upgrade().map_or(0, |port| port.refused.load(Ordering::Relaxed));
            let help = "Connections to the metrics port closed without an answer: silent for \
                five seconds, or too many for the port or the limit of open files.";
            out.push(Sample::counter("metrics_refused", help, refused));
        });
        *port.registry.lock().unwrap_or_else(PoisonError::into_inner) = Some(registry);
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                if let Err(error) = stream.and_then(|stream| admit(&port, stream)) {
                    tracing::debug!(%error, "a scrape of the metrics failed");
                    // Out of files or threads: whoever is silent has what the next one needs. Until
                    // that is free, accept fails at once again and again.
                    close_oldest_silent(&port);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens; the port is the system's choice if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread from its accept; an unspecified address is reachable as loopback.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        if woken && let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the port's threads share.
#[derive(Default)]
struct Port {
    registry: Mutex<Option<Registry>>,
    scrapes: Mutex<Scrapes>,
    /// Connections closed without an answer.
    refused: AtomicU64,
}

/// Connections that are being served.
#[derive(Default)]
struct Scrapes {
    /// Whose request has not come yet, the oldest first.
    silent: VecDeque<(u64, Arc<TcpStream>)>,
    /// How many are being answered.
    answering: usize,
    last: u64,
}

impl Scrapes {
    fn count(&self) -> usize {
        self.silent.len() + self.answering
    }
}

impl Port {
    fn scrapes(&self) -> MutexGuard<'_, Scrapes> {
        self.scrapes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives a connection a thread of its own, at the cost of the oldest silent one if need be.
fn admit(port: &Arc<Port>, stream: TcpStream) -> io::Result<()> {
    let stream = Arc::new(stream);
    if port.scrapes().count() >= SCRAPES_MAX && !close_oldest_silent(port) {
        // All are being answered: it is the new one that is closed.
        port.refuse();
        return Ok(());
    }
    let mut scrapes = port.scrapes();
    scrapes.last += 1;
    let number = scrapes.last;
    scrapes.silent.push_back((number, Arc::clone(&stream)));
    drop(scrapes);
    let shared = Arc::clone(port);
    let spawned = std::thread::Builder::new().name("scrape".to_owned()).spawn(move || {
        if let Err(error) = serve(&shared, number, &stream) {
            tracing::debug!(%error, "a scrape of the metrics failed");
        }
    });
    if spawned.is_err() {
        take_silent(port, number);
    }
    spawned.map(drop)
}

/// Makes room at the cost of the oldest connection that has not asked; `false` if there is none.
fn close_oldest_silent(port: &Port) -> bool {
    let Some((_, oldest)) = port.scrapes().silent.pop_front() else { return false };
    port.refuse();
    // Its thread reads the end, unless the peer has gone already.
    let _ = oldest.shutdown(Shutdown::Both);
    true
}

/// Takes a connection off the list of the silent ones; `false` if it had to make room.
fn take_silent(port: &Port, number: u64) -> bool {
    let silent = &mut port.scrapes().silent;
    let at = silent.iter().position(|(other, _)| *other == number);
    at.and_then(|at| silent.remove(at)).is_some()
}

fn serve(port: &Port, number: u64, stream: &TcpStream) -> io::Result<()> {
    let head = head(stream, Instant::now() + HEAD_PATIENCE);
    if !take_silent(port, number) {
        return Ok(());
    }
    let head = head.inspect_err(|_| port.refuse())?;
    port.scrapes().answering += 1;
    let answered = answer(stream, head, &port.registry);
    port.scrapes().answering -= 1;
    answered
}

fn answer(
    stream: &TcpStream,
    head: Option<Vec<u8>>,
    registry: &Mutex<Option<Registry>>,
) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let render = |head: &[u8]| {
        let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
        let line = String::from_utf8_lossy(head);
        let path = line.split(' ').nth(1).unwrap_or("/");
        registry.as_ref().map_or((SAMPLES_TYPE, String::new()), |it| it.answer(path))
    };
    let (status, (content_type, body)) = match head {
        Some(head) if head.starts_with(b"GET ") => ("200 OK", render(&head)),
        Some(_) => ("405 Method Not Allowed", (SAMPLES_TYPE, "only GET\n".to_owned())),
        None => ("431 Request Header Fields Too Large", (SAMPLES_TYPE, "too large\n".to_owned())),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut rest = answer.as_bytes();
    let mut out = stream;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let sent = out.write(rest)?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads up to the empty line; `None` if the head is too long.
fn head(mut stream: &TcpStream, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(Some(head))
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &MetricsServer, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        for byte in request {
            stream.write_all(&[*byte]).unwrap();
        }
        let mut answer = String::new();
        // A refused head may end in a reset after the answer.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn the_port_answers_any_path() {
        let mut registry = Registry::new("nakama", "n1", "");
        registry.add(|out| out.push(Sample::gauge("sessions", "Open sockets.", 3)));
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), registry).unwrap();
        for path in ["/", "/metrics"] {
            let answer = ask(&server, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
            assert!(body.contains("nakama_sessions{node_name=\"n1\"} 3\n"), "{body}");
        }
        assert!(ask(&server, b"POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        drop(server);
    }

    #[test]
    fn a_page_is_at_its_path_and_nowhere_else() {
        let mut registry = Registry::new("nakama", "n1", "");
        registry.add_page(("/zone", "text/html; charset=utf-8"), || "<p>here".to_owned());
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), registry).unwrap();
        let page = ask(&server, b"GET /zone HTTP/1.1\r\n\r\n");
        assert!(page.contains("Content-Type: text/html") && page.ends_with("<p>here"), "{page}");
        let samples = ask(&server, b"GET /zone/ HTTP/1.1\r\n\r\n");
        assert!(samples.contains("nakama_metrics_left_out") && !samples.contains("<p>"));
    }

    #[test]
    fn a_peer_that_leaves_does_not_stop_the_port() {
        let registry = Registry::new("", "n1", "");
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), registry).unwrap();
        drop(TcpStream::connect(server.address()).unwrap());
        assert!(ask(&server, b"GET / HTTP/1.0\r\n\r\n").contains("200 OK"));
    }

    /// Ten connections that say nothing, then three times as many as there are threads.
    #[test]
    fn silent_connections_delay_no_scrape() {
        let registry = Registry::new("", "n1", "");
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), registry).unwrap();
        for silent in [10, 3 * SCRAPES_MAX] {
            let held: Vec<_> =
                (0..silent).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
            let start = Instant::now();
            let answer = ask(&server, b"GET / HTTP/1.0\r\n\r\n");
            assert!(answer.contains("200 OK") && start.elapsed() < HEAD_PATIENCE / 2, "{silent}");
            drop(held);
        }
        let answer = ask(&server, b"GET / HTTP/1.0\r\n\r\n");
        let line = answer.lines().find(|line| line.starts_with("metrics_refused")).unwrap();
        let refused: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(refused >= 2 * SCRAPES_MAX, "{line}");
    }

    #[test]
    fn an_endless_head_is_refused() {
        let registry = Registry::new("", "n1", "");
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), registry).unwrap();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let flood = vec![b'x'; HEAD_BYTES_MAX + 1];
        stream.write_all(&flood).unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, b"HTTP/1.1 431");
    }

    #[test]
    fn too_many_samples_are_left_out_and_counted() {
        let mut registry = Registry::new("", "n1", "");
        registry.add(|out| {
            out.extend((0..SAMPLES_MAX).map(|_| Sample::counter("many", "Many.", 1)));
        });
        let page = registry.render();
        assert!(page.lines().count() < SAMPLES_MAX + 100);
        assert!(!page.contains("metrics_left_out{node_name=\"n1\"} 0\n"));
        assert!(page.contains("metrics_left_out{node_name=\"n1\"} "));
    }
}
