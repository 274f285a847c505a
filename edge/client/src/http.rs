//! The two calls over HTTP that a player begins with, each on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use wire::http1::{self, Limits, RequestHead, ResponseDecoder};

use crate::{ANSWER, ClientError};

/// A server, and the key by which players may log in.
#[derive(Clone, Debug)]
pub struct Server {
    /// Host and port.
    pub(crate) address: String,
    key: String,
}

impl Server {
    /// One at this host and port, such as `127.0.0.1:7350`.
    #[must_use]
    pub fn new(address: &str, server_key: &str) -> Self {
        Self { address: address.to_owned(), key: server_key.to_owned() }
    }

    /// Logs a device in, or registers it under this name; gives the session's token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn authenticate_device(&self, device: &str, name: &str) -> Result<String, ClientError> {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let target = format!("/v2/account/authenticate/device?create=true&username={name}");
        let key = STANDARD.encode(format!("{}:", self.key));
        let body = serde_json::json!({ "id": device }).to_string();
        let answer = self.call("POST", &target, &format!("Basic {key}"), body.as_bytes())?;
        let token = answer["token"].as_str();
        token.map(str::to_owned).ok_or_else(|| ClientError::Protocol(answer.to_string()))
    }

    /// The ids of matches that fit a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn list_matches(&self, token: &str, query: &str) -> Result<Vec<String>, ClientError> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let target = format!("/v2/match?authoritative=true&query={query}");
        let answer = self.call("GET", &target, &format!("Bearer {token}"), b"")?;
        let matches = answer["matches"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(matches.iter().filter_map(|it| it["match_id"].as_str().map(str::to_owned)).collect())
    }

    fn call(
        &self,
        method: &str,
        target: &str,
        auth: &str,
        body: &[u8],
    ) -> Result<Value, ClientError> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER))?;
        let extra = format!("Authorization: {auth}\r\nConnection: close\r\n");
        let head = RequestHead { method, target, host: &self.address, extra: extra.as_bytes() };
        let mut bytes = Vec::new();
        http1::request(&mut bytes, &head, body);
        stream.write_all(&bytes)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let (mut decoder, mut rest) = (ResponseDecoder::new(), &answer[..]);
        let protocol = |error: &dyn std::fmt::Display| ClientError::Protocol(error.to_string());
        let response = decoder.next(&mut rest, &Limits::default(), false);
        let response = response.map_err(|error| protocol(&error))?.ok_or(ClientError::Late)?;
        let json: Value =
            serde_json::from_slice(response.body).map_err(|error| protocol(&error))?;
        if response.status == 200 {
            return Ok(json);
        }
        let code = json["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
        let text = json["message"].as_str().unwrap_or("no reason").to_owned();
        Err(ClientError::Refused { code, text })
    }
}
