//! The directory of matches: every thread that lists keeps a replica, fed by mail from the rooms.

/// All matches of the node.
#[derive(Debug, Default)]
pub struct Directory {}
