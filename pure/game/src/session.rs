//! Session tokens: JSON web tokens, HS256, with the claims and the order of claims that
//! Nakama makes. [`Signer`] issues and verifies them; [`Revocations`] remembers which of them
//! are no longer good, and `stored` keeps that in the database.
//!
//! Not here: who may have a token (`account`), and reading request headers (`api::auth`). The time
//! and randomness are arguments.

mod jwt;
mod revocations;
pub mod stored;

use std::sync::Arc;

use event::{Now, Random};
use uuid::Uuid;

pub use jwt::{Key, TOKEN_BYTES_MAX, TokenError};
pub use revocations::{DELETIONS_MAX, LOG_OUTS_MAX, Revocation, Revocations};

/// Session variables: names and values in the order in which the client gave them.
pub type Vars = Vec<(String, String)>;

/// Keys and lifetimes of session tokens.
#[derive(Clone)]
pub struct SessionSettings {
    /// `session.encryption_key`.
    pub encryption_key: String,
    /// `session.refresh_encryption_key`.
    pub refresh_encryption_key: String,
    /// `session.token_expiry_sec`.
    pub token_expiry_s: u64,
    /// `session.refresh_token_expiry_sec`.
    pub refresh_token_expiry_s: u64,
}

impl SessionSettings {
    /// The longer of the two lifetimes: how long the tokens of a login can live, seconds.
    pub fn lifetime_s(&self) -> u64 {
        self.token_expiry_s.max(self.refresh_token_expiry_s)
    }
}

impl std::fmt::Debug for SessionSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSettings")
            .field("token_expiry_s", &self.token_expiry_s)
            .field("refresh_token_expiry_s", &self.refresh_token_expiry_s)
            .finish_non_exhaustive()
    }
}

/// What a verified session or refresh token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// `tid`: shared by both tokens of one login and by all that refreshes make of them. Ours are
    /// of version 7 and so tell when the login was, to the millisecond.
    pub token_id: Uuid,
    /// `uid`.
    pub user_id: Uuid,
    /// `usn`: the user's name when the token was made.
    pub username: Arc<str>,
    /// `vrs`: session variables, sorted by name.
    pub vars: Vars,
    /// `exp`, unix seconds: not good from this second on.
    pub expires_s: u64,
    /// `iat`, unix seconds.
    pub issued_s: u64,
}

impl Claims {
    /// When the login was that this token comes from, unix milliseconds: from a version 7 token
    /// id, else (tokens of Nakama) the last millisecond of the second in `iat`.
    pub fn issued_ms(&self) -> u64 {
        if self.token_id.get_version_num() == 7 {
            (self.token_id.as_u128() >> 80).try_into().unwrap_or(u64::MAX)
        } else {
            self.issued_s.saturating_mul(1_000).saturating_add(999)
        }
    }
}

/// The two tokens of a login, ready for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The session token.
    pub token: String,
    /// The refresh token.
    pub refresh_token: String,
    /// What the session token says.
    pub claims: Claims,
}

/// A version 7 id (RFC 9562 §5.7): ids made one after the other are neighbours in every index, so
/// a batch of new rows touches few pages; 74 random bits keep them from being guessed.
pub fn new_id(now: Now, random: &mut Random) -> Uuid {
    let mut bytes: [u8; 16] = random.bytes();
    bytes[..6].copy_from_slice(&now.unix_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid::from_bytes(bytes)
}

/// Issues and verifies session tokens. The keys' hash states are prepared once; cheap to clone,
/// one a thread.
#[derive(Clone, Debug)]
pub struct Signer {
    session: Key,
    refresh: Key,
    token_expiry_s: u64,
    refresh_token_expiry_s: u64,
}

impl Signer {
    /// A signer for these keys and lifetimes.
    pub fn new(settings: &SessionSettings) -> Self {
        Self {
            session: Key::new(settings.encryption_key.as_bytes()),
            refresh: Key::new(settings.refresh_encryption_key.as_bytes()),
            token_expiry_s: settings.token_expiry_s,
            refresh_token_expiry_s: settings.refresh_token_expiry_s,
        }
    }

    /// The key of session tokens, which match tokens are signed with too.
    pub fn session_key(&self) -> &Key {
        &self.session
    }

    /// Both tokens of a new login. `username` and `vars` are not checked here.
    pub fn issue(
        &self,
        now: Now,
        random: &mut Random,
        user_id: Uuid,
        username: &str,
        vars: &[(String, String)],
    ) -> Tokens {
        let subject = Subject {
            token_id: new_id(now, random),
            user_id,
            username,
            vars,
            issued_s: now.unix_s(),
        };
        self.tokens(now, &subject)
    }

    /// Both tokens for the holder of a refresh token: the same token id and issue time, new ends.
    pub fn renew(
        &self,
        now: Now,
        claims: &Claims,
        username: &str,
        vars: &[(String, String)],
    ) -> Tokens {
        let subject = Subject {
            token_id: claims.token_id,
            user_id: claims.user_id,
            username,
            vars,
            issued_s: claims.issued_s,
        };
        self.tokens(now, &subject)
    }

    /// A session token alone, and when it expires (unix seconds), for `authenticate_token_generate`.
    /// `expires_s` 0 is the configured lifetime.
    pub fn issue_session(
        &self,
        now: Now,
        random: &mut Random,
        user_id: Uuid,
        username: &str,
        vars: &[(String, String)],
        expires_s: u64,
    ) -> (String, u64) {
        let subject = Subject {
            token_id: new_id(now, random),
            user_id,
            username,
            vars,
            issued_s: now.unix_s(),
        };
        let expires_s = if expires_s == 0 {
            now.unix_s().saturating_add(self.token_expiry_s)
        } else {
            expires_s
        };
        let mut json = Vec::with_capacity(CLAIMS_BYTES_TYPICAL);
        subject.write(expires_s, &mut json);
        (self.session.sign(&json), expires_s)
    }

    /// Verifies a session token. Whether it was revoked is [`Revocations::is_revoked`]'s matter.
    ///
    /// # Errors
    /// [`TokenError`]; the client is told the same for all of them.
    pub fn verify_session(&self, token: &str, now: Now) -> Result<Claims, TokenError> {
        verify(&self.session, token, now)
    }

    /// Verifies a refresh token, as [`Signer::verify_session`] does.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn verify_refresh(&self, token: &str, now: Now) -> Result<Claims, TokenError> {
        verify(&self.refresh, token, now)
    }

    /// As [`SessionSettings::lifetime_s`].
    pub fn lifetime_s(&self) -> u64 {
        self.token_expiry_s.max(self.refresh_token_expiry_s)
    }

    fn tokens(&self, now: Now, subject: &Subject<'_>) -> Tokens {
        let expires_s = now.unix_s().saturating_add(self.token_expiry_s);
        let mut json = Vec::with_capacity(CLAIMS_BYTES_TYPICAL);
        subject.write(expires_s, &mut json);
        let token = self.session.sign(&json);
        json.clear();
        subject.write(now.unix_s().saturating_add(self.refresh_token_expiry_s), &mut json);
        let refresh_token = self.refresh.sign(&json);
        Tokens { token, refresh_token, claims: subject.claims(expires_s) }
    }
}

/// Claims without variables: two uuids, a name of ten letters, two times, the names.
const CLAIMS_BYTES_TYPICAL: usize = 192;

/// Whom a token is for.
struct Subject<'a> {
    token_id: Uuid,
    user_id: Uuid,
    username: &'a str,
    vars: &'a [(String, String)],
    issued_s: u64,
}

impl Subject<'_> {
    /// What a token says that ends at this second.
    fn claims(&self, expires_s: u64) -> Claims {
        let mut vars = self.vars.to_vec();
        vars.sort_unstable();
        Claims {
            token_id: self.token_id,
            user_id: self.user_id,
            username: Arc::from(self.username),
            vars,
            expires_s,
            issued_s: self.issued_s,
        }
    }

    /// Source: the claims' order and names are Nakama's (3.40, `server/api_authenticate.go`).
    fn write(&self, expires_s: u64, json: &mut Vec<u8>) {
        let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
        json.extend_from_slice(br#"{"tid":""#);
        json.extend_from_slice(self.token_id.hyphenated().encode_lower(&mut id).as_bytes());
        json.extend_from_slice(br#"","uid":""#);
        json.extend_from_slice(self.user_id.hyphenated().encode_lower(&mut id).as_bytes());
        json.extend_from_slice(br#"","usn":"#);
        wire::nakama::json::write_string(json, self.username);
        if !self.vars.is_empty() {
            json.extend_from_slice(br#","vrs":"#);
            crate::json::write_map(json, self.vars);
        }
        json.extend_from_slice(br#","exp":"#);
        crate::json::write_u64(json, expires_s);
        json.extend_from_slice(br#","iat":"#);
        crate::json::write_u64(json, self.issued_s);
        json.push(b'}');
    }
}

fn verify(key: &Key, token: &str, now: Now) -> Result<Claims, TokenError> {
    let payload = key.open(token)?;
    let claims = parse_claims(&payload).ok_or(TokenError::Claims)?;
    if claims.expires_s <= now.unix_s() {
        return Err(TokenError::Expired { expires_s: claims.expires_s });
    }
    Ok(claims)
}

#[derive(serde::Deserialize)]
struct RawClaims<'a> {
    #[serde(borrow)]
    tid: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    uid: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    usn: std::borrow::Cow<'a, str>,
    #[serde(default)]
    vrs: Option<std::collections::BTreeMap<String, String>>,
    exp: u64,
    #[serde(default)]
    iat: u64,
}

fn parse_claims(payload: &[u8]) -> Option<Claims> {
    let raw: RawClaims<'_> = serde_json::from_slice(payload).ok()?;
    Some(Claims {
        token_id: Uuid::try_parse(&raw.tid).ok()?,
        user_id: Uuid::try_parse(&raw.uid).ok()?,
        username: raw.usn.into(),
        vars: raw.vrs.unwrap_or_default().into_iter().collect(),
        expires_s: raw.exp,
        issued_s: raw.iat,
    })
}

#[cfg(test)]
mod tests;
