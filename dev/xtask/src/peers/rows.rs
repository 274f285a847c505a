//! What is measured beside others: the load of each row and throng's own command. Data only.

/// What a server must be to take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `GET /plaintext` by the TechEmpower rules.
    Http,
    /// A WebSocket that sends every message back.
    WebSocket,
    /// A WebSocket, at `/room`, that sends every message to all that are there.
    Room,
    /// The Nakama client protocol, with the modules of `scenarios/`.
    Nakama,
}

impl Group {
    /// The word for it in a file of peers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Room => "room",
            Self::Nakama => "nakama",
        }
    }
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations per CPU-second of the server: how much.
    PerCpuSecond,
    /// Times at a rate that both hold: how slow.
    Time,
}

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name on the command line and in the records.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// Who can take part.
    pub group: Group,
    /// What it is about.
    pub figure: Figure,
    /// What follows `throng load`.
    pub load: &'static [&'static str],
    /// Seconds that are counted.
    pub counted_s: u32,
    /// Seconds before that, in which players come; 0: as fast as they are taken.
    pub ramp_s: u32,
    /// Whether one round is enough unless more are asked for, because it takes minutes.
    pub is_long: bool,
    /// The folder of `scenarios` with the modules that throng runs.
    pub modules: &'static str,
}

const fn closed(
    name: &'static str,
    title: &'static str,
    group: Group,
    load: &'static [&'static str],
) -> Row {
    Row {
        name,
        title,
        group,
        figure: Figure::PerCpuSecond,
        load,
        counted_s: 5,
        ramp_s: 0,
        is_long: false,
        modules: "modules",
    }
}

const fn at_rate(name: &'static str, title: &'static str, load: &'static [&'static str]) -> Row {
    Row { figure: Figure::Time, counted_s: 20, ..closed(name, title, Group::Nakama, load) }
}

const fn of_modules(modules: &'static str, row: Row) -> Row {
    Row { modules, ..row }
}

/// All rows, in the order of the table.
pub const ROWS: &[Row] = &[
    closed(
        "plaintext-16",
        "plaintext, 16 in a pipeline, 64 connections",
        Group::Http,
        &["plaintext", "--saturate", "--pipeline", "16", "--players", "64"],
    ),
    closed(
        "plaintext-64",
        "plaintext, one at a time, 64 connections",
        Group::Http,
        &["plaintext", "--saturate", "--players", "64"],
    ),
    closed(
        "plaintext-512",
        "plaintext, one at a time, 512 connections",
        Group::Http,
        &["plaintext", "--saturate", "--players", "512"],
    ),
    closed(
        "ws-64",
        "WebSocket echo, 64 bytes, 64 connections",
        Group::WebSocket,
        &["ws-echo", "--saturate", "--players", "64"],
    ),
    closed(
        "ws-512",
        "WebSocket echo, 64 bytes, 512 connections",
        Group::WebSocket,
        &["ws-echo", "--saturate", "--players", "512"],
    ),
    closed(
        "room-1",
        "broadcast to 1,000 sockets, one publisher",
        Group::Room,
        &["ws-room", "--saturate"],
    ),
    closed(
        "room-8",
        "broadcast to 1,000 sockets, eight publishers",
        Group::Room,
        &["ws-room-8", "--saturate"],
    ),
    closed(
        "register-max",
        "register a device, durable, 64 connections",
        Group::Nakama,
        &["register", "--saturate", "--players", "64"],
    ),
    of_modules(
        "modules-hooked",
        closed(
            "register-hooked-max",
            "register a device, durable, with an empty after-hook in Lua, 64 connections",
            Group::Nakama,
            &["register", "--saturate", "--players", "64"],
        ),
    ),
    closed(
        "authenticate-max",
        "authenticate a device, 64 connections",
        Group::Nakama,
        &["authenticate", "--saturate", "--players", "64"],
    ),
    closed(
        "rpc-lua-max",
        "RPC echo in Lua over HTTP, 64 connections",
        Group::Nakama,
        &["rpc-lua", "--saturate", "--players", "64"],
    ),
    closed(
        "rpc-json-max",
        "RPC in Lua that decodes and encodes 100 bytes of JSON, 64 connections",
        Group::Nakama,
        &["rpc-json", "--saturate", "--players", "64"],
    ),
    closed(
        "rpc-write-max",
        "RPC in Lua that writes one object, durable, 64 connections",
        Group::Nakama,
        &["rpc-write", "--saturate", "--players", "64"],
    ),
    closed(
        "transfer-max",
        "transfers in Lua between any of 100,000 accounts, durable, 64 connections",
        Group::Nakama,
        &["transfer", "--saturate", "--players", "64"],
    ),
    closed(
        "transfer-zipf-max",
        "the same between accounts by Zipf's law, 1.5",
        Group::Nakama,
        &["transfer", "--saturate", "--players", "64", "--set", "skew=1.5"],
    ),
    closed(
        "transfer-ws-max",
        "the same between any accounts, called over 64 WebSockets",
        Group::Nakama,
        &["transfer-ws", "--saturate", "--players", "64"],
    ),
    of_modules(
        "modules-js",
        closed(
            "rpc-js-max",
            "RPC echo in JavaScript over HTTP, 64 connections",
            Group::Nakama,
            &["rpc-js", "--saturate", "--players", "64"],
        ),
    ),
    of_modules(
        "modules-go",
        closed(
            "rpc-go-max",
            "RPC echo in Go over HTTP, 64 connections",
            Group::Nakama,
            &["rpc-go", "--saturate", "--players", "64"],
        ),
    ),
    of_modules(
        "modules-js",
        closed(
            "rpc-json-js-max",
            "RPC in JavaScript that decodes and encodes 100 bytes of JSON, 64 connections",
            Group::Nakama,
            &["rpc-json", "--rpc", "echo_json_js", "--saturate", "--players", "64"],
        ),
    ),
    of_modules(
        "modules-go",
        closed(
            "rpc-json-go-max",
            "RPC in Go that decodes and encodes 100 bytes of JSON, 64 connections",
            Group::Nakama,
            &["rpc-json", "--rpc", "echo_json_go", "--saturate", "--players", "64"],
        ),
    ),
    Row {
        counted_s: 20,
        ramp_s: 5,
        ..closed(
            "match-max",
            "match messages delivered, 200 players × 20/s",
            Group::Nakama,
            &["match", "--players", "200", "--rate", "20"],
        )
    },
    at_rate("register", "2 register, 528/s", &["register", "--rate", "528"]),
    at_rate("authenticate", "3 authenticate, 531/s", &["authenticate", "--rate", "531"]),
    at_rate("rpc-lua", "4 RPC echo in Lua, 707/s", &["rpc-lua", "--rate", "707"]),
    of_modules(
        "modules-js",
        at_rate("rpc-js", "5 RPC echo in JavaScript, 707/s", &["rpc-js", "--rate", "707"]),
    ),
    of_modules(
        "modules-go",
        at_rate("rpc-go", "6 RPC echo in Go, 705/s", &["rpc-go", "--rate", "705"]),
    ),
    Row {
        counted_s: 180,
        ramp_s: 5,
        is_long: true,
        ..at_rate("match", "7 matches, 200 players: echo", &["match", "--players", "200"])
    },
    Row {
        counted_s: 200,
        ramp_s: 26,
        is_long: true,
        ..at_rate(
            "ccu",
            "1 sockets, 692/s: time to connect",
            &["ccu", "--players", "18000", "--ramp", "26s"],
        )
    },
];

#[cfg(test)]
mod tests {
    use super::ROWS;

    #[test]
    fn names_are_names_and_differ() {
        let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
