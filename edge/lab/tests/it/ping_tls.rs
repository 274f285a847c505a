//! Pings over TLS, to a server of the test's own whose certificate is the test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lab::load::{Finished, TlsChoice, Trust};
use lab::ping::{Amount, Buckets, Family, Kind, Place, Plan, Process, run};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use wire::http1::{Decoder, Limits};
use wire::websocket;

/// What its certificate costs a server besides: known beforehand, so that it can be found in a figure.
const HANDSHAKE: Duration = Duration::from_millis(40);

/// A certificate for localhost, and the file that says so.
struct Identity {
    config: Arc<ServerConfig>,
    file: PathBuf,
}

impl Identity {
    fn new(test: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, test);
        let certificate = params.self_signed(&key).unwrap();
        let name = format!("throng-ping-tls-{test}-{}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, certificate.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key)
            .unwrap();
        Self { config: Arc::new(config), file }
    }

    fn trusted(&self) -> TlsChoice {
        TlsChoice { trust: Trust::File(self.file.clone()), ..TlsChoice::default() }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Answers requests with what they carry, and frames likewise; `closes` says whether after each answer.
fn server(identity: &Identity, closes: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = identity.config.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(HANDSHAKE);
                serve(StreamOwned::new(session, stream), closes)
            });
        }
    });
    port
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Until the client has enough, or says what is not understood.
fn serve(mut stream: Stream, closes: bool) -> Option<()> {
    let (mut decoder, mut buffer) = (Decoder::new(), vec![0; 1 << 16]);
    let limits = Limits { body_bytes_max: 1 << 20, ..Limits::default() };
    loop {
        let len = stream.read(&mut buffer).ok().filter(|len| *len > 0)?;
        let mut bytes = &buffer[..len];
        let Some(request) = decoder.next(&mut bytes, &limits).ok()? else { continue };
        if request.upgrade.is_some() {
            let mut out = Vec::new();
            websocket::accept(&mut out, &request, b"").ok()?;
            stream.write_all(&out).ok()?;
            return frames(&mut stream, &mut buffer);
        }
        let close = if closes { "Connection: close\r\n" } else { "" };
        let body = request.body;
        let head = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
        if closes {
            stream.conn.send_close_notify();
            stream.flush().ok()?;
            return None;
        }
    }
}

fn frames(stream: &mut Stream, buffer: &mut [u8]) -> Option<()> {
    let mut decoder = websocket::Decoder::new(websocket::Role::Server, 1 << 20);
    let mut scratch = Vec::new();
    loop {
        let len = stream.read(buffer).ok().filter(|len| *len > 0)?;
        let (mut bytes, mut out) = (&buffer[..len], Vec::new());
        while let Some(message) = decoder.next(&mut bytes, &mut scratch).ok()? {
            let (opcode, payload) = match message {
                websocket::Message::Ping(payload) => (websocket::Opcode::Pong, payload),
                websocket::Message::Binary(payload) => (websocket::Opcode::Binary, payload),
                _ => return None,
            };
            websocket::encode(&mut out, opcode, payload);
        }
        stream.write_all(&out).ok()?;
    }
}

fn plan(url: &str, kind: Kind, tls: TlsChoice) -> Plan {
    Plan {
        kind,
        is_plain: false,
        place: Place::parse(url, kind, Family::V4, &AtomicBool::new(false)).unwrap(),
        amount: Amount::Count(20),
        warm_up: Amount::Count(1),
        sizes: vec![kind.usual_size()],
        interval: Duration::from_millis(2),
        arrivals: Process::Constant,
        streams: 1,
        buckets: Buckets::default(),
        token: None,
        tls,
        timeout: Duration::from_secs(5),
        busy_poll: false,
        pin: None,
        realtime: false,
        seed: Some(1),
        peer: String::new(),
        stop: Arc::default(),
    }
}

fn done(plan: &Plan) -> Finished {
    run(plan, &mut |_| true).unwrap()
}

#[test]
fn a_handshake_stands_apart_from_connecting_and_from_pings() {
    let identity = Identity::new("apart");
    let port = server(&identity, false);
    for (scheme, kind, size) in [
        ("https", Kind::Http, 0),
        ("https", Kind::Http, 100_000),
        ("wss", Kind::Ws, 32),
        ("wss", Kind::Ws, 200_000),
    ] {
        let url = format!("{scheme}://localhost:{port}/");
        let plan = plan(&url, kind, identity.trusted());
        let summary = done(&Plan { sizes: vec![size], streams: 2, ..plan }).summary;
        let told = format!("{kind:?} {size}: {:?} {}", summary.errors, summary.ended);
        assert_eq!((summary.ops[0].done, &*summary.ended), (40, ""), "{told}");
        let tls = summary.connections.tls.as_ref().unwrap();
        assert_eq!((tls.full, tls.resumed), (2, 0), "{told}");
        assert!(tls.protocol.starts_with("TLS 1.3, "), "{}", tls.protocol);
        // What the handshake costs is in its own time, and neither before nor behind it.
        let known = u64::try_from(HANDSHAKE.as_nanos()).unwrap();
        // The server's wait begins when it takes the connection, a little before the client's clock.
        assert!(tls.handshake.min_ns >= known / 2, "{:?}", tls.handshake);
        assert!(summary.connections.connect.p50_ns < known, "{:?}", summary.connections.connect);
        assert!(summary.ops[0].service.p50_ns < known, "{told}");
        let text = lab::ping::text(&summary);
        assert!(text.contains("Handshakes of TLS: 2, "), "{text}");
        assert!(summary.settings.tls.is_some_and(|it| it.trust.contains("the authorities in")));
    }
}

#[test]
fn whoever_connects_again_resumes_its_own_session() {
    let identity = Identity::new("again");
    let port = server(&identity, true);
    for resumes in [true, false] {
        let tls = TlsChoice { resumes, ..identity.trusted() };
        let plan = plan(&format!("https://localhost:{port}/"), Kind::Http, tls);
        let plan = Plan { amount: Amount::Count(5), warm_up: Amount::Count(0), ..plan };
        let summary = done(&Plan { interval: Duration::from_millis(100), ..plan }).summary;
        assert_eq!(summary.ops[0].done, 5, "{:?} {}", summary.errors, summary.ended);
        let tls = summary.connections.tls.unwrap();
        let wanted = if resumes { (1, 4) } else { (5, 0) };
        assert_eq!((tls.full, tls.resumed), wanted);
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_its_cure() {
    let [identity, other] = ["good", "other"].map(Identity::new);
    let anybody = TlsChoice { trust: Trust::Anybody, ..TlsChoice::default() };
    let port = server(&identity, false);
    for (host, tls, part) in [
        ("localhost", other.trusted(), "certificate of an unknown issuer"),
        ("127.0.0.1", identity.trusted(), "certificate of another name"),
        ("127.0.0.1", anybody, ""),
    ] {
        let plan = plan(&format!("https://{host}:{port}/"), Kind::Http, tls);
        match run(&plan, &mut |_| true) {
            Err(error) if !part.is_empty() => {
                let told = error.to_string();
                assert!(told.contains(part) && told.contains("--tls-"), "{told}");
            }
            Ok(finished) if part.is_empty() => {
                let notes = finished.summary.notes.join("\n");
                assert!(notes.contains("certificates were not checked"), "{notes}");
            }
            other => panic!("{host} {part}: {:?}", other.map(|it| it.summary.ended)),
        }
    }
    // A port that speaks something else.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let told = run(&plan(&url, Kind::Http, identity.trusted()), &mut |_| true).err().unwrap();
    assert!(told.to_string().contains("answers in plain HTTP"), "{told}");
}
