//! What a guest finds of WASI (preview 1): the host's clock and randomness, and a log in the place of its
//! standard output. It has no arguments, no environment, no files, no sockets; every other function of WASI
//! answers that it is not there. The return values are WASI's error numbers.
//!
//! A guest runs when it is called, and never waits by itself: where it would sleep, its own monotonic clock
//! jumps ahead instead. The wall clock does not.
//!
//! Source: WASI snapshot preview 1, `witx/wasi_snapshot_preview1.witx`; wasi-libc and Go 1.26
//! (`runtime/os_wasip1.go`) for what they need.

use game::guest::LogLevel;
use script::{budget, lend};
use wasmtime::{Caller, Linker, Module, Result};

use crate::failure::Stop;
use crate::imports::{self, memory, outside};
use crate::instance::State;

/// The module that guests import this from.
const MODULE: &str = "wasi_snapshot_preview1";

/// Bytes of a line of a guest's output; longer ones are cut in two.
const LINE_BYTES_MAX: usize = 4_096;

/// Bytes of what a guest panics with that are kept for the error that follows.
const LAST_WORDS_BYTES_MAX: usize = 1_024;

/// Pieces of one write.
const PIECES_MAX: u32 = 1_024;

/// Subscriptions of one wait.
const SUBSCRIPTIONS_MAX: u32 = 1_024;

// Error numbers.
const SUCCESS: i32 = 0;
const BAD_FILE: i32 = 8;
const INVALID: i32 = 28;
const NOT_THERE: i32 = 52;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// What a guest has written, and how far it has slept.
#[derive(Debug, Default)]
pub(crate) struct Wasi {
    out: Vec<u8>,
    error: Vec<u8>,
    last_words: LastWords,
    slept_ns: u64,
}

/// What a guest has panicked with, of the lines of its standard error: those are the log's, and clients are told no more
/// than this of them.
#[derive(Debug, Default)]
struct LastWords {
    text: Option<String>,
    /// The next line is it.
    comes_next: bool,
}

impl LastWords {
    /// Rust has it behind the line that says where, Go behind the word, and what the runtime of Go ends with, too.
    fn hear(&mut self, line: &str) {
        let is_it = std::mem::take(&mut self.comes_next)
            || line.starts_with("panic: ")
            || line.starts_with("fatal error: ");
        if is_it && self.text.is_none() {
            self.text = Some(line.chars().take(LAST_WORDS_BYTES_MAX / 4).collect());
        }
        self.comes_next = line.starts_with("thread ") && line.contains(" panicked at ");
    }
}

impl Wasi {
    /// What the guest has panicked with, since this was asked for before.
    pub(crate) fn take_last_words(&mut self) -> Option<String> {
        std::mem::take(&mut self.last_words).text
    }

    fn write(&mut self, is_error: bool, bytes: &[u8]) {
        let line = if is_error { &mut self.error } else { &mut self.out };
        for byte in bytes {
            if *byte != b'\n' {
                line.push(*byte);
            }
            if *byte == b'\n' || line.len() >= LINE_BYTES_MAX {
                let level = if is_error { LogLevel::Warn } else { LogLevel::Info };
                let text = String::from_utf8_lossy(line);
                if is_error {
                    self.last_words.hear(&text);
                }
                lend::host(|host| host.log(level, &text));
                line.clear();
            }
        }
    }
}

/// Binds what there is, and for what else `module` imports of WASI a function that says it is not there.
pub(crate) fn bind(linker: &mut Linker<State>, module: &Module) -> Result<()> {
    linker.func_wrap(MODULE, "args_sizes_get", sizes)?;
    linker.func_wrap(MODULE, "environ_sizes_get", sizes)?;
    linker.func_wrap(MODULE, "args_get", |_: u32, _: u32| SUCCESS)?;
    linker.func_wrap(MODULE, "environ_get", |_: u32, _: u32| SUCCESS)?;
    linker.func_wrap(MODULE, "sched_yield", || SUCCESS)?;
    linker.func_wrap(MODULE, "clock_res_get", clock_res)?;
    linker.func_wrap(MODULE, "clock_time_get", clock_time)?;
    linker.func_wrap(MODULE, "random_get", random)?;
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd_fdstat)?;
    linker.func_wrap(MODULE, "fd_fdstat_set_flags", |_: u32, _: u32| SUCCESS)?;
    linker.func_wrap(MODULE, "fd_prestat_get", |_: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(MODULE, "poll_oneoff", poll)?;
    linker.func_wrap(MODULE, "proc_exit", |code: i32| -> Result<()> {
        Err(wasmtime::Error::new(Stop::Exit(code)))
    })?;
    for import in module.imports() {
        let ty = import.ty();
        let (MODULE, Some(ty)) = (import.module(), ty.func()) else { continue };
        let answers = ty.results().len() == 1;
        // What is bound already stays: a name is bound once.
        let _ = linker.func_new(MODULE, import.name(), ty.clone(), move |_, _, results| {
            if let (true, Some(result)) = (answers, results.first_mut()) {
                *result = wasmtime::Val::I32(NOT_THERE);
            }
            Ok(())
        });
    }
    Ok(())
}

fn put(caller: &mut Caller<'_, State>, at: u32, bytes: &[u8]) -> Result<()> {
    let memory = memory(caller)?;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let to = imports::write(memory.data_mut(caller), MODULE, (at, length))?;
    to.copy_from_slice(bytes);
    Ok(())
}

fn whole_at(memory: &[u8], at: u32) -> Result<u32> {
    let bytes = imports::read(memory, MODULE, (at, 4))?;
    let bytes = bytes.first_chunk().ok_or_else(|| outside(MODULE, at, 4))?;
    Ok(u32::from_le_bytes(*bytes))
}

fn long_at(memory: &[u8], at: u32) -> Result<u64> {
    let bytes = imports::read(memory, MODULE, (at, 8))?;
    let bytes = bytes.first_chunk().ok_or_else(|| outside(MODULE, at, 8))?;
    Ok(u64::from_le_bytes(*bytes))
}

/// Of arguments or variables: none, of no bytes.
fn sizes(mut caller: Caller<'_, State>, count_at: u32, bytes_at: u32) -> Result<i32> {
    put(&mut caller, count_at, &[0; 4])?;
    put(&mut caller, bytes_at, &[0; 4])?;
    Ok(SUCCESS)
}

fn clock_res(mut caller: Caller<'_, State>, _clock: u32, at: u32) -> Result<i32> {
    put(&mut caller, at, &1_000_000_u64.to_le_bytes())?;
    Ok(SUCCESS)
}

/// 0 is the wall clock; whatever else there is, the monotonic one.
fn clock_time(mut caller: Caller<'_, State>, clock: u32, _: u64, at: u32) -> Result<i32> {
    let now = lend::host(|host| host.now());
    let slept_ns = caller.data().wasi.slept_ns;
    let ns = now.map_or(0, |now| match clock {
        0 => now.unix_ms.saturating_mul(1_000_000),
        // Go takes 0 for no time at all.
        _ => now.mono_ns.saturating_add(slept_ns).saturating_add(1),
    });
    put(&mut caller, at, &ns.to_le_bytes())?;
    imports::spent(&caller, 0);
    Ok(SUCCESS)
}

fn random(mut caller: Caller<'_, State>, at: u32, length: u32) -> Result<i32> {
    if !budget::may_go_on(length) {
        return Err(wasmtime::Error::new(Stop::OutOfTime));
    }
    let memory = memory(&caller)?;
    let to = imports::write(memory.data_mut(&mut caller), MODULE, (at, length))?;
    lend::host(|host| host.random().fill(to));
    imports::spent(&caller, 0);
    Ok(SUCCESS)
}

fn fd_write(
    mut caller: Caller<'_, State>,
    file: u32,
    pieces_at: u32,
    count: u32,
    written_at: u32,
) -> Result<i32> {
    if !matches!(file, STDOUT | STDERR) {
        return Ok(BAD_FILE);
    }
    if count > PIECES_MAX {
        return Ok(INVALID);
    }
    let memory = memory(&caller)?;
    let (bytes, state) = memory.data_and_store_mut(&mut caller);
    let mut written = 0_u32;
    for index in 0..count {
        let piece_at = pieces_at.saturating_add(index * 8);
        let range = (whole_at(bytes, piece_at)?, whole_at(bytes, piece_at.saturating_add(4))?);
        let piece = imports::read(bytes, MODULE, range)?;
        if !budget::may_go_on(range.1) {
            return Err(wasmtime::Error::new(Stop::OutOfTime));
        }
        state.wasi.write(file == STDERR, piece);
        written = written.saturating_add(range.1);
    }
    put(&mut caller, written_at, &written.to_le_bytes())?;
    imports::spent(&caller, 0);
    Ok(SUCCESS)
}

/// Standard input, output and error are character devices, without rights worth telling.
fn fd_fdstat(mut caller: Caller<'_, State>, file: u32, at: u32) -> Result<i32> {
    if file > STDERR {
        return Ok(BAD_FILE);
    }
    let mut stat = [0; 24];
    stat[0] = 2;
    put(&mut caller, at, &stat)?;
    Ok(SUCCESS)
}

/// Waits for clocks: the guest's own jumps to the first of them, whose event is told. Of files there is
/// nothing to wait for.
fn poll(
    mut caller: Caller<'_, State>,
    subscriptions_at: u32,
    events_at: u32,
    count: u32,
    told_at: u32,
) -> Result<i32> {
    const SUBSCRIPTION_BYTES: u32 = 48;
    if count == 0 || count > SUBSCRIPTIONS_MAX {
        return Ok(INVALID);
    }
    let now_ns = lend::host(|host| host.now().mono_ns).unwrap_or(0);
    let memory = memory(&caller)?;
    let (bytes, state) = memory.data_and_store_mut(&mut caller);
    let mut first: Option<(u64, u64)> = None;
    for index in 0..count {
        let at = subscriptions_at.saturating_add(index * SUBSCRIPTION_BYTES);
        let of = |offset: u32| at.saturating_add(offset);
        let [tag] = *imports::read(bytes, MODULE, (of(8), 1))? else { continue };
        if tag != 0 {
            continue;
        }
        let (user_data, timeout_ns) = (long_at(bytes, at)?, long_at(bytes, of(24))?);
        let is_moment =
            imports::read(bytes, MODULE, (of(40), 1))?.first().is_some_and(|it| it & 1 == 1);
        let mono_ns = now_ns.saturating_add(state.wasi.slept_ns);
        let wait_ns = if is_moment { timeout_ns.saturating_sub(mono_ns) } else { timeout_ns };
        if first.is_none_or(|(_, least_ns)| wait_ns < least_ns) {
            first = Some((user_data, wait_ns));
        }
    }
    let Some((user_data, wait_ns)) = first else { return Ok(NOT_THERE) };
    state.wasi.slept_ns = state.wasi.slept_ns.saturating_add(wait_ns);
    let mut event = [0; 32];
    event[..8].copy_from_slice(&user_data.to_le_bytes());
    put(&mut caller, events_at, &event)?;
    put(&mut caller, told_at, &1_u32.to_le_bytes())?;
    imports::spent(&caller, 0);
    Ok(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &str) -> Option<String> {
        let mut words = LastWords::default();
        lines.lines().for_each(|line| words.hear(line));
        words.text
    }

    #[test]
    fn of_what_a_guest_writes_its_panic_is_told_and_no_more() {
        let rust = "the key is secret\n\nthread '<unnamed>' panicked at src/lib.rs:9:5:\non purpose\nnote: run with";
        assert_eq!(told(rust).as_deref(), Some("on purpose"));
        let go = "2026/11/28 the key is secret\nfatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan]";
        assert_eq!(told(go).as_deref(), Some("fatal error: all goroutines are asleep - deadlock!"));
        let panic = "panic: on purpose\n\ngoroutine 8 [running]:\npanic: another";
        assert_eq!(told(panic).as_deref(), Some("panic: on purpose"));
        assert_eq!(told("the key is secret\nthread of talk\n"), None);
        let long = format!("panic: {}", "ä".repeat(2_000));
        assert!(told(&long).is_some_and(|text| text.len() <= LAST_WORDS_BYTES_MAX));
    }
}
