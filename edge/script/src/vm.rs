//! One Lua VM: its libraries, its limits, our prelude, and the functions that the prelude needs
//! from Rust. The VM for calls runs all modules at start; a match's VM only what the match needs.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use game::guest::{Ask, Host, HostError, LogLevel};
use game::host::{Args, HostFunction, Ran, RunResult};
use game::value::Value;
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value as LuaValue};
use smallvec::SmallVec;
use tables::{Arguments, ConvertError, Native};

use crate::budget::{self, HeldMemory, VmMemory, VmMeter};
use crate::failure::PRELUDE;
use crate::library::Extent;
use crate::seal::Seal;
use crate::sources::{Sources, compiler};
use crate::{callee, case, dispatcher, json, lend, library, weights};

/// Memory that the error handler may use beyond the limit, to say where memory ran out.
const SPARE_BYTES: usize = 256 * 1024;

/// A collection begins when memory is this much of what was alive after the last one. Luau has no
/// emergency collection: what is garbage when the limit is hit counts as used.
const GC_GOAL_PERCENT: i32 = 150;

/// The same for a VM for calls that holds little of what it may: of the CPU time of an RPC that
/// only echoes, a noticeable part went into looking at the same living objects again and again.
const GC_GOAL_LAZY_PERCENT: i32 = 400;

/// And for a match, of which there are many: a tick of a small one spent much of its time so.
const GC_GOAL_LAZY_MATCH_PERCENT: i32 = 200;

/// A VM collects lazily below this part of its limit, and closely again above twice that.
/// So a lazy collection begins at a quarter of the limit at the latest.
const LAZY_PART: usize = 32;

/// Work of one collector step. Luau does one step however large the allocation that caused it, so
/// with its default of 1 KB scripts that throw large strings away outrun the collector.
const GC_STEP_KB: i32 = 128;

/// Bytes that a full collection looks at in a nanosecond, about.
const BYTES_PER_STEP: usize = 2;

/// One VM with the prelude loaded.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) lua: Lua,
    /// The prelude's entry points.
    pub(crate) entry: Table,
    seal: Seal,
    purpose: Purpose,
    /// What it is counted with among all.
    held: HeldMemory,
    is_lazy: Cell<bool>,
    memory_max_bytes: usize,
}

/// What the call around this one, if there is one, is told of its VM's collector.
#[derive(Debug)]
#[must_use = "the call around this one has lost its watch"]
pub(crate) struct GcPacing {
    outer_bytes: Option<usize>,
}

/// What a VM is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// On a thread that is there for them.
    Calls,
    /// On a thread that also has sockets.
    CallsOnCore,
    Match,
}

/// Our own Lua code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Seal,
    Library,
    StandIns,
    Late,
    Rare,
    Ordered,
    Prelude,
    Calls,
    Match,
    MatchStart,
    MatchPlayers,
    MatchMessages,
}

impl Part {
    fn text(self) -> &'static str {
        match self {
            Self::Seal => include_str!("seal.lua"),
            Self::Library => include_str!("library.lua"),
            Self::StandIns => include_str!("stand_ins.lua"),
            Self::Late => include_str!("late.lua"),
            Self::Rare => include_str!("rare.lua"),
            Self::Ordered => include_str!("ordered.lua"),
            Self::Prelude => include_str!("prelude.lua"),
            Self::Calls => include_str!("calls.lua"),
            Self::Match => include_str!("match.lua"),
            Self::MatchStart => include_str!("match_start.lua"),
            Self::MatchPlayers => include_str!("match_players.lua"),
            Self::MatchMessages => include_str!("match_messages.lua"),
        }
    }

    /// The part as a function, compiled once in a process: without line numbers, as errors show
    /// scripts' lines only.
    pub(crate) fn load(self, lua: &Lua) -> mlua::Result<Function> {
        static CODE: [OnceLock<Vec<u8>>; 12] = [const { OnceLock::new() }; 12];
        let place = CODE.get(self as usize).ok_or_else(|| mlua::Error::runtime("no such part"))?;
        let code = match place.get() {
            Some(code) => code,
            None => {
                let compiled = compiler().set_debug_level(0).compile(self.text())?;
                place.get_or_init(|| compiled)
            }
        };
        let chunk = lua.load(code.as_slice()).set_mode(ChunkMode::Binary);
        chunk.set_name(format!("={PRELUDE}")).into_function()
    }
}

/// Lets a collection begin as early as a VM near its limit needs it.
pub(crate) fn collect_closely(lua: &Lua) {
    set_goal(lua, GC_GOAL_PERCENT);
}

fn set_goal(lua: &Lua, goal_percent: i32) {
    let pacing = GcIncParams::default().goal(goal_percent).step_size(GC_STEP_KB);
    lua.gc_set_mode(GcMode::Incremental(pacing));
}

impl Vm {
    /// A VM with its own memory limit, ready to load modules.
    ///
    /// Of the libraries it has what `module` and those that it requires need, all of it if `None`.
    pub(crate) fn new(
        sources: &Arc<Sources>,
        host: &mut dyn Host,
        (purpose, module): (Purpose, Option<&str>),
        (memory_max_bytes, all): (usize, &Arc<VmMemory>),
    ) -> mlua::Result<Self> {
        let extent = match module {
            Some(name) if !sources.ordered => Extent::of(sources, name),
            _ => Extent::WHOLE,
        };
        let mut libraries =
            StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS | StdLib::DEBUG;
        if extent.has_seldom {
            libraries |= StdLib::BIT | StdLib::UTF8;
        }
        // For the prelude alone, which takes it away.
        let libraries = libraries | StdLib::COROUTINE;
        // No script can leave Rust's panics uncaught, as we abort on them anyway.
        let options = LuaOptions::new().catch_rust_panics(true);
        // The first handle to a state collects all garbage when it is dropped, a clone does not. Closing the
        // state frees all of it anyway, for a third of the time, and a stop ends thousands of matches at once.
        let first = Lua::new_with(libraries, options)?;
        let lua = first.clone();
        lua.set_memory_limit(memory_max_bytes)?;
        collect_closely(&lua);
        if purpose != Purpose::Match {
            // Its pages are large, too: see luau/small_states.h.
            tables::set_category(&lua, weights::MODULES);
        }
        let seal = Seal::new(&lua, purpose != Purpose::Match)?;
        let native = natives(&lua, sources, memory_max_bytes, purpose)?;
        native.raw_set("loading", seal.load.clone())?;
        describe_host(&lua, &native, host)?;
        // All that Luau takes: of a larger number it makes always the same one.
        let seed = i32::from_le_bytes(host.random().bytes::<4>());
        lua.globals().get::<Table>("math")?.get::<Function>("randomseed")?.call::<()>(seed)?;

        library::open(&lua, &native, extent.is_whole)?;
        let prelude = Part::Prelude.load(&lua)?;
        let entry = prelude.call::<Table>((native, purpose == Purpose::Match))?;
        if sources.ordered {
            library::keep_order(&lua)?;
        }
        // What is garbage by now makes room for what is to stay.
        drop(first);
        lua.set_interrupt(budget::tick);
        let held = HeldMemory::new(all, purpose == Purpose::Match);
        let is_lazy = Cell::new(false);
        let vm = Self { lua, entry, seal, purpose, held, is_lazy, memory_max_bytes };
        vm.count_memory();
        Ok(vm)
    }

    /// Ends the start: what calls do to globals and libraries is theirs alone from now on.
    pub(crate) fn seal(&self) -> mlua::Result<()> {
        let others = self.entry("sealed")?.call::<Table>(())?;
        self.seal.close(&self.lua, &others)
    }

    /// Clears up after a call that is over: what it did to globals is gone.
    pub(crate) fn clear_up(&self) -> mlua::Result<()> {
        self.seal.clean(&self.lua)
    }

    /// Sets aside what a call that waits did to globals.
    pub(crate) fn set_aside(&self) -> mlua::Result<Option<Table>> {
        self.seal.set_aside(&self.lua)
    }

    /// Puts it back.
    pub(crate) fn put_back(&self, kept: &Table) -> mlua::Result<()> {
        self.seal.put_back(kept)
    }

    /// Tells this thread, before a call, whether the VM's collector is lazy. To be ended with
    /// [`Self::end_gc_pacing`], because calls of several VMs may be under way.
    pub(crate) fn begin_gc_pacing(&self) -> GcPacing {
        let outer_bytes = budget::hurry_at_bytes();
        let hurry_at_bytes = self.memory_max_bytes / LAZY_PART * 2;
        budget::set_hurry_at_bytes(self.is_lazy.get().then_some(hurry_at_bytes));
        GcPacing { outer_bytes }
    }

    /// Lets the collector be lazy after a call if the VM holds little, and work closely if not.
    pub(crate) fn end_gc_pacing(&self, pacing: GcPacing) {
        let (used_bytes, lazy_bytes) = (self.lua.used_memory(), self.memory_max_bytes / LAZY_PART);
        let is_lazy = self.is_lazy.get() && budget::hurry_at_bytes().is_some();
        let stays_lazy = used_bytes < if is_lazy { lazy_bytes * 2 } else { lazy_bytes };
        if stays_lazy && !is_lazy {
            set_goal(
                &self.lua,
                match self.purpose {
                    Purpose::Calls | Purpose::CallsOnCore => GC_GOAL_LAZY_PERCENT,
                    Purpose::Match => GC_GOAL_LAZY_MATCH_PERCENT,
                },
            );
        } else if is_lazy && !stays_lazy {
            collect_closely(&self.lua);
        }
        self.is_lazy.set(stays_lazy);
        budget::set_hurry_at_bytes(pacing.outer_bytes);
    }

    /// Tells what the VM holds now, for the limit on all VMs together.
    pub(crate) fn count_memory(&self) {
        self.held.count(self.lua.used_memory());
    }

    /// Gives the VM no more memory than all VMs together may still have. Returns whether that is
    /// less than its own limit.
    pub(crate) fn limit_memory(&self) -> mlua::Result<bool> {
        let bytes = self.held.bound_by_others(self.memory_max_bytes);
        bytes.map_or(Ok(false), |bytes| self.lua.set_memory_limit(bytes).map(|_| true))
    }

    /// Puts the VM's own memory limit back.
    pub(crate) fn own_limit(&self) -> mlua::Result<()> {
        self.lua.set_memory_limit(self.memory_max_bytes).map(|_| ())
    }

    /// An entry point of the prelude.
    pub(crate) fn entry(&self, name: &str) -> mlua::Result<Function> {
        self.entry.get(name)
    }

    /// Collects all that is garbage. Returns whether that succeeded.
    pub(crate) fn collect(&self) -> bool {
        self.lua.gc_collect().is_ok()
    }

    /// Whether less than an eighth of the memory is free, garbage counted as used.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.lua.used_memory() > self.memory_max_bytes / 8 * 7
    }

    /// Puts the memory limit back after a call that ran into it.
    ///
    /// Returns whether modules keep less than half of the memory, garbage counted as theirs, and an eighth is
    /// free. Calls that wait hold `waiting_bytes`.
    pub(crate) fn has_memory(&self, waiting_bytes: usize) -> bool {
        let (used_bytes, max_bytes) = (self.lua.used_memory(), self.memory_max_bytes);
        self.own_limit().is_ok()
            && used_bytes < max_bytes / 8 * 7
            && used_bytes.saturating_sub(waiting_bytes) < max_bytes / 2
    }
}

/// `node`, `version` and `env`, as contexts show them.
fn describe_host(lua: &Lua, native: &Table, host: &dyn Host) -> mlua::Result<()> {
    let settings = host.settings();
    native.raw_set("node", settings.node.as_str())?;
    native.raw_set("version", settings.version.as_str())?;
    let env = lua.create_table()?;
    for (name, value) in &settings.env {
        env.raw_set(name.as_str(), value.as_str())?;
    }
    // All calls share it.
    env.set_readonly(true);
    native.raw_set("env", env)
}

/// What our Lua code needs from Rust: a table that makes each function when it is asked for first.
fn natives(
    lua: &Lua,
    sources: &Arc<Sources>,
    memory_max_bytes: usize,
    purpose: Purpose,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let sources = Arc::clone(sources);
    let find = lua.create_function(move |lua, (native, name): (Table, LuaString)| {
        let function =
            native_function(lua, &sources, (memory_max_bytes, purpose), &name.to_str()?)?;
        native.raw_set(name, &function)?;
        Ok(function)
    })?;
    let meta = lua.create_table()?;
    meta.raw_set("__index", find)?;
    native.set_metatable(Some(meta))?;
    lua.globals().raw_set("collectgarbage", lua.create_function(collectgarbage)?)?;
    Ok(native)
}

fn native_function(
    lua: &Lua,
    sources: &Arc<Sources>,
    (memory_max_bytes, purpose): (usize, Purpose),
    name: &str,
) -> mlua::Result<Function> {
    let sources = Arc::clone(sources);
    match name {
        "find" => lua.create_function(move |lua, name: LuaString| {
            let name = name.to_str()?;
            let Some(function) = game::host::find(&name) else { return Ok((None, false, None)) };
            let bound = Bound::new(function, purpose);
            let fast_path = json::fast_path(lua, function.name)?;
            Ok((Some(tables::function(lua, bound)?), bound.asks, fast_path))
        }),
        "part" => lua.create_function(|lua, name: LuaString| match &*name.as_bytes() {
            b"calls" => Part::Calls.load(lua),
            b"match" => Part::Match.load(lua),
            b"match_start" => Part::MatchStart.load(lua),
            b"match_players" => Part::MatchPlayers.load(lua),
            b"match_messages" => Part::MatchMessages.load(lua),
            b"late" => Part::Late.load(lua),
            _ => Part::Rare.load(lua),
        }),
        "load_module" => lua.create_function(move |lua, name: LuaString| {
            let name = name.to_str()?;
            let Some(module) = sources.modules.get(&*name) else { return Ok(None) };
            let chunk = lua.load(module.code.as_slice()).set_mode(ChunkMode::Binary);
            // By its sign it is told from a text given to `loadstring` under the same name.
            chunk.set_name(format!("@{}", module.file)).into_function().map(Some)
        }),
        "open_library" => lua.create_function(|lua, (native, globals): (Table, Table)| {
            library::load_library(lua, &native, Some(globals))
        }),
        "load_text" => library::loader(lua, sources.ordered),
        "take_run_once" => {
            lua.create_function(move |_, ()| Ok(!sources.ran_once.swap(true, Relaxed)))
        }
        // Modules that load in the middle of a call: so many.
        "hold" => lua.create_function(|_, count: u32| {
            budget::set_held(count > 0);
            Ok(())
        }),
        "spare_memory" => lua.create_function(move |lua, ()| {
            lua.set_memory_limit(memory_max_bytes.saturating_add(SPARE_BYTES)).map(|_| ())
        }),
        "print" => lua.create_function(|_, text: LuaString| {
            lend::host(|host| host.log(LogLevel::Info, &text.to_string_lossy()));
            Ok(())
        }),
        "now_ms" => {
            lua.create_function(|_, ()| Ok(lend::host(|host| host.now().unix_ms).unwrap_or(0)))
        }
        "map_case" => case::function(lua),
        "name_callee" => callee::function(lua, sources),
        _ => dispatcher::function(lua, name),
    }
}

/// `collectgarbage`: counts and collects. What would stay set for later calls (`stop`, `setpause`)
/// is taken and does nothing; a collection is paid for by what there is to look at.
fn collectgarbage(lua: &Lua, option: Option<LuaString>) -> mlua::Result<f64> {
    let option = option.map_or_else(|| "collect".to_owned(), |option| option.to_string_lossy());
    let used_bytes = lua.used_memory();
    match option.as_str() {
        #[allow(clippy::cast_precision_loss, reason = "fewer bytes than a double's 2^53")]
        "count" => return Ok(used_bytes as f64 / 1024.0),
        "collect" | "step" => {
            budget::spend(u32::try_from(used_bytes / BYTES_PER_STEP).unwrap_or(u32::MAX))?;
            lua.gc_collect()?;
        }
        "stop" | "restart" | "setpause" | "setstepmul" => {}
        _ => {
            let text = format!("bad argument #1 to collectgarbage (invalid option '{option}')");
            return Err(mlua::Error::runtime(text));
        }
    }
    Ok(0.0)
}

/// A host function as Lua sees it. What is passed beyond its arguments is left alone, as Lua does. One that
/// asks is told first whether the call may wait: then it returns nothing, and the prelude lets the coroutine yield.
#[derive(Clone, Copy, Debug)]
struct Bound {
    function: &'static HostFunction,
    asks: bool,
    runs_elsewhere: bool,
}

impl Bound {
    fn new(function: &'static HostFunction, purpose: Purpose) -> Self {
        let runs_elsewhere = runs_elsewhere(function, purpose);
        Self { function, asks: function.asks() || runs_elsewhere, runs_elsewhere }
    }

    /// Its arguments as plain data.
    fn read(
        self,
        arguments: &Arguments<'_>,
        meter: &VmMeter<'_>,
    ) -> Result<SmallVec<[Value; 6]>, HostError> {
        let mut values = SmallVec::new();
        let passed = usize::from(self.asks)..arguments.count();
        for (index, (place, argument)) in passed.zip(self.function.arguments()).enumerate() {
            let wrong = |what: &str| {
                let args = Args { function: self.function.name, values: &[], meter };
                Err(args.wrong(index, what))
            };
            match (arguments.read(place, meter), argument.mixed) {
                (Ok((_, 1..)), Some(refusal)) => return wrong(refusal),
                (Ok((value, left_out)), _) => {
                    if left_out > 0 {
                        warn_of_members(self.function.name, left_out);
                    }
                    values.push(value);
                }
                (Err(ConvertError::Budget(refusal)), _) => return Err(refusal),
                (Err(error), _) => return wrong(&error.to_string()),
            }
        }
        Ok(values)
    }
}

impl Native for Bound {
    fn call(self, lua: &Lua, arguments: &Arguments<'_>) -> Option<RunResult> {
        let Self { function, asks, runs_elsewhere } = self;
        let may_wait = asks && arguments.count() > 0 && arguments.is_true(0);
        let meter = VmMeter::new(lua);
        let values = match self.read(arguments, &meter) {
            Ok(values) => values,
            Err(refusal) => return Some(Err(refusal)),
        };
        if may_wait && runs_elsewhere {
            let (values, allowance) = (values.into_vec(), budget::allowance(lua));
            let ask = Ask::Run { function: function.name, values, allowance };
            lend::put_asked(lend::Asked { function, ask });
            return None;
        }
        let args = Args { function: function.name, values: &values, meter: &meter };
        let is_long = meter.holds_much();
        let run = |host: &mut dyn Host| {
            if is_long {
                host.db().rest(true);
            }
            match function.begin(host, &args)? {
                Ran::Waits(ask) if may_wait => {
                    lend::put_asked(lend::Asked { function, ask });
                    Ok(None)
                }
                Ran::Waits(ask) => {
                    let answer = host.ask(ask);
                    function.answered(host, &args, answer).map(Some)
                }
                Ran::Returned(returns) => Ok(Some(returns)),
            }
        };
        match lend::host(run) {
            Some(result) => result.transpose(),
            None => Some(Err(HostError::new("no host to call"))),
        }
    }
}

/// What a host function comes to whose answer was waited for, as the prelude reads it.
pub(crate) fn results(lua: &Lua, result: RunResult) -> mlua::Result<MultiValue> {
    match result {
        Ok(returns) => {
            let mut results = MultiValue::with_capacity(returns.len() + 1);
            results.push_back(LuaValue::Boolean(true));
            for value in &returns {
                results.push_back(tables::to_lua(lua, value)?);
            }
            Ok(results)
        }
        Err(error) => {
            let text = LuaValue::String(lua.create_string(error.message.as_bytes())?);
            Ok(MultiValue::from_iter([LuaValue::Boolean(false), text]))
        }
    }
}

/// Whether another thread runs a function as a whole: for a match, which keeps its room, and for a call
/// that keeps a core.
fn runs_elsewhere(function: &HostFunction, purpose: Purpose) -> bool {
    purpose != Purpose::Calls && function.lane.can_run_elsewhere()
}

/// Says that a table was written as a list without its named members: at most once a second, all
/// scripts together.
fn warn_of_members(function: &str, count: usize) {
    static NEXT_MS: AtomicU64 = AtomicU64::new(0);
    lend::host(|host| {
        let now_ms = host.now().unix_ms;
        if NEXT_MS.load(Relaxed) <= now_ms {
            NEXT_MS.store(now_ms + 1_000, Relaxed);
            let text = format!(
                "{function}: a table with numbers and names for keys is written as a list; \
                 {count} named members are left out, as in Nakama"
            );
            host.log(LogLevel::Warn, &text);
        }
    });
}
