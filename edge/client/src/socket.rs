//! The socket: a WebSocket with messages in protobuf. It is written to until all is taken, and read from as far as
//! there is something.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use event::Random;
use rustix::rand::{GetRandomFlags, getrandom};
use wire::http1::{Limits, ResponseDecoder};
use wire::nakama::{DecodeError, Envelope};
use wire::websocket::{self as ws, Decoder, Message, Opcode, Role};

use crate::http::Server;
use crate::{ANSWER, ClientError};

/// Bytes of the largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    /// Masks keep proxies from being fooled by what a client sends.
    random: Random,
    scratch: Vec<u8>,
    /// What came behind the answer to the handshake.
    early: Vec<u8>,
}

impl Socket {
    pub(crate) fn open(server: &Server, token: &str) -> Result<Self, ClientError> {
        let mut seed = [0; 32];
        getrandom(&mut seed, GetRandomFlags::empty()).map_err(io::Error::from)?;
        let mut random = Random::from_seed(seed);
        let mut stream = TcpStream::connect(&server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER))?;
        let (key, mut bytes) = (random.bytes(), Vec::new());
        let target = format!("/ws?token={token}&format=protobuf");
        ws::request(&mut bytes, &target, &server.address, key, b"");
        stream.write_all(&bytes)?;
        let mut decoder = ResponseDecoder::new();
        let mut buffer = [0; 4_096];
        let early = loop {
            let len = stream.read(&mut buffer)?;
            if len == 0 {
                return Err(ClientError::Closed("within the handshake".to_owned()));
            }
            let mut rest = buffer.get(..len).unwrap_or_default();
            match decoder.next(&mut rest, &Limits::default(), false) {
                Ok(None) => {}
                Ok(Some(answer)) if ws::is_accepted(&answer, key) => break rest.to_vec(),
                Ok(Some(answer)) => {
                    let text = String::from_utf8_lossy(answer.body).into_owned();
                    return Err(ClientError::Refused { code: answer.status.into(), text });
                }
                Err(error) => return Err(ClientError::Protocol(error.to_string())),
            }
        };
        stream.set_read_timeout(None)?;
        stream.set_nonblocking(true)?;
        let decoder = Decoder::new(Role::Client, MESSAGE_BYTES_MAX);
        Ok(Self { stream, decoder, random, scratch: Vec::new(), early })
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn send(&mut self, envelope: &Envelope) -> Result<(), ClientError> {
        let mut payload = Vec::new();
        envelope.encode_protobuf(&mut payload);
        self.write(Opcode::Binary, &payload)
    }

    fn write(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), ClientError> {
        let mut frame = Vec::new();
        ws::encode_masked(&mut frame, opcode, payload, self.random.bytes());
        self.stream.set_nonblocking(false)?;
        let written = self.stream.write_all(&frame);
        self.stream.set_nonblocking(true)?;
        written.map_err(ClientError::Io)
    }

    /// All messages that are there.
    pub(crate) fn take(&mut self) -> Result<Vec<Envelope>, ClientError> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 65_536]);
        let early = std::mem::take(&mut self.early);
        self.read(&early, &mut all)?;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Closed("by the server".to_owned())),
                Ok(len) => self.read(buffer.get(..len).unwrap_or_default(), &mut all)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self, bytes: &[u8], all: &mut Vec<Envelope>) -> Result<(), ClientError> {
        let mut rest = bytes;
        let mut scratch = std::mem::take(&mut self.scratch);
        let protocol = |error: &dyn std::fmt::Display| ClientError::Protocol(error.to_string());
        loop {
            let message = self.decoder.next(&mut rest, &mut scratch);
            match message.map_err(|error| protocol(&error))? {
                None => break,
                Some(Message::Binary(bytes)) => match Envelope::decode_protobuf(bytes) {
                    Ok(envelope) => all.push(envelope),
                    // What there is nothing to say to is answered with the number alone.
                    Err(DecodeError::Missing { cid }) => all.push(Envelope { cid, message: None }),
                    Err(error) => return Err(protocol(&error)),
                },
                Some(Message::Ping(payload)) => {
                    let payload = payload.to_vec();
                    self.write(Opcode::Pong, &payload)?;
                }
                Some(Message::Close { reason, .. }) => {
                    return Err(ClientError::Closed(reason.to_owned()));
                }
                Some(Message::Text(_) | Message::Pong(_)) => {}
            }
        }
        self.scratch = scratch;
        Ok(())
    }
}
