//! The steps of `cargo xtask ci`, in order: the quick ones first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::Outcome;
use super::count::{self, Counts};
use crate::repository::{cargo, root, target_folder};
use crate::{docs, tidy};

/// One step.
pub(super) struct Step {
    /// The word for `--only`.
    pub(super) name: &'static str,
    /// What it checks.
    pub(super) about: &'static str,
    /// Does it.
    pub(super) run: fn() -> anyhow::Result<Outcome>,
}

/// Time for one command. The whole run is meant to take 25 minutes on two CPUs from a clean clone;
/// a command that takes this long alone hangs.
const PATIENCE: Duration = Duration::from_mins(20);

/// Seconds for which the fuzz programs run here; they run longer by hand.
const FUZZ_SECONDS: &str = "20";

pub(super) const STEPS: &[Step] = &[
    Step { name: "fmt", about: "the code is formatted", run: fmt },
    Step { name: "clippy", about: "no warning in any target", run: clippy },
    Step { name: "test", about: "all tests of the workspace", run: test },
    Step { name: "fuzz", about: "the seeded fuzz programs, briefly", run: fuzz },
    Step { name: "tidy", about: "the laws that no compiler checks", run: tidy_step },
    Step { name: "doc", about: "the documentation builds without a warning", run: doc },
    Step {
        name: "e2e-uring",
        about: "released clients against throng on io_uring",
        run: e2e_uring,
    },
    Step { name: "e2e-poll", about: "released clients against throng on polling", run: e2e_poll },
    Step {
        name: "attack-uring",
        about: "a neighbour beside attackers, io_uring",
        run: attack_uring,
    },
    Step { name: "attack-poll", about: "a neighbour beside attackers, polling", run: attack_poll },
];

fn ran(command: &mut Command) -> anyhow::Result<Outcome> {
    count::run(command, PATIENCE).map(Outcome::Ran)
}

fn fmt() -> anyhow::Result<Outcome> {
    ran(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> anyhow::Result<Outcome> {
    ran(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn test() -> anyhow::Result<Outcome> {
    ran(cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

fn doc() -> anyhow::Result<Outcome> {
    let command = &mut cargo();
    ran(command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tidy_step() -> anyhow::Result<Outcome> {
    let well = tidy::run()?;
    Ok(Outcome::Ran(Counts { passed: u64::from(well), failed: u64::from(!well) }))
}

/// Every crate's `examples/fuzz.rs`; it reads THRONG_FUZZ_SECONDS. Without one, the tests named
/// `fuzz_smoke` are the fuzz programs, and the step runs them for longer than the tests do.
fn fuzz() -> anyhow::Result<Outcome> {
    let mut all = Counts { passed: 0, failed: 0 };
    for folder in ["pure", "edge"] {
        for entry in std::fs::read_dir(root().join(folder)).context(folder)? {
            let entry = entry?;
            if entry.path().join("examples/fuzz.rs").is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let mut command = cargo();
                command.args(["run", "--quiet", "--package", &name, "--example", "fuzz"]);
                let counts =
                    count::run(command.env("THRONG_FUZZ_SECONDS", FUZZ_SECONDS), PATIENCE)?;
                all.passed += counts.passed;
                all.failed += counts.failed;
            }
        }
    }
    if all == Counts::default() {
        let mut command = cargo();
        command.args(["test", "--workspace", "--quiet", "fuzz_smoke"]);
        command.env("THRONG_FUZZ_SECONDS", FUZZ_SECONDS);
        let (counts, succeeded) = count::reported(&mut command, PATIENCE)?;
        if succeeded && counts == Counts::default() {
            bail!("found neither an examples/fuzz.rs nor a test named fuzz_smoke");
        }
        let failed = counts.failed.max(u64::from(!succeeded));
        return Ok(Outcome::Ran(Counts { failed, ..counts }));
    }
    Ok(Outcome::Ran(all))
}

/// The folders of node's test files: what players see, and what attackers must not reach.
const E2E: &str = "dev/e2e";
const ATTACK: &str = "dev/e2e/attack";

fn e2e_uring() -> anyhow::Result<Outcome> {
    with_uring(&docs::built_throng()?, E2E)
}

fn e2e_poll() -> anyhow::Result<Outcome> {
    let throng = docs::built_throng()?;
    build_agones_client()?;
    node_tests("poll", &throng, E2E)
}

/// The server with Agones' client for Rust: a package of its own, because throng does not depend on it. Its test
/// builds it too, but has less time; without `protoc` it says that it is skipped.
fn build_agones_client() -> anyhow::Result<()> {
    let protoc = Command::new("protoc").arg("--version").stdout(Stdio::null()).status();
    if !protoc.is_ok_and(|it| it.success()) {
        return Ok(());
    }
    let mut command = cargo();
    let target = target_folder()?.join("agones");
    command.args(["build", "--quiet", "--locked", "--target-dir"]).arg(target);
    command.current_dir(root().join(E2E).join("agones/rust"));
    if count::run(&mut command, PATIENCE)?.failed > 0 {
        bail!("dev/e2e/agones/rust does not compile");
    }
    Ok(())
}

/// A release build: how long neighbours wait is a promise of what people run.
fn attack_uring() -> anyhow::Result<Outcome> {
    with_uring(&docs::released_throng()?, ATTACK)
}

fn attack_poll() -> anyhow::Result<Outcome> {
    node_tests("poll", &docs::released_throng()?, ATTACK)
}

fn with_uring(throng: &Path, tests: &'static str) -> anyhow::Result<Outcome> {
    // Containers often forbid io_uring; `throng check` says what the kernel refuses.
    let output = Command::new(throng)
        .args(["check", "--engine.driver", "uring"])
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", throng.display()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Ok(Outcome::Skipped(format!("no io_uring here: {why}")));
    }
    node_tests("uring", throng, tests)
}

/// Runs node's tests of one folder, not of those below it.
fn node_tests(driver: &str, throng: &Path, tests: &'static str) -> anyhow::Result<Outcome> {
    let folder = root().join(E2E);
    if !folder.join("package.json").is_file() {
        return Ok(Outcome::Skipped(format!("there is no {E2E}/package.json")));
    }
    install()?;
    build_guests()?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root().join(tests)).context(tests)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".test.mjs") {
            files.push(path);
        }
    }
    files.sort();
    let mut node = Command::new("node");
    // nakama-js never clears its timers; without --test-force-exit each file waits 30 s for them.
    node.args(["--test", "--test-force-exit", "--test-timeout=400000", "--test-reporter", "spec"]);
    // One after the other: a neighbour waits for the attackers of its own test only.
    node.arg("--test-concurrency=1").args(files).current_dir(folder);
    ran(node.env("THRONG_DRIVER", driver).env("THRONG_BIN", throng))
}

/// The guests in WebAssembly, as far as their toolchains are here. Their tests build them too, but have less time,
/// and say what is skipped.
fn build_guests() -> anyhow::Result<()> {
    let mut node = Command::new("node");
    node.arg("guests.mjs").current_dir(root().join(E2E));
    if count::run(&mut node, PATIENCE)?.failed > 0 {
        bail!("the guests in WebAssembly cannot be built");
    }
    Ok(())
}

/// `npm ci`, unless what is installed is what the lock file says.
pub(super) fn install() -> anyhow::Result<()> {
    let folder = &root().join(E2E);
    let time = |path: PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let installed = time(folder.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= time(folder.join("package-lock.json")) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(folder);
    if count::run(&mut npm, PATIENCE)?.failed > 0 {
        bail!("npm ci failed");
    }
    Ok(())
}
