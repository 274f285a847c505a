//! One instance of a module: its start, and its calls in pieces, until they end, wait, or have had their slice.
//! While a call waits or is paused its instance is part of it, with the stack that wasmtime has put aside.
//!
//! At the first loop or call behind a tick (`ticker`) a guest asks what is to become of it ([`asked`]), also in the
//! middle of a long copy. Functions of the host, which no tick interrupts, look at the time themselves, and make it ask
//! when they have returned (`imports::spent`).
//!
//! A trap leaves a guest in the middle of something: its instance is thrown away, and so is that of a call
//! that is cancelled. A call that ends with an error of its own leaves its instance whole.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use game::guest::{Answer, Ask, Host, ScriptError, ScriptFailure};
use game::value::Value;
use samepage::Image;
use script::budget::{self, Allowed, CallMeter, Limits};
use script::lend;
use wasmtime::{Engine, Memory, Result, Store, TypedFunc, UpdateDeadline};

use crate::encoding::{self, Writer};
use crate::failure::{self, Circumstances, Stop};
use crate::imports;
use crate::local::Kind;
use crate::mappings::Place;
use crate::memory::{Bound, Held};
use crate::modules::Module;
use crate::wasi::Wasi;

/// The versions of the convention that this host speaks.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;

/// What `throng_call` returns: it has given its result, or an error.
const RETURNED: u32 = 0;

/// What the functions of the host know of the guest that calls them.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) module: Arc<Module>,
    pub(crate) held: Held,
    pub(crate) wasi: Wasi,
    pub(crate) memory: Option<Memory>,
    /// What the guest is to take next.
    pub(crate) pending: Vec<u8>,
    /// What it has given.
    pub(crate) given: Vec<u8>,
    /// What it has registered; `None` once it has started.
    pub(crate) registering: Option<Vec<(Kind, String)>>,
    /// What takes its thread for long is asked of others: for a match, which keeps its room, and for a call
    /// that keeps a core.
    pub(crate) asks_others: bool,
    pub(crate) may_wait: bool,
    #[expect(dead_code, reason = "given back when the instance is dropped")]
    place: Place,
}

/// Why an instance has not shared what it has with others.
#[derive(Debug)]
pub(crate) enum ShareError {
    /// There can be no image now. It goes on without.
    Image(io::Error),
    /// Its memory is lost: it must not run, nor be dropped ([`Image::share`]).
    Lost(io::Error),
}

/// An instance that has started, and that nothing runs in.
pub(crate) struct Instance {
    store: Store<State>,
    call: TypedFunc<u32, u32>,
    slice_us: Option<u32>,
}

type Outcome = (Store<State>, Result<(TypedFunc<u32, u32>, u32)>);

/// A call that runs or waits; whoever drops it throws its instance away.
type Fiber = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A call that waits or is paused, and what is left of its time in nanoseconds.
pub(crate) struct Waiting {
    fiber: Fiber,
    bound: Bound,
    slice_us: Option<u32>,
    left_ns: u64,
}

impl Waiting {
    /// What its instance holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bound.own_bytes()
    }
}

/// How far a call has come.
pub(crate) enum Piece {
    Ended(Left, std::result::Result<Value, ScriptError>),
    Waits(Waiting, Ask),
    /// It has had its slice.
    Paused(Waiting),
}

/// What a call leaves behind.
pub(crate) enum Left {
    /// It can run another one.
    Whole(Instance),
    Broken(Broken),
}

/// An instance that cannot run another call. To free it takes as long as it has memory.
#[expect(dead_code, reason = "to be dropped")]
pub(crate) enum Broken {
    Instance(Store<State>),
    /// With the call that was under way in it.
    Call(Waiting),
}

/// Starts an instance, and lets it register what it has.
///
/// # Errors
/// It has failed, broken the convention, or come to a limit.
pub(crate) fn start(
    module: &Arc<Module>,
    host: &mut dyn Host,
    limits: &Limits,
    (bound, slice_us): (Bound, Option<u32>),
) -> std::result::Result<(Instance, Vec<(Kind, String)>), ScriptError> {
    let place =
        Place::take(bound.is_match).map_err(|refusal| failure::no_room(&module.title, refusal))?;
    let of_start = bound.clone();
    let state = State {
        place,
        module: Arc::clone(module),
        asks_others: bound.is_match || slice_us.is_some(),
        held: Held::new(bound),
        wasi: Wasi::default(),
        memory: None,
        pending: about_server(host),
        given: Vec::new(),
        registering: Some(Vec::new()),
        may_wait: false,
    };
    let mut store = Store::new(module.engine(), state);
    store.limiter(|state| &mut state.held);
    store.epoch_deadline_callback(|_| asked());
    let left_ns = u64::from(limits.budget_ms) * 1_000_000;
    let fiber = Box::pin(begin(store));
    let waiting = Waiting { fiber, bound: of_start, slice_us: None, left_ns };
    // What wasmtime makes for an instance is mostly tables with an entry for each function, of which few are used.
    match allocator::untouched(|| run(module, host, limits, waiting)) {
        Piece::Ended(Left::Whole(mut instance), Ok(_)) => {
            let state = instance.store.data_mut();
            state.may_wait = true;
            let registered = state.registering.take().unwrap_or_default();
            instance.slice_us = slice_us;
            Ok((instance, registered))
        }
        Piece::Ended(_, Err(error)) => Err(error),
        Piece::Ended(Left::Broken(_), Ok(_)) | Piece::Waits(..) | Piece::Paused(_) => {
            unreachable!("a start that is over leaves its instance, and none waits")
        }
    }
}

/// What is to become of a guest that is made to ask.
fn asked() -> Result<UpdateDeadline> {
    if !budget::may_go_on(u32::MAX) {
        Err(wasmtime::Error::new(Stop::OutOfTime))
    } else if budget::is_slice_over() {
        Ok(UpdateDeadline::Yield(1))
    } else {
        Ok(UpdateDeadline::Continue(1))
    }
}

/// Makes every guest ask what is to become of it. Of those of other threads nothing does.
pub(crate) fn make_ask(engine: &Engine) {
    engine.increment_epoch();
}

/// What every module is told when it starts: `["init", "", {env, node, version}]`.
fn about_server(host: &dyn Host) -> Vec<u8> {
    let settings = host.settings();
    let mut writer = Writer::default();
    writer.list(3).text("init").text("").map(3);
    writer.name(b"env").map(settings.env.len());
    for (name, value) in &settings.env {
        writer.name(name.as_bytes()).text(value);
    }
    writer.name(b"node").text(&settings.node).name(b"version").text(&settings.version);
    writer.into_bytes()
}

async fn begin(mut store: Store<State>) -> Outcome {
    let result = enter(&mut store).await;
    (store, result)
}

/// Instantiates the module, asks for its version, and calls it for the first time.
async fn enter(store: &mut Store<State>) -> Result<(TypedFunc<u32, u32>, u32)> {
    store.set_epoch_deadline(1);
    let module = Arc::clone(&store.data().module);
    let instance = module.prepared().instantiate_async(&mut *store).await?;
    let missing = |what: &str| {
        Stop::wrong(format!("exports no {what}: is it built with throng's SDK for its language?"))
    };
    let memory = instance.get_memory(&mut *store, "memory");
    store.data_mut().memory = Some(memory.ok_or_else(|| missing("memory"))?);
    if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut *store, "_initialize") {
        initialize.call_async(&mut *store, ()).await?;
    }
    let version = instance.get_typed_func::<(), u32>(&mut *store, "throng_version");
    let version = version.map_err(|_| missing("function throng_version() -> i32"))?;
    let version = version.call_async(&mut *store, ()).await?;
    if !VERSIONS.contains(&version) {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        return Err(Stop::wrong(format!(
            "speaks version {version} of the convention between guests and server; this server speaks \
             {first} to {last}"
        )));
    }
    let call = instance.get_typed_func::<u32, u32>(&mut *store, "throng_call");
    let call = call.map_err(|_| missing("function throng_call(i32) -> i32"))?;
    let length = u32::try_from(store.data().pending.len()).unwrap_or(u32::MAX);
    let status = call.call_async(&mut *store, length).await?;
    Ok((call, status))
}

async fn serve(mut store: Store<State>, call: TypedFunc<u32, u32>, length: u32) -> Outcome {
    store.set_epoch_deadline(1);
    let status = call.call_async(&mut store, length).await;
    (store, status.map(|status| (call, status)))
}

impl Instance {
    /// What it holds, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.store.data().held.bytes()
    }

    /// Gives the pages back that are the same in all that begin as it has; the first of its module keeps them for them.
    ///
    /// # Errors
    /// [`ShareError`].
    pub(crate) fn share(&mut self) -> std::result::Result<(), ShareError> {
        let state = self.store.data();
        let Some(memory) = state.memory else { unreachable!("what has started has a memory") };
        let module = Arc::clone(&state.module);
        if module.image().get().is_none() {
            let image = Image::of(module.instances(), &self.store, memory);
            // Two threads may begin at once: one of the two images stays.
            image.map_err(ShareError::Image)?.map(|image| module.image().set(image));
        }
        let Some(image) = module.image().get() else { return Ok(()) };
        image.share(&mut self.store, memory).map(|_| ()).map_err(ShareError::Lost)
    }

    /// Runs a call of these bytes.
    pub(crate) fn run(mut self, host: &mut dyn Host, limits: &Limits, call: Vec<u8>) -> Piece {
        let module = Arc::clone(&self.store.data().module);
        let Ok(length) = u32::try_from(call.len()) else {
            let error = failure::raised(&module.title, "the arguments are too large");
            return Piece::Ended(Left::Whole(self), Err(error));
        };
        let state = self.store.data_mut();
        state.pending = call;
        state.given.clear();
        state.held.refused = None;
        state.wasi.take_last_words();
        let left_ns = host.slice_us().map_or_else(
            || u64::from(limits.budget_ms) * 1_000_000,
            |slice_us| u64::from(slice_us) * 1_000,
        );
        let (bound, slice_us) = (state.held.bound().clone(), self.slice_us);
        let fiber = Box::pin(serve(self.store, self.call, length));
        self::run(&module, host, limits, Waiting { fiber, bound, slice_us, left_ns })
    }
}

/// Goes on with a call whose answer has come, or, without one, with one that is paused.
pub(crate) fn go_on(
    module: &Module,
    host: &mut dyn Host,
    limits: &Limits,
    (waiting, answer): (Waiting, Option<Answer>),
) -> Piece {
    if let Some(answer) = answer {
        imports::put_answer(answer);
    }
    run(module, host, limits, waiting)
}

/// Runs a piece of a call.
fn run(module: &Module, host: &mut dyn Host, limits: &Limits, waiting: Waiting) -> Piece {
    let Waiting { mut fiber, bound, slice_us, left_ns } = waiting;
    let allowed = Allowed { memory_bytes: bound.left_bytes(), ..limits.allowed() };
    let running = budget::go_on(allowed, left_ns);
    if let Some(slice_us) = slice_us {
        budget::begin_slice(slice_us);
    }
    let others_wait = slice_us.is_some() || host.slice_us().is_some();
    let ticking = module.ticker().run(others_wait);
    let polled = lend::lend(host, || fiber.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    drop(ticking);
    budget::end_slice();
    let (store, result) = match (polled, imports::take_asked()) {
        (Poll::Ready(outcome), _) => outcome,
        (Poll::Pending, ask) => {
            let left = running.pause();
            let put_aside = |left_ns| Waiting { fiber, bound, slice_us, left_ns };
            return match (left, ask) {
                (Ok(left_ns), Some(ask)) => Piece::Waits(put_aside(left_ns), ask),
                (Ok(left_ns), None) => Piece::Paused(put_aside(left_ns)),
                (Err(_), _) => {
                    let left = Left::Broken(Broken::Call(put_aside(0)));
                    Piece::Ended(left, Err(failure::late_asker(&module.title, limits)))
                }
            };
        }
    };
    let is_late = running.end().is_some();
    ended(module, limits, ((store, result), slice_us), is_late)
}

/// What a call has come to: its result, its own error, or that of its trap.
fn ended(
    module: &Module,
    limits: &Limits,
    ((mut store, result), slice_us): (Outcome, Option<u32>),
    is_late: bool,
) -> Piece {
    let (call, status) = match result {
        Ok(returned) if !is_late => returned,
        result => {
            let state = store.data_mut();
            let refused = state.held.refused;
            let last_words = state.wasi.take_last_words();
            let circumstances = Circumstances { is_late, refused, last_words };
            let error = result.err().unwrap_or_else(|| wasmtime::Error::new(Stop::OutOfTime));
            let error = failure::of_trap(&error, &module.title, limits, &circumstances);
            store.data().held.bound().all.note_rebuilt();
            return Piece::Ended(Left::Broken(Broken::Instance(store)), Err(error));
        }
    };
    let meter = CallMeter::default();
    let given = encoding::decode(&store.data().given, &meter);
    let state = store.data_mut();
    state.given.clear();
    // What one call needed much of is not kept for the next one.
    state.given.shrink_to(KEPT_BYTES_MAX);
    let instance = Instance { store, call, slice_us };
    let result = match given {
        Err(error) => Err(failure::raised(&module.title, format!("throng.give: {error}"))),
        Ok(value) if status == RETURNED => Ok(value),
        Ok(value) => Err(own_error(&module.title, &value)),
    };
    Piece::Ended(Left::Whole(instance), result)
}

/// Memory that is kept from one call to the next.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The error that a guest's function has returned: `[code, text, function]`, of which the last may be missing, or a text.
fn own_error(title: &str, given: &Value) -> ScriptError {
    let (code, text, function) = match given {
        Value::List(parts) => (parts.first().and_then(Value::as_int), parts.get(1), parts.get(2)),
        other => (None, Some(other), None),
    };
    let function = function.and_then(Value::as_str).filter(|function| !function.is_empty());
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| (1..=16).contains(code));
    let message = text.and_then(Value::as_str).unwrap_or("an error without a text").to_owned();
    ScriptError {
        code: code.unwrap_or(failure::INTERNAL),
        message,
        location: function.map_or_else(|| title.to_owned(), |it| format!("{title}: {it}")),
        kind: ScriptFailure::Raised,
    }
}
