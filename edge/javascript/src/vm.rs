//! One JavaScript VM: its limits, the prelude, and the bundle. The VM for calls runs the bundle at start,
//! a match's VM when the match begins.
//!
//! The first VM of a process runs `InitModule` and keeps what it registers as names of global functions.
//! Every other VM finds the functions by these names, as in Nakama; only if something has no global name,
//! `InitModule` is run there as well.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use game::api::{BUILT, NOT_BUILT};
use game::guest::{Host, LogLevel};
use game::host::Meter as _;
use heap::{Code, Heap, Source};
use rquickjs::context::intrinsic;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Exception, Function, IntoJs as _, Object, Runtime, Value as JsValue};
use script::budget::{self, Allowed, CallMeter, HeldMemory, Limits, VmMemory};
use script::lend;

use crate::convert::{self, Names};
use crate::failure::{self, PRELUDE, Thrown};
use crate::sources::Bundle;
use crate::{bind, dispatcher};

/// Bytes of a stack that a script may use. What the host does for it needs the rest of a fiber's, and as much
/// of a thread's, which is larger.
const STACK_BYTES_MAX: usize = fiber::STACK_BYTES / 2;

/// Calls between two looks at how much memory a VM holds: a look collects garbage and visits every object.
const CALLS_PER_LOOK: u32 = 256;

/// A threshold at which garbage is never collected.
const NEVER: usize = usize::MAX;

/// What Nakama's scripts find, and promises. Nothing of the machine: no time but `Date`, no files.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// What a VM is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Calls,
    Match,
}

/// One VM with the prelude loaded.
pub(crate) struct Vm {
    // In this order: a context goes before its runtime.
    context: Context,
    runtime: Runtime,
    purpose: Purpose,
    bundle: Arc<Bundle>,
    memory_max_bytes: usize,
    heap: Heap,
    /// What it held when it was looked at last, which is what it is counted with among all.
    held: HeldMemory,
    /// Garbage is collected after a call that leaves the VM with more than this.
    collect_above_bytes: Cell<usize>,
    calls_to_look: Cell<u32>,
}

impl Vm {
    /// A VM with its own memory limit, with the bundle run in it. `host` is lent to what runs.
    ///
    /// # Errors
    /// What the bundle or `InitModule` threw.
    pub(crate) fn new(
        bundle: &Arc<Bundle>,
        host: &mut dyn Host,
        (limits, all): (&Limits, &Arc<VmMemory>),
        purpose: Purpose,
    ) -> Result<Self, (Thrown, bool)> {
        let heap = Heap::default();
        let made = || {
            let runtime = Runtime::new_with_alloc(heap.allocator())?;
            runtime.set_memory_limit(limits.memory_bytes);
            runtime.set_max_stack_size(STACK_BYTES_MAX);
            runtime.set_gc_threshold(NEVER);
            runtime.set_interrupt_handler(Some(Box::new(|| !budget::may_go_on(u32::MAX))));
            let context = Context::custom::<Intrinsics>(&runtime)?;
            Ok((runtime, context))
        };
        let (runtime, context) =
            made().map_err(|error: rquickjs::Error| (Thrown::says(error.to_string()), false))?;
        let vm = Self {
            context,
            runtime,
            purpose,
            bundle: Arc::clone(bundle),
            memory_max_bytes: limits.memory_bytes,
            heap,
            held: HeldMemory::new(all, purpose == Purpose::Match),
            collect_above_bytes: Cell::new(NEVER),
            calls_to_look: Cell::new(CALLS_PER_LOOK),
        };
        vm.run(host, limits, |ctx| vm.start(ctx))?;
        vm.look();
        Ok(vm)
    }

    /// Runs `job` under a budget, on the thread's own stack: it cannot wait. What it leaves to be done by
    /// promises is done before it returns.
    ///
    /// # Errors
    /// What was thrown, and whether its time was used up.
    pub(crate) fn run<R>(
        &self,
        host: &mut dyn Host,
        limits: &Limits,
        job: impl for<'js> FnOnce(&Ctx<'js>) -> Result<R, Fault>,
    ) -> Result<R, (Thrown, bool)> {
        let running = budget::begin(self.allowed(limits));
        let result = lend::lend(host, || self.enter(job));
        let is_out_of_time = running.end().is_some();
        self.settle(result, is_out_of_time)
    }

    /// What a call may use that begins now.
    pub(crate) fn allowed(&self, limits: &Limits) -> Allowed {
        let mut allowed = limits.allowed();
        allowed.memory_bytes = allowed.memory_bytes.saturating_sub(self.held.bytes());
        allowed
    }

    /// Runs `job` and what it leaves to be done by promises, on the stack where this is called: the engine
    /// takes its top for that of its own.
    pub(crate) fn enter<R>(
        &self,
        job: impl for<'js> FnOnce(&Ctx<'js>) -> Result<R, Fault>,
    ) -> Result<R, Thrown> {
        self.context.with(|ctx| {
            let result = job(&ctx);
            let result = result.map_err(|fault| match fault {
                Fault::Js(error) => failure::caught(&ctx, &error),
                Fault::Thrown(thrown) => thrown,
            });
            // An interrupt ends one job, and there may be thousands.
            while budget::may_go_on(u32::MAX) && ctx.execute_pending_job() {}
            result
        })
    }

    /// Clears up after a call, whose error comes with whether its time was used up.
    pub(crate) fn settle<R>(
        &self,
        result: Result<R, Thrown>,
        is_out_of_time: bool,
    ) -> Result<R, (Thrown, bool)> {
        self.collect();
        let calls_left = self.calls_to_look.get().saturating_sub(1);
        self.calls_to_look.set(calls_left);
        if calls_left == 0 {
            self.look();
        }
        match result {
            Ok(returned) if !is_out_of_time => Ok(returned),
            Ok(_) => Err((Thrown::default(), true)),
            Err(thrown) => Err((thrown, is_out_of_time)),
        }
    }

    fn start(&self, ctx: &Ctx<'_>) -> Result<(), Fault> {
        let prelude = Part::Prelude.load(ctx)?;
        let (node, version, env) = lend::host(|host| {
            let settings = host.settings();
            (settings.node.clone(), settings.version.clone(), settings.env.clone())
        })
        .unwrap_or_default();
        let pairs = Object::new(ctx.clone())?;
        for (name, value) in env {
            pairs.set(name, value)?;
        }
        let entry: Object<'_> = prelude.call((natives(ctx)?, node, version, pairs))?;
        // All of it before anybody can change what it needs of the language.
        let shared: Object<'_> = entry.get("shared")?;
        let plan = self.bundle.plan.get();
        let by_name = plan.filter(|plan| plan.contains(BY_NAME));
        let purpose = match self.purpose {
            Purpose::Calls => Part::Calls,
            Purpose::Match => Part::Match,
        };
        let register = by_name.is_none().then_some(Part::Register);
        for part in register.into_iter().chain([purpose]) {
            part.load(ctx)?.call::<_, ()>((shared.clone(), entry.clone()))?;
        }
        entry.remove("shared")?;
        // Out of the scripts' reach, and known to every later call.
        let _ = ctx.store_userdata(entry.clone());
        if let Some((file, text)) = &self.bundle.code {
            compiled(&self.bundle.compiled, || Code::compile(ctx, text, file, Source::Kept))?
                .run(ctx)?;
            match by_name {
                Some(plan) => entry.get::<_, Function<'_>>("restore")?.call::<_, ()>((plan,))?,
                None => entry.get::<_, Function<'_>>("init")?.call::<_, ()>(())?,
            }
            if plan.is_none() {
                let made: String = entry.get::<_, Function<'_>>("plan")?.call(())?;
                self.bundle.plan.get_or_init(|| made);
            }
        }
        entry.get::<_, Function<'_>>("loaded")?.call::<_, ()>(())?;
        if self.purpose == Purpose::Calls {
            entry.get::<_, Function<'_>>("seal")?.call::<_, ()>(())?;
        }
        Ok(())
    }

    /// Collects garbage if the call has left much.
    ///
    /// Never while a script runs: when memory runs out, QuickJS makes an error object, whose making may
    /// collect garbage; but an object that was about to grow is not in the collector's list at that moment,
    /// and the process dies (quickjs-ng 0.16.2, `resize_properties`). What is no cycle is freed at once anyway.
    fn collect(&self) {
        self.runtime.set_gc_threshold(self.collect_above_bytes.get());
        // The engine looks at the threshold when an object is made, and only then.
        self.context.with(|ctx| {
            if Object::new(ctx.clone()).is_err() {
                let _ = ctx.catch();
            }
        });
        self.runtime.set_gc_threshold(NEVER);
    }

    /// Counts what the VM holds now, for the limit on all VMs together.
    pub(crate) fn look(&self) {
        self.calls_to_look.set(CALLS_PER_LOOK);
        self.runtime.run_gc();
        let now = usize::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0);
        // As the engine does by itself, but so that it is done before the memory is used up.
        let half_of_free = self.memory_max_bytes.saturating_sub(now) / 2;
        self.collect_above_bytes.set(now.saturating_add(half_of_free.min(now / 2)));
        self.held.count(now);
    }

    /// What it held when it was looked at or counted last, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Counts what it holds now, garbage included: of a VM that no call has any more.
    pub(crate) fn count(&self) {
        self.held.count(self.heap.bytes());
    }

    /// What tells what it has taken, also while it is in use.
    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    /// What counts what a call takes in addition among all VMs.
    pub(crate) fn held_in_addition(&self) -> HeldMemory {
        self.held.beside()
    }

    /// Gives the VM no more memory than all VMs together may still have. Returns whether that is less
    /// than its own limit.
    pub(crate) fn limit_memory(&self) -> bool {
        let bytes = self.held.bound_by_others(self.memory_max_bytes);
        if let Some(bytes) = bytes {
            self.runtime.set_memory_limit(bytes);
        }
        bytes.is_some()
    }

    /// Gives the VM no more memory than this, if that is less than its own limit; returns what it may have.
    pub(crate) fn limit_to(&self, bytes: usize) -> usize {
        // To the engine 0 is no limit.
        let bytes = bytes.clamp(1, self.memory_max_bytes);
        self.runtime.set_memory_limit(bytes);
        bytes
    }

    /// Puts the VM's own memory limit back.
    pub(crate) fn own_limit(&self) {
        self.runtime.set_memory_limit(self.memory_max_bytes);
    }

    /// Clears up after a call that ran into a limit. Returns whether the VM can go on: at least half of
    /// its memory is free, and nothing of that call is still to be done.
    pub(crate) fn recover(&self) -> bool {
        self.look();
        self.held.bytes() < self.memory_max_bytes / 2 && !self.runtime.is_job_pending()
    }
}

/// Our own code in JavaScript.
#[derive(Clone, Copy, Debug)]
enum Part {
    Prelude,
    Register,
    Calls,
    Match,
}

impl Part {
    fn text(self) -> &'static str {
        match self {
            Self::Prelude => include_str!("prelude.js"),
            Self::Register => include_str!("register.js"),
            Self::Calls => include_str!("calls.js"),
            Self::Match => include_str!("match.js"),
        }
    }

    /// The part as a function, compiled once in a process: without its text, which nobody may read.
    fn load<'js>(self, ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
        static CODE: [OnceLock<Code>; 4] = [const { OnceLock::new() }; 4];
        let place = &CODE[self as usize];
        let compile = || Code::compile(ctx, self.text(), PRELUDE, Source::Stripped);
        compiled(place, compile)?.run(ctx)?.get()
    }
}

/// What is in `place`, where the first one puts what it makes.
fn compiled(
    place: &OnceLock<Code>,
    make: impl FnOnce() -> rquickjs::Result<Code>,
) -> rquickjs::Result<&Code> {
    match place.get() {
        Some(code) => Ok(code),
        None => make().map(|code| place.get_or_init(|| code)),
    }
}

/// As it stands in a plan all of whose functions have a global name.
const BY_NAME: &str = "\"byName\":true";

/// What ends a job early.
pub(crate) enum Fault {
    /// The engine's: an exception is pending, or a value is not what it must be.
    Js(rquickjs::Error),
    /// One of our own words, or one that was taken already.
    Thrown(Thrown),
}

impl From<rquickjs::Error> for Fault {
    fn from(error: rquickjs::Error) -> Self {
        Self::Js(error)
    }
}

impl From<Thrown> for Fault {
    fn from(thrown: Thrown) -> Self {
        Self::Thrown(thrown)
    }
}

/// An entry point of the prelude.
pub(crate) fn entry<'js>(ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
    match ctx.userdata::<Object<'js>>() {
        Some(entry) => entry.get(name),
        None => Err(rquickjs::Error::Unknown),
    }
}

/// What a function of the script's came to: of an async function, what its promise is settled with.
/// Nothing that scripts call is asynchronous, so that a promise of which nothing comes is an error.
pub(crate) fn settled<'js>(ctx: &Ctx<'js>, value: JsValue<'js>) -> Result<JsValue<'js>, Fault> {
    let Some(promise) = value.as_promise() else { return Ok(value) };
    let is_pending = || promise.state() == PromiseState::Pending;
    while is_pending() && budget::may_go_on(u32::MAX) && ctx.execute_pending_job() {}
    match promise.result::<JsValue<'js>>() {
        Some(result) => Ok(result?),
        None if budget::may_go_on(u32::MAX) => {
            Err(Thrown::says("the promise that was returned is never settled").into())
        }
        None => Err(Thrown::default().into()),
    }
}

/// What the prelude needs from Rust.
fn natives<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("log", Function::new(ctx.clone(), log)?)?;
    native.set("bind", Function::new(ctx.clone(), bind_named)?)?;
    native.set("isHook", Function::new(ctx.clone(), is_hook)?)?;
    native.set("isProxy", Function::new(ctx.clone(), is_proxy)?)?;
    native.set("config", Function::new(ctx.clone(), config)?)?;
    native.set("dispatcher", Function::new(ctx.clone(), dispatcher::make)?)?;
    native.set("look", Function::new(ctx.clone(), look)?)?;
    Ok(native)
}

fn bind_named(ctx: Ctx<'_>, name: String) -> rquickjs::Result<JsValue<'_>> {
    bind::bind(&ctx, &name)
}

/// Looks at the clock, which is not asked for each turn of a loop.
///
/// # Errors
/// The call's time is over.
pub(crate) fn look(ctx: Ctx<'_>) -> rquickjs::Result<()> {
    let looked = CallMeter::default().spend(u32::MAX);
    looked.map_err(|error| Exception::throw_message(&ctx, &error.message))
}

fn is_proxy(value: JsValue<'_>) -> bool {
    value.is_proxy()
}

fn log(level: u8, text: String) {
    let level = match level {
        0 => LogLevel::Debug,
        1 => LogLevel::Info,
        2 => LogLevel::Warn,
        _ => LogLevel::Error,
    };
    lend::host(|host| host.log(level, &text));
}

/// Whether an API call has this name.
fn is_hook(name: String) -> bool {
    let same = |snake: &&str| {
        let mut letters = snake.chars().filter(|letter| *letter != '_');
        name.chars().all(|letter| letters.next().is_some_and(|it| it.eq_ignore_ascii_case(&letter)))
            && letters.next().is_none()
    };
    BUILT.iter().chain(NOT_BUILT).any(same)
}

fn config(ctx: Ctx<'_>) -> rquickjs::Result<JsValue<'_>> {
    let config = lend::host(|host| host.machine().config());
    match config {
        Some(config) => convert::to_js(&ctx, &config, Names::Kept),
        None => ().into_js(&ctx),
    }
}
