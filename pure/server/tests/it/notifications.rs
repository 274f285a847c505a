//! Notifications reach every socket of their users, on every core, and those of other users nobody's
//! connection.

use crate::rig::{Client, Plan, Rig, member};

const MODULE: &str = "
    local nk = require('nakama')
    nk.register_rpc(function(context, payload)
        nk.notification_send(payload, 'hello', { n = 1 }, 1)
        return 'sent'
    end, 'send')
    nk.register_rpc(function(context, payload)
        nk.notification_send_all('to all', {}, 2, true)
        return 'sent'
    end, 'send_all')
    nk.register_rpc(function(context, payload)
        local many = {}
        for i = 1, 16385 do
            many[i] = { user_id = payload, subject = 'many', content = {}, code = 1 }
        end
        local ok, text = pcall(nk.notifications_send, many)
        return tostring(text)
    end, 'send_many')
    nk.register_rpc(function(context, payload)
        return nk.match_create('teller', { user = payload })
    end, 'match')
";

const TELLER: &str = "
    local nk = require('nakama')
    local function init(context, params)
        nk.notification_send(params.user, 'from a match', {}, 1)
        return {}, 1, ''
    end
    local function loop(context, dispatcher, tick, state) return state end
    return { match_init = init, match_loop = loop }
";

fn rig() -> Rig {
    let modules = &[("tell.lua", MODULE), ("teller.lua", TELLER)];
    Rig::with(&Plan { cores: 2, rooms: 3, modules, ..Plan::default() })
}

/// The subjects of all notifications that came.
fn told(rig: &Rig, client: Client) -> Vec<String> {
    let frames = rig.frames(client);
    assert!(frames.iter().all(|it| it.starts_with("{\"notifications\"")), "{frames:?}");
    frames.iter().map(|it| member(it, "subject")).collect()
}

#[test]
fn every_socket_of_a_user_gets_them_and_no_other() {
    let rig = rig();
    let (id, token) = rig.login("ann");
    let (_, other) = rig.login("bob");
    let ann = [0, 1].map(|core| rig.socket(core, &token, ""));
    let bob = rig.socket(1, &other, "&status=true");
    let shown = rig.stat("notifications_shown");
    assert_eq!(rig.rpc("send", &id), "sent");
    assert_eq!(ann.map(|client| told(&rig, client)), [["hello"], ["hello"]]);
    rig.frames(bob);
    assert_eq!(rig.rpc("send_all", ""), "sent");
    assert_eq!(ann.map(|client| told(&rig, client)), [["to all"], ["to all"]]);
    assert_eq!(told(&rig, bob), ["to all"]);
    assert_eq!(rig.stat("notifications_shown") - shown, 5);
    // From the room where the match is, whichever that is.
    for _ in 0..8 {
        assert!(rig.rpc("match", &id).contains(".node1"));
        assert_eq!(told(&rig, ann[0]), ["from a match"]);
    }
    // More than one call may send.
    let refusal = "one call may send 16384 notifications with 16777216 bytes";
    assert!(rig.rpc("send_many", &id).ends_with(refusal));
    assert_eq!(rig.stat("notifications_refused"), 1);
}

#[test]
fn friends_are_told_unless_they_are_behind() {
    let rig = rig();
    let (_, ann) = rig.login("ann");
    let (id, bob) = rig.login("bob");
    let [first, behind] = [0, 1].map(|core| rig.socket(core, &bob, ""));
    rig.set_behind(behind);
    let client = rig.open(0);
    let invite = format!("POST /v2/friend?ids={id}");
    let answer = rig.http(client, &invite, &format!("Bearer {ann}"), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(told(&rig, first), ["ann wants to add you as a friend"]);
    assert_eq!(told(&rig, behind), [""; 0]);
    // What a game sends is for the game to bound.
    assert_eq!(rig.rpc("send", &id), "sent");
    assert_eq!(told(&rig, behind), ["hello"]);
}
