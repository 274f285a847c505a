//! What servers must not have from the shell that started their daemon, and which calls they cannot make.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Fleet, is_root};

/// Says who may do what with its files, which files are open, and whether its walls can be passed.
const LOOKS: &str = "umask; : > file; ls -l file; ls /proc/$$/fd; \
    : > /dev/null && ls /sys/devices/system/cpu > /dev/null && echo passed; echo up; exec sleep 1000";

fn looked(before: &'static str, name: &str, wall: &str) {
    let text = format!(
        "[[server]]\nname = 'a'\ncommand = ['sh', '-c', '{LOOKS}']\nwall = '{wall}'\n\
         ready = {{ log = 'up' }}\n"
    );
    let mut fleet = Fleet::run_after(before, "toml", name, &text, &[]);
    fleet.line_with("a: ready");
    let out = fleet.ask(&["logs", "a"]).out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "0027", "{out}");
    assert!(lines[1].starts_with("-rw-r-----"), "{out}");
    assert!(lines.contains(&"passed"), "{out}");
    let open: Vec<&&str> = lines.iter().filter(|it| it.parse::<u32>().is_ok()).skip(1).collect();
    assert_eq!(open, [&"0", &"1", &"2"], "{out}");
    for path in ["lock", "servers/a/log", "servers/a/record.json", "servers/a/pipe"] {
        let mode = fleet.folder.join(path).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o177, 0, "{path}: {mode:o}");
    }
    let groups = Path::new("/sys/fs/cgroup/unified").join(fleet.tag()).join("a");
    if let Ok(found) = groups.metadata() {
        assert_eq!(found.permissions().mode() & 0o022, 0);
    }
    fleet.ends();
}

#[test]
fn the_daemons_umask_and_open_files_are_its_own() {
    if !is_root() {
        return;
    }
    for wall in ["process", "cgroup", "files"] {
        looked("umask 000; exec 9</etc/shadow", &format!("open-{wall}"), wall);
        looked("umask 077; exec 9</etc/shadow", &format!("closed-{wall}"), wall);
    }
}

/// By number, as a kernel with x32 would take it. What this one says of it without the filter is ENOSYS.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_by_their_second_numbers_are_refused() {
    let text = "[[server]]\nname = 'a'\nready = { log = 'said' }\n\
        command = ['perl', '-e', '$| = 1; syscall(0x40000000 + 39); printf \"x32 said %d\\n\", $!; sleep 1000']\n";
    for (name, more, wanted) in
        [("x32", "", "x32 said 1"), ("x32-off", "seccomp = 'off'\n", "x32 said ")]
    {
        let mut fleet = Fleet::run(name, &format!("{text}{more}"));
        fleet.line_with("a: ready");
        let out = fleet.ask(&["logs", "a"]).out;
        assert!(out.starts_with(wanted), "{out}");
        assert_eq!(out.trim() == "x32 said 1", more.is_empty(), "{out}");
        fleet.ends();
    }
}

/// A program of 32 bits that ends with code 7: its head, one piece of it to be loaded, and `exit(7)`. Source:
/// elf(5).
#[cfg(target_arch = "x86_64")]
fn of_32_bits() -> Vec<u8> {
    const START: u32 = 0x0804_8000;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves = |of: &[u16]| of.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let words = |of: &[u32]| of.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    bytes.extend(halves(&[2, 3]));
    bytes.extend(words(&[1, START + 84, 52, 0, 0]));
    bytes.extend(halves(&[52, 32, 1, 0, 0, 0]));
    bytes.extend(words(&[1, 0, START, START, 96, 96, 5, 4_096]));
    bytes.extend(b"\xb8\x01\0\0\0\xbb\x07\0\0\0\xcd\x80");
    bytes
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_another_architecture_are_ended() {
    let path = std::env::temp_dir().join(format!("throng-it-i386-{}", std::process::id()));
    std::fs::write(&path, of_32_bits()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("command = ['{}']\nrestart = 'never'\n", path.display());
    let text = format!(
        "[[server]]\nname = 'filtered'\n{command}[[server]]\nname = 'free'\nseccomp = 'off'\n{command}"
    );
    let mut fleet = Fleet::run("i386", &text);
    let free = fleet.line_with("free: failed");
    let filtered = fleet.line_with("filtered: failed");
    if free.contains("ended by itself with code 7") {
        assert!(filtered.contains("ended by signal 31 SIGSYS"), "{filtered}");
    } else {
        eprintln!("skipped: this kernel runs no programs of 32 bits: {free}");
    }
    fleet.ends();
    std::fs::remove_file(path).unwrap();
}
