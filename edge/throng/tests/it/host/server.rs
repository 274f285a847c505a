//! The servers of these tests: this test's program, told by a variable what to be.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const INFO: &[u8] =
    b"\xff\xff\xff\xffinfoResponse\n\\protocol\\71\\clients\\3\\sv_maxclients\\16\\mapname\\oa_dm1";

/// The program and the arguments before the mode, as the inside of a list in TOML: a shell that says the
/// mode by a variable, because the test harness takes no arguments of ours.
pub(super) fn command() -> String {
    let program = reachable(std::env::current_exe().unwrap().to_str().unwrap());
    let test = "host::server::be_a_server";
    format!(
        "'/bin/sh', '-c', 'THRONG_IT_BE=\"$*\" exec {} {test} --exact --nocapture', 'sh',",
        program.display()
    )
}

/// A program where a user without rights reaches it: a copy, if it lies where only we may go.
pub(super) fn reachable(program: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    // One test copies it, and the others wait.
    static COPY: Mutex<()> = Mutex::new(());
    let _copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(program).canonicalize().unwrap();
    let is_open = |it: &Path| it.metadata().unwrap().permissions().mode() & 0o001 != 0;
    if path.ancestors().all(is_open) && !path.starts_with("/tmp") {
        return path;
    }
    let folder = Path::new("/opt/throng-it");
    std::fs::create_dir_all(folder).unwrap();
    let copy = folder.join(path.file_name().unwrap());
    // What an earlier build has left there is another program.
    let is_current = |of: &Path| {
        let (copied, built) = (of.metadata().ok()?, path.metadata().ok()?);
        let is_newer = copied.modified().ok()? >= built.modified().ok()?;
        Some(is_newer && copied.len() == built.len())
    };
    if is_current(&copy) != Some(true) {
        let new = folder.join(format!("new-{}", std::process::id()));
        std::fs::copy(&path, &new).unwrap();
        std::fs::rename(&new, &copy).unwrap();
    }
    copy
}

/// Whether a server of Quake III answers at an address.
pub(super) fn answers(address: &str) -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.send(b"\xff\xff\xff\xffgetinfo x").unwrap();
    let mut bytes = [0; 1_500];
    socket.recv(&mut bytes).is_ok_and(|len| bytes[..len] == *INFO)
}

/// A test that is a server if it is told to be one, and nothing else.
#[test]
fn be_a_server() {
    let Ok(words) = std::env::var("THRONG_IT_BE") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    match words[..] {
        ["quake3", port] => quake3(port.parse().unwrap(), usize::MAX),
        ["hangs", port] => quake3(port.parse().unwrap(), 1),
        ["memory"] => memory(),
        ["forks", most] => forks(most.parse().unwrap()),
        ["disk"] => disk(),
        ["names"] => names(),
        ["both", port] => both(port.parse().unwrap()),
        ["meets", port, other] => meets(port.parse().unwrap(), other),
        ["floods"] => floods(),
        ["packets", ref targets @ ..] => packets(targets),
        ["sdk", ref what @ ..] => super::sdk::serve(what),
        ["spy", ref what @ ..] => super::spy::look(what),
        ref other => panic!("{other:?}"),
    }
}

pub(super) fn say(line: &str) {
    println!("\n{line}");
    std::io::stdout().flush().unwrap();
}

/// Waits to be killed.
pub(super) fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

fn quake3(port: u16, answers: usize) {
    let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
    say("up");
    let mut bytes = [0; 1_500];
    for _ in 0..answers {
        let (len, from) = socket.recv_from(&mut bytes).unwrap();
        if bytes[..len].starts_with(b"\xff\xff\xff\xffgetinfo") {
            let _ = socket.send_to(INFO, from);
        }
    }
    stay()
}

fn memory() {
    say("eating");
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
    }
}

/// Starts processes until so many are there, or without end: then each refusal is followed by the next
/// try.
fn forks(most: usize) {
    say("up");
    let mut count = 0;
    while count < most {
        match Command::new("sleep").arg("1000.5").spawn() {
            Ok(_) => count += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    stay()
}

fn disk() {
    let path = Path::new(&std::env::var("HOME").unwrap()).join("big");
    let mut file = std::fs::File::create(path).unwrap();
    let piece = vec![1_u8; 1 << 16];
    let error = loop {
        if let Err(error) = file.write_all(&piece) {
            break error;
        }
    };
    say(&format!("full: {error}"));
    stay()
}

/// Files that hold nothing.
fn names() {
    let home = std::env::var("HOME").unwrap();
    let mut all = (0..).map(|number| std::fs::File::create(format!("{home}/{number}")));
    let error = all.find_map(Result::err).unwrap();
    say(&format!("full: {error}"));
    stay()
}

/// By UDP and by TCP.
fn both(port: u16) {
    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    quake3(port, usize::MAX);
}

/// Tries to reach another one, and is one itself.
fn meets(port: u16, other: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = [0; 1_500];
    let is_heard = (0..5).any(|_| {
        let _ = socket.send_to(b"\xff\xff\xff\xffgetinfo x", other);
        socket.recv(&mut bytes).is_ok()
    });
    let connected = TcpStream::connect_timeout(&other.parse().unwrap(), Duration::from_secs(2));
    say(&format!("met: UDP {is_heard}, TCP {}", connected.is_ok()));
    both(port);
}

/// Sends as many datagrams as it can, from two threads, to some addresses in turn, for so long. Then it stays.
fn packets(targets: &[&str]) {
    const LENGTH: Duration = Duration::from_mins(1);
    let targets: Vec<SocketAddr> = targets.iter().map(|it| it.parse().unwrap()).collect();
    say("up");
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let targets = targets.clone();
            std::thread::spawn(move || {
                let since = std::time::Instant::now();
                while since.elapsed() < LENGTH {
                    for target in &targets {
                        // Nobody may be there; that is no reason to be quiet.
                        let _ = socket.send_to(&[0xff; 1_200], target);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    stay()
}

fn floods() {
    let line = "flood ".repeat(1_000);
    loop {
        println!("{line}");
    }
}
