//! Session tokens: JSON web tokens, HS256, as the original makes them.

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

impl std::fmt::Debug for SessionSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSettings")
            .field("token_expiry_s", &self.token_expiry_s)
            .field("refresh_token_expiry_s", &self.refresh_token_expiry_s)
            .finish_non_exhaustive()
    }
}
