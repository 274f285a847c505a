//! A game in Rust for throng: RPC functions, storage, a hook before a call, and a match of up to ten players.
//!
//! ```sh
//! rustup target add wasm32-wasip1
//! cargo build --release --target wasm32-wasip1 --manifest-path guests/rust/Cargo.toml --example arena
//! cp guests/rust/target/wasm32-wasip1/release/examples/arena.wasm data/modules/
//! ```

use throng_guest::{
    Context, Dispatcher, Error, Initializer, Join, Match, MatchContext, Message, Opened, Presence,
    Result, Value, Verdict, nk,
};

throng_guest::module!(init_module);

const ECHO: i64 = 1;
const TO_SENDER: i64 = 2;
const WELCOME: i64 = 50;

/// gRPC codes.
const INVALID_ARGUMENT: u8 = 3;
const FAILED_PRECONDITION: u8 = 9;

const PLAYERS_MAX: usize = 10;
const NAME_LETTERS_MAX: usize = 20;

fn init_module(initializer: &mut Initializer) -> Result<()> {
    initializer.register_rpc("echo", echo)?;
    initializer.register_rpc("store", store)?;
    initializer.register_rpc("fail", |_, _| Err(Error::new(FAILED_PRECONDITION, "not today")))?;
    initializer.register_rpc("spin", |_, _| spin())?;
    initializer.register_rpc("arena", |_, _| {
        let id = nk::match_create("arena", Value::map([("level", 3.into())]))?;
        Ok(format!("{{\"match_id\":\"{id}\"}}"))
    })?;
    initializer.register_before("UpdateAccount", short_names)?;
    initializer.register_match("arena", open)
}

/// What the client sent, decoded and encoded again, with who sent it.
fn echo(context: &Context, payload: &str) -> Result<String> {
    let input: serde_json::Value = serde_json::from_str(payload)
        .map_err(|error| Error::new(INVALID_ARGUMENT, error.to_string()))?;
    Ok(serde_json::json!({ "user": context.user_id(), "echo": input }).to_string())
}

/// Writes what the client sent to storage, and reads it again.
fn store(context: &Context, payload: &str) -> Result<String> {
    let place = [
        ("collection", Value::from("rust")),
        ("key", "k".into()),
        ("user_id", context.user_id().into()),
    ];
    let mut object = Value::map(place.clone());
    object.set("value", nk::call_one("json_decode", &[payload.into()])?);
    object.set("permission_read", 1);
    let written = nk::storage_write(vec![object])?;
    let read = nk::storage_read(vec![Value::map(place)])?;
    let (written, read) = (&written.items()[0], &read.items()[0]);
    let value = nk::call_one("json_encode", &[read.get("value").cloned().unwrap_or_default()])?;
    let same = written.get("version") == read.get("version");
    Ok(format!("{{\"same\":{same},\"value\":{}}}", value.as_str().unwrap_or("null")))
}

/// Never ends: the server stops it.
fn spin() -> Result<String> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns + 1);
    }
}

/// Refuses long names, and writes the others in capitals.
fn short_names(_: &Context, mut request: Value) -> Result<Option<Value>> {
    let name = request.get("display_name").and_then(Value::as_str).unwrap_or_default();
    if name.chars().count() > NAME_LETTERS_MAX {
        return Err(Error::new(INVALID_ARGUMENT, "name too long"));
    }
    let name = name.to_uppercase();
    request.set("display_name", name);
    Ok(Some(request))
}

/// A match: who is there, and how hard it is.
struct Arena {
    level: i64,
    present: Vec<Presence>,
}

fn open(_: &MatchContext, params: Value) -> Result<(Arena, Opened)> {
    let level = params.get("level").and_then(Value::as_int).unwrap_or_default();
    let opened = Opened { tick_rate_hz: 20, label: "{\"game\":\"arena\"}".to_owned() };
    Ok((Arena { level, present: Vec::new() }, opened))
}

impl Match for Arena {
    fn join_attempt(&mut self, _: &MatchContext, join: &Join) -> Result<Verdict> {
        if join.metadata.get("ticket").and_then(Value::as_str) == Some("forged") {
            return Ok(Err("forged ticket".to_owned()));
        }
        Ok(if self.present.len() < PLAYERS_MAX { Ok(()) } else { Err("full".to_owned()) })
    }

    fn join(&mut self, dispatcher: Dispatcher, _: i64, who: &[Presence]) -> Result<bool> {
        self.present.extend_from_slice(who);
        let welcome = format!("{{\"joined\":{},\"level\":{}}}", who.len(), self.level);
        dispatcher.broadcast(WELCOME, welcome.as_bytes(), None)?;
        Ok(true)
    }

    fn leave(&mut self, _: Dispatcher, _: i64, who: &[Presence]) -> Result<bool> {
        self.present.retain(|one| !who.contains(one));
        Ok(!self.present.is_empty())
    }

    fn tick(&mut self, dispatcher: Dispatcher, _: i64, messages: &[Message]) -> Result<bool> {
        for message in messages {
            let Message { sender, op_code, data, .. } = message;
            match *op_code {
                ECHO => dispatcher.broadcast_from(ECHO, data, None, sender)?,
                TO_SENDER => {
                    dispatcher.broadcast(TO_SENDER, data, Some(std::slice::from_ref(sender)))?;
                }
                _ => {
                    spin()?;
                }
            }
        }
        Ok(true)
    }

    fn signal(&mut self, _: Dispatcher, _: i64, data: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Some([b"heard ", data].concat()))
    }
}
