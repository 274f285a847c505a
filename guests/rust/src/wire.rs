//! The convention between host and guest, version 1 (docs/wasm/convention.md): what the host calls, and what
//! it is called with. Games do not need this; `module!` does.

use std::cell::RefCell;

use crate::matches::{self, Running};
use crate::value::{BadValue, read, read_list, read_string, skip};
use crate::{Context, Error, Initializer, Placed, Result, Value};

/// The version of the convention.
pub const VERSION: u32 = 1;

const RETURNED: u32 = 0;
const FAILED: u32 = 1;

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "throng")]
unsafe extern "C" {
    fn call(at: *const u8, length: u32) -> u32;
    fn take(at: *mut u8, length: u32);
    fn give(at: *const u8, length: u32);
}

/// Elsewhere there is no host: a game's own tests do not get this far.
#[cfg(not(target_arch = "wasm32"))]
mod nowhere {
    pub(super) unsafe fn call(_: *const u8, _: u32) -> u32 {
        unimplemented!("there is a server only for wasm32")
    }
    pub(super) unsafe fn take(_: *mut u8, _: u32) {}
    pub(super) unsafe fn give(_: *const u8, _: u32) {}
}
#[cfg(not(target_arch = "wasm32"))]
use nowhere::{call, give, take};

/// What the game has registered, and the match of this instance, if it is one's.
#[derive(Default)]
struct Game {
    registered: Initializer,
    running: Option<Running>,
}

thread_local! {
    static GAME: RefCell<Game> = RefCell::default();
}

fn taken(length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    // SAFETY: the host writes `length` bytes, which is what there is room for.
    unsafe { take(bytes.as_mut_ptr(), length) };
    bytes
}

/// Calls a function of the host.
pub(crate) fn host_call(name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
    let mut bytes = vec![6];
    bytes.extend_from_slice(&(arguments.len() as u32 + 1).to_le_bytes());
    Value::from(name).encode(&mut bytes);
    arguments.iter().for_each(|argument| argument.encode(&mut bytes));
    // SAFETY: the host reads these bytes, and nothing else.
    let length = unsafe { call(bytes.as_ptr(), bytes.len() as u32) };
    let answer = taken(length);
    let (head, rest) = answer.split_first().ok_or("the server has not answered")?;
    match (head, Value::decode(rest).map_err(|error| error.to_string())?) {
        (0, Value::List(results)) => Ok(results),
        (_, refusal) => Err(refusal.as_str().unwrap_or_default().into()),
    }
}

/// Runs a call of the host, of which no more is decoded than it needs.
fn call_of(length: u32, init: fn(&mut Initializer) -> Result<()>) -> Result<Value> {
    let bytes = taken(length);
    let mut rest = bytes.as_slice();
    let wrong = |error: BadValue| Error::from(error.to_string());
    let count = read_list(&mut rest).map_err(wrong)?;
    let mut text = || {
        let text = read_string(&mut rest).map_err(wrong)?;
        std::str::from_utf8(text).map_err(|_| Error::from("not a call"))
    };
    let (kind, name) = (text()?, text()?);
    let context = skip(&mut rest).map_err(wrong)?;
    if kind == "init" {
        let mut registered = Initializer::default();
        init(&mut registered)?;
        GAME.with_borrow_mut(|game| game.registered = registered);
        return Ok(Value::Nil);
    }
    GAME.with_borrow_mut(|game| {
        let Game { registered, running } = game;
        if kind == "rpc" && count > 3 {
            let payload = read_string(&mut rest).map_err(wrong)?;
            let payload = std::str::from_utf8(payload);
            let payload = payload.map_err(|_| Error::new(3, "payload is not UTF-8"))?;
            let context = Context::new(context.to_vec());
            let Placed { function, place } = find(&registered.rpc, name)?;
            return function(&context, payload).map(Value::from).map_err(|error| error.of(place));
        }
        let arguments = (3..count).map(|_| read(&mut rest)).collect::<std::result::Result<_, _>>();
        let arguments: Vec<Value> = arguments.map_err(wrong)?;
        if kind.starts_with("match_") {
            let context = Value::decode(context).map_err(wrong)?;
            return matches::call(registered, running, (kind, name), context, arguments);
        }
        let context = Context::new(context.to_vec());
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().unwrap_or_default();
        match kind {
            "before" => {
                let Placed { function, place } = find(&registered.before, name)?;
                let returned = function(&context, next()).map_err(|error| error.of(place))?;
                Ok(returned.unwrap_or_default())
            }
            "after" => {
                let (answer, request) = (next(), next());
                let Placed { function, place } = find(&registered.after, name)?;
                let ran = function(&context, answer, request).map(|()| Value::Nil);
                ran.map_err(|error| error.of(place))
            }
            "event" => {
                if let Ok(Placed { function, place }) = find(&registered.rules, name) {
                    return function(&context, next()).map_err(|error| error.of(place));
                }
                let Placed { function, place } = find(&registered.events, name)?;
                let ran = function(&context, next()).map(|()| Value::Nil);
                ran.map_err(|error| error.of(place))
            }
            _ => Err(format!("this module knows no calls of the kind {kind}").into()),
        }
    })
}

/// The function that was registered last under this name.
pub(crate) fn find<'a, T>(functions: &'a [(String, T)], name: &str) -> Result<&'a T> {
    let found = functions.iter().rev().find(|(known, _)| known == name);
    found.map(|(_, function)| function).ok_or_else(|| format!("{name} is not registered").into())
}

/// Runs a call of the host, and gives it what came of it.
pub fn serve(length: u32, init: fn(&mut Initializer) -> Result<()>) -> u32 {
    let (status, value) = match call_of(length, init) {
        Ok(value) => (RETURNED, value),
        Err(error) => {
            let place = error.place().into();
            let parts = vec![i64::from(error.code).into(), error.message.into(), place];
            (FAILED, Value::List(parts))
        }
    };
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    // SAFETY: the host reads these bytes, and nothing else.
    unsafe { give(bytes.as_ptr(), bytes.len() as u32) };
    status
}
