//! Fleets as people write them, right and wrong.

use super::{Fleet, Query, Restart, Wall, parse};

/// The example of the guide and of `throng host --help`.
const ARENA: &str = r#"
[[server]]
name = "arena"
count = 2
command = ["/usr/games/openarena-server", "+set", "dedicated", "1", "+set", "net_port", "27960", "+map", "oa_dm1"]
port = 27960                 # both insist on it: the wall gives each an address of its own
wall = "network"
ready = { query = "quake3" } # or port, log line, SDK call
"#;

#[test]
fn a_fleet_is_read() {
    let fleet = parse(ARENA).unwrap();
    let server = &fleet.server[0];
    assert_eq!((server.wall, server.port), (Wall::Network, Some(27_960)));
    assert_eq!((server.ready.query, server.restart), (Some(Query::Quake3), Restart::OnFailure));
    assert_eq!(server.names().collect::<Vec<_>>(), ["arena-1", "arena-2"]);
    assert_eq!(fleet.host.subnet.to_string(), "10.213.0.0/16");
    assert!(fleet.host.isolated);
    let fleet = fleet.over("10.9.0.0/24".parse().unwrap()).unwrap();
    assert_eq!(fleet.host.subnet.to_string(), "10.9.0.0/24");
}

fn one(more: &str) -> Result<Fleet, String> {
    let text = format!("[[server]]\nname = 'a'\ncommand = ['true']\n{more}\n");
    parse(&text).map_err(|error| error.to_string())
}

#[test]
fn every_key_is_obeyed_or_refused() {
    let all = "count = 3\ndir = '/srv'\nenv = { A = 'b' }\nport = 9\nwall = 'network'\n\
        ready = { log = 'up', timeout = '5s' }\nrestart = 'always'\nstop_grace = '1s'\n\
        writable = ['/srv/game']\nseccomp = 'off'\n\
        limits = { memory = '64M', pids = 32, disk = '16M', log = '64K' }\n\
        cpu = { cores = '0', weight = 200, realtime = 5 }";
    let fleet = one(all).unwrap();
    assert_eq!(fleet.server[0].limits.pids, Some(32));
    assert_eq!(one("").unwrap().server[0].names().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn mistakes_say_where_what_and_how() {
    for (more, parts) in [
        ("prot = 1", &["line 4: `prot = 1`", "no key `prot`", "did you mean `port`?"][..]),
        ("wall = 'netwrk'", &["line 4", "no word `netwrk`", "did you mean `network`?"]),
        ("ready = { query = 'quake' }", &["line 4", "no word `quake`", "quake3"]),
        ("ready = { query = 'a2s' }", &["server `a`: `port`: is missing"]),
        ("ready = { log = 'x', sdk = true }", &["`ready`: name one of"]),
        ("ready = { log = '' }", &["`log` is empty"]),
        ("port = 0", &["`port`: 1 to 65535"]),
        ("port = 70000", &["line 4: `port = 70000`"]),
        ("count = 0", &["`count`: 1 to 1000"]),
        ("count = 2\nport = 9", &["`port`: 2 servers share", "{port}", "wall = \"network\""]),
        ("limits = { memory = '1M' }", &["`limits.memory`: takes wall = \"cgroup\""]),
        ("limits = { memory = 'lots' }", &["line 4", "`lots` is not a number of bytes"]),
        ("cpu = { weight = 0 }\nwall = 'cgroup'", &["`cpu.weight`: 1 to 10000"]),
        ("cpu = { realtime = 100 }", &["`cpu.realtime`: a priority of 1 to 99"]),
        ("cpu = { cores = '1-0' }", &["line 4", "is not a set of processors"]),
        ("cpu = { quota = 20 }", &["no key `quota` here, but cores, weight, realtime"]),
        ("writable = ['x']\nwall = 'files'", &["`writable`: folders as absolute paths"]),
        ("stop_grace = 5", &["line 4: `stop_grace = 5`", "write stop_grace = \"5s\""]),
        ("ready = { timeout = 5 }", &["line 4", "write timeout = \"5s\""]),
        ("port = '9'", &["line 4", "write port = 9, without quotes"]),
        ("[host]\napi = '9400'", &["line 5", "write api = \"127.0.0.1:9400\""]),
        ("[host]\napi = 9400", &["line 5", "write api = \"127.0.0.1:9400\""]),
        ("[[server]]\nname = 'b'\ncommand = 'sleep 5'", &["write command = [\"sleep\", \"5\"]"]),
        ("[[server]]\nname = 'b'\ncommand = ['x', '{prot}']", &["`command`", "mean {port}?"]),
        ("env = { AT = '{adress}:1' }", &["`env`: there is no {adress}", "mean {address}?"]),
        (
            "port = 7001\n[[server]]\nname = 'b'\ncommand = ['x', '{port}']\nport = 7000\ncount = 2",
            &["server `b`: `port`: `b-2` and `a` would both have 7001"],
        ),
        (
            "port = 7000\ncount = 2\nready = { sdk = true }\n\
             agones = { ports = [{ name = 'a', port = 7000 }, { name = 'b', port = 7001 }] }",
            &["`port`: `a-2` and `a-1` would both have 7001"],
        ),
        ("stop_grace = '5'", &["line 4", "`5` is not a length of time"]),
        ("[host]\nsubnet = '10.0.0.1/24'", &["line 5", "is not a network"]),
        ("[host]\napi = '0.0.0.0:1'", &["[host]: `api`", "no TLS"]),
        ("[[server]]\nname = 'a'\ncommand = ['x']", &["`name`: is used twice"]),
        (
            "count = 2\n[[server]]\nname = 'a-1'\ncommand = ['x']",
            &["two servers would be called `a-1`"],
        ),
        (
            "wall = 'network'\n[[server]]\nname = 'b'\ncommand = ['x']\ncount = 6\n[host]\nsubnet = '10.0.0.0/29'",
            &["7 are needed, one for each server"],
        ),
        ("[[server]]\nname = 'b'", &["line 4: `[[server]]`: lacks `command`", "write command ="]),
        ("[[server]]\nname = 'B b'\ncommand = ['x']", &["server `B b`: `name`: 1 to 40 of"]),
        ("[[server]]\nname = 'b'\ncommand = []", &["server `b`: `command`: is empty"]),
        ("[[server]]\nname = 'b'\ncommand = ['x']\ncount = 1000", &["1001 servers: 1000 are"]),
        (
            "count = 9\nwall = 'network'\n[host]\nsubnet = '10.0.0.0/29'",
            &["`subnet`: 10.0.0.0/29 has 5 addresses", "9 are needed"],
        ),
    ] {
        let error = one(more).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{more}\n{part}\n{error}");
        }
    }
    let fleet = one("count = 6\nwall = 'network'").unwrap();
    let error = fleet.over("10.0.0.0/29".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("10.0.0.0/29 has 5 addresses"), "{error}");
    let error = parse("").unwrap_err().to_string();
    assert!(error.contains("[[server]]"), "{error}");
    assert!(parse("[[server]\n").unwrap_err().to_string().contains("line 1"));
}

#[test]
fn a_table_of_one_and_ports_of_ones_own() {
    let error = parse("[server]\nname = 'a'\n").unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("write [[server]]"), "{error}");
    // A network of one's own has all ports; other words in braces are the program's.
    let apart =
        "port = 7\n[[server]]\nname = 'b'\ncommand = ['x', '{map}']\nport = 7\nwall = 'network'";
    assert!(one(apart).is_ok());
}
