//! docs/limits.md is whole: every bound in the code has a row there or a reason to have none, and
//! every row a counter or a reason. Counters that nothing counts are found, too.
//!
//! That a running server exports each counter of the page is looked at by dev/e2e/limits.test.mjs.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::{File, Tree};

const PAGE: &str = "docs/limits.md";

/// Where bounds are looked for: what runs in the server. The load generator bounds itself.
const FOLDERS: &[&str] = &[
    "pure/",
    "edge/engine/src/",
    "edge/fetch/src/",
    "edge/fiber/src/",
    "edge/host/src/",
    "edge/javascript/src/",
    "edge/samepage/src/",
    "edge/store/src/",
    "edge/script/src/",
    "edge/tables/src/",
    "edge/throng/src/",
    "edge/wasm/src/",
];

/// Why a row has no counter; the page says what they mean.
const REASONS: &[&str] = &["– told", "– kept", "– start"];

/// Bounds and the row that tells of them: file, constant, how the row begins.
const ROWS: &[(&str, &str, &str)] = &[
    ("edge/engine/src/engine.rs", "MAILBOX_MAX", "mail to a room or worker"),
    ("edge/engine/src/listen.rs", "BACKLOG_MAX", "connections waiting in the kernel"),
    ("edge/engine/src/listen.rs", "IN_USE_MAX", "an address in use at start"),
    ("edge/fetch/src/carry.rs", "ADDRESSES_MAX", "time of a request of a script"),
    ("edge/fetch/src/carry.rs", "HEAD_BYTES_MAX", "head of an answer to such"),
    ("edge/fetch/src/carry.rs", "HEAD_LINES_MAX", "head of an answer to such"),
    ("edge/fetch/src/desk.rs", "POST_TRIES_MAX", "answers to such requests"),
    ("edge/fetch/src/head.rs", "HEADERS_BYTES_MAX", "URL and headers of such"),
    ("edge/fetch/src/head.rs", "HEADERS_MAX", "URL and headers of such"),
    ("edge/fetch/src/names.rs", "LOOKUPS_EACH_MAX", "names that are looked up"),
    ("edge/fetch/src/names.rs", "LOOKUPS_MAX", "names that are looked up"),
    ("edge/fetch/src/target.rs", "HOST_BYTES_MAX", "URL and headers of such"),
    ("edge/fetch/src/target.rs", "URL_BYTES_MAX", "URL and headers of such"),
    ("edge/fetch/src/tls.rs", "CA_BYTES_MAX", "file of `fetch.ca_file`"),
    ("edge/host/src/api.rs", "ANSWER_BYTES_MAX", "an answer of the daemon"),
    ("edge/host/src/api.rs", "CONNECTIONS_MAX", "connections to the control socket"),
    ("edge/host/src/child/files.rs", "ENTRIES_MAX", "files in `writable`"),
    ("edge/host/src/daemon.rs", "STARTS_MAX", "servers being started"),
    ("edge/host/src/daemon/answer.rs", "WAITING_MAX", "who waits for a server"),
    ("edge/host/src/daemon/one.rs", "MISSES_MAX", "status queries without an answer"),
    ("edge/host/src/daemon/one.rs", "PAUSE_MAX", "pauses between starts"),
    ("edge/host/src/daemon/one.rs", "WHAT_BYTES_MAX", "what is said of a server"),
    ("edge/host/src/daemon/start.rs", "REPORT_BYTES_MAX", "what is said of a server"),
    ("edge/host/src/fleet.rs", "FILE_BYTES_MAX", "a fleet's file"),
    ("edge/host/src/fleet.rs", "NAME_CHARS_MAX", "a name, a set of processors"),
    ("edge/host/src/fleet.rs", "SERVERS_MAX", "servers of a fleet"),
    ("edge/host/src/fleet/sdk.rs", "KEYS_MAX", "counters, lists and ports"),
    ("edge/host/src/fleet/sdk.rs", "LABEL_CHARS_MAX", "what a server has written down"),
    ("edge/host/src/fleet/sdk.rs", "LIST_VALUES_MAX", "counters, lists and ports"),
    ("edge/host/src/fleet/sdk.rs", "METADATA_MAX", "what a server has written down"),
    ("edge/host/src/fleet/sdk.rs", "PORTS_MAX", "counters, lists and ports"),
    ("edge/host/src/fleet/sdk.rs", "VALUE_BYTES_MAX", "what a server has written down"),
    ("edge/host/src/fleet/units.rs", "CORES_MAX", "a name, a set of processors"),
    ("edge/host/src/http.rs", "BODY_BYTES_MAX", "connections to the control socket"),
    ("edge/host/src/logs.rs", "FILE_BYTES_MAX", "output of a server that is kept"),
    ("edge/host/src/logs.rs", "LINE_BYTES_MAX", "a line in which a text is looked for"),
    ("edge/host/src/logs.rs", "PIPE_BYTES_MAX", "output while no daemon runs"),
    ("edge/host/src/net/taken.rs", "TAKEN_MAX", "addresses and routes that `subnet`"),
    ("edge/host/src/net/taken.rs", "TRIES_MAX", "addresses and routes that `subnet`"),
    ("edge/host/src/sdk/desk/paper.rs", "PAPER_BYTES_MAX", "what a server has written down"),
    ("edge/host/src/sdk/door.rs", "CONNECTIONS_MAX", "connections of a server to the SDK"),
    ("edge/host/src/sdk/door.rs", "HEAD_BYTES_MAX", "a request of the SDK"),
    ("edge/host/src/sdk/door.rs", "PURSE_BYTES_MAX", "what a server may use of the SDK"),
    ("edge/host/src/sdk/door.rs", "REQUEST_BYTES_MAX", "a request of the SDK"),
    ("edge/host/src/sdk/door.rs", "STREAMS_MAX", "connections of a server to the SDK"),
    ("edge/host/src/sdk/door.rs", "WATCHES_MAX", "watches of a server by the SDK"),
    ("edge/host/src/state.rs", "FOLDER_BYTES_MAX", "a name, a set of processors"),
    ("pure/game/src/pairs.rs", "PAIRS_MAX", "headers, variables and query parameters"),
    ("edge/fiber/src/lib.rs", "IDLE_MAX", "a stack in JavaScript"),
    ("edge/javascript/src/calls.rs", "IDLE_MAX", "VMs of JavaScript that are kept"),
    ("edge/javascript/src/convert.rs", "BYTES_MAX", "values, bytes and keys"),
    ("edge/javascript/src/convert.rs", "VALUES_MAX", "values, bytes and keys"),
    ("edge/javascript/src/dispatcher.rs", "PRESENCES_MAX", "presences of one call"),
    ("edge/javascript/src/failure.rs", "FRAMES_MAX", "a stack in JavaScript"),
    ("edge/javascript/src/sources.rs", "BUNDLE_BYTES_MAX", "a bundle of JavaScript"),
    ("edge/javascript/src/vm.rs", "STACK_BYTES_MAX", "a stack in JavaScript"),
    ("edge/wasm/src/calls.rs", "IDLE_MAX", "instances of a module that are kept"),
    ("edge/wasm/src/failure.rs", "FRAMES_MAX", "a stack in WebAssembly"),
    ("edge/wasm/src/failure.rs", "STACK_BYTES_MAX", "a stack in WebAssembly"),
    ("edge/wasm/src/instance.rs", "KEPT_BYTES_MAX", "instances of a module that are kept"),
    ("edge/wasm/src/local.rs", "NAME_BYTES_MAX", "functions that a module in WebAssembly"),
    ("edge/wasm/src/local.rs", "PRESENCES_MAX", "presences of one call"),
    ("edge/wasm/src/local.rs", "REGISTERED_MAX", "functions that a module in WebAssembly"),
    ("edge/wasm/src/modules.rs", "MODULES_MAX", "modules in WebAssembly"),
    ("edge/wasm/src/modules.rs", "MODULE_BYTES_MAX", "modules in WebAssembly"),
    ("edge/wasm/src/wasi.rs", "LAST_WORDS_BYTES_MAX", "output of a guest"),
    ("edge/wasm/src/wasi.rs", "LINE_BYTES_MAX", "output of a guest"),
    ("edge/wasm/src/wasi.rs", "PIECES_MAX", "output of a guest"),
    ("edge/wasm/src/wasi.rs", "SUBSCRIPTIONS_MAX", "output of a guest"),
    ("edge/samepage/src/lib.rs", "IMAGE_BYTES_MAX", "memory that matches of a module"),
    ("edge/samepage/src/lib.rs", "KEPT_BYTES_MAX", "pages of a match that are not"),
    ("edge/samepage/src/lib.rs", "WRITTEN_BYTES_MAX", "memory that matches of a module"),
    ("edge/tables/src/lib.rs", "BYTES_MAX", "values, bytes and keys"),
    ("edge/tables/src/lib.rs", "LIST_INDEX_MAX", "values, bytes and keys"),
    ("edge/tables/src/lib.rs", "VALUES_MAX", "values, bytes and keys"),
    ("edge/script/src/dialect.rs", "DEPTH_MAX", "a module"),
    ("edge/script/src/dialect/jumps.rs", "LABELS_MAX", "a module"),
    ("edge/script/src/dialect/parser.rs", "LOCALS_MAX", "a module"),
    ("edge/script/src/dispatcher.rs", "PRESENCES_MAX", "presences of one call"),
    ("edge/script/src/library.rs", "LOAD_BYTES_MAX", "text given to `load`"),
    ("edge/script/src/library.rs", "TRANSLATED_BYTES_MAX", "text given to `load`"),
    ("edge/script/src/library/format.rs", "WIDTH_MAX", "patterns, captures and widths"),
    ("edge/script/src/library/pattern.rs", "CAPTURES_MAX", "patterns, captures and widths"),
    ("edge/script/src/library/pattern.rs", "DEPTH_MAX", "patterns, captures and widths"),
    ("edge/script/src/lint/facts.rs", "USES_MAX", "uses of `nk`"),
    ("pure/wire/src/http1/content.rs", "MEMBERS_MAX", "members of a gzip body"),
    ("pure/wire/src/grpc.rs", "TEXT_BYTES_MAX", "text of an error over gRPC"),
    ("pure/wire/src/http2.rs", "ALLOWANCE_MAX", "frames of a gRPC connection"),
    ("pure/wire/src/http2.rs", "BLOCK_BYTES_MAX", "metadata of a call over gRPC"),
    ("pure/wire/src/http2.rs", "FIELDS_MAX", "metadata of a call over gRPC"),
    ("pure/wire/src/http2/hpack.rs", "TABLE_BYTES_MAX", "header fields that a gRPC connection"),
    ("pure/server/src/core/packing.rs", "PACKED_BYTES_MAX", "answers that are compressed"),
    ("pure/server/src/core/packing.rs", "PACKED_PER_TURN_BYTES_MAX", "answers that are compressed"),
    ("pure/server/src/core/grpc.rs", "HEAD_BYTES_MAX", "metadata of a call over gRPC"),
    ("pure/server/src/core/grpc.rs", "LARGE_REQUESTS_MAX", "requests of a gRPC connection"),
    ("pure/server/src/core/grpc.rs", "STREAMS_MAX", "streams of a gRPC connection"),
    ("edge/script/src/matches.rs", "SENDERS_MAX", "senders known to a match in Lua"),
    ("edge/script/src/sources.rs", "FOLDER_DEPTH_MAX", "modules"),
    ("edge/script/src/sources.rs", "MODULES_MAX", "modules"),
    ("edge/script/src/sources.rs", "MODULE_BYTES_MAX", "a module"),
    ("edge/store/src/copy.rs", "COPIES_MAX", "copies of the database"),
    ("edge/store/src/functions.rs", "LENGTH_MAX", "rows, bytes of an answer"),
    ("edge/store/src/functions.rs", "PATTERN_BYTES_MAX", "text of a script's SQL"),
    ("edge/store/src/guest.rs", "SQL_BYTES_MAX", "text of a script's SQL"),
    ("edge/throng/src/config/contradict.rs", "QUEUE_BYTES_MAX", "what one socket may have unsent"),
    ("edge/throng/src/config/yaml.rs", "FILE_BYTES_MAX", "the configuration file"),
    ("edge/throng/src/logs.rs", "LINES_MAX", "lines waiting to be written"),
    ("edge/throng/src/logs.rs", "LINE_BYTES_MAX", "lines waiting to be written"),
    ("edge/throng/src/metrics.rs", "HEAD_BYTES_MAX", "a request to the metrics port"),
    ("edge/throng/src/metrics.rs", "SAMPLES_MAX", "a request to the metrics port"),
    ("edge/throng/src/metrics.rs", "SCRAPES_MAX", "connections to the metrics port"),
    ("edge/throng/src/options.rs", "LIST_ITEMS_MAX", "the configuration file"),
    ("edge/throng/src/options.rs", "NAME_BYTES_MAX", "the configuration file"),
    ("edge/throng/src/options.rs", "TEXT_BYTES_MAX", "the configuration file"),
    ("edge/throng/src/serve/modules.rs", "FINDINGS_LOGGED_MAX", "warnings about modules"),
    ("edge/throng/src/serve/reload.rs", "FILES_LOOKED_AT_MAX", "looks at the folder"),
    ("edge/throng/src/serve/reload.rs", "FOLDER_DEPTH_MAX", "looks at the folder"),
    ("edge/throng/src/serve/reload.rs", "READS_MAX", "how often files that change"),
    ("edge/throng/src/serve/machine.rs", "FILE_BYTES_MAX", "a file read by a script"),
    ("pure/event/src/once.rs", "KINDS_MAX", "kinds of lines about limits"),
    ("pure/game/src/account/identity.rs", "BYTES_MAX", "a password"),
    ("pure/game/src/api/auth.rs", "BASIC_BYTES_MAX", "credentials in a head"),
    ("pure/game/src/api/login.rs", "VARS_BYTES_MAX", "session variables"),
    ("pure/game/src/cache.rs", "BYTES_MAX", "scripts' cache"),
    ("pure/game/src/cache.rs", "CHANGES_BYTES_MAX", "changes of the scripts' cache"),
    ("pure/game/src/cache.rs", "CHANGES_MAX", "changes of the scripts' cache"),
    ("pure/game/src/cache.rs", "ENTRIES_MAX", "scripts' cache"),
    ("pure/game/src/cache.rs", "ENTRY_BYTES_MAX", "scripts' cache"),
    ("pure/game/src/directory.rs", "AUTHORITATIVE_MAX", "matches in the directory"),
    ("pure/game/src/directory.rs", "ENDED_MAX", "ended matches"),
    ("pure/game/src/directory.rs", "ONLINE_MAX", "online sessions"),
    ("pure/game/src/directory.rs", "RELAYED_MAX", "matches in the directory"),
    ("pure/game/src/directory/list.rs", "LIMIT_MAX", "a page of storage, matches"),
    ("pure/game/src/directory/list.rs", "LIST_STEPS_MAX", "cost of one match listing"),
    ("pure/game/src/host/crypto.rs", "BCRYPT_COST_MAX", "cost of a bcrypt hash"),
    ("pure/game/src/host/machine.rs", "NAME_BYTES_MAX", "metrics of scripts"),
    ("pure/game/src/host/machine.rs", "TAGS_MAX", "metrics of scripts"),
    ("pure/game/src/host/read.rs", "ENTRIES_MAX", "ids, names, devices or"),
    ("pure/game/src/host/rsa.rs", "KEY_BITS_MAX", "an RSA key"),
    ("pure/game/src/host/rsa.rs", "KEY_TEXT_BYTES_MAX", "an RSA key"),
    ("pure/game/src/host/system.rs", "LOG_LINE_BYTES_MAX", "log lines of the scripts"),
    ("pure/game/src/host/wallet.rs", "ACCOUNTS_MAX", "wallet changes, accounts"),
    ("pure/game/src/friends.rs", "EDGES_MAX", "friends of a user"),
    ("pure/game/src/friends.rs", "INVITATIONS_MAX", "invitations that wait"),
    ("pure/game/src/friends.rs", "METADATA_BYTES_MAX", "friends of a user"),
    ("pure/game/src/friends/list.rs", "LIST_LIMIT_MAX", "a page of friends"),
    ("pure/game/src/friends/list.rs", "LOOKS_MAX", "a page of friends of friends"),
    ("pure/game/src/friends/list.rs", "OF_FRIENDS_LIMIT_MAX", "a page of friends of friends"),
    ("pure/game/src/link.rs", "DEVICES_MAX", "devices of a user"),
    ("pure/game/src/api/notifications.rs", "LIMIT_MAX", "a page of notifications"),
    ("pure/game/src/notifications.rs", "CONTENT_BYTES_MAX", "a notification: subject"),
    ("pure/game/src/notifications.rs", "KEPT_MAX", "notifications kept for"),
    ("pure/game/src/notifications.rs", "KEPT_OF_USERS_MAX", "notifications kept for"),
    ("pure/game/src/notifications.rs", "SUBJECT_CHARS_MAX", "a notification: subject"),
    ("pure/game/src/notifications/list.rs", "LIST_LIMIT_MAX", "a page of notifications"),
    ("pure/game/src/query.rs", "BYTES_MAX", "a match query"),
    ("pure/game/src/query.rs", "REGEXES_MAX", "a match query"),
    ("pure/game/src/query.rs", "TERMS_MAX", "a match query"),
    ("pure/game/src/query/condition.rs", "REGEX_BYTES_MAX", "a match query"),
    ("pure/game/src/query/condition.rs", "REGEX_NEST_MAX", "a match query"),
    ("pure/game/src/query/fields.rs", "BYTES_MAX", "values of a label"),
    ("pure/game/src/query/fields.rs", "VALUES_MAX", "values of a label"),
    ("pure/game/src/session/jwt.rs", "TOKEN_BYTES_MAX", "a token"),
    ("pure/game/src/session/revocations.rs", "DELETIONS_MAX", "deleted accounts whose tokens"),
    ("pure/game/src/session/revocations.rs", "LOG_OUTS_MAX", "log-outs known to a core"),
    ("pure/game/src/session/stored.rs", "TOKENS_PER_USER_MAX", "log-outs of single logins"),
    ("pure/game/src/storage.rs", "NAME_BYTES_MAX", "collection and key"),
    ("pure/game/src/storage.rs", "OBJECTS_MAX", "objects of one call"),
    ("pure/game/src/storage.rs", "SCRIPT_BYTES_MAX", "objects that one call of a script reads"),
    ("pure/game/src/storage/list.rs", "LIST_LIMIT_MAX", "a page of storage"),
    ("pure/game/src/storage/list.rs", "PASSED_OVER_MAX", "objects that one page"),
    ("pure/game/src/value.rs", "DEPTH_MAX", "depth of JSON"),
    ("pure/game/src/value.rs", "TABLE_DEPTH_MAX", "depth of JSON"),
    ("pure/game/src/db.rs", "TRIES_MAX", "tries of a call, or of a function"),
    ("pure/game/src/wallet.rs", "LEDGER_BYTES_MAX", "a row of the wallet ledger"),
    ("pure/game/src/wallet.rs", "WALLET_BYTES_MAX", "a wallet"),
    ("pure/game/src/wallet.rs", "WALLET_ENTRIES_MAX", "a wallet"),
    ("pure/game/src/wallet.rs", "WALLET_UPDATES_MAX", "wallet changes, accounts"),
    ("pure/game/src/wallet/ledger.rs", "LEDGER_LIMIT_MAX", "a page of storage"),
    ("pure/reactor/src/fair.rs", "EARLY_MAX", "turns of a core in a row that end early"),
    (
        "pure/server/src/core/backlog.rs",
        "HANDLED_PER_TURN_MAX",
        "requests or messages of one connection",
    ),
    ("pure/server/src/core/backlog.rs", "HELD_BYTES_MAX", "bytes behind a request"),
    (
        "pure/server/src/core/backlog.rs",
        "SOCKET_UNTAKEN_BYTES_MAX",
        "unsent answers to messages of a socket",
    ),
    ("pure/server/src/core/backlog.rs", "UNTAKEN_BYTES_MAX", "unsent bytes of an HTTP connection"),
    (
        "pure/server/src/core/datagrams/peer.rs",
        "STRANGE_PER_S_MAX",
        "datagrams in a second that name a session",
    ),
    (
        "pure/server/src/core/datagrams/peer.rs",
        "OWN_PER_S_MAX",
        "datagrams in a second that name a session",
    ),
    ("pure/wire/src/datagram.rs", "BYTES_MAX", "a datagram of a session"),
    ("pure/wire/src/datagram/message.rs", "DATA_BYTES_MAX", "a datagram of a session"),
    ("pure/server/src/core/callers.rs", "AHEAD_MAX", "calls at one caller"),
    ("pure/server/src/core/callers.rs", "AHEAD_US_MAX", "calls at one caller"),
    (
        "pure/server/src/core/limits.rs",
        "REFUSED_CONNECTIONS_MAX",
        "open connections of an address that",
    ),
    ("pure/server/src/core/messages.rs", "STATUS_CHARS_MAX", "a status"),
    ("pure/server/src/core/socket.rs", "NEWS_HELD_MAX", "news of users behind the answer"),
    ("pure/server/src/resources.rs", "CUT_OFF_PER_CALL_MAX", "sessions, tokens and users"),
    ("pure/server/src/resources.rs", "EVENTS_PER_CALL_MAX", "events of one call"),
    ("pure/server/src/resources.rs", "EVENT_BYTES_PER_CALL_MAX", "events of one call"),
    ("pure/server/src/resources.rs", "LOG_LINE_BYTES_MAX", "log lines of the scripts"),
    ("pure/server/src/resources.rs", "NOTIFIED_BYTES_PER_CALL_MAX", "notifications of one call"),
    ("pure/server/src/resources.rs", "NOTIFIED_PER_CALL_MAX", "notifications of one call"),
    ("pure/server/src/resources.rs", "STREAM_BYTES_PER_CALL_MAX", "stream functions of one call"),
    ("pure/server/src/resources.rs", "STREAM_CALLS_PER_CALL_MAX", "stream functions of one call"),
    ("pure/game/src/stream.rs", "STREAM_LABEL_BYTES_MAX", "a stream of a script"),
    ("pure/game/src/stream.rs", "STREAM_STATUS_BYTES_MAX", "a stream of a script"),
    ("pure/server/src/retry_queue.rs", "RETRIES_MAX", "mail that a full mailbox"),
    ("pure/event/src/attempts.rs", "REMEMBERED_MAX", "accounts and addresses with wrong"),
    ("pure/server/src/gate/letter.rs", "LETTER_BYTES_MAX", "a letter of mail for another node"),
    ("pure/server/src/loader.rs", "NAMED_MAX", "older versions of the modules"),
    ("pure/server/src/loader.rs", "OLDER_VERSIONS_MAX", "older versions of the modules"),
    ("pure/server/src/loader.rs", "WAITERS_MAX", "requests that wait for one loading"),
    ("pure/server/src/loader/renewals.rs", "PAUSE_MS_MAX", "how often the VM of the batch"),
    ("pure/server/src/loader/renewals.rs", "RETRY_MS_MAX", "how often the VM of the batch"),
    ("pure/server/src/room.rs", "HOLDERS_NAMED_MAX", "older versions of the modules"),
    ("pure/server/src/core/callers.rs", "COMPANION_CALLS_MAX", "RPCs that one core has on its own"),
    (
        "pure/server/src/core/callers.rs",
        "COMPANION_CALLS_OF_ONE_MAX",
        "RPCs that one core has on its own",
    ),
    ("pure/server/src/limits/groups.rs", "GROUPS_MAX", "users and addresses that are counted"),
    ("pure/server/src/frames.rs", "PRESENCES_PER_EVENT_MAX", "presences in one presence event"),
    ("pure/server/src/room/asks.rs", "CHASE_MAX", "matches, each waiting for the next one"),
    ("pure/game/src/guest.rs", "LABEL_BYTES_MAX", "label of a match"),
    ("pure/server/src/room/authoritative.rs", "TICK_RATE_HZ_MAX", "ticks of a match"),
    ("pure/server/src/room/host.rs", "BROADCASTS_PER_CALLBACK_MAX", "broadcasts per callback"),
    ("pure/server/src/room/status.rs", "FOLLOWS_MAX", "users that a session follows"),
    ("edge/store/src/group.rs", "HELD_MAX", "time that what scripts' calls have written waits"),
    ("pure/server/src/worker.rs", "PARKED_NS_MAX", "answers of calls that wrote"),
    ("pure/server/src/worker/companion.rs", "SLICES_MAX", "time of an RPC on the thread of a core"),
    ("pure/server/src/worker/events.rs", "BYTES_MAX", "events that wait"),
    ("pure/server/src/resources.rs", "ERROR_BYTES_MAX", "text of a script's error"),
    ("pure/server/src/worker/rules.rs", "WAITING_MAX", "questions to a rule of the zone"),
    ("pure/server/src/worker/queues.rs", "BATCH_CALLS_MAX", "calls in one transaction"),
    ("pure/server/src/worker/queues.rs", "BATCH_MS_MAX", "calls in one transaction"),
    (
        "pure/server/src/worker/waiting.rs",
        "PIECES_MS_MAX",
        "calls of one thread's scripts that wait",
    ),
    (
        "pure/server/src/zone/refusal.rs",
        "INPUTS_PER_TICK_MAX",
        "packets of a client that the zone heeds",
    ),
    ("pure/server/src/zone/feed.rs", "WAITING_MAX", "news of the zone"),
    ("pure/server/src/zone/home/rules.rs", "POINTS_MAX", "points that a rule of the zone"),
    ("pure/server/src/zone/rules.rs", "HITS_MAX", "pilots, hits and kills"),
    ("pure/server/src/zone/rules.rs", "KILLS_ASKED_MAX", "pilots, hits and kills"),
    ("pure/server/src/zone/rules.rs", "KILLS_WAITING_MAX", "pilots, hits and kills"),
    ("pure/server/src/zone/rules.rs", "PILOTS_ASKED_MAX", "pilots, hits and kills"),
    ("pure/server/src/zone/rules.rs", "PILOTS_WAITING_MAX", "pilots, hits and kills"),
    ("pure/server/src/zone/rules.rs", "REST_DOUBLED_MAX", "questions to a rule of the zone"),
    ("pure/server/src/zone/saving.rs", "EVENTS_MAX", "what has happened in the zone"),
    ("pure/server/src/zone/saving.rs", "LOST_DOUBLED_MAX", "writes of the zone"),
    ("pure/world/src/controls.rs", "UNACKNOWLEDGED_MAX", "controls of a ship that wait"),
    ("pure/world/src/entity.rs", "CONTROLS_MAX", "controls of a ship that wait"),
    ("pure/world/src/ids.rs", "SLOTS_MAX", "ships in the zone"),
    ("pure/world/src/interest.rs", "KNOWN_MAX", "bytes of a snapshot; ships that a client knows"),
    (
        "pure/world/src/interest.rs",
        "RADIUS_BINS_MAX",
        "bytes of a snapshot; ships that a client knows",
    ),
    (
        "pure/world/src/interest.rs",
        "SUMMARIES_MAX",
        "bytes of a snapshot; ships that a client knows",
    ),
    ("pure/world/src/news.rs", "KILLS_MAX", "news of the zone"),
    ("pure/world/src/news.rs", "TEXT_BYTES_MAX", "news of the zone"),
    ("pure/world/src/space.rs", "BINS_MAX", "side of the zone; cells"),
    ("pure/world/src/tree.rs", "CELLS_MAX", "side of the zone; cells"),
    ("pure/wire/src/excerpt.rs", "EXCERPT_CHARS_MAX", "what an error quotes"),
    ("pure/wire/src/excerpt.rs", "REASON_CHARS_MAX", "what an error quotes"),
    ("pure/wire/src/http1.rs", "BLANK_LINES_MAX", "empty lines before"),
    ("pure/wire/src/http1.rs", "HEADERS_MAX", "head of an HTTP request"),
    ("pure/wire/src/http1/chunked.rs", "SIZE_DIGITS_MAX", "digits of a chunk's size"),
    ("pure/wire/src/query.rs", "QUERY_PAIRS_MAX", "pairs in the query"),
    ("pure/wire/src/websocket.rs", "CONTROL_BYTES_MAX", "a control frame"),
    ("pure/wire/src/excerpt.rs", "EXCERPT_CHARS_MAX", "what an error quotes"),
    ("pure/wire/src/excerpt.rs", "REASON_CHARS_MAX", "what an error quotes"),
];

/// Bounds that have no row, and why: nothing of anybody's is refused, lost or delayed by them.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("edge/engine/src/datagram/mod.rs", "BATCH_MAX", "the rest is taken with the next call"),
    ("edge/engine/src/datagram/mod.rs", "DATAGRAM_BYTES_MAX", "the protocol's own"),
    ("edge/engine/src/datagram/ring.rs", "GATHERED_MAX", "the rest is taken with the next call"),
    ("edge/engine/src/datagram/ring.rs", "ROUNDS_MAX", "rounds of clearing up at the end"),
    ("edge/engine/src/datagram/send.rs", "SEGMENTS_MAX", "the rest is sent with the next call"),
    ("pure/reactor/src/datagrams.rs", "BUNDLE_BYTES_MAX", "the rest is sent with the next piece"),
    ("pure/reactor/src/datagrams.rs", "BUNDLE_MAX", "the rest is sent with the next piece"),
    ("pure/reactor/src/datagrams.rs", "KEPT_BYTES_MAX", "a buffer kept to be used again"),
    ("edge/engine/src/datagram/xdp.rs", "PACKET_BYTES_MAX", "larger ones are refused at the start"),
    ("edge/host/src/child.rs", "SPEC_BYTES_MAX", "between the daemon and its own process"),
    ("edge/host/src/process.rs", "PROCESSES_MAX", "as many as the kernel has numbers for"),
    ("edge/host/src/process.rs", "VARIABLES_BYTES_MAX", "as much as execve(2) takes"),
    ("edge/host/src/groups.rs", "REMOVALS_MAX", "tries to remove a group that is ending"),
    ("edge/engine/src/poll.rs", "ACCEPTS_PER_TURN_MAX", "the rest is taken in the next turn"),
    ("edge/engine/src/poll.rs", "SLICES_MAX", "the rest is sent in the next turn"),
    (
        "edge/engine/src/uring/buffers.rs",
        "COUNT_MAX",
        "the kernel's own, for what the engine asks for",
    ),
    ("edge/engine/src/uring/mod.rs", "GATHERED_MAX", "the rest is sent in the next turn"),
    ("edge/engine/src/uring/mod.rs", "ROUNDS_MAX", "rounds of clearing up at the end of a thread"),
    ("edge/script/src/match_values.rs", "KEPT_BYTES_MAX", "a buffer kept to be used again"),
    ("edge/script/src/dialect/names.rs", "CALLS_MAX", "names kept for the text of an error"),
    ("edge/script/src/dialect/names.rs", "PATH_MAX", "names kept for the text of an error"),
    (
        "edge/script/src/dialect/reads.rs",
        "MEMBERS_MAX",
        "with more of them an argument is made whole",
    ),
    ("edge/script/src/dialect/random.rs", "STEPS_MAX", "programs of a test"),
    ("edge/script/src/failure.rs", "FRAMES_MAX", "lines of a traceback"),
    ("edge/script/src/lint.rs", "PLACES_NAMED_MAX", "places that one warning names"),
    ("edge/script/src/sources.rs", "OTHERS_NAMED_MAX", "files that one warning names"),
    ("edge/script/src/pieces.rs", "IDLE_MAX", "coroutines kept to be used again"),
    ("edge/store/src/check.rs", "FINDINGS_MAX", "findings that one error names"),
    ("edge/store/src/guest.rs", "KEPT_SQL_BYTES_MAX", "longer statements are compiled each time"),
    ("edge/store/src/checkpoint.rs", "LOG_PAGES_MAX", "in the table, as a multiple"),
    ("edge/store/src/guest.rs", "STATEMENTS_MAX", "compiled statements kept to be used again"),
    ("edge/store/src/open.rs", "STATEMENTS_MAX", "compiled statements kept to be used again"),
    ("edge/throng/src/echo.rs", "DATAGRAM_BYTES_MAX", "the protocol's own"),
    ("edge/throng/src/echo.rs", "MESSAGE_BYTES_MAX", "of `throng echo`, which serves no game"),
    ("edge/throng/src/compare.rs", "DEPTH_MAX", "of `throng compare`"),
    ("edge/throng/src/compare.rs", "ENTRIES_MAX", "of `throng compare`"),
    ("edge/throng/src/compare.rs", "RESULTS_MAX", "of `throng compare`"),
    ("edge/throng/src/compare/rounds.rs", "END_MAX", "of `throng compare`"),
    ("pure/event/src/output.rs", "ARENA_KEPT_BYTES_MAX", "a buffer kept to be used again"),
    ("pure/game/src/api/route.rs", "SEGMENTS_MAX", "no route has more"),
    ("pure/game/src/fetch.rs", "HOST_SHOWN_MAX", "characters of a host that a log line shows"),
    ("pure/server/src/worker/weight.rs", "ROUNDS_MAX", "looks again at what waiting calls hold"),
    (
        "pure/game/src/host/accounts.rs",
        "RANDOM_DRAWS_MAX",
        "places to read from, drawn by the server",
    ),
    (
        "pure/game/src/storage/write.rs",
        "LOOKS_MAX",
        "then the call is tried again, as the table says",
    ),
    ("pure/game/src/host/cron.rs", "DAYS_MAX", "no schedule goes further"),
    ("pure/game/src/node.rs", "NODES_MAX", "a number of a byte; more are refused at the start"),
    ("pure/server/src/echo.rs", "ROOM_MESSAGE_BYTES_MAX", "told by the close frame; echo only"),
    ("pure/server/src/echo.rs", "SAID_BYTES_MAX", "then it is sent; none is lost"),
    (
        "pure/server/src/room.rs",
        "PAGES_UNSEEN_MAX",
        "then those who keep replicas are woken; none is lost",
    ),
    ("pure/world/src/cell.rs", "AHEAD_TICKS_MAX", "cells wait for each other, by one tick"),
    ("pure/world/src/entity.rs", "SPEED_MAX", "a rule of the world"),
    ("pure/world/src/overload.rs", "HALVINGS_MAX", "steps of what is done about load, not a queue"),
    (
        "pure/world/src/overload.rs",
        "PATIENCE_US_MAX",
        "the row of what a tick of the zone may cost has it",
    ),
    (
        "pure/server/src/zone/home/load.rs",
        "LATE_TICKS_MAX",
        "how much a late tick counts, of what is done about load",
    ),
    ("pure/world/src/packet.rs", "AGE_MAX", "a form of packets; what is older is told in full"),
    ("pure/world/src/packet.rs", "RECORD_BYTES_MAX", "as many as the form of a record has"),
    ("pure/wire/src/nearest.rs", "NAME_BYTES_MAX", "for a longer name no other is proposed"),
    ("pure/reactor/src/outgoing.rs", "PINNED_MAX", "the rest is sent in the next turn"),
    ("pure/reactor/src/outgoing.rs", "POOLED_BYTES_MAX", "buffers kept to be used again"),
    ("pure/reactor/src/outgoing.rs", "POOLED_MAX", "buffers kept to be used again"),
    ("pure/reactor/src/outgoing.rs", "SEGMENT_BYTES_MAX", "how output is cut into pieces"),
    ("pure/reactor/src/reactor.rs", "HELD_PIECES_MAX", "the rest is told in the next turn"),
    (
        "pure/reactor/src/stop.rs",
        "ABORTING_MS_MAX",
        "a wait at the end of a thread, for the kernel",
    ),
    (
        "pure/server/src/core/backlog.rs",
        "RESUMED_PER_TURN_MAX",
        "the rest goes on in the next turn",
    ),
    (
        "pure/server/src/worker/turns.rs",
        "LEAD_MS_MAX",
        "how far one kind of work may be ahead of the other",
    ),
    ("pure/server/src/limits/groups.rs", "FAST_CALLS_MAX", "how long a user counts as quick"),
    ("pure/server/src/limits/groups.rs", "SHORT_US_MAX", "what counts as short"),
    ("pure/server/src/limits/groups.rs", "LONG_KEPT_MS_MAX", "how long a slow call is remembered"),
    ("pure/server/src/limits/groups.rs", "FAST_MS_MAX", "what counts as quick"),
    ("pure/server/src/limits/groups.rs", "FAST_NS_MAX", "the same in nanoseconds"),
    ("pure/server/src/lister.rs", "CHEAP_IN_A_ROW_MAX", "an order of turns"),
    ("pure/server/src/lister.rs", "CHEAP_QUERY_BYTES_MAX", "an order of turns"),
    ("pure/server/src/worker/queues.rs", "UNSORTED_MAX", "from here on calls are sorted"),
    ("pure/wire/src/datagram.rs", "BODY_BYTES_MAX", "of a datagram, without its head and tag"),
    ("pure/wire/src/date.rs", "RFC3339_S_MAX", "the last second of the year 9999"),
    (
        "pure/wire/src/http2/connection.rs",
        "RESETS_MAX",
        "older ones are told again that they ended",
    ),
    ("pure/wire/src/http2/connection.rs", "WINDOW_BYTES_MAX", "the standard's"),
    ("pure/wire/src/http2/frame.rs", "PAYLOAD_BYTES_MAX", "the standard's, unless announced"),
    ("pure/wire/src/http2/frame.rs", "TEXT_BYTES_MAX", "the server's own text"),
    ("pure/wire/src/http2/hpack.rs", "NUMBER_BYTES_MAX", "the digits of a number of 28 bits"),
    ("pure/wire/src/nakama/number.rs", "DIGITS_MAX", "the digits of a number of 64 bits"),
    ("pure/wire/src/websocket/decode.rs", "BYTES_MAX", "the largest that can be configured"),
];

/// Every `…_MAX` of the server is told on the page, or has a reason.
pub(super) fn bounds(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let firsts: Vec<&str> = rows(page).map(|(_, cells)| cells[0]).collect();
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for (path, name, row) in ROWS {
        known.insert((*path, *name));
        if !firsts.iter().any(|first| first.starts_with(row)) {
            found.push(finding(PAGE, format!("no row `{row}…`, which tells of {name} in {path}")));
        }
    }
    known.extend(EXCEPTIONS.iter().map(|(path, name, _)| (*path, *name)));
    let there: BTreeSet<(&str, &str)> = tree.files.iter().flat_map(constants).collect();
    for (path, name) in there.difference(&known) {
        let what = format!("{name} bounds something: a row in {PAGE}, or a reason in xtask's list");
        found.push(finding(path, what));
    }
    if tree.crates.len() > 1 {
        for (path, name) in known.difference(&there) {
            found.push(finding(path, format!("{name} is in xtask's list and not there")));
        }
    }
    found
}

/// Names of constants that end in `_MAX`, tests' own left out.
fn constants(file: &File) -> Vec<(&str, &str)> {
    let path = file.path.as_str();
    let is_ours = FOLDERS.iter().any(|folder| path.starts_with(folder));
    if !is_ours || !path.contains("/src/") || path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let lines = file.text.lines().take_while(|line| !line.starts_with("mod tests {"));
    lines.filter_map(constant).map(|name| (path, name)).collect()
}

fn constant(line: &str) -> Option<&str> {
    let (visibility, rest) = line.trim_start().split_once("const ")?;
    let (name, _) = rest.split_once(':')?;
    let is_item = visibility.is_empty() || visibility.starts_with("pub");
    (is_item && name.ends_with("_MAX")).then_some(name)
}

/// Every row of the page names a counter, or says by [`REASONS`] why there is none.
pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let is_well = |cell: &str| cell.starts_with('`') || REASONS.contains(&cell);
    rows(page)
        .filter(|(_, cells)| !cells.last().is_some_and(|cell| is_well(cell)))
        .map(|(number, _)| {
            let what = format!("line {number}: name the counter, or one of {REASONS:?}");
            finding(PAGE, what)
        })
        .collect()
}

/// Rows below the heads of tables, in cells, with line numbers from 1.
fn rows(page: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let is_row = |line: &str| line.starts_with("| ") && !line.starts_with("| what |");
    (1..).zip(page.lines()).filter(move |(_, line)| is_row(line)).map(|(number, line)| {
        (number, line.trim_matches('|').split(" | ").map(str::trim).collect())
    })
}

/// Where counters are declared, and where they are counted.
const COUNTERS: &[(&str, &[&str])] = &[
    ("pure/server/src/stats.rs", &["pure/server/src/"]),
    ("edge/store/src/stats.rs", &["edge/store/src/"]),
    ("pure/reactor/src/counters.rs", &["pure/reactor/src/", "edge/engine/src/"]),
];

/// Every counter that is declared is counted somewhere else.
pub(super) fn counted(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (declared, folders) in COUNTERS {
        let is_in = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
        let Some(text) = tree.text(declared) else { continue };
        let others: Vec<&File> =
            tree.files.iter().filter(|file| is_in(&file.path) && file.path != *declared).collect();
        for name in declarations(text) {
            let uses = [format!(".{name}"), format!("Count::{name}")];
            let is_used = |file: &&&File| uses.iter().any(|word| holds(&file.text, word));
            if !others.iter().any(|file| is_used(&file)) {
                found.push(finding(declared, format!("nothing counts `{name}`")));
            }
        }
    }
    found
}

/// The names in all `counters! {` of a file: the last word before a line's comma, or in the
/// engine's table the first word of a line.
fn declarations(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let mut names = Vec::new();
    for line in text.lines() {
        is_inside = (is_inside || line.starts_with("counters! {")) && line != "}";
        let line = line.trim();
        if !is_inside || line.starts_with("//") || !line.ends_with(',') {
            continue;
        }
        let is_table = line.contains('"');
        let name = if is_table {
            line.split(' ').next()
        } else {
            line.trim_end_matches(',').rsplit(' ').next()
        };
        names.extend(name);
    }
    names
}

/// Whether the word stands in the text and does not go on.
fn holds(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let after = text.get(at + word.len()..).and_then(|rest| rest.chars().next());
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn finding(place: &str, what: String) -> Finding {
    Finding { place: place.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn bounds_without_a_row_are_found() {
        let page = (PAGE, "| what | limit | counter |\n|---|---|---|\n");
        for (path, text, wrong) in [
            ("pure/new/src/a.rs", "pub(crate) const THINGS_MAX: usize = 3;", true),
            ("edge/engine/src/a.rs", "        const THINGS_MAX: usize = 3;", true),
            ("edge/lab/src/a.rs", "const THINGS_MAX: usize = 3;", false),
            ("pure/new/tests/a.rs", "const THINGS_MAX: usize = 3;", false),
            ("pure/new/src/a.rs", "const THINGS: usize = 3;", false),
            ("pure/new/src/a.rs", "mod tests {\n    const THINGS_MAX: usize = 3;", false),
        ] {
            let found = check(bounds, &[page, (path, text)]);
            let is_found = found.iter().any(|line| line.contains("THINGS_MAX bounds"));
            assert_eq!(is_found, wrong, "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn rows_without_a_counter_say_why() {
        for (cell, count) in [("`refused`", 0), ("– told", 0), ("–", 1), ("", 1), ("none", 1)] {
            let page = format!("| what | limit | counter |\n|---|---|---|\n| a | 1 | {cell} |\n");
            assert_eq!(check(reasons, &[(PAGE, &page)]).len(), count, "{cell}");
        }
    }

    #[test]
    fn counters_that_nothing_counts_are_found() {
        let stats = "counters! {\n    /// Of a core.\n    S {\n        /// A, b.\n        \
            counter seen,\n        gauge unseen,\n    }\n}\nfn x() {}\n";
        let engine = "counters! {\n    Seen 'c' \"seen\" \"a, b\",\n    Lost 'c' \"l\" \"l\",\n}\n";
        let files = [
            ("pure/server/src/stats.rs", stats),
            ("pure/server/src/core.rs", "self.stats.seen.up(); self.stats.unseen_too.up();"),
            ("pure/reactor/src/counters.rs", engine),
            ("pure/reactor/src/net.rs", "counters.add(Count::Seen, 1)"),
        ];
        let found = check(counted, &files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`unseen`") && found[1].contains("`Lost`"), "{found:?}");
    }
}
