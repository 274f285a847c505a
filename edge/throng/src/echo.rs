//! `throng echo`: bare echo servers on the engine.

use crate::cli::EchoOptions;

/// Runs the echo server until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, in words for the operator.
pub fn run(options: EchoOptions) -> anyhow::Result<()> {
    let EchoOptions { address, port, protocol, driver, cores, pin } = options;
    anyhow::bail!(
        "not wired yet: echo of {protocol:?} on {address}:{port}, driver {}, {cores} threads, \
         pinned: {pin}",
        driver.word(),
    )
}
