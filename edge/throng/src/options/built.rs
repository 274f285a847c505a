//! The rows of the options that throng obeys, in the order in which they are printed.
//!
//! Names, defaults and meanings are Nakama's unless a row says otherwise. Source: the structs and
//! constructors of heroiclabs/nakama server/config.go, 3.40, and its published configuration page.

mod datagrams;
mod fetch;
mod limits;
mod world;

use super::{Default, Default::Fixed, Entry, Kind, Opt, Origin};

const YEAR_S_10: u64 = 315_360_000;
const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1 << 20;
const KEY: Kind = Kind::Text { min: 1, max: 256 };

/// A row with Nakama's meaning.
const fn row(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    let (default, origin) = (Fixed(default), Origin::Original);
    Opt { name, kind, default, origin, secret: false, short: None, help }
}

const fn number(min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Number { min, max, unit }
}

impl Opt {
    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn short(mut self, flag: &'static str) -> Self {
        self.short = Some(flag);
        self
    }

    const fn ours(mut self) -> Self {
        self.origin = Origin::Ours;
        self
    }

    const fn differs(mut self, how: &'static str) -> Self {
        self.origin = Origin::Differs(how);
        self
    }

    const fn per_cpu(mut self, rule: &'static str, count: fn(u64) -> u64) -> Self {
        self.default = Default::PerCpu { rule, count };
        self
    }
}

/// The options that throng obeys.
pub const BUILT: &[Opt] = &{
    const PARTS: [&[Opt]; 6] =
        [FIRST, limits::ROWS, ENGINE, fetch::ROWS, datagrams::ROWS, world::ROWS];
    const LEN: usize = FIRST.len()
        + limits::ROWS.len()
        + ENGINE.len()
        + fetch::ROWS.len()
        + datagrams::ROWS.len()
        + world::ROWS.len();
    let mut all = [FIRST[0]; LEN];
    let (mut at, mut part, mut index) = (0, 0, 0);
    while at < LEN {
        if index == PARTS[part].len() {
            (part, index) = (part + 1, 0);
        } else {
            all[at] = PARTS[part][index];
            (at, index) = (at + 1, index + 1);
        }
    }
    all
};

/// What comes before the limits.
const FIRST: &[Opt] = &[
    // The process.
    row(
        "name",
        Kind::Word { min: 1, max: 16, also: "-" },
        "nakama",
        "Name of this node. It is part of the ids of authoritative matches.",
    ),
    row(
        "data_dir",
        Kind::Path,
        "./data",
        "Folder that holds the database, and the modules unless `runtime.path` says \
         otherwise. It is made if it is missing.",
    ),
    row(
        "shutdown_grace_sec",
        number(0, 3600, "s"),
        "0",
        "How long matches may take to end after SIGTERM. 0 ends them at once. Five seconds later \
         the process ends whatever hangs, with code 3, and the log says what was lost.",
    ),
    // The database.
    row(
        "database.check",
        Kind::Choice(&["off", "quick", "full"]),
        "quick",
        "How thoroughly the database is checked before the server starts. `quick` reads every \
         page, about 3 s for a GB; `full` compares indexes with their tables as well, which takes \
         about twice that. A damaged database does not start.",
    )
    .ours(),
    // Logs.
    row(
        "logger.level",
        Kind::Choice(&["debug", "info", "warn", "error"]),
        "info",
        "The least important lines that are logged.",
    ),
    row(
        "logger.format",
        Kind::Choice(&["auto", "text", "json"]),
        "auto",
        "Form of the log lines. `auto` is `text` on a terminal and `json` elsewhere.",
    )
    .differs("Nakama's default is `json`, and it also knows `stackdriver`"),
    row("logger.stdout", Kind::Switch, "true", "Log to the standard output."),
    row(
        "logger.file",
        Kind::Path,
        "",
        "Also log to the end of this file, as JSON unless `logger.format` is `text`. \
         throng does not rotate it.",
    ),
    // Metrics.
    row(
        "metrics.prometheus_port",
        number(0, 65_535, ""),
        "0",
        "Port that serves metrics to Prometheus, under any path. 0 is off.",
    ),
    row("metrics.address", Kind::Address, "127.0.0.1", "Address of the metrics port.").ours(),
    row(
        "metrics.prefix",
        Kind::Word { min: 0, max: 64, also: "" },
        "nakama",
        "First part of the metrics' names, so that dashboards made for Nakama find \
         theirs.",
    ),
    row(
        "metrics.namespace",
        Kind::Text { min: 0, max: 64 },
        "",
        "Value of the label `namespace` of every metric. Empty leaves the label out.",
    ),
    row(
        "metrics.custom_prefix",
        Kind::Word { min: 1, max: 64, also: "" },
        "custom",
        "Comes before the names of scripts' own metrics (`nk.metrics_counter_add` and its \
         neighbours), behind `metrics.prefix`.",
    )
    .differs("it may not be empty: a script could take the name of one of the server's metrics"),
    row(
        "metrics.custom_scope_limit",
        number(1, 90_000, ""),
        "10000",
        "How many metrics scripts may have, each name with its tags counted. Values of more are \
         not kept; `custom_metrics_refused` counts them.",
    )
    .differs("in Nakama only sets of tags are counted, and 0 is no limit"),
    // Sessions.
    row(
        "session.encryption_key",
        KEY,
        "defaultencryptionkey",
        "Key that signs session tokens. Who knows it can act as any player.",
    )
    .secret(),
    row(
        "session.token_expiry_sec",
        number(1, YEAR_S_10, "s"),
        "60",
        "Life of a session token. Open sockets outlive it.",
    ),
    row(
        "session.refresh_encryption_key",
        KEY,
        "defaultrefreshencryptionkey",
        "Key that signs refresh tokens. It must differ from `session.encryption_key`.",
    )
    .secret(),
    row(
        "session.refresh_token_expiry_sec",
        number(1, YEAR_S_10, "s"),
        "3600",
        "Life of a refresh token.",
    ),
    row(
        "session.single_socket",
        Kind::Switch,
        "false",
        "A new socket of a user closes the user's older ones.",
    ),
    // Sockets.
    row(
        "socket.server_key",
        KEY,
        "defaultkey",
        "Key that clients show when they authenticate. It ships with the game, so it is \
         no secret for long.",
    )
    .secret(),
    row(
        "socket.port",
        number(0, 65_535, ""),
        "7350",
        "Port for HTTP and WebSocket. 0 lets the system choose; the start-up log names \
         the choice.",
    ),
    row(
        "socket.address",
        Kind::Address,
        "127.0.0.1",
        "Address to listen on. `0.0.0.0` is every IPv4 address of the machine, an empty \
         text every address.",
    )
    .differs("Nakama listens on every address by default"),
    row(
        "socket.grpc",
        Kind::Switch,
        "true",
        "Whether the API is served over gRPC as well, as Nakama always does: on `socket.address`, \
         at `socket.grpc_port`.",
    )
    .ours(),
    row(
        "socket.grpc_port",
        number(0, 65_535, ""),
        "0",
        "Port for gRPC. 0 is one below `socket.port`, where clients of Nakama look for it; if that \
         is 0 as well, the system chooses, and the start-up log names the choice.",
    )
    .ours(),
    row(
        "socket.max_message_size_bytes",
        number(128, 16 * MIB, "bytes"),
        "4096",
        "Largest WebSocket message from a client. A larger one closes the socket with \
         code 1009.",
    ),
    row(
        "socket.max_request_size_bytes",
        number(128, 64 * MIB, "bytes"),
        "262144",
        "Largest body of an HTTP request, and largest message over gRPC.",
    ),
    row(
        "socket.read_timeout_ms",
        number(10, HOUR_MS, "ms"),
        "10000",
        "Time for one HTTP request or WebSocket message to arrive in full.",
    )
    .differs("Nakama has no such limit for WebSocket messages"),
    row(
        "socket.write_timeout_ms",
        number(10, HOUR_MS, "ms"),
        "10000",
        "How long an HTTP client may take too little of its answer: less than an eighth of what \
         waits, less than 16 KiB and less than all. Then it is closed.",
    )
    .differs("Nakama allows this time for the whole answer"),
    row(
        "socket.write_wait_ms",
        number(10, HOUR_MS, "ms"),
        "5000",
        "The same for a WebSocket client.",
    ),
    row(
        "socket.idle_timeout_ms",
        number(10, 24 * HOUR_MS, "ms"),
        "60000",
        "How long a kept-alive HTTP connection may wait for its next request.",
    ),
    row(
        "socket.pong_wait_ms",
        number(20, 24 * HOUR_MS, "ms"),
        "25000",
        "A WebSocket from which nothing is heard for this long is closed. It must exceed \
         `socket.ping_period_ms`.",
    ),
    row(
        "socket.ping_period_ms",
        number(10, 24 * HOUR_MS, "ms"),
        "15000",
        "Time between the pings to a quiet WebSocket.",
    ),
    row(
        "socket.close_ack_wait_ms",
        number(10, HOUR_MS, "ms"),
        "2000",
        "How long a closing WebSocket waits for the client's close frame.",
    ),
    row(
        "socket.outgoing_queue_size",
        number(1, 65_536, "messages"),
        "64",
        "Messages that may wait for a client that does not read. A client that falls \
         further behind is closed and counted; a single message is sent however large.",
    )
    .differs(
        "it is a limit in bytes, of this many messages of the largest size; smaller ones may \
         be more",
    ),
    row(
        "socket.response_headers",
        Kind::List(Entry::Header),
        "",
        "Headers added to every HTTP answer that does not have them.",
    ),
    row(
        "socket.proxy_count",
        number(0, 16, "proxies"),
        "0",
        "Proxies in front of the server whose X-Forwarded-For is believed: that many entries, \
         counted from the right. 0 believes nobody, and the peer is the client.",
    )
    .ours(),
    // Scripts.
    row(
        "runtime.path",
        Kind::Path,
        "",
        "Folder of the modules, in Lua and WebAssembly, and of the JavaScript. Empty is `modules` in \
         `data_dir`.",
    ),
    row("runtime.env", Kind::List(Entry::Variable), "", "What scripts find in `context.env`.")
        .secret(),
    row(
        "runtime.http_key",
        KEY,
        "defaulthttpkey",
        "Key for server-to-server RPC calls. Who knows it can call every RPC without a user. For who \
         is slow all such calls of one address are those of one user, in `limit.exempt_addresses` too: if one \
         is slow, others of that address go one at a time for a few seconds.",
    )
    .secret(),
    row(
        "runtime.watch",
        Kind::Switch,
        "false",
        "Whether the modules are loaded again when files in `runtime.path` change and are quiet for half a \
         second. `--watch` is the same flag. For development: elsewhere a signal or a call says when all files \
         are there.",
    )
    .short("watch")
    .ours(),
    row(
        "runtime.reload_key",
        Kind::TextOrOff { min: 16, max: 256 },
        "",
        "Key with which `POST /v2/runtime/reload` loads the modules again, as a bearer token. Empty: nobody \
         can over HTTP.",
    )
    .secret()
    .ours(),
    row(
        "runtime.call_budget_ms",
        number(1, 600_000, "ms"),
        "1000",
        "Time that one RPC or hook may compute, and half the time that it may be blocked; waiting \
         for a processor does not count. Then it is stopped and the caller gets an error.",
    )
    .ours(),
    row(
        "runtime.load_budget_ms",
        number(1, 600_000, "ms"),
        "10000",
        "Time that all modules together may take to load, counted as above. Beyond, the start \
         fails and names the module.",
    )
    .ours(),
    row(
        "runtime.all_memory_max_bytes",
        number(0, 1024 * 1024 * MIB, "bytes"),
        "0",
        "Memory of all script states of the process together. At the limit no match is created, \
         and one that needs more than it has is ended. 0 is half of the memory of the machine, or \
         of the control group that the server runs in.",
    )
    .ours(),
    row(
        "runtime.log_lines_per_second_max",
        number(1, 1_000_000, "lines"),
        "1000",
        "Lines that the scripts of one thread may log in a second, `print` included; and as many \
         may be about functions and matches of scripts that have failed. What is more is dropped, \
         counted, and said once a second.",
    )
    .ours(),
    row(
        "runtime.call_wait_max_ms",
        number(1, 3_600_000, "ms"),
        "60000",
        "For how long one RPC, hook, event handler or callback of a match may wait, in all, for what \
         other threads or servers do for it, such as `nk.match_signal` and `nk.http_request`; that is not \
         counted as computing. Then it is ended, and the caller gets an error. With a callback ends \
         its match: its players' sockets are closed, and the reason is in the log.",
    )
    .ours(),
    row(
        "runtime.waiting_calls_max",
        number(1, 1_000_000, "calls"),
        "1024",
        "Calls of one worker's scripts that may wait at a time. What further ones ask is an error. \
         An eighth is kept for users and addresses of whom none waits there.",
    )
    .ours(),
    row(
        "runtime.waiting_calls_per_user",
        number(1, 1_000_000, "calls"),
        "16",
        "Of these, calls of one user or address.",
    )
    .ours(),
    row(
        "runtime.core_slice_us",
        number(0, 100_000, "µs"),
        "200",
        "For how long quick RPC functions and hooks of API calls in Lua and WebAssembly compute on a core's thread \
         before its sockets have their turn. A function of which a call needs more than four such times is run \
         elsewhere for a second, or a minute if it happens again; with 0 all are.",
    )
    .ours(),
    row(
        "runtime.batch_slice_us",
        number(0, 100_000, "µs"),
        "1000",
        "For how long an RPC function in Lua or WebAssembly that writes, and is known to be quick, may compute in the \
         transaction that it shares with calls of clients (about twice that where it is blocked); 1000 \
         is many times what such a call needs. One that needs more is undone, begins again by itself \
         with `runtime.call_budget_ms`, and its function stays out for a second, or a minute if it happens \
         again. 0 keeps all out: each then commits for itself.",
    )
    .ours(),
    row(
        "runtime.event_queue_size",
        number(1, 1_000_000, "events"),
        "65536",
        "Events that may wait for the handlers that scripts registered (`nk.register_event`), a 64th \
         of them of one user, and 64 MiB of them. Further ones are dropped and counted.",
    ),
    row(
        "runtime.memory_max_bytes",
        number(MIB, 64 * 1024 * MIB, "bytes"),
        "67108864",
        "Memory of one worker's script state. A call that needs more gets an error.",
    )
    .ours(),
    row(
        "runtime.sql_budget_ms",
        number(1, 600_000, "ms"),
        "500",
        "CPU time of one statement of a script (`sql_query`, `sql_exec`), in a match at most \
         `match.callback_budget_ms`, and while modules load `runtime.load_budget_ms`. Beyond, it \
         is stopped and the script gets an error.",
    )
    .ours(),
    row(
        "runtime.sql_write_budget_ms",
        number(1, 600_000, "ms"),
        "100",
        "How long one statement of a script may keep others from writing. Beyond, it is stopped, \
         nothing of it has happened, and the script gets an error.",
    )
    .ours(),
    row(
        "runtime.sql_rows_max",
        number(1, 10_000_000, "rows"),
        "10000",
        "Rows of the answer to one statement of a script. More are an error.",
    )
    .ours(),
    row(
        "runtime.sql_answer_max_bytes",
        number(1024, 1024 * MIB, "bytes"),
        "16777216",
        "Bytes of the answer to one statement of a script; every cell counts 64 beside its text. \
         More are an error.",
    )
    .ours(),
    row(
        "runtime.sql_value_max_bytes",
        number(1024, 512 * MIB, "bytes"),
        "1048576",
        "Bytes of one text, blob or row in a statement of a script. More are an error.",
    )
    .ours(),
    row(
        "runtime.sql_write_max_bytes",
        number(MIB, 64 * 1024 * MIB, "bytes"),
        "67108864",
        "Bytes that one statement of a script may write, to the database and to temporary files. \
         Beyond, it is stopped and nothing of it has happened.",
    )
    .ours(),
    row(
        "runtime.sql_write_own_tables",
        Kind::Switch,
        "false",
        "Let statements of scripts change the server's own tables, and read passwords. Otherwise \
         that is an error, and passwords read as NULL.",
    )
    .ours(),
    row(
        "runtime.js_entrypoint",
        Kind::Text { min: 0, max: 256 },
        "",
        "The one file of JavaScript below `runtime.path`; `index.js`, if there is one, when it is empty.",
    ),
    row(
        "runtime.lua_api_stacktrace",
        Kind::Switch,
        "false",
        "Tell clients file, line and traceback of a script's error. The log has file and line \
         always, the traceback with this.",
    ),
    row(
        "runtime.lua_insertion_order",
        Kind::Switch,
        "false",
        "Let `pairs` follow the order in which keys were first set, as in Nakama. Making tables \
         then costs more.",
    )
    .ours(),
    // Matches.
    row(
        "match.input_queue_size",
        number(1, 65_536, "messages"),
        "128",
        "Messages to a match that may wait for its next tick. More are dropped and \
         counted.",
    ),
    row(
        "match.join_attempt_queue_size",
        number(1, 65_536, "joins"),
        "128",
        "Players who want to join a match and wait because one of its callbacks does. One more is \
         refused.",
    ),
    row(
        "match.signal_queue_size",
        number(1, 65_536, "signals"),
        "10",
        "Signals to a match that wait because one of its callbacks does. One more is an error to \
         the script that sends it: `match busy`.",
    ),
    row(
        "match.deferred_queue_size",
        number(1, 65_536, "messages"),
        "128",
        "Deferred broadcasts in one tick of a match. One more is an error to the script.",
    ),
    row(
        "match.broadcast_bytes_max",
        number(64 * 1024, 1024 * MIB, "bytes"),
        "16777216",
        "Payloads of all messages that one callback of a match sends. One more is an error to the \
         script: until the callback ends they wait in memory, in every form that clients speak.",
    )
    .ours(),
    row(
        "match.max_empty_sec",
        number(0, YEAR_S_10, "s"),
        "0",
        "A match that has been empty for this long is ended. 0 is never.",
    ),
    row(
        "match.matches_max",
        number(1, 1_000_000, "matches"),
        "10000",
        "Authoritative matches that run at once, in equal parts on each of `engine.rooms`. One \
         more is an error to the script that wants to make it.",
    )
    .ours(),
    row(
        "match.matches_per_user_max",
        number(1, 1_000_000, "matches"),
        "100",
        "Of these, matches that calls of one user made, in equal parts on each of `engine.rooms`; what \
         these matches make counts to the same user. One more is an error to the script. Calls by \
         `runtime.http_key`, and what the modules do by themselves, are bounded by `match.matches_max` \
         alone.",
    )
    .ours(),
    row(
        "match.matches_per_address_max",
        number(1, 1_000_000, "matches"),
        "1000",
        "The same for one address: of all its users, and of calls of who is no user yet, such as the \
         hooks of a login. `limit.exempt_addresses` have no such limit.",
    )
    .ours(),
    row(
        "match.list_steps_max",
        number(100_000, 1_000_000_000, "steps"),
        "10000000",
        "What one listing of matches may cost, in steps of very roughly a nanosecond: some 50 for \
         each term of its query and each match. A dearer one is refused with 429, or is an error in \
         the script.",
    )
    .ours(),
    row(
        "match.relayed_bytes_per_sec",
        number(1_024, 1 << 30, "bytes"),
        "65536",
        "What one member of a relayed match may send each second, and all together twice as much. \
         What is more reaches only the members who are not behind, so that a flood does not cut \
         off who reads slowly.",
    )
    .ours(),
    row(
        "match.created_per_call_max",
        number(1, 1_000_000, "matches"),
        "100",
        "Matches that one RPC, hook or callback of a match may create. One more is an error to the \
         script.",
    )
    .ours(),
    row(
        "match.descendants_max",
        number(1, 1_000_000, "matches"),
        "1000",
        "Matches that callbacks of one match, and of those that they make, may have running at once, in \
         equal parts on each of `engine.rooms`. One more is an error to the script.",
    )
    .ours(),
    row(
        "match.descendants_per_s",
        number(1, 1_000_000, "matches"),
        "100",
        "Of these, matches that one of `engine.rooms` makes in a second: to make one takes time from the \
         others of its room. One more is an error to the script.",
    )
    .ours(),
    row(
        "match.callback_budget_ms",
        number(1, 60_000, "ms"),
        "50",
        "Time that one callback of a match may compute, and half the time that it may be blocked: \
         it is what the other matches of its room wait. Then the match is ended and its players' \
         sockets are closed, with the reason in the log.",
    )
    .ours(),
    row(
        "match.memory_max_bytes",
        number(64 * 1024, 64 * 1024 * MIB, "bytes"),
        "16777216",
        "Memory of one match's script state. A match that needs more is ended as above.",
    )
    .ours(),
];

/// The engine.
const ENGINE: &[Opt] = &[
    row(
        "engine.driver",
        Kind::Choice(&["auto", "uring", "poll"]),
        "auto",
        "How the kernel is asked for I/O. `auto` takes io_uring where the kernel has what \
         it needs, else readiness polling; the start-up log says which and why.",
    )
    .ours(),
    row("engine.cores", number(1, 256, "threads"), "", "Threads that own the connections.")
        .ours()
        .per_cpu("half the CPUs, at least 1", |cpus| (cpus / 2).max(1)),
    row("engine.rooms", number(1, 256, "threads"), "", "Threads that run the matches.")
        .ours()
        .per_cpu("a quarter of the CPUs, at least 1", |cpus| (cpus / 4).max(1)),
    row(
        "engine.workers",
        number(1, 256, "threads"),
        "2",
        "Threads that run RPC functions and hooks. Slow calls of one user keep at most half of them \
         from others, and of all users together all but one, which stays for functions that are known to be \
         quick: a call of one that is not known yet waits for one slow call at most.",
    )
    .ours(),
    row(
        "engine.pin",
        Kind::Switch,
        "false",
        "Bind each connection thread to a CPU of its own. For machines that run nothing \
         else.",
    )
    .ours(),
    row(
        "engine.connections_max",
        number(1, 16_000_000, "connections"),
        "100000",
        "Connections at one time. More are closed at once, and counted.",
    )
    .ours(),
];
