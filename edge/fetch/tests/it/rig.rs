//! Servers that do as they are told, and a fetcher beside them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use event::{Network, ThreadId};
use fetch::{Door, FetchSettings, FetchStats, Fetcher, HostPattern, Outcome};
use game::fetch::{
    Fetch as _, FetchAnswer, FetchFailed, FetchPayer, FetchRequest, Method, Principal,
};
use uuid::Uuid;

/// Longer than anything here takes: who waits for so long has lost.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const ANN: Principal = Principal::User(Uuid::from_u128(1));
pub(crate) const BOB: Principal = Principal::User(Uuid::from_u128(2));

/// Settings under which 127.0.0.1 and 127.0.0.2 may be reached, at any port.
pub(crate) fn settings() -> FetchSettings {
    FetchSettings {
        allow: HostPattern::parse("*").into_iter().collect(),
        deny: Vec::new(),
        networks: ["127.0.0.1", "127.0.0.2"].iter().filter_map(|it| Network::parse(it)).collect(),
        requests_max: 64,
        requests_per_user: 8,
        requests_per_address: 64,
        requests_per_host: 16,
        waiting_max: 64,
        request_bytes_max: 1 << 20,
        answer_bytes_max: 1 << 20,
        memory_bytes_max: 64 << 20,
        connect_timeout_ms: 30_000,
        timeout_max_ms: 60_000,
        redirects_max: 10,
        allows_downgrade: false,
        allows_insecure: false,
        ca_file: None,
    }
}

pub(crate) fn request(url: impl Into<String>) -> FetchRequest {
    FetchRequest {
        url: url.into(),
        method: Method::Get,
        headers: Vec::new(),
        body: Bytes::new(),
        timeout_ms: 60_000,
        is_insecure: false,
    }
}

pub(crate) fn header(name: &str, value: &str) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
}

type Result = std::result::Result<FetchAnswer, FetchFailed>;

/// A fetcher of one thread.
pub(crate) struct Rig {
    pub(crate) door: Door,
    fetcher: Fetcher,
    outcomes: Receiver<Outcome>,
    tickets: u64,
}

impl Rig {
    pub(crate) fn new(settings: FetchSettings) -> Self {
        let (sender, outcomes) = channel();
        let sender = Mutex::new(sender);
        let post = move |outcome| sender.lock().unwrap().send(outcome).map_err(|back| back.0);
        let fetcher = Fetcher::start(settings, Arc::new(post)).unwrap();
        Self { door: fetcher.door(ThreadId(7)), fetcher, outcomes, tickets: 0 }
    }

    pub(crate) fn stats(&self) -> Arc<FetchStats> {
        self.fetcher.stats()
    }

    pub(crate) fn stop(&self) {
        self.fetcher.stop();
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let samples = self.stats().samples();
        samples.iter().find(|sample| sample.name == name).unwrap().value
    }

    /// Orders a request; its ticket.
    pub(crate) fn start(&mut self, payer: impl Into<FetchPayer>, request: FetchRequest) -> u64 {
        self.tickets += 1;
        self.door.start(self.tickets, payer.into(), request);
        self.tickets
    }

    /// The next outcome, of whichever request.
    pub(crate) fn next(&self) -> (u64, Result) {
        let outcome = self.outcomes.recv_timeout(PATIENCE).expect("an outcome");
        assert_eq!(outcome.thread, ThreadId(7));
        (outcome.ticket, outcome.result)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.outcomes.try_recv().is_err()
    }

    /// What comes of a request, when there is no other.
    pub(crate) fn ask(&mut self, request: FetchRequest) -> Result {
        let ticket = self.start(ANN, request);
        let (of, result) = self.next();
        assert_eq!(of, ticket);
        result
    }

    /// The text of the error that comes of it.
    pub(crate) fn fail(&mut self, request: FetchRequest) -> String {
        self.ask(request).expect_err("an error").0
    }
}

/// A server, a thread for each connection.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) host: &'static str,
    requests: Receiver<String>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each connection's request, whose head and content are given, as `serve` does.
    pub(crate) fn new(serve: impl Fn(TcpStream, &str) + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1", serve)
    }

    pub(crate) fn at(
        host: &'static str,
        serve: impl Fn(TcpStream, &str) + Send + Sync + 'static,
    ) -> Self {
        let (sender, requests) = channel();
        Self::raw(host, requests, move |mut stream| {
            let Some(request) = read(&mut stream) else { return };
            let _ = sender.send(request.clone());
            serve(stream, &request);
        })
    }

    /// Answers everything with these bytes and closes.
    pub(crate) fn saying(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::new(move |mut stream, _| {
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        })
    }

    /// Never answers.
    pub(crate) fn silent(host: &'static str) -> Self {
        Self::at(host, |mut stream, _| {
            // Until the other side has enough.
            let _ = stream.read(&mut [0]);
        })
    }

    pub(crate) fn raw(
        host: &'static str,
        requests: Receiver<String>,
        serve: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { port, host, requests, connections }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.host, self.port)
    }

    /// The next request that it has got.
    pub(crate) fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Head and content of a request.
pub(crate) fn read(stream: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        text.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut content = vec![0; length];
    reader.read_exact(&mut content).ok()?;
    text.push_str(&String::from_utf8(content).ok()?);
    Some(text)
}
