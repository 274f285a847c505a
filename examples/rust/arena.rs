//! A game in Rust for throng: RPC functions, storage, a hook before a call, and a match of up to ten players. The same
//! game is written in Lua, JavaScript and Go beside this folder.
//!
//! ```sh
//! rustup target add wasm32-wasip1
//! cargo build --release --target wasm32-wasip1 --manifest-path guests/rust/Cargo.toml --example arena
//! cp guests/rust/target/wasm32-wasip1/release/examples/arena.wasm data/modules/
//! ```
//!
//! A client's way into a match: call the RPC `arena_find`, join `{"match_id": "…"}` over the socket, listen for
//! `WELCOME`, and send `TO_SENDER` or `TO_ALL`, which come back to oneself or to everybody.

use throng_guest::api::UpdateAccountRequest;
use throng_guest::{
    Context, Dispatcher, Error, Initializer, Join, Match, MatchContext, Message, Opened, Presence,
    Result, Value, Verdict, nk,
};

throng_guest::module!(init_module);

// Operation codes: what a message means. The numbers are the game's own choice.
const TO_SENDER: i64 = 1;
const TO_ALL: i64 = 2;
const WELCOME: i64 = 50;

const TICK_RATE_HZ: u8 = 10;
const PLAYERS_MAX: usize = 10;
/// A match that nobody is in ends after a minute.
const EMPTY_TICKS_MAX: u32 = 60 * TICK_RATE_HZ as u32;
const NAME_LETTERS_MAX: usize = 20;

// gRPC codes, which clients of all languages know.
const INVALID_ARGUMENT: u8 = 3;
const FAILED_PRECONDITION: u8 = 9;

fn init_module(initializer: &mut Initializer) -> Result<()> {
    initializer.register_rpc("echo", echo)?;
    initializer.register_rpc("store", store)?;
    initializer.register_rpc("fail", |_, _| Err(Error::new(FAILED_PRECONDITION, "not today")))?;
    initializer.register_rpc("spin", |_, _| spin())?;
    initializer.register_rpc("path", path)?;
    initializer.register_rpc("arena", |_, _| new_arena())?;
    initializer.register_rpc("arena_find", find_arena)?;
    initializer.before_update_account(short_names)?;
    initializer.register_match("arena", open)
}

/// What the client sent, decoded and encoded again, with who sent it.
fn echo(context: &Context, payload: &str) -> Result<String> {
    let input: serde_json::Value = serde_json::from_str(payload)
        .map_err(|_| Error::new(INVALID_ARGUMENT, "the payload is not JSON"))?;
    Ok(serde_json::json!({ "user": context.user_id(), "echo": input }).to_string())
}

/// Writes what the client sent to storage, and reads it again.
fn store(context: &Context, payload: &str) -> Result<String> {
    let place = [
        ("collection", Value::from("arena")),
        ("key", "k".into()),
        ("user_id", context.user_id().into()),
    ];
    let mut object = Value::map(place.clone());
    object.set("value", nk::json_decode(payload)?);
    object.set("permission_read", 1);
    let written = nk::storage_write(vec![object])?;
    let read = nk::storage_read(vec![Value::map(place)])?;
    let same = written[0].get("version") == read[0].get("version");
    let value = read[0].get("value").map_or_else(String::new, Value::to_json);
    Ok(format!("{{\"same\":{same},\"value\":{value}}}"))
}

/// Never ends: the server stops it.
fn spin() -> Result<String> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns + 1);
    }
}

/// Side of a maze of side × side cells. In every other row there is a wall with one gap, at its right or left end in
/// turns, so that the only way from the first corner to the goal leads through every cell.
const SIDE: i32 = 63;
const CELLS: usize = (SIDE * SIDE) as usize;
const NEIGHBOURS: [(i32, i32); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

fn is_wall(x: i32, y: i32) -> bool {
    let gap = if y % 4 == 1 { SIDE - 1 } else { 0 };
    y % 2 == 1 && x != gap
}

/// The way through the maze, breadth first: what costs time in many games.
fn path(_: &Context, _: &str) -> Result<String> {
    let mut steps: Vec<Option<u32>> = vec![None; CELLS];
    let mut queue = vec![(0, 0)];
    let mut head = 0;
    steps[0] = Some(0);
    while let Some(&(x, y)) = queue.get(head) {
        let so_far = steps[(y * SIDE + x) as usize].unwrap_or_default();
        if (x, y) == (0, SIDE - 1) {
            return Ok(format!("{{\"seen\":{},\"steps\":{so_far}}}", queue.len()));
        }
        head += 1;
        for (by_x, by_y) in NEIGHBOURS {
            let (x, y) = (x + by_x, y + by_y);
            let is_inside = (0..SIDE).contains(&x) && (0..SIDE).contains(&y);
            if !is_inside || is_wall(x, y) {
                continue;
            }
            let there = &mut steps[(y * SIDE + x) as usize];
            if there.is_none() {
                *there = Some(so_far + 1);
                queue.push((x, y));
            }
        }
    }
    Err(Error::new(FAILED_PRECONDITION, "there is no way"))
}

/// A new match: `{"match_id": "…"}`.
fn new_arena() -> Result<String> {
    let id = nk::match_create("arena", Some(Value::map([("level", 3_i64.into())])))?;
    Ok(format!("{{\"match_id\":\"{id}\"}}"))
}

/// A match with a free seat, or a new one. Two players may be told of the same seat: the second one is refused when
/// joining, and asks again.
fn find_arena(_: &Context, _: &str) -> Result<String> {
    let seats = i64::try_from(PLAYERS_MAX).unwrap_or(i64::MAX);
    let label = Some("+label.game:arena");
    let found = nk::match_list(Some(1), Some(true), None, None, Some(seats - 1), label)?;
    match found.first().and_then(|one| one.get("match_id")?.as_str()) {
        Some(id) => Ok(format!("{{\"match_id\":\"{id}\"}}")),
        None => new_arena(),
    }
}

/// Refuses long names, and writes the others in capitals.
fn short_names(
    _: &Context,
    mut request: UpdateAccountRequest,
) -> Result<Option<UpdateAccountRequest>> {
    let name = request.display_name.unwrap_or_default();
    if name.chars().count() > NAME_LETTERS_MAX {
        return Err(Error::new(INVALID_ARGUMENT, "name too long"));
    }
    request.display_name = Some(name.to_uppercase());
    Ok(Some(request))
}

/// A match: how hard it is, how many are there, and for how long nobody was.
struct Arena {
    level: i64,
    present: usize,
    empty_ticks: u32,
}

fn open(_: &MatchContext, params: Value) -> Result<(Arena, Opened)> {
    let level = params.get("level").and_then(Value::as_int).unwrap_or_default();
    let opened = Opened { tick_rate_hz: TICK_RATE_HZ, label: "{\"game\":\"arena\"}".to_owned() };
    Ok((Arena { level, present: 0, empty_ticks: 0 }, opened))
}

impl Match for Arena {
    fn join_attempt(&mut self, _: &MatchContext, join: &Join) -> Result<Verdict> {
        if join.metadata.get("ticket").and_then(Value::as_str) == Some("forged") {
            return Ok(Err("forged ticket".to_owned()));
        }
        Ok(if self.present < PLAYERS_MAX { Ok(()) } else { Err("match full".to_owned()) })
    }

    fn join(&mut self, dispatcher: Dispatcher, _: i64, who: &[Presence]) -> Result<bool> {
        self.present += who.len();
        let welcome = format!("{{\"joined\":{},\"level\":{}}}", who.len(), self.level);
        dispatcher.broadcast(WELCOME, welcome.as_bytes(), None)?;
        Ok(true)
    }

    fn leave(&mut self, _: Dispatcher, _: i64, who: &[Presence]) -> Result<bool> {
        self.present = self.present.saturating_sub(who.len());
        Ok(true)
    }

    /// Called at every tick, with the messages that came since the last one; `false` ends the match.
    fn tick(&mut self, dispatcher: Dispatcher, _: i64, messages: &[Message]) -> Result<bool> {
        for message in messages {
            let Message { sender, op_code, data, .. } = message;
            match *op_code {
                TO_SENDER => {
                    let to = Some(std::slice::from_ref(sender));
                    dispatcher.broadcast_from(TO_SENDER, data, to, sender)?;
                }
                TO_ALL => dispatcher.broadcast_from(TO_ALL, data, None, sender)?,
                _ => {
                    spin()?;
                }
            }
        }
        self.empty_ticks = if self.present == 0 { self.empty_ticks + 1 } else { 0 };
        Ok(self.empty_ticks < EMPTY_TICKS_MAX)
    }

    fn signal(&mut self, _: Dispatcher, _: i64, data: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Some([b"heard ", data].concat()))
    }
}
