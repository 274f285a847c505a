//! `throng host game` and `throng host ramp`: a ramp of two small servers with two players each. What the
//! machine was busy with besides decides nothing here.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::server::reachable;
use crate::throng;

/// A fleet's file whose servers are this build's own, and a folder for a ramp.
fn fleet(name: &str, port: u16, more: &str) -> (PathBuf, PathBuf) {
    let own = format!("throng-it-ramp-{}-{name}", std::process::id());
    let file = std::env::temp_dir().join(format!("{own}.toml"));
    let program = reachable(env!("CARGO_BIN_EXE_throng"));
    let text = format!(
        "[[server]]\nname = 'game'\nport = {port}\nready = {{ query = 'throng' }}\n\
         command = ['{}', 'host', 'game', '--address', '{{address}}', '--port', '{{port}}', '--tick', \
         '50', '--work', '50us']\n{more}",
        program.display()
    );
    std::fs::write(&file, text).unwrap();
    (file, std::env::temp_dir().join(own))
}

/// Flags that make a ramp short, and no judge of the machine.
const SHORT: [&str; 18] = [
    "--most",
    "2",
    "--players",
    "2",
    "--span",
    "2s",
    "--control",
    "1s",
    "--warm-up",
    "200ms",
    "--repeats",
    "1",
    "--drift",
    "1000000",
    "--late",
    "1000000",
    "--steal",
    "100",
];
/// A gate that is no judge of the machine either.
const LENIENT: [&str; 2] = ["--gate", "lateness_p99 <= 10000%"];

fn ramp(file: &Path, folder: &Path, flags: &[&str]) -> crate::Ran {
    let out = folder.with_extension("out");
    let mut all = vec!["host", "ramp", file.to_str().unwrap()];
    all.extend(["--folder", folder.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    all.extend(SHORT);
    if !flags.contains(&"--gate") {
        all.extend(LENIENT);
    }
    all.extend(flags);
    throng(&all)
}

#[test]
fn two_servers_are_ramped_and_nothing_is_left() {
    let (file, folder) = fleet("two", 27_510, "");
    let ran = ramp(&file, &folder, &["--price", "0.5"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let out = folder.with_extension("out");
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["ended"], "");
    let gate = &result["gates"][0];
    assert_eq!((gate["servers"].as_u64(), gate["players"].as_u64()), (Some(2), Some(4)), "{gate}");
    assert!(gate["player_hour"].as_f64().is_some_and(|it| (it - 0.125).abs() < 1e-9), "{gate}");
    let steps = result["steps"].as_array().unwrap();
    let two = steps.iter().find(|it| it["servers"] == 2).unwrap();
    for server in two["each"].as_array().unwrap() {
        let count = |key: &str| server[key].as_u64().unwrap_or(0);
        assert!(count("snapshots") > 0 && count("commands") > 0 && count("lost") == 0, "{server}");
        assert!(count("ticks_due") > 0 && count("memory_bytes") > 0, "{server}");
        assert!(server["transactions"]["count"].as_u64().unwrap() > 0, "{server}");
        assert!(server["cpu_percent"].as_f64().unwrap() > 0.0, "{server}");
    }
    for file in ["report.html", "series.csv", "result.hlog"] {
        assert!(out.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    assert!(!folder.exists());
    std::fs::remove_dir_all(out).unwrap();
    std::fs::remove_file(file).unwrap();
}

/// As scenarios/host/game-beside-burner.toml, whose short run is in docs/host.md. What holds of a quiet machine is
/// said there; here others run beside as well.
#[test]
fn servers_that_go_first_keep_their_ticks_beside_neighbours_that_burn_everything() {
    if !super::is_root() {
        return;
    }
    let burner = "wall = 'cgroup'\ncpu.realtime = 10\n[[server]]\nname = 'burner'\ncount = 4\n\
        command = ['sh', '-c', 'while :; do :; done']\nwall = 'cgroup'\ncpu.weight = 1\n";
    let (file, folder) = fleet("burner", 27_530, burner);
    let gate = ["--server", "game", "--steps", "2", "--gate", "lateness_p99 <= 100%"];
    let ran = ramp(&file, &folder, &gate);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let out = folder.with_extension("out");
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["gates"][0]["servers"], 2, "{}", ran.out);
    let steps = result["steps"].as_array().unwrap();
    let two = steps.iter().find(|it| it["servers"] == 2).unwrap();
    assert!(two["machine"]["cpu_percent"].as_f64() > Some(90.0), "{}", two["machine"]);
    assert_eq!(two["each"].as_array().unwrap().len(), 2, "the burners are not measured");
    assert!(!folder.exists());
    std::fs::remove_dir_all(out).unwrap();
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_ramp_that_cannot_be_says_why() {
    let (file, folder) = fleet("wrong", 27_520, "");
    for (flags, part) in [
        (&["--server", "other"][..], "no server `other`"),
        (&["--steps", "3"], "--steps: 3 servers: 1 to 2"),
        (&["--cores", "9999"], "no processor 9999"),
        (&["--watts", "3"], "IDLE,BUSY"),
    ] {
        let ran = ramp(&file, &folder, flags);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_game_that_cannot_be_says_why() {
    for (flags, part) in [
        (["--tick", "0"], "1 to 1000"),
        (["--work", "1s"], "no more than all"),
        (["--bytes", "1"], "snapshots of 1 bytes"),
    ] {
        let ran = throng(&["host", "game", "--port", "0", flags[0], flags[1]]);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}
