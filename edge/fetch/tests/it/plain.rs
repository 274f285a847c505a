//! What is sent and what is got.

use bytes::Bytes;
use game::fetch::{FetchRequest, Method};

use crate::rig::{Rig, Server, header, request, settings};

#[test]
fn an_answer_has_code_headers_and_content() {
    let server = Server::saying(
        "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\nSET-COOKIE: a\r\nset-cookie: b\r\n\
         Content-Length: 4\r\n\r\ngone",
    );
    let answer = Rig::new(settings()).ask(request(server.url("/a b?c=d#e"))).unwrap();
    assert_eq!((answer.code, &*answer.body), (404, &b"gone"[..]));
    let mut headers = answer.headers;
    headers.sort_unstable();
    let wanted = [("Content-Length", "4"), ("Content-Type", "text/plain"), ("Set-Cookie", "b")];
    let wanted =
        wanted.map(|(name, value)| (name.to_owned(), Bytes::from_static(value.as_bytes())));
    assert_eq!(headers, wanted);
    let sent = server.request();
    let host = format!("Host: 127.0.0.1:{}\r\n", server.port);
    for part in
        ["GET /a%20b?c=d HTTP/1.1\r\n", &host, "Connection: close\r\n", "User-Agent: throng\r\n"]
    {
        assert_eq!(sent.matches(part).count(), 1, "{part:?} in {sent}");
    }
    assert!(!sent.to_ascii_lowercase().contains("content-length"), "{sent}");
}

#[test]
fn methods_and_content_arrive_with_one_length() {
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    let mut rig = Rig::new(settings());
    for (method, body) in [
        (Method::Post, "{\"a\":1}"),
        (Method::Post, ""),
        (Method::Put, "x"),
        (Method::Patch, "y"),
        (Method::Delete, "z"),
        (Method::Delete, ""),
        (Method::Head, ""),
    ] {
        let headers = vec![
            header("Content-Type", "application/json"),
            header("content-length", &body.len().to_string()),
        ];
        let body = Bytes::from_static(body.as_bytes());
        let wanted =
            FetchRequest { method, headers, body: body.clone(), ..request(server.url("/")) };
        let answer = rig.ask(wanted).unwrap();
        let is_head = method == Method::Head;
        assert_eq!(&*answer.body, if is_head { &b""[..] } else { b"until the end" });
        let sent = server.request();
        assert!(sent.starts_with(&format!("{} / HTTP/1.1\r\n", method.name())), "{sent}");
        assert!(sent.ends_with(&*String::from_utf8_lossy(&body)), "{sent}");
        let lengths = sent.matches("Content-Length: ").count();
        let has_length = !body.is_empty() || method == Method::Post;
        assert_eq!(lengths, usize::from(has_length), "{sent}");
    }
}

#[test]
fn chunked_content_and_trailers_are_content() {
    let server = Server::saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n",
    );
    let answer = Rig::new(settings()).ask(request(server.url(""))).unwrap();
    assert_eq!(&*answer.body, b"abcde");
}

#[test]
fn what_is_packed_stays_packed() {
    // Ten bytes that would unpack to anything.
    let server =
        Server::saying("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nzip");
    let answer = Rig::new(settings()).ask(request(server.url("/"))).unwrap();
    assert_eq!(&*answer.body, b"zip");
    assert!(!server.request().contains("Accept-Encoding"));
}

#[test]
fn redirects_are_followed_as_go_does() {
    let server = Server::new(|mut stream, request| {
        let path = request.split(' ').nth(1).unwrap();
        let answer = match path.strip_prefix("/from/") {
            Some(code) => format!(
                "HTTP/1.1 {code} Moved\r\nLocation: ../there?x\r\nContent-Length: 0\r\n\r\n"
            ),
            None => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
        };
        let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
    });
    let mut rig = Rig::new(settings());
    for (code, method, wanted) in [
        ("301", Method::Post, "GET"),
        ("302", Method::Put, "GET"),
        ("303", Method::Get, "GET"),
        ("303", Method::Head, "HEAD"),
        ("307", Method::Post, "POST"),
        ("308", Method::Patch, "PATCH"),
    ] {
        let headers = vec![header("Authorization", "key"), header("Content-Type", "text/x")];
        let body = Bytes::from_static(b"content");
        let url = server.url(&format!("/from/{code}"));
        let answer = rig.ask(FetchRequest { method, headers, body, ..request(url) }).unwrap();
        assert_eq!(answer.code, 200);
        assert!(server.request().contains(&format!("/from/{code}")));
        let sent = server.request();
        assert!(sent.starts_with(&format!("{wanted} /there?x HTTP/1.1\r\n")), "{code}: {sent}");
        // The same origin may see all.
        assert!(sent.contains("Authorization: key\r\n"), "{code}: {sent}");
        let keeps = wanted != "GET" && wanted != "HEAD";
        assert_eq!(sent.ends_with("content"), keeps, "{code}: {sent}");
        assert_eq!(sent.contains("Content-Type"), keeps, "{code}: {sent}");
    }
    // A script that wants to see them is handed them.
    let mut rig = Rig::new(fetch::FetchSettings { redirects_max: 0, ..settings() });
    let answer = rig.ask(request(server.url("/from/302"))).unwrap();
    assert_eq!(answer.code, 302);
}
