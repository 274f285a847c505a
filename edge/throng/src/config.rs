//! The configuration in force: files and flags in, checked values out.
//!
//! [`load`] reads the files, [`Effective::resolve`] checks everything against the option table and
//! remembers where each value came from, and [`Config`] holds the same values as plain fields for
//! the wiring. Environment variables are not read: what is in force stands in a file, on the
//! command line, or in the table.
//!
//! What is deliberately not here: the options themselves (`options.rs`), and whether the machine
//! can do what is asked (`serve.rs`).

mod contradict;
mod notice;
pub mod source;
#[cfg(test)]
mod tests;
pub mod value;
pub mod yaml;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use event::Network;
use fetch::{FetchSettings, HostPattern};
use game::db::GuestBudget;
use game::session::SessionSettings;
use server::settings::{
    AnswerSettings, DatagramSettings, LimitSettings, MatchSettings, RuntimeSettings, Settings,
    SocketSettings, WorldSettings,
};

pub use notice::{Level, Notice, is_key};
use source::{Given, Problem, Source};
use value::OptionValue;

use crate::options::{self, BUILT, Default, Kind, Known, Opt, Why};

/// Every option's value, and where it came from.
#[derive(Clone)]
pub struct Effective {
    values: BTreeMap<&'static str, (OptionValue, Source)>,
    ignored: Vec<Ignored>,
}

/// An option of Nakama that was written and has no effect.
#[derive(Clone)]
struct Ignored {
    name: String,
    from: Source,
    why: Why,
}

/// The configuration as the wiring takes it. Fields are named as the options are; see the table in
/// `options/built.rs` or `docs/configuration.md` for what they mean.
///
/// It holds keys, so it has no `Debug`.
#[derive(Clone)]
pub struct Config {
    /// `name`.
    pub name: String,
    /// `data_dir`.
    pub data_dir: PathBuf,
    /// `database.check`.
    pub check: store::Check,
    /// `shutdown_grace_sec`.
    pub shutdown_grace_s: u32,
    /// `logger.*`.
    pub logger: LoggerConfig,
    /// `metrics.*`.
    pub metrics: MetricsConfig,
    /// `session.encryption_key` and its neighbours.
    pub session: SessionSettings,
    /// `session.single_socket`.
    pub single_socket: bool,
    /// `socket.address` and `socket.port`; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where gRPC is served, if it is: `socket.grpc` and `socket.grpc_port`. Port 0 as above.
    pub grpc: Option<SocketAddr>,
    /// The rest of `socket.*`.
    pub socket: SocketSettings,
    /// `runtime.*`.
    pub runtime: RuntimeConfig,
    /// `match.*`.
    pub matches: MatchConfig,
    /// `limit.*`.
    pub limits: LimitSettings,
    /// `limit.answer_max_bytes`, and the part of `limit.unsent_max_bytes` of one core.
    pub answers: AnswerSettings,
    /// `socket.write_timeout_ms`.
    pub write_timeout_ms: u32,
    /// `engine.*`.
    pub engine: EngineConfig,
    /// `fetch.*`.
    pub fetch: FetchConfig,
    /// `datagram.*`, if sessions may have datagrams.
    pub datagrams: Option<DatagramConfig>,
    /// `world.*`, if there is to be a zone.
    pub world: Option<WorldSettings>,
    /// What the operator should know before anything starts, the worst first.
    pub notices: Vec<Notice>,
}

/// `logger.*`.
#[derive(Clone, Debug)]
pub struct LoggerConfig {
    /// `logger.level`.
    pub level: tracing::Level,
    /// `logger.format`.
    pub format: LogFormat,
    /// `logger.stdout`.
    pub stdout: bool,
    /// `logger.file`.
    pub file: Option<PathBuf>,
}

/// `logger.format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `metrics.*`.
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    /// `metrics.address` and `metrics.prometheus_port`; `None` when the port is 0.
    pub listen: Option<SocketAddr>,
    /// `metrics.prefix`, maybe empty.
    pub prefix: String,
    /// `metrics.namespace`, maybe empty.
    pub namespace: String,
    /// `metrics.custom_prefix`.
    pub custom_prefix: String,
    /// `metrics.custom_scope_limit`.
    pub custom_series_max: usize,
}

/// `runtime.*`.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// `runtime.path`, or `modules` in the data folder.
    pub path: PathBuf,
    /// Whether `runtime.path` was given: a given folder must exist, the other one may be missing.
    pub path_given: bool,
    /// `runtime.env`.
    pub env: Vec<(String, String)>,
    /// `runtime.http_key`.
    pub http_key: String,
    /// `runtime.reload_key`; empty: nobody may load the modules again over HTTP.
    pub reload_key: String,
    /// `runtime.watch`.
    pub watch: bool,
    /// `runtime.call_budget_ms`.
    pub call_budget_ms: u32,
    /// `runtime.load_budget_ms`.
    pub load_budget_ms: u32,
    /// `runtime.sql_*`.
    pub sql: GuestBudget,
    /// `runtime.lua_api_stacktrace`.
    pub stacktrace: bool,
    /// `runtime.all_memory_max_bytes`; 0 is half of the machine's.
    pub all_memory_bytes_max: usize,
    /// `runtime.log_lines_per_second_max`.
    pub log_lines_max: u32,
    /// `runtime.call_wait_max_ms`.
    pub call_wait_max_ms: u32,
    /// `runtime.waiting_calls_max`.
    pub waiting_calls_max: usize,
    /// `runtime.waiting_calls_per_user`.
    pub waiting_calls_per_user: u32,
    /// `runtime.core_slice_us`.
    pub core_slice_us: u32,
    /// `runtime.batch_slice_us`.
    pub batch_slice_us: u32,
    /// `runtime.event_queue_size`.
    pub event_queue_size: usize,
    /// `runtime.js_entrypoint`; empty for `index.js`, if there is one.
    pub js_entrypoint: String,
    /// `runtime.lua_insertion_order`.
    pub insertion_order: bool,
    /// `runtime.memory_max_bytes`.
    pub memory_bytes_max: usize,
}

/// `match.*`.
#[derive(Clone, Debug)]
pub struct MatchConfig {
    /// The queues and the end of empty matches.
    pub queues: MatchSettings,
    /// `match.callback_budget_ms`.
    pub callback_budget_ms: u32,
    /// `match.memory_max_bytes`.
    pub memory_bytes_max: usize,
}

/// `engine.*`.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// `engine.driver`.
    pub driver: Driver,
    /// `engine.cores`, at least 1.
    pub cores: usize,
    /// `engine.rooms`, at least 1.
    pub rooms: usize,
    /// `engine.workers`, at least 1.
    pub workers: usize,
    /// `engine.pin`.
    pub pin: bool,
    /// `engine.connections_max`, of the whole process.
    pub connections_max: usize,
}

/// `fetch.*`.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// `fetch.enabled`.
    pub enabled: bool,
    /// The rest of it.
    pub settings: FetchSettings,
}

/// `datagram.*`.
#[derive(Clone, Debug)]
pub struct DatagramConfig {
    /// `datagram.port`: of the first core; 0 lets the system choose.
    pub port: u16,
    /// `datagram.public_port`: the same as clients reach it; 0 if it is the same.
    pub public_port: u16,
    /// The rest of it. The ports are known once there are sockets.
    pub settings: DatagramSettings,
}

/// `engine.driver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring where the kernel has what it needs, else polling.
    Auto,
    /// io_uring, or no start.
    Uring,
    /// Readiness polling.
    Poll,
}

impl Driver {
    /// As the engine takes it.
    pub fn choice(self) -> engine::DriverChoice {
        match self {
            Self::Auto => engine::DriverChoice::Auto,
            Self::Uring => engine::DriverChoice::Uring,
            Self::Poll => engine::DriverChoice::Poll,
        }
    }

    /// From the word of the option; the table has checked that it is one of the three.
    pub fn from_word(word: &str) -> Self {
        match word {
            "uring" => Self::Uring,
            "poll" => Self::Poll,
            _ => Self::Auto,
        }
    }
}

/// Reads the files, adds the flags, and checks everything. Later files win over earlier ones, and
/// flags over files. `cpus` is how many CPUs the process may use.
///
/// # Errors
/// Every problem that was found, not only the first.
pub fn load(files: &[PathBuf], flags: Vec<Given>, cpus: u64) -> Result<Effective, Vec<Problem>> {
    let mut given = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        match yaml::read(file) {
            Ok(entries) => given.extend(entries),
            Err(found) => problems.extend(found),
        }
    }
    given.extend(flags);
    match Effective::resolve(given, cpus) {
        Ok(effective) if problems.is_empty() => Ok(effective),
        Ok(_) => Err(problems),
        Err(found) => {
            problems.extend(found);
            Err(problems)
        }
    }
}

impl Effective {
    /// Checks what was given, in order, later entries winning, and fills in the defaults.
    ///
    /// # Errors
    /// Every problem that was found.
    pub fn resolve(given: Vec<Given>, cpus: u64) -> Result<Self, Vec<Problem>> {
        let mut values: BTreeMap<_, _> = BUILT
            .iter()
            .map(|opt| (opt.name, (default_value(opt, cpus), Source::Default)))
            .collect();
        let (mut problems, mut ignored) = (Vec::new(), Vec::new());
        for Given { name, items, from } in given {
            match options::find(&name) {
                Some(Known::Built(opt)) => match value::parse(opt.kind, &items) {
                    Ok(value) => drop(values.insert(opt.name, (value, from))),
                    Err(error) => problems.push(Problem::Bad { name: opt.name, from, error }),
                },
                Some(Known::Unbuilt(opt)) => {
                    let why = opt.why;
                    if same_as_default(&items, opt.default) {
                        continue;
                    }
                    match why {
                        Why::Unsafe(..) => problems.push(Problem::NotObeyed { name, from, why }),
                        _ => ignored.push(Ignored { name, from, why }),
                    }
                }
                None => {
                    let nearest = options::nearest(&name);
                    problems.push(Problem::Unknown { name, from, nearest });
                }
            }
        }
        let effective = Self { values, ignored };
        problems.extend(contradict::clashes(&effective));
        if problems.is_empty() { Ok(effective) } else { Err(problems) }
    }

    /// A value and where it came from.
    ///
    /// # Panics
    /// If `name` does not stand in the table, which is our own mistake.
    pub fn value(&self, name: &str) -> &(OptionValue, Source) {
        let found = self.values.get(name);
        assert!(found.is_some(), "`{name}` does not stand in the option table");
        match found {
            Some(pair) => pair,
            None => unreachable!(),
        }
    }

    fn source(&self, name: &str) -> Source {
        self.value(name).1.clone()
    }

    /// A number, in the type that its range in the table fits.
    fn number<N: TryFrom<u64>>(&self, name: &str) -> N {
        let OptionValue::Number(number) = self.value(name).0 else {
            unreachable!("`{name}`: number")
        };
        match N::try_from(number) {
            Ok(number) => number,
            Err(_) => unreachable!("the range of `{name}` in the table does not fit its field"),
        }
    }

    fn switch(&self, name: &str) -> bool {
        let OptionValue::Switch(on) = self.value(name).0 else { unreachable!("`{name}`: switch") };
        on
    }

    fn text(&self, name: &str) -> &str {
        let OptionValue::Text(text) = &self.value(name).0 else { unreachable!("`{name}`: text") };
        text
    }

    fn address(&self, name: &str) -> IpAddr {
        let OptionValue::Address(address) = self.value(name).0 else {
            unreachable!("`{name}`: address")
        };
        address
    }

    fn list(&self, name: &str) -> Vec<(String, String)> {
        let OptionValue::List(pairs) = &self.value(name).0 else { unreachable!("`{name}`: list") };
        pairs.clone()
    }
}

fn default_value(opt: &Opt, cpus: u64) -> OptionValue {
    let items: Vec<String> = match opt.default {
        Default::Fixed("") if matches!(opt.kind, Kind::List(_)) => Vec::new(),
        Default::Fixed(text) if matches!(opt.kind, Kind::List(_)) => {
            text.split(',').map(str::to_owned).collect()
        }
        Default::Fixed(text) => vec![text.to_owned()],
        Default::PerCpu { count, .. } => {
            let Kind::Number { min, max, .. } = opt.kind else { unreachable!("{}", opt.name) };
            return OptionValue::Number(count(cpus).clamp(min, max));
        }
    };
    match value::parse(opt.kind, &items) {
        Ok(value) => value,
        Err(error) => unreachable!("the table's default of `{}`: {error}", opt.name),
    }
}

/// Whether what was written for an option that is not obeyed is Nakama's default, so that
/// nothing is lost by not obeying it.
fn same_as_default(items: &[String], default: &str) -> bool {
    let wanted: Vec<&str> =
        if default.is_empty() { Vec::new() } else { default.split(',').collect() };
    let written: Vec<&str> = items.iter().map(|item| item.trim()).collect();
    let same = |written: &str, wanted: &str| match wanted {
        "true" | "false" => value::switch(written) == value::switch(wanted),
        _ => written == wanted,
    };
    (wanted.is_empty() && written.iter().all(|item| item.is_empty()))
        || (wanted.len() == written.len() && written.iter().zip(&wanted).all(|(a, b)| same(a, b)))
}

impl Config {
    /// The same values as plain fields.
    pub fn new(values: &Effective) -> Self {
        let data_dir = PathBuf::from(values.text("data_dir"));
        let metrics_port: u16 = values.number("metrics.prometheus_port");
        Self {
            name: values.text("name").to_owned(),
            check: match values.text("database.check") {
                "off" => store::Check::Off,
                "full" => store::Check::Full,
                _ => store::Check::Quick,
            },
            shutdown_grace_s: values.number("shutdown_grace_sec"),
            logger: logger(values),
            metrics: MetricsConfig {
                listen: (metrics_port > 0)
                    .then(|| SocketAddr::new(values.address("metrics.address"), metrics_port)),
                prefix: values.text("metrics.prefix").to_owned(),
                namespace: values.text("metrics.namespace").to_owned(),
                custom_prefix: values.text("metrics.custom_prefix").to_owned(),
                custom_series_max: values.number("metrics.custom_scope_limit"),
            },
            session: SessionSettings {
                encryption_key: values.text("session.encryption_key").to_owned(),
                refresh_encryption_key: values.text("session.refresh_encryption_key").to_owned(),
                token_expiry_s: values.number("session.token_expiry_sec"),
                refresh_token_expiry_s: values.number("session.refresh_token_expiry_sec"),
            },
            single_socket: values.switch("session.single_socket"),
            listen: SocketAddr::new(values.address("socket.address"), values.number("socket.port")),
            grpc: grpc(values),
            socket: socket(values),
            runtime: runtime(values, &data_dir),
            matches: matches(values),
            limits: limits(values),
            datagrams: datagrams(values),
            world: world(values),
            answers: AnswerSettings {
                bytes_max: values.number("limit.answer_max_bytes"),
                unsent_bytes_max: values.number::<u64>("limit.unsent_max_bytes")
                    / values.number::<u64>("engine.cores"),
            },
            write_timeout_ms: values.number("socket.write_timeout_ms"),
            engine: EngineConfig {
                driver: Driver::from_word(values.text("engine.driver")),
                cores: values.number("engine.cores"),
                rooms: values.number("engine.rooms"),
                workers: values.number("engine.workers"),
                pin: values.switch("engine.pin"),
                connections_max: values.number("engine.connections_max"),
            },
            fetch: FetchConfig { enabled: values.switch("fetch.enabled"), settings: fetch(values) },
            data_dir,
            notices: notice::notices(values),
        }
    }

    /// What the handlers take.
    pub fn settings(&self) -> Settings {
        Settings {
            node: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shutdown_grace_s: self.shutdown_grace_s,
            session: self.session.clone(),
            single_socket: self.single_socket,
            socket: self.socket.clone(),
            matches: self.matches.queues.clone(),
            answers: self.answers.clone(),
            runtime: RuntimeSettings {
                http_key: self.runtime.http_key.clone(),
                reload_key: self.runtime.reload_key.clone(),
                env: self.runtime.env.clone(),
                log_lines_max: self.runtime.log_lines_max,
                call_wait_max_ms: self.runtime.call_wait_max_ms,
                waiting_calls_max: self.runtime.waiting_calls_max,
                waiting_calls_per_user: self.runtime.waiting_calls_per_user,
                core_slice_us: self.runtime.core_slice_us,
                batch_slice_us: self.runtime.batch_slice_us,
                event_queue_size: self.runtime.event_queue_size,
            },
            limits: self.limits.clone(),
            datagrams: self.datagrams.as_ref().map(|config| config.settings.clone()),
            world: self.world.clone(),
        }
    }
}

fn logger(values: &Effective) -> LoggerConfig {
    LoggerConfig {
        level: match values.text("logger.level") {
            "debug" => tracing::Level::DEBUG,
            "warn" => tracing::Level::WARN,
            "error" => tracing::Level::ERROR,
            _ => tracing::Level::INFO,
        },
        format: match values.text("logger.format") {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            _ => LogFormat::Auto,
        },
        stdout: values.switch("logger.stdout"),
        file: path(values.text("logger.file")),
    }
}

/// Where gRPC is to listen; the port is 0 if the system is to choose it.
fn grpc(values: &Effective) -> Option<SocketAddr> {
    values
        .switch("socket.grpc")
        .then(|| SocketAddr::new(values.address("socket.address"), grpc_port(values)))
}

/// The port that gRPC would have: as given, else one below the other, as Nakama has it.
fn grpc_port(values: &Effective) -> u16 {
    let below: u16 = values.number::<u16>("socket.port").saturating_sub(1);
    match values.number("socket.grpc_port") {
        0 => below,
        port => port,
    }
}

fn socket(values: &Effective) -> SocketSettings {
    SocketSettings {
        server_key: values.text("socket.server_key").to_owned(),
        message_bytes_max: values.number("socket.max_message_size_bytes"),
        request_bytes_max: values.number("socket.max_request_size_bytes"),
        outgoing_queue_size: values.number("socket.outgoing_queue_size"),
        ping_period_ms: values.number("socket.ping_period_ms"),
        pong_wait_ms: values.number("socket.pong_wait_ms"),
        close_ack_wait_ms: values.number("socket.close_ack_wait_ms"),
        read_timeout_ms: values.number("socket.read_timeout_ms"),
        write_wait_ms: values.number("socket.write_wait_ms"),
        write_timeout_ms: values.number("socket.write_timeout_ms"),
        // Known once there is a listener.
        grpc_port: None,
        idle_timeout_ms: values.number("socket.idle_timeout_ms"),
        response_headers: values.list("socket.response_headers"),
        proxy_count: values.number("socket.proxy_count"),
    }
}

fn runtime(values: &Effective, data_dir: &Path) -> RuntimeConfig {
    let given = path(values.text("runtime.path"));
    RuntimeConfig {
        path_given: given.is_some(),
        path: given.unwrap_or_else(|| data_dir.join("modules")),
        env: values.list("runtime.env"),
        http_key: values.text("runtime.http_key").to_owned(),
        reload_key: values.text("runtime.reload_key").to_owned(),
        watch: values.switch("runtime.watch"),
        call_budget_ms: values.number("runtime.call_budget_ms"),
        load_budget_ms: values.number("runtime.load_budget_ms"),
        sql: GuestBudget {
            time_ms: values.number("runtime.sql_budget_ms"),
            write_ms: values.number("runtime.sql_write_budget_ms"),
            rows_max: values.number("runtime.sql_rows_max"),
            answer_bytes_max: values.number("runtime.sql_answer_max_bytes"),
            value_bytes_max: values.number("runtime.sql_value_max_bytes"),
            written_bytes_max: values.number("runtime.sql_write_max_bytes"),
            opens_own_tables: values.switch("runtime.sql_write_own_tables"),
        },
        stacktrace: values.switch("runtime.lua_api_stacktrace"),
        js_entrypoint: values.text("runtime.js_entrypoint").to_owned(),
        insertion_order: values.switch("runtime.lua_insertion_order"),
        memory_bytes_max: values.number("runtime.memory_max_bytes"),
        all_memory_bytes_max: values.number("runtime.all_memory_max_bytes"),
        log_lines_max: values.number("runtime.log_lines_per_second_max"),
        call_wait_max_ms: values.number("runtime.call_wait_max_ms"),
        waiting_calls_max: values.number("runtime.waiting_calls_max"),
        waiting_calls_per_user: values.number("runtime.waiting_calls_per_user"),
        core_slice_us: values.number("runtime.core_slice_us"),
        batch_slice_us: values.number("runtime.batch_slice_us"),
        event_queue_size: values.number("runtime.event_queue_size"),
    }
}

fn matches(values: &Effective) -> MatchConfig {
    MatchConfig {
        queues: MatchSettings {
            input_queue_size: values.number("match.input_queue_size"),
            join_attempt_queue_size: values.number("match.join_attempt_queue_size"),
            signal_queue_size: values.number("match.signal_queue_size"),
            deferred_queue_size: values.number("match.deferred_queue_size"),
            broadcast_bytes_max: values.number("match.broadcast_bytes_max"),
            empty_s_max: values.number("match.max_empty_sec"),
            relayed_bytes_per_s: values.number("match.relayed_bytes_per_sec"),
            count_max: values.number("match.matches_max"),
            per_user_max: values.number("match.matches_per_user_max"),
            per_address_max: values.number("match.matches_per_address_max"),
            list_steps_max: values.number("match.list_steps_max"),
            created_per_call_max: values.number("match.created_per_call_max"),
            descendants_max: values.number("match.descendants_max"),
            descendants_per_s: values.number("match.descendants_per_s"),
        },
        callback_budget_ms: values.number("match.callback_budget_ms"),
        memory_bytes_max: values.number("match.memory_max_bytes"),
    }
}

fn fetch(values: &Effective) -> FetchSettings {
    let hosts = |name| {
        let list = values.list(name);
        list.iter().filter_map(|(text, _)| HostPattern::parse(text)).collect()
    };
    FetchSettings {
        allow: hosts("fetch.allow"),
        deny: hosts("fetch.deny"),
        networks: networks(values, "fetch.networks"),
        requests_max: values.number("fetch.requests_max"),
        requests_per_user: values.number("fetch.requests_per_user"),
        requests_per_address: values.number("fetch.requests_per_address"),
        requests_per_host: values.number("fetch.requests_per_host"),
        waiting_max: values.number("fetch.waiting_max"),
        request_bytes_max: values.number("fetch.request_max_bytes"),
        answer_bytes_max: values.number("fetch.answer_max_bytes"),
        memory_bytes_max: values.number("fetch.memory_max_bytes"),
        connect_timeout_ms: values.number("fetch.connect_timeout_ms"),
        timeout_max_ms: values.number("fetch.timeout_max_ms"),
        redirects_max: values.number("fetch.redirects_max"),
        allows_downgrade: values.switch("fetch.downgrade"),
        allows_insecure: values.switch("fetch.insecure"),
        ca_file: path(values.text("fetch.ca_file")),
    }
}

/// Datagrams beside sockets, if there are to be some.
fn datagrams(values: &Effective) -> Option<DatagramConfig> {
    values.switch("datagram.enabled").then(|| DatagramConfig {
        port: values.number("datagram.port"),
        public_port: values.number("datagram.public_port"),
        settings: DatagramSettings {
            host: values.text("datagram.public_address").to_owned(),
            ports: Vec::new(),
            per_session_per_s: values.number("datagram.per_session_per_s"),
            per_address_per_s: values.number("datagram.per_address_per_s"),
            idle_ms: values.number("datagram.idle_ms"),
        },
    })
}

/// The zone, if there is to be one.
fn world(values: &Effective) -> Option<WorldSettings> {
    values.switch("world.enabled").then(|| WorldSettings {
        tick_rate_hz: values.number("world.tick_rate_hz"),
        bins: u16::try_from(values.number::<u32>("world.side_m").div_ceil(64)).unwrap_or(u16::MAX),
        seed: values.number("world.seed"),
        bots: values.number("world.bots"),
        players_max: values.number("world.players_max"),
        waiting_max: values.number("world.waiting_max"),
        ships_per_user: values.number("world.ships_per_user"),
        ships_per_address: values.number("world.ships_per_address"),
        is_partition_static: values.text("world.partition") == "static",
        cells_permille: values.number("world.cells_permille"),
        near_ships: values.number("world.near_ships"),
        packet_bytes_max: values.number("world.packet_max_bytes"),
        snapshot_interval_ms: values.number("world.snapshot_interval_ms"),
        return_s: values.number("world.return_s"),
        rules_wait_ms: values.number("world.rules_wait_ms"),
        page: values.switch("world.page"),
    })
}

fn networks(values: &Effective, name: &str) -> Vec<Network> {
    values.list(name).iter().filter_map(|(text, _)| Network::parse(text)).collect()
}

fn limits(values: &Effective) -> LimitSettings {
    LimitSettings {
        requests_per_user_per_s: values.number("limit.requests_per_user_per_s"),
        requests_per_address_per_s: values.number("limit.requests_per_address_per_s"),
        sockets_per_user: values.number("limit.sockets_per_user"),
        sockets_per_address: values.number("limit.sockets_per_address"),
        connections_per_address: values.number("limit.connections_per_address"),
        calls_waiting: values.number("limit.calls_waiting"),
        calls_waiting_per_user: values.number("limit.calls_waiting_per_user"),
        calls_waiting_per_address: values.number("limit.calls_waiting_per_address"),
        listings_per_user: values.number("limit.listings_per_user"),
        passwords_waiting: values.number("limit.passwords_waiting"),
        relayed_matches_per_user: values.number("limit.relayed_matches_per_user"),
        presences_per_session: values.number("limit.presences_per_session"),
        streams_per_user: values.number("limit.streams_per_user"),
        presences_per_stream: values.number("limit.presences_per_stream"),
        stream_events_per_s: values.number("limit.stream_events_per_s"),
        stream_deliveries_per_call: values.number("limit.stream_deliveries_per_call"),
        stream_deliveries_per_user_per_s: values.number("limit.stream_deliveries_per_user_per_s"),
        stream_deliveries_of_matches_per_s: values
            .number("limit.stream_deliveries_of_matches_per_s"),
        password_attempts_per_account: values.number("limit.password_attempts_per_account"),
        password_lockout_account_s: values.number("limit.password_lockout_account_sec"),
        password_attempts_per_address: values.number("limit.password_attempts_per_address"),
        password_lockout_address_s: values.number("limit.password_lockout_address_sec"),
        exempt_addresses: networks(values, "limit.exempt_addresses"),
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}
