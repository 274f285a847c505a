//! A relay between a ping and its server that does known harm: it delays, stands still, drops, doubles
//! and swaps.
//!
//! TCP and UDP share its port, as the server's. Its threads live until the test's process ends.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What becomes of every datagram on its way, by its place: of ten each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    None,
    /// On the way to the server the fourth is dropped, the sixth doubled, the eighth comes after the
    /// ninth.
    Some,
    /// Likewise on the way back.
    Back,
    /// None arrives at the server.
    All,
}

/// Does it to the datagrams of one direction.
struct Doing {
    harm: Harm,
    place: u64,
    held: Option<Vec<u8>>,
}

impl Doing {
    fn new(harm: Harm) -> Self {
        Self { harm, place: 0, held: None }
    }

    fn pass(&mut self, bytes: &[u8], mut send: impl FnMut(&[u8])) {
        let place = self.place % 10;
        self.place += 1;
        let copies = match (self.harm, place) {
            (Harm::All, _) | (Harm::Some, 3) => 0,
            (Harm::Some, 5) => 2,
            (Harm::Some, 7) => {
                self.held = Some(bytes.to_vec());
                0
            }
            _ => 1,
        };
        (0..copies).for_each(|_| send(bytes));
        if place == 8
            && let Some(late) = self.held.take()
        {
            send(&late);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    /// Of what the server says.
    pub(crate) delay: Duration,
    /// From when until when nothing passes, after the first byte.
    pub(crate) stall: Option<(Duration, Duration)>,
    pub(crate) harm: Harm,
}

impl Relay {
    /// Starts it before a server. Its port.
    pub(crate) fn start(self, server: u16) -> u16 {
        let server: SocketAddr = ([127, 0, 0, 1], server).into();
        let (listener, front) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(front) = UdpSocket::bind(listener.local_addr().unwrap()) {
                break (listener, front);
            }
        };
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (there, back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(there, server, self, false));
                std::thread::spawn(move || pass(back, client, self, true));
            }
        });
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(server).unwrap();
        let (front, back) = (Arc::new(front), Arc::new(back));
        let client = Arc::new(Mutex::new(None));
        let (of_front, of_back, known) = (front.clone(), back.clone(), client.clone());
        std::thread::spawn(move || self.there(&of_front, &of_back, &known));
        std::thread::spawn(move || self.back(&front, &back, &client));
        port
    }

    fn there(self, front: &UdpSocket, back: &UdpSocket, client: &Mutex<Option<SocketAddr>>) {
        let mut datagram = vec![0; 65_536];
        let harm = if self.harm == Harm::Back { Harm::None } else { self.harm };
        let mut doing = Doing::new(harm);
        while let Ok((len, from)) = front.recv_from(&mut datagram) {
            *client.lock().unwrap() = Some(from);
            // What the server does not take is lost, as elsewhere.
            doing.pass(&datagram[..len], |bytes| drop(back.send(bytes)));
        }
    }

    fn back(self, front: &UdpSocket, back: &UdpSocket, client: &Mutex<Option<SocketAddr>>) {
        let mut datagram = vec![0; 65_536];
        let harm = if self.harm == Harm::Back { Harm::Some } else { Harm::None };
        let mut doing = Doing::new(harm);
        while let Ok(len) = back.recv(&mut datagram) {
            std::thread::sleep(self.delay);
            let to = *client.lock().unwrap();
            if let Some(to) = to {
                doing.pass(&datagram[..len], |bytes| drop(front.send_to(bytes, to)));
            }
        }
    }
}

/// Bytes of one direction.
fn pass(mut from: TcpStream, mut to: TcpStream, relay: Relay, is_back: bool) {
    let mut bytes = vec![0; 65_536];
    let began = Instant::now();
    while let Ok(len) = from.read(&mut bytes) {
        if len == 0 {
            break;
        }
        if is_back {
            std::thread::sleep(relay.delay);
            if let Some((start, end)) = relay.stall
                && (start..end).contains(&began.elapsed())
            {
                std::thread::sleep(end.saturating_sub(began.elapsed()));
            }
        }
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
