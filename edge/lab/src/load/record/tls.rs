//! What went wrong with TLS, in kinds that people can do something about.

use rustls::{CertificateError, Error};

use super::kind::{Cause, Kind};

/// The kind of an error and its example; `bytes` are what the server said last.
pub(crate) fn of(error: &Error, bytes: &[u8]) -> (Kind, String) {
    let kind = match error {
        Error::InvalidCertificate(problem) => certificate(problem),
        Error::InvalidMessage(_) if bytes.starts_with(b"HTTP/") => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            return (Kind::of(Cause::TlsNotSpoken, "TLS: the server answers in plain HTTP"), start);
        }
        Error::InvalidMessage(_) => {
            Kind::of(Cause::TlsNotSpoken, "TLS: what the server says is not TLS")
        }
        Error::AlertReceived(alert) => {
            Kind::new(Cause::TlsAlert, format!("TLS: the server refuses: alert {alert:?}"))
        }
        Error::PeerIncompatible(why) => {
            Kind::new(Cause::TlsIncompatible, format!("TLS: nothing in common: {why:?}"))
        }
        _ => Kind::new(Cause::Tls, format!("TLS: {error}")),
    };
    (kind, error.to_string())
}

fn certificate(problem: &CertificateError) -> Kind {
    match problem {
        CertificateError::UnknownIssuer => {
            Kind::of(Cause::TlsUnknownIssuer, "TLS: certificate of an unknown issuer")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Kind::of(Cause::TlsWrongName, "TLS: certificate of another name")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Kind::of(Cause::TlsExpired, "TLS: certificate has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Kind::of(Cause::TlsExpired, "TLS: certificate is not valid yet")
        }
        other => Kind::new(Cause::TlsCertificate, format!("TLS: certificate refused: {other}")),
    }
}
