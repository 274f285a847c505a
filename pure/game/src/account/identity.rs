//! What a user is known by: device id, custom id, email address, username, password. A value of
//! one of these types is valid; the texts and the order of checks are Nakama's: required,
//! characters, form, length.
//!
//! Source: Nakama 3.40, `server/api_authenticate.go`.

use crate::error::ApiError;

/// A device id: 10–128 bytes without white space and control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId<'a>(&'a str);

/// A custom id: 6–128 bytes without white space and control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomId<'a>(&'a str);

/// An email address in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

/// A password of 8–72 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password<'a>(&'a str);

/// A username of 1–128 bytes without control characters. Spaces are fine in spite of the error's
/// text, as in Nakama.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Username<'a>(&'a str);

impl<'a> DeviceId<'a> {
    /// Checks a device id.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn parse(raw: &'a str) -> Result<Self, ApiError> {
        if raw.is_empty() {
            return Err(ApiError::invalid("Device ID is required."));
        }
        if has_space_or_control(raw) {
            return Err(ApiError::invalid(
                "Device ID invalid, no spaces or control characters allowed.",
            ));
        }
        if !(10..=128).contains(&raw.len()) {
            return Err(ApiError::invalid("Device ID invalid, must be 10-128 bytes."));
        }
        Ok(Self(raw))
    }

    /// The text.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

impl<'a> CustomId<'a> {
    /// Checks a custom id.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn parse(raw: &'a str) -> Result<Self, ApiError> {
        if raw.is_empty() {
            return Err(ApiError::invalid("Custom ID is required."));
        }
        if has_space_or_control(raw) {
            return Err(ApiError::invalid(
                "Custom ID invalid, no spaces or control characters allowed.",
            ));
        }
        if !(6..=128).contains(&raw.len()) {
            return Err(ApiError::invalid("Custom ID invalid, must be 6-128 bytes."));
        }
        Ok(Self(raw))
    }

    /// The text.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

impl Email {
    /// Checks an email address and lowers its letters.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn parse(raw: &str) -> Result<Self, ApiError> {
        if has_space_or_control(raw) {
            return Err(ApiError::invalid(
                "Invalid email address, no spaces or control characters allowed.",
            ));
        }
        let well_formed = raw.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty()
                && !domain.contains('@')
                && domain
                    .rsplit_once('.')
                    .is_some_and(|(host, top)| !host.is_empty() && !top.is_empty())
        });
        if !well_formed {
            return Err(ApiError::invalid("Invalid email address format."));
        }
        if !(10..=255).contains(&raw.len()) {
            return Err(ApiError::invalid("Invalid email address, must be 10-255 bytes."));
        }
        Ok(Self(raw.to_lowercase()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

impl<'a> Password<'a> {
    /// The part of a password that bcrypt looks at. Longer ones are refused when they are set,
    /// because whatever comes after would not protect anything.
    pub const BYTES_MAX: usize = 72;

    /// Checks a password that is being set.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn parse(raw: &'a str) -> Result<Self, ApiError> {
        if raw.len() < 8 {
            return Err(ApiError::invalid("Password must be at least 8 characters long."));
        }
        if raw.len() > Self::BYTES_MAX {
            return Err(ApiError::invalid("Password must be at most 72 bytes long."));
        }
        Ok(Self(raw))
    }

    /// The secret.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

impl<'a> Username<'a> {
    /// Checks a username.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn parse(raw: &'a str) -> Result<Self, ApiError> {
        if raw.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ApiError::invalid(
                "Username invalid, no spaces or control characters allowed.",
            ));
        }
        if !(1..=128).contains(&raw.len()) {
            return Err(ApiError::invalid("Username invalid, must be 1-128 bytes."));
        }
        Ok(Self(raw))
    }

    /// The text.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

fn has_space_or_control(raw: &str) -> bool {
    raw.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T>(result: Result<T, ApiError>) -> String {
        result.map_or_else(|error| error.message.into_owned(), |_| "ok".into())
    }

    #[test]
    fn ids_names_and_passwords_are_checked_in_the_originals_order() {
        let long = "x".repeat(129);
        for (raw, expected) in [
            ("", "Device ID is required."),
            (" ", "Device ID invalid, no spaces or control characters allowed."),
            ("0123\u{b}456789", "Device ID invalid, no spaces or control characters allowed."),
            ("012345678", "Device ID invalid, must be 10-128 bytes."),
            (&long, "Device ID invalid, must be 10-128 bytes."),
            ("0123456789", "ok"),
            ("äöüßé", "ok"),
            (&long[1..], "ok"),
        ] {
            assert_eq!(text(DeviceId::parse(raw)), expected, "{raw:?}");
        }
        for (raw, expected) in [
            ("", "Custom ID is required."),
            ("a b", "Custom ID invalid, no spaces or control characters allowed."),
            ("12345", "Custom ID invalid, must be 6-128 bytes."),
            ("123456", "ok"),
        ] {
            assert_eq!(text(CustomId::parse(raw)), expected, "{raw:?}");
        }
        for (raw, expected) in [
            ("", "Username invalid, must be 1-128 bytes."),
            (&long, "Username invalid, must be 1-128 bytes."),
            ("a\tb", "Username invalid, no spaces or control characters allowed."),
            ("a b", "ok"),
        ] {
            assert_eq!(text(Username::parse(raw)), expected, "{raw:?}");
        }
        for (raw, expected) in [
            ("", "Password must be at least 8 characters long."),
            ("1234567", "Password must be at least 8 characters long."),
            (&long, "Password must be at most 72 bytes long."),
            ("12345678", "ok"),
        ] {
            assert_eq!(text(Password::parse(raw)), expected, "{raw:?}");
        }
    }

    #[test]
    fn email_addresses_need_one_at_and_a_dot_in_the_domain() {
        let long = format!("{}@example.com", "x".repeat(250));
        for (raw, expected) in [
            ("", "Invalid email address format."),
            ("someone.example.com", "Invalid email address format."),
            ("some@one@example.com", "Invalid email address format."),
            ("someone@localhost", "Invalid email address format."),
            ("someone@example.", "Invalid email address format."),
            ("someone@.com", "Invalid email address format."),
            ("@example.com", "Invalid email address format."),
            (
                "some one@example.com",
                "Invalid email address, no spaces or control characters allowed.",
            ),
            ("a@b.co", "Invalid email address, must be 10-255 bytes."),
            (&long, "Invalid email address, must be 10-255 bytes."),
            ("Someone@Example.com", "ok"),
        ] {
            assert_eq!(text(Email::parse(raw)), expected, "{raw:?}");
        }
        assert_eq!(Email::parse("Someone@Example.com").unwrap().as_str(), "someone@example.com");
    }
}
