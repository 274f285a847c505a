//! The client's control connection: opens a session, keeps it open, notices that the server is
//! gone, and asks what it has counted.
//!
//! In: the server's lines. Out: the session's number, and why it ended. What the lines mean stands
//! in `protocol`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::probe::Gone;
use super::protocol::{BEAT, Hello, LINE_BYTES_MAX, Reply, Role, SILENCE_MAX};
use crate::measure::text::one_line;

/// How long the server may take to say what it has counted.
const COUNT_MAX: Duration = Duration::from_millis(500);

/// Says a first line and reads its answer: session and version of the server.
pub(super) fn greet(
    stream: &mut TcpStream,
    hello: &Hello,
    timeout: Duration,
) -> Result<(u64, String), Gone> {
    stream.set_read_timeout(Some(timeout)).map_err(Gone::Network)?;
    stream.set_write_timeout(Some(timeout)).map_err(Gone::Network)?;
    stream.write_all(hello.line().as_bytes()).map_err(Gone::of)?;
    let line = first_line(stream, timeout)?;
    match Reply::read(&line) {
        Ok(Reply::Ok { session, version }) => Ok((session, version)),
        Ok(Reply::No { text, .. }) => Err(Gone::Refused(one_line(&text))),
        Err(bad) => Err(Gone::reply(&bad, &line)),
    }
}

/// A line without its end; of a stranger who says more without one, what came until then. A byte
/// at a time: what follows belongs to somebody else.
fn first_line(stream: &mut TcpStream, timeout: Duration) -> Result<String, Gone> {
    let deadline = Instant::now() + timeout;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX && Instant::now() < deadline {
        match stream.read(&mut byte) {
            Ok(0) if line.is_empty() => return Err(Gone::Closed),
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            Ok(_) => line.push(byte[0]),
            // With a timeout set, such calls are not begun again by the system. Source: signal(7).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if super::probe::would_wait(&error) => break,
            Err(error) => return Err(Gone::of(error)),
        }
    }
    if line.is_empty() {
        return Err(Gone::Mute(timeout));
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// An open session.
#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
    pub(super) session: u64,
    /// The server's.
    pub(super) version: String,
    /// Of a line that is not whole yet.
    partial: Vec<u8>,
    heard: Instant,
    said: Instant,
    counted: Option<u64>,
}

impl Control {
    pub(super) fn open(plan: &Plan) -> Result<Self, Gone> {
        let stream = TcpStream::connect_timeout(&plan.place.addr, plan.timeout);
        let mut stream = stream.map_err(|error| Gone::connecting(plan, error))?;
        stream.set_nodelay(true).map_err(Gone::Network)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello =
            Hello { role: Role::Control, token: plan.token.clone(), session: None, version };
        let (session, version) = greet(&mut stream, &hello, plan.timeout)?;
        stream.set_nonblocking(true).map_err(Gone::Network)?;
        let (heard, said) = (Instant::now(), Instant::now());
        Ok(Self { stream, session, version, partial: Vec::new(), heard, said, counted: None })
    }

    /// To be called several times a second: says that this end is there, and hears the other.
    pub(super) fn turn(&mut self) -> Result<(), Gone> {
        if self.said.elapsed() >= BEAT {
            self.said = Instant::now();
            self.say("?\n")?;
        }
        let mut bytes = [0; LINE_BYTES_MAX];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Gone::Closed),
                Ok(len) => self.hear(&bytes[..len])?,
                Err(error) if super::probe::would_wait(&error) => break,
                Err(error) => return Err(Gone::of(error)),
            }
        }
        if self.heard.elapsed() > SILENCE_MAX {
            return Err(Gone::Vanished(SILENCE_MAX));
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> Result<(), Gone> {
        match self.stream.write(line.as_bytes()) {
            Ok(_) => Ok(()),
            // Silence will tell.
            Err(error) if super::probe::would_wait(&error) => Ok(()),
            Err(error) => Err(Gone::of(error)),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.heard = Instant::now();
        for byte in bytes {
            if *byte != b'\n' {
                if self.partial.len() >= LINE_BYTES_MAX {
                    return Err(Gone::Broken("a line without an end".to_owned()));
                }
                self.partial.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned();
            match line.split_once(' ') {
                Some(("bye", why)) => return Err(Gone::Ended(one_line(why))),
                Some(("datagrams", count)) => self.counted = count.parse().ok(),
                // An answer to the beat; what a newer server says besides can be left out.
                _ => {}
            }
        }
        Ok(())
    }

    /// How many datagrams of this session the server got.
    pub(super) fn count(&mut self) -> Option<u64> {
        self.counted = None;
        self.say("count\n").ok()?;
        let deadline = Instant::now() + COUNT_MAX;
        while self.counted.is_none() && Instant::now() < deadline {
            self.turn().ok()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        self.counted
    }

    /// Says why the session ends.
    pub(super) fn end(mut self, why: &str) {
        // Who is gone need not know.
        let _ = self.say(&format!("bye {why}\n"));
    }
}
