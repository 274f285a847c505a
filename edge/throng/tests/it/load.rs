//! `throng load` from outside, against servers that are well, ill, wrong, killed or not there: the
//! exit code, what is printed, and what stands in result.json.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::{Config, Ran, flat, free_port, throng};

mod limits;
mod room;

/// One operation, forty a second by four players.
const SCENARIO: &str = "name='asking'\ntitle='t'\nplayers=4\nrate=40\ntimeout='2s'\n\
                        [[session]]\nname='s'\n[[session.loop]]\nop='ask'\nget='/plaintext'\n";

/// The same, at even distances, where a test counts what has happened.
fn evenly() -> String {
    SCENARIO.replace("name='s'\n", "name='s'\nprocess='constant'\n")
}

/// A folder that is gone when the test is done.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-load-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, below: &str) -> String {
        self.0.join(below).to_str().unwrap().to_owned()
    }

    fn result(&self, run: &str) -> Value {
        let text = std::fs::read(self.0.join(run).join("result.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process of the binary, of which one output is read line by line; ended when dropped.
struct Process {
    child: Child,
    lines: BufReader<Box<dyn Read>>,
    seen: String,
}

/// The program, with SIGHUP as it is by default: under nohup(1) it would inherit that it is to be
/// ignored, and heeds that. Source: env(1) of GNU coreutils 8.31 and later, proc_pid_status(5).
fn heeding_hangups() -> Command {
    let program = env!("CARGO_BIN_EXE_throng");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_none_or(|mask| mask & 1 == 0) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", program]);
    command
}

impl Process {
    /// A server: its log is what is read.
    fn server(args: &[&str]) -> Self {
        Self::start(args, |child| Box::new(child.stdout.take().unwrap()))
    }

    /// A run: its progress on the standard error is what is read.
    fn load(args: &[&str]) -> Self {
        let args = [&["load", "--warmup", "0s"], args].concat();
        Self::start(&args, |child| Box::new(child.stderr.take().unwrap()))
    }

    /// A search: likewise.
    fn find(args: &[&str]) -> Self {
        Self::start(&[&["load", "find"], args].concat(), |child| {
            Box::new(child.stderr.take().unwrap())
        })
    }

    fn start(args: &[&str], output: impl Fn(&mut Child) -> Box<dyn Read>) -> Self {
        let mut child = heeding_hangups()
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let lines = BufReader::new(output(&mut child));
        Self { child, lines, seen: String::new() }
    }

    /// Reads up to the line that fits, and returns it.
    fn until(&mut self, fits: impl Fn(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            assert!(count > 0, "ended before the line came:\n{}", self.seen);
            self.seen.push_str(&line);
            if fits(&line) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// To all of its processes, as a closed terminal or `timeout` sends it.
    fn signal_all(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end of a run.
    fn end(mut self) -> Ran {
        let (mut out, mut err) = (String::new(), std::mem::take(&mut self.seen));
        self.lines.read_to_string(&mut err).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        Ran { code: self.child.wait().unwrap().code(), out, err }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A real server, and the port it listens on.
fn serve(folder: &Folder, port: u16) -> (Process, u16) {
    let (port, data, modules) = (port.to_string(), folder.path("data"), folder.path("modules"));
    std::fs::create_dir_all(&modules).unwrap();
    let mut process = Process::server(&[
        "serve",
        "--socket.port",
        &port,
        "--data_dir",
        &data,
        "--runtime.path",
        &modules,
        "--engine.pin",
        "false",
    ]);
    let port = listens(&mut process);
    (process, port)
}

/// Waits until a server says at which port it listens.
fn listens(server: &mut Process) -> u16 {
    const SAYS: &str = "listening on http://127.0.0.1:";
    let line = server.until(|line| line.contains(SAYS));
    let (_, rest) = line.split_once(SAYS).unwrap();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    rest[..digits].parse().unwrap()
}

/// A server of the test's own: `answer` has each connection in turn.
fn stub(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

/// Reads one request; `false` when there is none.
fn request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        let Ok(1) = stream.read(&mut byte) else { return false };
        seen.push(byte[0]);
    }
    true
}

/// A short run; its result, if it wrote one.
fn load(folder: &Folder, args: &[&str]) -> (Ran, Value) {
    let out = folder.path("out");
    let fixed = ["--duration", "1s", "--warmup", "0s", "--out", &out];
    let ran = throng(&[&["load"], args, &fixed].concat());
    let has_result = folder.0.join("out/result.json").exists();
    let result = if has_result { folder.result("out") } else { Value::Null };
    (ran, result)
}

/// How often an error of this kind happened; the seconds have to tell the same.
fn count(result: &Value, kind: &str) -> u64 {
    for (place, error) in result["errors"].as_array().unwrap().iter().enumerate() {
        let seconds = result["series"].as_array().unwrap().iter();
        let kinds = seconds.filter_map(|second| second["errors_by"].as_array()).flatten();
        let of_kind = kinds.filter(|it| it[0].as_u64() == u64::try_from(place).ok());
        let sum: u64 = of_kind.map(|it| it[1].as_u64().unwrap()).sum();
        assert_eq!(error["count"].as_u64(), Some(sum), "{error}");
    }
    let errors = result["errors"].as_array().unwrap().iter();
    let fits = |error: &&Value| error["kind"].as_str().unwrap().starts_with(kind);
    errors.filter(fits).map(|error| error["count"].as_u64().unwrap()).sum()
}

fn last_line(ran: &Ran) -> &str {
    ran.err.lines().last().unwrap_or("")
}

#[test]
fn nothing_listens() {
    let folder = Folder::new("nothing");
    let url = format!("http://127.0.0.1:{}", free_port());
    let (ran, result) = load(&folder, &["register", "--target", &url]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{}", ran.err);
    for part in ["connection refused", &url, "--target", "--server"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(result.is_null() && !folder.0.join("out").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_found_out_before_the_run() {
    let folder = Folder::new("unwritable");
    std::fs::write(folder.path("file"), "x").unwrap();
    let url = stub(|_| panic!("a run has begun"));
    for (flag, place) in [("--out", "file/below"), ("--json", "no/x.json"), ("--junit", "no/x")] {
        let place = folder.path(place);
        let ran = throng(&["load", "plaintext", "--target", &url, flag, &place]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{}", ran.err);
        assert!(ran.err.contains(flag) && ran.err.contains(&place), "{}", ran.err);
    }
}

#[test]
fn a_wrong_key_and_an_unknown_function_have_cures() {
    let folder = Folder::new("key");
    let (_server, port) = serve(&folder, 0);
    let url = format!("http://127.0.0.1:{port}");
    for (args, kind, reason, cure) in [
        (
            &["rpc-lua", "--server-key", "wrong"][..],
            "status 401",
            "no player became ready: ",
            "--server-key",
        ),
        (&["rpc-lua", "--rpc", "none"], "status 404", "nothing was answered", "--rpc"),
    ] {
        let args = [args, &["--players", "4", "--rate", "40", "--target", &url]].concat();
        let (ran, result) = load(&folder, &args);
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        let out = flat(&ran.out);
        for part in [&format!("FAILED: {reason}"), kind, "e.g. {\"code\":", cure] {
            assert!(out.contains(part), "{part}:\n{}", ran.out);
        }
        // Empty tables help nobody.
        assert!(!out.contains("p99"), "{}", ran.out);
        assert!(last_line(&ran).contains(reason), "{}", ran.err);
        assert!(count(&result, kind) >= 4, "{result}");
    }
}

#[test]
fn a_server_that_talks_something_else_is_named() {
    for (name, hello, part) in [
        ("ssh", &b"SSH-2.0-OpenSSH_9.9\r\n"[..], "an SSH server listens there"),
        ("tls", b"\x15\x03\x01\x00\x02\x02\x16", "begin --target with https://"),
        ("other", b"* OK IMAP4 \"ready\"\x1b[2J\r\n", "wrong port in --target"),
    ] {
        let folder = Folder::new(name);
        let scenario = Config::new(&format!("{name}.toml"), SCENARIO);
        let url = stub(move |mut stream| {
            if request(&mut stream) {
                let _ = stream.write_all(hello);
            }
        });
        let (ran, result) = load(&folder, &[scenario.path(), "--target", &url]);
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert!(flat(&ran.out).contains(part), "{}", ran.out);
        assert!(ran.out.contains("FAILED: nothing was answered"), "{}", ran.out);
        assert!(!ran.out.contains('\x1b') && !ran.out.contains("\\\""), "{}", ran.out);
        assert!(count(&result, "not HTTP") > 0, "{result}");
    }
}

#[test]
fn a_server_that_answers_half_and_closes_is_an_error() {
    let folder = Folder::new("half");
    let scenario = Config::new("half.toml", SCENARIO);
    let url = stub(|mut stream| {
        if request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it");
        }
    });
    let (ran, result) = load(&folder, &[scenario.path(), "--target", &url]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let error = &result["errors"][0];
    let kind = error["kind"].as_str().unwrap();
    assert!(kind.starts_with("connection closed") && kind.ends_with("within an answer"), "{kind}");
    assert!(error["count"].as_u64() >= Some(4), "{result}");
    assert!(ran.out.contains(&format!("ask: {kind}")), "{}", ran.out);
    assert!(flat(&ran.out).contains("→ the server hung up"), "{}", ran.out);
    assert!(last_line(&ran).contains(kind), "{}", ran.err);
    assert_eq!(result["ops"][0]["done"], 0);
}

#[test]
fn a_server_that_closes_after_each_answer_is_fine() {
    let folder = Folder::new("closes");
    // Evenly: of twelve arrivals at random there may be five.
    let scenario = Config::new("closes.toml", &evenly());
    let url = stub(|mut stream| {
        if request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let args = [scenario.path(), "--rate", "12", "--target", &url, "--expect", "errors == 0"];
    let (ran, result) = load(&folder, &args);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let done = result["ops"][0]["done"].as_u64().unwrap();
    let closed = count(&result, "idle connection closed by the server");
    assert!(done >= 8 && closed + 4 >= done, "{done} answers, {closed} closed");
    assert!(ran.out.contains("idle connection closed") && ran.out.contains("→ harmless"));
    assert!(ran.out.contains("ok     errors == 0: errors is 0"), "{}", ran.out);
}

#[test]
fn a_server_that_is_killed_and_comes_back_does_not_end_the_run() {
    let folder = Folder::new("killed");
    let (mut server, port) = serve(&folder, 0);
    let (url, out) = (format!("http://127.0.0.1:{port}"), folder.path("out"));
    let mut run = Process::load(&[
        "register",
        "--players",
        "4",
        "--rate",
        "100",
        "--duration",
        "5s",
        "--target",
        &url,
        "--out",
        &out,
    ]);
    run.until(|line| line.contains("counted"));
    server.kill();
    // At once: an outage of two seconds would end the run.
    let (_server, _) = serve(&folder, port);
    let ran = run.end();
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let result = folder.result("out");
    assert!(result["counted_s"].as_f64().unwrap() >= 4.9 && result["ended"] == "");
    let kinds = ["connection", "connect"];
    let lost: u64 = kinds.iter().map(|kind| count(&result, kind)).sum();
    assert!(lost > 0, "{result}");
    let series = result["series"].as_array().unwrap();
    let failed = series.iter().position(|second| second["errors"].as_u64() > Some(0)).unwrap();
    let answered = |second: &Value| {
        second["stage"] == "counted" && second["ops"][0]["done"].as_u64() > Some(10)
    };
    assert!(series[..failed].iter().any(answered) && series[failed + 1..].iter().any(answered));
    // Nothing of it is hidden.
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    for error in result["errors"].as_array().unwrap() {
        let kind = error["kind"].as_str().unwrap();
        assert!(ran.out.contains(kind) && page.contains(kind), "{kind}");
    }
    assert!(ran.out.contains("errors (whole run)") && flat(&ran.out).contains("its log says"));
}

#[test]
fn a_server_that_is_killed_and_stays_away_ends_the_run() {
    let folder = Folder::new("gone");
    let toml = Config::new("gone.toml", SCENARIO);
    for processes in ["1", "2"] {
        let mut server = Process::server(&["echo", "--port", "0"]);
        let url = format!("http://127.0.0.1:{}", listens(&mut server));
        let out = folder.path(processes);
        let mut run = Process::load(&[
            toml.path(),
            "--duration",
            "60s",
            "--processes",
            processes,
            "--target",
            &url,
            "--out",
            &out,
        ]);
        // Of several processes the first stretch may be short.
        run.until(|line| line.contains("counted"));
        run.until(|line| line.contains("counted"));
        server.kill();
        let killed = Instant::now();
        let ran = run.end();
        // Two seconds, and what a busy machine takes for the rest.
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        let ended = "the server is gone: every connection had ended, and for 2 s none could be made: \
                     connect: refused";
        assert!(flat(&ran.out).contains(&format!("ENDED EARLY: {ended}")), "{}", ran.out);
        assert!(last_line(&ran).ends_with(ended), "{}", ran.err);
        assert!(!ran.out.contains("at its limit") && ran.out.contains("p99"), "{}", ran.out);
        let result = folder.result(processes);
        assert!(result["ended"].as_str().unwrap().starts_with(ended), "{result}");
        assert!(result["ops"][0]["done"].as_u64() > Some(0), "{result}");
    }
}

#[test]
fn a_server_of_the_run_that_is_killed_fails_the_run() {
    let folder = Folder::new("server-killed");
    let toml = Config::new("killed.toml", SCENARIO);
    let (out, pid) = (folder.path("out"), folder.path("pid"));
    let binary = env!("CARGO_BIN_EXE_throng");
    let server = format!("sh -c 'echo $$ > {pid}; exec {binary} echo --port 0'");
    let arguments = ["--duration", "2s", "--server", &server, "--out", &out];
    let expect = ["--expect", "server_memory < 100GB", "--expect", "ops_per_cpu_s != 1"];
    let mut run = Process::load(&[&[toml.path()][..], &arguments, &expect].concat());
    run.until(|line| line.contains("counted"));
    let pid = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let ran = run.end();
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let line = last_line(&ran);
    assert!(line.starts_with("throng: asking: the server ended after "), "{line}");
    assert!(line.ends_with(" s (signal 9, SIGKILL)"), "{line}");
    assert!(ran.out.trim_start().starts_with("FAILED: the server ended after "), "{}", ran.out);
    assert!(!ran.out.contains("at its limit"), "{}", ran.out);
    for metric in ["server_memory", "ops_per_cpu_s"] {
        assert!(ran.out.contains(&format!("{metric} was not measured")), "{}", ran.out);
    }
    let log = folder.path("out/server.log");
    assert!(std::fs::read_to_string(&log).unwrap().contains("listening on"), "{log}");
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    for text in [&ran.out, &page] {
        assert!(flat(text).contains("the server ended after") && text.contains("listening on"));
        assert!(flat(text).contains(&log), "{text}");
    }
}

#[test]
fn a_scenario_that_stops_on_an_error_ends_the_run_and_says_why() {
    let folder = Folder::new("stop");
    let toml = Config::new("stop.toml", &format!("{SCENARIO}on_error='stop'\n"));
    let mut server = Process::server(&["echo", "--port", "0"]);
    let url = format!("http://127.0.0.1:{}", listens(&mut server));
    let out = folder.path("out");
    let mut run =
        Process::load(&[toml.path(), "--duration", "60s", "--target", &url, "--out", &out]);
    run.until(|line| line.contains("counted"));
    server.kill();
    let ran = run.end();
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let ended = "the scenario stopped the run (on_error = \"stop\"): ask: connect";
    assert!(flat(&ran.out).contains(&format!("ENDED EARLY: {ended}")), "{}", ran.out);
    assert!(ran.out.contains("p99"), "what was measured stands there too\n{}", ran.out);
    assert!(last_line(&ran).contains(ended), "{}", ran.err);
    let result = folder.result("out");
    assert!(result["ended"].as_str().unwrap().starts_with(ended), "{result}");
    assert!(
        result["counted_s"].as_f64().unwrap() < result["settings"]["planned_s"].as_f64().unwrap()
    );
}

#[test]
fn an_interrupt_ends_all_runs_and_keeps_what_was_measured() {
    let folder = Folder::new("interrupt");
    let (one, two) = (
        Config::new("one.toml", SCENARIO),
        Config::new("two.toml", &SCENARIO.replace("asking", "asking-on")),
    );
    let out = folder.path("out");
    let server = format!("{} echo --port 0", env!("CARGO_BIN_EXE_throng"));
    let mut run = Process::load(&[
        one.path(),
        two.path(),
        "--duration",
        "60s",
        "--server",
        &server,
        "--out",
        &out,
    ]);
    run.until(|line| line.contains("counted"));
    run.signal(Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, Some(130), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("ENDED EARLY: interrupted (SIGINT)"), "{}", ran.out);
    assert!(ran.out.contains("\nrun "), "the overview comes at the end\n{}", ran.out);
    assert!(last_line(&ran).contains("SIGINT in run 1 of 2"), "{}", ran.err);
    let result = folder.result("out/asking");
    assert_eq!(result["ended"], "interrupted (SIGINT)");
    assert_eq!(result["settings"]["planned_s"], 60.0);
    assert!(result["counted_s"].as_f64().unwrap() < 30.0);
    assert_eq!(count(&result, ""), 0, "the server outlives the run: {result}");
    assert!(!folder.0.join("out/asking-on").exists());
}

#[test]
fn what_ends_all_processes_at_once_keeps_what_was_measured() {
    for (signal, name, code) in [(Signal::TERM, "SIGTERM", 143), (Signal::HUP, "SIGHUP", 129)] {
        let folder = Folder::new(name);
        let (one, out) = (Config::new("one.toml", SCENARIO), folder.path("out"));
        let server = format!("{} echo --port 0", env!("CARGO_BIN_EXE_throng"));
        let arguments =
            ["--processes", "2", "--duration", "60s", "--server", &server, "--out", &out];
        let mut run = Process::load(&[&[one.path()][..], &arguments].concat());
        // A second later each process has sent some of it, however busy the machine is.
        run.until(|line| line.contains("counted"));
        run.until(|line| line.contains("counted"));
        run.signal_all(signal);
        let ran = run.end();
        assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
        let result = folder.result("out");
        assert_eq!(result["ended"], format!("interrupted ({name})"));
        assert!(result["ops"][0]["done"].as_u64().unwrap() > 0, "{result}");
        let pid = i32::try_from(result["server"]["pid"].as_u64().unwrap()).unwrap();
        let is_gone = rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_err();
        assert!(is_gone, "the server is left behind");
    }
}

#[test]
fn a_run_that_could_not_begin_has_failed_in_junit() {
    let folder = Folder::new("junit");
    let (one, junit) = (Config::new("one.toml", SCENARIO), folder.path("junit.xml"));
    let target = format!("http://127.0.0.1:{}", free_port());
    let ran = throng(&["load", one.path(), "--target", &target, "--junit", &junit]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("<failure message=\"could not begin: nothing listens there"), "{xml}");
}

#[test]
fn a_result_of_another_version_is_not_laid_beside_others() {
    let folder = Folder::new("version");
    let result = "{\"version\":2}";
    std::fs::write(folder.path("result.json"), result).unwrap();
    let ran = throng(&["load", "table", &folder.path("")]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("version 2"), "{}", ran.err);
}

#[test]
fn several_scenarios_run_in_turn_with_servers_processes_and_depths() {
    let folder = Folder::new("several");
    let (out, junit) = (folder.path("out"), folder.path("junit.xml"));
    let server = format!("{} echo --port 0", env!("CARGO_BIN_EXE_throng"));
    let ran = throng(&[
        "load",
        "plaintext",
        "json",
        "--pipeline",
        "1,2",
        "--processes",
        "2",
        "--players",
        "4",
        "--rate",
        "200",
        "--warmup",
        "0s",
        "--duration",
        "300ms",
        "--server",
        &server,
        "--out",
        &out,
        "--junit",
        &junit,
        "--expect",
        "json.failed == 0",
    ]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let mut pids = Vec::new();
    for (name, depth) in [("plaintext", 1), ("plaintext", 2), ("json", 1), ("json", 2)] {
        let result = folder.result(&format!("out/{name}/pipeline-{depth}"));
        assert_eq!(
            (&result["scenario"], &result["settings"]["pipeline"]),
            (&name.into(), &depth.into())
        );
        assert!(result["ops"][0]["done"].as_u64().unwrap() > 10, "{result}");
        // A run binds itself to a processor; the next one has to see all of them again.
        assert_eq!(
            result["environment"]["processors"],
            folder.result("out/json/pipeline-1")["environment"]["processors"]
        );
        pids.push(result["server"]["pid"].as_u64().unwrap());
    }
    pids.dedup();
    assert_eq!(pids.len(), 4, "each run has a server of its own");
    let (_, overview) = ran.out.rsplit_once("\nrun ").unwrap();
    let rows: Vec<&str> = overview.lines().skip(1).collect();
    let starts = ["plaintext ", "plaintext, 2 ", "json ", "json, 2 "];
    assert_eq!(rows.len(), 4, "{overview}");
    assert!(rows.iter().zip(starts).all(|(row, start)| row.starts_with(start)), "{overview}");
    assert_eq!(ran.out.matches("ok     json.failed == 0").count(), 2, "{}", ran.out);
    let xml = std::fs::read_to_string(junit).unwrap();
    assert_eq!(xml.matches("<testsuite ").count(), 4, "{xml}");
    assert!(!xml.contains("<failure"), "{xml}");
}

#[test]
fn a_target_that_is_named_wins_over_what_the_server_prints() {
    let folder = Folder::new("named");
    let (named, said) = (free_port(), free_port());
    let server = format!(
        "sh -c 'echo listening on http://127.0.0.1:{said}; exec {} echo --port {named}'",
        env!("CARGO_BIN_EXE_throng")
    );
    let url = format!("http://127.0.0.1:{named}");
    let short = ["plaintext", "--players", "4", "--rate", "40", "--server"];
    let (ran, result) = load(&folder, &[&short[..], &[&server, "--target", &url]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(result["settings"]["target"], *url);
    // Something else there already would be measured in its place.
    let taken = stub(|_| ());
    let (ran, _) = load(&folder, &[&short[..], &[&server, "--target", &taken]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("already") && ran.err.contains(&taken), "{}", ran.err);
}

#[test]
fn expectations_that_fail_are_the_last_line() {
    let folder = Folder::new("expect");
    let scenario = Config::new("expect.toml", SCENARIO);
    let url = stub(|mut stream| {
        while request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let expect = ["--expect", "ask.rate > 1M", "--expect", "errors == 0"];
    let (ran, result) =
        load(&folder, &[&[scenario.path(), "--target", &url], &expect[..]].concat());
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("FAILED ask.rate > 1M: ask.rate is ")
            && ran.out.contains("ok     errors == 0")
    );
    assert!(last_line(&ran).contains("1 of 2 expectations failed"), "{}", ran.err);
    let verdicts = result["expectations"].as_array().unwrap();
    let told = |at: usize| (verdicts[at]["condition"].as_str(), verdicts[at]["holds"].as_bool());
    assert_eq!(told(0), (Some("ask.rate > 1M"), Some(false)), "{verdicts:?}");
    assert_eq!(told(1), (Some("errors == 0"), Some(true)), "{verdicts:?}");
    assert!(verdicts[0]["found"].as_str().unwrap().starts_with("ask.rate is "), "{verdicts:?}");
    let page = std::fs::read_to_string(folder.0.join("out/report.html")).unwrap();
    assert!(page.contains("<b>FAILED</b><code>ask.rate &gt; 1M</code>"));
    assert!(ran.out.contains("mean service time, 1 s") && result["ended"] == "", "{}", ran.out);
}
