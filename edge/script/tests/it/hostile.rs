//! Scripts that want to stall, starve or crash the server.
