//! One thread's instances of all modules: starts them, and runs RPCs, hooks and events. Each call has an
//! instance of its own while it runs or waits; those that have nothing to do are kept for calls to come.
//! Matches are made here and live in `matches`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, CallContext, CallId, Callee, Finding, GuestCall, Host, MatchContext, MatchScript,
    Registered, Retired, Returned, ScriptError, ScriptFailure, Scripts, Step, in_any_case,
};
use game::rules::{WRONG_RESULT, ZoneRule};
use game::value::Value;
use script::budget::GuestLimits;

use crate::encoding::Writer;
use crate::failure;
use crate::instance::{self, Broken, Instance, Left, Piece, Waiting};
use crate::local::Kind;
use crate::matches::WasmMatch;
use crate::memory::{Bound, Together};
use crate::modules::{LoadError, Module, Modules};

/// Instances of a module that are kept for calls to come.
const IDLE_MAX: usize = 4;

/// Instances of a module where others wait for the thread, on which none is made while it serves: for a call, and
/// for others while that one waits or is paused.
const MADE_BEFORE: usize = 2;

const WRONG_RPC_RESULT: &str = "Runtime function returned invalid data - only allowed one return \
                                value of type string.";

const NONE_LEFT: &str = "no instance of the module is left on this thread";

/// The guest code in WebAssembly of one thread.
pub struct WasmScripts {
    modules: Arc<Modules>,
    limits: WasmLimits,
    registered: Registered,
    /// Which module each function is of, by its place among them.
    owners: Owners,
    /// Of each module.
    idle: Vec<Vec<Instance>>,
    /// Calls that wait or are paused.
    waiting: BTreeMap<CallId, Aside>,
    /// What all instances for calls hold together.
    held: Arc<Together>,
    /// Instances in which nothing runs any more, for another thread to free.
    broken: Vec<Broken>,
    /// The last instance of a module is gone, and nobody has been told that all are to be made anew.
    is_spent: bool,
}

/// How much a guest may use, and how its calls share their thread.
#[derive(Clone, Debug, Default)]
pub struct WasmLimits {
    /// What guests in any language may use.
    pub guest: GuestLimits,
    /// Microseconds that a call may compute before others have their turn (`runtime.core_slice_us`), on a
    /// thread that also has sockets; there, what needs the database is done by other threads. `None` on
    /// a thread that is there for calls.
    pub slice_us: Option<u32>,
    /// Whether another thread makes instances when the last one of a module is gone (`Scripts::take_spent`), and frees
    /// what calls leave behind, because nobody on this one may wait for that.
    pub is_renewed_elsewhere: bool,
}

/// Those of a thread that is there for calls.
impl From<GuestLimits> for WasmLimits {
    fn from(guest: GuestLimits) -> Self {
        Self { guest, ..Self::default() }
    }
}

/// The place of the module of each function, by what it is and its name.
#[derive(Debug, Default)]
struct Owners([BTreeMap<String, usize>; Kind::COUNT]);

impl Owners {
    fn of(&self, kind: Kind) -> Option<&BTreeMap<String, usize>> {
        self.0.get(kind as usize)
    }

    /// The module of a function, and the name as it was registered: of all but matches case does not count.
    fn find(&self, kind: Kind, name: &str) -> Option<(&str, usize)> {
        in_any_case(self.of(kind)?, name).map(|(name, module)| (name, *module))
    }
}

impl std::fmt::Debug for WasmScripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmScripts")
            .field("modules", &self.modules.modules)
            .finish_non_exhaustive()
    }
}

/// What a call is of, and how its result is to be read.
#[derive(Clone, Copy, Debug)]
struct Caller {
    module: usize,
    kind: Kind,
    /// Whether it is an event by which a rule of the zone is asked.
    is_rule: bool,
}

/// A call that waits or is paused.
struct Aside {
    caller: Caller,
    waiting: Waiting,
    /// What its instance holds while it waits; nothing while it is paused, because those that are run.
    weight_bytes: usize,
}

/// A module that does not start, and where in it.
fn failed_start(module: &Module, error: &ScriptError) -> LoadError {
    let place = error.location.lines().next().unwrap_or_default();
    let message = &error.message;
    LoadError::Run(match message.starts_with(&module.title) {
        true => message.clone(),
        false if place.is_empty() => format!("{}: {message}", module.title),
        false => format!("{place}: {message}"),
    })
}

impl WasmScripts {
    /// Starts every module on this thread.
    ///
    /// # Errors
    /// [`LoadError::Run`] when one fails.
    pub fn load(
        modules: Arc<Modules>,
        limits: impl Into<WasmLimits>,
        host: &mut dyn Host,
    ) -> Result<Self, LoadError> {
        let mut scripts = Self {
            limits: limits.into(),
            registered: Registered::default(),
            owners: Owners::default(),
            idle: Vec::new(),
            waiting: BTreeMap::new(),
            held: Arc::default(),
            broken: Vec::new(),
            is_spent: false,
            modules,
        };
        let modules = Arc::clone(&scripts.modules);
        for (index, module) in modules.modules.iter().enumerate() {
            let (instance, registered) =
                scripts.start(module, host).map_err(|error| failed_start(module, &error))?;
            for (kind, name) in registered {
                scripts.note(index, kind, name);
            }
            scripts.registered.modules.push(module.file.clone());
            let mut idle = vec![instance];
            while scripts.limits.is_renewed_elsewhere && idle.len() < MADE_BEFORE {
                match scripts.start(module, host) {
                    Ok((another, _)) => idle.push(another),
                    // Then one has to do: what does not fit on this thread alone is no reason not to begin.
                    Err(error) if error.kind == ScriptFailure::OutOfMemory => break,
                    Err(error) => return Err(failed_start(module, &error)),
                }
            }
            scripts.idle.push(idle);
        }
        Ok(scripts)
    }

    /// Notes what a module has registered.
    fn note(&mut self, index: usize, kind: Kind, name: String) {
        let files =
            |index: usize| self.modules.modules.get(index).map_or("", |it| it.file.as_str());
        let file = files(index);
        if let Some(first) = self.owners.of(kind).and_then(|names| names.get(&name)) {
            let first = files(*first);
            let what = match kind {
                Kind::Rpc => "the RPC",
                Kind::Before => "the before-hook of",
                Kind::After => "the after-hook of",
                Kind::Event => "the function for",
                Kind::Match => "the match",
            };
            let text =
                format!("{file}: {what} {name} is registered again: the one in {first} runs");
            self.registered.findings.push(Finding { is_certain: false, text });
            return;
        }
        let location = match kind {
            Kind::Rpc => Some(format!("rpc {name}")),
            Kind::Before => Some(format!("before {name}")),
            Kind::After => Some(format!("after {name}")),
            Kind::Event => Some(name.clone()),
            Kind::Match => None,
        };
        let location = location.map(|what| (what, file.to_owned()));
        self.registered.locations.extend(location);
        let Registered { rpc, before, after, events, .. } = &mut self.registered;
        match kind {
            Kind::Rpc => rpc.push(name.clone()),
            Kind::Before => before.push(name.clone()),
            Kind::After => after.push(name.clone()),
            Kind::Event => events.push(name.clone()),
            Kind::Match => {}
        }
        if let Some(names) = self.owners.0.get_mut(kind as usize) {
            names.insert(name, index);
        }
    }

    fn start(
        &self,
        module: &Arc<Module>,
        host: &mut dyn Host,
    ) -> Result<(Instance, Vec<(Kind, String)>), ScriptError> {
        let limits = self.limits.guest.start();
        let bound = Bound::new(&limits, &self.held, &self.limits.guest.memory);
        instance::start(module, host, &limits, (bound, self.limits.slice_us))
    }

    /// Runs a call on an instance that has nothing to do, or on a new one.
    fn run(
        &mut self,
        host: &mut dyn Host,
        (id, caller): (CallId, Caller),
        call: Writer,
    ) -> Step<Returned> {
        let modules = Arc::clone(&self.modules);
        let Some(module) = modules.modules.get(caller.module) else {
            return Step::Done(Err(failure::not_found("not found")));
        };
        let idle = self.idle.get_mut(caller.module).and_then(Vec::pop);
        let instance = match idle {
            Some(instance) => instance,
            None if self.limits.is_renewed_elsewhere => {
                return Step::Done(Err(failure::raised(&module.title, NONE_LEFT)));
            }
            None => match self.start(module, host) {
                Ok((instance, _)) => instance,
                Err(error) => return Step::Done(Err(error)),
            },
        };
        let piece = instance.run(host, &self.limits.guest.call(), call.into_bytes());
        self.piece((id, caller), piece)
    }

    /// Keeps what a piece of a call has left behind.
    fn piece(&mut self, (id, caller): (CallId, Caller), piece: Piece) -> Step<Returned> {
        match piece {
            Piece::Waits(waiting, ask) => {
                let weight_bytes = waiting.bytes();
                self.held.wait(weight_bytes);
                self.put_aside(id, Aside { caller, waiting, weight_bytes });
                Step::Waits(ask)
            }
            Piece::Paused(waiting) => {
                self.put_aside(id, Aside { caller, waiting, weight_bytes: 0 });
                Step::Paused
            }
            Piece::Ended(left, result) => {
                match left {
                    Left::Whole(instance) => self.keep(caller.module, instance),
                    Left::Broken(broken) => self.lose(caller.module, broken),
                }
                let title = || self.modules.modules.get(caller.module).map_or("", |it| &it.title);
                Step::Done(result.and_then(|value| returned(caller, value, title())))
            }
        }
    }
}

impl WasmScripts {
    fn put_aside(&mut self, id: CallId, aside: Aside) {
        let other = self.waiting.insert(id, aside);
        assert!(other.is_none(), "{id:?} waits twice");
    }

    fn take_back(&mut self, id: CallId) -> Option<(Caller, Waiting)> {
        let Aside { caller, waiting, weight_bytes } = self.waiting.remove(&id)?;
        self.held.end_wait(weight_bytes);
        Some((caller, waiting))
    }

    /// Keeps an instance for calls to come, if there is none of its module or memory is not short.
    fn keep(&mut self, module: usize, instance: Instance) {
        let (is_made_here, is_short) = (!self.limits.is_renewed_elsewhere, self.is_short());
        let Some(idle) = self.idle.get_mut(module) else { return };
        let kept_max = if is_made_here && is_short { 1 } else { IDLE_MAX };
        if idle.len() < kept_max {
            idle.push(instance);
        }
    }

    /// Whether more than half of the memory for calls is held.
    fn is_short(&self) -> bool {
        self.held.bytes() > self.limits.guest.call().memory_bytes / 2
    }

    /// An instance is of no use any more.
    fn lose(&mut self, module: usize, broken: Broken) {
        if !self.limits.is_renewed_elsewhere {
            return;
        }
        self.broken.push(broken);
        let has_idle = self.idle.get(module).is_some_and(|idle| !idle.is_empty());
        if !has_idle && !self.waiting.values().any(|aside| aside.caller.module == module) {
            self.is_spent = true;
        }
    }

    /// Goes on with a call: with the answer that it waits for, or, if it is paused, without one.
    fn next_piece(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        answer: Option<Answer>,
    ) -> Step<Returned> {
        let Some((caller, waiting)) = self.take_back(id) else {
            panic!("{id:?} does not wait");
        };
        let modules = Arc::clone(&self.modules);
        let Some(module) = modules.modules.get(caller.module) else {
            unreachable!("{id:?} waits in a module that is not there");
        };
        let piece = instance::go_on(module, host, &self.limits.guest.call(), (waiting, answer));
        self.piece((id, caller), piece)
    }
}

/// What a call has come to, of what its function gave.
fn returned(caller: Caller, value: Value, title: &str) -> Result<Returned, ScriptError> {
    let Caller { kind, is_rule, .. } = caller;
    match (kind, value) {
        (Kind::Rpc, Value::Nil) => Ok(Returned::Rpc(None)),
        (Kind::Rpc, Value::Bytes(bytes)) if std::str::from_utf8(&bytes).is_ok() => {
            Ok(Returned::Rpc(Some(bytes)))
        }
        (Kind::Rpc, _) => Err(failure::raised(title, WRONG_RPC_RESULT)),
        (Kind::Before, Value::Nil) => Ok(Returned::Before(None)),
        (Kind::Before, value) => Ok(Returned::Before(Some(value))),
        (Kind::Event, Value::Nil) if is_rule => Ok(Returned::Rule(None)),
        (Kind::Event, zone @ Value::Map(_)) if is_rule => Ok(Returned::Rule(Some(zone))),
        (Kind::Event, _) if is_rule => Err(failure::raised(title, WRONG_RESULT)),
        (Kind::After | Kind::Event | Kind::Match, _) => Ok(Returned::Nothing),
    }
}

/// Room for what most calls are, so that few have to be moved while they are written.
const CALL_BYTES: usize = 2_048;

/// The beginning of a call: `[kind, name, context, …]` with so many arguments behind.
fn head(kind: &str, name: &str, context: &CallContext, arguments: usize) -> Writer {
    let mut writer = Writer::with_room(CALL_BYTES);
    writer.list(3 + arguments).text(kind).text(name);
    self::context(&mut writer, context);
    writer
}

/// What a call knows of its caller; what is not known is not there.
fn context(to: &mut Writer, context: &CallContext) {
    let CallContext { vars, headers, query_params, .. } = context;
    let ids = [("user_id", context.user_id), ("session_id", context.session_id)];
    let texts = [
        ("username", context.username.as_deref()),
        ("lang", context.lang.as_deref()),
        ("client_ip", context.client_ip.as_deref()),
        ("client_port", context.client_port.as_deref()),
    ];
    let lists = [("headers", headers), ("query_params", query_params)];
    let count = 1
        + ids.iter().filter(|(_, id)| id.is_some()).count()
        + texts.iter().filter(|(_, text)| text.is_some()).count()
        + usize::from(context.user_session_exp.is_some())
        + usize::from(!vars.is_empty())
        + lists.iter().filter(|(_, pairs)| !pairs.is_empty()).count();
    to.map(count).name(b"execution_mode").text(context.execution_mode);
    for (name, id) in ids {
        if let Some(id) = id {
            to.name(name.as_bytes()).id(id);
        }
    }
    for (name, text) in texts {
        if let Some(text) = text {
            to.name(name.as_bytes()).text(text);
        }
    }
    if let Some(expiry) = context.user_session_exp {
        to.name(b"user_session_exp").whole(expiry);
    }
    if !vars.is_empty() {
        to.name(b"vars");
        self::texts(to, vars);
    }
    for (name, pairs) in lists {
        if !pairs.is_empty() {
            to.name(name.as_bytes()).list(pairs.count());
            for (name, text) in pairs.iter() {
                to.list(2).bytes(name).bytes(text);
            }
        }
    }
}

/// Texts by name.
pub(crate) fn texts(to: &mut Writer, pairs: &[(String, String)]) {
    to.map(pairs.len());
    for (name, text) in pairs {
        to.name(name.as_bytes()).text(text);
    }
}

impl Scripts for WasmScripts {
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
        let missing = |what: String| Step::Done(Err(failure::not_found(what)));
        let found = |kind: Kind, name: &str| {
            let (name, module) = self.owners.find(kind, name)?;
            let is_rule = kind == Kind::Event && ZoneRule::named(name).is_some();
            Some((Caller { module, kind, is_rule }, name))
        };
        match call {
            GuestCall::Rpc { id: name, payload } => {
                let Some((caller, name)) = found(Kind::Rpc, name) else {
                    return missing("RPC function not found".to_owned());
                };
                let mut call = head("rpc", name, context, 1);
                call.bytes(payload);
                self.run(host, (id, caller), call)
            }
            GuestCall::Before { id: name, request } => {
                let Some((caller, name)) = found(Kind::Before, name) else {
                    return missing(format!("no before-hook for {name}"));
                };
                let mut call = head("before", name, context, 1);
                call.value(&request);
                self.run(host, (id, caller), call)
            }
            GuestCall::After { id: name, answer, request } => {
                let Some((caller, name)) = found(Kind::After, name) else {
                    return missing(format!("no after-hook for {name}"));
                };
                let mut call = head("after", name, context, 2);
                call.value(&answer).value(&request);
                self.run(host, (id, caller), call)
            }
            GuestCall::Event { name, argument } => {
                let Some((caller, name)) = found(Kind::Event, name) else {
                    return Step::Done(Ok(Returned::Nothing));
                };
                let mut call = head("event", name, context, 1);
                call.value(&argument);
                self.run(host, (id, caller), call)
            }
        }
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        self.next_piece(host, id, Some(answer))
    }

    fn go_on(&mut self, host: &mut dyn Host, id: CallId) -> Step<Returned> {
        self.next_piece(host, id, None)
    }

    fn cancel(&mut self, id: CallId) {
        if let Some((caller, waiting)) = self.take_back(id) {
            self.lose(caller.module, Broken::Call(waiting));
        }
    }

    fn has_room(&self, callee: Callee<'_>) -> bool {
        let (kind, name) = match callee {
            Callee::Rpc(name) => (Kind::Rpc, name),
            Callee::Before(name) => (Kind::Before, name),
            Callee::After(name) => (Kind::After, name),
        };
        let module = self.owners.find(kind, name).map(|(_, module)| module);
        // Of what is not there a call says so.
        module.and_then(|module| self.idle.get(module)).is_none_or(|idle| !idle.is_empty())
    }

    /// Calls that wait may hold half of what instances leave that are kept for calls to come: of each module one, once
    /// memory is short.
    fn excess_bytes(&mut self) -> usize {
        if !self.is_short() {
            return 0;
        }
        if !self.limits.is_renewed_elsewhere {
            self.idle.iter_mut().for_each(|idle| idle.truncate(1));
        }
        let idle_bytes: usize = self.idle.iter().flatten().map(Instance::bytes).sum();
        let left_bytes = self.limits.guest.call().memory_bytes.saturating_sub(idle_bytes);
        self.held.waiting_bytes().saturating_sub(left_bytes / 2)
    }

    /// What its instance holds.
    fn weight_bytes(&self, id: CallId) -> usize {
        self.waiting.get(&id).map_or(0, |aside| aside.weight_bytes)
    }

    fn take_spent(&mut self) -> Option<Retired> {
        std::mem::take(&mut self.is_spent).then(|| Retired::new(()))
    }

    fn take_left(&mut self) -> Option<Retired> {
        (!self.broken.is_empty()).then(|| Retired::new(std::mem::take(&mut self.broken)))
    }

    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        let owner = self.owners.of(Kind::Match).and_then(|names| names.get(module));
        let Some(of) = owner.and_then(|index| self.modules.modules.get(*index)) else {
            return Err(failure::not_found("not found"));
        };
        let opened = WasmMatch::open(of, &self.limits.guest, host, (module, &context.match_id))?;
        Ok(Box::new(opened))
    }
}

/// The text in a value, as far as it is text.
pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The bytes in a value.
pub(crate) fn bytes(value: Value) -> Option<Bytes> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
}
