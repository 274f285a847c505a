//! `throng host` from outside: fleets of small servers that are this test's own program again, some of
//! them hostile, with a well-behaved neighbour beside.
//!
//! What takes root is passed over without it. Every test has a folder and a network of its own, none of which
//! is in the subnet that a fleet has if its file names none: such a fleet may run here.

mod faults;
mod inherit;
mod network;
mod ramp;
mod sdk;
mod server;
mod spy;
mod traces;
mod user;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::throng;

/// Time for something that takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Whether walls can be put up here.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: takes root");
    }
    is_root
}

/// `throng`, from a shell that does something before.
fn after(before: &str) -> Command {
    if before.is_empty() {
        return Command::new(env!("CARGO_BIN_EXE_throng"));
    }
    let mut command = Command::new("/bin/sh");
    let program = server::reachable(env!("CARGO_BIN_EXE_throng"));
    command.args(["-c", &format!("{before}\nexec \"$@\""), "sh"]).arg(program);
    command
}

/// A daemon with its fleet. Everything is taken down at the latest when it is dropped.
struct Fleet {
    folder: PathBuf,
    file: PathBuf,
    child: Child,
    out: Receiver<String>,
    /// Lines that nobody has asked for yet.
    said: Vec<String>,
    /// What a shell does before it becomes the daemon.
    before: &'static str,
}

impl Fleet {
    /// Runs a fleet. `SERVER` in the text is the command of a server of [`server`], up to its mode.
    fn run(name: &str, text: &str) -> Self {
        Self::run_with(name, text, &[])
    }

    fn run_with(name: &str, text: &str, flags: &[&str]) -> Self {
        Self::run_as("toml", name, text, flags)
    }

    /// With a file whose name ends so.
    fn run_as(kind: &str, name: &str, text: &str, flags: &[&str]) -> Self {
        Self::run_after("", kind, name, text, flags)
    }

    /// By a shell that does something before; `"$@"` in it is the daemon's command, which it becomes in the
    /// end.
    fn run_after(before: &'static str, kind: &str, name: &str, text: &str, flags: &[&str]) -> Self {
        let own = format!("throng-it-host-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(&own);
        let file = std::env::temp_dir().join(format!("{own}.{kind}"));
        std::fs::write(&file, text.replace("SERVER", &server::command())).unwrap();
        let (child, out) = Self::start(before, &folder, &file, flags);
        Self { folder, file, child, out, said: Vec::new(), before }
    }

    fn start(
        before: &str,
        folder: &Path,
        file: &Path,
        flags: &[&str],
    ) -> (Child, Receiver<String>) {
        let mut child = after(before)
            .args(["host", "run", "--folder"])
            .arg(folder)
            .arg(file)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, out) = channel();
        // Ends with the daemon.
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        (child, out)
    }

    /// A daemon again, after the first has ended.
    fn again(&mut self, flags: &[&str]) {
        let _ = self.child.wait();
        self.said.clear();
        (self.child, self.out) = Self::start(self.before, &self.folder, &self.file, flags);
    }

    /// The first line with `part` in it that was not given before.
    fn line_with(&mut self, part: &str) -> String {
        loop {
            if let Some(at) = self.said.iter().position(|line| line.contains(part)) {
                return self.said.remove(at);
            }
            match self.out.recv_timeout(PATIENCE) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no `{part}`: {:?}\n{}", self.said, self.ask(&["ps"]).out)
                }
            }
        }
    }

    fn ask(&self, args: &[&str]) -> crate::Ran {
        let mut all = vec!["host"];
        all.extend_from_slice(args);
        all.extend_from_slice(&["--folder", self.folder.to_str().unwrap()]);
        throng(&all)
    }

    /// A server, as `ps --json` has it.
    fn status(&self, name: &str) -> Value {
        let ran = self.ask(&["ps", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let all: Value = serde_json::from_str(&ran.out).unwrap();
        let servers = all["servers"].as_array().unwrap();
        servers.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{all}")).clone()
    }

    /// A server, as soon as it is so. Each look is a process, so that nothing spins.
    fn when(&self, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status(name);
            if is_so(&status) {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "{status}\n{}", self.ask(&["logs", name]).out);
        }
    }

    fn is_what(&self, name: &str, part: &str) -> Value {
        self.when(name, |it| it["what"].as_str().unwrap().contains(part))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Asserts that everything is taken down and nothing is left.
    fn ends(mut self) {
        let tag = self.tag();
        self.signal(Signal::INT);
        assert!(self.child.wait().unwrap().success());
        assert!(!self.folder.exists(), "{}", self.folder.display());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.folder.to_str().unwrap()), "{mounts}");
        assert_eq!(traces::of(&tag), [""; 0]);
    }

    /// What the names of its groups and links begin with: the folder's path, folded.
    fn tag(&self) -> String {
        let path = self.folder.canonicalize().unwrap();
        let bytes = path.as_os_str().as_encoded_bytes();
        let fold = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        format!("thr{:05}", bytes.iter().fold(0x811c_9dc5, fold) % 100_000)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What the daemon had no time for.
        let mut clean = after(self.before);
        clean.args(["host", "clean", "--folder"]).arg(&self.folder);
        let _ = clean.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn two_servers_that_insist_on_one_port_stand_side_by_side() {
    if !is_root() {
        return;
    }
    let text = "[host]\nsubnet = '10.177.16.0/24'\n\
        [[server]]\nname = 'arena'\ncount = 2\ncommand = [SERVER 'quake3', '27960']\nport = 27960\n\
        wall = 'network'\nready = { query = 'quake3' }\n\
        limits = { memory = '256M', pids = 32, disk = '8M' }\ncpu = { weight = 200, cores = '0' }\n";
    let mut fleet = Fleet::run("twins", text);
    fleet.line_with("ready at 10.177.16.");
    fleet.line_with("ready at 10.177.16.");
    let (one, two) = (fleet.status("arena-1"), fleet.status("arena-2"));
    assert_ne!(one["address"], two["address"]);
    for status in [&one, &two] {
        assert!(status["address"].as_str().unwrap().ends_with(":27960"), "{status}");
        assert_eq!((&status["players"], &status["players_max"]), (&3.into(), &16.into()));
        // From outside as a player's machine would.
        let address = status["address"].as_str().unwrap();
        assert!(server::answers(address), "{address}");
        assert_eq!(status["ticks_late"], Value::Null);
    }
    let text = fleet.ask(&["ps"]).out;
    assert!(text.lines().count() == 3 && text.contains("3/16"), "{text}");
    assert!(fleet.ask(&["logs", "arena-1"]).out.contains("up"));
    // One that is given away is nobody else's.
    let given = fleet.ask(&["allocate", "arena"]).out;
    assert!(given.starts_with("arena-1 10.177.16."), "{given}");
    assert_eq!(fleet.status("arena-1")["state"], "allocated");
    assert!(fleet.ask(&["allocate"]).out.starts_with("arena-2 "));
    assert!(fleet.ask(&["allocate"]).err.contains("no server is ready"));
    assert!(fleet.ask(&["stop", "arnea"]).err.contains("did you mean `arena`?"));
    assert_eq!(fleet.ask(&["stop", "arena-1"]).code, Some(0));
    assert_eq!(fleet.status("arena-1")["state"], "stopped");
    assert_eq!(fleet.ask(&["start", "arena-1"]).code, Some(0));
    fleet.when("arena-1", |it| it["state"] == "ready");
    assert!(fleet.ask(&["top", "--once"]).out.contains("2 servers: 1 ready, 1 allocated"));
    fleet.ends();
}

/// What is tried with 64 of OpenArena by hand (docs/host.md), with fewer and smaller ones.
#[test]
fn many_come_up_are_reached_and_go_without_a_trace() {
    if !is_root() {
        return;
    }
    const COUNT: usize = 16;
    let text = format!(
        "[host]\nsubnet = '10.177.18.0/24'\n\
         [[server]]\nname = 'many'\ncount = {COUNT}\ncommand = [SERVER 'quake3', '27960']\n\
         port = 27960\nwall = 'network'\nready = {{ query = 'quake3' }}\n"
    );
    let mut fleet = Fleet::run("many", &text);
    for _ in 0..COUNT {
        fleet.line_with(": ready at 10.177.18.");
    }
    let mut addresses = std::collections::BTreeSet::new();
    for index in 1..=COUNT {
        let status = fleet.status(&format!("many-{index}"));
        let address = status["address"].as_str().unwrap().to_owned();
        assert!(server::answers(&address), "{status}");
        assert!(addresses.insert(address), "{status}");
    }
    let own = fleet.folder.file_name().unwrap().to_str().unwrap().to_owned();
    fleet.ends();
    assert!(traces::processes_with(&own).is_empty());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&own), "{mounts}");
}

#[test]
fn servers_outlive_their_daemon_and_go_on_under_the_next() {
    if !is_root() {
        return;
    }
    let text = "[host]\nsubnet = '10.177.17.0/24'\n\
        [[server]]\nname = 'kept'\ncommand = [SERVER 'quake3', '27960']\nport = 27960\n\
        wall = 'network'\nready = { query = 'quake3' }\n\
        [[server]]\nname = 'plain'\ncommand = [SERVER 'quake3', '{port}']\nport = 27961\n\
        ready = { query = 'quake3' }\n\
        [[server]]\nname = 'gone'\ncommand = [SERVER 'forks', '3']\nwall = 'files'\n";
    let mut fleet = Fleet::run("kept", text);
    for _ in 0..3 {
        fleet.line_with(": ready");
    }
    fleet.ask(&["allocate", "kept"]);
    let pids = ["kept", "plain"].map(|it| fleet.status(it)["pid"].clone());
    fleet.signal(Signal::KILL);
    let _ = fleet.child.wait();
    assert!(fleet.ask(&["ps"]).err.contains("no daemon runs there"));
    // The next one's file does not have the third server any more.
    let shorter = std::fs::read_to_string(&fleet.file).unwrap();
    let shorter = shorter.split("[[server]]\nname = 'gone'").next().unwrap().to_owned();
    std::fs::write(&fleet.file, shorter).unwrap();
    fleet.again(&[]);
    let line = fleet.line_with("an earlier daemon left");
    assert!(line.contains("2 servers go on; ended and removed: gone"), "{line}");
    let now = ["kept", "plain"].map(|it| fleet.status(it)["pid"].clone());
    assert_eq!(pids, now);
    assert_eq!(fleet.status("kept")["state"], "allocated");
    fleet.when("plain", |it| it["state"] == "ready" && it["players"] == 3);
    assert!(traces::processes_with("throng-it-forks").is_empty());
    // An adopted server that ends is noticed and started again, also with its output.
    let pid = now[1].as_i64().and_then(|it| Pid::from_raw(i32::try_from(it).unwrap()));
    kill_process(pid.unwrap(), Signal::KILL).unwrap();
    fleet.line_with("plain: failed: ended; how is not known");
    fleet.when("plain", |it| it["state"] == "ready" && it["restarts"] == 1);
    fleet.ends();
}

#[test]
fn a_daemon_that_keeps_its_servers_leaves_them_to_the_next() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'a'\ncommand = [SERVER 'quake3', '{port}']\nport = 27962\n\
        wall = 'cgroup'\nready = { query = 'quake3' }\n";
    let mut fleet = Fleet::run_with("keep", text, &["--keep"]);
    fleet.line_with("a: ready");
    let pid = fleet.status("a")["pid"].clone();
    fleet.signal(Signal::TERM);
    fleet.again(&[]);
    fleet.line_with("1 server goes on");
    assert_eq!(fleet.status("a")["pid"], pid);
    // What a killed daemon leaves is removed by who says that he wants nothing of it.
    fleet.signal(Signal::KILL);
    let _ = fleet.child.wait();
    let tag = fleet.tag();
    assert!(!traces::of(&tag).is_empty());
    let stopped = fleet.ask(&["stop", "--all"]).out;
    assert!(stopped.contains("no daemon runs") && stopped.contains("removed: a"), "{stopped}");
    assert_eq!(traces::of(&tag), [""; 0]);
    assert!(!fleet.folder.exists());
}

#[test]
fn a_terminal_that_goes_away_leaves_the_servers_running() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'a'\ncommand = ['sleep', '1000']\nwall = 'cgroup'\ncount = 1\n";
    let mut fleet = Fleet::run("hangup", text);
    fleet.line_with("a-1: ready");
    // It never calls the SDK; what is written down for it is kept all the same.
    assert_eq!(fleet.ask(&["allocate", "a", "--label", "map=dm1"]).code, Some(0));
    let pid = fleet.status("a-1")["pid"].clone();
    fleet.signal(Signal::HUP);
    let line = fleet.line_with("runs on");
    assert!(line.starts_with("1 server runs on: `throng host run --folder "), "{line}");
    assert!(fleet.child.wait().unwrap().success());
    let ran = fleet.ask(&["ps"]);
    assert!(ran.err.contains("but 1 server of an earlier one still runs"), "{}", ran.err);
    // One more of them changes nothing of the first.
    std::fs::write(&fleet.file, text.replace("count = 1", "count = 2")).unwrap();
    fleet.again(&[]);
    fleet.line_with("1 server goes on");
    fleet.line_with("a-2: ready");
    let status = fleet.status("a-1");
    assert_eq!((&status["pid"], &status["sdk"]["labels"]["map"]), (&pid, &"dm1".into()));
    assert_eq!(status["what"], "adopted from an earlier daemon", "{status}");
    fleet.ends();
}

#[test]
fn stop_all_ends_the_daemon() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'a'\ncount = 3\ncommand = ['sleep', '1000']\nwall = 'files'\n\
        stop_grace = '60s'\n";
    let mut fleet = Fleet::run("all", text);
    for _ in 0..3 {
        fleet.line_with(": ready");
    }
    let tag = fleet.tag();
    // `sleep` does not handle SIGTERM, which the first process of its own ids is not sent then.
    let since = Instant::now();
    assert_eq!(fleet.ask(&["stop", "--all"]).code, Some(0));
    assert!(since.elapsed() < Duration::from_secs(30));
    assert!(fleet.child.wait().unwrap().success());
    assert_eq!(traces::of(&tag), [""; 0]);
}

#[test]
fn the_api_wants_its_token() {
    if !is_root() {
        return;
    }
    use std::io::{Read as _, Write as _};
    let text = "[host]\napi = '127.0.0.1:0'\n[[server]]\nname = 'a'\ncommand = ['sleep', '1000']\n";
    let mut fleet = Fleet::run("api", text);
    let line = fleet.line_with("HTTP API on http://");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let token = std::fs::read_to_string(fleet.folder.join("token")).unwrap();
    let ask = |token: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!("Authorization: Bearer {token}\r\nConnection: close\r\n");
        write!(stream, "GET /v1/servers HTTP/1.1\r\nHost: a\r\n{head}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("wrong").starts_with("HTTP/1.1 401 "), "{}", ask("wrong"));
    let answer = ask(&token);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["servers"][0]["name"], "a");
    fleet.ends();
}

#[test]
fn mistakes_end_with_their_cure() {
    let folder = std::env::temp_dir().join(format!("throng-it-host-{}-no", std::process::id()));
    let folder = folder.to_str().unwrap();
    let ran = throng(&["host", "ps", "--folder", folder]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("throng host run FLEET.toml"), "{}", ran.err);
    let file = crate::Config::new("host.toml", "[[server]]\nname = 'a'\ncomand = ['x']\n");
    let ran = throng(&["host", "run", file.path(), "--folder", folder]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("line 3") && ran.err.contains("did you mean `command`?"),
        "{}",
        ran.err
    );
    for (text, part) in [
        (
            "command = ['/tmp/x']\nwall = 'network'",
            "/tmp is the server's own there: put it in /opt",
        ),
        ("command = ['x']\ncpu = { cores = '1000' }", "this machine has no processor 1000"),
    ] {
        let text = format!("[[server]]\nname = 'a'\n{text}\n");
        let file = crate::Config::new("here.toml", &text);
        let ran = throng(&["host", "run", file.path(), "--folder", folder]);
        assert!(ran.code == Some(2) && ran.err.contains(part), "{}", ran.err);
    }
    let file =
        crate::Config::new("well.toml", "[[server]]\nname = 'a'\ncommand = ['sleep', '9']\n");
    let long = format!("{folder}-{}", "x".repeat(100));
    let ran = throng(&["host", "run", file.path(), "--folder", &long]);
    assert!(ran.code == Some(1) && ran.err.contains("may have 107"), "{}", ran.err);
    assert!(!Path::new(&long).exists());
    let ran = throng(&["host", "stop", "--folder", folder]);
    assert!(ran.code == Some(2) && ran.err.contains("--all stops all"), "{}", ran.err);
    let text = "[[server]]\nname = 'a'\ncommand = ['x']\nport = 9\nwall = 'network'\n\
        ready = { query = 'quake3' }\n";
    let file = crate::Config::new("ramp.toml", text);
    let ran = throng(&["host", "ramp", file.path(), "--gate", "lateness_p99 <= 10%"]);
    let times = ran.err.matches("is not seen of").count();
    assert_eq!((ran.code, times), (Some(2), 1), "{}", ran.err);
    assert!(throng(&["host", "ramp", "--help"]).out.contains("[default: /run/throng-ramp]"));
    for without in ["game", "paths"] {
        assert!(!throng(&["host", without, "--help"]).out.contains("--folder"));
    }
    let help = throng(&["host", "--help"]).out;
    assert!(help.contains("wall = \"network\"") && help.contains("throng host stop --all"));
}

/// As somebody who is not root, where that can be tried.
#[test]
fn without_root_the_first_wall_works_and_others_say_what_they_take() {
    if !is_root() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("throng-it-host-{}-user", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
    let run = |wall: &str| {
        let text = format!(
            "[[server]]\nname = 'a'\ncommand = ['sh', '-c', 'echo up; exec sleep 1000']\n\
             wall = '{wall}'\nready = {{ log = 'up' }}\n"
        );
        let file = crate::Config::new(&format!("user-{wall}.toml"), &text);
        let child = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(server::reachable(env!("CARGO_BIN_EXE_throng")))
            .args(["host", "run", "--folder"])
            .arg(folder.join(wall))
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (child, file)
    };
    let (child, _file) = run("network");
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("takes root") && said.contains("wall = \"process\""), "{said}");
    let (mut child, _file) = run("process");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut read = String::new();
    while !read.contains("a: ready") {
        assert!(out.read_line(&mut read).unwrap() > 0, "{read}");
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&folder).unwrap();
}
