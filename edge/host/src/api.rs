//! The daemon's answers over HTTP: on a socket in its folder for who may open that, and, if the fleet's
//! file says so, on loopback for who has the token.
//!
//! ```text
//! GET  /v1/servers                    all servers and the machine (view::Overview)
//! GET  /v1/servers/NAME/logs?lines=N  the last lines of its output, as text
//! POST /v1/servers/NAME/stop          NAME of a server, or of a table of the file for all of it
//! POST /v1/servers/NAME/start         what was stopped, or failed
//! POST /v1/allocate                   {"server": "NAME"}: one that is ready is given away (view::Status);
//!                                     "labels" and "annotations" are told to it by the SDK
//! POST /v1/stop                       all of them, and the daemon
//! ```
//!
//! Refusals are `{"error": "…"}`. Both ends are here: [`ask`] is what the commands use.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wire::http1::{Limits, RequestHead, ResponseDecoder, request};

use crate::daemon::Event;
use crate::fleet::sdk::{LABEL_CHARS_MAX, METADATA_MAX, VALUE_BYTES_MAX, is_key, is_label};
use crate::http::{self, Answers, Asked, Told};
use crate::sdk::desk::Metadata;
use crate::view::servers;

/// Connections at one time.
const CONNECTIONS_MAX: usize = 64;
/// Time for the daemon to answer, and for an allocation to wait for a server.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes of an answer: the status of all servers, or two files of a log.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Lines of a log, if nobody says how many.
const LINES: usize = 100;

/// What somebody wants of the daemon.
#[derive(Debug)]
pub(crate) enum Wish {
    Overview,
    Logs { name: String, lines: usize },
    Stop { name: String },
    Start { name: String },
    Allocate { name: Option<String>, metadata: Metadata },
    StopAll,
}

/// A wish, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) wish: Wish,
    pub(crate) reply: SyncSender<Told>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens; and how many servers of an earlier daemon still run.
    #[error("{}: no daemon runs there{}", .0.display(), absent(*.1))]
    Absent(PathBuf, usize),
    /// It is another user's.
    #[error(
        "{}: only root, or the user whose daemon it is, may ask it; the folder of a daemon of yours is named by \
         --folder", .0.display()
    )]
    Denied(PathBuf),
    /// The daemon went away, or does not speak as it should.
    #[error("{}: {error}", .path.display())]
    System {
        /// The daemon's socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The daemon said no.
    #[error("{0}")]
    Refused(String),
}

fn absent(left: usize) -> String {
    if left == 0 {
        return ": throng host run FLEET.toml starts one".to_owned();
    }
    let (left, verb) = (servers(left), if left == 1 { "runs" } else { "run" });
    format!(
        ", but {left} of an earlier one still {verb}: throng host run FLEET.toml goes on with what the file \
         names, throng host clean ends and removes them"
    )
}

/// Asks the daemon of a folder. The body of its answer.
///
/// # Errors
/// If there is none, or it refuses.
pub fn ask(folder: &Path, method: &str, target: &str, body: &[u8]) -> Result<Vec<u8>, AskError> {
    let path = folder.join("control");
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::Absent(path.clone(), crate::state::left(folder))
        }
        io::ErrorKind::PermissionDenied => AskError::Denied(path.clone()),
        _ => AskError::System { path: path.clone(), error },
    };
    let mut stream = UnixStream::connect(&path).map_err(failed)?;
    let mut out = Vec::new();
    request(&mut out, &RequestHead { method, target, host: "localhost", extra: b"" }, body);
    stream.write_all(&out).map_err(failed)?;
    let limits = Limits { body_bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
    let mut decoder = ResponseDecoder::new();
    let mut piece = [0; 16 << 10];
    loop {
        let len = stream.read(&mut piece).map_err(failed)?;
        if len == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut input = &piece[..len];
        let next = decoder.next(&mut input, &limits, false);
        let next = next.map_err(|error| failed(io::Error::other(error)))?;
        let Some(response) = next else { continue };
        if response.status == 200 {
            return Ok(response.body.to_vec());
        }
        let said: serde_json::Value = serde_json::from_slice(response.body).unwrap_or_default();
        let said = said.get("error").and_then(|it| it.as_str());
        let status = response.status;
        return Err(AskError::Refused(
            said.map_or_else(|| format!("status {status}"), str::to_owned),
        ));
    }
}

/// Listens in the daemon's folder.
///
/// # Errors
/// What the system says.
pub(crate) fn listen(folder: &Path, events: Sender<Event>) -> io::Result<()> {
    let path = folder.join("control");
    let _ = std::fs::remove_file(&path);
    // The folder is closed to others, so that nobody comes in before the mode is set.
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    http::serve(listener, CONNECTIONS_MAX, answers(events, None))
}

/// Listens on loopback, for who has the token, which is made anew and kept in the folder.
///
/// # Errors
/// What the system says.
pub(crate) fn listen_tcp(
    folder: &Path,
    address: std::net::SocketAddr,
    events: Sender<Event>,
) -> io::Result<std::net::SocketAddr> {
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token = format!("{:032x}", u128::from_be_bytes(random));
    let path = folder.join("token");
    let _ = std::fs::remove_file(&path);
    let file = std::fs::File::options().create_new(true).write(true).mode(0o600).open(path);
    file?.write_all(token.as_bytes())?;
    let listener = std::net::TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    http::serve(listener, CONNECTIONS_MAX, answers(events, Some(token)))?;
    Ok(address)
}

fn answers(events: Sender<Event>, token: Option<String>) -> Answers {
    // A sender may not be shared between threads on its own.
    let events = Mutex::new(events);
    Arc::new(move |asked| {
        if let Some(token) = &token
            && !is_allowed(asked.authorization.as_deref(), token)
        {
            let what =
                "wants the header `Authorization: Bearer` with the text of the daemon's file token";
            return Told::error(401, what);
        }
        let wish = match wish(asked) {
            Ok(wish) => wish,
            Err(told) => return told,
        };
        let (reply, answer) = sync_channel(1);
        let events = events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if events.send(Event::Asked(Question { wish, reply })).is_err() {
            return Told::error(503, "the daemon is ending");
        }
        answer
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Told::error(503, "no answer: no server became ready in time"))
    })
}

/// Compares all bytes whatever they are, so that time tells nothing.
fn is_allowed(header: Option<&[u8]>, token: &str) -> bool {
    let Some(said) = header.and_then(|it| it.strip_prefix(b"Bearer ")) else { return false };
    let differ = said.iter().zip(token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    said.len() == token.len() && differ == 0
}

fn wish(asked: &Asked) -> Result<Wish, Told> {
    let words: Vec<&str> = asked.path.trim_matches('/').split('/').collect();
    match (&*asked.method, &*words) {
        ("GET", ["v1", "servers"]) => Ok(Wish::Overview),
        ("GET", ["v1", "servers", name, "logs"]) => {
            let lines = asked.query.split('&').find_map(|it| it.strip_prefix("lines="));
            let lines = lines.map_or(Ok(LINES), str::parse);
            let lines = lines.map_err(|_| Told::error(400, "`lines` is a number"))?;
            Ok(Wish::Logs { name: (*name).to_owned(), lines })
        }
        ("POST", ["v1", "servers", name, "stop"]) => Ok(Wish::Stop { name: (*name).to_owned() }),
        ("POST", ["v1", "servers", name, "start"]) => Ok(Wish::Start { name: (*name).to_owned() }),
        ("POST", ["v1", "stop"]) => Ok(Wish::StopAll),
        ("POST", ["v1", "allocate"]) => {
            #[derive(serde::Deserialize, Default)]
            #[serde(deny_unknown_fields)]
            struct Body {
                server: Option<String>,
                #[serde(default)]
                labels: BTreeMap<String, String>,
                #[serde(default)]
                annotations: BTreeMap<String, String>,
            }
            let mut body = Body::default();
            if !asked.body.is_empty() {
                let read = serde_json::from_slice(&asked.body);
                body = read.map_err(|error| Told::error(400, &error.to_string()))?;
            }
            let metadata = Metadata { labels: body.labels, annotations: body.annotations };
            check(&metadata)?;
            Ok(Wish::Allocate { name: body.server, metadata })
        }
        (_, ["v1", "servers" | "stop" | "allocate", ..]) => {
            Err(Told::error(405, "not so: GET /v1/servers, POST /v1/stop, POST /v1/allocate"))
        }
        _ => Err(Told::error(404, "there is GET /v1/servers, POST /v1/stop, POST /v1/allocate")),
    }
}

/// Labels and annotations as Kubernetes would take them, so that the same request does there.
fn check(metadata: &Metadata) -> Result<(), Told> {
    let is_label_well = |it: &String| it.is_empty() || is_label(it);
    let is_well = metadata.labels.len().max(metadata.annotations.len()) <= METADATA_MAX
        && metadata.labels.keys().chain(metadata.annotations.keys()).all(|it| is_key(it))
        && metadata.labels.values().all(is_label_well)
        && metadata.annotations.values().all(|it| it.len() <= VALUE_BYTES_MAX);
    if is_well {
        return Ok(());
    }
    let what = format!(
        "`labels` and `annotations`: {METADATA_MAX} of each at most, keys and labels of \
         {LABEL_CHARS_MAX} letters, digits and -_. at most, annotations of {VALUE_BYTES_MAX} bytes"
    );
    Err(Told::error(400, &what))
}

#[cfg(test)]
mod tests {
    use super::{Asked, Wish, is_allowed, wish};

    fn of(method: &str, path: &str, query: &str, body: &str) -> Result<Wish, u16> {
        let asked = Asked {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            authorization: None,
            body: body.into(),
        };
        wish(&asked).map_err(|told| told.status)
    }

    #[test]
    fn routes_are_found() {
        assert!(matches!(of("GET", "/v1/servers", "", ""), Ok(Wish::Overview)));
        assert!(matches!(
            of("GET", "/v1/servers/a-1/logs", "lines=5", ""),
            Ok(Wish::Logs { name, lines: 5 }) if name == "a-1"
        ));
        assert!(matches!(of("POST", "/v1/servers/a/stop", "", ""), Ok(Wish::Stop { .. })));
        assert!(matches!(
            of("POST", "/v1/allocate", "", "{\"server\":\"a\"}"),
            Ok(Wish::Allocate { name: Some(_), .. })
        ));
        assert!(matches!(
            of("POST", "/v1/allocate", "", ""),
            Ok(Wish::Allocate { name: None, .. })
        ));
        let labels = |labels: &str| of("POST", "/v1/allocate", "", labels);
        assert!(labels("{\"labels\":{\"x.dev/a\":\"b\"},\"annotations\":{\"n\":\" \"}}").is_ok());
        assert_eq!(labels("{\"labels\":{\"a\":\" \"}}").unwrap_err(), 400);
        assert_eq!(labels("{\"annotations\":{\"/a\":\"\"}}").unwrap_err(), 400);
        assert_eq!(of("POST", "/v1/allocate", "", "{\"x\":1}").unwrap_err(), 400);
        assert_eq!(of("GET", "/v1/servers/a/logs", "lines=x", "").unwrap_err(), 400);
        assert_eq!(of("GET", "/v1/stop", "", "").unwrap_err(), 405);
        assert_eq!(of("GET", "/", "", "").unwrap_err(), 404);
    }

    #[test]
    fn the_token_is_compared_whole() {
        assert!(is_allowed(Some(b"Bearer abc"), "abc"));
        for header in
            [None, Some(&b"abc"[..]), Some(b"Bearer ab"), Some(b"Bearer abcd"), Some(b"Bearer ")]
        {
            assert!(!is_allowed(header, "abc"));
        }
    }
}
