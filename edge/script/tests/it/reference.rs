//! The host table describes what scripts find: every example of the reference runs as it stands.

use game::guest::CallContext;
use game::host::{FunctionKind, HostFunction, functions};
use store::Store;

use crate::host::TestHost;
use crate::straight::Straight as _;
use crate::{context, load_with, roomy, run_on, scripts_of};

/// Runs the example as a player would cause it to run.
fn run_example(function: &HostFunction) -> Result<(), String> {
    let store = Store::open_in_memory().unwrap();
    let mut host = TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() };
    let register = "return (nk.authenticate_device('device-of-ann', 'ann'))";
    let user_id = run_on(register, "", &mut host).unwrap().unwrap();
    let user_id = uuid::Uuid::try_parse(&user_id).unwrap();
    let context = CallContext {
        execution_mode: "rpc",
        user_id: Some(user_id),
        username: Some("ann".to_owned()),
        session_id: Some(user_id),
        ..CallContext::default()
    };
    match function.kind {
        FunctionKind::Missing => Ok(()),
        FunctionKind::Built(doc) => scripts_of(&doc.example(), roomy(), &mut host)
            .rpc(&mut host, &context, "test", b"{\"cell\":5}")
            .map(|_| ())
            .map_err(|error| error.message),
        FunctionKind::Language(doc) => load_with(&[("m.lua", &doc.example())], roomy(), &mut host)
            .map(|_| ())
            .map_err(|error| error.to_string()),
    }
}

#[test]
fn every_example_of_the_reference_runs() {
    let failed: Vec<String> = functions()
        .filter_map(|it| run_example(it).err().map(|error| format!("{}: {error}", it.name)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A name that the language binds and the table does not know would be missing in the reference,
/// and `throng check` would call it a typo.
#[test]
fn the_table_describes_what_lua_binds_itself() {
    // While modules load: later `nk` is sealed, and shows nothing to `pairs`.
    let text = "local nk, names = require('nakama'), {} \
                for name in pairs(nk) do names[#names + 1] = name end table.sort(names) \
                nk.register_rpc(function() return table.concat(names, ' ') end, 'test')";
    let mut host = TestHost::default();
    let mut scripts = load_with(&[("m.lua", text)], roomy(), &mut host).unwrap();
    let bound = scripts.rpc(&mut host, &context(), "test", b"");
    let mut own: Vec<&str> = functions()
        .filter(|function| matches!(function.kind, FunctionKind::Language(_)))
        .map(|function| function.name)
        .collect();
    own.sort_unstable();
    assert_eq!(bound.unwrap().unwrap(), own.join(" ").as_bytes());
}
