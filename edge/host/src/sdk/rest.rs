//! The SDK's calls over REST, as grpc-gateway gives them for Agones: paths and bodies in, JSON out.
//!
//! In: requests of HTTP/1.1. Out: answers. Numbers of 64 bits may come as text or as numbers; fields that
//! nobody knows are passed over. Not here: what a call means (`desk`), and watching by WebSocket.
//!
//! Source: agones-dev/agones 1.61.0, proto/sdk (the `google.api.http` options); what the reference answers to
//! mistakes: status 500 with code 2 for what it refuses, 400 for what is no JSON, 501 for another method.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;

use super::desk::{Code, Desk, Refusal};
use super::door::{CALL_COST, Door, PATIENCE, REQUEST_BYTES_MAX};
use super::messages::{
    Count, CounterUpdate, Empty, KeyValue, List, ListValue, Mask, Named, Number, PlayerId, Seconds,
    UpdateCounter, UpdateList,
};
use super::watch;

type Response = hyper::Response<Body>;

/// A body, or why there is none.
type Answer = Result<Vec<u8>, Refusal>;

/// Answers a request.
pub(super) async fn answer(
    door: Arc<Door>,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    door.pay(CALL_COST).await;
    let (head, body) = request.into_parts();
    let body = timeout(PATIENCE, Limited::new(body, REQUEST_BYTES_MAX).collect()).await;
    let Ok(Ok(body)) = body else {
        let message = format!("no whole body of {REQUEST_BYTES_MAX} bytes at most");
        return Ok(respond(Err(Refusal::new(Code::InvalidArgument, message))));
    };
    let (method, path) = (head.method, head.uri.path());
    if (&method, path) == (&Method::GET, "/watch/gameserver") {
        return Ok(watched(&door));
    }
    let asked = Asked { desk: &door.desk, method, body: body.to_bytes() };
    let response = respond(asked.answer(path));
    door.tell();
    Ok(response)
}

fn respond(answer: Answer) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(refusal) => {
            let code = refusal.code as i32;
            let body = json!({ "code": code, "message": refusal.message, "details": [] });
            let status = match refusal.code {
                Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
                Code::InvalidArgument => StatusCode::BAD_REQUEST,
                Code::NotFound => StatusCode::NOT_FOUND,
                Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
                Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            };
            (status, body.to_string().into_bytes())
        }
    };
    with_body(status, Body::new(Full::new(Bytes::from(body))))
}

fn with_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    let kind = hyper::header::HeaderValue::from_static("application/grpc");
    headers.insert("grpc-metadata-content-type", kind);
    response
}

/// Pictures, each a line.
fn watched(door: &Arc<Door>) -> Response {
    match watch::begin(door) {
        Err(refusal) => respond(Err(refusal)),
        Ok(pictures) => {
            let lines = ReceiverStream::new(pictures).map(|picture| {
                let mut line =
                    serde_json::to_vec(&json!({ "result": picture })).unwrap_or_default();
                line.push(b'\n');
                Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
            });
            with_body(StatusCode::OK, Body::new(StreamBody::new(lines)))
        }
    }
}

fn to_json(answer: Result<impl Serialize, Refusal>) -> Answer {
    Ok(serde_json::to_vec(&answer?).unwrap_or_default())
}

/// A request whose body has come.
struct Asked<'a> {
    desk: &'a Desk,
    method: Method,
    body: Bytes,
}

impl Asked<'_> {
    fn answer(&self, path: &str) -> Answer {
        let words: Vec<_> =
            path.split('/').skip(1).map(|it| percent_decode_str(it).decode_utf8_lossy()).collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let desk = self.desk;
        match (self.method.as_str(), &*words) {
            ("POST", ["ready"]) => self.void(Desk::ready),
            ("POST", ["allocate"]) => self.void(Desk::allocate),
            ("POST", ["shutdown"]) => self.void(Desk::shutdown),
            ("POST", ["health"]) if self.body.is_empty() => {
                Err(Refusal::new(Code::InvalidArgument, "EOF: the body is {}"))
            }
            ("POST", ["health"]) => {
                self.fields()?;
                to_json(Ok(desk.health(Instant::now())))
            }
            ("POST", ["reserve"]) => {
                let seconds = self.fields()?.number("seconds")?.unwrap_or(0);
                to_json(desk.reserve(Seconds { seconds }))
            }
            ("GET", ["gameserver"]) => to_json(desk.game_server(Empty {})),
            ("PUT", ["metadata", "label"]) => to_json(desk.set_label(self.pair()?)),
            ("PUT", ["metadata", "annotation"]) => to_json(desk.set_annotation(self.pair()?)),
            (_, ["v1beta1", "counters", name]) => self.counter(name),
            (_, ["v1beta1", "lists", name]) => self.list(name),
            (_, ["alpha", "player", rest @ ..]) => self.player(rest),
            (
                _,
                ["ready" | "allocate" | "shutdown" | "health" | "reserve" | "gameserver"]
                | ["metadata", "label" | "annotation"]
                | ["watch", "gameserver"],
            ) => not_so(),
            (_, _) => not_found(),
        }
    }

    fn void(&self, work: fn(&Desk, Empty) -> Result<Empty, Refusal>) -> Answer {
        self.fields()?;
        to_json(work(self.desk, Empty {}))
    }

    fn pair(&self) -> Result<KeyValue, Refusal> {
        let fields = self.fields()?;
        Ok(KeyValue { key: fields.text("key")?, value: fields.text("value")? })
    }

    fn counter(&self, name: &str) -> Answer {
        let name = name.to_owned();
        match self.method.as_str() {
            "GET" => to_json(self.desk.counter(Named { name })),
            "PATCH" => {
                let fields = self.fields()?;
                let number = |name| Ok(fields.number(name)?.map(|value| Number { value }));
                let update = CounterUpdate {
                    name,
                    count: number("count")?,
                    capacity: number("capacity")?,
                    count_diff: fields.number("countDiff")?.unwrap_or(0),
                };
                to_json(self.desk.update_counter(UpdateCounter { update: Some(update) }))
            }
            _ => not_so(),
        }
    }

    fn list(&self, name: &str) -> Answer {
        let (name, verb) = name.split_once(':').unwrap_or((name, ""));
        let name = name.to_owned();
        let value = || Ok(ListValue { name: name.clone(), value: self.fields()?.text("value")? });
        match (self.method.as_str(), verb) {
            ("GET", "") => to_json(self.desk.list(Named { name })),
            ("PATCH", "") => {
                let fields = self.fields()?;
                let list = List {
                    name,
                    capacity: fields.number("capacity")?.unwrap_or(0),
                    values: fields.texts("values")?,
                };
                // What the body names is what is meant.
                let paths = ["capacity", "values"].into_iter().filter(|it| fields.has(it));
                let mask = Some(Mask { paths: paths.map(str::to_owned).collect() });
                to_json(self.desk.update_list(UpdateList { list: Some(list), mask }))
            }
            ("POST", "addValue") => to_json(self.desk.add_value(value()?)),
            ("POST", "removeValue") => to_json(self.desk.remove_value(value()?)),
            (_, "" | "addValue" | "removeValue") => not_so(),
            (_, _) => not_found(),
        }
    }

    fn player(&self, rest: &[&str]) -> Answer {
        let desk = self.desk;
        let id = || Ok(PlayerId { id: self.fields()?.text("playerID")? });
        match (self.method.as_str(), rest) {
            ("POST", ["connect"]) => to_json(desk.connect_player(id()?)),
            ("POST", ["disconnect"]) => to_json(desk.disconnect_player(id()?)),
            ("GET", ["capacity"]) => to_json(desk.player_capacity(Empty {})),
            ("PUT", ["capacity"]) => {
                let count = self.fields()?.number("count")?.unwrap_or(0);
                to_json(desk.set_player_capacity(Count { count }))
            }
            ("GET", ["count"]) => to_json(desk.player_count(Empty {})),
            ("GET", ["connected"]) => to_json(desk.player_ids(Empty {})),
            ("GET", ["connected", id]) => {
                to_json(desk.is_player(PlayerId { id: (*id).to_owned() }))
            }
            (_, ["connect" | "disconnect" | "capacity" | "count" | "connected"]) => not_so(),
            (_, _) => not_found(),
        }
    }

    /// The body's fields; of an empty body none.
    fn fields(&self) -> Result<Fields, Refusal> {
        if self.body.is_empty() {
            return Ok(Fields::default());
        }
        let fields = serde_json::from_slice(&self.body);
        fields.map(Fields).map_err(|error| Refusal::new(Code::InvalidArgument, error.to_string()))
    }
}

fn not_so() -> Answer {
    Err(Refusal::new(Code::Unimplemented, "Method Not Allowed"))
}

fn not_found() -> Answer {
    Err(Refusal::new(Code::NotFound, "Not Found"))
}

/// The fields of a JSON object. What is absent, or `null`, has its default.
#[derive(Default)]
struct Fields(serde_json::Map<String, Value>);

impl Fields {
    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|it| !it.is_null())
    }

    fn wrong<T>(name: &str) -> Result<T, Refusal> {
        Err(Refusal::new(Code::InvalidArgument, format!("`{name}` has a wrong type")))
    }

    fn text(&self, name: &str) -> Result<String, Refusal> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Self::wrong(name),
        }
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        number.map_or_else(|| Self::wrong(name), |it| Ok(Some(it)))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let all: Option<Vec<String>> = value
            .as_array()
            .and_then(|all| all.iter().map(|it| it.as_str().map(str::to_owned)).collect());
        all.map_or_else(|| Self::wrong(name), Ok)
    }
}
