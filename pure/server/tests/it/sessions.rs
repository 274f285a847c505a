//! Tokens that count no more, and what one call may post about them.

use crate::rig::{Plan, Rig};

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) nk.users_ban_id(nk.json_decode(payload)) end, 'ban')
    nk.register_rpc(function(context, payload) nk.users_unban_id(nk.json_decode(payload)) end, 'unban')
    nk.register_rpc(function(context, payload) nk.account_delete_id(payload) end, 'delete')
    nk.register_rpc(function(context, payload)
        for i = 1, 5000 do nk.localcache_put('key' .. i % 100, i) end
    end, 'fill')
    nk.register_rpc(function(context, payload) return tostring(nk.localcache_get('key99')) end, 'look')
    nk.register_rpc(function(context, payload)
        for i = 1, 3000 do nk.session_disconnect(payload) end
    end, 'disconnect')";

fn rig() -> Rig {
    Rig::with(&Plan { cores: 2, rooms: 2, modules: &[("rpcs.lua", RPCS)], ..Plan::default() })
}

fn is_good(rig: &Rig, token: &str) -> bool {
    let client = rig.open(1);
    let auth = format!("Bearer {token}");
    let answer = rig.http(client, "GET /v2/user?usernames=x", &auth, "");
    rig.closed(client, event::CloseReason::Peer);
    answer.starts_with("HTTP/1.1 200 ")
}

#[test]
fn bans_reach_every_core_in_one_mail_and_end_when_they_are_lifted() {
    let rig = rig();
    let players: Vec<_> = (0..20).map(|number| rig.login(&format!("player{number}"))).collect();
    let sockets: Vec<_> = players
        .iter()
        .zip(0..)
        .map(|((_, token), number)| rig.socket(number % 2, token, ""))
        .collect();
    let ids: Vec<&str> = players.iter().map(|(id, _)| id.as_str()).collect();
    let ids = format!("[\"{}\"]", ids.join("\",\""));
    rig.rpc("ban", &ids);
    for core in &rig.topology.cores {
        assert_eq!(rig.posted(*core, "sessions"), 1);
    }
    for socket in sockets {
        let frames = rig.frames(socket);
        assert!(frames.len() == 2 && frames[0].contains("banned"), "{frames:?}");
    }
    assert!(players.iter().all(|(_, token)| !is_good(&rig, token)));
    rig.rpc("unban", &ids);
    assert!(players.iter().all(|(_, token)| !is_good(&rig, token)), "old tokens stay as they are");
    rig.advance(1);
    let (_, token) = rig.login("player0");
    assert!(is_good(&rig, &token));
}

#[test]
fn one_call_posts_one_mail_to_each_thread_however_much_it_changes() {
    let rig = rig();
    let (_, token) = rig.login("ada");
    rig.socket(0, &token, "");
    rig.rpc("fill", "");
    for room in &rig.topology.rooms {
        assert_eq!(rig.posted(*room, "cache"), 1);
    }
    assert_eq!(rig.rpc("look", ""), "4999");
    rig.rpc("disconnect", "00000000-0000-4000-8000-000000000001");
    assert_eq!(rig.posted(rig.topology.cores[1], "sessions"), 1);
}

#[test]
fn who_is_deleted_is_gone_everywhere() {
    let rig = rig();
    let (id, token) = rig.login("ada");
    let socket = rig.socket(1, &token, "");
    rig.rpc("delete", &id);
    assert!(rig.frames(socket).iter().any(|frame| frame.starts_with("close 1000")));
    assert!(!is_good(&rig, &token));
}
