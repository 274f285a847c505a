//! `throng keys`: a configuration file with fresh keys in place of the default ones, which everybody
//! knows.
//!
//! Nothing is stored: the keys are drawn from the system's randomness and go to the standard output.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;

use crate::config::is_key;
use crate::options::BUILT;

/// Bytes of randomness of one key.
const KEY_BYTES: usize = 32;

/// Prints the file.
///
/// # Errors
/// If the system has no randomness, or the output cannot be written.
pub fn print() -> anyhow::Result<()> {
    let mut page = String::from(
        "# Keys of a throng server: keep this file secret, and the same over restarts.\n\
         # throng serve --config keys.yaml\n\
         # Clients are built with socket.server_key; the others never leave the server.\n",
    );
    for opt in BUILT.iter().filter(|opt| is_key(opt)) {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{}: \"{}\"", opt.name, fresh()?);
    }
    Ok(std::io::stdout().lock().write_all(page.as_bytes())?)
}

/// A key as hexadecimal text.
fn fresh() -> anyhow::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("the system has no randomness")?;
    Ok(wire::hex::encode(&bytes))
}
