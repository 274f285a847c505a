//! The fast path of `json_encode` and `json_decode`, from the VM's stack to a text and from a text onto it. An RPC of a
//! game begins and ends with these two, and half of what they cost was the host's values in between.
//!
//! ```text
//! nk.json_encode(value) ─▶ fast path ─▶ true, text     of what is simple and small: see tables::json_encode
//!                                   └▶ nothing         ─▶ the function of the host table, as any other (`vm`)
//! ```
//!
//! The fast path says nothing of what is wrong: what it does not take, the slow one does again and words.

use mlua::{Function, Lua};
use tables::Metering;

use crate::budget::VmMeter;

/// The fast path of a host function, if it has one: returns true and the result, or nothing.
pub(crate) fn fast_path(lua: &Lua, function: &str) -> mlua::Result<Option<Function>> {
    match function {
        "json_encode" => tables::json_encode::<RunningCall>(lua).map(Some),
        "json_decode" => tables::json_decode::<RunningCall>(lua).map(Some),
        _ => Ok(None),
    }
}

struct RunningCall;

impl Metering for RunningCall {
    type Meter<'a> = VmMeter<'a>;

    fn meter(lua: &Lua) -> VmMeter<'_> {
        VmMeter::new(lua)
    }
}
