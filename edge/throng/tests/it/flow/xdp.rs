//! `--style xdp` between two network namespaces, at either end, and where it cannot be.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;

use engine::{Namespace, VethPair};

use super::*;

/// Both ends of a flow, each in its namespace.
struct Ends(VethPair);

impl Ends {
    /// None where this user may not make them.
    fn new() -> Option<Self> {
        VethPair::new().map(Self).map_err(|error| eprintln!("skipped: {error}")).ok()
    }

    fn start(at: &Namespace, set_up: impl FnOnce(&mut Command) + Send) -> Process {
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
            set_up(&mut command);
            Process::of(command)
        };
        at.within(start).unwrap()
    }

    fn server(&self, set_up: impl FnOnce(&mut Command) + Send) -> (Process, String) {
        let address = VethPair::FAR.to_string();
        let mut server = Self::start(&self.0.far, |command| {
            command.args(["ping", "serve", "--port", "0", "--address", &address]);
            command.args(["--token", "t", "--xdp"]);
            set_up(command);
        });
        let target = format!("{address}:{}", server.port());
        (server, target)
    }

    fn client(&self, target: &str, flags: &[&str]) -> Process {
        Self::start(&self.0.near, |command| {
            command.args(["flow", target, "--token", "t", "--udp", "--style", "xdp"]).args(flags);
        })
    }

    /// Whether a program stands before the interface of an end.
    fn has_program(at: &Namespace) -> bool {
        let ask = || Command::new("ip").args(["link", "show", VethPair::INTERFACE]).output();
        let output = at.within(ask).unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
    }
}

/// Whether this kernel lets this user take frames at all.
fn may_take_frames(ends: &Ends) -> bool {
    use engine::datagram::{Setup, Style};
    let open = || {
        let socket = std::net::UdpSocket::bind((VethPair::FAR, 0)).unwrap();
        let interface = Some((VethPair::INTERFACE.to_owned(), 0));
        let setup = Setup { interface, ..Setup::default() };
        Style::Xdp.open(socket, &setup).map(drop).map_err(|error| error.to_string())
    };
    let opened = ends.0.far.within(open).unwrap();
    opened.map_err(|error| eprintln!("skipped: {error}")).is_ok()
}

#[test]
fn frames_are_taken_at_either_end_and_the_interface_is_left_as_it_was() {
    let Some(ends) = Ends::new().filter(may_take_frames) else { return };
    let (server, target) = ends.server(|_| {});
    for (receiver, flags) in [(&ends.0.far, &[][..]), (&ends.0.near, &["--reverse"])] {
        let folder = Folder::new("flow-xdp");
        let flags =
            [&["-t", "2s", "-W", "200ms", "--rate", "5kpps", "--out", folder.path()], flags]
                .concat();
        let mut client = ends.client(&target, &flags);
        client.is_counting();
        assert!(Ends::has_program(receiver), "{flags:?}: the stack has them");
        let ran = client.end();
        let told = format!("{flags:?}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(0), "{told}");
        let result = folder.result();
        let count = |name: &str| number(&result, &format!("/flow/datagrams/{name}"));
        assert!(count("received") > 3_000.0 && count("lost") < 0.1 * count("sent"), "{told}");
        assert!(count("doubled") + count("reordered") + count("foreign") < 0.5, "{told}");
        let began = Instant::now();
        while Ends::has_program(receiver) {
            assert!(began.elapsed() < SOON, "{flags:?}: the program stays");
        }
    }
    // Whoever pings meanwhile is answered by the stack.
    let client = ends.client(&target, &["-t", "30s", "--rate", "1kpps"]);
    let began = Instant::now();
    while !Ends::has_program(&ends.0.far) {
        assert!(began.elapsed() < SOON);
    }
    let ping = Ends::start(&ends.0.near, |command| {
        command.args(["ping", &target, "--token", "t", "--udp", "-n", "20", "-i", "5ms"]);
    });
    let ran = ping.end();
    assert!(ran.out.contains("lost 0 of 20"), "{}{}", ran.out, ran.err);
    client.signal(Signal::INT);
    client.end();
    server.signal(Signal::INT);
    let ran = server.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[test]
fn where_no_frames_can_be_taken_the_cause_and_the_cure_are_told() {
    let (_server, port) = server(&[]);
    let ran = flow(&[&at(port), "--udp", "--style", "xdp"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("has to be started with --xdp"), "{}{}", ran.out, ran.err);
    let (_server, port) = server(&["--xdp"]);
    let ran = flow(&[&at(port), "--udp", "--style", "xdp"]);
    let told = format!("{}{}", ran.out, ran.err);
    assert_eq!(ran.code, Some(1), "{told}");
    assert!(
        ran.err.contains("stays within this machine") && ran.err.contains("namespace"),
        "{told}"
    );
    let Some(ends) = Ends::new().filter(may_take_frames) else { return };
    let fails = |target: &str, flags: &[&str], part: &str| {
        let ran = ends.client(target, flags).end();
        let told = format!("{flags:?}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(1), "{told}");
        assert!(ran.err.contains(part), "`{part}`: {told}");
    };
    // Nobody special.
    let (_server, target) = ends.server(|command| {
        command.uid(65_534).gid(65_534);
    });
    fails(&target, &[], "it takes root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF");
    let (_server, target) = ends.server(|_| {});
    fails(&target, &["-l", "1500"], "datagrams of more than 1472 bytes come in fragments");
    // An address that two interfaces have.
    let second = || {
        for args in ["link add more type veth peer name most", "address add 192.0.2.2/32 dev more"]
        {
            assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success());
        }
    };
    assert_eq!(VethPair::FAR, Ipv4Addr::new(192, 0, 2, 2));
    ends.0.far.within(second).unwrap();
    fails(&target, &[], "192.0.2.2 is an address of 2 (");
}
