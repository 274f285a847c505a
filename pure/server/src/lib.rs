//! What one thread does: the core with its connections and sessions, the room with its realtime
//! groups, the worker with the database and the scripts.

#![forbid(unsafe_code)]

pub mod settings;
