//! One running match: a VM of its own with the bundle, and the state that its callbacks hand on. The
//! prelude keeps the state and checks what the callbacks return.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, Host, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage,
    MatchReturned, MatchScript, Presence, PresenceReason, ScriptError, ScriptFailure, Step,
};
use game::value::Value;
use rquickjs::{Array, Ctx, IntoJs as _};
use script::budget::{ALL_MEMORY, Limits};

use crate::JsLimits;
use crate::calls::{id, texts};
use crate::convert::{self, Names, int};
use crate::failure;
use crate::sources::Bundle;
use crate::vm::{self, Fault, Purpose, Vm};

/// What the smallest match needs, about.
const START_BYTES: usize = 512 * 1024;

/// A match written in JavaScript.
pub(crate) struct JsMatch {
    vm: Vm,
    limits: Limits,
    label: String,
}

impl JsMatch {
    /// Runs the bundle in a new VM.
    pub(crate) fn open(
        bundle: &Arc<Bundle>,
        limits: &JsLimits,
        host: &mut dyn Host,
        context: &MatchContext,
        name: &str,
    ) -> Result<Self, ScriptError> {
        limits.memory.check_start(START_BYTES).map_err(failure::refused)?;
        let all = &limits.memory;
        let limits = Limits {
            budget_ms: limits.callback_budget_ms,
            budget_setting: "match.callback_budget_ms",
            memory_bytes: limits.match_memory_max_bytes,
            memory_setting: "match.memory_max_bytes",
            is_match: true,
        };
        let vm = Vm::new(bundle, host, (&limits, all), Purpose::Match)
            .map_err(|(thrown, late)| thrown.error(&limits, late))?;
        let opened = Self { vm, limits, label: String::new() };
        opened.run(host, |ctx| {
            let open = vm::entry(ctx, "matchOpen")?;
            Ok(open.call::<_, ()>((name, context.match_id.as_str()))?)
        })?;
        Ok(opened)
    }

    /// One call into the prelude under a budget of its own.
    fn run<R>(
        &self,
        host: &mut dyn Host,
        job: impl for<'js> FnOnce(&Ctx<'js>) -> Result<R, Fault>,
    ) -> Result<R, ScriptError> {
        let mut limits = self.limits;
        let is_less = self.vm.limit_memory();
        if is_less {
            limits.memory_setting = ALL_MEMORY;
        }
        let result = self.vm.run(host, &limits, job);
        if is_less {
            self.vm.own_limit();
        }
        result.map_err(|(thrown, late)| {
            let error = thrown.error(&limits, late);
            if error.kind == ScriptFailure::OutOfMemory {
                self.vm.recover();
            }
            error
        })
    }

    /// Tells the context's label, if it has changed.
    fn refresh(&mut self, host: &mut dyn Host, context: &MatchContext) -> Result<(), ScriptError> {
        if self.label != context.label {
            self.label.clone_from(&context.label);
            self.run(host, |ctx| {
                Ok(vm::entry(ctx, "matchLabel")?.call::<_, ()>((context.label.as_str(),))?)
            })?;
        }
        Ok(())
    }
}

/// User id, session id, name and reason of each.
fn presences<'js>(
    ctx: &Ctx<'js>,
    presences: &[(Presence, PresenceReason)],
) -> rquickjs::Result<Array<'js>> {
    let flat = Array::new(ctx.clone())?;
    for (index, (presence, reason)) in presences.iter().enumerate() {
        let at = index * 4;
        flat.set(at, id(ctx, Some(presence.user_id))?)?;
        flat.set(at + 1, id(ctx, Some(presence.session_id))?)?;
        flat.set(at + 2, &*presence.username)?;
        flat.set(at + 3, *reason as u8)?;
    }
    Ok(flat)
}

/// The sender's user id, session id and name, op code, data, the reliable flag and the time of each.
fn messages<'js>(ctx: &Ctx<'js>, messages: &[MatchMessage]) -> rquickjs::Result<Array<'js>> {
    let flat = Array::new(ctx.clone())?;
    for (index, message) in messages.iter().enumerate() {
        let at = index * 7;
        flat.set(at, id(ctx, Some(message.sender.user_id))?)?;
        flat.set(at + 1, id(ctx, Some(message.sender.session_id))?)?;
        flat.set(at + 2, &*message.sender.username)?;
        flat.set(at + 3, convert::int(ctx, message.op_code))?;
        flat.set(at + 4, convert::buffer(ctx, &message.data)?)?;
        flat.set(at + 5, message.reliable)?;
        let time_ms = i64::try_from(message.receive_time_ms).unwrap_or(i64::MAX);
        flat.set(at + 6, convert::int(ctx, time_ms))?;
    }
    Ok(flat)
}

/// Who asks to join: user id, session id, name, expiry, address and port.
fn asker<'js>(ctx: &Ctx<'js>, request: &JoinRequest) -> rquickjs::Result<Array<'js>> {
    let user = Array::new(ctx.clone())?;
    user.set(0, id(ctx, Some(request.presence.user_id))?)?;
    user.set(1, id(ctx, Some(request.presence.session_id))?)?;
    user.set(2, &*request.presence.username)?;
    let expiry = i64::try_from(request.user_session_exp).unwrap_or(i64::MAX);
    user.set(3, convert::int(ctx, expiry))?;
    user.set(4, request.client_ip.as_deref())?;
    user.set(5, request.client_port.as_deref())?;
    Ok(user)
}

impl JsMatch {
    fn begin(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Result<MatchReturned, ScriptError> {
        if !matches!(call, MatchCall::Init { .. }) {
            self.refresh(host, context)?;
        }
        match call {
            MatchCall::Init { params } => {
                let init = self.init(host, params)?;
                self.label.clone_from(&init.label);
                self.vm.look();
                Ok(MatchReturned::Init(init))
            }
            MatchCall::JoinAttempt(request) => {
                let verdict = self.attempt(host, tick, request)?;
                Ok(verdict.map_or(MatchReturned::Ends, MatchReturned::Verdict))
            }
            MatchCall::Presences { joined, presences: who } => {
                let name = if joined { "matchJoin" } else { "matchLeave" };
                self.goes_on(host, |ctx| {
                    Ok(vm::entry(ctx, name)?.call((int(ctx, tick), presences(ctx, who)?))?)
                })
            }
            MatchCall::Loop(received) => self.goes_on(host, |ctx| {
                let arguments = (int(ctx, tick), messages(ctx, received)?);
                Ok(vm::entry(ctx, "matchLoop")?.call(arguments)?)
            }),
            MatchCall::Signal(data) => {
                let answer: Option<String> = self.run(host, |ctx| {
                    let arguments = (int(ctx, tick), convert::text(ctx, data)?);
                    Ok(vm::entry(ctx, "matchSignal")?.call(arguments)?)
                })?;
                let signal = |answer| MatchReturned::Signal(Bytes::from(answer));
                Ok(answer.map_or(MatchReturned::Ends, signal))
            }
            MatchCall::Terminate { grace_s } => self.goes_on(host, |ctx| {
                Ok(vm::entry(ctx, "matchTerminate")?.call((int(ctx, tick), grace_s))?)
            }),
        }
    }

    fn init(&self, host: &mut dyn Host, params: &Value) -> Result<MatchInit, ScriptError> {
        self.run(host, |ctx| {
            let params = convert::to_js(ctx, params, Names::Kept)?;
            let init: Array<'_> = vm::entry(ctx, "matchInit")?.call((params,))?;
            Ok(MatchInit { tick_rate_hz: init.get(0)?, label: init.get(1)? })
        })
    }

    fn attempt(
        &self,
        host: &mut dyn Host,
        tick: i64,
        request: &JoinRequest,
    ) -> Result<Option<JoinVerdict>, ScriptError> {
        self.run(host, |ctx| {
            let vars = (!request.vars.is_empty()).then(|| texts(ctx, &request.vars)).transpose()?;
            let metadata = texts(ctx, &request.metadata)?;
            let arguments = (int(ctx, tick), asker(ctx, request)?, vars.into_js(ctx)?, metadata);
            let verdict: Option<Array<'_>> = vm::entry(ctx, "matchJoinAttempt")?.call(arguments)?;
            let Some(verdict) = verdict else { return Ok(None) };
            Ok(Some(JoinVerdict { allow: verdict.get(0)?, reason: verdict.get(1)? }))
        })
    }

    fn goes_on(
        &self,
        host: &mut dyn Host,
        job: impl for<'js> FnOnce(&Ctx<'js>) -> Result<bool, Fault>,
    ) -> Result<MatchReturned, ScriptError> {
        let goes_on = self.run(host, job)?;
        Ok(if goes_on { MatchReturned::GoesOn } else { MatchReturned::Ends })
    }
}

impl MatchScript for JsMatch {
    fn call(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned> {
        Step::Done(self.begin(host, context, tick, call))
    }

    fn resume(
        &mut self,
        _host: &mut dyn Host,
        _context: &MatchContext,
        _answer: Answer,
    ) -> Step<MatchReturned> {
        unreachable!("no callback waits: those in JavaScript never do")
    }

    fn memory_bytes(&self) -> usize {
        self.vm.memory_bytes()
    }
}
