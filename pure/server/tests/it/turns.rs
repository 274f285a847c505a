//! Slow users and others take turns at the callers, and to have waited in vain is no turn.

use crate::fair::{call, call_of};
use crate::rig::{Plan, Rig};

const COUNT: &str =
    "local nk, n = require('nakama'), 0 local function f() n = n + 1 return '' .. n end
    nk.register_rpc(f, 'echo') nk.register_rpc(f, 'other')";

/// Not for the next ones, however often it is looked whether one of them may go.
#[test]
fn the_first_call_of_a_function_waits_for_one_slow_call_of_somebody_else() {
    for looks in 1..5 {
        let modules = &[("c.lua", COUNT)];
        let rig = Rig::with(&Plan { callers: 2, modules, ..Plan::default() });
        let [slow, newcomer] = ["slow", "newcomer"].map(|name| rig.login(name).1);
        rig.set_look_ms(900);
        call_of(&rig, &slow, "other");
        rig.settle();
        rig.topology.callers.iter().for_each(|caller| rig.freeze(*caller, true));
        let row = [(); 4].map(|()| call_of(&rig, &slow, "other"));
        let first = call(&rig, &newcomer);
        (0..looks).for_each(|_| rig.advance(100));
        rig.freeze(rig.topology.callers[0], false);
        rig.settle();
        let [first, second] = [first, row[0]].map(|it| rig.body(it).parse::<u32>().unwrap());
        assert_eq!(first, second + 1, "after {looks} looks");
    }
}
