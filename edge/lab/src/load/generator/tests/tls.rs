//! TLS against a server of rustls, in made-up time.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::{Act, MS, ONE_GET, S, World};
use crate::load::generator::{Settings, TlsClient};
use crate::load::record::Record;
use crate::load::record::kind::Cause;
use crate::measure::tls::{TlsChoice, Trust};

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
/// A body that ends with its connection.
const UNTIL_END: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok";

/// A server's certificate, and the file that says so.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    file: PathBuf,
}

impl Identity {
    fn new(test: &str, expires: i32) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["h".to_owned()]).unwrap();
        // Of two authorities with one name the wrong one would have a wrong signature.
        params.distinguished_name.push(DnType::CommonName, test);
        params.not_after = date_time_ymd(expires, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        let name = format!("throng-tls-{test}-{}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, certificate.pem()).unwrap();
        Self { certificate: certificate.into(), key: key.serialize_der().into(), file }
    }

    fn config(&self, version: &'static SupportedProtocolVersion) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .unwrap()
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

/// How the server of a test behaves.
struct Manners {
    config: Arc<ServerConfig>,
    answer: &'static [u8],
    /// Whether it says so before it closes.
    says_goodbye: bool,
    /// Bytes of what it sends in one piece.
    piece: usize,
}

/// What the server does with bytes of a connection.
fn serve(
    manners: &Manners,
    sessions: &mut BTreeMap<u32, ServerConnection>,
    (now_ns, conn, mut bytes): (u64, u32, &[u8]),
) -> Vec<Act> {
    let fresh = || ServerConnection::new(manners.config.clone()).unwrap();
    let session = sessions.entry(conn).or_insert_with(fresh);
    let mut request = Vec::new();
    while session.read_tls(&mut bytes).is_ok_and(|count| count > 0) {
        if session.process_new_packets().is_err() {
            break;
        }
        let _ = session.reader().read_to_end(&mut request);
    }
    let closes = manners.answer != super::OK && request.ends_with(b"\r\n\r\n");
    if request.ends_with(b"\r\n\r\n") {
        session.writer().write_all(manners.answer).unwrap();
    }
    if closes && manners.says_goodbye {
        session.send_close_notify();
    }
    let mut sealed = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut sealed).unwrap();
    }
    let at_ns = now_ns + 5 * MS;
    let answer = |piece: &[u8]| Act::Answer { at_ns, bytes: piece.to_vec() };
    let mut acts: Vec<Act> = sealed.chunks(manners.piece).map(answer).collect();
    if closes {
        acts.push(Act::Close { at_ns: at_ns + 1 });
    }
    acts
}

fn run(choice: &TlsChoice, name: &str, manners: &Manners) -> Record {
    let mut sessions = BTreeMap::new();
    let mut server =
        |now_ns: u64, conn, bytes: &[u8]| serve(manners, &mut sessions, (now_ns, conn, bytes));
    world(ONE_GET, choice, name, &mut server)
}

fn world(text: &str, choice: &TlsChoice, name: &str, server: &mut super::Server<'_>) -> Record {
    let change = |settings: &mut Settings| {
        settings.players = 3;
        settings.rate = Some(60.0);
        // With phases it is these that count.
        settings.counted_ns = if settings.phases.is_empty() { S } else { 4 * S };
        settings.timeout_ns = S / 2;
        settings.nodes[0].tls_name = Some(ServerName::try_from(name.to_owned()).unwrap());
        settings.tls = Some(TlsClient::new(choice).unwrap());
    };
    World::new(text, change, server).run().0
}

#[test]
fn a_handshake_is_told_apart_from_connecting_and_from_the_operation() {
    let identity = Identity::new("apart", 4_000);
    for (version, handshake_ms, piece) in [(&TLS13, 5, 1 << 20), (&TLS13, 5, 1), (&TLS12, 10, 7)] {
        let config = Arc::new(identity.config(version));
        let manners = Manners { config, answer: super::OK, says_goodbye: true, piece };
        let total = run(&identity.trusted(), "h", &manners);
        assert!(total.errors.is_empty(), "{:?}", total.errors);
        let op = &total.ops[0];
        assert!(op.done > 50, "{}", op.done);
        let made = &total.connecting;
        assert_eq!((made.full, made.resumed), (3, 0), "{}", made.protocol);
        let ms = |times: &crate::measure::percentiles::Times| {
            let histogram = times.histogram().unwrap();
            (histogram.len(), histogram.max() / (MS / 100) / 100)
        };
        assert_eq!((ms(&made.connect), ms(&made.handshake)), ((3, 0), (3, handshake_ms)));
        // Who had to connect first felt that, and it is not the server's time for the operation.
        assert_eq!(ms(&op.service).1, 5);
        assert_eq!(ms(&op.response).1, 5 + handshake_ms);
        assert!(made.protocol.starts_with(if handshake_ms == 5 {
            "TLS 1.3, "
        } else {
            "TLS 1.2, "
        }));
    }
}

#[test]
fn a_player_resumes_its_own_sessions_and_a_fresh_one_has_none() {
    let identity = Identity::new("resume", 4_000);
    for version in [&TLS13, &TLS12] {
        for resumes in [true, false] {
            let mut config = identity.config(version);
            config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
            let config = Arc::new(config);
            let manners = Manners { config, answer: CLOSING, says_goodbye: true, piece: 1_000 };
            let choice = TlsChoice { resumes, ..identity.trusted() };
            let total = run(&choice, "h", &manners);
            assert!(total.errors.is_empty(), "{:?}", total.errors);
            let made = &total.connecting;
            let count = made.handshake.histogram().unwrap().len();
            assert!(count > 30 && total.ops[0].done > 30, "{count}");
            let wanted = if resumes { (3, count - 3) } else { (count, 0) };
            assert_eq!((made.full, made.resumed), wanted, "{}", made.protocol);
        }
    }
}

#[test]
fn a_player_that_comes_in_the_place_of_another_is_a_stranger_to_the_server() {
    let identity = Identity::new("phases", 4_000);
    for (rounds, wanted) in [(1, (40, 0)), (2, (40, 40))] {
        let config = Arc::new(identity.config(&TLS13));
        let manners = Manners { config, answer: CLOSING, says_goodbye: true, piece: 1_000 };
        let mut sessions = BTreeMap::new();
        let mut server =
            |now_ns, conn, bytes: &[u8]| serve(&manners, &mut sessions, (now_ns, conn, bytes));
        let phase = "[[phase]]\nduration='4s'\narrivals=10\nprocess='constant'\n[[session]]";
        let text = ONE_GET.replace("[[session]]", phase);
        let text = text.replace(
            "process='constant'\n[[session.loop]]",
            &format!("pace='none'\nrounds={rounds}\n[[session.loop]]"),
        );
        let total = world(&text, &identity.trusted(), "h", &mut server);
        assert!(total.errors.is_empty(), "{:?}", total.errors);
        assert_eq!((total.connecting.full, total.connecting.resumed), wanted, "{rounds}");
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_ends_with_the_servers_word() {
    let identity = Identity::new("cut", 4_000);
    for says_goodbye in [true, false] {
        let config = Arc::new(identity.config(&TLS13));
        let manners = Manners { config, answer: UNTIL_END, says_goodbye, piece: 1 << 20 };
        let total = run(&identity.trusted(), "h", &manners);
        let op = &total.ops[0];
        assert_eq!((op.done > 30, op.failed > 0), (says_goodbye, !says_goodbye), "{says_goodbye}");
        let causes: Vec<_> = total.errors.keys().map(|(_, kind)| kind.cause).collect();
        assert_eq!(causes, if says_goodbye { vec![] } else { vec![Cause::Closed] });
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_a_kind_of_its_own() {
    let [identity, other] = ["good", "other"].map(|test| Identity::new(test, 4_000));
    let expired = Identity::new("expired", 2_001);
    let anybody = TlsChoice { trust: Trust::Anybody, ..TlsChoice::default() };
    for (choice, name, server, wanted) in [
        (other.trusted(), "h", &identity, Some(Cause::TlsUnknownIssuer)),
        (identity.trusted(), "i", &identity, Some(Cause::TlsWrongName)),
        (identity.trusted(), "127.0.0.1", &identity, Some(Cause::TlsWrongName)),
        (expired.trusted(), "h", &expired, Some(Cause::TlsExpired)),
        (identity.trusted(), "h", &identity, None),
        (anybody.clone(), "h", &other, None),
        (anybody.clone(), "i", &expired, None),
    ] {
        let config = Arc::new(server.config(&TLS13));
        let manners = Manners { config, answer: super::OK, says_goodbye: true, piece: 1 << 20 };
        let total = run(&choice, name, &manners);
        let cause =
            total.errors.keys().map(|(_, kind)| kind.cause).find(|it| *it != Cause::NotReady);
        assert_eq!(cause, wanted, "{name}: {:?}", total.errors);
        assert_eq!(total.ops[0].done > 0, wanted.is_none());
        assert!(total.ops[0].started == 0 || wanted.is_none(), "nothing is sent to a stranger");
    }
}

#[test]
fn what_does_not_speak_tls_is_a_kind_of_its_own() {
    let identity = Identity::new("refusing", 4_000);
    let mut config = identity.config(&TLS13);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let manners = Manners { config, answer: super::OK, says_goodbye: true, piece: 1 << 20 };
    let total = run(&identity.trusted(), "h", &manners);
    let ((_, kind), _) = total.errors.first_key_value().unwrap();
    assert_eq!(kind.cause, Cause::TlsAlert, "{kind:?}");
    assert!(kind.text.contains("no application protocol"), "{}", kind.text);
    for (said, wanted) in [
        (Some("HTTP/1.1 400 Bad Request\r\n\r\n"), Cause::TlsNotSpoken),
        (Some("SSH-2.0-OpenSSH"), Cause::TlsNotSpoken),
        (Some(""), Cause::TlsClosed),
        (None, Cause::TlsTimedOut),
    ] {
        let mut server = |now_ns: u64, _, _: &[u8]| match said {
            None => vec![],
            Some("") => vec![Act::Close { at_ns: now_ns + MS }],
            Some(text) => vec![Act::Answer { at_ns: now_ns + MS, bytes: text.into() }],
        };
        let total = world(ONE_GET, &identity.trusted(), "h", &mut server);
        let first = total.errors.first_key_value();
        let ((_, kind), error) = first.unwrap_or_else(|| panic!("{said:?}: no error"));
        assert_eq!(kind.cause, wanted, "{said:?}: {:?}", total.errors);
        assert_eq!(total.ops[0].started, 0);
        if said.is_some_and(|it| it.starts_with("HTTP")) {
            assert!(error.example.starts_with("HTTP/1.1 400"), "{}", error.example);
        }
    }
}
