//! What goes over the wire in the Nakama protocol, example by example.
