//! What went wrong in a script, as its author needs it: the text for the client, file and line for the
//! log, and which budget was used up with the setting that moves it.
//!
//! Source: nakama 3.40, `server/runtime_javascript.go`, for what clients are told.

use game::guest::{ScriptError, ScriptFailure};
use rquickjs::{Ctx, Value as JsValue};
use script::budget::{Limits, OUT_OF_MEMORY};

/// gRPC code INTERNAL: an error without a code of the script's own.
const INTERNAL: u8 = 13;

/// The name of our own code in stack traces.
pub(crate) const PRELUDE: &str = "[throng]";

/// Frames of a stack trace that the log gets.
const FRAMES_MAX: usize = 16;

/// An exception before it is known whether a budget was used up.
#[derive(Debug, Default)]
pub(crate) struct Thrown {
    /// What the script gave as `code`.
    code: Option<u8>,
    message: String,
    /// `file:line` of the script's innermost function.
    place: String,
    /// The script's frames, innermost first.
    trace: String,
}

/// The exception that is pending.
pub(crate) fn caught(ctx: &Ctx<'_>, error: &rquickjs::Error) -> Thrown {
    if !error.is_exception() {
        return Thrown { message: error.to_string(), ..Thrown::default() };
    }
    of_value(&ctx.catch())
}

/// What was thrown. Reading it may run code of the script's, whose own exceptions count as nothing.
pub(crate) fn of_value(value: &JsValue<'_>) -> Thrown {
    let Some(object) = value.as_object() else {
        // The engine throws null where it has no memory for an error.
        let message = if value.is_null() { OUT_OF_MEMORY.to_owned() } else { plain(value) };
        return Thrown { message, ..Thrown::default() };
    };
    let text = |name: &str| {
        let member: Option<JsValue<'_>> = object.get(name).ok();
        member.and_then(|member| member.as_string().and_then(|text| text.to_string().ok()))
    };
    let code = object.get::<_, JsValue<'_>>("code").ok().and_then(|code| code.as_int());
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| (1..=16).contains(code));
    let message = text("message");
    if !object.is_error() {
        let message = message.unwrap_or_else(|| "[object Object]".to_owned());
        return Thrown { code, message, ..Thrown::default() };
    }
    let message = message.unwrap_or_default();
    let message = match text("name").filter(|name| !name.is_empty()) {
        Some(name) if code.is_none() && !message.is_empty() => format!("{name}: {message}"),
        Some(name) if message.is_empty() => name,
        _ => message,
    };
    let trace = own_frames(&text("stack").unwrap_or_default());
    let place = trace.lines().next().map(place_of).unwrap_or_default();
    Thrown { code, message, place, trace }
}

fn plain(value: &JsValue<'_>) -> String {
    match (value.as_string(), value.as_number(), value.as_bool()) {
        (Some(text), _, _) => text.to_string().unwrap_or_default(),
        (_, Some(number), _) => number.to_string(),
        (_, _, Some(flag)) => flag.to_string(),
        _ => value.type_name().to_owned(),
    }
}

/// The lines of a stack trace that are the script's own.
fn own_frames(stack: &str) -> String {
    let own =
        |line: &&str| !line.is_empty() && !line.contains(PRELUDE) && !line.contains("(native)");
    stack.lines().map(str::trim).filter(own).take(FRAMES_MAX).collect::<Vec<_>>().join("\n")
}

/// `index.js:12` of `at name (index.js:12:5)`.
fn place_of(frame: &str) -> String {
    let inner = frame.rsplit_once('(').map_or(frame, |(_, inner)| inner);
    let inner = inner.trim_end_matches(')').trim_start_matches("at ");
    let mut parts = inner.rsplitn(2, ':');
    let (_column, place) = (parts.next(), parts.next());
    place.unwrap_or(inner).to_owned()
}

impl Thrown {
    /// An error of our own words.
    pub(crate) fn says(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Whether the engine ran out of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.message.ends_with(OUT_OF_MEMORY)
    }

    /// As the caller of the script is told.
    pub(crate) fn error(self, limits: &Limits, is_out_of_time: bool) -> ScriptError {
        if is_out_of_time {
            return self.budget(limits.time_used_up(), ScriptFailure::OutOfTime);
        }
        if self.is_out_of_memory() {
            return self.budget(limits.memory_used_up(), ScriptFailure::OutOfMemory);
        }
        let location = if self.trace.is_empty() { self.place } else { self.trace };
        let code = self.code.unwrap_or(INTERNAL);
        ScriptError { code, message: self.message, location, kind: ScriptFailure::Raised }
    }

    fn budget(self, used_up: String, kind: ScriptFailure) -> ScriptError {
        let place = self.place;
        let message = if place.is_empty() { used_up } else { format!("{place}: {used_up}") };
        ScriptError { code: INTERNAL, message, location: place, kind }
    }

    /// The same for messages at start: place and text.
    pub(crate) fn at_start(self, limits: &Limits, is_out_of_time: bool) -> (String, String) {
        let place = self.place.clone();
        let message = self.error(limits, is_out_of_time).message;
        let bare = message.strip_prefix(&*place).and_then(|rest| rest.strip_prefix(": "));
        (place, bare.map(str::to_owned).unwrap_or(message))
    }
}

/// The error of something that is not there.
pub(crate) fn not_found(message: String) -> ScriptError {
    ScriptError { code: 5, message, location: String::new(), kind: ScriptFailure::NotFound }
}

/// The error of a call that does not run here.
pub(crate) fn elsewhere(message: String) -> ScriptError {
    ScriptError { code: INTERNAL, message, location: String::new(), kind: ScriptFailure::Raised }
}

/// The error of what does not fit into the memory that scripts have together.
pub(crate) fn refused(message: String) -> ScriptError {
    ScriptError {
        code: INTERNAL,
        message,
        location: String::new(),
        kind: ScriptFailure::OutOfMemory,
    }
}

#[cfg(test)]
mod tests {
    use super::{own_frames, place_of};

    #[test]
    fn places_are_found_in_stack_traces() {
        let stack = "    at inner (index.js:3:11)\n    at call (native)\n    at <anonymous> \
                     ([throng]:9:1)\n    at index.js:7:2\n";
        let own = own_frames(stack);
        assert_eq!(own, "at inner (index.js:3:11)\nat index.js:7:2");
        let places: Vec<_> = own.lines().map(place_of).collect();
        assert_eq!(places, ["index.js:3", "index.js:7"]);
    }
}
