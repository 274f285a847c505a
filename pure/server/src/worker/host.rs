//! What a script that runs on a worker may ask for. Matches live on rooms: the worker posts a
//! request and waits; rooms never wait for workers, so this cannot lock up.

use std::cell::RefCell;
use std::net::IpAddr;

use bytes::Bytes;
use event::{Now, Output, Requester, ThreadId, client_bits};
use game::db::Database;
use game::fetch::{FetchRequest, Principal};
use game::guest::{Answer, Ask, CallContext, CommonHost, Dispatcher, Host, HostError, Reply};
use game::match_id::MatchId;
use game::stream::{StreamAnswer, StreamId, StreamRequest, no_session};
use game::value::Value;

use crate::mail::{
    Address, Mail, News, Post as _, RoomAnswer, RoomError, RoomMail, StreamMail, Topology,
    WorkerAddress,
};
use crate::resources::{Resources, Spent, from_resources};
use crate::settings::Settings;

/// How long a script waits for a room (Nakama 3.40, `server/match_registry.go`:
/// signals and joins wait 10 s).
const PATIENCE_MS: u32 = 10_000;

/// The host of one call on a worker.
pub(super) struct WorkerHost<'a> {
    pub(super) now: Now,
    pub(super) me: WorkerAddress,
    pub(super) topology: &'a Topology,
    pub(super) settings: &'a Settings,
    pub(super) resources: &'a mut Resources,
    pub(super) requester: &'a mut dyn Requester<Mail>,
    pub(super) requests: &'a mut u64,
    pub(super) mails: &'a mut Vec<(ThreadId, Mail)>,
    /// Who pays for what it asks of other servers.
    pub(super) payer: Principal,
    /// What this call has had so far.
    pub(super) spent: Spent,
}

impl WorkerHost<'_> {
    fn request(
        &mut self,
        room: Address<RoomMail>,
        make: impl FnOnce(u64) -> RoomMail,
    ) -> Result<RoomAnswer, RoomError> {
        *self.requests += 1;
        let id = *self.requests;
        // Directory changes that pass by while waiting are heard at once (and again, without
        // effect, when their mail's turn comes): the script finds listed what it just created.
        let passing = RefCell::new(Vec::new());
        let is_answer = |mail: &Mail| match mail.news() {
            Some(News::Directory(events)) => {
                passing.borrow_mut().extend_from_slice(events);
                false
            }
            Some(News::Answer { request, .. }) => *request == id,
            Some(News::Cache(_) | News::Returned(_)) | None => false,
        };
        // Who is asked may tell others of what was written.
        let committed = self.resources.db.commit_group();
        committed.map_err(|error| RoomError::Failed(error.to_string()))?;
        self.resources.db.sync();
        // What the worker has to say already is said before the request.
        let mut before = Output::default();
        self.mails.drain(..).for_each(|(to, mail)| before.mail(to, mail));
        for (room, streams) in self.resources.take_streams(self.topology) {
            before.post(room, RoomMail::Streams(streams));
        }
        let (to, mail) = room.seal(make(id));
        let answer = self.requester.request(&mut before, to, mail, &is_answer, PATIENCE_MS);
        passing.into_inner().iter().for_each(|event| self.resources.directory.apply(event));
        answer.and_then(Mail::into_answer).unwrap_or(Err(RoomError::Busy))
    }
}

impl WorkerHost<'_> {
    fn match_create(&mut self, module: String, params: Value) -> Answer {
        self.spent.create(self.settings.matches.created_per_call_max, self.resources)?;
        let id = uuid::Builder::from_random_bytes(self.resources.random.bytes()).into_uuid();
        let (room, from) = (self.topology.room_of(id), self.me);
        let answer =
            self.request(room, |request| RoomMail::Create { request, from, id, module, params });
        match answer {
            Ok(id) => Ok(Reply::Text(id.into_text())),
            Err(RoomError::Failed(text)) => Err(HostError::new(text)),
            Err(RoomError::Busy | RoomError::NotFound) => {
                // The request may be waiting still: what comes of it nobody would know of.
                self.mails.push(room.seal(RoomMail::Cancel { id }));
                Err(HostError::new("error creating match: the room did not answer within 10 s"))
            }
        }
    }

    fn match_signal(&mut self, match_id: &str, data: Bytes) -> Answer {
        let id = MatchId::parse(match_id, &self.settings.node)
            .map_err(|error| HostError::new(error.to_string()))?;
        let (room, from, id) = (self.topology.room_of(id.uuid), self.me, id.uuid);
        let answer = self.request(room, |request| RoomMail::Signal { request, from, id, data });
        let answer = answer.map(|answer| Reply::Text(answer.into_text()));
        answer.map_err(RoomError::of_signal)
    }

    fn ask_stream(&mut self, stream: StreamId, request: StreamRequest) -> Answer {
        self.spent.stream(request.bytes(), self.resources)?;
        let mut mail = StreamMail { stream, request, member: None, reply: None };
        let (room, from) = (mail.room(self.topology), self.me);
        let answer = self.request(room, |request| {
            mail.reply = Some((from, request));
            RoomMail::Streams(vec![mail])
        });
        match answer {
            Ok(RoomAnswer::Stream(answer)) => Ok(Reply::Stream(answer)),
            Ok(RoomAnswer::Text(_)) => Ok(Reply::Stream(StreamAnswer::Done)),
            Err(RoomError::NotFound) => Err(no_session()),
            Err(RoomError::Busy) => Err(HostError::new("the room did not answer within 10 s")),
            Err(RoomError::Failed(text)) => Err(HostError::new(text)),
        }
    }
}

impl WorkerHost<'_> {
    fn fetch(&mut self, request: FetchRequest) -> Answer {
        // Nobody waits for what was written meanwhile, and who is asked may tell others of it.
        let committed = self.resources.db.commit_group();
        committed.map_err(|error| HostError::new(error.to_string()))?;
        self.resources.db.sync();
        let answer = self.resources.network()?.wait(self.payer, request);
        answer
            .map(|answer| Reply::Fetched(Box::new(answer)))
            .map_err(|error| HostError::new(error.0))
    }
}

impl Host for WorkerHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
    }
}

impl CommonHost for WorkerHost<'_> {
    from_resources!(resources);

    fn ask(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::MatchCreate { module, params } => self.match_create(module, params),
            Ask::MatchSignal { match_id, data } => self.match_signal(&match_id, data),
            Ask::Stream { stream, request } => self.ask_stream(stream, request),
            Ask::Fetch(request) => self.fetch(*request),
            Ask::Run { function, .. } => {
                Err(HostError::new(format!("{function}: not possible here")))
            }
        }
    }

    fn stream(&mut self, stream: &StreamId, mut request: StreamRequest) -> Result<(), HostError> {
        self.spent.pays(&mut request);
        debug_assert!(!request.is_answered(), "{request:?} is asked");
        self.spent.stream(request.bytes(), self.resources)?;
        let stream = stream.clone();
        self.resources.post_stream(StreamMail { stream, request, member: None, reply: None });
        Ok(())
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}

/// Who pays for a call: its user, else its client's address where limits of addresses hold for it.
pub(super) fn payer(settings: &Settings, context: &CallContext) -> Principal {
    if let Some(user_id) = context.user_id {
        return Principal::User(user_id);
    }
    let address = context.client_ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
    let exempt = &settings.limits.exempt_addresses;
    match address.filter(|address| !exempt.iter().any(|network| network.contains(*address))) {
        Some(address) => Principal::Address(client_bits(address)),
        None => Principal::Server,
    }
}

/// For a thread that was given nobody to ask; every request goes unanswered.
pub struct NoRequester;

impl Requester<Mail> for NoRequester {
    fn request(
        &mut self,
        _before: &mut Output<Mail>,
        _to: ThreadId,
        _mail: Mail,
        _is_answer: &dyn Fn(&Mail) -> bool,
        _patience_ms: u32,
    ) -> Option<Mail> {
        None
    }
}
