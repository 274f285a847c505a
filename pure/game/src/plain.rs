//! How what threads share is written when it goes to another node: as if it were theirs alone. For
//! `#[serde(with = "…")]`; the features of `serde`, `bytes` and `smallvec` for this would build half of
//! all dependencies anew. Not here: the format.

/// Text that is shared.
pub mod text {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// As `str` is.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    /// As a `String` is.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Arc::from)
    }
}

/// What is shared.
pub mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As what is shared is.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<T: Serialize, S: Serializer>(it: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        T::serialize(it, to)
    }

    /// As its own.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, T, D>(from: D) -> Result<Arc<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        T::deserialize(from).map(Arc::new)
    }
}

/// Bytes that are shared.
pub mod bytes {
    use std::fmt;

    use bytes::Bytes;
    use serde::de::Visitor;
    use serde::{Deserializer, Serializer};

    struct Copied;

    impl Visitor<'_> for Copied {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
            Ok(Bytes::copy_from_slice(bytes))
        }
    }

    /// As bytes, not as a list of numbers.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    /// Copies them.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        from.deserialize_bytes(Copied)
    }
}

/// Lists that are shared, or short.
pub mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As a slice is.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<T, L, S>(list: &L, to: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
        L: std::ops::Deref<Target = [T]>,
        S: Serializer,
    {
        to.collect_seq(list.iter())
    }

    /// As a vector is.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, T, L, D>(from: D) -> Result<L, D::Error>
    where
        T: Deserialize<'de>,
        L: From<Vec<T>>,
        D: Deserializer<'de>,
    {
        Vec::deserialize(from).map(L::from)
    }
}

/// A list that is shared, if there is one.
pub mod maybe_list {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As an optional slice is.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<T: Serialize, S: Serializer>(
        list: &Option<Arc<[T]>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        list.as_deref().serialize(to)
    }

    /// As an optional vector is.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Arc<[T]>>, D::Error> {
        Ok(Option::<Vec<T>>::deserialize(from)?.map(Arc::from))
    }
}

/// A message in the form that clients get it.
pub mod envelope {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};
    use wire::nakama::Envelope;

    /// As its bytes are.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(envelope: &Envelope, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        envelope.encode_protobuf(&mut bytes);
        to.serialize_bytes(&bytes)
    }

    /// From its bytes.
    ///
    /// # Errors
    /// The deserializer's, and bytes that are no message.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Envelope, D::Error> {
        let bytes = super::bytes::deserialize(from)?;
        Envelope::decode_protobuf(&bytes).map_err(D::Error::custom)
    }
}

/// Notifications in the form that clients get them.
pub mod notifications {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};
    use wire::nakama::realtime::{Message, Notifications};
    use wire::nakama::{Envelope, api::Notification};

    /// As the message is that tells of them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(all: &[Notification], to: S) -> Result<S::Ok, S::Error> {
        let message = Message::Notifications(Notifications { notifications: all.to_vec() });
        super::envelope::serialize(&Envelope { cid: String::new(), message: Some(message) }, to)
    }

    /// From that message.
    ///
    /// # Errors
    /// The deserializer's, and bytes that are no such message.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Notification>, D::Error> {
        match super::envelope::deserialize(from)?.message {
            Some(Message::Notifications(all)) => Ok(all.notifications),
            _ => Err(D::Error::custom("no notifications")),
        }
    }
}
