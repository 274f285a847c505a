//! Whom requests over https trust: the authorities of this machine, and those of a file
//! (`fetch.ca_file`). The machine's, and not a list built in, so that an operator who takes
//! one away, or adds a company's own, is obeyed. The provider of the cryptography is ring, which
//! needs a C compiler only.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Bytes of a file of certificates, at most: those of a whole system are a quarter of a megabyte.
const CA_BYTES_MAX: u64 = 4 << 20;

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be used.
    #[error("fetch.ca_file {file}: {what}")]
    File {
        /// As given.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The library does not take its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] Error),
}

/// How to speak to servers whose certificates are checked, and to the others.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) checked: Arc<ClientConfig>,
    pub(crate) unchecked: Arc<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = || {
            let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
            builder.with_safe_default_protocol_versions()
        };
        let mut checked = builder()?.with_root_certificates(roots(ca_file)?).with_no_client_auth();
        let mut unchecked = builder()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(algorithms)))
            .with_no_client_auth();
        for config in [&mut checked, &mut unchecked] {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        Ok(Self { checked: Arc::new(checked), unchecked: Arc::new(unchecked) })
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Machines have old ones among them that nobody can read any more.
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        let why = found.errors.first().map_or("none found".to_owned(), ToString::to_string);
        tracing::warn!(
            "this machine has no certificate authorities ({why}), so that requests of scripts over \
             https fail: install them (ca-certificates), or set fetch.ca_file"
        );
    }
    Ok(roots)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let wrong = |what: String| TlsError::File { file: path.display().to_string(), what };
    let mut bytes = Vec::new();
    // One byte more than may be, so that a longer one is refused and not cut.
    let read =
        File::open(path).and_then(|file| file.take(CA_BYTES_MAX + 1).read_to_end(&mut bytes));
    if read.map_err(|error| wrong(error.to_string()))? as u64 > CA_BYTES_MAX {
        return Err(wrong(format!("larger than {CA_BYTES_MAX} bytes")));
    }
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| wrong(format!("is not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.len() == before {
        return Err(wrong("has no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(())
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
    use std::path::Path;

    use super::Tls;

    #[test]
    fn a_file_that_is_none_of_certificates_is_told() {
        for (file, wanted) in
            [("/nowhere/ca.pem", "No such file"), ("/dev/null", "has no certificate")]
        {
            let error = Tls::new(Some(Path::new(file))).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(file), "{error}");
        }
    }
}
