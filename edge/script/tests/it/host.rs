//! A host in memory for tests and measurements: keeps what scripts did, answers with what the test
//! put in.

use std::cell::RefCell;

use bytes::Bytes;
use event::{Now, Random};
use game::cache::{Cache, Writer};
use game::db::{Cell, Database, DbError, Param, Row};
use game::directory::Directory;
use game::fetch::{FetchAnswer, Principal};
use game::guest::{
    Answer, Ask, Broadcast, CommonHost, Dispatcher, Host, HostError, HostSettings, LogLevel,
    Machine, Metric, Reply, check_label,
};
use game::host::{Args, Meter, Remaining};
use game::node::Nodes;
use game::session::SessionSettings;
use game::stream::{
    SessionId, StreamAnswer, StreamId, StreamMeta, StreamPresence, StreamRequest, no_session,
};
use game::value::Value;
use uuid::Uuid;

/// The host.
pub(crate) struct TestHost {
    pub(crate) now: Now,
    pub(crate) payer: Principal,
    pub(crate) random: Random,
    pub(crate) db: TestDb,
    /// Takes the place of `db`.
    pub(crate) real_db: Option<store::Sqlite>,
    pub(crate) settings: HostSettings,
    pub(crate) directory: Directory,
    pub(crate) cache: Cache,
    pub(crate) machine: TestMachine,
    pub(crate) logs: Vec<String>,
    /// How long a log line blocks.
    pub(crate) log_takes: std::time::Duration,
    pub(crate) created: Vec<(String, Value)>,
    pub(crate) disconnected: Vec<(Uuid, String)>,
    pub(crate) follow_wishes: Vec<game::guest::FollowWish>,
    pub(crate) revoked: Vec<game::session::Revocation>,
    pub(crate) notified: Vec<game::notifications::Sent>,
    pub(crate) events: Vec<game::events::Event>,
    pub(crate) streams: Vec<(StreamId, StreamRequest)>,
    pub(crate) dispatcher: Option<TestDispatcher>,
    /// Whether others wait behind the call, so that whatever keeps its thread is refused.
    pub(crate) is_batch: bool,
}

/// Has one file and one setting, and records metrics.
#[derive(Debug, Default)]
pub(crate) struct TestMachine {
    pub(crate) metrics: RefCell<Vec<String>>,
}

impl Machine for TestMachine {
    fn file_read(&self, path: &str, meter: &dyn Meter) -> Result<Bytes, HostError> {
        meter.hold(3)?;
        if path == "words.txt" {
            return Ok(Bytes::from_static(b"a\0b"));
        }
        Err(HostError::new(format!("failed to open file: open {path}: none")))
    }
    fn config(&self) -> Value {
        Value::Map(vec![(Bytes::from_static(b"name"), Value::text("node1"))])
    }
    fn record(&self, _now: Now, metric: &Metric<'_>) {
        let Metric { kind, name, tags, value } = metric;
        self.metrics.borrow_mut().push(format!("{kind:?} {name} {tags:?} {value}"));
    }
}

/// Records a match's effects.
#[derive(Debug, Default)]
pub(crate) struct TestDispatcher {
    pub(crate) keep: bool,
    pub(crate) sent: Vec<Broadcast>,
    pub(crate) kicked: Vec<Uuid>,
    pub(crate) labels: Vec<String>,
}

impl Default for TestHost {
    fn default() -> Self {
        let session = SessionSettings {
            encryption_key: "key".into(),
            refresh_encryption_key: "refresh".into(),
            token_expiry_s: 60,
            refresh_token_expiry_s: 3_600,
        };
        Self {
            now: Now { mono_ns: 0, unix_ms: 1_700_000_000_123 },
            payer: Principal::Server,
            random: Random::from_number(7),
            db: TestDb::default(),
            real_db: None,
            settings: HostSettings {
                node: "node1".into(),
                env: vec![("MODE".into(), "test".into())],
                version: "0.0.0".into(),
                log_lines_max: 1_000,
                session,
            },
            directory: Directory::new(Nodes::alone("node1")),
            cache: Cache::new(Writer::default()),
            machine: TestMachine::default(),
            logs: Vec::new(),
            log_takes: std::time::Duration::ZERO,
            created: Vec::new(),
            disconnected: Vec::new(),
            follow_wishes: Vec::new(),
            notified: Vec::new(),
            events: Vec::new(),
            streams: Vec::new(),
            revoked: Vec::new(),
            dispatcher: None,
            is_batch: false,
        }
    }
}

/// One session, named ann, hidden.
fn found(session: SessionId) -> StreamAnswer {
    let SessionId { user_id, session_id } = session;
    let node = Nodes::default().here();
    let presence = game::guest::Presence { user_id, session_id, username: "ann".into(), node };
    let meta = StreamMeta { is_hidden: true, is_persistent: false, status: "busy".into() };
    StreamAnswer::Found(vec![StreamPresence { presence, meta }])
}

fn answer_of(request: &StreamRequest) -> Result<StreamAnswer, HostError> {
    match request {
        StreamRequest::Join(session, _) | StreamRequest::Update(session, _)
            if session.user_id.is_nil() =>
        {
            Err(no_session())
        }
        StreamRequest::Join(..) => Ok(StreamAnswer::IsNew(true)),
        StreamRequest::Find(session) => Ok(found(*session)),
        StreamRequest::List { hidden, visible: true, .. } if !hidden => {
            Ok(found(SessionId { user_id: Uuid::nil(), session_id: Uuid::max() }))
        }
        StreamRequest::List { .. } => Ok(StreamAnswer::Found(Vec::new())),
        StreamRequest::Count => Ok(StreamAnswer::Count(3)),
        StreamRequest::Update(..) => Ok(StreamAnswer::Done),
        StreamRequest::Leave(_) | StreamRequest::Close | StreamRequest::Send(_) => {
            panic!("{request:?} is not asked")
        }
    }
}

impl Host for TestHost {
    fn db(&mut self) -> &mut dyn Database {
        match &mut self.real_db {
            Some(db) => db,
            None => &mut self.db,
        }
    }

    fn payer(&self) -> Principal {
        self.payer
    }

    fn keeps_thread(&mut self) -> Result<(), HostError> {
        if self.is_batch { Err(HostError::new("not in the batch")) } else { Ok(()) }
    }
}

impl CommonHost for TestHost {
    fn now(&self) -> Now {
        self.now
    }
    fn random(&mut self) -> &mut Random {
        &mut self.random
    }
    fn settings(&self) -> &HostSettings {
        &self.settings
    }
    fn directory(&self) -> &Directory {
        &self.directory
    }
    fn cache(&mut self) -> &mut Cache {
        &mut self.cache
    }
    fn machine(&self) -> &dyn Machine {
        &self.machine
    }
    fn log(&mut self, level: LogLevel, text: &str) {
        self.logs.push(format!("{level:?} {text}"));
        std::thread::sleep(self.log_takes);
    }
    fn ask(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::MatchCreate { module, .. } if module == "missing" => {
                Err(HostError::new("not found"))
            }
            Ask::MatchCreate { module, params } => {
                self.created.push((module, params));
                Ok(Reply::Text("00000000-0000-4000-8000-000000000001.node1".into()))
            }
            Ask::MatchSignal { match_id, .. } if match_id == "busy" => {
                Err(HostError::new("match busy"))
            }
            Ask::MatchSignal { data, .. } => Ok(Reply::Text(data)),
            Ask::Stream { stream, request } => {
                let answer = answer_of(&request);
                self.streams.push((stream, request));
                answer.map(Reply::Stream)
            }
            // What was asked comes back.
            Ask::Fetch(asked) if asked.url.starts_with("http") => {
                let told = |(name, value): (Bytes, Bytes)| {
                    (String::from_utf8_lossy(&name).into_owned(), value)
                };
                let headers = asked.headers.into_iter().map(told).collect();
                let told = format!("{} {} ", asked.method.name(), asked.timeout_ms);
                let body = [told.as_bytes(), &asked.body].concat().into();
                Ok(Reply::Fetched(Box::new(FetchAnswer { code: 200, headers, body })))
            }
            Ask::Fetch(_) => Err(HostError::new("no such place")),
            Ask::Run { function, values, allowance } => {
                let function = game::host::find(function).unwrap();
                let meter = Remaining::new(allowance);
                let args = Args { function: function.name, values: &values, meter: &meter };
                let returns = function.run(self, &args)?;
                Ok(Reply::Returns { returns, steps: meter.used_steps() })
            }
        }
    }
    fn stream(&mut self, stream: &StreamId, request: StreamRequest) -> Result<(), HostError> {
        assert!(!request.is_answered(), "{request:?}");
        self.streams.push((stream.clone(), request));
        Ok(())
    }

    fn may_cut_off(&mut self, _count: usize) -> Result<(), HostError> {
        Ok(())
    }
    fn session_disconnect(&mut self, session_id: Uuid, reason: &str) {
        self.disconnected.push((session_id, reason.to_owned()));
    }
    fn status_follow(&mut self, wish: game::guest::FollowWish) {
        self.follow_wishes.push(wish);
    }
    fn event(&mut self, event: game::events::Event) {
        self.events.push(event);
    }
    fn may_notify(&mut self, _count: usize, _bytes: usize) -> Result<(), HostError> {
        Ok(())
    }
    fn notify(&mut self, sent: Vec<game::notifications::Sent>) {
        self.notified.extend(sent);
    }
    fn revoke(&mut self, revocation: game::session::Revocation) {
        self.revoked.push(revocation);
    }
    fn user_disconnect(&mut self, user_id: Uuid, cause: game::api::Disconnect) {
        self.disconnected.push((user_id, format!("{cause:?}")));
    }
    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        self.dispatcher.as_mut().map(|dispatcher| dispatcher as &mut dyn Dispatcher)
    }
}

impl Dispatcher for TestDispatcher {
    fn broadcast(&mut self, message: Broadcast) -> Result<(), HostError> {
        if self.keep {
            self.sent.push(message);
        } else {
            std::hint::black_box(&message);
        }
        Ok(())
    }
    fn kick(&mut self, sessions: &[Uuid]) {
        self.kicked.extend_from_slice(sessions);
    }
    fn label_update(&mut self, label: &str) -> Result<(), HostError> {
        check_label(label)?;
        self.labels.push(label.to_owned());
        Ok(())
    }
}

/// Answers every query with the same rows.
#[derive(Debug, Default)]
pub(crate) struct TestDb {
    pub(crate) statements: Vec<String>,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

struct TestRow<'a>(&'a [&'static str], &'a [Cell]);

impl Row for TestRow<'_> {
    fn width(&self) -> usize {
        self.0.len()
    }
    fn name(&self, column: usize) -> &str {
        self.0[column]
    }
    fn cell(&self, column: usize) -> Cell {
        self.1[column].clone()
    }
    fn int(&self, column: usize) -> i64 {
        if let Some(Cell::Int(number)) = self.1.get(column) { *number } else { 0 }
    }
    fn text(&self, column: usize) -> &str {
        if let Cell::Text(text) = &self.1[column] { text } else { "" }
    }
    fn blob(&self, column: usize) -> &[u8] {
        if let Cell::Blob(blob) = &self.1[column] { blob } else { &[] }
    }
    fn is_null(&self, column: usize) -> bool {
        self.1[column] == Cell::Null
    }
}

impl Database for TestDb {
    fn begin(&mut self) -> Result<(), DbError> {
        Ok(())
    }
    fn commit(&mut self) -> Result<(), DbError> {
        Ok(())
    }
    fn sync(&mut self) {}
    fn is_synced(&self) -> bool {
        true
    }
    fn rollback(&mut self) -> Result<(), DbError> {
        Ok(())
    }
    fn in_transaction(&self) -> bool {
        false
    }
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        if sql.starts_with("BAD") {
            return Err(DbError::Statement("near BAD".to_owned()));
        }
        self.statements.push(format!("{sql} {params:?}"));
        Ok(3)
    }
    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.statements.push(format!("{sql} {params:?}"));
        for row in &self.rows {
            each(&TestRow(&self.columns, row));
        }
        Ok(())
    }
    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.execute(sql, params)
    }
    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.query(sql, params, each)
    }
}
