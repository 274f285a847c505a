//! Who is not reached, however the way there is written.

use fetch::{FetchSettings, HostPattern};
use game::fetch::FetchRequest;

use crate::rig::{Rig, Server, header, request, settings};

fn redirecting(to: String) -> Server {
    Server::saying(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))
}

#[test]
fn this_machine_is_not_reached_by_default() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    let mut rig = Rig::new(FetchSettings { networks: Vec::new(), ..settings() });
    let port = server.port;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.2",
        "localhost",
        "LOCALHOST.",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let text = rig.fail(request(format!("http://{host}:{port}/")));
        assert!(text.contains("fetch.networks"), "{host}: {text}");
    }
    assert_eq!(server.connections(), 0);
    assert_eq!(rig.count("fetch_refused"), 23);
}

#[test]
fn redirects_are_looked_at_as_first_hops_are() {
    let inner = Server::at("127.0.0.3", |_, _| {});
    let mut rig = Rig::new(FetchSettings {
        deny: HostPattern::parse("*:6379").into_iter().collect(),
        ..settings()
    });
    let port = inner.port;
    for (to, wanted) in [
        (format!("http://127.0.0.3:{port}/"), "fetch.networks"),
        (format!("//127.0.0.3:{port}/"), "fetch.networks"),
        (format!("http://[::ffff:127.0.0.3]:{port}/"), "fetch.networks"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "fetch.networks"),
        ("http://127.0.0.1:6379/".to_owned(), "fetch.deny"),
        ("file:///etc/passwd".to_owned(), "must begin with http"),
        ("gopher://127.0.0.1:6379/_x".to_owned(), "must begin with http"),
        ("http://a:b@127.0.0.1/".to_owned(), "Authorization"),
    ] {
        let server = redirecting(to.clone());
        let text = rig.fail(request(server.url("/")));
        assert!(text.contains(wanted), "{to}: {text}");
        let from = format!("redirected from 127.0.0.1:{}: ", server.port);
        assert_eq!(text.starts_with(&from), wanted.starts_with("fetch."), "{to}: {text}");
        // What a name leads to is nobody's business.
        assert!(!text.contains("169.254.169.254") || to.contains("169.254"), "{text}");
    }
    assert_eq!(inner.connections(), 0);
}

#[test]
fn loops_end() {
    let server = Server::new(|mut stream, _| {
        let answer = b"HTTP/1.1 301 Moved\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n";
        let _ = std::io::Write::write_all(&mut stream, answer);
    });
    let text = Rig::new(settings()).fail(request(server.url("/")));
    assert_eq!(text, "redirected more than 10 times (fetch.redirects_max)");
    assert_eq!(server.connections(), 11);
}

#[test]
fn keys_do_not_go_along_to_another_origin() {
    let other = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let server = redirecting(other.url("/there"));
    let headers = vec![
        header("Authorization", "Bearer key"),
        header("Cookie", "a=b"),
        header("X-Api-Key", "key"),
        header("Accept", "text/plain"),
    ];
    let mut rig = Rig::new(settings());
    rig.ask(FetchRequest { headers, ..request(server.url("/")) }).unwrap();
    assert!(server.request().contains("X-Api-Key: key"));
    let sent = other.request();
    assert!(sent.contains("Accept: text/plain"), "{sent}");
    for secret in ["key", "a=b", "Authorization", "Cookie"] {
        assert!(!sent.contains(secret), "{sent}");
    }
}

/// What is written in the URL is known before any name server is asked.
#[test]
fn both_settings_that_a_private_address_needs_are_named_at_once() {
    let list = |text: &str| HostPattern::parse(text).into_iter().collect::<Vec<_>>();
    let mut rig = Rig::new(FetchSettings { allow: list("*:443"), ..settings() });
    let text = rig.fail(request("http://10.0.0.1/"));
    assert!(text.contains("fetch.allow") && text.contains("fetch.networks"), "{text}");
    let text = rig.fail(request("http://127.0.0.1/"));
    assert!(text.ends_with("fetch.allow does not name it"), "{text}");
}

#[test]
fn hosts_and_ports_are_allowed_and_denied_by_name() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let list = |text: &str| HostPattern::parse(text).into_iter().collect::<Vec<_>>();
    let port = server.port;
    for (allow, deny, wanted) in [
        (format!("127.0.0.1:{port}"), String::new(), ""),
        ("127.0.0.1".to_owned(), "*:1".to_owned(), ""),
        ("*:443".to_owned(), String::new(), "fetch.allow"),
        (String::new(), String::new(), "fetch.allow"),
        ("*".to_owned(), "127.0.0.1".to_owned(), "fetch.deny"),
    ] {
        let settings = FetchSettings { allow: list(&allow), deny: list(&deny), ..settings() };
        let told = match Rig::new(settings).ask(request(server.url("/"))) {
            Ok(_) => String::new(),
            Err(error) => error.0,
        };
        assert!(told.contains(wanted) && told.is_empty() == wanted.is_empty(), "{allow}: {told}");
    }
    assert_eq!(server.connections(), 2);
}
