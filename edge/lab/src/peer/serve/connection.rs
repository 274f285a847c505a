//! One connection: its first bytes say what it is, and its thread does that until it ends.
//!
//! In: bytes of a stranger. Out: an answer to each message, or one line that says why not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::protocol::{
    BEAT, HEAD_BYTES, Hello, LINE_BYTES_MAX, PREFIX, Refusal, Reply, Role, SILENCE_MAX, Service,
    read_head,
};
use super::datagrams::plain;
use super::shares::Share;
use super::state::{Happening, SMALL_BYTES, Session, State};
use super::{LOOK, flow, http};
use crate::measure::text::one_line;
use crate::ping::plan::SIZE_BYTES_MAX;

/// How long a first line may take.
const FIRST_LINE_MAX: Duration = Duration::from_secs(2);
/// How long a client may take to read an answer.
const WRITE_MAX: Duration = Duration::from_secs(2);
/// How long a connection of messages may be silent, and a flow carry nothing.
pub(super) const IDLE_MAX: Duration = Duration::from_mins(1);

/// Serves one connection until it ends; `place` is free again then.
pub(super) fn serve(stream: TcpStream, peer: SocketAddr, state: &Arc<State>, place: Share) {
    // A connection that the system does not let us set up is a connection that ends.
    let _ = begin(stream, peer, state);
    drop(place);
}

/// Says that there is no room.
pub(super) fn turn_away(mut stream: TcpStream, state: &State, peer: SocketAddr) {
    state.count(|it| it.refused_busy += 1);
    let options = &state.options;
    let why = format!(
        "too many connections ({} in all, {} of one address, are the most: --connections, \
         --per-address)",
        options.connections_max, options.per_address_max
    );
    let refusal = Refusal::Busy(why.clone());
    // Its buffer is empty, so that this does not wait.
    let _ = stream.set_write_timeout(Some(LOOK));
    let _ = stream.write_all(refusal.line().as_bytes());
    state.tell_refusal("busy", plain(peer.ip()), &why);
}

fn begin(mut stream: TcpStream, peer: SocketAddr, state: &Arc<State>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(WRITE_MAX))?;
    let mut first = Vec::new();
    let line = match first_bytes(&mut stream, state, &mut first)? {
        First::Line(len) => String::from_utf8_lossy(&first[..len]).into_owned(),
        First::Other => return http::serve(&mut stream, peer, state, &first),
        // Whoever times how long connecting takes says nothing and closes.
        First::Nothing => return Ok(()),
    };
    let rest = first.get(line.len() + 1..).unwrap_or_default().to_vec();
    let hello = match Hello::read(&line) {
        Ok(hello) => hello,
        Err(refusal) => return refuse(&mut stream, peer, state, &refusal),
    };
    match hello.role {
        Role::Control => match state.admit(peer.ip(), hello.token.as_deref().unwrap_or("")) {
            Ok(()) => control(&mut stream, peer, state, &hello),
            Err(refusal) => refuse(&mut stream, peer, state, &refusal),
        },
        Role::Tcp => {
            let number = hello.session.unwrap_or(0);
            let session = state.session(number, plain(peer.ip()));
            let session = session.filter(|it| it.service == hello.service);
            let Some(session) = session else {
                return refuse(&mut stream, peer, state, &Refusal::Session);
            };
            if hello.service == Service::Flow {
                return match session.flow.get().and_then(|flow| flow.lane()) {
                    Some(lane) => lane.carry(stream, state, number),
                    None => refuse(&mut stream, peer, state, &Refusal::Session),
                };
            }
            stream.write_all(Reply::line(number).as_bytes())?;
            messages(&mut stream, state, &session, rest)
        }
    }
}

fn refuse(
    stream: &mut TcpStream,
    peer: SocketAddr,
    state: &State,
    refusal: &Refusal,
) -> std::io::Result<()> {
    state.count(|it| {
        let count = match refusal {
            Refusal::Token => &mut it.refused_token,
            Refusal::Guessing { .. } => &mut it.refused_guessing,
            Refusal::Version { .. } => &mut it.refused_version,
            Refusal::Busy(_) => &mut it.refused_busy,
            Refusal::Service(_) | Refusal::Form | Refusal::Asked(_) | Refusal::Session => {
                &mut it.refused_form
            }
        };
        *count += 1;
    });
    state.tell_refusal(refusal.word(), plain(peer.ip()), &refusal.to_string());
    stream.write_all(refusal.line().as_bytes())
}

/// What the first bytes are.
enum First {
    /// A line of the protocol of this length, without its end.
    Line(usize),
    /// Not of the protocol.
    Other,
    /// They did not come.
    Nothing,
}

/// Reads until it is clear what this is.
fn first_bytes(
    stream: &mut TcpStream,
    state: &State,
    first: &mut Vec<u8>,
) -> std::io::Result<First> {
    let deadline = Instant::now() + FIRST_LINE_MAX;
    let mut bytes = [0; LINE_BYTES_MAX];
    loop {
        if state.is_over() || Instant::now() > deadline {
            if !first.is_empty() {
                state.count(|it| it.refused_form += 1);
            }
            return Ok(First::Nothing);
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(First::Nothing),
            Ok(len) => first.extend_from_slice(&bytes[..len]),
            Err(error) if is_time_up(&error) => continue,
            Err(error) => return Err(error),
        }
        let common = first.len().min(PREFIX.len());
        if first[..common] != PREFIX.as_bytes()[..common] {
            return Ok(First::Other);
        }
        if let Some(len) = memchr::memchr(b'\n', first) {
            return Ok(First::Line(len));
        }
        if first.len() > LINE_BYTES_MAX {
            return Ok(First::Other);
        }
    }
}

/// Whether a read has waited as long as it may.
pub(super) fn is_time_up(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Holds a session open while the client says that it is there.
fn control(
    stream: &mut TcpStream,
    peer: SocketAddr,
    state: &Arc<State>,
    hello: &Hello,
) -> std::io::Result<()> {
    let session = state.open(plain(peer.ip()), hello.service);
    state.count(|it| it.sessions += 1);
    state.tell(&Happening::Began { peer: session.peer, version: one_line(&hello.version) });
    let ended = stream
        .write_all(Reply::line(session.number).as_bytes())
        .and_then(|()| listen_to(stream, state, &session));
    state.close(&session);
    let why = ended.unwrap_or_else(|error| format!("connection lost ({error})"));
    let (datagrams, messages) = (&session.datagrams, &session.messages);
    state.tell(&Happening::Ended {
        peer: session.peer,
        why,
        datagrams: datagrams.load(Ordering::Relaxed),
        messages: messages.load(Ordering::Relaxed),
        flow_bytes: session.flow.get().map_or(0, |flow| flow.bytes()),
    });
    Ok(())
}

/// Why the session ends.
fn listen_to(
    stream: &mut TcpStream,
    state: &Arc<State>,
    session: &Session,
) -> std::io::Result<String> {
    let (mut heard, mut said) = (Instant::now(), Instant::now());
    let mut bytes = [0; LINE_BYTES_MAX];
    let mut line = Vec::new();
    loop {
        if state.is_over() {
            stream.write_all(b"bye stopped\n")?;
            return Ok("stopped".to_owned());
        }
        if let Some(flow) = session.flow.get() {
            // What it carries says as well that the other end is there; and the other end is to hear
            // that this one is, however full the way here is.
            if flow.is_moving() {
                heard = Instant::now();
            }
            if said.elapsed() >= BEAT {
                said = Instant::now();
                stream.write_all(b"!\n")?;
            }
            if let Some(why) = flow.overdue() {
                state.count(|it| it.flows_overdue += 1);
                stream.write_all(format!("bye {why}\n").as_bytes())?;
                return Ok(why);
            }
        }
        if heard.elapsed() > SILENCE_MAX {
            state.count(|it| it.vanished += 1);
            return Ok("vanished".to_owned());
        }
        let len = match stream.read(&mut bytes) {
            Ok(0) => return Ok("the other end closed the connection".to_owned()),
            Ok(len) => len,
            Err(error) if is_time_up(&error) => continue,
            Err(error) => return Err(error),
        };
        heard = Instant::now();
        for byte in &bytes[..len] {
            if *byte != b'\n' {
                if line.len() >= LINE_BYTES_MAX {
                    return Ok("a line without an end".to_owned());
                }
                line.push(*byte);
                continue;
            }
            let said = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
            if let Some(("bye", why)) = said.split_once(' ') {
                return Ok(one_line(why));
            }
            answer(stream, state, session, &said)?;
        }
    }
}

/// Answers a line of a session.
fn answer(
    stream: &mut TcpStream,
    state: &Arc<State>,
    session: &Session,
    said: &str,
) -> std::io::Result<()> {
    match said {
        "?" => stream.write_all(b"!\n"),
        "count" => {
            let count = session.datagrams.load(Ordering::Relaxed);
            stream.write_all(format!("datagrams {count}\n").as_bytes())
        }
        _ if session.service == Service::Flow => flow::answer(stream, state, session, said),
        // What a newer client says besides can be left out.
        _ => Ok(()),
    }
}

/// Sends messages back, each when it is whole.
fn messages(
    stream: &mut TcpStream,
    state: &State,
    session: &Session,
    first: Vec<u8>,
) -> std::io::Result<()> {
    let mut filled = first.len();
    let mut input = first;
    input.resize(filled.max(SMALL_BYTES), 0);
    // Memory of a message that is larger than every connection may have.
    let mut room = None;
    let mut moved = Instant::now();
    loop {
        // Before each read: a client that never pauses has to hear of the end too.
        if state.is_over() || session.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        // All whole messages in one write: they came in one read.
        let (len, wanted) = whole(&input[..filled])?;
        if len > 0 {
            stream.write_all(&input[..len])?;
            let count = count(&input[..len]);
            session.messages.fetch_add(count, Ordering::Relaxed);
            state.messages.fetch_add(count, Ordering::Relaxed);
            input.copy_within(len..filled, 0);
            filled -= len;
        }
        if wanted > input.len() {
            drop(room.take());
            room = state.room(session.peer, wanted).ok();
            if room.is_none() {
                state.count(|it| it.refused_busy += 1);
                return Ok(());
            }
            input.resize(wanted, 0);
        }
        match stream.read(&mut input[filled..]) {
            Ok(0) => return Ok(()),
            Ok(len) => filled += len,
            Err(error) if is_time_up(&error) => {
                if moved.elapsed() > IDLE_MAX {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        moved = Instant::now();
    }
}

/// How many bytes at the front are whole messages, and how many the one behind them has.
fn whole(bytes: &[u8]) -> std::io::Result<(usize, usize)> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let (len, _) = read_head(*head);
        if len > SIZE_BYTES_MAX || usize::try_from(len).unwrap_or(0) < HEAD_BYTES {
            return Err(std::io::Error::other("a message of a length that there is not"));
        }
        let len = usize::try_from(len).unwrap_or(HEAD_BYTES);
        if bytes.len() - at < len {
            return Ok((at, len));
        }
        at += len;
    }
    Ok((at, HEAD_BYTES))
}

/// Messages of bytes that are whole ones.
fn count(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(head) = bytes.first_chunk() {
        let (len, _) = read_head(*head);
        bytes = bytes.get(usize::try_from(len).unwrap_or(usize::MAX)..).unwrap_or_default();
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::super::protocol::head;
    use super::{count, whole};

    #[test]
    fn whole_messages_are_found_at_every_split() {
        let mut bytes = Vec::new();
        for (number, len) in [(0, 16_u32), (1, 40), (2, 17)] {
            let start = bytes.len();
            bytes.extend_from_slice(&head(len, number));
            bytes.resize(start + len as usize, 7);
        }
        let ends = [16, 56, 73];
        for cut in 0..=bytes.len() {
            let (found, wanted) = whole(&bytes[..cut]).unwrap();
            let end = ends.into_iter().rev().find(|end| *end <= cut).unwrap_or(0);
            assert_eq!(found, end, "{cut}");
            let has_head = cut - end >= 16;
            let next = ends.iter().find(|it| **it > end).map_or(16, |it| it - end);
            assert_eq!(wanted, if has_head { next } else { 16 }, "{cut}");
            assert_eq!(count(&bytes[..found]), ends.iter().filter(|it| **it <= cut).count() as u64);
        }
        for len in [0, 15, u32::MAX] {
            assert!(whole(&head(len, 0)).is_err(), "{len}");
        }
    }
}
