//! Whom a client of TLS trusts, and what went wrong when it did not.
//!
//! In: what the command line says of certificates. Out: the configuration of all connections of a
//! run. The provider of the cryptography is ring, which needs a C compiler only; versions are TLS 1.3
//! and 1.2, the protocol inside is HTTP/1.1. Not here: connections and their bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Bytes of a file of certificates, at most: those of a whole system are a quarter of a megabyte.
const TLS_CA_BYTES_MAX: usize = 4 << 20;
/// Servers that a client of its own remembers, at most.
const SERVERS_MAX: usize = 8;

/// What is asked for of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsChoice {
    /// Whose certificates are taken.
    pub trust: Trust,
    /// Whether a player that connects again resumes its own session.
    pub resumes: bool,
}

impl Default for TlsChoice {
    fn default() -> Self {
        Self { trust: Trust::System, resumes: true }
    }
}

/// Whose certificates are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Of whom this machine trusts.
    #[default]
    System,
    /// Of the authorities in this file, in PEM, and of nobody else.
    File(PathBuf),
    /// Anybody's: nothing is checked.
    Anybody,
}

impl Trust {
    /// As told in results.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::System => "this machine's authorities".to_owned(),
            Self::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("the authorities in {name}")
            }
            Self::Anybody => "certificates were not checked".to_owned(),
        }
    }
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The machine trusts nobody.
    #[error(
        "this machine has no certificate authorities ({0}): install them (ca-certificates), or name \
         the server's own with --tls-ca FILE"
    )]
    NoRoots(String),
    /// The file of `--tls-ca`.
    #[error("--tls-ca {file}: {what}")]
    File {
        /// As given.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The library does not take its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] Error),
}

/// The configuration of a run's connections, none of which resumes a session.
///
/// # Errors
/// When nobody is trusted, or the file is not one of certificates.
pub(crate) fn client(choice: &TlsChoice) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = match &choice.trust {
        Trust::System => builder.with_root_certificates(system()?).with_no_client_auth(),
        Trust::File(path) => builder.with_root_certificates(of_file(path)?).with_no_client_auth(),
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(algorithms)))
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The same for a client that resumes no sessions but its own; `resumes` says whether any.
pub(crate) fn of_one(config: &ClientConfig, resumes: bool) -> Arc<ClientConfig> {
    let mut config = config.clone();
    if resumes {
        config.resumption = Resumption::in_memory_sessions(SERVERS_MAX);
    }
    Arc::new(config)
}

/// Version and cipher of a connection, for people.
pub(crate) fn protocol(session: &ClientConnection) -> String {
    let version = session.protocol_version().and_then(|it| it.as_str()).unwrap_or("TLS");
    let suite = session.negotiated_cipher_suite().and_then(|it| it.suite().as_str());
    // `TLSv1_3` is the registry's name.
    let version = version.replace("TLSv", "TLS ").replace('_', ".");
    format!("{version}, {}", suite.unwrap_or_default())
}

fn system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Machines have old ones among them that nobody can read any more.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or("none found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots(why));
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |what: String| TlsError::File { file: path.display().to_string(), what };
    let mut bytes = Vec::new();
    // One byte more than may be, so that a longer one is refused and not cut.
    let most = TLS_CA_BYTES_MAX as u64 + 1;
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > TLS_CA_BYTES_MAX {
        return Err(wrong(format!("larger than {} MB", TLS_CA_BYTES_MAX >> 20)));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| wrong(format!("is not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("has no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(roots)
}

/// Takes every certificate; that the server has its key is checked nevertheless.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Trust, of_file};

    #[test]
    fn a_file_that_is_none_of_certificates_is_told() {
        for (file, wanted) in
            [("/nowhere/ca.pem", "No such file"), ("/dev/null", "has no certificate")]
        {
            let error = of_file(&PathBuf::from(file)).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(file), "{error}");
        }
        assert_eq!(Trust::File("/a/b/ca.pem".into()).words(), "the authorities in ca.pem");
    }
}
