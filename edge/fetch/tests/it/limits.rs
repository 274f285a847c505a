//! How many at one time, and who waits for whom.

use std::io::Read as _;
use std::sync::mpsc::channel;

use fetch::FetchSettings;
use game::fetch::{Fetch as _, FetchPayer, Principal};
use uuid::Uuid;

use crate::rig::{ANN, BOB, PATIENCE, Rig, Server, request, settings};

fn quick(host: &'static str) -> Server {
    Server::at(host, |mut stream, _| {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let _ = std::io::Write::write_all(&mut stream, answer);
    })
}

#[test]
fn one_user_has_so_many_and_the_neighbour_does_not_wait() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.2"));
    let mut rig = Rig::new(FetchSettings { requests_per_user: 4, ..settings() });
    let tickets: Vec<u64> = (0..20).map(|_| rig.start(ANN, request(slow.url("/")))).collect();
    for _ in 0..16 {
        let (ticket, result) = rig.next();
        let text = result.unwrap_err().0;
        assert!(tickets[4..].contains(&ticket), "{ticket}");
        assert!(text.contains("fetch.requests_per_user"), "{text}");
    }
    for _ in 0..20 {
        let ticket = rig.start(BOB, request(server.url("/")));
        let (of, result) = rig.next();
        assert_eq!((of, result.unwrap().code), (ticket, 200));
    }
    assert_eq!((rig.count("fetch_limited"), rig.count("fetch_requests_now")), (16, 4));
}

#[test]
fn a_slow_host_takes_its_places_only() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.2"));
    let mut rig = Rig::new(FetchSettings {
        requests_max: 3,
        requests_per_host: 2,
        requests_per_user: 10,
        ..settings()
    });
    (0..10).for_each(|_| _ = rig.start(ANN, request(slow.url("/"))));
    (0..2).for_each(|_| drop(slow.request()));
    for _ in 0..5 {
        let ticket = rig.start(BOB, request(server.url("/")));
        assert_eq!(rig.next().0, ticket);
    }
    assert_eq!(slow.connections(), 2);
}

const CAT: Principal = Principal::User(Uuid::from_u128(3));

/// Answers at once, but for the path `/slow`, to which it never does.
fn either(host: &'static str) -> Server {
    Server::at(host, |mut stream, request| {
        if request.starts_with("GET /slow ") {
            let _ = stream.read(&mut [0]);
        } else {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            let _ = std::io::Write::write_all(&mut stream, answer);
        }
    })
}

#[test]
fn a_port_that_hangs_keeps_nobody_from_another_of_its_host() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.1"));
    let mut rig = Rig::new(FetchSettings { requests_per_host: 2, ..settings() });
    (0..4).for_each(|_| _ = rig.start(ANN, request(slow.url("/"))));
    (0..2).for_each(|_| drop(slow.request()));
    for _ in 0..5 {
        let ticket = rig.start(BOB, request(server.url("/")));
        assert_eq!(rig.next().0, ticket);
    }
    assert_eq!((slow.connections(), rig.count("fetch_waiting_now")), (2, 2));
}

#[test]
fn two_users_who_hang_leave_a_place_of_a_host_to_the_neighbour() {
    let server = either("127.0.0.1");
    let mut rig = Rig::new(FetchSettings { requests_per_host: 8, ..settings() });
    let slow: Vec<u64> = [ANN, BOB]
        .iter()
        .flat_map(|&payer| (0..8).map(move |_| payer))
        .map(|payer| rig.start(payer, request(server.url("/slow"))))
        .collect();
    for _ in 0..20 {
        let ticket = rig.start(CAT, request(server.url("/")));
        let (of, result) = rig.next();
        assert_eq!((of, result.unwrap().code), (ticket, 200));
    }
    // Six of Ann, and one of Bob, who had none.
    assert_eq!((server.connections(), rig.count("fetch_waiting_now")), (27, 9));
    slow.iter().for_each(|&ticket| rig.door.cancel(ticket));
    assert_eq!(rig.ask(request(server.url("/"))).unwrap().code, 200);
    assert_eq!((rig.count("fetch_turns_missed"), rig.count("fetch_waiting_now")), (9, 0));
}

#[test]
fn users_who_hang_at_many_hosts_leave_a_place_to_the_neighbour() {
    let slow = [Server::silent("127.0.0.1"), Server::silent("127.0.0.2")];
    let server = quick("127.0.0.1");
    let mut rig = Rig::new(FetchSettings { requests_max: 8, requests_per_host: 8, ..settings() });
    for payer in [ANN, BOB] {
        (0..8).for_each(|n| _ = rig.start(payer, request(slow[n % 2].url("/"))));
    }
    for _ in 0..20 {
        let ticket = rig.start(CAT, request(server.url("/")));
        let (of, result) = rig.next();
        assert_eq!((of, result.unwrap().code), (ticket, 200));
    }
}

/// Many accounts of one client, each of which has what one may have.
#[test]
fn many_users_of_one_address_leave_places_to_other_addresses() {
    let server = either("127.0.0.1");
    let mut rig = Rig::new(FetchSettings {
        requests_max: 8,
        requests_per_host: 8,
        requests_per_address: 20,
        ..settings()
    });
    let at = |client, user| FetchPayer {
        principal: Principal::User(Uuid::from_u128(user)),
        client: Some(client),
    };
    let slow: Vec<u64> =
        (10..31).map(|user| rig.start(at(7, user), request(server.url("/slow")))).collect();
    let (excess, result) = rig.next();
    assert_eq!(excess, slow[20]);
    assert!(result.unwrap_err().0.contains("fetch.requests_per_address"));
    for _ in 0..20 {
        let ticket = rig.start(at(8, 1), request(server.url("/")));
        let (of, result) = rig.next();
        assert_eq!((of, result.unwrap().code), (ticket, 200));
    }
    assert_eq!((server.connections(), rig.count("fetch_waiting_now")), (27, 13));
    // What has ended counts no more.
    rig.door.cancel(slow[0]);
    let ticket = rig.start(at(7, 99), request("nowhere"));
    assert_eq!(rig.next().0, ticket);
    assert_eq!(rig.count("fetch_limited"), 1);
}

#[test]
fn who_waits_is_next_and_what_is_cancelled_leaves_its_place() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.2"));
    let mut rig = Rig::new(FetchSettings { requests_max: 2, waiting_max: 1, ..settings() });
    let first = rig.start(ANN, request(slow.url("/")));
    rig.start(ANN, request(slow.url("/")));
    (0..2).for_each(|_| drop(slow.request()));
    let waits = rig.start(BOB, request(server.url("/")));
    let excess = rig.start(BOB, request(server.url("/")));
    let (ticket, result) = rig.next();
    assert_eq!(ticket, excess);
    assert!(result.unwrap_err().0.contains("fetch.waiting_max"));
    assert_eq!(server.connections(), 0);
    rig.door.cancel(first);
    let (ticket, result) = rig.next();
    assert_eq!((ticket, result.unwrap().code), (waits, 200));
    assert_eq!((rig.count("fetch_cancelled"), rig.count("fetch_requests_now")), (1, 1));
    // Once more is nothing.
    rig.door.cancel(first);
    rig.door.cancel(waits);
    rig.door.cancel(99);
    assert!(rig.is_quiet());
}

#[test]
fn calls_of_nobody_in_particular_leave_half_of_the_places() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.2"));
    let mut rig = Rig::new(FetchSettings { requests_max: 4, ..settings() });
    (0..10).for_each(|_| _ = rig.start(Principal::Server, request(slow.url("/"))));
    (0..2).for_each(|_| drop(slow.request()));
    for payer in [ANN, Principal::Match(Uuid::from_u128(9)), Principal::Address(5)] {
        let ticket = rig.start(payer, request(server.url("/")));
        assert_eq!(rig.next().0, ticket);
    }
    assert_eq!(slow.connections(), 2);
}

/// Each of them has less than one may have.
#[test]
fn matches_together_leave_half_of_the_places() {
    let (slow, server) = (Server::silent("127.0.0.1"), quick("127.0.0.2"));
    let mut rig = Rig::new(FetchSettings { requests_max: 8, waiting_max: 12, ..settings() });
    let of = |number| Principal::Match(Uuid::from_u128(number));
    let tickets: Vec<u64> =
        (0..30).map(|number| rig.start(of(number % 15), request(slow.url("/")))).collect();
    for excess in &tickets[10..] {
        let (ticket, result) = rig.next();
        assert_eq!(ticket, *excess);
        assert!(result.unwrap_err().0.contains("fetch.waiting_max"));
    }
    for payer in [ANN, Principal::Server, Principal::Address(5)] {
        let ticket = rig.start(payer, request(server.url("/")));
        let (of, result) = rig.next();
        assert_eq!((of, result.unwrap().code), (ticket, 200));
    }
    // What has ended counts no more.
    rig.door.cancel(tickets[0]);
    rig.start(of(40), request(slow.url("/")));
    let ticket = rig.start(of(41), request(slow.url("/")));
    assert_eq!(rig.next().0, ticket);
    assert_eq!(rig.count("fetch_requests_now"), 10);
}

#[test]
fn a_redirect_does_not_go_around_the_limit_of_a_host() {
    let slow = Server::silent("127.0.0.2");
    let to = slow.url("/");
    let server = Server::saying(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\n\r\n"));
    let mut rig = Rig::new(FetchSettings { requests_per_host: 1, ..settings() });
    rig.start(ANN, request(slow.url("/")));
    drop(slow.request());
    assert_eq!(rig.start(BOB, request(server.url("/"))), 2);
    let (ticket, result) = rig.next();
    assert_eq!(ticket, 2);
    assert!(result.unwrap_err().0.contains("fetch.requests_per_host"));
}

/// What a busy thread has not taken counts as much as what is under way.
#[test]
fn an_answer_counts_until_nobody_has_it_any_more() {
    let content = "x".repeat(600);
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n{content}");
    let server = Server::saying(text);
    let mut rig = Rig::new(FetchSettings { memory_bytes_max: 1_000, ..settings() });
    let first = rig.ask(request(server.url("/"))).unwrap();
    assert_eq!((first.body.len(), rig.count("fetch_bytes_now")), (600, 600));
    assert!(rig.fail(request(server.url("/"))).contains("fetch.memory_max_bytes"));
    drop(first);
    assert_eq!(rig.count("fetch_bytes_now"), 0);
    assert!(rig.ask(request(server.url("/"))).is_ok());
}

#[test]
fn who_waits_when_the_server_stops_is_told() {
    let slow = Server::silent("127.0.0.1");
    let mut rig = Rig::new(settings());
    rig.start(ANN, request(slow.url("/")));
    drop(slow.request());
    rig.stop();
    assert_eq!(rig.next().1.unwrap_err().0, "the server is stopping");
    assert_eq!(rig.fail(request(slow.url("/"))), "the server is stopping");
    assert_eq!(rig.count("fetch_requests_now"), 0);
}

#[test]
fn what_is_under_way_ends_with_the_thread() {
    let (sender, ended) = channel();
    let sender = std::sync::Mutex::new(sender);
    let slow = Server::new(move |mut stream, _| {
        let end = stream.read(&mut [0]).unwrap_or(0);
        sender.lock().unwrap().send(end).unwrap();
    });
    let mut rig = Rig::new(settings());
    rig.start(ANN, request(slow.url("/")));
    drop(slow.request());
    drop(rig);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(0));
}
