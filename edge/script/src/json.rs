//! `json_encode` and `json_decode` by the short way: from the VM's stack to a text and from a text onto it, without the
//! host's values between. A third of what an RPC that takes JSON and gives JSON costs was making those.
//!
//! ```text
//! nk.json_encode(value) ─▶ short way ─▶ true, text     of what is simple: see tables::write_json
//!                                    └▶ false          ─▶ the function of the host table, as any other (`vm`)
//! ```
//!
//! The short way says nothing of what is wrong: what it does not know, the long way does again and words. So errors,
//! budgets and warnings have one place each.

use mlua::{Function, Lua};
use tables::Payer;

use crate::budget::VmMeter;

/// The short way of a host function, if it has one: returns true and the result, or nothing.
pub(crate) fn short_way(lua: &Lua, function: &str) -> mlua::Result<Option<Function>> {
    match function {
        "json_encode" => tables::json_encode::<RunningCall>(lua).map(Some),
        "json_decode" => tables::json_decode::<RunningCall>(lua).map(Some),
        _ => Ok(None),
    }
}

struct RunningCall;

impl Payer for RunningCall {
    type Meter<'a> = VmMeter<'a>;

    fn meter(lua: &Lua) -> VmMeter<'_> {
        VmMeter::new(lua)
    }
}
