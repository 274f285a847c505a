//! Guests: an RPC function that runs the program it is sent, hooks that change nothing, and a match
//! that repeats what it is told, and asks others before some of its callbacks are over. Each call has a
//! budget of steps; where it is used up, the guest is stopped, as one that computes for too long would
//! be.
//!
//! What a program may do is [`Op`]; it is plain data, so that what became of it can be known. It uses streams
//! for the session that calls. Not
//! here: a language (`edge/script` has tests of its own).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use game::fetch::{FetchRequest, Method};
use game::guest::{
    Allowance, Answer, Ask, Broadcast, CallContext, CallId, GuestCall, Host, HostError,
    JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage, MatchReturned, MatchScript,
    Presence, PresenceReason, Registered, Reply, Retired, Returned, ScriptError, ScriptFailure,
    Scripts, Step,
};
use game::host::{Args, Ran, Returns, Unmetered};
use game::value::Value;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::world::{Owned, world};

/// The module of matches.
pub(crate) const ARENA: &str = "arena";
/// The collection that everything is stored in.
pub(crate) const COLLECTION: &str = "sim";
/// Steps that a call has, if it is not to be stopped.
const STEPS: u32 = 1_000;
/// RPC functions that mostly write, `deed0` and so on: some of them are in the batch while others, of
/// which a call did not stay there, are with the callers for longer than a run takes.
pub(crate) const DEEDS: u32 = 12;

/// One thing that a program does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Op {
    /// Writes objects, all or none.
    Write(Vec<String>),
    /// Adds one to an entry of the wallet.
    Pay(String),
    /// Creates a match, and returns its id.
    Create,
    /// Signals a match.
    Signal(String, String),
    /// Asks another server, which repeats what it is asked.
    Fetch(String),
    /// Says which session asks.
    Me,
    /// Takes the session that asks into a stream, hidden or not.
    Join(String, bool),
    /// The same, or changes whether it is hidden.
    Update(String, bool),
    /// Takes it out.
    Leave(String),
    /// Takes somebody out.
    Kick(String),
    /// Takes everybody out.
    Close(String),
    /// Sends something to a stream.
    Say(String, String),
    /// Says who is in a stream: a [`Look`].
    Look(String),
    /// Takes a while.
    Slow,
    /// Raises an error.
    Fail,
}

/// What there is to see of a stream.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Look {
    pub(crate) label: String,
    pub(crate) count: i64,
    /// Sessions, and whether they are hidden.
    pub(crate) members: Vec<(String, bool)>,
}

/// What is left of a call's budget.
struct Steps(u32);

impl Steps {
    fn new() -> Self {
        Self::with(world().profile.stops)
    }

    /// Few, once in so many times.
    fn with(stops: u32) -> Self {
        let world = world();
        Self(if world.fails(stops) { world.below(8) } else { STEPS })
    }

    fn spend(&mut self) -> Result<(), ScriptError> {
        let Some(left) = self.0.checked_sub(1) else {
            let world = world();
            world.count(|happened| happened.guests_stopped += 1);
            world.tell(format_args!("a guest is stopped"));
            return Err(error("out of steps", ScriptFailure::OutOfTime));
        };
        self.0 = left;
        Ok(())
    }
}

fn error(message: &str, kind: ScriptFailure) -> ScriptError {
    ScriptError { code: 13, message: message.to_owned(), location: "sim:1".to_owned(), kind }
}

fn raised(why: HostError) -> ScriptError {
    error(&why.message, ScriptFailure::Raised)
}

/// What an operation waits for. It runs again from its beginning when an answer has come, and is given
/// those that have come already; before it asks it changes nothing.
#[derive(Default)]
struct Asking {
    answers: Vec<Answer>,
    given: usize,
    ask: Option<Ask>,
}

thread_local! {
    /// Of the operation that runs.
    static ASKING: RefCell<Asking> = RefCell::default();
}

/// Calls a function of the host. Where it waits, the error says nothing, and what is asked is in
/// [`ASKING`].
fn call(host: &mut dyn Host, name: &'static str, values: &[Value]) -> Result<Value, HostError> {
    Ok(returns(host, name, values)?.into_iter().next().unwrap_or_default())
}

/// The same, with all that it returns.
fn returns(
    host: &mut dyn Host,
    name: &'static str,
    values: &[Value],
) -> Result<Returns, HostError> {
    let function = game::host::find(name).unwrap();
    let args = Args { function: name, values, meter: &Unmetered };
    match function.begin(host, &args)? {
        Ran::Returned(returns) => Ok(returns),
        Ran::Waits(ask) => {
            let answer = ASKING.with_borrow_mut(|asking| {
                let answer = asking.answers.get(asking.given).cloned();
                asking.given += 1;
                asking.ask = answer.is_none().then_some(ask);
                answer
            });
            let answer = answer.ok_or_else(|| HostError::new("it waits"))?;
            function.answered(host, &args, answer)
        }
    }
}

fn map(members: Vec<(&'static str, Value)>) -> Value {
    let member =
        |(name, value): (&'static str, Value)| (Bytes::from_static(name.as_bytes()), value);
    Value::Map(members.into_iter().map(member).collect())
}

/// Objects of a user, as `storage_write` takes them.
fn objects(user_id: &str, keys: &[String]) -> Value {
    let object = |key: &String| {
        map(vec![
            ("collection", Value::text(COLLECTION)),
            ("key", Value::text(key.as_str())),
            ("user_id", Value::text(user_id)),
            ("value", map(vec![("key", Value::text(key.as_str()))])),
        ])
    };
    Value::List(keys.iter().map(object).collect())
}

fn write(host: &mut dyn Host, user_id: &str, keys: &[String]) -> Result<(), HostError> {
    call(host, "storage_write", &[objects(user_id, keys)]).map(drop)
}

fn stream(label: &str) -> Value {
    map(vec![("mode", Value::Int(100)), ("label", Value::text(label))])
}

/// Who is in a stream, as scripts see it.
fn members(host: &mut dyn Host, label: &str) -> Result<Vec<Value>, HostError> {
    match call(host, "stream_user_list", &[stream(label)])? {
        Value::List(members) => Ok(members),
        // Of nobody.
        _ => Ok(Vec::new()),
    }
}

fn look(host: &mut dyn Host, label: &str) -> Result<Value, HostError> {
    let members = members(host, label)?;
    let count = call(host, "stream_count", &[stream(label)])?.as_int().unwrap();
    let member = |one: &Value| {
        let session_id = one.member("session_id").and_then(Value::as_str).unwrap();
        (session_id.to_owned(), one.member("hidden") == Some(&Value::Bool(true)))
    };
    let members = members.iter().map(member).collect();
    let look = Look { label: label.to_owned(), count, members };
    Ok(Value::text(serde_json::to_string(&look).unwrap()))
}

/// What it does with streams; `me` are the user and the session that ask.
fn run_stream(host: &mut dyn Host, me: [&str; 2], op: &Op) -> Result<Value, HostError> {
    let me = me.map(Value::text);
    let mut enter = |name, label: &str, is_hidden: bool| {
        let [user, session] = me.clone();
        let args = [user, session, stream(label), Value::Bool(is_hidden)];
        call(host, name, &args).map(|_| Value::Nil)
    };
    match op {
        Op::Join(label, is_hidden) => enter("stream_user_join", label, *is_hidden),
        Op::Update(label, is_hidden) => enter("stream_user_update", label, *is_hidden),
        Op::Leave(label) => {
            let [user, session] = me;
            call(host, "stream_user_leave", &[user, session, stream(label)])
        }
        Op::Kick(label) => match members(host, label)?.into_iter().next() {
            Some(first) => call(host, "stream_user_kick", &[first, stream(label)]),
            None => Ok(Value::Nil),
        },
        Op::Close(label) => call(host, "stream_close", &[stream(label)]),
        Op::Say(label, text) => {
            call(host, "stream_send", &[stream(label), Value::text(text.as_str())])
        }
        Op::Look(label) => look(host, label),
        _ => Ok(Value::Nil),
    }
}

/// One operation; what it returns to the client, if anything.
fn run(
    host: &mut dyn Host,
    [user_id, session_id]: [&str; 2],
    op: &Op,
) -> Result<Option<String>, ScriptError> {
    let value = match op {
        Op::Write(keys) => write(host, user_id, keys).map(|()| Value::Nil),
        Op::Pay(entry) => {
            let change = Value::Map(vec![(entry.clone().into(), Value::Int(1))]);
            let args = [Value::text(user_id), change, map(Vec::new()), Value::Bool(true)];
            call(host, "wallet_update", &args).map(|_| Value::Nil)
        }
        Op::Create => call(host, "match_create", &[Value::text(ARENA), map(Vec::new())]),
        Op::Signal(id, data) => {
            let args = [Value::text(id.as_str()), Value::text(data.as_str())];
            let answer = call(host, "match_signal", &args);
            if let Ok(answer) = &answer {
                // Matches repeat what they are told.
                assert_eq!(answer.as_str(), Some(data.as_str()), "an answer to another signal");
            }
            answer
        }
        Op::Fetch(url) => {
            let args = [Value::text(url.as_str()), Value::text("get")];
            returns(host, "http_request", &args).map(|returns| {
                let body = returns.last().and_then(Value::as_str);
                assert_eq!(body, Some(url.as_str()), "an answer to another request");
                Value::Nil
            })
        }
        // Everybody waits for the batch.
        Op::Slow if host.slice_us().is_some() => {
            return Err(error("out of time", ScriptFailure::OutOfTime));
        }
        Op::Slow => {
            // Nobody waits for what was written before, as with Lua.
            host.db().rest(true);
            world().stall();
            Ok(Value::Nil)
        }
        Op::Fail => return Err(error("as I was told", ScriptFailure::Raised)),
        Op::Me => Ok(Value::text(session_id)),
        Op::Join(..)
        | Op::Update(..)
        | Op::Leave(_)
        | Op::Kick(_)
        | Op::Close(_)
        | Op::Say(..)
        | Op::Look(_) => run_stream(host, [user_id, session_id], op),
    };
    Ok(value.map_err(raised)?.as_str().map(str::to_owned))
}

/// The scripts of one thread.
pub(crate) struct Guests {
    pub(crate) registered: Registered,
    waiting: BTreeMap<CallId, Running>,
    /// Whether a call has used up the memory, and whether nobody has been given what is left.
    is_spent: bool,
    is_kept: bool,
    /// Whether that call found most of it used.
    is_by_others: bool,
}

/// An RPC function's call: what is left of its program.
struct Running {
    me: [String; 2],
    ops: VecDeque<Op>,
    steps: Steps,
    asking: Asking,
    answer: Option<String>,
}

impl Running {
    /// Runs operations until there are no more, or one waits.
    fn go_on(&mut self, host: &mut dyn Host) -> Result<Option<Ask>, ScriptError> {
        while let Some(op) = self.ops.front() {
            self.steps.spend()?;
            // One that is slow lets others run meanwhile.
            let outer = ASKING.replace(std::mem::take(&mut self.asking));
            let [user_id, session_id] = &self.me;
            let done = run(host, [user_id, session_id], op);
            self.asking = ASKING.replace(outer);
            if let Some(ask) = self.asking.ask.take() {
                return Ok(Some(ask));
            }
            self.answer = done?.or(self.answer.take());
            self.asking = Asking::default();
            self.ops.pop_front();
            self.steps.spend()?;
        }
        Ok(None)
    }

    /// What it waits for has come.
    fn answered(&mut self, answer: Answer) {
        self.asking.answers.push(answer);
        self.asking.given = 0;
    }
}

impl Guests {
    pub(crate) fn new(has_hooks: bool) -> Self {
        let names = |names: &[&str]| -> Vec<String> {
            if has_hooks { names.iter().map(|name| (*name).to_owned()).collect() } else { vec![] }
        };
        let registered = Registered {
            rpc: (0..DEEDS).map(|at| format!("deed{at}")).chain(["run".to_owned()]).collect(),
            before: names(&["rt:statusupdate", "writestorageobjects"]),
            after: names(&["rt:matchjoin", "writestorageobjects", "authenticatedevice"]),
            modules: vec![ARENA.to_owned()],
            ..Registered::default()
        };
        let waiting = BTreeMap::new();
        Self { registered, waiting, is_spent: false, is_kept: false, is_by_others: false }
    }
}

impl Guests {
    fn step(&mut self, host: &mut dyn Host, id: CallId, mut running: Running) -> Step<Returned> {
        match running.go_on(host) {
            Ok(Some(ask)) => {
                let other = self.waiting.insert(id, running);
                assert!(other.is_none(), "{id:?} waits twice");
                world().count(|happened| happened.waited += 1);
                world().tell(format_args!("{id:?} waits for {ask:?}"));
                Step::Waits(ask)
            }
            Ok(None) => Step::Done(Ok(Returned::Rpc(running.answer.map(Bytes::from)))),
            Err(error) => Step::Done(Err(error)),
        }
    }
}

impl Scripts for Guests {
    fn registered(&self) -> &Registered {
        &self.registered
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        assert!(!self.is_spent, "{id:?} begins where no memory is left");
        if !self.waiting.is_empty() {
            world().count(|happened| happened.interleaved += 1);
        }
        match call {
            GuestCall::Rpc { payload, .. } => {
                let ops = serde_json::from_slice(payload).unwrap();
                let text = |id: Option<Uuid>| id.unwrap_or_default().to_string();
                let me = [text(context.user_id), text(context.session_id)];
                let is_batched = host.slice_us().is_some();
                let steps = if is_batched { Steps::with(8) } else { Steps::new() };
                let (asking, answer) = (Asking::default(), None);
                let step = self.step(host, id, Running { me, ops, steps, asking, answer });
                if is_batched
                    && matches!(&step, Step::Done(Err(error)) if error.kind == ScriptFailure::OutOfTime)
                {
                    world().is_slice_over.set(true);
                } else if is_batched && world().fails(world().profile.spends) {
                    // What it wrote is undone, and it begins again at a caller.
                    world().tell(format_args!("{id:?} uses up the memory"));
                    (self.is_spent, self.is_kept) = (true, true);
                    self.waiting.remove(&id);
                    return Step::Done(Err(error("out of memory", ScriptFailure::OutOfMemory)));
                } else if !is_batched
                    && matches!(&step, Step::Done(_))
                    && world().fails(world().profile.spends_of_callers)
                {
                    // It begins again at another caller, or ends; what it wrote stays.
                    world().count(|happened| happened.spent_callers += 1);
                    world().tell(format_args!("{id:?} uses up the memory of a caller"));
                    (self.is_spent, self.is_kept) = (true, true);
                    self.is_by_others = world().once_in(2);
                    return Step::Done(Err(error("out of memory", ScriptFailure::OutOfMemory)));
                }
                step
            }
            GuestCall::Before { request, .. } => {
                let spent = Steps::new().spend();
                Step::Done(spent.map(|()| Returned::Before(Some(request))))
            }
            GuestCall::After { .. } => Step::Done(Steps::new().spend().map(|()| Returned::Nothing)),
            GuestCall::Event { .. } => Step::Done(Ok(Returned::Nothing)),
        }
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        let mut running = self.waiting.remove(&id).unwrap();
        running.answered(answer);
        self.step(host, id, running)
    }

    fn cancel(&mut self, id: CallId) {
        self.waiting.remove(&id).unwrap();
        world().count(|happened| happened.gave_up += 1);
        world().tell(format_args!("{id:?} is cancelled"));
    }

    fn take_spent(&mut self) -> Option<Retired> {
        std::mem::take(&mut self.is_kept).then(|| Retired::new(()))
    }

    fn is_spent_by_others(&self) -> bool {
        self.is_by_others
    }

    fn match_new(
        &mut self,
        _host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        assert_eq!(module, ARENA);
        Steps::new().spend()?;
        let (world, id) = (world(), context.match_id.clone());
        let owned = Owned { thread: world.current(), is_running: false };
        let other = world.matches.borrow_mut().insert(id.clone(), owned);
        assert!(other.is_none(), "match {id} is made twice");
        Ok(Box::new(Arena { id, members: BTreeSet::new(), wait: None }))
    }
}

/// One match.
struct Arena {
    id: String,
    /// Sessions that it was told have joined, and not that they have left.
    members: BTreeSet<Uuid>,
    /// What its callback waits for, if one does.
    wait: Option<Wait>,
}

/// What a callback of a match waits for, and what it is over with then.
enum Wait {
    /// Another server repeats this.
    Fetch(String, MatchReturned),
    /// Another match repeats this.
    Signal(&'static str, MatchReturned),
    /// A match is made.
    Create(MatchReturned),
    /// An object is written by the batcher.
    Write(MatchReturned),
}

/// What a piece of a callback comes to.
enum Next {
    Over(MatchReturned),
    Waits(Ask, Wait),
}

/// What matches say to each other.
const HELLO: &str = "hello";

impl Arena {
    /// Says that a callback runs, or waits; or that it is over.
    fn set_running(&self, is_running: bool) {
        let world = world();
        let mut matches = world.matches.borrow_mut();
        let owned = matches.get_mut(&self.id).unwrap();
        assert!(owned.is_running != is_running, "callbacks of {} overlap", self.id);
        owned.is_running = is_running;
    }

    /// Runs a piece of a callback: where the match lives, and while no other one of it runs or waits.
    fn piece(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Steps) -> Result<Next, ScriptError>,
    ) -> Step<MatchReturned> {
        let world = world();
        let lives_on = world.matches.borrow()[&self.id].thread;
        assert_eq!(lives_on, world.current(), "match {} lives on two rooms", self.id);
        let result = match act(self, &mut Steps::new()) {
            Ok(Next::Waits(ask, wait)) => {
                world.count(|happened| happened.matches_waited += 1);
                world.tell(format_args!("match {} waits for {ask:?}", self.id));
                self.wait = Some(wait);
                return Step::Waits(ask);
            }
            Ok(Next::Over(returned)) => Ok(returned),
            Err(error) => Err(error),
        };
        self.set_running(false);
        Step::Done(result)
    }

    /// Now and then a callback asks somebody before it is over.
    fn over(returned: MatchReturned) -> Next {
        let world = world();
        if !world.fails(world.profile.matches_wait) {
            return Next::Over(returned);
        }
        match world.below(8) {
            0 => {
                let ask = Ask::MatchCreate { module: ARENA.to_owned(), params: map(Vec::new()) };
                Next::Waits(ask, Wait::Create(returned))
            }
            1..=4 => {
                let text = format!("http://a.example/{}", world.below(1_000));
                Next::Waits(Ask::Fetch(Box::new(request(&text))), Wait::Fetch(text, returned))
            }
            _ => {
                // Of any match, this one too.
                let matches = world.matches.borrow();
                let at = world.below(u32::try_from(matches.len()).unwrap()) as usize;
                let match_id = matches.keys().nth(at).unwrap().clone();
                let ask = Ask::MatchSignal { match_id, data: Bytes::from_static(HELLO.as_bytes()) };
                Next::Waits(ask, Wait::Signal(HELLO, returned))
            }
        }
    }
}

fn request(url: &str) -> FetchRequest {
    FetchRequest {
        url: url.to_owned(),
        method: Method::Get,
        headers: Vec::new(),
        body: Bytes::new(),
        timeout_ms: 1_000,
        is_insecure: false,
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            super::world::if_played(|world| {
                world.matches.borrow_mut().remove(&self.id);
            });
        }
    }
}

impl Arena {
    fn presences(
        &mut self,
        joined: bool,
        presences: &[(Presence, PresenceReason)],
        steps: &mut Steps,
    ) -> Result<Next, ScriptError> {
        for (presence, _) in presences {
            let id = presence.session_id;
            let is_news = if joined { self.members.insert(id) } else { self.members.remove(&id) };
            assert!(is_news, "match {} is told twice that {id} came or went", self.id);
        }
        steps.spend()?;
        Ok(Self::over(MatchReturned::GoesOn))
    }

    /// `<user> <key>` writes an object for the user: here, or, as Lua's matches do where they can wait, at
    /// the batcher.
    fn signal(host: &mut dyn Host, data: &[u8], steps: &mut Steps) -> Result<Next, ScriptError> {
        steps.spend()?;
        let text = std::str::from_utf8(data).unwrap();
        let returned = MatchReturned::Signal(Bytes::copy_from_slice(data));
        let Some((user_id, key)) = text.split_once(' ') else { return Ok(Self::over(returned)) };
        let keys = [key.to_owned()];
        if world().once_in(2) {
            let values = vec![objects(user_id, &keys)];
            let allowance = Allowance { time_ms: 1_000, memory_bytes: 1 << 20 };
            let ask = Ask::Run { function: "storage_write", values, allowance };
            return Ok(Next::Waits(ask, Wait::Write(returned)));
        }
        write(host, user_id, &keys).map_err(raised)?;
        steps.spend()?;
        Ok(Self::over(returned))
    }

    fn tick(
        &mut self,
        host: &mut dyn Host,
        messages: &[MatchMessage],
        steps: &mut Steps,
    ) -> Result<Next, ScriptError> {
        for message in messages {
            let id = message.sender.session_id;
            // Whoever has left since may have a message waiting.
            let is_member = self.members.contains(&id);
            world().tell(format_args!("{} says, a member: {is_member}", message.sender.username));
            steps.spend()?;
            let message = Broadcast {
                op_code: message.op_code,
                data: message.data.clone(),
                to: None,
                sender: Some(message.sender.clone()),
                reliable: true,
                deferred: false,
            };
            host.dispatcher().unwrap().broadcast(message).map_err(raised)?;
        }
        let ends = world().fails(80);
        Ok(Self::over(if ends { MatchReturned::Ends } else { MatchReturned::GoesOn }))
    }
}

impl MatchScript for Arena {
    fn call(
        &mut self,
        host: &mut dyn Host,
        _context: &MatchContext,
        _tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned> {
        assert!(self.wait.is_none(), "a callback of {} waits", self.id);
        self.set_running(true);
        self.piece(|arena, steps| match call {
            MatchCall::Init { .. } => {
                let init = MatchInit { tick_rate_hz: 10, label: String::new() };
                Ok(Self::over(MatchReturned::Init(init)))
            }
            MatchCall::JoinAttempt(_) => {
                steps.spend()?;
                let allow = !world().once_in(8);
                let verdict = JoinVerdict { allow, reason: String::new() };
                Ok(Self::over(MatchReturned::Verdict(verdict)))
            }
            MatchCall::Presences { joined, presences } => arena.presences(joined, presences, steps),
            MatchCall::Loop(messages) => arena.tick(host, messages, steps),
            MatchCall::Signal(data) => Self::signal(host, data, steps),
            MatchCall::Terminate { .. } => Ok(Next::Over(MatchReturned::GoesOn)),
        })
    }

    fn resume(
        &mut self,
        _host: &mut dyn Host,
        _context: &MatchContext,
        answer: Answer,
    ) -> Step<MatchReturned> {
        world().tell(format_args!("match {} goes on with {answer:?}", self.id));
        self.piece(|arena, steps| {
            steps.spend()?;
            let wait = arena.wait.take().unwrap_or_else(|| panic!("{} waits not", arena.id));
            match (wait, answer) {
                (Wait::Fetch(text, returned), Ok(Reply::Fetched(answer))) => {
                    assert_eq!(answer.body, text, "an answer to another request");
                    Ok(Self::over(returned))
                }
                (Wait::Signal(data, returned), Ok(Reply::Text(text))) => {
                    assert_eq!(text, data, "an answer to another signal");
                    Ok(Self::over(returned))
                }
                (Wait::Create(returned), Ok(Reply::Text(id))) => {
                    let id = std::str::from_utf8(&id).unwrap();
                    assert_ne!(id, arena.id, "a match made itself");
                    Ok(Self::over(returned))
                }
                (Wait::Write(returned), Ok(Reply::Returns { .. })) => Ok(Self::over(returned)),
                // What was acknowledged has to be there.
                (Wait::Write(_), Err(error)) => Err(raised(error)),
                (
                    Wait::Fetch(_, returned) | Wait::Signal(_, returned) | Wait::Create(returned),
                    Err(_),
                ) => Ok(Next::Over(returned)),
                (_, Ok(reply)) => panic!("match {} is told {reply:?}", arena.id),
            }
        })
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
