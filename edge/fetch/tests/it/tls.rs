//! TLS: who is trusted.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use fetch::FetchSettings;
use game::fetch::FetchRequest;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::rig::{Rig, Server, request, settings};

/// A server that speaks TLS, and the file of its certificate.
struct Encrypted {
    server: Server,
    file: PathBuf,
}

impl Encrypted {
    fn new(test: &str, names: &[&str], answer: String) -> Self {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        // Of two authorities with one name the wrong one would have a wrong signature.
        params.distinguished_name.push(DnType::CommonName, test);
        let certificate = params.self_signed(&key).unwrap();
        let name = format!("throng-fetch-{test}-{}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, certificate.pem()).unwrap();
        let chain = vec![CertificateDer::from(certificate)];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let server = Server::raw("127.0.0.1", channel().1, move |mut stream| {
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = Stream::new(&mut session, &mut stream);
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && tls.read(&mut byte).is_ok_and(|count| count > 0) {
                head.extend_from_slice(&byte);
            }
            let _ = tls.write_all(answer.as_bytes());
            tls.conn.send_close_notify();
            let _ = tls.flush();
        });
        Self { server, file }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.server.port)
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn certificates_are_checked_unless_both_sides_say_otherwise() {
    let server = Encrypted::new("checked", &["127.0.0.1"], OK.to_owned());
    let trusting = || FetchSettings { ca_file: Some(server.file.clone()), ..settings() };
    let answer = Rig::new(trusting()).ask(request(server.url())).unwrap();
    assert_eq!((answer.code, &*answer.body), (200, &b"ok"[..]));

    let mut rig = Rig::new(settings());
    assert!(rig.fail(request(server.url())).contains("no TLS with"));
    let insecure = || FetchRequest { is_insecure: true, ..request(server.url()) };
    assert!(rig.fail(insecure()).contains("fetch.insecure"));
    let mut rig = Rig::new(FetchSettings { allows_insecure: true, ..settings() });
    assert_eq!(rig.ask(insecure()).unwrap().code, 200);
    // Not for those who did not ask for it.
    assert!(rig.fail(request(server.url())).contains("no TLS with"));
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    let server = Encrypted::new("other", &["example.com"], OK.to_owned());
    let mut rig = Rig::new(FetchSettings { ca_file: Some(server.file.clone()), ..settings() });
    let text = rig.fail(request(server.url()));
    assert!(text.contains("not valid for name"), "{text}");
}

#[test]
fn who_speaks_no_tls_or_falls_silent_is_told() {
    let plain = Server::saying(OK);
    let mut rig = Rig::new(settings());
    let text = rig.fail(request(format!("https://127.0.0.1:{}/", plain.port)));
    assert!(text.contains("no TLS with"), "{text}");
    let silent = Server::raw("127.0.0.1", channel().1, |mut stream| {
        // Until the other side has enough.
        while stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {}
    });
    let mut rig = Rig::new(FetchSettings { connect_timeout_ms: 50, ..settings() });
    let text = rig.fail(request(format!("https://127.0.0.1:{}/", silent.port)));
    assert!(text.contains("fetch.connect_timeout_ms"), "{text}");
}

#[test]
fn a_redirect_leads_out_of_tls_only_where_that_is_allowed() {
    let plain = Server::saying(OK);
    let away = format!("HTTP/1.1 302 Found\r\nLocation: {}\r\n\r\n", plain.url("/"));
    let server = Encrypted::new("away", &["127.0.0.1"], away);
    let trusting = FetchSettings { ca_file: Some(server.file.clone()), ..settings() };
    let text = Rig::new(trusting.clone()).fail(request(server.url()));
    assert!(text.contains("fetch.downgrade"), "{text}");
    assert_eq!(plain.connections(), 0);
    let mut rig = Rig::new(FetchSettings { allows_downgrade: true, ..trusting });
    assert_eq!(rig.ask(request(server.url())).unwrap().code, 200);
}
