//! Networks of servers: who reaches whom, behind a bridge and by macvlan, and whose addresses are whose.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use engine::Namespace;

use super::{Fleet, is_root, server};

/// One, and another that tries to reach it once it is there.
fn two(host: &str, net: u8) -> String {
    format!(
        "[host]\nsubnet = '10.177.{net}.0/24'\n{host}\n\
         [[server]]\nname = 'one'\ncommand = [SERVER 'both', '27960']\nport = 27960\nwall = 'network'\n\
         ready = {{ query = 'quake3' }}\n\
         [[server]]\nname = 'two'\ncommand = [SERVER 'meets', '27960', '10.177.{net}.2:27960']\n\
         port = 27960\nwall = 'network'\nready = {{ query = 'quake3' }}\non_demand = true\n"
    )
}

/// What the second has met. Both are there then.
fn met(fleet: &mut Fleet) -> String {
    fleet.line_with("one: ready");
    assert_eq!(fleet.ask(&["allocate", "two"]).code, Some(0));
    let out = fleet.ask(&["logs", "two"]).out;
    let line = out.lines().find_map(|it| it.strip_prefix("met: "));
    line.unwrap_or_else(|| panic!("{out}")).to_owned()
}

/// Whether somebody here is reached by both ways.
fn reached(address: &str) -> (bool, bool) {
    let to = address.to_socket_addrs().unwrap().next().unwrap();
    let connected = TcpStream::connect_timeout(&to, Duration::from_secs(10));
    (server::answers(address), connected.is_ok())
}

#[test]
fn servers_on_a_bridge_meet_only_if_they_are_to() {
    if !is_root() {
        return;
    }
    for (net, host, wanted) in
        [(60, "", "UDP false, TCP false"), (61, "isolated = false", "UDP true, TCP true")]
    {
        let mut fleet = Fleet::run(&format!("meet-{net}"), &two(host, net));
        assert_eq!(met(&mut fleet), wanted);
        // The machine meets all of them.
        for last in [2, 3] {
            assert_eq!(reached(&format!("10.177.{net}.{last}:27960")), (true, true));
        }
        fleet.ends();
    }
}

/// An isolation that the file says only now holds of servers that go on.
#[test]
fn servers_that_go_on_are_isolated_as_the_file_says_now() {
    if !is_root() {
        return;
    }
    let mut fleet = Fleet::run("meet-kept", &two("isolated = false", 62));
    assert_eq!(met(&mut fleet), "UDP true, TCP true");
    fleet.signal(rustix::process::Signal::KILL);
    let _ = fleet.child.wait();
    let text = std::fs::read_to_string(&fleet.file).unwrap();
    std::fs::write(&fleet.file, text.replace("isolated = false", "")).unwrap();
    fleet.again(&[]);
    fleet.line_with("2 servers go on");
    let tag = fleet.tag();
    for slot in [0, 1] {
        let path = format!("/sys/class/net/{tag}v{slot}/brport/isolated");
        assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "1");
    }
    fleet.ends();
}

/// A cable to another machine, whose end here servers stand beside. It goes with that machine.
struct Cable {
    name: String,
    far: Namespace,
}

impl Cable {
    fn new(net: u8) -> Self {
        let name = format!("it{net}x{}", std::process::id());
        let far = Namespace::new().unwrap();
        let there = far.path();
        let made =
            format!("link add {name} type veth peer name eth0 netns {there}\nlink set {name} up\n");
        engine::ip(&made).unwrap();
        let set = format!("address add 10.177.{net}.254/24 dev eth0\nlink set eth0 up\n");
        far.within(|| engine::ip(&set)).unwrap().unwrap();
        Self { name, far }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = engine::ip(&format!("link del {}\n", self.name));
    }
}

#[test]
fn servers_beside_an_interface_are_reached_from_its_network() {
    if !is_root() {
        return;
    }
    for (net, host, wanted) in
        [(63, "", "UDP false, TCP false"), (64, "isolated = false\n", "UDP true, TCP true")]
    {
        let cable = Cable::new(net);
        let host = format!("{host}macvlan = '{}'", cable.name);
        let mut fleet = Fleet::run(&format!("macvlan-{net}"), &two(&host, net));
        assert_eq!(met(&mut fleet), wanted);
        for last in [2, 3] {
            let address = format!("10.177.{net}.{last}:27960");
            assert_eq!(cable.far.within(|| reached(&address)).unwrap(), (true, true));
        }
        fleet.ends();
    }
}

#[test]
fn a_subnet_that_somebody_has_is_refused() {
    if !is_root() {
        return;
    }
    let text = "[host]\nsubnet = '10.177.66.0/25'\n\
        [[server]]\nname = 'a'\ncommand = ['sleep', '1000']\nwall = 'network'\n";
    let mut first = Fleet::run("subnet-first", text);
    first.line_with("a: ready");
    // Of another size, and still the same addresses.
    let own = format!("throng-it-host-{}-subnet-second", std::process::id());
    let folder = std::env::temp_dir().join(own);
    let file = crate::Config::new("subnet.toml", &text.replace("66.0/25", "66.0/24"));
    let flags = ["host", "run", file.path(), "--folder", folder.to_str().unwrap()];
    let ran = crate::throng(&flags);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let bridge = format!("interface {}br has the address 10.177.66.1/25", first.tag());
    for part in ["subnet 10.177.66.0/24", &bridge, "nobody here uses 10.177.67.0/24", "--subnet"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = crate::throng(&[&flags[..], &["--subnet", "10.177.67.1/24"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("is not a network"), "{}", ran.err);
    std::fs::remove_dir_all(folder).unwrap();
    // What a flag says goes before what the file says.
    let mut second = Fleet::run_with("subnet-third", text, &["--subnet", "10.177.67.0/24"]);
    second.line_with("a: ready at 10.177.67.2");
    second.ends();
    first.ends();
}

/// Their addresses would be nobody's there.
#[test]
fn servers_of_another_subnet_do_not_go_on() {
    if !is_root() {
        return;
    }
    let text = "[host]\nsubnet = '10.177.71.0/24'\n\
        [[server]]\nname = 'a'\ncommand = [SERVER 'quake3', '27960']\nport = 27960\n\
        wall = 'network'\nready = { query = 'quake3' }\n";
    let mut fleet = Fleet::run("subnet-moves", text);
    fleet.line_with("a: ready at 10.177.71.2");
    fleet.signal(rustix::process::Signal::KILL);
    fleet.again(&["--subnet", "10.177.72.0/24"]);
    fleet.line_with("ended and removed: a");
    fleet.line_with("a: ready at 10.177.72.2");
    assert!(server::answers("10.177.72.2:27960"));
    fleet.ends();
}

/// Every way that there is here carries something; translation takes a program that may be missing.
#[test]
fn the_ways_to_a_server_are_compared() {
    if !is_root() {
        return;
    }
    let out = std::env::temp_dir().join(format!("throng-it-paths-{}", std::process::id()));
    let flags = ["--time", "200ms", "--rounds", "1", "--size", "64", "--streams", "1", "--out"];
    let ran = crate::throng(&[&["host", "paths"][..], &flags, &[out.to_str().unwrap()]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "{result}");
    for row in rows {
        let why = row["why"].as_str().unwrap();
        if why.contains("takes nft or iptables") {
            eprintln!("skipped: {why}");
            continue;
        }
        assert_eq!((why, row["rounds"].as_array().unwrap().len()), ("", 1), "{row}");
        let round = &row["rounds"][0];
        assert!(round["pings"][0]["times"]["count"].as_u64() > Some(0), "{row}");
        assert!(round["flows"][0]["bits_per_s"].as_f64() > Some(0.0), "{row}");
    }
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_server_has_the_real_time_class_that_it_asks_for() {
    if !is_root() {
        return;
    }
    for (net, wall) in [(68, "process"), (69, "cgroup"), (70, "network")] {
        let text = format!(
            "[host]\nsubnet = '10.177.{net}.0/24'\n\
             [[server]]\nname = 'a'\ncommand = ['sleep', '1000']\nwall = '{wall}'\n\
             cpu = {{ realtime = 5, cores = '0' }}\n"
        );
        let mut fleet = Fleet::run(&format!("realtime-{wall}"), &text);
        fleet.line_with("a: ready");
        let pid = fleet.when("a", |it| it["pid"].is_u64())["pid"].as_u64().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Priority and class; 2 is SCHED_RR. Source: proc_pid_stat(5), fields 40 and 41.
        assert_eq!((words[37], words[38]), ("5", "2"), "{stat}");
        fleet.ends();
    }
}
