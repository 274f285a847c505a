//! Every way in which requests and responses are cut, framed and refused. Each input is decoded
//! whole, byte by byte, and split in two at every point: all must read alike.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use std::fmt::Write as _;

use expect_test::expect;

use super::*;

const LIMITS: Limits = Limits { head_bytes_max: 256, headers_max: 6, body_bytes_max: 32 };

/// All ways of delivering `input` that are tried: whole, in two parts, in single bytes, in threes.
fn deliveries(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut all = vec![vec![input], input.chunks(1).collect(), input.chunks(3).collect()];
    all.extend((0..=input.len()).map(|at| {
        let (first, second) = input.split_at(at);
        vec![first, second]
    }));
    all
}

fn render_headers(headers: Headers<'_>) -> String {
    let mut text = String::new();
    for (name, value) in headers {
        if !name.eq_ignore_ascii_case("host") {
            write!(text, " {name}={}", value.escape_ascii()).unwrap();
        }
    }
    text
}

fn render(request: &Request<'_>) -> String {
    let version = if request.version_1_0 { "1.0" } else { "1.1" };
    let fate = if request.keep_alive { "keep" } else { "close" };
    let mut text = format!("{} {}", request.method, request.target.path);
    if !request.target.query.is_empty() {
        write!(text, "?{}", request.target.query).unwrap();
    }
    write!(text, " {version} {fate}").unwrap();
    text += &render_headers(request.headers);
    if let Some(upgrade) = request.upgrade {
        text += if upgrade.is_connection_option { " UPGRADE" } else { " upgrade" };
    }
    if !request.body.is_empty() {
        write!(text, " [{}]", request.body.escape_ascii()).unwrap();
    }
    text + "\n"
}

fn decode(parts: &[&[u8]], limits: &Limits) -> String {
    let mut decoder = Decoder::new();
    let mut text = String::new();
    for part in parts {
        let mut input = *part;
        loop {
            match decoder.next(&mut input, limits) {
                Ok(Some(request)) => text += &render(&request),
                Ok(None) => break,
                Err(error) => {
                    let again = decoder.next(&mut &b"GET / HTTP/1.0\r\n\r\n"[..], limits);
                    assert_eq!(again.unwrap_err(), error, "an error is final");
                    return text + &format!("{} {error}\n", error.status());
                }
            }
        }
        assert!(input.is_empty(), "what is unfinished is kept");
    }
    if !decoder.is_idle() {
        text += "…\n";
    }
    text
}

/// What `input` reads as, whichever way it is delivered.
fn decode_all_ways(input: &[u8]) -> String {
    let whole = decode(&[input], &LIMITS);
    for parts in deliveries(input) {
        assert_eq!(decode(&parts, &LIMITS), whole, "{parts:?}");
    }
    whole
}

/// `expected` has one line for every request or error, the last without its line end.
fn check(input: impl AsRef<[u8]>, expected: &str) {
    let input = input.as_ref();
    let read = decode_all_ways(input);
    assert_eq!(read.trim_end_matches('\n'), expected, "{}", input.escape_ascii());
}

/// A request with these header lines, whose body, if any, is what follows the empty line.
fn with(lines: &str) -> String {
    let (headers, body) = lines.split_once("\n\n").unwrap_or((lines, ""));
    format!("POST / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n{body}", headers.replace('\n', "\r\n"))
}

#[test]
fn idle_decoders_are_small() {
    assert!(size_of::<Decoder>() <= 16 && size_of::<ResponseDecoder>() <= 16);
}

#[test]
fn plain_requests() {
    check("", "");
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 1.1 keep");
    check(
        "GET /a?b=%20&c HTTP/1.1\r\nhOST:a:7350\r\nX:\r\nY: \t v w \t\r\n\r\n",
        "GET /a?b=%20&c 1.1 keep X= Y=v w",
    );
    check(
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\nX: caf\u{e9}\r\n\r\n",
        "GET / 1.1 keep X=caf\\xc3\\xa9",
    );
    check("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", "BREW /pot 1.1 keep");
    check("GET / HTTP/1.1\r\nHost: a\r\n", "…");
}

#[test]
fn keep_alive_and_pipelines() {
    let get = |rest: &str| format!("GET / HTTP/1.{rest}\r\n\r\n");
    check(get("0"), "GET / 1.0 close");
    check(get("0\r\nConnection: keep-alive"), "GET / 1.0 keep Connection=keep-alive");
    check(
        get("0\r\nConnection: Keep-Alive, close"),
        "GET / 1.0 close Connection=Keep-Alive, close",
    );
    check(get("0\r\nConnection: x, Keep-Alive"), "GET / 1.0 keep Connection=x, Keep-Alive");
    check(get("1\r\nHost: a\r\nConnection: x, CLOSE"), "GET / 1.1 close Connection=x, CLOSE");
    check(
        get("1\r\nHost: a\r\nConnection: x\r\nConnection: close"),
        "GET / 1.1 close Connection=x Connection=close",
    );
    check(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\
         one\r\nPOST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
         GET /4 HTTP/1.1\r\nHost: a\r\n\r\nGET /5",
        "GET /1 1.1 keep\nPOST /2 1.1 keep Content-Length=3 [one]\nPOST /3 1.1 keep Transfer-Encoding=chunked [ab]\nGET /4 1.1 keep\n…",
    );
}

#[test]
fn blank_lines_before_a_request() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    check(format!("\r\n{get}\r\n\r\n{get}\r\n"), "GET / 1.1 keep\nGET / 1.1 keep");
    check(format!("{}{get}", "\r\n".repeat(usize::from(BLANK_LINES_MAX))), "GET / 1.1 keep");
    check(
        format!("{}{get}", "\r\n".repeat(usize::from(BLANK_LINES_MAX) + 1)),
        "400 too many empty lines before a request",
    );
    check(format!("\n{get}"), "400 malformed start line");
    check(format!("\r{get}"), "400 malformed start line");
}

/// The count of empty lines begins anew behind each request, also one that was lent whole.
#[test]
fn blank_lines_are_counted_between_requests() {
    let mut decoder = Decoder::new();
    let blank = "\r\n".repeat(usize::from(BLANK_LINES_MAX));
    for _ in 0..3 {
        assert!(decoder.next(&mut blank.as_bytes(), &LIMITS).unwrap().is_none());
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert!(decoder.next(&mut &request[..], &LIMITS).unwrap().is_some());
    }
}

#[test]
fn targets() {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    check(get("http://b:80/path?q"), "GET /path?q 1.1 keep");
    check(get("HTTPS://b"), "GET / 1.1 keep");
    check(get("http://b?x=1"), "GET /?x=1 1.1 keep");
    check(get("http://b?x=http://c/d"), "GET /?x=http://c/d 1.1 keep");
    check(get("http://b/?x?y/"), "GET /?x?y/ 1.1 keep");
    check(get("http://?x=1"), "400 malformed request target");
    check(get("http:///path"), "400 malformed request target");
    check(get("http://u@b/path"), "400 malformed request target");
    check(get("ftp://b/path"), "400 malformed request target");
    check(get("b:80"), "400 malformed request target");
    check(get("path"), "400 malformed request target");
    check(get("*"), "400 malformed request target");
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * 1.1 keep");
    check("CONNECT b:80 HTTP/1.1\r\nHost: a\r\n\r\n", "501 CONNECT is not supported");
    check(get("/a#b"), "400 malformed request target");
    check(get("/caf\u{e9}"), "400 malformed request target");
    check(get("/a b"), "400 malformed start line");
    check(get("//host/path"), "GET //host/path 1.1 keep");
}

#[test]
fn start_lines() {
    let tls = "TLS is not spoken here: use http:// and ws://, or a proxy that ends TLS";
    check("\x16\x03\x01\x02", &format!("400 {tls}"));
    check("\r\n\x16\x03\x01\x02", "400 malformed start line");
    check("\x15\x03\x01\x02", "400 malformed start line");
    check("GET / HTTP/2.0\r\n\r\n", "505 HTTP version not supported");
    let http2 = "505 HTTP/2, and with it gRPC, is not spoken here: use HTTP/1.1";
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", http2);
    check("PRI /x HTTP/2.0\r\n\r\n", "505 HTTP version not supported");
    check("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "505 HTTP version not supported");
    check("GET / HTTP/0.9\r\n\r\n", "505 HTTP version not supported");
    check("GET /\r\n\r\n", "400 malformed start line");
    check("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET /a HTTP/x y HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET / http/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400 malformed header");
    check(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
    check("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 malformed start line");
}

#[test]
fn hosts() {
    let get = |lines: &str| format!("GET / HTTP/1.1\r\n{lines}\r\n");
    check(get(""), "400 missing or malformed Host header");
    check(get("Host: a\r\nHost: a\r\n"), "400 missing or malformed Host header");
    check(get("Host: a b\r\n"), "400 missing or malformed Host header");
    check(get("Host: a/b\r\n"), "400 missing or malformed Host header");
    check(get("Host: u@b\r\n"), "400 missing or malformed Host header");
    check(get("Host:\r\n"), "GET / 1.1 keep");
    check("GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", "400 missing or malformed Host header");
}

#[test]
fn header_lines() {
    check(with("X : y"), "400 malformed header");
    check(with("X: y\n folded: z"), "400 malformed header");
    check(with("X: y\n\tfolded"), "400 malformed header");
    check(with(" X: y"), "400 malformed header");
    check(with("X y"), "400 malformed header");
    check(with(": y"), "400 malformed header");
    check(with("X[]: y"), "400 malformed header");
    check(with("X\0: y"), "400 malformed header");
    check(with("X: y\0z"), "400 malformed header");
    check(with("X: y\rz"), "400 malformed header");
    check(with("X: y\x7f"), "400 malformed header");
    check("GET / HTTP/1.1\nHost: a\r\n\r\n", "400 line feed without carriage return");
    check("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", "400 line feed without carriage return");
    check("GET / HTTP/1.1\r\nHost: a\r\n\nrest", "400 line feed without carriage return");
    check("GET / HTTP/1.1\r\nHost: a\n\n", "400 line feed without carriage return");
    check("GET / HTTP/1.1\r\nHost: a\r\n\rX\n", "400 line feed without carriage return");
}

/// Headers that mean something are told from others whose names are as long.
#[test]
fn names_of_one_length_are_told_apart() {
    for line in [
        "Hose: a/b",
        "Export: x",
        "Upgrate: websocket",
        "Convection: close",
        "Convection: keep-alive",
        "Content-Lengte: x",
        "Content-Encoders: gzip",
        "Transfer-Decoding: x",
    ] {
        let input = with(line);
        let mut decoder = Decoder::new();
        let request = decoder.next(&mut input.as_bytes(), &LIMITS).unwrap().unwrap();
        assert!(request.keep_alive && request.upgrade.is_none(), "{line}");
        assert_eq!((request.coding, request.body), (Coding::Identity, &b""[..]), "{line}");
        let old = input.replace("HTTP/1.1", "HTTP/1.0");
        let mut decoder = Decoder::new();
        let request = decoder.next(&mut old.as_bytes(), &LIMITS).unwrap().unwrap();
        assert!(!request.keep_alive, "{line}");
    }
    let upgrade = "Upgrade: websocket\nSec-WebSocket-Kay: x\nSec-WebSocket-Edition: 13";
    let input = with(upgrade);
    let mut decoder = Decoder::new();
    let request = decoder.next(&mut input.as_bytes(), &LIMITS).unwrap().unwrap();
    let upgrade = request.upgrade.unwrap();
    assert_eq!((upgrade.key, upgrade.version), (None, None));
}

#[test]
fn lengths() {
    check(with("Content-Length: 3\n\nabcGET"), "POST / 1.1 keep Content-Length=3 [abc]\n…");
    check(with("content-length:0"), "POST / 1.1 keep content-length=0");
    check(with("Content-Length: 0003\n\nabc"), "POST / 1.1 keep Content-Length=0003 [abc]");
    check(with("Content-Length: 3\n\nab"), "…");
    for bad in ["+3", "-3", "0x3", "3.0", "3 3", "3,3", "3, 3", "3;", "three", "", "\u{663}", "1_0"]
    {
        let input = with(&format!("Content-Length: {bad}\n\nabc"));
        check(input, "400 malformed Content-Length header");
    }
    check(
        with("Content-Length: 3\nContent-Length: 4\n\nabcd"),
        "400 malformed Content-Length header",
    );
    check(
        with("Content-Length: 3\nContent-Length: 3\n\nabc"),
        "400 malformed Content-Length header",
    );
    check(
        with("Content-Length: 32\n\n12345678901234567890123456789012"),
        "POST / 1.1 keep Content-Length=32 [12345678901234567890123456789012]",
    );
    check(with("Content-Length: 33"), "413 http: request body too large");
    check(with("Content-Length: 18446744073709551616"), "413 http: request body too large");
    check(with("Content-Length: 99999999999999999999999999"), "413 http: request body too large");
}

#[test]
fn chunked_bodies() {
    let chunked = |body: &str| with(&format!("Transfer-Encoding: chunked\n\n{body}"));
    check(chunked("0\r\n\r\n"), "POST / 1.1 keep Transfer-Encoding=chunked");
    check(
        chunked("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET /next HTTP"),
        "POST / 1.1 keep Transfer-Encoding=chunked [abc0123456789]\n…",
    );
    check(
        chunked("003;ext=\"x;y\"\r\nabc\r\n000;last\r\nTrailer: x\r\nB:\r\n\r\n"),
        "POST / 1.1 keep Transfer-Encoding=chunked [abc]",
    );
    let chunk = |size| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
    let hex = (1..16).map(chunk).collect::<Vec<_>>().concat();
    let generous = Limits { body_bytes_max: 120, ..LIMITS };
    for sizes in [hex.clone(), hex.to_uppercase()] {
        let input = chunked(&format!("{sizes}0\r\n\r\n"));
        let read = decode(&[input.as_bytes()], &generous);
        assert_eq!(read.to_lowercase().matches('x').count(), 120, "{read}");
    }
    check(
        with("transfer-encoding: ChunkeD\n\n1\r\n\n\r\n0\r\n\r\n"),
        "POST / 1.1 keep transfer-encoding=ChunkeD [\\n]",
    );
    for bad in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        "0x1\r\n",
        " 1\r\n",
        "1 \r\n",
        "1 ;x\r\n",
        ";x\r\n",
        "1\nX",
        "1\r\r",
        "1\r\nab\r\n",
        "1\r\na\n",
        "1\r\na\rx",
        "1;\0\r\n",
        "1;a\nb\r\n",
        "1000000000000000\r\n",
        "0000000000000001\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\r\nA: b\n\r\n",
        "0\r\nA b\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\nA\r\n",
        "0\r\nA: \0\r\n",
    ] {
        check(chunked(bad), "400 malformed chunk");
    }
    check(chunked("21\r\n"), "413 http: request body too large");
    check(chunked("1F\r\n1234567890123456789012345678901\r\n2"), "…");
    check(
        chunked("1F\r\n1234567890123456789012345678901\r\n2\r\n"),
        "413 http: request body too large",
    );
    check(chunked("FFFFFFFFFFFFFFF\r\n"), "413 http: request body too large");
    check(
        chunked(&format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(256))),
        "POST / 1.1 keep Transfer-Encoding=chunked [a]",
    );
    check(chunked(&format!("1;{}\r\n", "x".repeat(257))), "431 request head too large");
    check(chunked(&format!("0\r\nX: {}\r\n", "x".repeat(254))), "431 request head too large");
}

#[test]
fn transfer_codings() {
    let body = "\n\n0\r\n\r\n";
    for malformed in [
        "chunked, identity",
        "chunked, chunked",
        "chunked,gzip",
        "chunked;q=1",
        "",
        ",chunked",
        "\"chunked\"",
        "chunked\u{a0}",
        "x chunked",
    ] {
        check(
            with(&format!("Transfer-Encoding: {malformed}{body}")),
            "400 malformed Transfer-Encoding header",
        );
    }
    for unknown in ["gzip, chunked", "gzip", "identity", "xchunked"] {
        check(
            with(&format!("Transfer-Encoding: {unknown}{body}")),
            "501 transfer coding not supported",
        );
    }
    for both in [
        "Content-Length: 3\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\nContent-Length: 3",
        "Content-Length: 0\ntransfer-encoding:chunked",
    ] {
        check(with(&format!("{both}{body}")), "400 both Transfer-Encoding and Content-Length");
    }
    check(
        with(&format!("Transfer-Encoding: chunked\nTransfer-Encoding: chunked{body}")),
        "400 malformed Transfer-Encoding header",
    );
    check(
        with(&format!("Transfer-Encoding: chunked\nTransfer-Encoding: x{body}")),
        "400 malformed Transfer-Encoding header",
    );
    check(with(&format!("Transfer-Encoding : chunked{body}")), "400 malformed header");
    check(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "400 malformed Transfer-Encoding header",
    );
}

#[test]
fn head_limits() {
    let head = |len: usize| {
        let fixed = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n";
        fixed.replace("X: ", &format!("X: {}", "y".repeat(len - fixed.len())))
    };
    let fits = head(LIMITS.head_bytes_max);
    assert!(decode(&[fits.as_bytes()], &LIMITS).starts_with("GET"));
    check(head(LIMITS.head_bytes_max + 1), "431 request head too large");
    check("x".repeat(256), "…");
    check("x".repeat(257), "414 request target too long");
    check(format!("GET /{} HTTP/1.1\r\n", "x".repeat(256)), "414 request target too long");
    check(format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(300)), "431 request head too large");
    check(
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(5)),
        "GET / 1.1 keep X=y X=y X=y X=y X=y",
    );
    check(
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(6)),
        "431 too many headers",
    );
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(HEADERS_MAX));
    let generous = Limits { headers_max: 1_000, ..Limits::default() };
    assert_eq!(decode(&[many.as_bytes()], &generous), "431 too many headers\n");
}

#[test]
fn expectations() {
    check(
        with("Expect: 100-Continue\nContent-Length: 2\n\nab"),
        "POST / 1.1 keep Expect=100-Continue Content-Length=2 [ab]",
    );
    check(with("Expect: 200-ok\nContent-Length: 2\n\nab"), "417 expectation not supported");
    for (head, expected) in [
        (with("Expect: 100-continue\nContent-Length: 2"), true),
        (with("Expect: 100-continue\nTransfer-Encoding: chunked"), true),
        (with("Content-Length: 2"), false),
        (with("Expect: 100-continue\nContent-Length: 0"), false),
        (with("Expect: 100-continue\nContent-Length: 2\n\na"), false),
        ("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n".to_owned(), false),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n".to_owned(), false),
    ] {
        let mut decoder = Decoder::new();
        let _ = decoder.next(&mut head.as_bytes(), &LIMITS).unwrap();
        assert_eq!(decoder.wants_continue(), expected, "{head}");
        assert!(!decoder.wants_continue(), "asked for once");
    }
}

#[test]
fn upgrades() {
    check(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
        "GET /ws 1.1 keep Connection=keep-alive, Upgrade Upgrade=WebSocket UPGRADE",
    );
    check(
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: h2c, websocket\r\n\r\n",
        "GET /ws 1.1 keep Upgrade=h2c, websocket upgrade",
    );
    check(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        "GET /ws 1.1 keep Connection=upgrade Upgrade=h2c",
    );
    let input = b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n\x81\x80";
    for at in 0..input.len() - 2 {
        let mut decoder = Decoder::new();
        assert!(decoder.next(&mut &input[..at], &LIMITS).unwrap().is_none());
        let mut rest = &input[at..];
        assert!(decoder.next(&mut rest, &LIMITS).unwrap().is_some());
        assert_eq!(rest, b"\x81\x80", "frames behind the request are left alone");
    }
}

#[test]
fn requests_borrow_when_they_can_and_memory_is_freed() {
    let mut decoder = Decoder::new();
    let input = with("Content-Length: 3\n\nabc").into_bytes();
    let bounds = input.as_ptr_range();
    let mut rest = &input[..];
    let request = decoder.next(&mut rest, &LIMITS).unwrap().unwrap();
    assert!(bounds.contains(&request.method.as_ptr()) && bounds.contains(&request.body.as_ptr()));
    assert_eq!((request.header("HOST"), request.header("X")), (Some(&b"a"[..]), None));

    // The head came before: the body is still lent from the input.
    let (head, body) = input.split_at(input.len() - 3);
    assert!(decoder.next(&mut &head[..], &LIMITS).unwrap().is_none());
    let request = decoder.next(&mut &body[..], &LIMITS).unwrap().unwrap();
    assert!(body.as_ptr_range().contains(&request.body.as_ptr()));
    assert_eq!(request.target.path, "/");
    assert!(decoder.next(&mut &[][..], &LIMITS).unwrap().is_none() && decoder.is_idle());
}

/// 256 KiB in one-byte chunks, sent byte by byte: 1.5 million calls that must each cost little.
/// Quadratic work would take hours here, so no clock is needed to see it.
#[test]
fn tiny_pieces_cost_linear_work() {
    let limits = Limits::default();
    let mut input = with("Transfer-Encoding: chunked").into_bytes();
    for _ in 0..limits.body_bytes_max {
        input.extend_from_slice(b"1\r\nx\r\n");
    }
    input.extend_from_slice(b"0\r\n\r\n");
    let mut decoder = Decoder::new();
    let mut bodies = 0;
    for byte in input.chunks(1) {
        if let Some(request) = decoder.next(&mut &byte[..], &limits).unwrap() {
            bodies += request.body.len();
        }
    }
    assert_eq!(bodies, limits.body_bytes_max);
}

fn decode_responses(parts: &[&[u8]], to_head: bool) -> String {
    let mut decoder = ResponseDecoder::new();
    let mut text = String::new();
    let render = |response: &Response<'_>| {
        let fate = if response.keep_alive { "keep" } else { "close" };
        let headers = render_headers(response.headers);
        format!("{} {fate}{headers} [{}]\n", response.status, response.body.escape_ascii())
    };
    for part in parts {
        let mut input = *part;
        loop {
            match decoder.next(&mut input, &LIMITS, to_head) {
                Ok(Some(response)) => text += &render(&response),
                Ok(None) => break,
                Err(error) => return text + &format!("{error}\n"),
            }
        }
    }
    match decoder.finish() {
        Ok(Some(response)) => text += &render(&response),
        Ok(None) => {}
        Err(error) => writeln!(text, "{error}").unwrap(),
    }
    text
}

fn check_responses(input: &str, to_head: bool, expected: &str) {
    let whole = decode_responses(&[input.as_bytes()], to_head);
    for parts in deliveries(input.as_bytes()) {
        assert_eq!(decode_responses(&parts, to_head), whole, "{parts:?}");
    }
    assert_eq!(whole.trim_end_matches('\n'), expected);
}

#[test]
fn responses() {
    let check = |input: &str, expected| check_responses(input, false, expected);
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n",
        "200 keep Content-Length=2 [ab]\n404 keep Content-Length=0 []",
    );
    check(
        "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        "200 keep Transfer-Encoding=chunked [ab]",
    );
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\nHTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n",
        "100 keep []\n204 keep []\n304 keep Content-Length=9 []",
    );
    check("HTTP/1.1 200 OK\r\n\r\nuntil the end", "200 close [until the end]");
    check(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
        "200 close Connection=keep-alive []",
    );
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "connection closed within a message");
    check("HTTP/1.1 200 OK\r\nConte", "connection closed within a message");
    check(
        "HTTP/1.1 200 OK\r\n\r\n12345678901234567890123456789012",
        "200 close [12345678901234567890123456789012]",
    );
    check(
        "HTTP/1.1 200 OK\r\n\r\n123456789012345678901234567890123",
        "http: request body too large",
    );
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "both Transfer-Encoding and Content-Length",
    );
    check("HTTP/1.1 2x0 OK\r\n\r\n", "malformed start line");
    check("HTTP/2.0 200 OK\r\n\r\n", "HTTP version not supported");
    check("ICY 200 OK\r\n\r\n", "malformed start line");
    check("", "");
    check_responses(
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        true,
        "200 keep Content-Length=9 []\n200 keep []",
    );
}

#[test]
fn what_is_sent() {
    let sent = |head: ResponseHead<'_>, body: &str| {
        let mut out = Vec::new();
        respond(&mut out, &head, body.as_bytes(), &date(784_111_777));
        String::from_utf8(out).unwrap().replace("\r\n", "\n")
    };
    let head = ResponseHead::new(200, "text/plain", Connection::KeepAlive);
    expect![[r#"
        HTTP/1.1 200 OK
        Server: throng
        Date: Sun, 06 Nov 1994 08:49:37 GMT
        Content-Type: text/plain
        Content-Length: 13

        Hello, World!"#]]
    .assert_eq(&sent(head, "Hello, World!"));
    expect![[r#"
        HTTP/1.1 200 OK
        Server: throng
        Date: Sun, 06 Nov 1994 08:49:37 GMT
        Content-Type: text/plain
        Content-Length: 13

    "#]]
    .assert_eq(&sent(ResponseHead { head_only: true, ..head }, "Hello, World!"));
    let mut extra = Vec::new();
    write_header(&mut extra, "X-One", "a\r\nSet-Cookie: b");
    write_header(&mut extra, "X-Two", "c");
    let head = ResponseHead { extra: &extra, ..ResponseHead::new(404, "", Connection::Close) };
    expect![[r#"
        HTTP/1.1 404 Not Found
        Server: throng
        Date: Sun, 06 Nov 1994 08:49:37 GMT
        Content-Length: 0
        Connection: close
        X-One: a  Set-Cookie: b
        X-Two: c

    "#]]
    .assert_eq(&sent(head, ""));
    expect![[r#"
        HTTP/1.1 204 No Content
        Server: throng
        Date: Sun, 06 Nov 1994 08:49:37 GMT
        Connection: keep-alive

    "#]]
    .assert_eq(&sent(ResponseHead::new(204, "", Connection::KeepAliveSaid), "x"));
    expect![[r#"
        HTTP/1.1 599 
        Server: throng
        Date: Sun, 06 Nov 1994 08:49:37 GMT
        Content-Length: 0

    "#]]
    .assert_eq(&sent(ResponseHead::new(599, "", Connection::KeepAlive), ""));
}

#[test]
fn a_length_is_sent_with_bodies_and_where_one_is_expected() {
    for (method, body, has_length) in [
        ("GET", "", false),
        ("GET", "x", true),
        ("POST", "", true),
        ("PUT", "", true),
        ("PATCH", "", true),
        ("DELETE", "", false),
        ("DELETE", "x", true),
    ] {
        let mut out = Vec::new();
        let head = RequestHead { method, target: "/", host: "a", extra: b"" };
        request(&mut out, &head, body.as_bytes());
        let length = format!("Content-Length: {}\r\n", body.len());
        let sent = String::from_utf8(out).unwrap();
        assert_eq!(sent.contains(&length), has_length, "{sent}");
    }
}

#[test]
fn what_one_side_sends_the_other_reads() {
    let mut out = Vec::new();
    let head = RequestHead { method: "POST", target: "/x?y", host: "a:1", extra: b"X: z\r\n" };
    request(&mut out, &head, b"body");
    request(&mut out, &RequestHead { method: "GET", extra: b"", ..head }, b"");
    check(&out, "POST /x?y 1.1 keep Content-Length=4 X=z [body]\nGET /x?y 1.1 keep");

    for connection in [Connection::KeepAlive, Connection::KeepAliveSaid, Connection::Close] {
        let mut out = Vec::new();
        let head = ResponseHead::new(200, "text/plain", connection);
        respond(&mut out, &head, b"body", &date(0));
        let mut decoder = ResponseDecoder::new();
        let response = decoder.next(&mut &out[..], &LIMITS, false).unwrap().unwrap();
        assert_eq!((response.status, response.body), (200, &b"body"[..]));
        assert_eq!(response.keep_alive, connection != Connection::Close);
        assert_eq!(response.header("content-type"), Some(&b"text/plain"[..]));
    }
}
