//! `throng flow styles` from outside: the table, the files, and what is kept when it is interrupted.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::throng;

/// How long until it has ended: two seconds, and what this machine's other work takes.
const SOON: Duration = Duration::from_millis(3_500);

/// A folder that is gone when the test is done.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("throng-styles-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_str(&self.text("result.json")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn styles_are_laid_side_by_side() {
    let folder = Folder::new("table");
    let out = folder.0.to_str().unwrap();
    let ran = throng(&[
        "flow",
        "styles",
        "-t",
        "100ms",
        "--rounds",
        "2",
        "--flows",
        "2",
        "--path",
        "loopback",
        "--style",
        "recv,mmsg,xdp",
        "--send-style",
        "one",
        "--out",
        out,
    ]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    for part in [
        "Receiving over loopback, one flow, sent by gso\n",
        "Receiving over loopback, 2 flows, sent one by one\n",
        "Sending over loopback, one flow, received by gro\n",
        "  xdp    takes frames from an interface with queues",
        "report: ",
    ] {
        assert!(ran.out.contains(part), "{part:?} is not in\n{}", ran.out);
    }
    let result = folder.result();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 + 3 + 1);
    for row in rows {
        let rounds = row["rounds"].as_array().unwrap().len();
        assert_eq!(rounds, if row["style"] == "xdp" { 0 } else { 2 }, "{row}");
    }
    assert!(folder.text("series.csv").lines().count() > 10);
    assert!(folder.text("report.html").contains("throng flow styles"));
}

#[test]
fn what_is_whole_is_kept_when_it_is_interrupted() {
    let folder = Folder::new("interrupted");
    let mut child = Command::new(env!("CARGO_BIN_EXE_throng"))
        .args(["flow", "styles", "-t", "200ms", "--rounds", "1000", "--flows", "1"])
        .args(["--style", "recv", "--send-style", "none", "--out", folder.0.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut steps = BufReader::new(child.stderr.take().unwrap());
    let mut step = String::new();
    steps.read_line(&mut step).unwrap();
    assert!(step.contains("round 1 of 1000: loopback, one flow, receiving by recv"), "{step}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let since = Instant::now();
    let mut rest = String::new();
    steps.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("ended by SIGINT"), "{rest}");
    let result = folder.result();
    assert_eq!(result["ended"], "interrupted");
    assert!(!result["rows"][0]["rounds"].as_array().unwrap().is_empty());
}
