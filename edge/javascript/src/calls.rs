//! One thread's instance of the bundle: loads it, and runs RPCs and hooks. Matches are made here and live
//! in `matches`.

use std::sync::Arc;

use bytes::Bytes;
use game::api::Style;
use game::guest::{
    Answer, CallContext, CallId, Finding, GuestCall, Host, MatchContext, MatchScript, Registered,
    Returned, ScriptError, ScriptFailure, Scripts, Step,
};
use game::host::json;
use game::pairs::Pairs;
use game::value::Value;
use rquickjs::{Array, Ctx, IntoJs as _, Object, Value as JsValue};
use script::budget::{CallMeter, Limits};
use uuid::Uuid;

use crate::JsLimits;
use crate::convert::{self, ConvertError, Names};
use crate::failure::{self, Thrown};
use crate::matches::JsMatch;
use crate::sources::{Bundle, LoadError};
use crate::vm::{self, Fault, Purpose, Vm};

const WRONG_RPC_RESULT: &str = "Runtime function returned invalid data - only allowed one return \
                                value of type string.";

/// The JavaScript guest code of one thread.
pub struct JsScripts {
    bundle: Arc<Bundle>,
    limits: JsLimits,
    registered: Registered,
    /// Names of matches.
    matches: Vec<String>,
    /// `None` if there is no bundle, and after a script left the VM without memory: the next call makes
    /// a new one.
    calls: Option<Vm>,
}

impl std::fmt::Debug for JsScripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsScripts").field("bundle", &self.bundle.file()).finish_non_exhaustive()
    }
}

/// What is called, with its arguments.
struct Call<'a> {
    kind: &'static str,
    id: &'a str,
    arguments: [Argument<'a>; 2],
}

enum Argument<'a> {
    Missing,
    Text(&'a [u8]),
    Value(&'a Value),
}

impl JsScripts {
    /// Runs the bundle in a VM for this thread.
    ///
    /// # Errors
    /// [`LoadError::Run`] when it fails, [`LoadError::Vm`].
    pub fn load(
        bundle: Arc<Bundle>,
        limits: JsLimits,
        host: &mut dyn Host,
    ) -> Result<Self, LoadError> {
        let Some(file) = bundle.file() else {
            let registered = Registered::default();
            return Ok(Self { bundle, limits, registered, matches: Vec::new(), calls: None });
        };
        let load = load_limits(&limits);
        let made = Vm::new(&bundle, host, (&load, &limits.memory), Purpose::Calls);
        let calls = made.map_err(|(thrown, late)| {
            let (location, message) = thrown.at_start(&load, late);
            let location = if location.is_empty() { file.to_owned() } else { location };
            LoadError::Run { location, message }
        })?;
        let (registered, matches) = registered(&bundle);
        Ok(Self { bundle, limits, registered, matches, calls: Some(calls) })
    }

    fn call_limits(&self) -> Limits {
        Limits {
            budget_ms: self.limits.call_budget_ms,
            budget_setting: "runtime.call_budget_ms",
            memory_bytes: self.limits.memory_max_bytes,
            memory_setting: "runtime.memory_max_bytes",
            is_match: false,
        }
    }

    /// Calls a registered function, and reads what it returned. The VM is made anew if need be, and
    /// cleared up after a call that ran into a limit.
    fn run<R>(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        call: &Call<'_>,
        read: impl for<'js> FnOnce(&Ctx<'js>, JsValue<'js>) -> Result<R, Fault>,
    ) -> Result<R, ScriptError> {
        let limits = self.call_limits();
        let vm = match self.calls.take() {
            Some(vm) => vm,
            None => {
                let load = load_limits(&self.limits);
                Vm::new(&self.bundle, host, (&load, &self.limits.memory), Purpose::Calls)
                    .map_err(|(thrown, late)| thrown.error(&load, late))?
            }
        };
        let result = vm.run(host, &limits, |ctx| {
            let function = vm::entry(ctx, "call")?;
            let (user, more) = (user(ctx, context)?, more(ctx, context)?);
            let [first, second] = &call.arguments;
            let (first, second) = (first.to_js(ctx)?, second.to_js(ctx)?);
            let mode = context.execution_mode;
            let returned: JsValue<'_> =
                function.call((call.kind, call.id, mode, user, more, first, second))?;
            read(ctx, vm::settled(ctx, returned)?)
        });
        let error = match result {
            Ok(returned) => {
                self.calls = Some(vm);
                return Ok(returned);
            }
            Err((thrown, is_out_of_time)) => thrown.error(&limits, is_out_of_time),
        };
        if error.kind == ScriptFailure::Raised || vm.recover() {
            self.calls = Some(vm);
        } else {
            self.limits.memory.note_rebuilt();
        }
        Err(error)
    }
}

fn load_limits(limits: &JsLimits) -> Limits {
    Limits {
        budget_ms: limits.load_budget_ms,
        budget_setting: "runtime.load_budget_ms",
        memory_bytes: limits.memory_max_bytes,
        memory_setting: "runtime.memory_max_bytes",
        is_match: false,
    }
}

/// What the first VM has registered, and the names of matches.
fn registered(bundle: &Bundle) -> (Registered, Vec<String>) {
    let plan = bundle.plan.get().map_or("{}", String::as_str);
    let plan = json::decode(plan.as_bytes()).unwrap_or_default();
    let ids = |kind: &str| match plan.member(kind) {
        Some(Value::Map(members)) => {
            let mut ids: Vec<String> =
                members.iter().map(|(id, _)| String::from_utf8_lossy(id).into_owned()).collect();
            ids.sort_unstable();
            ids
        }
        _ => Vec::new(),
    };
    let texts = |name: &str| -> Vec<Vec<String>> {
        let Some(Value::List(rows)) = plan.member(name) else { return Vec::new() };
        let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
        let row = |row: &Value| match row {
            Value::List(cells) => cells.iter().map(text).collect(),
            _ => Vec::new(),
        };
        rows.iter().map(row).collect()
    };
    let locations = texts("locations").into_iter().filter_map(|row| match row.as_slice() {
        [name, place] if !place.is_empty() => Some((name.clone(), place.clone())),
        _ => None,
    });
    let replaced = texts("again").into_iter().filter_map(|row| match row.as_slice() {
        [kind, id, before, now] => Some(replaced(kind, id, before, now)),
        _ => None,
    });
    let registered = Registered {
        rpc: ids("rpc"),
        rpc_blocking: ids("rpc"),
        before: ids("before"),
        after: ids("after"),
        events: ids("event"),
        modules: bundle.file().map(str::to_owned).into_iter().collect(),
        locations: locations.collect(),
        findings: replaced.collect(),
    };
    (registered, ids("matches"))
}

/// A line for a function that was registered and then replaced, as in Nakama without an error.
fn replaced(kind: &str, id: &str, before: &str, now: &str) -> Finding {
    let what = match kind {
        "rpc" => format!("the RPC {id}"),
        "event" => id.to_owned(),
        kind => format!("the {kind}-hook of {id}"),
    };
    let text =
        format!("{now}: {what} is registered again (case does not count): {before} never runs");
    Finding { is_certain: false, text }
}

impl Argument<'_> {
    fn to_js<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<JsValue<'js>> {
        match self {
            Self::Missing => Ok(JsValue::new_undefined(ctx.clone())),
            Self::Text(text) => convert::text(ctx, text),
            Self::Value(value) => convert::to_js(ctx, value, Names::Kept),
        }
    }
}

/// Who calls: user id, name, expiry, session id, language, address and port; undefined for nobody.
fn user<'js>(ctx: &Ctx<'js>, context: &CallContext) -> rquickjs::Result<JsValue<'js>> {
    let user = Array::new(ctx.clone())?;
    if context.user_id.is_none() && context.client_ip.is_none() {
        return Ok(JsValue::new_undefined(ctx.clone()));
    }
    let text = |text: Option<&String>| text.map(String::as_str).into_js(ctx);
    user.set(0, id(ctx, context.user_id)?)?;
    user.set(1, text(context.username.as_ref())?)?;
    let expiry = context.user_session_exp.and_then(|expiry| i64::try_from(expiry).ok());
    user.set(2, expiry.map(|expiry| convert::int(ctx, expiry)))?;
    user.set(3, id(ctx, context.session_id)?)?;
    user.set(4, text(context.lang.as_ref())?)?;
    user.set(5, text(context.client_ip.as_ref())?)?;
    user.set(6, text(context.client_port.as_ref())?)?;
    Ok(user.into_value())
}

/// An id as text; undefined for none.
pub(crate) fn id<'js>(ctx: &Ctx<'js>, id: Option<Uuid>) -> rquickjs::Result<JsValue<'js>> {
    let mut buffer = Uuid::encode_buffer();
    id.map(|id| &*id.hyphenated().encode_lower(&mut buffer)).into_js(ctx)
}

/// Session variables, headers and query parameters; undefined if there are none.
fn more<'js>(ctx: &Ctx<'js>, context: &CallContext) -> rquickjs::Result<JsValue<'js>> {
    let CallContext { vars, headers, query_params, .. } = context;
    if vars.is_empty() && headers.is_empty() && query_params.is_empty() {
        return Ok(JsValue::new_undefined(ctx.clone()));
    }
    let more = Array::new(ctx.clone())?;
    more.set(0, texts(ctx, vars)?)?;
    more.set(1, lists(ctx, headers)?)?;
    more.set(2, lists(ctx, query_params)?)?;
    Ok(more.into_value())
}

/// Texts by name.
pub(crate) fn texts<'js>(
    ctx: &Ctx<'js>,
    pairs: &[(String, String)],
) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, value) in pairs {
        convert::set(&object, name, value.as_str().into_js(ctx)?)?;
    }
    Ok(object)
}

/// Lists of texts by name.
fn lists<'js>(ctx: &Ctx<'js>, pairs: &Pairs) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, value) in pairs.iter() {
        let name = String::from_utf8_lossy(name);
        let value = convert::text(ctx, value)?;
        let known: JsValue<'js> = object.get(&*name)?;
        match known.as_array() {
            Some(list) => list.set(list.len(), value)?,
            None => {
                let list = Array::new(ctx.clone())?;
                list.set(0, value)?;
                convert::set(&object, &name, list.into_value())?;
            }
        }
    }
    Ok(object)
}

fn read_rpc(_: &Ctx<'_>, returned: JsValue<'_>) -> Result<Option<Bytes>, Fault> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(None);
    }
    match returned.as_string() {
        Some(text) => Ok(Some(text.to_string()?.into())),
        None => Err(Thrown::says(WRONG_RPC_RESULT).into()),
    }
}

fn read_before(_: &Ctx<'_>, returned: JsValue<'_>) -> Result<Option<Value>, Fault> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(None);
    }
    let converted = convert::from_js(&returned, Names::Kept, &CallMeter::default());
    converted.map(Some).map_err(|error| match error {
        ConvertError::Thrown(error) => Fault::Js(error),
        other => Thrown::says(other.to_string()).into(),
    })
}

impl JsScripts {
    /// Runs a call to its end.
    fn begin(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Result<Returned, ScriptError> {
        use Argument::Missing;
        let Registered { rpc, before, after, events, .. } = &self.registered;
        let missing = |what: String| failure::not_found(what);
        match call {
            GuestCall::Rpc { id, payload } => {
                let found = find(rpc, id);
                let id = found.ok_or_else(|| missing("RPC function not found".to_owned()))?;
                let call =
                    Call { kind: "rpc", id: &id, arguments: [Argument::Text(payload), Missing] };
                self.run(host, context, &call, read_rpc).map(Returned::Rpc)
            }
            GuestCall::Before { id, request } => {
                let found = find(before, id);
                let id = found.ok_or_else(|| missing(format!("no before-hook for {id}")))?;
                let arguments = [Argument::Value(&request), Missing];
                let call = Call { kind: "before", id: &id, arguments };
                self.run(host, context, &call, read_before).map(Returned::Before)
            }
            GuestCall::After { id, answer, request } => {
                let found = find(after, id);
                let id = found.ok_or_else(|| missing(format!("no after-hook for {id}")))?;
                let arguments = [Argument::Value(&answer), Argument::Value(&request)];
                let call = Call { kind: "after", id: &id, arguments };
                self.run(host, context, &call, |_, _| Ok(Returned::Nothing))
            }
            GuestCall::Event { name, argument } => {
                if !events.iter().any(|known| known == name) {
                    return Ok(Returned::Nothing);
                }
                let arguments = [Argument::Value(&argument), Missing];
                let call = Call { kind: "event", id: name, arguments };
                self.run(host, context, &call, |_, _| Ok(Returned::Nothing))
            }
        }
    }
}

/// The registered id, whatever its case.
fn find(ids: &[String], id: &str) -> Option<String> {
    let lower = id.to_lowercase();
    ids.binary_search(&lower).is_ok().then_some(lower)
}

impl Scripts for JsScripts {
    fn registered(&self) -> &Registered {
        &self.registered
    }

    fn form_style(&self, _hook: &str) -> Style {
        Style::FULL
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        _id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        Step::Done(match host.keeps_thread() {
            Ok(()) => self.begin(host, context, call),
            Err(refusal) => Err(failure::elsewhere(refusal.message)),
        })
    }

    fn resume(&mut self, _host: &mut dyn Host, id: CallId, _answer: Answer) -> Step<Returned> {
        unreachable!("{id:?} does not wait: calls in JavaScript never do")
    }

    fn cancel(&mut self, _id: CallId) {}

    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        if !self.matches.iter().any(|name| name == module) {
            return Err(failure::not_found("not found".to_owned()));
        }
        let opened = JsMatch::open(&self.bundle, &self.limits, host, context, module)?;
        Ok(Box::new(opened))
    }
}
