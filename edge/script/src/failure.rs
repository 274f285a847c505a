//! What went wrong in a script, as its author needs it: the text for the client without file and
//! line, file and line for the log, and which budget was used up with the setting that moves it.

use game::guest::{ScriptError, ScriptFailure};
use mlua::{Lua, LuaString, Thread};

use crate::budget;
use crate::calls::Outcome;
use crate::vm::Vm;

/// gRPC code INTERNAL: an error without a code of the script's own.
pub(crate) const INTERNAL: u8 = 13;

/// The name of our own Lua code in tracebacks.
pub(crate) const PRELUDE: &str = "[throng]";

/// What Luau says when an allocation was refused.
pub(crate) const NO_MEMORY: &str = "not enough memory";

/// Frames looked at for the script's own; our prelude has at most four on top.
const FRAMES_MAX: usize = 32;

/// What a call may use, and how much of its errors is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) call: budget::Limits,
    /// Whether clients see file, line and traceback.
    pub(crate) stacktrace: bool,
}

/// `file:line` of the innermost script function that is running.
pub(crate) fn where_now(lua: &Lua) -> String {
    for level in 0..FRAMES_MAX {
        let frame = lua.inspect_stack(level, |debug| {
            let file = debug.source().short_src.map(std::borrow::Cow::into_owned);
            (file.unwrap_or_default(), debug.current_line())
        });
        match frame {
            Some((file, Some(line))) if file != PRELUDE && file != "[C]" => {
                return format!("{file}:{line}");
            }
            Some(_) => {}
            None => break,
        }
    }
    String::new()
}

/// `file:line` of the innermost script function of a coroutine that waits.
pub(crate) fn where_it_waits(vm: &Vm, coroutine: &Thread) -> String {
    let traceback = vm.entry("traceback");
    let trace = traceback.and_then(|it| it.call::<LuaString>(coroutine.clone()));
    // Without memory to look at it the call ends all the same.
    let trace = trace.map(|it| own_frames(&it.to_string_lossy())).unwrap_or_default();
    trace.split([' ', '\n']).next().unwrap_or_default().to_owned()
}

/// An error that the script raised: `text` may start with `file:line: `, `trace` is Luau's.
pub(crate) fn raised(
    limits: &Limits,
    text: &str,
    code: Option<u8>,
    trace: Option<&str>,
) -> ScriptError {
    // An error of a Rust function brings mlua's words for it, and a traceback of its own.
    let text = text.split_once("\nstack traceback:\n").map_or(text, |(text, _)| text);
    let text = ["runtime error: ", "memory error: "]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    let trace = trace.map(own_frames).unwrap_or_default();
    let first_frame = trace.lines().next().and_then(|line| line.split(' ').next()).unwrap_or("");
    if text == NO_MEMORY || text.ends_with(NO_MEMORY) {
        return out_of_memory(limits, first_frame);
    }
    let (place, bare) = split_place(text);
    let place = if place.is_empty() { first_frame } else { place };
    let location = if limits.stacktrace && !trace.is_empty() {
        format!("{place}\n{trace}")
    } else {
        place.to_owned()
    };
    let message = if limits.stacktrace && code.is_none() {
        format!("{text}\nstack traceback:\n{trace}")
    } else {
        bare.to_owned()
    };
    ScriptError { code: code.unwrap_or(INTERNAL), message, location, kind: ScriptFailure::Raised }
}

/// The error of a call that used up its time.
pub(crate) fn out_of_time(
    limits: &Limits,
    mut location: String,
    returned: &mlua::Result<Outcome>,
) -> ScriptError {
    if location.is_empty()
        && let Ok((false, _, _, trace)) = returned
        && let Ok(trace) = trace.to_string()
    {
        // A function in Rust ran out of time, and Luau did not ask after it.
        own_frames(&trace).split([' ', '\n']).next().unwrap_or_default().clone_into(&mut location);
    }
    let used_up = limits.call.time_used_up();
    let message = if location.is_empty() { used_up } else { format!("{location}: {used_up}") };
    ScriptError { code: INTERNAL, message, location, kind: ScriptFailure::OutOfTime }
}

/// The error of a call that wanted more memory than there is for its VM.
pub(crate) fn out_of_memory(limits: &Limits, location: &str) -> ScriptError {
    let used_up = limits.call.memory_used_up();
    let message = if location.is_empty() { used_up } else { format!("{location}: {used_up}") };
    let location = location.to_owned();
    ScriptError { code: INTERNAL, message, location, kind: ScriptFailure::OutOfMemory }
}

/// The error of a match that does not fit into the memory of all scripts.
pub(crate) fn refused(message: String) -> ScriptError {
    ScriptError {
        code: INTERNAL,
        message,
        location: String::new(),
        kind: ScriptFailure::OutOfMemory,
    }
}

/// The error of something that is not there.
pub(crate) fn not_found(message: String) -> ScriptError {
    ScriptError { code: 5, message, location: String::new(), kind: ScriptFailure::NotFound }
}

/// An error of the binding itself: mlua refused something.
pub(crate) fn internal(limits: &Limits, error: &mlua::Error) -> ScriptError {
    match error {
        mlua::Error::MemoryError(_) => out_of_memory(limits, ""),
        other => {
            let text = other.to_string();
            let trace = text.split_once("\nstack traceback:\n").map(|(_, trace)| trace);
            raised(limits, &text, None, trace)
        }
    }
}

/// The lines of a traceback that are the script's own.
fn own_frames(trace: &str) -> String {
    let ours = |line: &str| line.starts_with(PRELUDE) || line.starts_with("[C]");
    let own = |line: &&str| !line.is_empty() && !ours(line);
    trace.lines().map(str::trim).filter(own).collect::<Vec<_>>().join("\n")
}

/// Splits `dir/file.lua:12: text` into place and text; the place is empty when there is none.
fn split_place(text: &str) -> (&str, &str) {
    let is_place = |place: &str| {
        place.rsplit_once(':').is_some_and(|(file, line)| {
            let is_file = file == PRELUDE
                || std::path::Path::new(file).extension().is_some_and(|end| end == "lua");
            is_file && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    match text.split_once(": ") {
        Some((place, rest)) if is_place(place) => {
            if place.starts_with(PRELUDE) {
                ("", rest)
            } else {
                (place, rest)
            }
        }
        _ => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::split_place;

    #[test]
    fn place_and_text_are_told_apart() {
        for (text, place, rest) in [
            ("a/b.lua:12: broken: twice", "a/b.lua:12", "broken: twice"),
            ("no place: here", "", "no place: here"),
            ("a.lua:x: no line", "", "a.lua:x: no line"),
            ("a.lua:12", "", "a.lua:12"),
            ("[throng]:3: ours", "", "ours"),
            ("", "", ""),
        ] {
            assert_eq!(split_place(text), (place, rest));
        }
    }
}
