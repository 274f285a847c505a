//! What went wrong with TLS, in kinds that people can do something about, and in words. Names that
//! rustls and webpki give what they tell by code alone stand behind the words, to search for.

use rustls::{CertificateError, Error};

use super::kind::{Cause, Kind};

/// The kind of an error and its example; `bytes` are what the server said last.
pub(crate) fn of(error: &Error, bytes: &[u8]) -> (Kind, String) {
    let kind = match error {
        Error::InvalidCertificate(problem) => return certificate(problem),
        Error::InvalidMessage(_) if bytes.starts_with(b"HTTP/") => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            return (Kind::of(Cause::TlsNotSpoken, "TLS: the server answers in plain HTTP"), start);
        }
        Error::InvalidMessage(_) => {
            Kind::of(Cause::TlsNotSpoken, "TLS: what the server says is not TLS")
        }
        Error::AlertReceived(alert) => {
            let name = format!("{alert:?}");
            let text = format!("TLS: the server refuses: {}", words(&name));
            return (Kind::new(Cause::TlsAlert, text), format!("its alert was {name}"));
        }
        Error::PeerIncompatible(why) => {
            let name = format!("{why:?}");
            let text = format!("TLS: nothing in common: {}", words(&name));
            return (Kind::new(Cause::TlsIncompatible, text), name);
        }
        _ => Kind::new(Cause::Tls, format!("TLS: {error}")),
    };
    (kind, error.to_string())
}

fn certificate(problem: &CertificateError) -> (Kind, String) {
    let kind = match problem {
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
        other => {
            let why = refused(other);
            return (
                Kind::new(Cause::TlsCertificate, format!("TLS: certificate refused: {why}")),
                why,
            );
        }
    };
    let example = match problem {
        CertificateError::UnknownIssuer => {
            "nobody who is trusted here has signed it (UnknownIssuer)".to_owned()
        }
        // As rustls has it, without the brackets of code around names.
        other => other
            .to_string()
            .replace("DnsName(\"", "")
            .replace("IpAddress(", "")
            .replace(['"', ')'], ""),
    };
    (kind, example)
}

/// What is wrong with a certificate, in words and by its name.
fn refused(problem: &CertificateError) -> String {
    let name = format!("{problem:?}");
    let text = match problem {
        CertificateError::BadEncoding => "it is damaged, or no certificate at all",
        CertificateError::Revoked => "its authority has revoked it",
        CertificateError::UnhandledCriticalExtension => {
            "it has an extension that must be understood, and is not"
        }
        CertificateError::BadSignature => "its signature is not that of the authority it names",
        CertificateError::InvalidPurpose => "it is made for another purpose than serving",
        CertificateError::Other(_) if name.contains("CaUsedAsEndEntity") => {
            return "it is an authority's own, and no server's (CaUsedAsEndEntity)".to_owned();
        }
        // The names of what webpki finds stand innermost: Other(OtherError(Name)).
        CertificateError::Other(_) => {
            let inner = name.rsplit('(').next().unwrap_or_default().trim_end_matches(')');
            return format!("{} ({inner})", words(inner));
        }
        // Those that have words of their own say more than their names.
        _ if name.contains('{') => return problem.to_string(),
        _ => return format!("{} ({name})", words(&name)),
    };
    format!("{text} ({name})")
}

/// A name of code as words: `NoApplicationProtocol` as `no application protocol`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for (at, c) in name.char_indices() {
        let follows_small = name[..at].ends_with(|it: char| it.is_lowercase());
        if c.is_uppercase() && follows_small {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

    use super::{of, words};
    use crate::load::record::kind::Cause;
    use crate::load::view::advice::cure_of;

    /// What webpki finds, as rustls hands it on.
    #[derive(Debug, thiserror::Error)]
    #[error("named")]
    struct Named;

    #[test]
    fn names_of_code_become_words() {
        assert_eq!(words("NoApplicationProtocol"), "no application protocol");
        assert_eq!((&*words("UnknownCA"), &*words("")), ("unknown ca", ""));
    }

    #[test]
    fn what_is_wrong_is_told_in_words_and_has_a_cure() {
        let expected = ServerName::try_from("game.example").unwrap();
        let presented = vec!["DnsName(\"localhost\")".to_owned(), "IpAddress(::1)".to_owned()];
        let wrong_name = CertificateError::NotValidForNameContext { expected, presented };
        let of_webpki = CertificateError::Other(rustls::OtherError(Arc::new(Named)));
        for (error, cause, kind, example) in [
            (
                Error::InvalidCertificate(CertificateError::BadSignature),
                Cause::TlsCertificate,
                "TLS: certificate refused: its signature is not that of the authority it names \
                 (BadSignature)",
                "BadSignature",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownRevocationStatus),
                Cause::TlsCertificate,
                "TLS: certificate refused: unknown revocation status (UnknownRevocationStatus)",
                "unknown revocation",
            ),
            (
                Error::InvalidCertificate(of_webpki),
                Cause::TlsCertificate,
                "TLS: certificate refused: named (Named)",
                "named (Named)",
            ),
            (
                Error::InvalidCertificate(wrong_name),
                Cause::TlsWrongName,
                "TLS: certificate of another name",
                "certificate not valid for name game.example; certificate is only valid for localhost \
                 or ::1",
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                Cause::TlsAlert,
                "TLS: the server refuses: handshake failure",
                "its alert was HandshakeFailure",
            ),
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                Cause::TlsIncompatible,
                "TLS: nothing in common: no cipher suites in common",
                "NoCipherSuitesInCommon",
            ),
        ] {
            let (found, text) = of(&error, &[]);
            assert_eq!((found.cause, &*found.text), (cause, kind));
            assert!(text.contains(example), "{text}");
            assert!(cure_of(found.cause, &text).is_some(), "{text}");
            for part in ["Other(", "DnsName(", "{", "OtherError"] {
                assert!(
                    !text.contains(part) && !found.text.contains(part),
                    "{text} {}",
                    found.text
                );
            }
        }
    }
}
