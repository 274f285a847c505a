//! The binary from outside: exit codes, what goes to which output, and what is never printed.
//!
//! What is deliberately not here: what a running server answers, which `dev/e2e` tests with real
//! clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod compare;
mod datagrams;
mod doctor;
mod echo;
mod flow;
mod flow_styles;
#[cfg(target_os = "linux")]
mod host;
mod load;
mod ping;
mod process;

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// What a run of the binary left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn throng(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_throng"))
        .args(args)
        .stdin(Stdio::null())
        // Nothing of the environment may change the outcome.
        .env("THRONG_SOCKET_PORT", "1")
        .env("NAKAMA_TELEMETRY", "1")
        .output()
        .unwrap();
    output.into()
}

/// A port at which nothing listens, nor at the one below it, where a server's gRPC would be. Nobody is given it
/// but the caller: no other test of this process, and no connection by the system (ip(7), `ip_local_port_range`),
/// as may happen to a port that was bound and given back.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + u16::try_from(std::process::id() % 5_000).unwrap();
    let is_free = |port: u16| {
        let address = (Ipv4Addr::LOCALHOST, port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(2, Ordering::Relaxed));
    ports.by_ref().take(1_000).find(|port| is_free(*port) && is_free(port - 1)).unwrap()
}

/// The text with every stretch of white space as one blank: where lines break does not matter.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A configuration file that is gone when the test is done.
struct Config(PathBuf);

impl Config {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-it-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn exit_codes_tell_who_was_wrong() {
    for (args, code, part) in [
        (&["--version"][..], 0, "throng "),
        (&["--help"], 0, "Examples:"),
        (&["serve", "--help"], 0, "--session.token_expiry_sec"),
        (&["echo", "--help"], 0, "each datagram goes back to its sender"),
        (&["load", "--help"], 0, "Exit codes:"),
        (&["doctor", "--help"], 0, "--undo"),
        (&["compare", "--help"], 0, "99 % confidence interval"),
        (&["ping", "--help"], 0, "Exit codes:"),
        (&["ping", "serve", "--help"], 0, "--per-address"),
        (&["flow", "--help"], 0, "Exit codes:"),
        (&["flow"], 2, "no target"),
        (&["flow", "127.0.0.1:1", "--expect", "goodput > 1s"], 2, "a rate in bits a second"),
        (&["flow", "127.0.0.1:1", "--ntttcp", "a.txt"], 2, "FILE.xml or FILE.json"),
        (&["ping"], 2, "no target"),
        (&["flow", "styles", "--help"], 0, "Exit codes:"),
        (&["flow", "styles", "--style", "x"], 2, "expected one of recv"),
        (&["ping", "127.0.0.1:1", "-h"], 2, "BOUNDS"),
        (&["load", "scenarios"], 0, "needs an RPC `echo_js` in JavaScript"),
        (&["load", "scenarios", "rpc-js"], 0, "name = \"rpc-js\"\n"),
        (&["load", "scenarios", "rpc-jz"], 2, "there is no scenario `rpc-jz`"),
        (&["load", "ccu", "--rate", "5"], 2, "scenario `ccu`: it has no paced loop"),
        (&["load", "rpc-lua", "ccu", "--rpc", "x"], 2, "scenario `ccu`: it has no variable"),
        (&["load", "ccu", "--target", "wss://a:1"], 2, "write http://host:port or https://host"),
        (&["load", "ccu", "--tls-ca", "a"], 2, "--tls-ca: no --target begins with https://"),
        (&["load", "ccu", "--expect", "x.rate > 1"], 2, "`ccu` has no operation `x`, but"),
        (&["load", "ccu", "--players", "0"], 2, "--players"),
        (&["options"], 0, "socket.port = 7350"),
        (&["options", "--markdown"], 0, "# Configuration"),
        (&["check"], 0, "the configuration is right"),
        (&[], 2, "Usage"),
        (&["fly"], 2, "fly"),
        (&["serve", "--socket.prot", "1"], 2, "--socket.port"),
        (&["serve", "--socket.port", "x"], 2, "`socket.port` (command line)"),
        (&["check", "--matchmaker.interval_sec", "3"], 0, "the matchmaker is not built yet"),
        (&["check", "--matchmaker.interval_sec", "3", "--strict"], 1, "1 warnings"),
        (&["check", "--socket.ssl_certificate", "a"], 2, "TLS is not built yet"),
        (&["keys"], 0, "session.encryption_key: \""),
        (&["functions", "storage_r"], 0, "nk.storage_read("),
        (&["calls", "getacc"], 0, "GET    /v2/account "),
        (&["calls", "getacount"], 1, "did you mean `GetAccount`"),
        (&["functions", "storage_raed"], 1, "did you mean `storage_read`"),
        (&["check", "--config", "/no/such.yaml"], 2, "/no/such.yaml: cannot be read"),
        (&["check", "--runtime.path", "/no/such"], 1, "`runtime.path`"),
    ] {
        let ran = throng(args);
        assert_eq!(ran.code, Some(code), "{args:?}\n{}{}", ran.out, ran.err);
        let text = if code == 0 { &ran.out } else { &ran.err };
        assert!(text.contains(part), "{args:?}\n{}{}", ran.out, ran.err);
    }
}

#[test]
fn later_files_win_and_flags_win_over_files() {
    let first = Config::new("first.yaml", "name: a\nsocket: {port: 1001, idle_timeout_ms: 1000}\n");
    let second = Config::new("second.yaml", "name: b\nsocket.port: 1002\n");
    let ran =
        throng(&["check", "--config", first.path(), "--config", second.path(), "--name", "c"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let line = |name: &str| {
        let line = ran.out.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or("").split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("name"), "c # command line");
    assert_eq!(line("socket.port"), format!("1002 # {}:2", second.path()));
    assert_eq!(line("socket.idle_timeout_ms"), format!("1000 # {}:2", first.path()));
    assert_eq!(line("socket.proxy_count"), "0 # default");
}

#[test]
fn secrets_of_a_file_are_printed_nowhere() {
    let keys = "session:\n  encryption_key: hush-1\n  refresh_encryption_key: hush-2\n\
                socket: {server_key: hush-3}\nruntime: {http_key: hush-4, env: [A=hush-5]}\n";
    let right = Config::new("right.yaml", keys);
    let wrong = Config::new("wrong.yaml", &format!("{keys}nope: 1\n"));
    for (file, code) in [(&right, 0), (&wrong, 2)] {
        let ran = throng(&["check", "--config", file.path()]);
        assert_eq!(ran.code, Some(code), "{}", ran.err);
        assert!(!ran.out.contains("hush") && !ran.err.contains("hush"), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn modules_in_other_languages_are_not_passed_over_silently() {
    let folder = std::env::temp_dir().join(format!("throng-it-{}-others", std::process::id()));
    std::fs::create_dir_all(folder.join("below")).unwrap();
    for (file, text) in [
        ("a.lua", "require('nakama').register_rpc(function() end, 'a')"),
        ("other.js", ""),
        ("typed.luau", ""),
        ("below/plugin.so", ""),
        ("README.md", ""),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let check = || throng(&["check", "--runtime.path", folder.to_str().unwrap()]);
    let ran = check();
    // Packages beside the modules: more files than there may be modules.
    for number in 0..5_000 {
        std::fs::write(folder.join(format!("below/{number}.js")), "").unwrap();
    }
    let many = check();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((ran.code, many.code), (Some(0), Some(0)), "{}{}", ran.err, many.err);
    assert!(many.out.contains("warning: 4995 more files are not run"), "{}", many.out);
    let warned = |file| ran.out.lines().any(|it| it.starts_with("warning: ") && it.contains(file));
    let found = ["other.js", "plugin.so", "README.md", "a.lua"].map(warned);
    assert_eq!(found, [true, true, false, false], "{}", ran.out);
    assert!(ran.out.contains("typed.luau is not run: name it .lua\n"), "{}", ran.out);
}

#[test]
fn check_fails_for_what_is_certain_to_fail_and_if_strict_for_warnings() {
    let folder = std::env::temp_dir().join(format!("throng-it-{}-findings", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let check = |line: &str, flags: &[&str]| {
        let text =
            format!("local nk = require('nakama')\nnk.register_rpc(function() {line} end, 'a')");
        std::fs::write(folder.join("a.lua"), text).unwrap();
        throng(&[&["check", "--runtime.path", folder.to_str().unwrap()], flags].concat())
    };
    for (line, flags, code, printed) in [
        ("nk.time()", &[][..], 0, "rpc a"),
        ("nk.time()", &["--strict"], 0, "rpc a"),
        (
            "end, 'x') nk.register_shutdown(function() end) nk.register_rpc(function()",
            &[],
            0,
            "warning: a.lua:2: register_shutdown is registered, but shutdown_grace_sec is 0: it \
             never runs",
        ),
        (
            "end, 'x') nk.register_shutdown(function() end) nk.register_rpc(function()",
            &["--strict", "--shutdown_grace_sec", "1"],
            0,
            "rpc a",
        ),
        (
            "end, 'A') nk.register_rpc(function()",
            &["--strict"],
            1,
            "warning: a.lua:2: the RPC a is registered again",
        ),
        ("nk.group_create('x')", &[], 0, "warning: a.lua:2: nk.group_create is not built yet"),
        ("nk.group_create('x')", &["--strict"], 1, "warning: a.lua:2: nk.group_create"),
        (
            "nk.tiem()",
            &[],
            1,
            "error: a.lua:2: nk.tiem: Nakama has no such function; did you mean \
                               `time`?",
        ),
    ] {
        let ran = check(line, flags);
        assert_eq!(ran.code, Some(code), "{line} {flags:?}\n{}{}", ran.out, ran.err);
        assert!(ran.out.contains(printed), "{line} {flags:?}\n{}", ran.out);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_module_that_does_not_load_hides_nothing_of_the_others() {
    let folder = std::env::temp_dir().join(format!("throng-it-{}-unloaded", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in [
        ("a.lua", "local nk = require('nakama')\nnk.leaderboard_create('week', true, 'desc')"),
        (
            "b.lua",
            "local nk = require('nakama')\nnk.register_rpc(function() nk.tiem() end, 'b')\n\
             nk.register_rpc(function() return nk.match_create('c', {}) end, 'm')",
        ),
        ("c.lua", "local M = {}\nfunction M.match_init() return {}, 1, '' end\nreturn M"),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let path = folder.to_str().unwrap().to_owned();
    let checked = throng(&["check", "--runtime.path", &path]);
    let data = folder.join("data").to_str().unwrap().to_owned();
    let served =
        throng(&["serve", "--runtime.path", &path, "--data_dir", &data, "--socket.port", "0"]);
    std::fs::remove_dir_all(&folder).unwrap();
    for ran in [&checked, &served] {
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        let cause = "a.lua:2: nk.leaderboard_create is not implemented in throng yet";
        assert!(ran.err.contains(cause), "{}", ran.err);
        for part in [
            "b.lua:2: nk.tiem: Nakama has no such function; did you mean `time`?",
            "a.lua:2: nk.leaderboard_create is not built yet",
        ] {
            assert!(ran.out.contains(part), "no {part}\n{}{}", ran.out, ran.err);
        }
        assert!(!ran.out.contains("can be removed"), "{}", ran.out);
        // Which modules are matches is only known of those that were loaded.
        assert!(!ran.out.contains("match_create"), "{}", ran.out);
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_the_cure() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let metrics = |folder: &str| {
        throng(&[
            "serve",
            "--socket.port",
            "0",
            "--metrics.prometheus_port",
            &port,
            "--data_dir",
            folder,
            "--metrics.address",
            "127.0.0.1",
        ])
    };
    let folder = std::env::temp_dir().join(format!("throng-it-{}-port", std::process::id()));
    let ran = metrics(folder.to_str().unwrap());
    let _ = std::fs::remove_dir_all(&folder);
    let cure = "choose another port with --metrics.prometheus_port";
    assert!(ran.code == Some(1) && ran.err.contains(cure), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("a new, empty one is made"), "{}", ran.out);
    for (address, port, part) in [
        ("127.0.0.1", port.as_str(), "choose another port with --socket.port"),
        // Documentation addresses are nobody's (RFC 5737).
        ("192.0.2.1", "0", "this machine has no such address"),
    ] {
        let ran = throng(&["serve", "--socket.address", address, "--socket.port", port]);
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn the_port_of_grpc_is_one_below_or_what_it_is_told_to_be() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (above, port) = (port.saturating_add(1).to_string(), port.to_string());
    for given in [["--socket.port", &above], ["--socket.grpc_port", &port]] {
        let ran = throng(&["serve", "--socket.port", "0", given[0], given[1]]);
        // The port above may be taken as well.
        if ran.err.contains("`socket.port`)") {
            continue;
        }
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        let cures = ["choose another port with --socket.grpc_port", "--socket.grpc false"];
        assert!(cures.iter().all(|cure| ran.err.contains(cure)), "{}", ran.err);
    }
    let ran = throng(&["check", "--socket.grpc_port", "7350"]);
    assert!(ran.err.contains("both are port 7350"), "{}", ran.err);
    let ran = throng(&["check", "--metrics.prometheus_port", "7349"]);
    assert!(ran.err.contains("`socket.grpc_port`"), "{}", ran.err);
    let off = ["check", "--metrics.prometheus_port", "7349", "--socket.grpc", "false"];
    assert_eq!(throng(&off).code, Some(0));
}

#[test]
fn words_of_libraries_and_forms_of_the_inside_are_not_printed() {
    let twice = Config::new("twice.yaml", "socket:\n  port: 1\n  port: 2\n");
    let ran = throng(&["check", "--config", twice.path()]);
    assert!(ran.err.contains("`port` is set twice, the second time at line 3"), "{}", ran.err);
    assert!(!ran.err.contains("DuplicateKeyPolicy"), "{}", ran.err);
    let ran = throng(&["check"]);
    assert!(ran.out.contains(" [127.0.0.0/8, ::1] "), "{}", ran.out);
    let ran = throng(&["serve", "--data_dir", twice.path(), "--socket.port", "0"]);
    assert!(ran.err.contains("is a file, or lies below one"), "{}", ran.err);
    // Refused later, for the target that there is not.
    let ran = throng(&[
        "load",
        "rpc-lua",
        "--target",
        "http://127.0.0.1:1",
        "--ramp",
        "0",
        "--warmup",
        "0",
        "--duration",
        "1s",
        "--players",
        "1",
    ]);
    assert!(!ran.err.contains("is not a length of time"), "{}", ran.err);
}
