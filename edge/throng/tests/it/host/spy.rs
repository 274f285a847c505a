//! A server that tries to see and to touch what is not its own.

use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::{Fleet, is_root};

/// Tries everything, says what worked, and ends.
pub(super) fn look(what: &[&str]) {
    let [folder, neighbour, port] = what else { panic!("{what:?}") };
    let mut seen = Vec::new();
    let mut tried = |name: &str, worked: bool| {
        if worked {
            seen.push(name.to_owned());
        }
    };
    tried("the neighbour's home", fs::read_dir(format!("{folder}/servers/good/home")).is_ok());
    tried("the neighbour's log", fs::read(format!("{folder}/servers/good/log")).is_ok());
    tried("the list of servers", fs::read_dir(format!("{folder}/servers")).is_ok());
    tried("the daemon's socket", UnixStream::connect(format!("{folder}/control")).is_ok());
    tried("the daemon's token", fs::read(format!("{folder}/token")).is_ok());
    tried("shadow", fs::read("/etc/shadow").is_ok());
    tried("a disk", fs::File::open("/dev/vda").is_ok());
    tried("a file of the machine", fs::write("/etc/throng-it", "x").is_ok());
    let kill = |signal: &str| Command::new("kill").args([signal, neighbour]).status();
    tried("the neighbour's process", kill("-0").is_ok_and(|it| it.success()));
    let environment = fs::read(format!("/proc/{neighbour}/environ"));
    tried("the neighbour's variables", environment.is_ok_and(|it| !it.is_empty()));
    tried("the neighbour's files", fs::read_dir(format!("/proc/{neighbour}/root")).is_ok());
    tried("memory of another", fs::File::open(format!("/proc/{neighbour}/mem")).is_ok());
    let run = |command: &[&str]| {
        let output = Command::new(command[0]).args(&command[1..]).output();
        output.is_ok_and(|it| it.status.success())
    };
    tried("a mount", run(&["mount", "-t", "tmpfs", "x", "/tmp"]));
    tried("a user namespace", run(&["unshare", "--user", "true"]));
    tried("another user", run(&["setpriv", "--reuid=0", "true"]));
    tried("an interface", run(&["ip", "link", "add", "x", "type", "dummy"]));
    let low = UdpSocket::bind("127.0.0.1:1");
    tried("a low port", low.is_ok_and(|_| low_ports_are_kept()));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let value = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap_or("");
        line.trim().to_owned()
    };
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        tried(name, value(name).bytes().any(|it| it != b'0'));
    }
    tried("new privileges", value("NoNewPrivs:") != "1");
    tried("calls without a filter", value("Seccomp:") != "2");
    tried("other groups", !value("Groups:").is_empty());
    for (point, flags) in mounts() {
        let has = |flag: &str| flags.split(',').any(|it| it == flag);
        let forbids =
            if point.starts_with("/dev/") && point != "/dev/shm" { "noexec" } else { "nodev" };
        tried(&format!("{point} {flags}"), !has("nosuid") || !has(forbids));
    }
    let port = UdpSocket::bind(format!("0.0.0.0:{port}"));
    let taken = port.is_err_and(|it| it.kind() == ErrorKind::AddrInUse);
    let others = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|it| it.file_name().to_str().is_some_and(|it| it.parse::<u32>().is_ok()));
    println!("\nspy: {} processes, port taken: {taken}", others.count());
    println!("spy: seen: [{}]", seen.join(", "));
}

/// Where what is mounted, with what holds of it, where that is its own. Source: proc_pid_mountinfo(5).
fn mounts() -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let split = |line: &str| {
        let mut words = line.split(' ').skip(4).map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    let is_own = std::env::var("HOME").unwrap() == "/run/home";
    text.lines().filter(|_| is_own).filter_map(split).collect()
}

/// Containers often let everybody have them, which is a setting of the network namespace.
fn low_ports_are_kept() -> bool {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    first.is_ok_and(|it| it.trim() == "1024")
}

fn spied(name: &str, wall: &str, net: u8) -> (String, String) {
    // Of its own: at a port of another test that one's server would answer for ours.
    let port = 28_000 + u16::from(net);
    let good = format!(
        "[host]\nsubnet = '10.177.{net}.0/24'\napi = '127.0.0.1:0'\n\
         [[server]]\nname = 'good'\ncommand = [SERVER 'quake3', '{port}']\nport = {port}\n\
         wall = '{wall}'\nready = {{ query = 'quake3' }}\n"
    );
    // The spy is told where its neighbour is, so that it need not guess: it starts when that is known.
    let gate = format!("[[server]]\nname = 'spy'\ncommand = ['true']\nwall = '{wall}'\n");
    let mut fleet = Fleet::run(name, &format!("{good}{gate}"));
    fleet.line_with("good: ready");
    let pid = fleet.status("good")["pid"].to_string();
    fleet.signal(rustix::process::Signal::KILL);
    let folder = fleet.folder.to_str().unwrap().to_owned();
    let spy = format!(
        "[[server]]\nname = 'spy'\ncommand = [SERVER 'spy', '{folder}', '{pid}', '{port}']\nwall = '{wall}'\n\
         restart = 'never'\n"
    );
    let text = format!("{good}{spy}").replace("SERVER", &super::server::command());
    fs::write(&fleet.file, text).unwrap();
    fleet.again(&[]);
    fleet.line_with("spy: stopped");
    let out = fleet.ask(&["logs", "spy"]).out;
    let line = |part: &str| {
        let mut lines = out.lines().filter(|it| it.starts_with("spy: ") && it.contains(part));
        lines.next().unwrap_or_else(|| panic!("{out}")).to_owned()
    };
    let lines = (line("seen: "), line("processes"));
    assert_eq!(fleet.status("good")["state"], "ready");
    fleet.ends();
    lines
}

#[test]
fn behind_the_highest_wall_it_sees_nothing() {
    if !is_root() {
        return;
    }
    let (seen, counted) = spied("spy-network", "network", 40);
    assert_eq!(seen, "spy: seen: []");
    assert_eq!(counted, "spy: 1 processes, port taken: false");
}

#[test]
fn with_files_of_its_own_it_sees_no_process_but_the_ports() {
    if !is_root() {
        return;
    }
    let (seen, counted) = spied("spy-files", "files", 41);
    assert_eq!(seen, "spy: seen: []");
    assert_eq!(counted, "spy: 1 processes, port taken: true");
}

#[test]
fn behind_the_lowest_wall_it_touches_nothing() {
    if !is_root() {
        return;
    }
    let (seen, counted) = spied("spy-process", "process", 42);
    assert_eq!(seen, "spy: seen: []");
    assert!(counted.ends_with("port taken: true"), "{counted}");
}
