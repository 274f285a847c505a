//! The client's control connection: opens a session, keeps it open, notices that the server is
//! gone, and asks what it has counted.
//!
//! In: the server's lines. Out: the session's number, what was said in it, and why it ended. What the
//! lines mean stands in `protocol`, those of a flow in `flow::words`.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::gone::{Gone, would_wait};
use super::patience::Patience;
use super::protocol::{BEAT, Hello, LINE_BYTES_MAX, Reply, Role, SILENCE_MAX, Service};
use crate::measure::text::one_line;

/// How long the server may take to say what it has counted.
const COUNT_MAX: Duration = Duration::from_millis(500);
/// How often an answer is looked for.
const LOOK: Duration = Duration::from_millis(1);
/// Lines that were said and not asked for yet, at most; the oldest are forgotten. A flow's end says
/// one for each of its connections.
const LINES_MAX: usize = 1_024;

/// Reads of one turn, each of at most [`LINE_BYTES_MAX`]; the rest waits in the socket for the next.
/// Whoever writes without a pause does not keep the caller from looking at its time and its signals.
const READS_MAX: usize = 16;

/// Where a session is opened, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial<'a> {
    pub(crate) service: Service,
    pub(crate) addr: SocketAddr,
    pub(crate) token: Option<&'a str>,
    /// For the connection, and for each answer of its beginning.
    pub(crate) timeout: Duration,
    /// Set from outside to end the run, before that time is up.
    pub(crate) stop: &'a AtomicBool,
}

impl<'a> Dial<'a> {
    /// From now on.
    pub(crate) fn patience(&self) -> Patience<'a> {
        Patience::new(self.timeout, self.stop)
    }

    /// A connection of this session, or its first one.
    pub(crate) fn connect(&self) -> Result<TcpStream, Gone> {
        let stream = self.patience().connect(self.addr, true)?;
        stream.set_nodelay(true).map_err(Gone::Network)?;
        Ok(stream)
    }
}

/// Says a first line and reads its answer: session and version of the server.
pub(crate) fn greet(
    mut stream: &TcpStream,
    hello: &Hello,
    patience: Patience<'_>,
) -> Result<(u64, String), Gone> {
    // The first bytes of a connection find room.
    stream.write_all(hello.line().as_bytes()).map_err(Gone::of)?;
    let line = first_line(stream, patience)?;
    match Reply::read(&line) {
        Ok(Reply::Ok { session, version }) => Ok((session, version)),
        Ok(Reply::No { text, .. }) => Err(Gone::Refused(one_line(&text))),
        Err(bad) => Err(Gone::reply(&bad, &line)),
    }
}

/// A line without its end; of a stranger who says more without one, what came until then. A byte
/// at a time: what follows belongs to somebody else.
fn first_line(stream: &TcpStream, patience: Patience<'_>) -> Result<String, Gone> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX {
        match patience.read(stream, &mut byte)? {
            Some(0) if line.is_empty() => return Err(Gone::Closed),
            None | Some(0) => break,
            Some(_) if byte[0] == b'\n' => {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            Some(_) => line.push(byte[0]),
        }
    }
    if line.is_empty() {
        return Err(Gone::Mute(patience.timeout()));
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// An open session.
#[derive(Debug)]
pub(crate) struct Control {
    stream: TcpStream,
    pub(crate) session: u64,
    /// The server's.
    pub(crate) version: String,
    /// Of a line that is not whole yet.
    partial: Vec<u8>,
    heard: Instant,
    said: Instant,
    /// What the server said that is not of the session itself.
    lines: VecDeque<String>,
    /// What could not be written yet.
    unsaid: Vec<u8>,
}

impl Control {
    pub(crate) fn open(dial: Dial<'_>) -> Result<Self, Gone> {
        let stream = dial.connect()?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let token = dial.token.map(str::to_owned);
        let hello =
            Hello { service: dial.service, role: Role::Control, token, session: None, version };
        let (session, version) = greet(&stream, &hello, dial.patience())?;
        stream.set_nonblocking(true).map_err(Gone::Network)?;
        let (heard, said) = (Instant::now(), Instant::now());
        Ok(Self {
            stream,
            session,
            version,
            partial: Vec::new(),
            heard,
            said,
            lines: VecDeque::new(),
            unsaid: Vec::new(),
        })
    }

    /// To be called several times a second: says that this end is there, and hears the other, but not
    /// more than a bounded part of what it says.
    pub(crate) fn turn(&mut self) -> Result<(), Gone> {
        if self.said.elapsed() >= BEAT {
            self.said = Instant::now();
            self.say("?\n")?;
        }
        let mut bytes = [0; LINE_BYTES_MAX];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Gone::Closed),
                Ok(len) => self.hear(&bytes[..len])?,
                Err(error) if would_wait(&error) => break,
                Err(error) => return Err(Gone::of(error)),
            }
        }
        if self.heard.elapsed() > SILENCE_MAX {
            return Err(Gone::Vanished(SILENCE_MAX));
        }
        Ok(())
    }

    /// Says a line, which ends in a line feed; what finds no room goes before the next.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), Gone> {
        // Of an end that takes nothing any more, silence will tell.
        if self.unsaid.len() < LINE_BYTES_MAX {
            self.unsaid.extend_from_slice(line.as_bytes());
        }
        match self.stream.write(&self.unsaid) {
            Ok(len) => {
                self.unsaid.drain(..len);
                Ok(())
            }
            Err(error) if would_wait(&error) => Ok(()),
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
                // An answer to the beat, or what a newer server says besides.
                None => {}
                Some(_) => {
                    if self.lines.len() >= LINES_MAX {
                        self.lines.pop_front();
                    }
                    self.lines.push_back(line);
                }
            }
        }
        Ok(())
    }

    /// How many datagrams of this session the server got.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.say("count\n").ok()?;
        self.await_line("datagrams", COUNT_MAX).ok()??.parse().ok()
    }

    /// The next line that was said with this first word, without it, if one has come.
    pub(crate) fn line(&mut self, word: &str) -> Option<String> {
        let is_it = |line: &String| line.split_once(' ').is_some_and(|it| it.0 == word);
        let at = self.lines.iter().position(is_it)?;
        let line = self.lines.remove(at)?;
        line.split_once(' ').map(|it| it.1.to_owned())
    }

    /// Likewise, waited for; none if it did not come in time.
    pub(crate) fn await_line(
        &mut self,
        word: &str,
        timeout: Duration,
    ) -> Result<Option<String>, Gone> {
        let deadline = Instant::now() + timeout;
        loop {
            self.turn()?;
            let line = self.line(word);
            if line.is_some() || Instant::now() >= deadline {
                return Ok(line);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Says why the session ends.
    pub(crate) fn end(mut self, why: &str) {
        // Who is gone need not know.
        let _ = self.say(&format!("bye {why}\n"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::super::protocol::{Reply, Service};
    use super::{Control, Dial, LINES_MAX};

    const PATIENCE: Duration = Duration::from_secs(5);

    #[test]
    fn a_server_that_never_stops_writing_does_not_hold_the_caller() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(Reply::line(1).as_bytes()).unwrap();
            let lines = "at 1 2 3\n".repeat(4_096);
            while stream.write_all(lines.as_bytes()).is_ok() {}
        });
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let (stop, service) = (AtomicBool::new(false), Service::Flow);
            let dial = Dial { service, addr, token: None, timeout: PATIENCE, stop: &stop };
            let mut control = Control::open(dial).unwrap();
            let count = 100;
            (0..count).for_each(|_| control.turn().unwrap());
            // Nor does waiting for a line that never comes.
            let waited = control.await_line("ended", Duration::from_millis(20)).unwrap();
            tell.send((waited, control.lines.len())).unwrap();
        });
        let (waited, lines) = told.recv_timeout(PATIENCE).expect("held");
        assert!(waited.is_none() && lines > 0 && lines <= LINES_MAX, "{waited:?} {lines}");
    }
}
