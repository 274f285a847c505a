//! RPC functions and a match in WebAssembly that want too much of the server, or break what guests and server have
//! agreed on, for the attack tests.

use std::hint::black_box;

use throng_guest::{
    Context, Dispatcher, Initializer, Match, MatchContext, Message, Opened, Presence, Result,
    Value, nk,
};

throng_guest::module!(init_module);

/// The convention, without the SDK's care.
mod raw {
    #[link(wasm_import_module = "throng")]
    unsafe extern "C" {
        pub fn call(at: u32, length: u32) -> u32;
        pub fn take(at: u32, length: u32);
        pub fn give(at: u32, length: u32);
    }
}

const MIB: usize = 1 << 20;
/// Where no guest of 32 bits has memory to the end of a MiB.
const END: u32 = u32::MAX - 16;

fn init_module(initializer: &mut Initializer) -> Result<()> {
    initializer.register_rpc("hostile_spin", |_, _| spin())?;
    initializer.register_rpc("hostile_hoard", |_, _| hoard())?;
    initializer.register_rpc("hostile_recurse", |_, _| Ok(recurse(1).to_string()))?;
    initializer.register_rpc("hostile_panic", |_, _| panic!("on purpose"))?;
    // SAFETY: none of these is sound, and none may harm anybody but this instance.
    initializer.register_rpc("hostile_take", |_, _| unsafe {
        raw::take(END, 1 << 20);
        done()
    })?;
    initializer.register_rpc("hostile_give", |_, _| unsafe {
        raw::give(END, 1 << 20);
        done()
    })?;
    initializer.register_rpc("hostile_call", |_, _| unsafe {
        raw::call(0, END);
        done()
    })?;
    initializer.register_rpc("hostile_register", |_, _| {
        nk::call("register", &["rpc".into(), "too_late".into()])?;
        done()
    })?;
    initializer.register_rpc("hostile_untyped", untyped)?;
    initializer.register_rpc("hostile_sleep", sleep)?;
    initializer.register_rpc("hostile_log", log)?;
    initializer.register_rpc("hostile_slow", slow)?;
    initializer.register_rpc("hostile_turn", turn)?;
    initializer.register_rpc("hostile_wait", wait)?;
    initializer.register_before("AuthenticateCustom", |_, request| {
        let vars = request.get("account").and_then(|account| account.get("vars"));
        let compute_ms = vars.and_then(|vars| vars.get("compute_ms")).and_then(Value::as_str);
        compute(compute_ms.and_then(|text| text.parse().ok()).unwrap_or(0))?;
        Ok(Some(request))
    })?;
    initializer.register_rpc("hostile_match", |_, harm| {
        nk::match_create("hostile", Some(Value::map([("harm", harm.into())])))
    })?;
    initializer.register_match("hostile", |_: &MatchContext, params| {
        let harm = params.get("harm").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((Hostile { harm }, Opened { tick_rate_hz: 20, label: String::new() }))
    })
}

fn done() -> Result<String> {
    Ok("done".to_owned())
}

/// Computes for so many milliseconds by the server's clock, which is asked seldom.
fn compute(ms: i64) -> Result<()> {
    let now = || nk::call_one("time", &[]).map(|now| now.as_int().unwrap_or(i64::MAX));
    let ends = if ms > 0 { now()? + ms } else { return Ok(()) };
    let mut turns = 0_u64;
    while now()? < ends {
        for _ in 0..100_000 {
            turns = black_box(turns + 1);
        }
    }
    Ok(())
}

/// As `e2e_slow` of the modules in Lua: `{"ms":50,"writes":true}`.
fn slow(_: &Context, wish: &str) -> Result<String> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let ms = wish.split_once("\"ms\":").and_then(|(_, rest)| digits(rest).parse().ok());
    if wish.contains("\"writes\":true") {
        let key = nk::call_one("uuid_v4", &[])?;
        let object = [("collection", "slow".into()), ("key", key), ("value", Value::map([]))];
        nk::storage_write(vec![Value::map(object)])?;
    }
    compute(ms.unwrap_or(0))?;
    Ok("{}".to_owned())
}

/// Waits for another server, whose address it is told.
fn wait(_: &Context, url: &str) -> Result<String> {
    let (status, _, _) = nk::http_request(url, "get", None, None, Some(30_000), None)?;
    Ok(status.to_string())
}

/// Is quick unless it is told to do harm.
fn turn(_: &Context, harm: &str) -> Result<String> {
    match harm {
        "spin" => spin(),
        "hoard" => hoard(),
        "recurse" => Ok(recurse(1).to_string()),
        "panic" => panic!("on purpose"),
        _ => done(),
    }
}

/// Never ends.
fn spin() -> Result<String> {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns + 1);
    }
}

/// Takes memory and writes to it, without end.
fn hoard() -> Result<String> {
    let mut held = Vec::new();
    loop {
        held.push(black_box(vec![1_u8; MIB]));
    }
}

/// Calls itself without end.
#[allow(unconditional_recursion, reason = "on purpose")]
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse(frame[3] + 1) + frame[5]
}

/// Calls functions of the server with what they do not take; it says how many were refused.
fn untyped(_: &Context, _: &str) -> Result<String> {
    let wrong = [
        nk::call("storage_write", &[Value::Int(1)]),
        nk::call("storage_read", &[vec![Value::Nil].into()]),
        nk::call("no_such_function", &[]),
        nk::call("broadcast_message", &[1.into()]),
        nk::call("match_create", &["no such match".into()]),
    ];
    Ok(wrong.iter().filter(|result| result.is_err()).count().to_string())
}

/// Would keep its thread for an hour.
fn sleep(_: &Context, _: &str) -> Result<String> {
    std::thread::sleep(std::time::Duration::from_secs(3_600));
    done()
}

/// Fills the log, by the server's function and by standard output.
fn log(_: &Context, _: &str) -> Result<String> {
    for line in 0..5_000 {
        nk::log_info("a line of a flood");
        println!("line {line} of a flood");
    }
    done()
}

/// A match that harms its room at its third tick.
struct Hostile {
    harm: String,
}

impl Match for Hostile {
    fn join(&mut self, _: Dispatcher, _: i64, _: &[Presence]) -> Result<bool> {
        Ok(true)
    }

    fn leave(&mut self, _: Dispatcher, _: i64, _: &[Presence]) -> Result<bool> {
        Ok(true)
    }

    fn tick(&mut self, dispatcher: Dispatcher, tick: i64, _: &[Message]) -> Result<bool> {
        if tick == 3 {
            match self.harm.as_str() {
                "spin" => spin()?,
                "hoard" => hoard()?,
                "recurse" => recurse(1).to_string(),
                _ => loop {
                    dispatcher.broadcast(1, &vec![0; MIB], None)?;
                },
            };
        }
        Ok(true)
    }

    fn signal(&mut self, _: Dispatcher, tick: i64, _: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Some(tick.to_string().into_bytes()))
    }
}
