//! The cases of RFC 6455, in the classes of the Autobahn test suite.
