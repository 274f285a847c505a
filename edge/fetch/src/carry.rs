//! One request from its beginning to its answer: places, names, a connection, TLS, HTTP, and again
//! from the beginning for each redirect.
//!
//! In: a [`FetchRequest`] and who pays for it. Out: the answer, or why there is none. Each hop is
//! looked at as the first one is. A connection serves one hop and is closed: none is kept for later,
//! so that what was allowed for one request is not used by another. Not here: how long it may take
//! in all, and how many requests there are (`desk`).
//!
//! Source: RFC 9110 section 15.4 for redirects; what becomes of methods, and that ten redirects are
//! enough, as in Go's net/http, which Nakama uses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use game::fetch::{FetchAnswer, FetchPayer, FetchRequest, Method, Principal};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::FetchSettings;
use crate::address::Addresses;
use crate::error::{FetchError, Phase, Progress};
use crate::head;
use crate::metered::{self, Exceeded, Metered};
use crate::names::Names;
use crate::seats::{Seat, Seats};
use crate::stats::FetchStats;
use crate::target::{HostPattern, Target};
use crate::tls::{Tls, TlsError};

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Bytes and lines of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEAD_LINES_MAX: usize = 100;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) settings: FetchSettings,
    pub(crate) stats: Arc<FetchStats>,
    addresses: Addresses,
    names: Names,
    tls: Tls,
    /// `fetch.requests_max`.
    places: Seats<()>,
    /// Of these, for calls of nobody in particular.
    servers_places: Arc<Semaphore>,
    /// `fetch.requests_per_host`. Each port by itself: what does not answer on one takes no place
    /// from what does on another.
    hosts: Seats<Host>,
}

/// A name or address, and a port.
type Host = (String, u16);

/// A request on its way to one target.
struct Hop<'a> {
    progress: &'a Progress,
    target: Target,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    is_insecure: bool,
}

impl Hop<'_> {
    /// What is waited for from now on.
    fn now(&self, phase: fn(String) -> Phase) {
        self.progress.set(phase(self.target.to_string()));
    }
}

/// What came of a hop.
enum Reply {
    Answer(FetchAnswer),
    Redirect(StatusCode, Target),
}

/// Bytes of content in memory, until this is dropped.
struct Held {
    stats: Arc<FetchStats>,
    most: usize,
    bytes: u64,
}

impl Held {
    fn add(&mut self, bytes: usize) -> Result<(), FetchError> {
        let bytes = bytes as u64;
        if self.stats.fetch_bytes_now.read() + bytes > self.most as u64 {
            return Err(FetchError::Memory { most: self.most });
        }
        self.stats.fetch_bytes_now.add(bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stats.fetch_bytes_now.take(self.bytes);
    }
}

/// An answer's content. It counts until nobody has it any more: answers may wait in the mailbox of a
/// thread that is busy.
struct Content {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A request that waits for its turn, until it has come or this is dropped.
struct Turn<'a> {
    stats: &'a FetchStats,
    has_come: bool,
}

impl<'a> Turn<'a> {
    fn new(stats: &'a FetchStats) -> Self {
        stats.fetch_waiting_now.up();
        Self { stats, has_come: false }
    }

    fn has_come(mut self) {
        self.has_come = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.stats.fetch_waiting_now.down();
        if !self.has_come {
            self.stats.fetch_turns_missed.up();
        }
    }
}

/// A task that ends with its owner.
struct Ends<T>(JoinHandle<T>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Carrier {
    pub(crate) fn new(settings: FetchSettings, stats: Arc<FetchStats>) -> Result<Self, TlsError> {
        let servers_places = settings.requests_max.div_ceil(2);
        Ok(Self {
            addresses: Addresses::new(settings.networks.clone()),
            names: Names::new(Arc::clone(&stats)),
            tls: Tls::new(settings.ca_file.as_deref())?,
            // What one payer has is bounded before (`desk`).
            places: Seats::new(settings.requests_max, usize::MAX),
            servers_places: Arc::new(Semaphore::new(servers_places)),
            hosts: Seats::new(settings.requests_per_host, usize::MAX),
            settings,
            stats,
        })
    }

    /// Makes a request and follows where it is sent; `progress` tells what is waited for.
    pub(crate) async fn carry(
        &self,
        payer: FetchPayer,
        request: FetchRequest,
        progress: &Progress,
    ) -> Result<FetchAnswer, FetchError> {
        let mut held = self.held();
        held.add(request.body.len())?;
        let mut hop = self.first(request, progress)?;
        let turn = Turn::new(&self.stats);
        let _own = match payer.principal {
            Principal::Server => Arc::clone(&self.servers_places).acquire_owned().await.ok(),
            Principal::User(_) | Principal::Address(_) | Principal::Match(_) => None,
        };
        // The place behind the host's: who waits for a slow host takes it from nobody else.
        let mut seat = self.hosts.take(host_of(&hop.target), payer).await;
        let _place = self.places.take((), payer).await;
        turn.has_come();
        let (mut redirects, mut from) = (0, None);
        loop {
            let made = self.make(payer, &hop).await;
            let (status, target) = match made.map_err(|it| it.redirected(from.as_ref()))? {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Redirect(status, target) => (status, target),
            };
            redirects += 1;
            let most = self.settings.redirects_max;
            if redirects > most {
                return Err(FetchError::Redirects { most });
            }
            seat = self.move_on(seat, payer, (&hop.target, &target))?;
            from = Some(self.turn(&mut hop, status, target)?);
        }
    }

    fn held(&self) -> Held {
        let stats = Arc::clone(&self.stats);
        Held { stats, most: self.settings.memory_bytes_max, bytes: 0 }
    }

    /// The first hop, if the request may be made at all.
    fn first<'a>(
        &self,
        request: FetchRequest,
        progress: &'a Progress,
    ) -> Result<Hop<'a>, FetchError> {
        let settings = &self.settings;
        if request.is_insecure && !settings.allows_insecure {
            return Err(FetchError::Insecure);
        }
        if request.body.len() > settings.request_bytes_max {
            let most = settings.request_bytes_max;
            return Err(FetchError::RequestTooLarge { bytes: request.body.len(), most });
        }
        let target = Target::parse(&request.url)?;
        self.check_host(&target)?;
        let headers = head::headers(&request, &target)?;
        let FetchRequest { method, body, is_insecure, .. } = request;
        Ok(Hop { progress, target, method, headers, body, is_insecure })
    }

    fn check_host(&self, target: &Target) -> Result<(), FetchError> {
        let is_named = |list: &[HostPattern]| list.iter().any(|pattern| pattern.holds(target));
        if is_named(&self.settings.deny) {
            return Err(FetchError::Denied { host: target.to_string() });
        }
        if !is_named(&self.settings.allow) {
            let is_private = (target.host.parse::<IpAddr>())
                .is_ok_and(|address| self.addresses.refusal(address).is_some());
            let more = if is_private {
                "; nor does fetch.networks name its network, which it must too"
            } else {
                ""
            };
            return Err(FetchError::NotAllowed { host: target.to_string(), more });
        }
        Ok(())
    }

    /// The seat at the next host. Nobody waits for it: a request that has a place would keep it
    /// from others.
    fn move_on(
        &self,
        seat: Seat<Host>,
        payer: FetchPayer,
        (from, to): (&Target, &Target),
    ) -> Result<Seat<Host>, FetchError> {
        if host_of(from) == host_of(to) {
            return Ok(seat);
        }
        drop(seat);
        let most = self.settings.requests_per_host;
        let seat = self.hosts.try_take(host_of(to), payer);
        seat.ok_or_else(|| FetchError::PerHost { host: to.to_string(), most })
    }

    /// What is asked of the target of a redirect. Gives who has sent us there.
    fn turn(
        &self,
        hop: &mut Hop<'_>,
        status: StatusCode,
        target: Target,
    ) -> Result<Target, FetchError> {
        if hop.target.is_tls && !target.is_tls && !self.settings.allows_downgrade {
            return Err(FetchError::Downgrade { host: target.to_string() });
        }
        self.check_host(&target).map_err(|it| it.redirected(Some(&hop.target)))?;
        if !hop.target.is_same_origin(&target) {
            head::leave_origin(&mut hop.headers);
        }
        let keeps_method =
            matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if !keeps_method {
            hop.body = Bytes::new();
            head::leave_content(&mut hop.headers);
            if hop.method != Method::Head {
                hop.method = Method::Get;
            }
        }
        Ok(std::mem::replace(&mut hop.target, target))
    }

    async fn make(&self, payer: FetchPayer, hop: &Hop<'_>) -> Result<Reply, FetchError> {
        let timeout_ms = self.settings.connect_timeout_ms;
        let until = Instant::now() + Duration::from_millis(timeout_ms);
        let late = || FetchError::NoConnection { timeout_ms, phase: hop.progress.take() };
        let connected = timeout_at(until, self.connect(payer, hop, until)).await;
        let stream = connected.map_err(|_| late())??;
        if !hop.target.is_tls {
            return self.exchange(stream, hop).await;
        }
        hop.now(Phase::Tls);
        let tls = timeout_at(until, self.encrypt(stream, hop)).await.map_err(|_| late())??;
        self.exchange(tls, hop).await
    }

    /// A connection to the first address that may be connected to and can be. What was looked at is
    /// what is connected to.
    async fn connect(
        &self,
        payer: FetchPayer,
        hop: &Hop<'_>,
        until: Instant,
    ) -> Result<TcpStream, FetchError> {
        let host = || hop.target.to_string();
        hop.now(Phase::Name);
        let found = self.names.of(&hop.target, payer).await?;
        hop.now(Phase::Connection);
        let mut refused = None;
        let mut allowed: Vec<SocketAddr> = Vec::new();
        for address in found {
            match self.addresses.refusal(address.ip()) {
                Some(what) => refused = Some(what),
                None => allowed.push(address),
            }
        }
        if let (Some(what), true) = (refused, allowed.is_empty()) {
            return Err(FetchError::Address { host: host(), what });
        }
        allowed.truncate(ADDRESSES_MAX);
        let mut why = "it has none".to_owned();
        for (tried, address) in (0..).zip(&allowed) {
            // Each has its share of the time that is left.
            let left = u32::try_from(allowed.len()).unwrap_or(1).saturating_sub(tried).max(1);
            let share = until.saturating_duration_since(Instant::now()) / left;
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // A request is one write and waits for its answer.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => "it does not answer".clone_into(&mut why),
            }
        }
        Err(FetchError::Connect { host: host(), why })
    }

    async fn encrypt(
        &self,
        stream: TcpStream,
        hop: &Hop<'_>,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, FetchError> {
        let failed = |why: String| FetchError::Tls { host: hop.target.to_string(), why };
        let name = ServerName::try_from(hop.target.host.clone());
        let name = name.map_err(|error| failed(error.to_string()))?;
        let config = if hop.is_insecure { &self.tls.unchecked } else { &self.tls.checked };
        let connector = TlsConnector::from(Arc::clone(config));
        connector.connect(name, stream).await.map_err(|error| failed(error.to_string()))
    }

    /// Asks over a connection and reads the answer.
    async fn exchange<S>(&self, stream: S, hop: &Hop<'_>) -> Result<Reply, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let most = self.settings.answer_bytes_max;
        let exceeded = Exceeded::default();
        let failed = |error: hyper::Error| {
            if exceeded.load(Ordering::Relaxed) {
                FetchError::AnswerTooLarge { most }
            } else {
                FetchError::Http { host: hop.target.to_string(), why: words(&error) }
            }
        };
        let bytes_max = metered::bytes_max(most, HEAD_BYTES_MAX);
        let stream = Metered::new(stream, bytes_max, Arc::clone(&exceeded));
        let (mut sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_LINES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(&failed)?;
        let _connection = Ends(tokio::spawn(connection));
        hop.now(Phase::Answer);
        let answer = sender.send_request(message(hop)?).await.map_err(&failed)?;
        if let Some(reply) = self.redirect(hop, &answer)? {
            return Ok(reply);
        }
        hop.now(Phase::Content);
        let (parts, content) = answer.into_parts();
        let body = self.content(content, failed).await?;
        let mut headers: Vec<(String, Bytes)> = Vec::with_capacity(parts.headers.len());
        for name in parts.headers.keys() {
            let last = parts.headers.get_all(name).iter().next_back();
            let value = last.map_or(&[][..], HeaderValue::as_bytes);
            headers.push((head::canonical(name), Bytes::copy_from_slice(value)));
        }
        Ok(Reply::Answer(FetchAnswer { code: parts.status.as_u16(), headers, body }))
    }

    /// Where an answer sends us, if it does and we go. Without a `Location` it is an answer like
    /// others, as for Go.
    fn redirect(
        &self,
        hop: &Hop<'_>,
        answer: &Response<Incoming>,
    ) -> Result<Option<Reply>, FetchError> {
        let is_redirect = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = answer.headers().get(header::LOCATION).filter(|_| is_redirect) else {
            return Ok(None);
        };
        if self.settings.redirects_max == 0 {
            return Ok(None);
        }
        let Ok(location) = std::str::from_utf8(location.as_bytes()) else {
            return Err(FetchError::NoLocation);
        };
        let target = hop.target.redirected(location).map_err(FetchError::BadRedirect)?;
        Ok(Some(Reply::Redirect(answer.status(), target)))
    }

    async fn content(
        &self,
        mut content: Incoming,
        failed: impl Fn(hyper::Error) -> FetchError,
    ) -> Result<Bytes, FetchError> {
        let most = self.settings.answer_bytes_max;
        let too_large = || FetchError::AnswerTooLarge { most };
        if content.size_hint().lower() > most as u64 {
            return Err(too_large());
        }
        let mut held = self.held();
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(frame) = content.frame().await {
            let frame = frame.map_err(&failed)?;
            // Trailers are nothing that scripts see.
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(too_large());
            }
            held.add(data.len())?;
            bytes.extend_from_slice(&data);
        }
        Ok(Bytes::from_owner(Content { bytes, _held: held }))
    }
}

/// Whose places a request to this target takes.
fn host_of(target: &Target) -> Host {
    (target.host.clone(), target.port)
}

/// The request as it is sent.
fn message(hop: &Hop<'_>) -> Result<Request<Full<Bytes>>, FetchError> {
    let failed = |why: String| FetchError::Http { host: hop.target.to_string(), why };
    let host = HeaderValue::try_from(hop.target.authority());
    let host = host.map_err(|error| failed(error.to_string()))?;
    let request = Request::builder().method(hop.method.name()).uri(&hop.target.path);
    let mut request =
        request.body(Full::new(hop.body.clone())).map_err(|error| failed(error.to_string()))?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, host);
    headers.extend(hop.headers.clone());
    let may_have_content = matches!(hop.method, Method::Patch | Method::Post | Method::Put);
    if may_have_content && hop.body.is_empty() {
        // Some servers want to be told.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// An error with what caused it.
fn words(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
