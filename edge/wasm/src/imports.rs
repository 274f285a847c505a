//! What guests import from `throng`: `call` a function of the host table, `take` what the host has for
//! them, `give` what a call comes to. Everything in a guest's memory is only looked at where a call says,
//! and what does not lie in it stops the guest.
//!
//! `call` may wait. Then the guest's stack is put aside: the [`Question`] is pending until the call is
//! gone on with ([`put_answer`]).

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use game::guest::{Allowance, Answer, Ask, Host, HostError};
use game::host::{Args, FunctionKind, HostFunction, Ran, Returns};
use game::value::Value;
use script::budget::{self, CallMeter};
use script::lend;
use wasmtime::{Caller, Linker, Memory, Result};

use crate::encoding::{self, DecodeError, Writer};
use crate::failure::Stop;
use crate::instance::{self, State};
use crate::local;

/// The module that guests import this from.
const MODULE: &str = "throng";

/// Before an answer's values, and before the text of a refusal.
const RETURNED: u8 = 0;
const REFUSED: u8 = 1;

thread_local! {
    static ASKED: Cell<Option<Ask>> = const { Cell::new(None) };
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// What the call that has just been put aside waits for.
pub(crate) fn take_asked() -> Option<Ask> {
    ASKED.take()
}

/// Keeps the answer for the call that is gone on with next.
pub(crate) fn put_answer(answer: Answer) {
    ANSWER.set(Some(answer));
}

/// Steps of about a nanosecond that a call of the host costs, whatever it does.
const CALL_STEPS: u32 = 100;

/// A function of the host has taken so many steps more of the guest's time. Where that is over, or its slice, the
/// guest is made to ask.
pub(crate) fn spent(caller: &Caller<'_, State>, steps: u32) {
    if !budget::may_go_on(steps.saturating_add(CALL_STEPS)) || budget::is_slice_over() {
        instance::make_ask(caller.engine());
    }
}

/// What a call of the host waits for: pending once.
struct Question(Option<Ask>);

impl Future for Question {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        if let Some(ask) = self.0.take() {
            ASKED.set(Some(ask));
            return Poll::Pending;
        }
        match ANSWER.take() {
            Some(answer) => Poll::Ready(answer),
            // The call is dropped while it waits, and its stack cleared.
            None => Poll::Ready(Err(HostError::new("cancelled"))),
        }
    }
}

/// Binds them.
pub(crate) fn bind(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap_async(
        MODULE,
        "call",
        |caller: Caller<'_, State>, (at, length): (u32, u32)| Box::new(call(caller, at, length)),
    )?;
    linker.func_wrap(MODULE, "take", take)?;
    linker.func_wrap(MODULE, "give", give)?;
    Ok(())
}

/// The guest's memory.
pub(crate) fn memory(caller: &Caller<'_, State>) -> Result<Memory> {
    caller.data().memory.ok_or_else(|| Stop::wrong("a call of the host before there is a memory"))
}

/// The error of a range that does not lie in the memory.
pub(crate) fn outside(what: &str, at: u32, length: u32) -> wasmtime::Error {
    Stop::wrong(format!("{what}: {length} bytes at {at} do not lie in the memory"))
}

/// The bytes at `at`.
pub(crate) fn read<'a>(memory: &'a [u8], what: &str, (at, length): (u32, u32)) -> Result<&'a [u8]> {
    let bytes = memory.get(at as usize..).and_then(|rest| rest.get(..length as usize));
    bytes.ok_or_else(|| outside(what, at, length))
}

/// Where bytes are written to.
pub(crate) fn write<'a>(
    memory: &'a mut [u8],
    what: &str,
    (at, length): (u32, u32),
) -> Result<&'a mut [u8]> {
    let bytes = memory.get_mut(at as usize..).and_then(|rest| rest.get_mut(..length as usize));
    bytes.ok_or_else(|| outside(what, at, length))
}

/// `take(at, length)`: copies what the host has for the guest, all of it at once: a call's arguments, or
/// what a host function has answered.
fn take(mut caller: Caller<'_, State>, at: u32, length: u32) -> Result<()> {
    let memory = memory(&caller)?;
    let (memory, state) = memory.data_and_store_mut(&mut caller);
    let to = write(memory, "throng.take", (at, length))?;
    let pending = std::mem::take(&mut state.pending);
    if pending.len() != to.len() {
        let text =
            format!("throng.take: {length} bytes are asked for, {} are there", pending.len());
        return Err(Stop::wrong(text));
    }
    to.copy_from_slice(&pending);
    spent(&caller, length);
    Ok(())
}

/// `give(at, length)`: what the running call comes to. The last one counts.
fn give(mut caller: Caller<'_, State>, at: u32, length: u32) -> Result<()> {
    let memory = memory(&caller)?;
    let (memory, state) = memory.data_and_store_mut(&mut caller);
    let given = read(memory, "throng.give", (at, length))?;
    state.given.clear();
    state.given.extend_from_slice(given);
    spent(&caller, length);
    Ok(())
}

/// How far a call of the host has come.
enum Begun {
    Ended(Result<Returns, HostError>),
    Waits(&'static HostFunction, Ask),
}

/// `call(at, length) -> length`: runs a function of the host, whose name and arguments are the list at
/// `at`. The answer is to be taken.
async fn call(mut caller: Caller<'_, State>, at: u32, length: u32) -> Result<u32> {
    let result = match begin(&mut caller, at, length)? {
        Begun::Ended(result) => result,
        Begun::Waits(function, ask) => {
            let answer = Question(Some(ask)).await;
            let meter = CallMeter::default();
            let args = Args { function: function.name, values: &[], meter: &meter };
            let answered = lend::host(|host| function.answered(host, &args, answer));
            answered.unwrap_or_else(|| Err(no_host()))
        }
    };
    let mut writer = Writer::default();
    let head = match &result {
        Ok(returns) => {
            writer.list(returns.len());
            returns.iter().for_each(|value| {
                writer.value(value);
            });
            RETURNED
        }
        Err(error) => {
            writer.text(&error.message);
            REFUSED
        }
    };
    let mut pending = writer.into_bytes();
    pending.insert(0, head);
    let length = u32::try_from(pending.len()).map_err(|_| Stop::wrong("an answer is too large"))?;
    caller.data_mut().pending = pending;
    spent(&caller, length);
    Ok(length)
}

fn no_host() -> HostError {
    HostError::new("not possible outside of a call")
}

fn begin(caller: &mut Caller<'_, State>, at: u32, length: u32) -> Result<Begun> {
    let memory = memory(caller)?;
    let meter = CallMeter::default();
    let decoded =
        encoding::decode(read(memory.data(&*caller), "throng.call", (at, length))?, &meter);
    let mut values = match decoded {
        Ok(Value::List(values)) if !values.is_empty() => values,
        Ok(_) => return Err(Stop::wrong("throng.call: no list of a name and arguments")),
        Err(DecodeError::Budget(error)) => return Ok(Begun::Ended(Err(error))),
        Err(error) => return Err(Stop::wrong(format!("throng.call: {error}"))),
    };
    let name = values.remove(0);
    let Some(name) = name.as_str() else {
        return Err(Stop::wrong("throng.call: the name is no text"));
    };
    if let Some(result) = local::run(caller.data_mut(), name, &values)? {
        return Ok(Begun::Ended(result));
    }
    let Some(function) = game::host::find(name) else {
        let text = format!("there is no function {name}");
        return Ok(Begun::Ended(Err(HostError::new(text))));
    };
    if matches!(function.kind, FunctionKind::Language(_)) {
        let text = format!("{name} is not for modules in WebAssembly");
        return Ok(Begun::Ended(Err(HostError::new(text))));
    }
    let State { may_wait, asks_others, .. } = *caller.data();
    Ok(run(function, values, &meter, (may_wait, asks_others)))
}

fn run(
    function: &'static HostFunction,
    values: Vec<Value>,
    meter: &CallMeter,
    (may_wait, asks_others): (bool, bool),
) -> Begun {
    if may_wait && asks_others && function.lane.can_run_elsewhere() {
        let allowance =
            Allowance { time_ms: budget::left_ms().0, memory_bytes: budget::memory_bytes() };
        return Begun::Waits(function, Ask::Run { function: function.name, values, allowance });
    }
    let args = Args { function: function.name, values: &values, meter };
    let is_long = meter.holds_much();
    let begun = lend::host(|host: &mut dyn Host| {
        if is_long {
            host.db().rest(true);
        }
        match function.begin(host, &args)? {
            Ran::Waits(ask) if may_wait => Ok(Begun::Waits(function, ask)),
            Ran::Waits(ask) => {
                let answer = host.ask(ask);
                function.answered(host, &args, answer).map(|returns| Begun::Ended(Ok(returns)))
            }
            Ran::Returned(returns) => Ok(Begun::Ended(Ok(returns))),
        }
    });
    begun.unwrap_or_else(|| Err(no_host())).unwrap_or_else(|error| Begun::Ended(Err(error)))
}
