//! One running match: a VM of its own with the bundle, and the state that its callbacks hand on. The
//! prelude keeps the state and checks what the callbacks return. While a callback waits, the VM is part of it.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, Host, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage,
    MatchReturned, MatchScript, Presence, PresenceReason, ScriptError, ScriptFailure, Step,
};
use rquickjs::{Array, Ctx, IntoJs as _};
use script::budget::{ALL_MEMORY, GuestLimits, Limits};

use crate::calls::{id, texts};
use crate::convert::{self, Names, int};
use crate::failure::{self, Thrown};
use crate::pieces::{self, Piece, Waiting};
use crate::sources::Bundle;
use crate::vm::{self, Fault, Purpose, Vm};

/// What the smallest match needs, about.
const START_BYTES: usize = 512 * 1024;

/// A match written in JavaScript.
pub(crate) struct JsMatch {
    limits: Limits,
    label: String,
    running: Running,
    /// What the VM held when it was at hand last.
    held_bytes: usize,
}

/// Where the VM is.
enum Running {
    Ready(Vm),
    /// With the callback that waits, under these limits.
    Waits(Limits, Waiting<MatchReturned>),
    /// A callback runs.
    Lent,
}

/// What a callback does in the VM, with what it is told.
type Job = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> Result<MatchReturned, Fault>>;

impl JsMatch {
    /// Runs the bundle in a new VM.
    pub(crate) fn open(
        bundle: &Arc<Bundle>,
        limits: &GuestLimits,
        host: &mut dyn Host,
        context: &MatchContext,
        name: &str,
    ) -> Result<Self, ScriptError> {
        limits.memory.check_start(START_BYTES).map_err(failure::refused)?;
        let all = &limits.memory;
        let limits = limits.callback();
        let failed = |(thrown, late): (Thrown, bool)| thrown.error(&limits, late);
        let vm = Vm::new(bundle, host, (&limits, all), Purpose::Match).map_err(failed)?;
        let opened = vm.run(host, &limits, |ctx| {
            let open = vm::entry(ctx, "matchOpen")?;
            Ok(open.call::<_, ()>((name, context.match_id.as_str()))?)
        });
        opened.map_err(failed)?;
        let held_bytes = vm.memory_bytes();
        Ok(Self { limits, label: String::new(), running: Running::Ready(vm), held_bytes })
    }

    /// Keeps what a piece of a callback has left behind.
    fn piece(&mut self, limits: Limits, piece: Piece<MatchReturned>) -> Step<MatchReturned> {
        let (vm, result) = match piece {
            Piece::Waits(waiting, ask) => {
                self.running = Running::Waits(limits, waiting);
                return Step::Waits(ask);
            }
            Piece::Ended(vm, result) => (vm, result),
        };
        vm.own_limit();
        let result = result.map_err(|(thrown, late)| thrown.error(&limits, late));
        match &result {
            Ok(MatchReturned::Init(init)) => {
                self.label.clone_from(&init.label);
                vm.look();
            }
            Err(error) if error.kind == ScriptFailure::OutOfMemory => {
                vm.recover();
            }
            _ => {}
        }
        self.held_bytes = vm.memory_bytes();
        self.running = Running::Ready(vm);
        Step::Done(result)
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

/// What is to be done for a callback. It owns what it is told: the callback may outlive the piece that it
/// begins with.
fn job(tick: i64, call: MatchCall<'_>) -> Job {
    match call {
        MatchCall::Init { params } => {
            let params = params.clone();
            Box::new(move |ctx| {
                let params = convert::to_js(ctx, &params, Names::Kept)?;
                let init: Array<'_> = vm::entry(ctx, "matchInit")?.call((params,))?;
                let (tick_rate_hz, label) = (init.get(0)?, init.get(1)?);
                Ok(MatchReturned::Init(MatchInit { tick_rate_hz, label }))
            })
        }
        MatchCall::JoinAttempt(request) => {
            let request = request.clone();
            Box::new(move |ctx| attempt(ctx, tick, &request))
        }
        MatchCall::Presences { joined, presences: who } => {
            let name = if joined { "matchJoin" } else { "matchLeave" };
            let who = who.to_vec();
            Box::new(move |ctx| {
                let arguments = (int(ctx, tick), presences(ctx, &who)?);
                Ok(goes_on(vm::entry(ctx, name)?.call(arguments)?))
            })
        }
        MatchCall::Loop(received) => {
            let received = received.to_vec();
            Box::new(move |ctx| {
                let arguments = (int(ctx, tick), messages(ctx, &received)?);
                Ok(goes_on(vm::entry(ctx, "matchLoop")?.call(arguments)?))
            })
        }
        MatchCall::Signal(data) => {
            let data = data.to_vec();
            Box::new(move |ctx| {
                let arguments = (int(ctx, tick), convert::text(ctx, &data)?);
                let answer: Option<String> = vm::entry(ctx, "matchSignal")?.call(arguments)?;
                let signal = |answer| MatchReturned::Signal(Bytes::from(answer));
                Ok(answer.map_or(MatchReturned::Ends, signal))
            })
        }
        MatchCall::Terminate { grace_s } => Box::new(move |ctx| {
            Ok(goes_on(vm::entry(ctx, "matchTerminate")?.call((int(ctx, tick), grace_s))?))
        }),
    }
}

fn attempt(ctx: &Ctx<'_>, tick: i64, request: &JoinRequest) -> Result<MatchReturned, Fault> {
    let vars = (!request.vars.is_empty()).then(|| texts(ctx, &request.vars)).transpose()?;
    let metadata = texts(ctx, &request.metadata)?;
    let arguments = (int(ctx, tick), asker(ctx, request)?, vars.into_js(ctx)?, metadata);
    let verdict: Option<Array<'_>> = vm::entry(ctx, "matchJoinAttempt")?.call(arguments)?;
    let Some(verdict) = verdict else { return Ok(MatchReturned::Ends) };
    let (allow, reason) = (verdict.get(0)?, verdict.get(1)?);
    Ok(MatchReturned::Verdict(JoinVerdict { allow, reason }))
}

fn goes_on(goes_on: bool) -> MatchReturned {
    if goes_on { MatchReturned::GoesOn } else { MatchReturned::Ends }
}

impl MatchScript for JsMatch {
    fn call(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned> {
        let Running::Ready(vm) = std::mem::replace(&mut self.running, Running::Lent) else {
            panic!("a callback of the match waits");
        };
        let is_init = matches!(call, MatchCall::Init { .. });
        let label = (!is_init && self.label != context.label).then(|| context.label.clone());
        if let Some(label) = &label {
            self.label.clone_from(label);
        }
        let mut limits = self.limits;
        if vm.limit_memory() {
            limits.memory_setting = ALL_MEMORY;
        }
        let callback = job(tick, call);
        let piece = pieces::begin(vm, host, &limits, move |ctx| {
            if let Some(label) = label {
                vm::entry(ctx, "matchLabel")?.call::<_, ()>((label,))?;
            }
            callback(ctx)
        });
        self.piece(limits, piece)
    }

    fn resume(
        &mut self,
        host: &mut dyn Host,
        _context: &MatchContext,
        answer: Answer,
    ) -> Step<MatchReturned> {
        let Running::Waits(limits, waiting) = std::mem::replace(&mut self.running, Running::Lent)
        else {
            panic!("no callback of the match waits");
        };
        let piece = pieces::resume(waiting, host, answer);
        self.piece(limits, piece)
    }

    fn memory_bytes(&self) -> usize {
        self.held_bytes
    }
}
