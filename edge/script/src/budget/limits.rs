//! What guest code may use: one declaration for all languages ([`GuestLimits`]), and what one call has of it
//! ([`Limits`]), with the settings that move it, as its author is told when it is used up.

use std::sync::Arc;

use super::{Allowed, VmMemory};

/// How much guest code may use, whatever its language.
#[derive(Clone, Debug)]
pub struct GuestLimits {
    /// Milliseconds of one RPC or hook (`runtime.call_budget_ms`), at least 1.
    pub call_budget_ms: u32,
    /// Bytes that a thread's VMs or instances for RPCs and hooks hold together (`runtime.memory_max_bytes`),
    /// garbage included.
    pub memory_max_bytes: usize,
    /// Milliseconds of one match callback (`match.callback_budget_ms`), at least 1.
    pub callback_budget_ms: u32,
    /// Bytes of one match's VM or instance (`match.memory_max_bytes`), garbage included.
    pub match_memory_max_bytes: usize,
    /// Milliseconds for the start on one thread (`runtime.load_budget_ms`): of all modules in Lua together, of
    /// the bundle in JavaScript with its `InitModule`, of each module in WebAssembly.
    pub load_budget_ms: u32,
    /// The memory of all VMs of the process (`runtime.all_memory_max_bytes`).
    pub memory: Arc<VmMemory>,
}

impl Default for GuestLimits {
    fn default() -> Self {
        Self {
            call_budget_ms: 1_000,
            memory_max_bytes: 256 << 20,
            callback_budget_ms: 100,
            match_memory_max_bytes: 64 << 20,
            load_budget_ms: 10_000,
            memory: Arc::default(),
        }
    }
}

impl GuestLimits {
    /// Those of an RPC or hook.
    #[must_use]
    pub fn call(&self) -> Limits {
        self.outside_matches(self.call_budget_ms, "runtime.call_budget_ms")
    }

    /// Those of the start.
    #[must_use]
    pub fn start(&self) -> Limits {
        self.outside_matches(self.load_budget_ms, "runtime.load_budget_ms")
    }

    /// Those of a match's callback.
    #[must_use]
    pub fn callback(&self) -> Limits {
        Limits {
            budget_ms: self.callback_budget_ms,
            budget_setting: "match.callback_budget_ms",
            memory_bytes: self.match_memory_max_bytes,
            memory_setting: "match.memory_max_bytes",
            shared: None,
            is_match: true,
        }
    }

    fn outside_matches(&self, budget_ms: u32, budget_setting: &'static str) -> Limits {
        Limits {
            budget_ms,
            budget_setting,
            memory_bytes: self.memory_max_bytes,
            memory_setting: "runtime.memory_max_bytes",
            shared: None,
            is_match: false,
        }
    }
}

/// Memory that the calls of a thread share.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    /// All of it, bytes.
    pub max_bytes: usize,
    /// What those that waited held of it when the call began, bytes.
    pub waiting_bytes: usize,
}

/// What one call may use, and which settings say so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Milliseconds.
    pub budget_ms: u32,
    /// The setting of that.
    pub budget_setting: &'static str,
    /// Bytes of its VM.
    pub memory_bytes: usize,
    /// The setting of that.
    pub memory_setting: &'static str,
    /// What the setting says, if that is less, because calls of the thread share it.
    pub shared: Option<SharedMemory>,
    /// Whether it is a match's callback.
    pub is_match: bool,
}

impl Limits {
    /// What the call is given.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed {
            time_ms: self.budget_ms,
            memory_bytes: self.memory_bytes,
            is_match: self.is_match,
        }
    }

    /// What is said of a call that used up its time.
    #[must_use]
    pub fn time_used_up(&self) -> String {
        let Self { budget_ms, budget_setting, .. } = self;
        format!("script used up its {budget_ms} ms ({budget_setting})")
    }

    /// What is said of a call that wanted more memory than there is for its VM.
    #[must_use]
    pub fn memory_used_up(&self) -> String {
        let Self { memory_bytes, memory_setting, shared, .. } = self;
        let used_up = format!("script used up its {memory_bytes} bytes");
        let Some(SharedMemory { max_bytes, waiting_bytes }) = shared else {
            return format!("{used_up} ({memory_setting})");
        };
        format!(
            "{used_up} of the {max_bytes} of its thread ({memory_setting}): calls that waited when it began \
             held {waiting_bytes}"
        )
    }
}
