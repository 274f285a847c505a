//! What is known beforehand is what is reported: delays, losses, doubles, swaps, a server that
//! stands still.

use std::time::Duration;

use super::relay::{Harm, Relay};
use super::{Folder, at, number, ping, server};

const MS: f64 = 1e6;

#[test]
fn a_known_delay_is_reported_for_every_kind() {
    let (_server, port) = server(&[]);
    let relay = Relay { delay: Duration::from_millis(20), stall: None, harm: Harm::None };
    let target = at(relay.start(port));
    for kind in [&[][..], &["--udp"], &["--http"], &["--ws"]] {
        let folder = Folder::new("delay");
        let mut args = vec![&*target, "-n", "20", "-i", "60ms", "-w", "1", "--out", folder.path()];
        args.extend(kind);
        let ran = ping(&args);
        assert_eq!(ran.code, Some(0), "{kind:?} {}{}", ran.out, ran.err);
        let result = folder.result();
        for time in ["service", "response"] {
            let of = |what: &str| number(&result, &format!("/ops/0/{time}/{what}"));
            // A sleep is never shorter; how much longer it is is this machine's affair.
            assert!(of("min_ns") >= 20.0 * MS && of("p50_ns") < 30.0 * MS, "{kind:?} {}", ran.out);
        }
    }
}

#[test]
fn lost_doubled_and_swapped_datagrams_are_counted_exactly() {
    let (_server, port) = server(&[]);
    let relay = Relay { delay: Duration::ZERO, stall: None, harm: Harm::Some };
    let target = at(relay.start(port));
    let folder = Folder::new("harm");
    let ran =
        ping(&[&target, "--udp", "-n", "100", "-i", "5ms", "-w", "0", "--out", folder.path()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let wanted = "lost 10 of 100 (10 %), doubled 10, reordered 10";
    assert!(ran.out.contains(wanted), "{wanted}: {}", ran.out);
    let result = folder.result();
    for (what, count) in [("lost", 10.0), ("doubled", 10.0), ("reordered", 10.0), ("echoes", 90.0)]
    {
        assert!((number(&result, &format!("/deliveries/{what}")) - count).abs() < 0.1, "{what}");
    }
    // A lost datagram is in no time.
    assert!((number(&result, "/ops/0/service/count") - 90.0).abs() < 0.1);
    assert!((number(&result, "/ops/0/unanswered") - 10.0).abs() < 0.1);
}

#[test]
fn a_server_that_stands_still_is_seen_in_the_open_loop_and_not_in_the_closed_one() {
    let (_server, port) = server(&[]);
    let stall = Some((Duration::from_millis(500), Duration::from_millis(1_100)));
    let relay = Relay { delay: Duration::ZERO, stall, harm: Harm::None };
    let p90_ns = |interval: &str, name: &str| {
        let folder = Folder::new("still");
        let target = at(relay.start(port));
        let ran = ping(&[&target, "-n", "2s", "-i", interval, "-w", "0", "--out", folder.path()]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let result = folder.result();
        assert!(number(&result, "/ops/0/service/max_ns") > 400.0 * MS, "{}", ran.out);
        number(&result, &format!("/ops/0/{name}/p90_ns"))
    };
    // Three tenths of all pings fall into the 600 ms, and wait 300 ms in the mean.
    let open_ns = p90_ns("2ms", "response");
    assert!((250.0 * MS..600.0 * MS).contains(&open_ns), "{open_ns}");
    let closed_ns = p90_ns("0", "service");
    assert!(closed_ns < 100.0 * MS, "{closed_ns}");
}
