//! `throng doctor` from outside: exit codes, JSON, and what it finds and changes for real in a
//! network namespace of its own, between whose two ends a veth pair stands.

use std::path::PathBuf;
use std::process::Command;

use super::{Ran, throng};

/// A network namespace with a veth pair in it, both gone when the test is done.
struct Namespace(String);

impl Namespace {
    /// None, with words, where namespaces cannot be made.
    fn new(name: &str) -> Option<Self> {
        let name = format!("throng-{}-{name}", std::process::id());
        let made = ip(&["netns", "add", &name]);
        if !made {
            eprintln!("skipped: no network namespace can be made here (root and ip are needed)");
            return None;
        }
        let namespace = Self(name);
        let inside = |args: &[&str]| ip(&[&["-n", &*namespace.0][..], args].concat());
        let pair = ["link", "add", "v0", "numrxqueues", "1", "type", "veth", "peer", "name", "v1"];
        let is_there = inside(&pair)
            && inside(&["link", "set", "v0", "up"])
            && inside(&["link", "set", "v1", "up"]);
        if !is_there {
            eprintln!("skipped: this kernel has no veth");
            return None;
        }
        Some(namespace)
    }

    fn throng(&self, args: &[&str]) -> Ran {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.0, env!("CARGO_BIN_EXE_throng")])
            .args(args)
            .output()
            .unwrap();
        output.into()
    }

    fn shell(&self, command: &str) -> String {
        let output =
            Command::new("ip").args(["netns", "exec", &self.0, "sh", "-c", command]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    }

    fn check(&self, id: &str) -> serde_json::Value {
        let ran = self.throng(&["doctor", "--json", "--only", id]);
        let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(value["checks"].as_array().unwrap().len(), 1, "{}", ran.out);
        value["checks"][0].clone()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).output().is_ok_and(|it| it.status.success())
}

#[test]
fn it_says_what_is_wrong_and_how_it_ends() {
    let ran = throng(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let checks = value["checks"].as_array().unwrap();
    assert!(checks.len() >= 20, "{}", checks.len());
    let has_warning = checks.iter().any(|it| it["verdict"] == "warn");
    let strict = throng(&["doctor", "--strict"]);
    assert_eq!(strict.code, Some(i32::from(has_warning)), "{}", strict.out);
    // No terminal, no colours, and nothing wider than one but commands.
    assert!(!strict.out.contains('\u{1b}') && strict.out.contains(" checks: "), "{}", strict.out);
    for (args, code, part) in [
        (&["doctor", "--only", "rsss"][..], 2, "there is no such check"),
        (&["doctor", "--root", "/no/such"], 2, "no such folder"),
        (&["doctor", "--apply", "--undo"], 2, "cannot be used with"),
        (&["doctor", "--only", "entropy"], 0, "1 check: "),
    ] {
        let ran = throng(args);
        assert_eq!(ran.code, Some(code), "{args:?}\n{}{}", ran.out, ran.err);
        assert!(
            format!("{}{}", ran.out, ran.err).contains(part),
            "{args:?}\n{}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn nothing_is_written_without_being_asked() {
    let folder = std::env::temp_dir().join(format!("throng-doctor-home-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_throng"))
        .arg("doctor")
        .env("HOME", &folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn on_a_veth_pair_it_finds_what_is_off_changes_it_and_puts_it_back() {
    let Some(namespace) = Namespace::new("doctor") else { return };
    let path = "/sys/class/net/v0/queues/rx-0/rps_cpus";
    let rps = namespace.check("rps:v0");
    if rps["verdict"] == "not applicable" {
        eprintln!("skipped: one processor, or a kernel without RPS");
        return;
    }
    assert_eq!((&rps["verdict"], &rps["value"]), (&"warn".into(), &"off".into()), "{rps}");
    let before = namespace.shell(&format!("cat {path}"));
    let record: PathBuf =
        std::env::temp_dir().join(format!("throng-doctor-{}.json", std::process::id()));
    let record = record.to_str().unwrap();
    let ran = namespace.throng(&["doctor", "--apply", "--only", "rps:v0", "--record", record]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(record) && ran.out.contains("throng doctor --undo"), "{}", ran.out);
    assert_ne!(namespace.shell(&format!("cat {path}")), before);
    assert_eq!(namespace.check("rps:v0")["verdict"], "ok");
    // The other namespace, this one, has nothing of it to put back.
    let elsewhere = throng(&["doctor", "--undo", "--record", record]);
    assert_eq!(elsewhere.code, Some(1), "{}", elsewhere.out);
    assert!(elsewhere.out.contains("another network namespace"), "{}", elsewhere.out);
    let ran = namespace.throng(&["doctor", "--undo", "--record", record]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(namespace.shell(&format!("cat {path}")), before);
    assert!(!std::path::Path::new(record).exists(), "an empty record goes");
}

#[test]
fn the_printed_commands_cure_what_a_veth_pair_has_off() {
    let Some(namespace) = Namespace::new("cures") else { return };
    if namespace.shell("command -v ethtool").is_empty() {
        eprintln!("skipped: ethtool is not installed");
        return;
    }
    // A veth has receive offload off until it is asked for, and one queue here.
    for id in ["offloads:v0", "rss:v0"] {
        let before = namespace.check(id);
        if before["verdict"] != "warn" {
            eprintln!("skipped: {id} is {before}: another kernel's veth, or one processor");
            continue;
        }
        namespace.shell(before["cure"].as_str().unwrap());
        let after = namespace.check(id);
        assert_eq!(after["verdict"], "ok", "{before}\n{after}");
    }
    // What it says of offloads is what ethtool says.
    let gro = namespace.shell("ethtool -k v0 | grep ^generic-receive-offload");
    let is_on = gro.ends_with(": on");
    let value = namespace.check("offloads:v0")["value"].to_string();
    assert_eq!(value.contains("gro on"), is_on, "{value}, {gro}");
}

#[test]
fn settings_of_a_namespace_are_changed_in_it_alone() {
    let Some(namespace) = Namespace::new("somaxconn") else { return };
    let read = "cat /proc/sys/net/core/somaxconn";
    let here = || std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let outside = here();
    namespace.shell("echo 64 > /proc/sys/net/core/somaxconn");
    let check = namespace.check("listen-backlog");
    assert_eq!((&check["verdict"], &check["value"]), (&"warn".into(), &"64".into()), "{check}");
    let record = std::env::temp_dir().join(format!("throng-doctor-s-{}.json", std::process::id()));
    let record = record.to_str().unwrap();
    let apply = ["doctor", "--apply", "--only", "listen-backlog", "--record", record, "--json"];
    let ran = namespace.throng(&apply);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    // JSON alone on the standard output; the words on the other.
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["checks"][0]["verdict"], "ok");
    assert!(ran.err.contains("64 -> 4096"), "{}", ran.err);
    assert_eq!(namespace.shell(read), "4096");
    assert_eq!(here(), outside);
    assert_eq!(namespace.throng(&["doctor", "--undo", "--record", record]).code, Some(0));
    assert_eq!(namespace.shell(read), "64");
}
