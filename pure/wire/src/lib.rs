//! Bytes to messages and back: HTTP/1.1, HTTP/2, gRPC, WebSocket, game datagrams, query strings, dates,
//! and the Nakama protocol in JSON and protobuf. Both directions, so that the server and the load generator
//! share one codec; of HTTP/2 and gRPC the server's alone.
//!
//! What is deliberately not here: sockets, time-outs, routing, and what a message means. Bytes
//! come in as slices that are lent for one call; decoders keep only what is unfinished. Messages
//! go out by appending to a `Vec<u8>` that the caller owns.

#![forbid(unsafe_code)]

pub mod datagram;
pub mod date;
pub mod excerpt;
pub mod grpc;
pub mod hex;
pub mod http1;
pub mod http2;
pub mod mac;
pub mod nakama;
pub mod nearest;
pub mod query;
pub mod websocket;
