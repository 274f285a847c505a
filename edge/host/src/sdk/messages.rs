//! The SDK's messages, as protobuf and as JSON.
//!
//! Names and numbers of fields are those of Agones 1.61: proto/sdk/sdk.proto, proto/sdk/beta/beta.proto,
//! proto/sdk/alpha/alpha.proto. JSON is as grpc-gateway writes it for Agones: the names of the protocol's
//! files, 64-bit numbers as text, all fields. Only answers are written as JSON; requests are read by hand
//! (`rest`).

use std::collections::BTreeMap;

use prost::Message;
use serde::{Serialize, Serializer};

/// A 64-bit number as JSON has it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Of all three services.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Seconds {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct GameServer {
    #[prost(message, optional, tag = "1")]
    pub(crate) object_meta: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    pub(crate) status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(string, tag = "3")]
    pub(crate) uid: String,
    #[prost(string, tag = "4")]
    pub(crate) resource_version: String,
    #[prost(int64, tag = "5")]
    #[serde(serialize_with = "text")]
    pub(crate) generation: i64,
    #[prost(int64, tag = "6")]
    #[serde(serialize_with = "text")]
    pub(crate) creation_timestamp: i64,
    #[prost(int64, tag = "7")]
    #[serde(serialize_with = "text")]
    pub(crate) deletion_timestamp: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Spec {
    #[prost(message, optional, tag = "1")]
    pub(crate) health: Option<Health>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Health {
    #[prost(bool, tag = "1")]
    pub(crate) disabled: bool,
    #[prost(int32, tag = "2")]
    pub(crate) period_seconds: i32,
    #[prost(int32, tag = "3")]
    pub(crate) failure_threshold: i32,
    #[prost(int32, tag = "4")]
    pub(crate) initial_delay_seconds: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Status {
    #[prost(string, tag = "1")]
    pub(crate) state: String,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(message, repeated, tag = "7")]
    pub(crate) addresses: Vec<Address>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) ports: Vec<Port>,
    #[prost(message, optional, tag = "4")]
    pub(crate) players: Option<Players>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(crate) counters: BTreeMap<String, CounterStatus>,
    #[prost(btree_map = "string, message", tag = "6")]
    pub(crate) lists: BTreeMap<String, ListStatus>,
}

/// Agones tells those of the node here; the reference's local server tells none, and so do we.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Address {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Port {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    pub(crate) port: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Players {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "text")]
    pub(crate) count: i64,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(crate) capacity: i64,
    #[prost(string, repeated, tag = "3")]
    pub(crate) ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct CounterStatus {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "text")]
    pub(crate) count: i64,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(crate) capacity: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct ListStatus {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "text")]
    pub(crate) capacity: i64,
    #[prost(string, repeated, tag = "2")]
    pub(crate) values: Vec<String>,
}

/// The request of `GetCounter` and of `GetList`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Named {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// google.protobuf.Int64Value: a number that may be absent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Number {
    #[prost(int64, tag = "1")]
    pub(crate) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateCounter {
    #[prost(message, optional, tag = "1")]
    pub(crate) update: Option<CounterUpdate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CounterUpdate {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) count: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(crate) capacity: Option<Number>,
    #[prost(int64, tag = "4")]
    pub(crate) count_diff: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Counter {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(crate) count: i64,
    #[prost(int64, tag = "3")]
    #[serde(serialize_with = "text")]
    pub(crate) capacity: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct List {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(crate) capacity: i64,
    #[prost(string, repeated, tag = "3")]
    pub(crate) values: Vec<String>,
}

/// google.protobuf.FieldMask: which fields of a list are meant.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mask {
    #[prost(string, repeated, tag = "1")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateList {
    #[prost(message, optional, tag = "1")]
    pub(crate) list: Option<List>,
    #[prost(message, optional, tag = "2")]
    pub(crate) mask: Option<Mask>,
}

/// The request of `AddListValue` and of `RemoveListValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListValue {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Count {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "text")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Bool {
    #[prost(bool, tag = "1")]
    pub(crate) bool: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlayerId {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct PlayerIds {
    #[prost(string, repeated, tag = "1")]
    pub(crate) list: Vec<String>,
}
