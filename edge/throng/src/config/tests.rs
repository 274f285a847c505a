//! Files and flags through the whole check, by data.

use std::path::Path;

use super::source::{Given, Problem, Source};
use super::*;
use crate::options::{Entry, UNBUILT};

fn flags(pairs: &[(&str, &str)]) -> Vec<Given> {
    let given = |(name, item): &(&str, &str)| Given {
        name: (*name).to_owned(),
        items: vec![(*item).to_owned()],
        from: Source::Flag,
    };
    pairs.iter().map(given).collect()
}

fn texts(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn wrong(pairs: &[(&str, &str)]) -> String {
    match Effective::resolve(flags(pairs), 4) {
        Ok(_) => "taken".to_owned(),
        Err(problems) => texts(&problems),
    }
}

fn config(pairs: &[(&str, &str)]) -> Config {
    match Effective::resolve(flags(pairs), 4) {
        Ok(values) => Config::new(&values),
        Err(problems) => panic!("{}", texts(&problems)),
    }
}

/// The entries of a file as `name=item,item @line`, or its problems.
fn file(text: &str) -> String {
    match yaml::parse(Path::new("a.yaml"), text) {
        Ok(given) => {
            let line = |g: &Given| format!("{}={} @{}", g.name, g.items.join(","), g.from);
            given.iter().map(line).collect::<Vec<_>>().join("\n").replace("a.yaml:", "")
        }
        Err(problems) => texts(&problems),
    }
}

#[test]
fn defaults_are_the_originals_save_the_address() {
    let config = config(&[]);
    let settings = config.settings();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7350");
    assert_eq!(config.grpc.map(|it| it.to_string()).as_deref(), Some("127.0.0.1:7349"));
    assert_eq!((settings.node.as_str(), settings.shutdown_grace_s), ("nakama", 0));
    assert_eq!(settings.session.token_expiry_s, 60);
    assert_eq!(settings.session.refresh_token_expiry_s, 3600);
    assert_eq!(settings.socket.server_key, "defaultkey");
    assert_eq!(settings.socket.message_bytes_max, 4096);
    assert_eq!(settings.socket.request_bytes_max, 262_144);
    assert_eq!((settings.socket.pong_wait_ms, settings.socket.ping_period_ms), (25_000, 15_000));
    assert_eq!(settings.runtime.http_key, "defaulthttpkey");
    assert_eq!((settings.runtime.reload_key.as_str(), config.runtime.watch), ("", false));
    assert_eq!(settings.matches.input_queue_size, 128);
    assert_eq!(config.runtime.path, Path::new("./data/modules"));
    assert!(!config.runtime.path_given);
    assert_eq!(config.metrics.listen, None);
    let engine = config.engine;
    assert_eq!((engine.cores, engine.rooms, engine.workers), (2, 1, 2));
}

#[test]
fn threads_follow_the_cpus() {
    for (cpus, cores, rooms) in [(0, 1, 1), (1, 1, 1), (2, 1, 1), (8, 4, 2), (100_000, 256, 256)] {
        let engine = Config::new(&Effective::resolve(Vec::new(), cpus).unwrap()).engine;
        assert_eq!((engine.cores, engine.rooms), (cores, rooms), "{cpus} CPUs");
    }
}

#[test]
fn every_row_of_the_table_is_taken_by_a_field() {
    // Each option, changed alone, must change something that the wiring can see.
    let picture = |values: &Effective| {
        let c = Config::new(values);
        let settings = c.settings();
        format!(
            "{settings:?} {} {} {:?} {:?} {:?} {:?} {} {:?} {:?} {:?} {:?} {:?}",
            settings.session.encryption_key,
            settings.session.refresh_encryption_key,
            c.data_dir,
            c.logger,
            c.metrics,
            (c.listen, c.grpc),
            c.runtime.path.display(),
            (c.runtime.call_budget_ms, c.runtime.load_budget_ms, c.runtime.stacktrace),
            (c.runtime.js_entrypoint, c.runtime.watch),
            c.matches,
            (c.runtime.memory_bytes_max, c.runtime.all_memory_bytes_max, c.runtime.sql, c.check),
            (c.engine, c.write_timeout_ms, c.runtime.insertion_order, c.fetch, c.datagrams),
        )
    };
    for opt in BUILT {
        let other = match (opt.name, opt.kind) {
            // Taken only together with the port.
            ("metrics.address", _) => "::1",
            ("world.enabled" | "datagram.enabled", _) => "false",
            ("world.tick_rate_hz", _) => "30",
            ("datagram.idle_ms", _) => "3000",
            (_, Kind::Number { max, .. }) if opt.name == "socket.ping_period_ms" => {
                let _ = max;
                "11"
            }
            (_, Kind::Number { .. }) => match opt.default {
                Default::Fixed("64") => "65",
                Default::Fixed("4096") => "4097",
                Default::Fixed("10000000") => "9000000",
                Default::Fixed("67108864" | "16777216" | "4194304" | "268435456" | "1048576") => {
                    "33554432"
                }
                Default::Fixed("65536") => "131072",
                _ => "249",
            },
            (_, Kind::Switch) if matches!(opt.default, Default::Fixed("true")) => "false",
            (_, Kind::Switch) => "true",
            (_, Kind::Choice(words)) => words[words.len() - 1],
            (_, Kind::Address) => "10.0.0.1",
            (_, Kind::Host) => "game.example",
            (_, Kind::List(Entry::Network)) => "10.0.0.0/8",
            (_, Kind::List(Entry::Host)) => "example.com",
            (_, Kind::List(_)) => "A=b",
            (_, Kind::TextOrOff { .. }) => "a text that is long enough",
            _ => "other",
        };
        let other = if opt.name == "socket.pong_wait_ms" { "26000" } else { other };
        let other = if opt.name == "socket.proxy_count" { "2" } else { other };
        let base = [
            ("metrics.prometheus_port", "9100"),
            ("logger.file", "x"),
            ("world.enabled", "true"),
            ("datagram.enabled", "true"),
        ];
        let before = Effective::resolve(flags(&base), 4).unwrap();
        let mut changed = flags(&base);
        changed.extend(flags(&[(opt.name, other)]));
        let after = match Effective::resolve(changed, 4) {
            Ok(after) => after,
            Err(problems) => panic!("{}: {}", opt.name, texts(&problems)),
        };
        assert_ne!(picture(&before), picture(&after), "`{}` changes nothing", opt.name);
    }
}

#[test]
fn values_are_checked() {
    for (name, item, message) in [
        ("socket.port", "65535", "taken"),
        ("socket.port", "0", "taken"),
        ("socket.port", "65536", "`socket.port` (command line): 65536 is out of range: 0 to 65535"),
        ("socket.port", "-1", "must be a whole number from 0 to 65535"),
        ("socket.port", "+1", "must be a whole number"),
        ("socket.port", "", "must be a whole number"),
        ("socket.port", "1.5", "must be a whole number"),
        ("socket.port", "99999999999999999999999", "out of range"),
        ("session.token_expiry_sec", "0", "0 is out of range: 1 to 315360000 s"),
        ("session.single_socket", "T", "taken"),
        ("session.single_socket", "yes", "must be true or false"),
        ("name", "", "has 0 bytes; 1 to 16 are allowed"),
        ("name", "abcdefghijklmnopq", "has 17 bytes"),
        ("name", "a.b", "may hold ASCII letters, digits, `_`, `-` only"),
        ("logger.level", "WARN", "taken"),
        ("logger.level", "loud", "must be one of debug, info, warn, error"),
        ("logger.format", "stackdriver", "must be one of auto, text, json"),
        ("engine.driver", "epoll", "must be one of auto, uring, poll"),
        ("socket.address", "::1", "taken"),
        ("socket.address", "[::1]", "taken"),
        ("socket.address", "localhost", "taken"),
        ("socket.address", "", "taken"),
        ("socket.address", "game.example", "must be an IP address such as 127.0.0.1"),
        ("socket.address", "127.0.0.1:7350", "must be an IP address"),
        ("socket.server_key", "a\nb", "holds a control character"),
        ("runtime.reload_key", "", "taken"),
        ("runtime.reload_key", "0123456789abcdef", "taken"),
        ("runtime.reload_key", "0123456789abcde", "has 15 bytes; 16 to 256 are allowed"),
        ("runtime.watch", "often", "must be true or false"),
        ("datagram.public_address", "", "taken"),
        ("datagram.public_address", "game-1.example", "taken"),
        ("datagram.public_address", "203.0.113.7", "taken"),
        ("datagram.public_address", "2001:db8::7", "taken"),
        ("datagram.public_address", "localhost", "taken"),
        ("datagram.public_address", "0.0.0.0", "an IP address or a host's name"),
        ("datagram.public_address", "::", "an IP address or a host's name"),
        ("datagram.public_address", "game.example:7352", "an IP address or a host's name"),
        ("datagram.public_address", "[2001:db8::7]", "an IP address or a host's name"),
        ("datagram.public_address", "203.0.113.700", "an IP address or a host's name"),
        ("datagram.public_address", "game example", "without a port"),
        ("datagram.public_address", "-game.example", "an IP address or a host's name"),
        ("datagram.public_address", "udp://game.example", "an IP address or a host's name"),
        ("datagram.public_address", "game.example.", "an IP address or a host's name"),
        ("runtime.env", "A=b=c", "taken"),
        ("runtime.env", "=b", "entry 1 must have the form KEY=value"),
        ("runtime.env", "hush", "entry 1 must have the form KEY=value"),
        ("socket.response_headers", "X-Game=1", "taken"),
        ("socket.response_headers", "X Game=1", "entry 1 is not fit for an HTTP header"),
        ("socket.response_headers", "X=1\r\nY: 2", "entry 1 is not fit"),
        ("socket.response_headers", "Content-Length=5", "which only the server sets"),
    ] {
        let found = wrong(&[(name, item)]);
        assert!(found.contains(message), "{name} {item:?}: {found}");
    }
}

#[test]
fn error_texts_hold_no_secrets() {
    let long = "hush".repeat(2000);
    for name in [
        "socket.server_key",
        "session.encryption_key",
        "runtime.http_key",
        "runtime.env",
        "runtime.reload_key",
    ] {
        for item in [long.as_str(), "hush\u{1}", "hush"] {
            assert!(!wrong(&[(name, item)]).contains("hush"), "{name}");
        }
    }
}

#[test]
fn contradictions_name_both_sides() {
    for (pairs, message) in [
        (
            &[("session.encryption_key", "x"), ("session.refresh_encryption_key", "x")][..],
            "`session.encryption_key` (command line) and `session.refresh_encryption_key` \
             (command line): the two keys must differ",
        ),
        (
            &[("socket.ping_period_ms", "25000")],
            "`socket.pong_wait_ms` (default) and `socket.ping_period_ms` (command line): the first \
             must be greater",
        ),
        (&[("socket.pong_wait_ms", "14999")], "must be greater than the second"),
        (&[("metrics.prometheus_port", "7350")], "both are port 7350"),
        (
            &[("socket.outgoing_queue_size", "65536"), ("socket.max_message_size_bytes", "4097")],
            "268500992 bytes; at most 268435456",
        ),
        (&[("logger.stdout", "false")], "the log goes nowhere"),
        (&[("logger.stdout", "false"), ("logger.file", "x")], "taken"),
        (&[("socket.pong_wait_ms", "15001")], "taken"),
        (&[("socket.port", "0"), ("metrics.prometheus_port", "0")], "taken"),
    ] {
        let found = wrong(pairs);
        assert!(found.contains(message), "{pairs:?}: {found}");
    }
}

#[test]
fn unknown_options_and_missing_protection_stop_the_start() {
    for (name, item, message) in [
        ("socket.ssl_certificate", "", "taken"),
        ("socket.ssl_certificate", "x.pem", "TLS is not built yet: put a proxy"),
        ("socket.prot", "1", "there is no such option; did you mean `socket.port`?"),
        ("consol.port", "1", "did you mean `console.port`?"),
        ("what.ever", "1", "`what.ever` (command line): there is no such option"),
    ] {
        let found = wrong(&[(name, item)]);
        assert!(found.contains(message), "{name}: {found}");
    }
}

#[test]
fn options_of_nakama_without_effect_are_told_with_what_stands_in_their_place() {
    for (pairs, wanted) in [
        (&[("matchmaker.interval_sec", "15"), ("session.single_party", "False")][..], &[][..]),
        (&[("database.address", "root@localhost:26257"), ("cluster.join", "")], &[]),
        (
            &[("database.address", "postgres@db:5432")],
            &["`database.address` (command line) has no effect: PostgreSQL is not built yet: the \
               database is SQLite, in `data_dir`"],
        ),
        (
            &[("cluster.join", "a:1"), ("runtime.lua_max_count", "64"), ("cluster.name", "b")],
            &[
                "`cluster.join` (command line), `cluster.name` (command line) have no effect: \
                 clustering is not built yet: one process serves all players",
                "`runtime.lua_max_count` (command line) has no effect: there is nothing to adjust \
                 here: `engine.workers` and `runtime.memory_max_bytes` size the scripts",
            ],
        ),
    ] {
        let notices = config(pairs).notices;
        let warned = notices.iter().filter(|it| it.level == Level::Warn);
        let found: Vec<&str> = warned.map(|it| it.text.as_str()).collect();
        assert_eq!(found, wanted, "{pairs:?}");
    }
}

#[test]
fn every_option_without_effect_says_what_it_is_about() {
    for opt in UNBUILT {
        let given = [(opt.name, "something else")];
        let taken = Effective::resolve(flags(&given), 2);
        let shown = match &taken {
            Ok(values) => Config::new(values).notices[0].text.clone(),
            Err(problems) => texts(problems),
        };
        assert!(shown.contains(opt.name) && shown.len() > opt.name.len() + 40, "{shown}");
    }
}

#[test]
fn a_file_of_nakama_starts() {
    let text = "name: nakama1\ndata_dir: ./data\nlogger:\n  level: DEBUG\n  format: json\n\
                console:\n  port: 7351\n  username: me\n  password: secret-word\n  address:\n\
                database:\n  address:\n    - \"postgres:localdb@postgres:5432/nakama\"\n\
                iap:\n  google: {client_email: a@b.c, private_key: hush}\n\
                google_auth:\n  credentials_json: '{}'\n\
                leaderboard:\n  blacklist_rank_cache: [a, b]\n\
                cluster: {join: [a, b], gossip_bindport: 7352}\n\
                session: {token_expiry_sec: 7200}\nsocket: {server_key: mine}\n";
    let given = yaml::parse(Path::new("a.yaml"), text);
    let given = given.unwrap_or_else(|problems| panic!("{}", texts(&problems)));
    let values = Effective::resolve(given, 2);
    let values = values.unwrap_or_else(|problems| panic!("{}", texts(&problems)));
    let notices = Config::new(&values).notices;
    let lines: Vec<&str> = notices.iter().map(|it| it.text.as_str()).collect();
    let shown = lines.join("\n");
    for part in [
        "`console.username` (a.yaml:8), `console.password` (a.yaml:9) have no effect",
        "`database.address` (a.yaml:13) has no effect",
        "`cluster.join` (a.yaml:",
        "`iap.google.private_key`",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("hush") && !shown.contains("secret-word"), "{shown}");
}

#[test]
fn all_problems_are_told_at_once() {
    let found = wrong(&[("socket.port", "x"), ("nope.nope", "1"), ("socket.pong_wait_ms", "20")]);
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[test]
fn later_entries_win() {
    let config = config(&[("name", "a"), ("name", "b")]);
    assert_eq!(config.name, "b");
}

#[test]
fn files_are_flattened() {
    for (text, wanted) in [
        ("", ""),
        ("# nothing\n", ""),
        ("socket:\n  port: 7351\n", "socket.port=7351 @2"),
        ("socket: {port: 1, address: \"::1\"}", "socket.port=1 @1\nsocket.address=::1 @1"),
        ("socket.port: 1\n", "socket.port=1 @1"),
        ("social:\n  steam:\n    app_id: 7\n", "social.steam.app_id=7 @3"),
        ("runtime:\n  env:\n    - A=1\n    - \"B=2\"\n", "runtime.env=A=1,B=2 @3"),
        ("runtime:\n  env: []\n", "runtime.env= @2"),
        // Plain values keep their spelling.
        ("socket:\n  server_key: 0123\n", "socket.server_key=0123 @2"),
        ("socket:\n  server_key: 1e5\n", "socket.server_key=1e5 @2"),
        ("socket:\n  server_key: yes\n", "socket.server_key=yes @2"),
        ("name: true\n", "name=true @1"),
        ("name: 'it''s'\n", "name=it's @1"),
        ("name: \"\"\n", "name= @1"),
        // A section whose lines are commented out is no mistake; an option without a value is.
        ("socket:\n#  port: 1\nname: a\n", "name=a @3"),
        ("socket:\n  port:\n", "`socket.port` (a.yaml:2): there is no value"),
        ("socket:\n  port: null\n", "there is no value"),
        ("- a\n", "the file must hold names and values"),
        ("just text", "the file must hold names and values"),
        ("socket:\n  port: 1\nsocket.port: 2\n", "`socket.port` (a.yaml:3): it is set twice"),
        ("name: a\nname: b\n", "`name` is set twice, the second time at line 2"),
        ("name: [\n", "not valid YAML"),
        ("runtime:\n  env: [[a]]\n", "a list may only hold plain values"),
        ("name: {a: 1}\n", "`name` (a.yaml:1): it takes a value, not further names"),
    ] {
        let found = file(text);
        let same = if wanted.contains('=') || wanted.is_empty() {
            found == wanted
        } else {
            found.contains(wanted)
        };
        assert!(same, "{text:?}\n  wanted {wanted}\n  found  {found}");
    }
}

#[test]
fn any_cut_of_a_file_is_an_answer() {
    let text = "name: a\nsocket: {port: 7, \"address\": ::1}\nruntime:\n  env:\n  - 'A=ü'\n";
    for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
        let _ = yaml::parse(Path::new("a.yaml"), &text[..end]);
    }
}

#[test]
fn a_missing_file_is_named() {
    let found = load(&[PathBuf::from("no/such.yaml")], Vec::new(), 1);
    let Err(problems) = found else { panic!("taken") };
    assert!(texts(&problems).starts_with("no/such.yaml: cannot be read: "), "{}", texts(&problems));
}

#[test]
fn notices_grow_with_the_danger() {
    let keys = [
        ("socket.server_key", "a"),
        ("session.encryption_key", "b"),
        ("session.refresh_encryption_key", "c"),
        ("runtime.http_key", "d"),
    ];
    let outside = ("socket.address", "0.0.0.0");
    let scrape = [("metrics.prometheus_port", "9100"), ("metrics.address", "0.0.0.0")];
    for (pairs, warnings, errors) in [
        (vec![], 0, 0),
        (keys.to_vec(), 0, 0),
        (vec![outside], 0, 1),
        ([&keys[..], &[outside]].concat(), 1, 0),
        ([&keys[..], &scrape].concat(), 1, 0),
        (vec![("socket.address", "::1")], 0, 0),
    ] {
        let notices = config(&pairs).notices;
        let count = |level| notices.iter().filter(|n| n.level == level).count();
        assert_eq!((count(Level::Warn), count(Level::Error)), (warnings, errors), "{notices:?}");
        assert!(notices.iter().all(|n| n.text.contains('`')), "{notices:?}");
    }
    assert!(config(&[outside]).notices[0].text.contains("WITH DEFAULT KEYS"));
    let quiet = config(&[]).notices;
    assert!(quiet[0].level == Level::Note && quiet[0].text.contains("`throng keys`"), "{quiet:?}");
    assert!(config(&keys).notices.is_empty());
}

#[test]
fn options_that_others_defeat_are_told() {
    let (on, networks) = (("fetch.enabled", "true"), ("fetch.networks", "127.0.0.0/8"));
    let (long, short) = (("fetch.timeout_max_ms", "100000"), ("runtime.call_wait_max_ms", "20000"));
    for (pairs, wanted) in [
        (
            &[networks][..],
            "`fetch.networks` (command line) has no effect as long as `fetch.enabled`",
        ),
        (
            &[networks, long],
            "`fetch.networks` (command line), `fetch.timeout_max_ms` (command line) have",
        ),
        (&[on, networks], ""),
        (&[on, long, short], "`fetch.timeout_max_ms` (100000, command line) is more than"),
        // By its default, too.
        (
            &[on, short],
            "(30000, default) is more than `runtime.call_wait_max_ms` (20000, command line)",
        ),
        (&[short], ""),
    ] {
        let notices = config(pairs).notices;
        let warned: Vec<_> = notices.iter().filter(|it| it.level == Level::Warn).collect();
        assert_eq!(warned.len(), usize::from(!wanted.is_empty()), "{notices:?}");
        assert!(warned.iter().all(|it| it.text.contains(wanted)), "{notices:?}");
    }
}

#[test]
fn limits_of_the_table_are_those_that_handlers_are_tested_with() {
    let effective = Effective::resolve(Vec::new(), 4).unwrap();
    assert_eq!(Config::new(&effective).limits, LimitSettings::default());
}
