//! One running match: a VM of its own with the match module, what it requires, and the state that
//! its callbacks hand on. The prelude keeps the state and checks what the callbacks return.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, Host, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage,
    MatchReturned, MatchScript, Presence, PresenceReason, ScriptError, ScriptFailure, Step,
};
use game::host::{Args, HostFunction};
use mlua::{Function, IntoLuaMulti, MultiValue, Thread, Value as LuaValue};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::budget::{ALL_MEMORY, VmMeter};
use crate::calls::{Outcome, settle};
use crate::failure::{self, Limits};
use crate::match_values::{Packer, id, number, text};
use crate::sources::Sources;
use crate::vm::{Purpose, Vm};
use crate::{LuaLimits, budget, lend, vm};

/// What the smallest match needs, about.
const START_BYTES: usize = 256 * 1024;

/// Senders whom a match's VM knows, of about 400 bytes each; with more it begins anew.
const SENDERS_MAX: usize = 4_096;

/// A match written in Lua.
pub(crate) struct LuaMatch {
    vm: Vm,
    limits: Limits,
    callbacks: Callbacks,
    label: String,
    /// Reused for every call's presences or messages.
    packer: Packer,
    senders: Senders,
    /// Where callbacks run, from the first one on.
    coroutine: Option<Thread>,
    waiting: Option<Waiting>,
}

/// A callback that waits.
struct Waiting {
    callback: Callback,
    /// What is left of its time, nanoseconds.
    left_ns: u64,
    /// Which function of the host asked.
    function: &'static HostFunction,
}

/// Those whom the VM knows because they have sent already, with where it has them.
#[derive(Debug, Default)]
struct Senders {
    places: HashMap<Uuid, u32>,
    /// Of those who have left.
    free: Vec<u32>,
}

impl Senders {
    /// Where the VM has this session, and whether it is to be told so first.
    fn place(&mut self, session: Uuid) -> (u32, bool) {
        if let Some(place) = self.places.get(&session) {
            return (*place, false);
        }
        let next = || u32::try_from(self.places.len() + 1).unwrap_or(u32::MAX);
        let place = self.free.pop().unwrap_or_else(next);
        self.places.insert(session, place);
        (place, true)
    }

    fn forget(&mut self, session: Uuid) {
        self.free.extend(self.places.remove(&session));
    }

    fn forget_all(&mut self) {
        self.places.clear();
        self.free.clear();
    }
}

/// Entry points of the prelude, each from its first call on: most of them are loaded only then.
#[derive(Debug, Default)]
struct Callbacks {
    set_label: OnceCell<Function>,
    join_attempt: OnceCell<Function>,
    join: OnceCell<Function>,
    leave: OnceCell<Function>,
    tick: OnceCell<Function>,
    signal: OnceCell<Function>,
    terminate: OnceCell<Function>,
}

impl LuaMatch {
    /// Loads the module in a new VM.
    pub(crate) fn open(
        sources: &Arc<Sources>,
        limits: &LuaLimits,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Self, ScriptError> {
        limits.guest.memory.check_start(START_BYTES).map_err(failure::refused)?;
        let memory = (limits.guest.match_memory_max_bytes, &limits.guest.memory);
        let limits = Limits { call: limits.guest.callback(), stacktrace: limits.stacktrace };
        let internal = |error: mlua::Error| failure::internal(&limits, &error);
        let vm = Vm::new(sources, host, (Purpose::Match, Some(module)), memory);
        let vm = vm.map_err(internal)?;
        let running = Self {
            vm,
            limits,
            callbacks: Callbacks::default(),
            label: String::new(),
            packer: Packer::default(),
            senders: Senders::default(),
            coroutine: None,
            waiting: None,
        };

        let open = running.vm.entry("match_open").map_err(internal)?;
        running.run(host, &open, (module, context.match_id.as_str()))?;
        drop(open);
        running.vm.seal().map_err(internal)?;
        Ok(running)
    }

    /// One call into the prelude under a budget of its own, which cannot wait.
    fn run(
        &self,
        host: &mut dyn Host,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Result<(LuaValue, LuaValue), ScriptError> {
        let budget_ns = u64::from(self.limits.call.budget_ms) * 1_000_000;
        match self.piece(host, budget_ns, || function.call::<Yielded>(arguments)) {
            Piece::Done(result) => result,
            Piece::Waits(..) => unreachable!("a call waits outside of a coroutine"),
        }
    }

    /// Runs a piece of a call, for which so much of its time is left.
    fn piece(
        &self,
        host: &mut dyn Host,
        budget_ns: u64,
        run: impl FnOnce() -> mlua::Result<Yielded>,
    ) -> Piece {
        let internal = |error: mlua::Error| Piece::Done(Err(self.internal(&error)));
        let mut limits = self.limits;
        let is_less = match self.vm.limit_memory() {
            Ok(is_less) => is_less,
            Err(error) => return internal(error),
        };
        if is_less {
            limits.call.memory_setting = ALL_MEMORY;
        }
        let running = budget::go_on(limits.call.allowed(), budget_ns);
        let pacing = self.vm.begin_gc_pacing();
        let returned = lend::lend(host, run);
        let piece = match (returned, lend::take_asked()) {
            (Ok((None, ..)), Some(asked)) => match running.pause() {
                Ok(left_ns) => Piece::Waits(asked, left_ns),
                Err(location) => {
                    Piece::Done(Err(failure::out_of_time(&limits, location, &Ok(NOTHING))))
                }
            },
            (returned, _) => {
                let returned = returned.and_then(|(is_ok, first, second, third)| match is_ok {
                    Some(is_ok) => Ok((is_ok, first, second, third)),
                    None => Err(mlua::Error::runtime("a callback has yielded by itself")),
                });
                Piece::Done(settle(running, &limits, returned))
            }
        };
        self.vm.end_gc_pacing(pacing);
        let is_out_of_memory = matches!(&piece, Piece::Done(Err(error))
            if error.kind == ScriptFailure::OutOfMemory);
        if is_out_of_memory {
            self.vm.collect();
        }
        if (is_out_of_memory || is_less)
            && let Err(error) = self.vm.own_limit()
        {
            return internal(error);
        }
        // What a callback did to globals is there until it ends: no other one runs meanwhile.
        if matches!(piece, Piece::Done(_))
            && let Err(error) = self.vm.clear_up()
        {
            return internal(error);
        }
        self.vm.count_memory();
        piece
    }

    /// The coroutine in which callbacks run.
    fn coroutine(&mut self) -> mlua::Result<Thread> {
        if let Some(coroutine) = &self.coroutine {
            return Ok(coroutine.clone());
        }
        let coroutine = self.vm.lua.create_thread(self.vm.entry("match_run")?)?;
        // To where it takes the first callback.
        coroutine.resume::<()>(())?;
        self.coroutine = Some(coroutine.clone());
        Ok(coroutine)
    }

    /// Runs a callback on, from its beginning or from an answer; what it is given is made when its
    /// budget runs and its host is lent.
    fn go_on(
        &mut self,
        host: &mut dyn Host,
        (callback, left_ns): (Callback, u64),
        given: impl FnOnce(&Vm) -> mlua::Result<MultiValue>,
    ) -> Step<MatchReturned> {
        let coroutine = match self.coroutine() {
            Ok(coroutine) => coroutine,
            Err(error) => return Step::Done(Err(self.internal(&error))),
        };
        let run = || coroutine.resume::<Yielded>(given(&self.vm)?);
        match self.piece(host, left_ns, run) {
            Piece::Waits(lend::Asked { function, ask }, left_ns) => {
                self.waiting = Some(Waiting { callback, left_ns, function });
                Step::Waits(ask)
            }
            Piece::Done(result) => {
                drop(coroutine);
                // It may have ended with an error, and of the beginning of a match nothing is to stay.
                if result.is_err() || callback == Callback::Init {
                    self.coroutine = None;
                }
                Step::Done(self.end(callback, result))
            }
        }
    }

    /// Tells the context's label, if it has changed.
    fn refresh(&mut self, context: &MatchContext) -> Result<(), ScriptError> {
        if self.label != context.label {
            self.label.clone_from(&context.label);
            let set_label = self.callback(&self.callbacks.set_label, "match_label")?;
            let told = set_label.call::<()>(context.label.as_str());
            told.map_err(|error| self.internal(&error))?;
        }
        Ok(())
    }

    /// An entry point of the prelude, which loads it if nobody has called it yet.
    fn callback<'a>(
        &self,
        place: &'a OnceCell<Function>,
        name: &str,
    ) -> Result<&'a Function, ScriptError> {
        if let Some(known) = place.get() {
            return Ok(known);
        }
        let found = self.vm.entry(name).map_err(|error| self.internal(&error))?;
        Ok(place.get_or_init(|| found))
    }

    fn internal(&self, error: &mlua::Error) -> ScriptError {
        failure::internal(&self.limits, error)
    }

    /// Presences as the prelude reads them: `<c36c36Bs4` each.
    fn pack_presences(
        &mut self,
        presences: &[(Presence, PresenceReason)],
    ) -> Result<mlua::LuaString, ScriptError> {
        let packer = self.packer.start();
        for (presence, reason) in presences {
            packer.id(presence.user_id).id(presence.session_id).byte(*reason as u8);
            packer.text(presence.username.as_bytes());
        }
        self.packed()
    }

    /// Messages as the prelude reads them: `<I4ddBs4` each, and before all of them those who send
    /// for the first time, `<I4c36c36s4` each. Gives how many these are, too.
    #[allow(clippy::cast_precision_loss, reason = "scripts' numbers are doubles anyway")]
    fn pack_messages(
        &mut self,
        messages: &[MatchMessage],
    ) -> Result<(mlua::LuaString, usize), ScriptError> {
        // Not in between: their places are those of others then.
        if self.senders.places.len() + messages.len() > SENDERS_MAX {
            self.senders.forget_all();
        }
        let packer = self.packer.start();
        let mut places = SmallVec::<[u32; 64]>::new();
        let mut new_count = 0;
        for MatchMessage { sender, .. } in messages {
            let (place, is_new) = self.senders.place(sender.session_id);
            places.push(place);
            if is_new {
                new_count += 1;
                packer.whole(place).id(sender.user_id).id(sender.session_id);
                packer.text(sender.username.as_bytes());
            }
        }
        for (message, place) in messages.iter().zip(places) {
            packer.whole(place);
            packer.number(message.op_code as f64).number(message.receive_time_ms as f64);
            packer.byte(u8::from(message.reliable)).text(&message.data);
        }
        Ok((self.packed()?, new_count))
    }

    fn packed(&self) -> Result<mlua::LuaString, ScriptError> {
        let packed = self.vm.lua.create_string(self.packer.bytes());
        packed.map_err(|error| self.internal(&error))
    }

    fn ask(&self, tick: i64, request: &JoinRequest) -> mlua::Result<mlua::MultiValue> {
        let lua = &self.vm.lua;
        (
            tick,
            id(lua, request.presence.user_id)?,
            id(lua, request.presence.session_id)?,
            &*request.presence.username,
            tables::texts(lua, &request.metadata)?,
            Some(&request.vars)
                .filter(|vars| !vars.is_empty())
                .map(|v| tables::texts(lua, v))
                .transpose()?,
            number(request.user_session_exp),
            text(lua, request.client_ip.as_deref())?,
            text(lua, request.client_port.as_deref())?,
        )
            .into_lua_multi(lua)
    }
}

/// What an entry point returns, or nothing when its coroutine has yielded to wait.
type Yielded = (Option<bool>, LuaValue, LuaValue, LuaValue);

/// What came of a callback that was stopped while it asked.
const NOTHING: Outcome = (true, LuaValue::Nil, LuaValue::Nil, LuaValue::Nil);

/// What a piece of a call has come to.
enum Piece {
    Done(Result<(LuaValue, LuaValue), ScriptError>),
    /// It waits; so much of its time is left, in nanoseconds.
    Waits(lend::Asked, u64),
}

/// Which callback was called, as its results are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    Init,
    JoinAttempt,
    Presences,
    Loop,
    Signal,
    Terminate,
}

impl LuaMatch {
    /// The prelude's function for a callback, with its arguments.
    fn begin(
        &mut self,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Result<(Callback, MultiValue), ScriptError> {
        let lua = self.vm.lua.clone();
        if !matches!(call, MatchCall::Init { .. }) {
            self.refresh(context)?;
        }
        let known = &self.callbacks;
        let internal = |error: mlua::Error| failure::internal(&self.limits, &error);
        let (callback, function, arguments) = match call {
            MatchCall::Init { params } => {
                // Once: the prelude throws it away.
                let init = self.vm.entry("match_init").map_err(internal)?;
                let params = tables::to_lua(&lua, params).map_err(internal)?;
                return Ok((
                    Callback::Init,
                    (init, params).into_lua_multi(&lua).map_err(internal)?,
                ));
            }
            MatchCall::JoinAttempt(request) => {
                let function = self.callback(&known.join_attempt, "match_join_attempt")?;
                (Callback::JoinAttempt, function.clone(), self.ask(tick, request))
            }
            MatchCall::Presences { joined, presences } => {
                let packed = self.pack_presences(presences)?;
                if !joined {
                    for (presence, _) in presences {
                        self.senders.forget(presence.session_id);
                    }
                }
                let function = if joined {
                    self.callback(&self.callbacks.join, "match_join")?
                } else {
                    self.callback(&self.callbacks.leave, "match_leave")?
                };
                let arguments = (tick, packed, presences.len()).into_lua_multi(&lua);
                (Callback::Presences, function.clone(), arguments)
            }
            MatchCall::Loop(messages) => {
                let packed = (!messages.is_empty()).then(|| self.pack_messages(messages));
                let (packed, new_count) = packed.transpose()?.unzip();
                let function = self.callback(&self.callbacks.tick, "match_loop")?;
                let arguments = (tick, packed, messages.len(), new_count).into_lua_multi(&lua);
                (Callback::Loop, function.clone(), arguments)
            }
            MatchCall::Signal(data) => {
                let function = self.callback(&known.signal, "match_signal")?;
                let data = lua.create_string(data).map_err(internal)?;
                (Callback::Signal, function.clone(), (tick, data).into_lua_multi(&lua))
            }
            MatchCall::Terminate { grace_s } => {
                let function = self.callback(&known.terminate, "match_terminate")?;
                (Callback::Terminate, function.clone(), (tick, grace_s).into_lua_multi(&lua))
            }
        };
        let mut arguments = arguments.map_err(|error| self.internal(&error))?;
        arguments.push_front(LuaValue::Function(function));
        Ok((callback, arguments))
    }

    /// What a callback's results say.
    fn end(
        &mut self,
        callback: Callback,
        result: Result<(LuaValue, LuaValue), ScriptError>,
    ) -> Result<MatchReturned, ScriptError> {
        if callback == Callback::Loop && result.is_err() {
            // Perhaps before it had read who they are.
            self.senders.forget_all();
        }
        let (first, second) = result?;
        let text = |value: &LuaValue| value.as_string().map(|text| text.to_string_lossy());
        Ok(match callback {
            Callback::Init => {
                let label = text(&second).unwrap_or_default();
                self.label.clone_from(&label);
                // What loading has left behind would stay until the match has made as much garbage
                // again.
                self.vm.lua.gc_collect().map_err(|error| self.internal(&error))?;
                self.vm.count_memory();
                let tick_rate_hz = first.as_i64().unwrap_or(0);
                MatchReturned::Init(MatchInit { tick_rate_hz, label })
            }
            Callback::JoinAttempt => match first.as_boolean() {
                Some(allow) => {
                    let reason = text(&second).unwrap_or_default();
                    MatchReturned::Verdict(JoinVerdict { allow, reason })
                }
                None => MatchReturned::Ends,
            },
            Callback::Signal => match first.as_string() {
                Some(text) => MatchReturned::Signal(Bytes::copy_from_slice(&text.as_bytes())),
                None => MatchReturned::Ends,
            },
            Callback::Presences | Callback::Loop | Callback::Terminate => {
                if first.as_boolean().unwrap_or(false) {
                    MatchReturned::GoesOn
                } else {
                    MatchReturned::Ends
                }
            }
        })
    }
}

impl MatchScript for LuaMatch {
    fn call(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned> {
        assert!(self.waiting.is_none(), "a callback of the match waits");
        let (callback, arguments) = match self.begin(context, tick, call) {
            Ok(begun) => begun,
            Err(error) => return Step::Done(Err(error)),
        };
        let budget_ns = u64::from(self.limits.call.budget_ms) * 1_000_000;
        self.go_on(host, (callback, budget_ns), |_| Ok(arguments))
    }

    fn resume(
        &mut self,
        host: &mut dyn Host,
        _context: &MatchContext,
        answer: Answer,
    ) -> Step<MatchReturned> {
        let Some(waiting) = self.waiting.take() else { panic!("no callback of the match waits") };
        let Waiting { callback, left_ns, function } = waiting;
        self.go_on(host, (callback, left_ns), |vm| {
            let meter = VmMeter::new(&vm.lua);
            let args = Args { function: function.name, values: &[], meter: &meter };
            match lend::host(|host| function.answered(host, &args, answer)) {
                Some(result) => vm::results(&vm.lua, result),
                None => Err(mlua::Error::runtime("no host to call")),
            }
        })
    }

    fn location(&self) -> String {
        let coroutine = self.coroutine.as_ref().filter(|_| self.waiting.is_some());
        coroutine.map_or_else(String::new, |it| failure::where_it_waits(&self.vm, it))
    }

    fn memory_bytes(&self) -> usize {
        self.vm.lua.used_memory()
    }
}
