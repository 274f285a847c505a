//! The sockets for datagrams of `throng serve`: one for each core, each at a port of its own, so that what a
//! session sends comes to the core that has the session.

use std::net::{SocketAddr, UdpSocket};

use anyhow::Context as _;

use crate::config::{Config, DatagramConfig};

/// Binds them, if they are asked for, and notes in the configuration at which ports clients reach them.
///
/// # Errors
/// A port that is not free or that there is not, in words for the operator.
pub(super) fn bind(config: &mut Config) -> anyhow::Result<Vec<UdpSocket>> {
    let Some(datagrams) = &mut config.datagrams else { return Ok(Vec::new()) };
    let mut sockets = Vec::with_capacity(config.engine.cores);
    for index in 0..config.engine.cores {
        let address = SocketAddr::new(config.listen.ip(), port(datagrams.port, index)?);
        let mut bound = engine::bind_udp(address, 1).with_context(|| {
            format!(
                "cannot take datagrams at {address} (`socket.address`, `datagram.port`); each of the {} cores \
                 (`engine.cores`) has a port",
                config.engine.cores
            )
        })?;
        sockets.append(&mut bound);
    }
    let told = |(index, socket): (usize, &UdpSocket)| match datagrams.public_port {
        0 => Ok(socket.local_addr().context("cannot read the address of a socket")?.port()),
        first => port(first, index),
    };
    datagrams.settings.ports =
        sockets.iter().enumerate().map(told).collect::<anyhow::Result<_>>()?;
    say(config.listen, datagrams);
    Ok(sockets)
}

/// The port of a core; 0 stays 0.
fn port(first: u16, index: usize) -> anyhow::Result<u16> {
    if first == 0 {
        return Ok(0);
    }
    let port = usize::from(first) + index;
    u16::try_from(port).ok().with_context(|| {
        format!("there is no port {port}: set `datagram.port` lower, or `engine.cores`")
    })
}

fn say(listen: SocketAddr, datagrams: &DatagramConfig) {
    let ports = &datagrams.settings.ports;
    tracing::info!(?ports, "sessions may have datagrams (`datagram.enabled`)");
    if listen.ip().is_unspecified() {
        tracing::warn!(
            "datagrams leave from the address that the system chooses: where this machine has several, name \
             with --socket.address the one that clients send to"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn each_core_has_the_next_port() {
        assert_eq!(
            (port(7_352, 0).unwrap(), port(7_352, 3).unwrap(), port(0, 9).unwrap()),
            (7_352, 7_355, 0)
        );
        let error = port(65_535, 1).unwrap_err().to_string();
        assert!(error.contains("datagram.port"), "{error}");
    }
}
