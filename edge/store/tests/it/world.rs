//! What the tests run calls with: a store in memory, a clock that stands still, seeded randomness. Where
//! [`SERVER`] names a PostgreSQL, tables there in place of the store.

use event::{Now, Random};
use game::api::{Answer, ApiCall, Auth, CallLane, Cx, Effect, Route, finish_batch, route, run};
use game::db::{Database, DbError, Param, Row};
use game::directory::Directory;
use game::error::ApiError;
use game::notifications::Sent;
use game::session::{Claims, Revocations, SessionSettings, Signer};
use store::{Sqlite, Store};

use crate::postgres::{Postgres, SERVER};

/// The database of a test.
pub(crate) enum Tables {
    /// A connection, and what keeps the database in memory.
    Sqlite(Sqlite, #[expect(dead_code, reason = "it is kept")] Store),
    Postgres(Postgres),
}

pub(crate) struct World {
    pub(crate) db: Tables,
    pub(crate) signer: Signer,
    pub(crate) random: Random,
    pub(crate) now: Now,
    pub(crate) revocations: Revocations,
    pub(crate) directory: Directory,
    /// What sockets would be shown.
    pub(crate) notified: Vec<Sent>,
}

/// A session as the client holds it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) token: String,
    pub(crate) refresh_token: String,
    pub(crate) claims: Claims,
    pub(crate) created: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        let settings = SessionSettings {
            encryption_key: "a".into(),
            refresh_encryption_key: "b".into(),
            token_expiry_s: 60,
            refresh_token_expiry_s: 3_600,
        };
        Self {
            db: Tables::new(),
            signer: Signer::new(&settings),
            random: Random::from_number(1),
            now: Now { mono_ns: 0, unix_ms: 1_767_323_045_000 },
            revocations: Revocations::default(),
            directory: Directory::default(),
            notified: Vec::new(),
        }
    }

    /// Runs one call by itself: a batch of one.
    pub(crate) fn run(
        &mut self,
        call: &ApiCall,
        caller: Option<&Claims>,
    ) -> Result<Answer, ApiError> {
        self.db.begin_reading().unwrap();
        if call.lane() == CallLane::Slow {
            self.db.end_reading().unwrap();
        }
        let answer = self.run_open(call, caller);
        finish_batch(&mut self.db).unwrap();
        let answer = answer?;
        for effect in &answer.effects {
            match effect {
                Effect::Revoke(revocation) => self.revocations.apply(self.now, revocation),
                Effect::Notify(sent) => self.notified.push(sent.clone()),
                Effect::Disconnect { .. } | Effect::Event(_) => {}
            }
        }
        Ok(answer)
    }

    /// Runs a call and leaves the transaction open, as within a batch.
    pub(crate) fn run_open(
        &mut self,
        call: &ApiCall,
        caller: Option<&Claims>,
    ) -> Result<Answer, ApiError> {
        let cx = Cx {
            format: game::api::Format::Json,
            now: self.now,
            random: &mut self.random,
            db: &mut self.db,
            signer: &self.signer,
            directory: &self.directory,
            answer_bytes_max: 4 << 20,
            caller,
            effects: Vec::new(),
            session: None,
        };
        run(cx, call)
    }

    /// A request as text, `POST /v2/… {body}`; the answer as text, `200 {body}` or
    /// `404 5 message`.
    pub(crate) fn ask(&mut self, session: Option<&Session>, request: &str) -> String {
        match self.answer(session, request) {
            Ok(answer) => format!("200 {}", String::from_utf8(answer.body).unwrap()),
            Err(error) => {
                let status = error.code.http_status();
                format!("{status} {} {}", error.code.number(), error.message)
            }
        }
    }

    fn answer(&mut self, session: Option<&Session>, request: &str) -> Result<Answer, ApiError> {
        let mut parts = request.splitn(3, ' ');
        let (method, target) = (parts.next().unwrap(), parts.next().unwrap());
        let body = parts.next().unwrap_or_default();
        let Route::Api(call) = route(method, target, body.as_bytes())? else {
            panic!("not an API call: {request}");
        };
        let claims = match (call.auth(), session) {
            (Auth::ServerKey, _) | (Auth::Bearer, None) => None,
            (Auth::Bearer, Some(session)) => Some(game::api::auth::session(
                &session.token,
                &self.signer,
                &self.revocations,
                self.now,
            )?),
        };
        self.run(&call, claims.as_ref())
    }

    /// Logs in with a request that must succeed.
    pub(crate) fn log_in(&mut self, request: &str) -> Session {
        let answer = self.ask(None, request);
        let body = answer.strip_prefix("200 ").unwrap_or_else(|| panic!("{request}: {answer}"));
        self.session(body)
    }

    pub(crate) fn session(&self, body: &str) -> Session {
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        let (token, refresh_token) = (text("token"), text("refresh_token"));
        let claims = self.signer.verify_session(&token, self.now).unwrap();
        let refresh = self.signer.verify_refresh(&refresh_token, self.now).unwrap();
        assert_eq!(refresh.token_id, claims.token_id);
        Session { token, refresh_token, claims, created: body["created"] == true }
    }

    /// A new user with a device named after it.
    pub(crate) fn user(&mut self, name: &str) -> Session {
        self.log_in(&format!("{DEVICE}?username={name} {{\"id\":\"device-of-{name}\"}}"))
    }
}

pub(crate) const DEVICE: &str = "POST /v2/account/authenticate/device";
pub(crate) const CUSTOM: &str = "POST /v2/account/authenticate/custom";
pub(crate) const EMAIL: &str = "POST /v2/account/authenticate/email";

impl Tables {
    fn new() -> Self {
        if let Some(folder) = std::env::var_os(SERVER) {
            return Self::Postgres(Postgres::fresh(folder.as_ref()));
        }
        let store = Store::open_in_memory().unwrap();
        Self::Sqlite(store.connect().unwrap(), store)
    }

    fn db(&mut self) -> &mut dyn Database {
        match self {
            Self::Sqlite(db, _) => db,
            Self::Postgres(db) => db,
        }
    }
}

impl Database for Tables {
    fn begin(&mut self) -> Result<(), DbError> {
        self.db().begin()
    }

    fn commit(&mut self) -> Result<(), DbError> {
        self.db().commit()
    }

    fn sync(&mut self) {
        self.db().sync();
    }

    fn is_synced(&self) -> bool {
        match self {
            Self::Sqlite(db, _) => db.is_synced(),
            Self::Postgres(db) => db.is_synced(),
        }
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        self.db().rollback()
    }

    fn in_transaction(&self) -> bool {
        match self {
            Self::Sqlite(db, _) => db.in_transaction(),
            Self::Postgres(db) => db.in_transaction(),
        }
    }

    fn begin_reading(&mut self) -> Result<(), DbError> {
        self.db().begin_reading()
    }

    fn end_reading(&mut self) -> Result<(), DbError> {
        self.db().end_reading()
    }

    fn savepoint(&mut self) -> Result<(), DbError> {
        self.db().savepoint()
    }

    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        self.db().undo_to_savepoint()
    }

    fn release_savepoint(&mut self) -> Result<(), DbError> {
        self.db().release_savepoint()
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.db().execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.db().query(sql, params, each)
    }

    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.db().guest_execute(sql, params)
    }

    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.db().guest_query(sql, params, each)
    }
}
