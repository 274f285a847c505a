//! `throng echo --udp` from outside, with real sockets: what comes back and what does not, `throng ping`
//! against it, and that what is lost is counted.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::ping::{Process, at, fails_soon};
use super::{Ran, throng};

/// Longer than an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const DRIVERS: [&str; 2] = ["auto", "poll"];

/// A server and its port.
fn server(driver: &str, more: &[&str]) -> (Process, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command.args(["echo", "--port", "0", "--udp", "--driver", driver]).args(more);
    let mut server = Process::of(command);
    let line = server.line_with("listening on http://");
    let after = line.split("http://127.0.0.1:").nth(1).unwrap();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    (server, digits.parse().unwrap())
}

/// A socket that hears from that port alone.
fn client(port: u16) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn asked(client: &UdpSocket, bytes: &[u8]) -> Vec<u8> {
    client.send(bytes).unwrap();
    let mut back = vec![0; 65_536];
    loop {
        match client.recv(&mut back) {
            // With a timeout set, such calls are not begun again by the system. Source: signal(7).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => {
                back.truncate(received.unwrap());
                return back;
            }
        }
    }
}

/// What the server said of datagrams when it was stopped.
fn ended(server: Process) -> String {
    server.signal(Signal::TERM);
    let ran = server.end();
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let line = ran.out.lines().find(|line| line.contains("not_answered"));
    line.unwrap_or_else(|| panic!("nothing about datagrams: {}{}", ran.out, ran.err)).to_owned()
}

/// A count of that line, whatever the log's form.
fn count(line: &str, name: &str) -> u64 {
    let at = |start: &str| {
        line.match_indices(start).map(|(at, _)| at).find(|at| {
            let before = line[..*at].chars().next_back();
            before.is_none_or(|it| !it.is_ascii_alphanumeric() && it != '_')
        })
    };
    let after = &line[at(name).unwrap_or_else(|| panic!("no {name}: {line}")) + name.len()..];
    let digits = after.trim_start_matches(|it: char| !it.is_ascii_digit());
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn each_datagram_goes_back_to_its_sender() {
    for driver in DRIVERS {
        let (server, port) = server(driver, &["--cores", "2"]);
        let mut sent = 0;
        for round in 0..8_u8 {
            // The kernel spreads senders over the two cores.
            let client = client(port);
            for len in [0, 1, 64, 1_473, 65_507] {
                let bytes = vec![round; len];
                assert!(asked(&client, &bytes) == bytes, "{len} bytes");
                sent += 1;
            }
        }
        let line = ended(server);
        for (name, wanted) in
            [("received", sent), ("answered", sent), ("not_answered", 0), ("lost", 0)]
        {
            assert_eq!(count(&line, name), wanted, "{line}");
        }
    }
}

/// Senders that could be servers like itself, or that answer whatever comes.
#[test]
fn who_would_answer_in_turn_is_not_answered() {
    let (server, port) = server("auto", &[]);
    let twin = UdpSocket::bind(("127.0.0.2", port)).unwrap();
    twin.set_nonblocking(true).unwrap();
    for _ in 0..3 {
        twin.send_to(b"bounce", ("127.0.0.1", port)).unwrap();
    }
    assert_eq!(asked(&client(port), b"neighbour"), b"neighbour");
    assert!(twin.recv(&mut [0; 10]).is_err(), "an echo was answered");
    let line = ended(server);
    assert_eq!((count(&line, "received"), count(&line, "answered")), (4, 1), "{line}");
    assert_eq!(count(&line, "not_answered"), 3, "{line}");
}

fn ping(args: &[&str]) -> Ran {
    throng(&[&["ping"][..], args].concat())
}

#[test]
fn ping_measures_it_without_a_session() {
    for driver in DRIVERS {
        let (server, port) = server(driver, &[]);
        let target = at(port);
        let args = ["--udp", "--plain", "-n", "200", "-i", "1ms", "-w", "2", "-l", "16,1k,1472"];
        let all = [&[&*target][..], &args, &["--expect", "lost == 0", "--expect", "doubled == 0"]];
        let ran = ping(&all.concat());
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("UDP round trips of 16, 1024, 1472 bytes"), "{}", ran.out);
        // Asked for a session it says what would do.
        fails_soon(ping, &[&target, "--udp", "-n", "5"], "--udp --plain");
        let line = ended(server);
        assert!(count(&line, "answered") >= 200, "{line}");
        // And when it has ended, that.
        fails_soon(
            ping,
            &[&target, "--udp", "--plain", "-n", "5"],
            "nothing listens for datagrams",
        );
    }
}

/// A server that stands still for a moment: its socket overflows, and every datagram is accounted for.
#[test]
fn what_is_lost_is_counted() {
    const SENT: u64 = 5_000;
    for driver in DRIVERS {
        let (server, port) = server(driver, &[]);
        let client = client(port);
        assert_eq!(asked(&client, b"hello"), b"hello");
        server.signal(Signal::STOP);
        (0..SENT).for_each(|_| assert_eq!(client.send(&[7; 1_000]).unwrap(), 1_000));
        server.signal(Signal::CONT);
        let mut sent = SENT + 1;
        client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // Answers have no more room here than questions there.
        let is_through = (0..100).any(|_| {
            sent += 1;
            client.send(b"through?").unwrap();
            let mut back = [0; 2_000];
            std::iter::from_fn(|| client.recv(&mut back).ok()).any(|len| len == 8)
        });
        assert!(is_through, "no answer after the flood");
        let line = ended(server);
        let (received, lost) = (count(&line, "received"), count(&line, "lost"));
        assert!(lost > 0 && received + lost == sent, "{sent} sent: {line}");
        assert_eq!(count(&line, "answered"), received, "{line}");
    }
}
