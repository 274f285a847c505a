//! What went wrong in a guest, as its author needs it: the text for the client, the module with its version
//! and the functions for the log, and which budget was used up with the setting that moves it.

use game::guest::{ScriptError, ScriptFailure};
use script::budget::Limits;
use thiserror::Error;
use wasmtime::{Trap, WasmBacktrace};

use crate::memory::Refused;

/// gRPC code INTERNAL: an error without a code of the guest's own.
pub(crate) const INTERNAL: u8 = 13;

/// Functions of a stack that the log gets.
const FRAMES_MAX: usize = 16;

/// Bytes of a guest's stack. A fiber has 2 MiB; what the host does for the guest needs the rest.
pub(crate) const STACK_BYTES_MAX: usize = 512 * 1024;

/// Why the host stops a guest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its time is over.
    #[error("out of time")]
    OutOfTime,
    /// It has ended itself (`proc_exit`).
    #[error("the guest has ended itself with code {0}")]
    Exit(i32),
    /// It breaks the convention between host and guest.
    #[error("{0}")]
    Wrong(String),
}

impl Stop {
    /// It breaks the convention.
    pub(crate) fn wrong(text: impl Into<String>) -> wasmtime::Error {
        wasmtime::Error::new(Self::Wrong(text.into()))
    }
}

/// What is known of a call that has ended with an error, besides the error.
#[derive(Debug, Default)]
pub(crate) struct Circumstances {
    /// Its time was used up.
    pub(crate) is_late: bool,
    /// The bound of memory that it came to.
    pub(crate) refused: Option<Refused>,
    /// What it has panicked with.
    pub(crate) last_words: Option<String>,
}

/// The error of a call that a trap has ended; `module` is its name and version.
pub(crate) fn of_trap(
    error: &wasmtime::Error,
    module: &str,
    limits: &Limits,
    circumstances: &Circumstances,
) -> ScriptError {
    let functions = functions(error);
    let location = match functions.as_slice() {
        [] => module.to_owned(),
        functions => format!("{module}: {}", functions.join("\n")),
    };
    let place = match functions.first() {
        Some(function) => format!("{module}: {function}"),
        None => module.to_owned(),
    };
    let error_of = |message: String, kind| ScriptError {
        code: INTERNAL,
        message: format!("{place}: {message}"),
        location,
        kind,
    };
    if circumstances.is_late {
        return error_of(limits.time_used_up(), ScriptFailure::OutOfTime);
    }
    if let Some(Refused { max_bytes, setting, waiting_bytes }) = circumstances.refused {
        let limits = Limits { memory_bytes: max_bytes, memory_setting: setting, ..*limits };
        let mut text = limits.memory_used_up();
        if waiting_bytes > 0 {
            text = format!("{text}, of which calls that wait hold {waiting_bytes}");
        }
        return error_of(text, ScriptFailure::OutOfMemory);
    }
    let stop = error.downcast_ref::<Stop>();
    let text = match (stop, error.downcast_ref::<Trap>(), &circumstances.last_words) {
        (Some(Stop::Wrong(text)), ..) => text.clone(),
        (_, Some(Trap::StackOverflow), _) => format!("stack overflow ({STACK_BYTES_MAX} bytes)"),
        (.., Some(words)) => words.clone(),
        (Some(stop), ..) => stop.to_string(),
        (None, Some(trap), _) => trap.to_string(),
        (None, None, _) => error.root_cause().to_string(),
    };
    error_of(text, ScriptFailure::Raised)
}

/// The functions that ran, the innermost first.
fn functions(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
        None => format!("function {}", frame.func_index()),
    };
    trace.frames().iter().take(FRAMES_MAX).map(name).collect()
}

/// The error of a call that was stopped while it asked.
pub(crate) fn late_asker(module: &str, limits: &Limits) -> ScriptError {
    ScriptError {
        code: INTERNAL,
        message: format!("{module}: {}", limits.time_used_up()),
        location: module.to_owned(),
        kind: ScriptFailure::OutOfTime,
    }
}

/// An error of our own words.
pub(crate) fn raised(module: &str, message: impl Into<String>) -> ScriptError {
    ScriptError {
        code: INTERNAL,
        message: message.into(),
        location: module.to_owned(),
        kind: ScriptFailure::Raised,
    }
}

/// An error of our own words: there is no room for another instance.
pub(crate) fn no_room(module: &str, message: String) -> ScriptError {
    ScriptError { kind: ScriptFailure::OutOfMemory, ..raised(module, message) }
}

/// The error of something that is not there.
pub(crate) fn not_found(message: impl Into<String>) -> ScriptError {
    ScriptError {
        code: 5,
        message: message.into(),
        location: String::new(),
        kind: ScriptFailure::NotFound,
    }
}
