//! One thread's instances of the bundle: loads it, and runs RPCs, hooks and events. Each call has a VM for itself
//! while it runs or waits; those that have nothing to do are kept for calls to come. Matches are made here and
//! live in `matches`.

use std::collections::BTreeMap;
use std::sync::Arc;

use game::api::Style;
use game::guest::{
    Answer, CallContext, CallId, Callee, Finding, GuestCall, HookForm, Host, MatchContext,
    MatchScript, Registered, Returned, ScriptError, ScriptFailure, Scripts, Step,
};
use game::host::json;
use game::pairs::Pairs;
use game::rules::{WRONG_RESULT, ZoneRule};
use game::value::Value;
use rquickjs::{Array, Ctx, IntoJs as _, Object, Value as JsValue};
use script::budget::{CallMeter, GuestLimits, Limits, SharedMemory};
use uuid::Uuid;

use crate::convert::{self, ConvertError, Names};
use crate::failure::{self, Thrown};
use crate::matches::JsMatch;
use crate::pieces::{self, Piece, Waiting};
use crate::sources::{Bundle, LoadError};
use crate::vm::{self, Fault, Purpose, Vm};

const WRONG_RPC_RESULT: &str = "Runtime function returned invalid data - only allowed one return \
                                value of type string.";

/// VMs that are kept for calls to come: to make one takes most of a millisecond, and as long as the bundle runs.
const IDLE_MAX: usize = 16;

/// What a new VM needs, about.
const START_BYTES: usize = 512 * 1024;

/// Calls that wait may hold this part of a thread's memory; the rest is for calls that run.
const WAITING_PART: usize = 2;

/// The JavaScript guest code of one thread.
pub struct JsScripts {
    bundle: Arc<Bundle>,
    limits: GuestLimits,
    registered: Registered,
    /// Names of matches.
    matches: Vec<String>,
    /// VMs in which nothing runs. If there is none, a call makes one.
    idle: Vec<Vm>,
    /// Calls that wait, each with a VM of its own, under these limits.
    waiting: BTreeMap<CallId, (Limits, Waiting<Returned>)>,
}

impl std::fmt::Debug for JsScripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsScripts").field("bundle", &self.bundle.file()).finish_non_exhaustive()
    }
}

/// What is called, with its arguments, and how to read what it returns. It owns them: the call may outlive the
/// piece that it begins with.
struct Call {
    kind: &'static str,
    id: String,
    arguments: [Argument; 2],
    read: for<'js> fn(&Ctx<'js>, JsValue<'js>) -> Result<Returned, Fault>,
}

enum Argument {
    Missing,
    Text(Vec<u8>),
    Value(Value),
    /// With names in camelCase.
    Spelled(Value),
}

impl JsScripts {
    /// Runs the bundle in a VM for this thread.
    ///
    /// # Errors
    /// [`LoadError::Run`] when it fails, [`LoadError::Vm`].
    pub fn load(
        bundle: Arc<Bundle>,
        limits: GuestLimits,
        host: &mut dyn Host,
    ) -> Result<Self, LoadError> {
        let mut idle = Vec::new();
        let (mut registered, mut matches) = (Registered::default(), Vec::new());
        if let Some(file) = bundle.file() {
            let load = limits.start();
            let made = Vm::new(&bundle, host, (&load, &limits.memory), Purpose::Calls);
            idle.push(made.map_err(|(thrown, late)| {
                let (location, message) = thrown.at_start(&load, late);
                let location = if location.is_empty() { file.to_owned() } else { location };
                LoadError::Run { location, message }
            })?);
            (registered, matches) = self::registered(&bundle);
        }
        Ok(Self { bundle, limits, registered, matches, idle, waiting: BTreeMap::new() })
    }

    /// A VM for a call, with the limits that it has: calls that wait share the memory of their thread.
    fn vm(&mut self, host: &mut dyn Host) -> Result<(Vm, Limits), ScriptError> {
        let mut limits = self.limits.call();
        let waiting_bytes = self.waiting_bytes();
        let left_bytes = limits.memory_bytes.saturating_sub(waiting_bytes);
        if left_bytes < START_BYTES {
            return Err(self.used_up(waiting_bytes));
        }
        let vm = match self.idle.pop() {
            Some(vm) => vm,
            None => {
                let load = self.limits.start();
                Vm::new(&self.bundle, host, (&load, &self.limits.memory), Purpose::Calls)
                    .map_err(|(thrown, late)| thrown.error(&load, late))?
            }
        };
        let mut idle_bytes = self.idle.iter().map(Vm::memory_bytes).sum::<usize>();
        if idle_bytes > left_bytes / 2 {
            self.idle.clear();
            idle_bytes = 0;
        }
        limits.memory_bytes = vm.limit_to(left_bytes.saturating_sub(idle_bytes));
        let max_bytes = self.limits.memory_max_bytes;
        limits.shared = (waiting_bytes > 0 && limits.memory_bytes < max_bytes)
            .then_some(SharedMemory { max_bytes, waiting_bytes });
        Ok((vm, limits))
    }

    fn waiting_bytes(&self) -> usize {
        self.waiting.values().map(|(_, waiting)| waiting.bytes()).sum()
    }

    /// No call may begin, or wait, where those that wait already hold so much: more than they are left with
    /// ([`Scripts::excess_bytes`]) only while those that are answered wait for their turn.
    fn used_up(&self, waiting_bytes: usize) -> ScriptError {
        failure::refused(format!(
            "the scripts' memory is used up by {} calls that wait: {waiting_bytes} of {} bytes \
             (runtime.memory_max_bytes)",
            self.waiting.len(),
            self.limits.memory_max_bytes,
        ))
    }

    /// Calls a registered function. A VM is made if need be.
    fn run(
        &mut self,
        host: &mut dyn Host,
        (id, context): (CallId, &CallContext),
        call: Call,
    ) -> Step<Returned> {
        let (vm, limits) = match self.vm(host) {
            Ok(ready) => ready,
            Err(error) => return Step::Done(Err(error)),
        };
        let context = context.clone();
        let piece = pieces::begin(vm, host, &limits, move |ctx| call.run(ctx, &context));
        self.piece((id, limits), piece)
    }

    /// Keeps what a piece of a call has left behind. A VM is cleared up after a call that ran into a limit.
    fn piece(&mut self, (id, limits): (CallId, Limits), piece: Piece<Returned>) -> Step<Returned> {
        let (vm, result) = match piece {
            Piece::Waits(waiting, ask) => {
                // A call that goes on has the limit of its beginning, whatever others hold by then.
                let waiting_bytes = self.waiting_bytes() + waiting.bytes();
                if waiting_bytes > self.limits.memory_max_bytes {
                    return Step::Done(Err(self.used_up(waiting_bytes)));
                }
                let other = self.waiting.insert(id, (limits, waiting));
                assert!(other.is_none(), "{id:?} waits twice");
                return Step::Waits(ask);
            }
            Piece::Ended(vm, result) => (vm, result),
        };
        vm.own_limit();
        let result = result.map_err(|(thrown, late)| thrown.error(&limits, late));
        let is_whole = match &result {
            Err(error) if error.kind != ScriptFailure::Raised => vm.recover(),
            _ => true,
        };
        if !is_whole {
            self.limits.memory.note_rebuilt();
        } else if self.idle.len() < IDLE_MAX {
            vm.count();
            self.idle.push(vm);
        }
        Step::Done(result)
    }
}

impl Call {
    fn run(&self, ctx: &Ctx<'_>, context: &CallContext) -> Result<Returned, Fault> {
        let function = vm::entry(ctx, "call")?;
        let (user, more) = (user(ctx, context)?, more(ctx, context)?);
        let [first, second] = &self.arguments;
        let (first, second) = (first.to_js(ctx)?, second.to_js(ctx)?);
        let mode = context.execution_mode;
        let returned: JsValue<'_> =
            function.call((self.kind, &*self.id, mode, user, more, first, second))?;
        (self.read)(ctx, vm::settled(ctx, returned)?)
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
    let mut registered = Registered {
        rpc: ids("rpc"),
        blocking: Vec::new(),
        before: ids("before"),
        after: ids("after"),
        events: ids("event"),
        modules: bundle.file().map(str::to_owned).into_iter().collect(),
        locations: locations.collect(),
        findings: replaced.collect(),
    };
    registered.block_all();
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

impl Argument {
    fn to_js<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<JsValue<'js>> {
        match self {
            Self::Missing => Ok(JsValue::new_undefined(ctx.clone())),
            Self::Text(text) => convert::text(ctx, text),
            Self::Value(value) => convert::to_js(ctx, value, Names::Kept),
            Self::Spelled(value) => convert::to_js(ctx, value, Names::Spelled),
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

fn read_rpc(_: &Ctx<'_>, returned: JsValue<'_>) -> Result<Returned, Fault> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(Returned::Rpc(None));
    }
    match returned.as_string() {
        Some(text) => Ok(Returned::Rpc(Some(text.to_string()?.into()))),
        None => Err(Thrown::says(WRONG_RPC_RESULT).into()),
    }
}

fn read_before(_: &Ctx<'_>, returned: JsValue<'_>) -> Result<Returned, Fault> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(Returned::Before(None));
    }
    value_of(&returned, Names::Kept).map(|request| Returned::Before(Some(request)))
}

fn read_rule(_: &Ctx<'_>, returned: JsValue<'_>) -> Result<Returned, Fault> {
    if returned.is_null() || returned.is_undefined() {
        return Ok(Returned::Rule(None));
    }
    match value_of(&returned, Names::Spelled)? {
        zone @ Value::Map(_) => Ok(Returned::Rule(Some(zone))),
        _ => Err(Thrown::says(WRONG_RESULT).into()),
    }
}

fn value_of(returned: &JsValue<'_>, names: Names) -> Result<Value, Fault> {
    let converted = convert::from_js(returned, names, &CallMeter::default());
    converted.map_err(|error| match error {
        ConvertError::Thrown(error) => Fault::Js(error),
        other => Thrown::says(other.to_string()).into(),
    })
}

fn read_nothing(_: &Ctx<'_>, _: JsValue<'_>) -> Result<Returned, Fault> {
    Ok(Returned::Nothing)
}

impl JsScripts {
    /// The registered function of a call, with its arguments; `None` of an event that nobody handles.
    fn find(&self, call: GuestCall<'_>) -> Result<Option<Call>, ScriptError> {
        use Argument::{Missing, Spelled, Text, Value};
        let Registered { rpc, before, after, events, .. } = &self.registered;
        let missing = |what: String| failure::not_found(what);
        Ok(Some(match call {
            GuestCall::Rpc { id, payload } => {
                let found = find(rpc, id);
                let id = found.ok_or_else(|| missing("RPC function not found".to_owned()))?;
                let arguments = [Text(payload.to_vec()), Missing];
                Call { kind: "rpc", id, arguments, read: read_rpc }
            }
            GuestCall::Before { id, request } => {
                let found = find(before, id);
                let id = found.ok_or_else(|| missing(format!("no before-hook for {id}")))?;
                let arguments = [Value(request), Missing];
                Call { kind: "before", id, arguments, read: read_before }
            }
            GuestCall::After { id, answer, request } => {
                let found = find(after, id);
                let id = found.ok_or_else(|| missing(format!("no after-hook for {id}")))?;
                let arguments = [Value(answer), Value(request)];
                Call { kind: "after", id, arguments, read: read_nothing }
            }
            GuestCall::Event { name, argument } => {
                if !events.iter().any(|known| known == name) {
                    return Ok(None);
                }
                let id = name.to_owned();
                if ZoneRule::named(name).is_some() {
                    let arguments = [Spelled(argument), Missing];
                    return Ok(Some(Call { kind: "event", id, arguments, read: read_rule }));
                }
                let arguments = [Value(argument), Missing];
                Call { kind: "event", id, arguments, read: read_nothing }
            }
        }))
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

    fn hook_form(&self, _hook: Callee<'_>) -> HookForm {
        HookForm { style: Style::FULL, ..HookForm::default() }
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        // The engine asks for the time too rarely for a slice: a call can be put aside or stopped, but not
        // within one.
        if let Err(refusal) = host.keeps_thread() {
            return Step::Done(Err(failure::elsewhere(refusal.message)));
        }
        match self.find(call) {
            Ok(Some(call)) => self.run(host, (id, context), call),
            Ok(None) => Step::Done(Ok(Returned::Nothing)),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        let Some((limits, waiting)) = self.waiting.remove(&id) else {
            panic!("{id:?} does not wait");
        };
        let piece = pieces::resume(waiting, host, answer);
        self.piece((id, limits), piece)
    }

    fn cancel(&mut self, id: CallId) {
        self.waiting.remove(&id);
    }

    fn excess_bytes(&mut self) -> usize {
        self.waiting_bytes().saturating_sub(self.limits.memory_max_bytes / WAITING_PART)
    }

    fn weight_bytes(&self, id: CallId) -> usize {
        self.waiting.get(&id).map_or(0, |(_, waiting)| waiting.bytes())
    }

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
