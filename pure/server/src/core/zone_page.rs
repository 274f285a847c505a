//! The page to fly in the zone, which the server itself serves at `/zone/`: five files of the repository, in the
//! program since it was built. A path is one of theirs or none; nothing of it is looked up anywhere.
//!
//! What the page may do in a browser is said in its policy: its own scripts and style, and requests and sockets
//! to the server that it came from. What is deliberately not here: what it does (`examples/zone`).

use event::{ConnId, Now, Output};
use game::error::ApiError;
use wire::http1::Request;

use super::Core;
use super::answers::Manner;
use crate::mail::Mail;

/// A path, its content type, its bytes.
type File = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

const FILES: [File; 5] = [
    ("/zone/", HTML, include_bytes!("../../../../examples/zone/index.html")),
    ("/zone/page.css", STYLE, include_bytes!("../../../../examples/zone/page.css")),
    ("/zone/client.mjs", SCRIPT, include_bytes!("../../../../examples/zone/client.mjs")),
    ("/zone/page.mjs", SCRIPT, include_bytes!("../../../../examples/zone/page.mjs")),
    ("/zone/zone.mjs", SCRIPT, include_bytes!("../../../../examples/zone/zone.mjs")),
];

/// Header lines of each file. Source: Content Security Policy Level 3 (W3C), where `'self'` covers sockets too.
const HEADERS: &[u8] = b"Content-Security-Policy: default-src 'none'; script-src 'self'; \
    style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n";

/// The file that a request is for.
fn find(method: &str, path: &str) -> Option<&'static File> {
    let reads = matches!(method, "GET" | "HEAD");
    FILES.iter().find(|(known, ..)| reads && *known == path)
}

impl Core {
    /// Answers what is no call of the API: a file of the page if it is served, else the error.
    pub(super) fn respond_no_call(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        (request, error): (&Request<'_>, &ApiError),
        out: &mut Output<Mail>,
    ) {
        let has_page = self.settings.world.as_ref().is_some_and(|world| world.page);
        match find(request.method, request.target.path).filter(|_| has_page) {
            Some((_, content_type, bytes)) => {
                self.respond_with(now, conn, manner, HEADERS, (200, content_type, bytes), out);
            }
            None => {
                self.stats.refused_requests.up();
                self.respond_error(now, conn, manner, error, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, find};

    #[test]
    fn only_the_files_are_found() {
        for (path, ..) in &FILES {
            assert!(find("GET", path).is_some() && find("HEAD", path).is_some(), "{path}");
            assert!(find("POST", path).is_none() && find("DELETE", path).is_none(), "{path}");
        }
        for path in [
            "/zone",
            "/zone/index.html",
            "/zone/../zone/zone.mjs",
            "/zone//zone.mjs",
            "/zone/%2e%2e/Cargo.toml",
            "/zone/zone.mjs/",
            "/ZONE/",
            "",
        ] {
            assert!(find("GET", path).is_none(), "{path}");
        }
    }
}
