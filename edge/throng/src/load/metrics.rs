//! `--metrics`: the run's figures while it lasts, for Prometheus, over HTTP.
//!
//! In: a page a second from the run. Out: the newest one to whoever asks, whatever the path. One
//! asker at a time, so that nobody can take the generator's processor.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an asker may take to ask and to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read.
const REQUEST_BYTES: usize = 4_096;

/// The newest page.
#[derive(Clone, Default)]
pub(super) struct Page(Arc<Mutex<String>>);

/// Why nobody can listen there.
fn not_served(address: SocketAddr, error: std::io::Error) -> anyhow::Error {
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return anyhow::anyhow!(
            "--metrics {address}: something listens there already: name another port"
        );
    }
    anyhow::Error::new(error).context(format!("--metrics {address}"))
}

impl Page {
    /// Listens at `address` from now on until the process ends.
    ///
    /// # Errors
    /// When it is taken or not this machine's.
    pub(super) fn serve(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).map_err(|error| not_served(address, error))?;
        let page = Self::default();
        let lent = page.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who has gone does not need an answer.
                let _ = lent.answer(stream);
            }
        });
        Ok(page)
    }

    pub(super) fn renew(&self, text: String) {
        if let Ok(mut page) = self.0.lock() {
            *page = text;
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = [0; REQUEST_BYTES];
        let len = stream.read(&mut request)?;
        let text = self.0.lock().map(|it| it.clone()).unwrap_or_default();
        let (status, text) = if request[..len].starts_with(b"GET ") {
            ("200 OK", text)
        } else {
            ("405 Method Not Allowed", String::new())
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        )
    }
}
