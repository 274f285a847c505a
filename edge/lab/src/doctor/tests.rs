//! Every check on recorded machines: what it finds, and that it can find both that all is well and
//! that it is not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use expect_test::expect_file;

use super::{Finding, Tree, Verdict, examine, json, text};

/// A recorded machine that is gone when the test is done.
pub(crate) struct Recorded(PathBuf);

impl Recorded {
    /// Made of lines: a path, then its text behind tabs; `-> x` is a link, `(absent)` takes a file
    /// away that stood there before. Later files win.
    pub(crate) fn of(name: &str, lines: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("throng-doctor-{}-{count}-{name}", std::process::id());
        let recorded = Self(std::env::temp_dir().join(folder));
        let _ = fs::remove_dir_all(&recorded.0);
        fs::create_dir_all(&recorded.0).unwrap();
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut path = "";
        for line in lines.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('\t') {
                Some(text) => files.get_mut(path).unwrap().push(text),
                None => {
                    path = line;
                    files.insert(path, Vec::new());
                }
            }
        }
        for (path, text) in files {
            let text = text.join("\n");
            let place = recorded.path(path);
            if text == "(absent)" {
                continue;
            }
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            match text.strip_prefix("-> ") {
                Some(to) => std::os::unix::fs::symlink(to, place).unwrap(),
                None => fs::write(place, text + "\n").unwrap(),
            }
        }
        recorded
    }

    /// One of the machines in `trees/`.
    fn machine(name: &str) -> Self {
        let common = include_str!("trees/common.txt");
        let own = MACHINES.iter().find(|it| it.0 == name).unwrap().1;
        Self::of(name, &format!("{common}{own}"))
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::recorded(&self.0)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MACHINES: [(&str, &str); 7] = [
    ("metal", include_str!("trees/metal.txt")),
    ("azure", include_str!("trees/azure.txt")),
    ("aws", include_str!("trees/aws.txt")),
    ("google", include_str!("trees/google.txt")),
    ("container", include_str!("trees/container.txt")),
    ("hybrid", include_str!("trees/hybrid.txt")),
    ("micro", include_str!("trees/micro.txt")),
];

/// A check of a machine.
fn check<'a>(findings: &'a [Finding], id: &str) -> &'a super::Check {
    &findings.iter().find(|it| it.check.id == id).unwrap().check
}

#[test]
fn recorded_machines_are_judged() {
    for (name, _) in MACHINES {
        let recorded = Recorded::machine(name);
        let mut lines = String::new();
        for finding in examine(&recorded.tree()) {
            let it = &finding.check;
            let safe = if finding.changes.is_empty() { "" } else { " (--apply)" };
            writeln!(lines, "{} {}: {}", it.verdict.word(), it.id, it.value).unwrap();
            if it.verdict == Verdict::Warn {
                writeln!(lines, "    {}{safe}", it.cure).unwrap();
            }
        }
        expect_file![format!("{}/src/doctor/trees/{name}.expected", env!("CARGO_MANIFEST_DIR"))]
            .assert_eq(&lines);
    }
}

#[test]
fn no_cure_is_in_force_already_and_the_view_says_which_apply_changes() {
    let drops = "/proc/net/snmp\n\tUdp: InDatagrams RcvbufErrors\n\tUdp: 1000 500\n\
                 \tTcp: PassiveOpens OutSegs RetransSegs\n\tTcp: 1000 1000 0\n\
                 /proc/net/netstat\n\tTcpExt: ListenDrops\n\tTcpExt: 500\n\
                 /proc/net/softnet_stat\n\t00001000 00000100 00000000\n";
    let settings = |rmem_max, rmem_default, somaxconn, backlog| {
        format!(
            "{drops}/proc/sys/net/core/rmem_max\n\t{rmem_max}\n/proc/sys/net/core/rmem_default\n\
             \t{rmem_default}\n/proc/sys/net/core/somaxconn\n\t{somaxconn}\n\
             /proc/sys/net/core/netdev_max_backlog\n\t{backlog}\n"
        )
    };
    for (lines, cures, applied) in [
        (
            settings(212_992, 212_992, 128, 1_000),
            [
                "sysctl -w net.core.rmem_max=4194304 net.core.rmem_default=1048576 # ",
                "sysctl -w net.core.somaxconn=4096 # ",
                "sysctl -w net.core.netdev_max_backlog=16384 # ",
            ],
            "softnet-drops",
        ),
        (
            settings(8_388_608, 212_992, 4_096, 1_000),
            ["sysctl -w net.core.rmem_default=1048576 # ", "# net.core.somaxconn ", "sysctl -w "],
            "softnet-drops",
        ),
        (
            settings(8_388_608, 2_097_152, 65_535, 65_535),
            ["# net.core.rmem_max", "# net.core.somaxconn", "# net.core.netdev_max_backlog"],
            "none of them",
        ),
    ] {
        let recorded = Recorded::of("in-force", &lines);
        let mut findings = examine(&recorded.tree());
        let ids = ["udp-drops", "listen-drops", "softnet-drops"];
        findings.retain(|it| ids.contains(&&*it.check.id));
        for (id, cure) in ids.iter().zip(cures) {
            let it = check(&findings, id);
            assert_eq!(it.verdict, Verdict::Warn, "{it:?}");
            assert!(it.cure.starts_with(cure), "{it:?}");
        }
        let told = text(&findings, 100, false);
        let words: Vec<&str> = told.split_whitespace().collect();
        let words = words.join(" ");
        let changes = words.rsplit_once("--apply changes").map(|it| it.1).unwrap_or_default();
        assert!(changes.contains(applied), "{told}");
        let does = told.matches("--apply does it: writes /proc/sys/").count();
        assert_eq!(does, usize::from(applied == "softnet-drops"), "{told}");
    }
    // What a warning would have changed stands there: it is none of its changes.
    let half = "/proc/sys/net/core/busy_read\n\t0\n/proc/sys/net/core/busy_poll\n\t50\n\
                /sys/devices/system/cpu/online\n\t0-1\n";
    let recorded = Recorded::of("half", half);
    let findings = examine(&recorded.tree());
    let it = findings.iter().find(|it| it.check.id == "busy-poll").unwrap();
    let paths: Vec<&str> = it.changes.iter().map(|it| &*it.path).collect();
    assert_eq!(paths, ["/proc/sys/net/core/busy_poll"]);
}

#[test]
fn every_check_can_say_both_and_tells_all() {
    let mut said: BTreeMap<String, Vec<Verdict>> = BTreeMap::new();
    for (name, _) in MACHINES {
        let recorded = Recorded::machine(name);
        for finding in examine(&recorded.tree()) {
            let it = finding.check;
            assert!(!it.why.is_empty() && !it.source.is_empty() && !it.value.is_empty(), "{it:?}");
            assert!(it.verdict != Verdict::Warn || !it.cure.is_empty(), "{it:?}");
            assert_ne!(it.verdict, Verdict::Unread, "{name}: {it:?}");
            for change in finding.changes {
                // What is changed exists, and is not what it is changed to.
                assert!(recorded.path(&change.path).is_file(), "{name}: {change:?}");
            }
            let id = it.id.split(':').next().unwrap().to_owned();
            said.entry(id).or_default().push(it.verdict);
        }
    }
    assert!(said.len() >= 35, "{}", said.len());
    for (id, verdicts) in said {
        for verdict in [Verdict::Ok, Verdict::Warn] {
            assert!(verdicts.contains(&verdict), "{id} never says {}", verdict.word());
        }
    }
}

#[test]
fn an_accelerated_path_that_is_there_and_not_used_is_found() {
    let recorded = Recorded::machine("azure");
    let says = || {
        let findings = examine(&recorded.tree());
        let it = check(&findings, "accelerated-path:eth0");
        (it.verdict, it.value.clone(), it.cure.clone())
    };
    assert_eq!(says().0, Verdict::Ok);
    let counter = recorded.path("/sys/class/net/eth1/statistics/rx_packets");
    let many = fs::read(&counter).unwrap();
    fs::write(&counter, "12\n").unwrap();
    assert!(matches!(says(), (Verdict::Warn, value, _) if value.contains("811,357 of 1,724,690")));
    fs::write(&counter, many).unwrap();
    fs::write(recorded.path("/sys/class/net/eth1/operstate"), "down\n").unwrap();
    assert!(matches!(says(), (Verdict::Warn, _, cure) if cure == "ip link set eth1 up"));
    fs::remove_file(recorded.path("/sys/class/net/eth0/lower_eth1")).unwrap();
    assert!(
        matches!(says(), (Verdict::Warn, value, _) if value.contains("eth1 is there and not joined"))
    );
    fs::remove_dir_all(recorded.path("/sys/class/net/eth1")).unwrap();
    let (verdict, value, cure) = says();
    assert!(verdict == Verdict::Warn && value.contains("is off"), "{value}");
    assert!(cure.starts_with("az network nic update"), "{cure}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let recorded = Recorded::machine("micro");
    fs::write(recorded.path("/proc/sys/net/core/somaxconn"), "many\n").unwrap();
    fs::write(recorded.path("/proc/net/softnet_stat"), "xyz\n").unwrap();
    let findings = examine(&recorded.tree());
    for id in ["listen-backlog", "softnet-drops"] {
        assert_eq!(check(&findings, id).verdict, Verdict::Unread);
    }
    assert!(check(&findings, "listen-backlog").value.contains("`many` is no number"));
    assert!(text(&findings, 80, false).contains("2 could not be read"));
}

#[test]
fn an_empty_machine_and_any_garbage_are_judged_without_a_panic() {
    let empty = Recorded::of("empty", "/x\n\t1\n");
    let findings = examine(&empty.tree());
    assert!(findings.iter().all(|it| it.check.verdict != Verdict::Unread));
    for garbage in [
        "",
        "-1",
        "99999999999999999999",
        "max",
        "\u{0}\u{1b}[2J",
        "0-99999999999",
        "a b c d",
        "[",
        "1 0",
    ] {
        let recorded = Recorded::machine("metal");
        let mut folders = vec![recorded.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && entry.file_name() != "flags" {
                    fs::write(entry.path(), garbage).unwrap();
                }
            }
        }
        let page = text(&examine(&recorded.tree()), 80, false);
        assert!(!page.contains('\u{1b}'), "{garbage:?}");
    }
}

#[test]
fn the_text_fits_80_columns_and_has_colours_only_when_asked() {
    for (name, _) in MACHINES {
        let recorded = Recorded::machine(name);
        let findings = examine(&recorded.tree());
        let plain = text(&findings, 80, false);
        assert!(!plain.contains('\u{1b}'));
        let cures: Vec<&str> = findings.iter().map(|it| &*it.check.cure).collect();
        for line in plain.lines() {
            let is_cure = cures.contains(&line.trim());
            assert!(is_cure || line.chars().count() <= 80, "{name}: {line}");
        }
        // Warnings come before all that is well.
        let first_ok = plain.find("\nok  ").unwrap();
        assert!(plain.rfind("\nWARN").is_none_or(|it| it < first_ok), "{plain}");
        let coloured = text(&findings, 80, true);
        let bare = ["\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(coloured.clone(), |text, code| text.replace(code, ""));
        assert_eq!(bare, plain);
    }
}

#[test]
fn this_machine_is_examined_and_told_as_json() {
    let findings = examine(&Tree::here());
    let value: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
    let checks = value["checks"].as_array().unwrap();
    assert!(checks.len() >= 20, "{}", checks.len());
    for check in checks {
        for field in ["id", "value", "verdict", "why", "source", "cure"] {
            assert!(check[field].is_string(), "{check}");
        }
        let verdict = check["verdict"].as_str().unwrap();
        assert!(["ok", "warn", "not applicable"].contains(&verdict), "{check}");
    }
    let mut ids: Vec<_> = findings.iter().map(|it| &it.check.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), findings.len(), "an id stands twice");
}
