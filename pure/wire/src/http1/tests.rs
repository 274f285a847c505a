//! Every way in which requests and responses are cut, framed and refused.
