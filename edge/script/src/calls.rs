//! One thread's instance of all modules: loads them, and finds the functions of RPCs, hooks and events,
//! which run in `pieces`. Matches are made here and live in `matches`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, CallContext, CallId, Callee, Finding, GuestCall, HookForm, Host, HostSettings,
    MatchContext, MatchScript, Registered, Retired, Returned, ScriptError, ScriptFailure, Scripts,
    Step, in_any_case,
};
use game::rules::{WRONG_RESULT, ZoneRule};
use game::value::Value;
use mlua::{Function, IntoLuaMulti as _, Lua, Table, Value as LuaValue};

use crate::budget::{self, Running, VmMeter};
use crate::context::Contexts;
use crate::dialect::{Parameters, Reads};
use crate::failure::{self, Limits};
use crate::lint::{self, Handler};
use crate::matches::LuaMatch;
use crate::pieces::{self, Piece, Pieces};
use crate::sources::{LoadError, Sources};
use crate::vm::{Purpose, Vm};
use crate::weights::{Weights, Whose};
use crate::{LuaLimits, Renewal, lend};

/// What an entry point of the prelude returns: true and up to three values, or false, the text of
/// the error, its code and the traceback.
pub(crate) type Outcome = (bool, LuaValue, LuaValue, LuaValue);

const WRONG_RPC_RESULT: &str = "Runtime function returned invalid data - only allowed one return \
                                value of type String/Byte.";

/// The Lua guest code of one thread.
#[derive(Debug)]
pub struct LuaScripts {
    sources: Arc<Sources>,
    limits: LuaLimits,
    registered: Registered,
    /// `None` after a script left the VM without memory and it could not be made anew.
    calls: Option<Calls>,
    /// What was left without memory and another thread is to free.
    spent: Option<Calls>,
    /// Whether nearly all of that memory was used when the call began that met the end of it last.
    is_spent_by_others: bool,
    /// What is called by the calls that wait, which is how their results are to be read, and whose they are.
    waiting: BTreeMap<CallId, (Kind, Whose)>,
    /// Of these, those whose VM is gone.
    lost: BTreeSet<CallId>,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rpc,
    Before,
    /// A rule of the zone.
    Rule,
    /// An after-hook or another event.
    Other,
}

/// The VM for RPCs and hooks with what was registered in it.
#[derive(Debug)]
struct Calls {
    vm: Vm,
    weights: Weights,
    pieces: Pieces,
    contexts: Contexts,
    rpc: BTreeMap<String, GuestFunction>,
    before: BTreeMap<String, GuestFunction>,
    after: BTreeMap<String, GuestFunction>,
    events: BTreeMap<String, GuestFunction>,
    /// Functions that never run, because another one was registered in their place.
    replaced: Vec<Finding>,
    /// The modules that returned callbacks of a match.
    handlers: BTreeMap<String, Handler>,
}

/// A function that was registered.
#[derive(Debug)]
struct GuestFunction {
    function: Function,
    /// What it reads of its arguments; not known of one that is in no module, or shares its line.
    parameters: Option<Parameters>,
}

/// Places of arguments. Of an after-hook the request comes behind the answer.
const CONTEXT: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

impl GuestFunction {
    fn new(function: Function, sources: &Sources) -> Self {
        let info = function.info();
        // Not the name of a text given to `loadstring`: those begin otherwise.
        let file = info.source.as_deref().and_then(|source| source.strip_prefix('@'));
        let module = file.and_then(|file| sources.module_of(file));
        let line = info.line_defined.and_then(|line| u32::try_from(line).ok());
        let known = module.zip(line).and_then(|(module, line)| module.functions.on(line));
        Self { parameters: known.cloned(), function }
    }

    fn reads(&self, place: usize) -> &Reads {
        self.parameters.as_ref().map_or(&Reads::Whole, |parameters| parameters.reads(place))
    }

    /// An argument, as far as it is read.
    fn argument(&self, lua: &Lua, place: usize, mut value: Value) -> mlua::Result<LuaValue> {
        let reads = self.reads(place);
        if !reads.is_any() {
            return Ok(LuaValue::Nil);
        }
        if let Value::Map(members) = &mut value {
            members.retain(|(name, _)| reads.has(name));
        }
        tables::to_lua(lua, &value)
    }
}

impl LuaScripts {
    /// Runs all modules in a VM for this thread.
    ///
    /// # Errors
    /// [`LoadError::Run`] when a module fails, [`LoadError::Lua`].
    pub fn load(
        sources: Arc<Sources>,
        limits: LuaLimits,
        host: &mut dyn Host,
    ) -> Result<Self, LoadError> {
        let calls = Calls::load(&sources, &limits, host)?;
        let names =
            |functions: &BTreeMap<String, GuestFunction>| functions.keys().cloned().collect();
        let registered = Registered {
            rpc: names(&calls.rpc),
            blocking: Vec::new(),
            before: names(&calls.before),
            after: names(&calls.after),
            events: names(&calls.events),
            modules: sources.names().map(str::to_owned).collect(),
            locations: calls.locations(),
            findings: {
                let mut found = lint::findings(&sources.facts(), Some(&calls.handlers));
                found.extend(calls.replaced.iter().cloned());
                found
            },
        };
        Ok(Self {
            sources,
            limits,
            registered,
            calls: Some(calls),
            spent: None,
            is_spent_by_others: false,
            waiting: BTreeMap::new(),
            lost: BTreeSet::new(),
        })
    }

    /// Memory of the VM for calls, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.calls.as_ref().map_or(0, |calls| calls.vm.lua.used_memory())
    }

    fn call_limits(&self) -> Limits {
        Limits { call: self.limits.guest.call(), stacktrace: self.limits.stacktrace }
    }

    /// Goes on with a call: with the answer that it waits for, or, if it is paused, without one.
    fn next_piece(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        answer: Option<Answer>,
    ) -> Step<Returned> {
        let Some((kind, whose)) = self.waiting.remove(&id) else {
            unreachable!("{id:?} does not wait")
        };
        if self.lost.remove(&id) {
            return Step::Done(Err(pieces::lost()));
        }
        self.piece(host, (id, kind, whose), true, |calls, limits, host, _| {
            let piece = calls.pieces.resume(&calls.vm, limits, host, (id, answer));
            Ok(piece.unwrap_or_else(|| Piece::Ended(Err(pieces::lost()))))
        })
    }

    /// Runs a piece of a call on the VM for calls, which is made anew if it uses up its memory: in its time,
    /// and not in that of the next call.
    fn piece(
        &mut self,
        host: &mut dyn Host,
        (id, kind, whose): (CallId, Kind, Whose),
        was_kept: bool,
        piece: impl FnOnce(&Calls, &Limits, &mut dyn Host, u8) -> Result<Piece, ScriptError>,
    ) -> Step<Returned> {
        let limits = self.call_limits();
        let mut calls = match self.calls.take() {
            Some(calls) => calls,
            None if self.limits.renewal != Renewal::Here => return Step::Done(Err(pieces::lost())),
            None => match Calls::load(&self.sources, &self.limits, host) {
                Ok(calls) => calls,
                Err(error) => {
                    let error = failure::raised(&limits, &error.to_string(), None, None);
                    return Step::Done(Err(error));
                }
            },
        };
        let begun = calls.weights.begin(&calls.vm.lua, whose);
        let was_full = calls.vm.is_nearly_full();
        let step = match piece(&calls, &limits, host, begun.category) {
            Ok(Piece::Waits(ask)) => {
                self.waiting.insert(id, (kind, whose));
                Step::Waits(ask)
            }
            Ok(Piece::Paused) => {
                self.waiting.insert(id, (kind, whose));
                Step::Paused
            }
            Ok(Piece::Ended(ended)) => {
                Step::Done(ended.and_then(|value| kind.read(&calls.vm.lua, &limits, &value)))
            }
            Err(error) => Step::Done(Err(error)),
        };
        let is_kept = !matches!(step, Step::Done(_));
        calls.weights.end(&calls.vm.lua, (id, whose, begun), (was_kept, is_kept));
        let out_of_memory = matches!(&step, Step::Done(Err(error))
            if error.kind == ScriptFailure::OutOfMemory);
        if out_of_memory {
            self.is_spent_by_others = was_full;
            self.recover(host, calls);
        } else {
            // What it leaves would be the next call's end, as garbage counts. Who has filled the memory clears up.
            if !was_full && calls.vm.is_nearly_full() {
                self.collect(&mut calls);
            }
            self.calls = Some(calls);
        }
        step
    }

    /// Collects what is garbage, where that may take its time: where there is much, it takes long.
    fn collect(&self, calls: &mut Calls) {
        if self.limits.renewal != Renewal::ElsewhereAtOnce && calls.vm.collect() {
            calls.weights.settle(&calls.vm.lua);
        }
    }

    /// A call has used up the VM's memory: it is as before unless modules keep most of that.
    fn recover(&mut self, host: &mut dyn Host, mut calls: Calls) {
        calls.pieces.clear_idle();
        self.collect(&mut calls);
        if calls.vm.has_memory(calls.weights.calls_bytes(&calls.vm.lua)) {
            self.calls = Some(calls);
            return;
        }
        self.limits.guest.memory.note_rebuilt();
        self.lost.extend(calls.pieces.waiting());
        if self.limits.renewal == Renewal::Here {
            drop(calls);
            // If that fails the next call tries, and tells its client why it does.
            self.calls = Calls::load(&self.sources, &self.limits, host).ok();
        } else {
            self.spent = Some(calls);
        }
    }
}

impl Kind {
    /// What a function's result means.
    fn read(self, lua: &Lua, limits: &Limits, value: &LuaValue) -> Result<Returned, ScriptError> {
        match (self, value) {
            (Self::Rpc, LuaValue::Nil) => Ok(Returned::Rpc(None)),
            (Self::Rpc, LuaValue::String(text)) => {
                Ok(Returned::Rpc(Some(Bytes::copy_from_slice(&text.as_bytes()))))
            }
            (Self::Rpc, _) => Err(failure::raised(limits, WRONG_RPC_RESULT, None, None)),
            (Self::Before, LuaValue::Nil) => Ok(Returned::Before(None)),
            (Self::Before, value) => {
                let converted = tables::from_lua(lua, value, &VmMeter::new(lua));
                let request = converted.map_err(|error| value_error(limits, &error))?;
                Ok(Returned::Before(Some(request)))
            }
            (Self::Rule, LuaValue::Nil) => Ok(Returned::Rule(None)),
            (Self::Rule, LuaValue::Table(_)) => {
                let converted = tables::from_lua(lua, value, &VmMeter::new(lua));
                let ruled = converted.map_err(|error| value_error(limits, &error))?;
                Ok(Returned::Rule(Some(ruled)))
            }
            (Self::Rule, _) => Err(failure::raised(limits, WRONG_RESULT, None, None)),
            (Self::Other, _) => Ok(Returned::Nothing),
        }
    }
}

impl Calls {
    fn load(
        sources: &Arc<Sources>,
        limits: &LuaLimits,
        host: &mut dyn Host,
    ) -> Result<Self, LoadError> {
        let purpose = match limits.slice_us {
            None => Purpose::Calls,
            Some(_) => Purpose::CallsOnCore,
        };
        let memory = (limits.guest.memory_max_bytes, &limits.guest.memory);
        let vm = Vm::new(sources, host, (purpose, None), memory)?;
        let load = vm.entry("load")?;
        let load_limits = Limits { call: limits.guest.start(), stacktrace: false };
        let mut handlers = BTreeMap::new();
        let all = budget::begin(load_limits.call.allowed());
        let loaded: Result<(), LoadError> =
            sources.modules.iter().try_for_each(|(name, module)| {
                // Inside the one budget for all of them.
                let running = budget::begin(load_limits.call.allowed());
                let returned = lend::lend(host, || load.call::<Outcome>(name.as_str()));
                let settled = settle(running, &load_limits, returned);
                let (value, _) = settled.map_err(|error| load_error(error, &module.file))?;
                handlers.extend(Handler::of(&value).map(|handler| (name.clone(), handler)));
                Ok(())
            });
        all.end();
        loaded?;
        type Registries = (Table, Table, Table, Table, Table, Table);
        let (rpc, before, after, event, again, env) = vm.entry("loaded")?.call::<Registries>(())?;
        let functions = |table: Table| {
            let callee = |pair: mlua::Result<(String, Function)>| {
                pair.map(|(name, function)| (name, GuestFunction::new(function, sources)))
            };
            table.pairs().map(callee).collect::<mlua::Result<BTreeMap<_, _>>>()
        };
        let HostSettings { node, version, .. } = host.settings();
        let contexts = Contexts { env, node: node.clone(), version: version.clone() };
        let pieces = Pieces::new(vm.entry("serve")?, limits.slice_us);
        vm.seal()?;
        Ok(Self {
            weights: Weights::new(limits.guest.memory_max_bytes),
            pieces,
            contexts,
            rpc: functions(rpc)?,
            before: functions(before)?,
            after: functions(after)?,
            events: functions(event)?,
            replaced: replaced(&again)?,
            handlers,
            vm,
        })
    }

    /// Where the registered functions are defined; host functions have no place.
    fn locations(&self) -> Vec<(String, String)> {
        let hooks = [("before ", &self.before), ("after ", &self.after)];
        let kinds = [("rpc ", &self.rpc)].into_iter().chain(hooks).chain([("", &self.events)]);
        let all = kinds.flat_map(|(kind, functions)| {
            functions.iter().map(move |(name, callee)| (format!("{kind}{name}"), &callee.function))
        });
        all.filter_map(|(name, function)| Some((name, place_of(function)?))).collect()
    }

    /// Begins a call; `None` if there is no function for it, and none is missed.
    fn begin(
        &self,
        limits: &Limits,
        host: &mut dyn Host,
        (id, category, context): (CallId, u8, &CallContext),
        call: GuestCall<'_>,
    ) -> Result<Piece, ScriptError> {
        let lua = &self.vm.lua;
        let (callee, first, second) = match call {
            GuestCall::Rpc { id, payload } => {
                let Some(callee) = find(&self.rpc, id) else {
                    return Err(failure::not_found("RPC function not found".to_owned()));
                };
                let first = match callee.reads(FIRST) {
                    Reads::Nothing => Ok(LuaValue::Nil),
                    _ => lua.create_string(payload).map(LuaValue::String),
                };
                (callee, first, Ok(LuaValue::Nil))
            }
            GuestCall::Before { id, request } => {
                let Some(callee) = find(&self.before, id) else {
                    return Err(failure::not_found(format!("no before-hook for {id}")));
                };
                (callee, callee.argument(lua, FIRST, request), Ok(LuaValue::Nil))
            }
            GuestCall::After { id, answer, request } => {
                let Some(callee) = find(&self.after, id) else {
                    return Err(failure::not_found(format!("no after-hook for {id}")));
                };
                let second = callee.argument(lua, SECOND, request);
                (callee, callee.argument(lua, FIRST, answer), second)
            }
            GuestCall::Event { name, argument } => {
                let Some(callee) = self.events.get(name) else {
                    return Ok(Piece::Ended(Ok(LuaValue::Nil)));
                };
                (callee, callee.argument(lua, FIRST, argument), Ok(LuaValue::Nil))
            }
        };
        let arguments = || {
            let context = self.contexts.of(lua, context, callee.reads(CONTEXT))?;
            (&callee.function, context, first?, second?).into_lua_multi(lua)
        };
        let arguments = arguments().map_err(|error| failure::internal(limits, &error))?;
        Ok(self.pieces.begin(&self.vm, limits, host, (id, category), arguments))
    }
}

/// Why a module did not load; a budget's text names the place as well.
fn load_error(error: ScriptError, file: &str) -> LoadError {
    let ScriptError { message, location, .. } = error;
    let bare = message.strip_prefix(&*location).and_then(|rest| rest.strip_prefix(": "));
    let message = bare.map(str::to_owned).unwrap_or(message);
    let location = if location.is_empty() { file.to_owned() } else { location };
    LoadError::Run { location, message }
}

/// `file:line` where a function is defined; `None` for one of the host.
fn place_of(function: &Function) -> Option<String> {
    let info = function.info();
    Some(format!("{}:{}", info.short_src?, info.line_defined?))
}

/// A line for each function that was registered and then replaced, as in Nakama without an error:
/// two modules, or two ids that differ in case.
fn replaced(again: &Table) -> mlua::Result<Vec<Finding>> {
    let each = again.sequence_values::<Table>().map(|entry| {
        let entry = entry?;
        let (kind, id): (String, String) = (entry.raw_get(1)?, entry.raw_get(2)?);
        let (before, now): (Function, Function) = (entry.raw_get(3)?, entry.raw_get(4)?);
        let what = match kind.as_str() {
            "rpc" => format!("the RPC {id}"),
            "event" => format!("register_{id}"),
            kind => format!("the {kind}-hook of {id}"),
        };
        let place = |it| place_of(it).unwrap_or_else(|| "a function of the server".to_owned());
        let text = format!(
            "{}: {what} is registered again (case does not count): {} never runs",
            place(&now),
            place(&before),
        );
        Ok(Finding { is_certain: false, text })
    });
    each.collect()
}

/// What became of a call: its values, or the error as the author needs it. Ends the budget.
pub(crate) fn settle(
    running: Running,
    limits: &Limits,
    returned: mlua::Result<Outcome>,
) -> Result<(LuaValue, LuaValue), ScriptError> {
    if let Some(location) = running.end() {
        return Err(failure::out_of_time(limits, location, &returned));
    }
    match returned {
        Ok((true, first, second, _)) => Ok((first, second)),
        Ok((false, text, code, trace)) => {
            let code = code.as_i64().and_then(|code| u8::try_from(code).ok());
            let code = code.filter(|code| (1..=16).contains(code));
            let trace = trace.as_string().map(|trace| trace.to_string_lossy());
            let text = text.as_string().map_or_else(String::new, |text| text.to_string_lossy());
            Err(failure::raised(limits, &text, code, trace.as_deref()))
        }
        Err(error) => Err(failure::internal(limits, &error)),
    }
}

/// The function registered for `id`, whatever its case.
fn find<'a>(callees: &'a BTreeMap<String, GuestFunction>, id: &str) -> Option<&'a GuestFunction> {
    in_any_case(callees, id).map(|(_, callee)| callee)
}

fn value_error(limits: &Limits, error: &tables::ConvertError) -> ScriptError {
    failure::raised(limits, &error.to_string(), None, None)
}

impl Scripts for LuaScripts {
    fn registered(&self) -> &Registered {
        &self.registered
    }

    fn hook_form(&self, hook: Callee<'_>) -> HookForm {
        let (callee, answer, request) = match (&self.calls, hook) {
            (Some(calls), Callee::Before(id)) => (find(&calls.before, id), None, FIRST),
            (Some(calls), Callee::After(id)) => (find(&calls.after, id), Some(FIRST), SECOND),
            _ => return HookForm::default(),
        };
        let reads = |place| callee.is_none_or(|callee| callee.reads(place).is_any());
        HookForm {
            reads_answer: answer.is_some_and(reads),
            reads_request: reads(request),
            ..HookForm::default()
        }
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        let kind = match call {
            GuestCall::Rpc { .. } => Kind::Rpc,
            GuestCall::Before { .. } => Kind::Before,
            GuestCall::Event { name, .. } if ZoneRule::named(name).is_some() => Kind::Rule,
            GuestCall::After { .. } | GuestCall::Event { .. } => Kind::Other,
        };
        let whose = Whose::of(host.payer(), id);
        self.piece(host, (id, kind, whose), false, |calls, limits, host, category| {
            calls.begin(limits, host, (id, category, context), call)
        })
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        self.next_piece(host, id, Some(answer))
    }

    fn go_on(&mut self, host: &mut dyn Host, id: CallId) -> Step<Returned> {
        self.next_piece(host, id, None)
    }

    fn cancel(&mut self, id: CallId) {
        if let Some((_, whose)) = self.waiting.remove(&id)
            && !self.lost.remove(&id)
            && let Some(calls) = &mut self.calls
        {
            calls.pieces.cancel(id);
            calls.weights.cancel(&calls.vm.lua, whose, id);
        }
    }

    fn location(&self, id: CallId) -> String {
        let calls = self.calls.as_ref().filter(|_| !self.lost.contains(&id));
        calls.map_or_else(String::new, |calls| calls.pieces.location(&calls.vm, id))
    }

    fn excess_bytes(&mut self) -> usize {
        // To collect takes too long where others wait.
        let collects = self.limits.renewal != Renewal::ElsewhereAtOnce;
        self.calls
            .as_mut()
            .map_or(0, |Calls { vm, weights, .. }| weights.excess_bytes(vm, collects))
    }

    fn weight_bytes(&self, id: CallId) -> usize {
        match (&self.calls, self.waiting.get(&id)) {
            (Some(calls), Some((_, whose))) if !self.lost.contains(&id) => {
                calls.weights.bytes(&calls.vm.lua, *whose, id)
            }
            _ => 0,
        }
    }

    fn take_spent(&mut self) -> Option<Retired> {
        self.spent.take().map(Retired::new)
    }

    fn is_spent_by_others(&self) -> bool {
        self.is_spent_by_others
    }

    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        if !self.sources.modules.contains_key(module) {
            return Err(failure::not_found("not found".to_owned()));
        }
        let opened = LuaMatch::open(&self.sources, &self.limits, host, context, module)?;
        Ok(Box::new(opened))
    }
}
