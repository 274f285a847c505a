//! The rows of `fetch.*`: what requests of scripts to other servers may do.

use super::{MIB, number, row};
use crate::options::{Entry, Kind, Opt};

/// A row that Nakama has not.
const fn ours(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    row(name, kind, default, help).ours()
}

/// The options of `nk.http_request`.
pub(super) const ROWS: &[Opt] = &[
    ours(
        "fetch.enabled",
        Kind::Switch,
        "false",
        "Let scripts ask other servers over HTTP (`nk.http_request`). Otherwise the function is an \
         error that names this option.",
    ),
    ours(
        "fetch.allow",
        Kind::List(Entry::Host),
        "*:80,*:443",
        "Hosts and ports that may be asked, redirects included: `host`, `*.domain` for its \
         subdomains, or `*`, each with `:port` or for any port.",
    ),
    ours(
        "fetch.deny",
        Kind::List(Entry::Host),
        "",
        "Of these, hosts and ports that may not, in the same form. A name says nothing of what it \
         leads to: addresses are looked at by themselves.",
    ),
    ours(
        "fetch.networks",
        Kind::List(Entry::Network),
        "",
        "Networks that may be reached although they are not public. All other private, loopback, \
         link-local, multicast and reserved addresses, clouds' metadata, IPv4 in the form of IPv6, \
         and the machine's own addresses are refused, whatever name or redirect leads to them.",
    ),
    ours(
        "fetch.requests_max",
        number(1, 4096, "requests"),
        "64",
        "Requests under way at one time. Others wait for their turn: who has fewest under way is \
         next, and the last quarter is only for users, matches and addresses with none, half of it \
         only for those whose address has none. Those for nobody who is counted (events, addresses of `limit.exempt_addresses`) have half of the \
         places at most.",
    ),
    ours(
        "fetch.requests_per_user",
        number(1, 4096, "requests"),
        "4",
        "Requests for one user, one match, or one address that is no user yet, at one time, those \
         that wait included. One more is an error in the script.",
    ),
    ours(
        "fetch.requests_per_address",
        number(1, 1_000_000, "requests"),
        "256",
        "The same of all users of one address that is not in `limit.exempt_addresses` together.",
    ),
    ours(
        "fetch.requests_per_host",
        number(1, 4096, "requests"),
        "16",
        "Requests to one port of one host at one time. Others wait for their turn, as for \
         `fetch.requests_max`, and take no place meanwhile; one that is redirected there is an error \
         in the script.",
    ),
    ours(
        "fetch.waiting_max",
        number(0, 1_000_000, "requests"),
        "1024",
        "Requests that wait for their turn. One more is an error in the script; so is one of a match when matches have \
         half of all that may wait or be under way.",
    ),
    ours(
        "fetch.request_max_bytes",
        number(0, 1024 * MIB, "bytes"),
        "1048576",
        "Largest content of a request. A larger one is an error in the script.",
    ),
    ours(
        "fetch.answer_max_bytes",
        number(0, 1024 * MIB, "bytes"),
        "4194304",
        "Largest content of an answer, as it is sent: nothing is unpacked. A larger one is an error \
         in the script.",
    ),
    ours(
        "fetch.memory_max_bytes",
        number(1024, 64 * 1024 * MIB, "bytes"),
        "67108864",
        "Contents of all requests and answers in memory at one time. What needs more is an error in \
         the script.",
    ),
    ours(
        "fetch.connect_timeout_ms",
        number(1, 600_000, "ms"),
        "5000",
        "Time from a name to a connection, encryption included, for each redirect anew.",
    ),
    ours(
        "fetch.timeout_max_ms",
        number(1, 600_000, "ms"),
        "30000",
        "Longest time that a script may give a request in all. More is an error in the script, and \
         5000 is what it has if it gives none.",
    ),
    ours(
        "fetch.redirects_max",
        number(0, 1000, "redirects"),
        "10",
        "Redirects that one request follows. 0 hands the script the answer that redirects.",
    ),
    ours(
        "fetch.downgrade",
        Kind::Switch,
        "false",
        "Follow redirects from https to http. Otherwise they are an error in the script.",
    ),
    ours(
        "fetch.insecure",
        Kind::Switch,
        "false",
        "Let scripts ask for a request that does not check the server's certificate. Otherwise that \
         is an error in the script.",
    ),
    ours(
        "fetch.ca_file",
        Kind::Path,
        "",
        "File of certificates in PEM whose authorities are trusted besides those of this machine.",
    ),
];
