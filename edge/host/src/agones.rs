//! A `GameServer` or a `Fleet` of Agones, as the file that Kubernetes is given, read as a fleet of this
//! machine: the same file runs on Agones when one machine is outgrown.
//!
//! In: YAML, one document or several. Out: a [`Fleet`], and in its notes every field that is not done here,
//! with the reason. Images are not run: `command` of the container names a program of this machine. Not here:
//! what the SDK makes of it.
//!
//! Source: agones.dev/site/docs/reference/gameserver and /fleet, Agones 1.61 (pkg/apis/agones/v1);
//! kubernetes.io, PodSpec and Resource Management.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use lab::measure::Span;
use serde_json::Value;

use crate::fleet::sdk::{Agones, Counter, Health, List, Port};
use crate::fleet::{Bytes, Cpu, Fleet, FleetError, Host, Limits, Ready, Restart, Server, Wall};
use table::{Table, bytes, quantity};

/// An annotation of ours: the wall of the servers. Agones passes it over.
const WALL: &str = "throng.dev/wall";
/// Where the ports begin that servers are given. Source: Agones 1.61, `gameservers.minPort`.
const FIRST_PORT: u16 = 7_000;
/// Agones gives a server all the time that it wants to call `Ready()`, as long as it is healthy.
const READY_PATIENCE: Duration = Duration::from_hours(720);

/// Reads a file. `wall` is what servers get whose file does not say.
///
/// # Errors
/// What is wrong with it, and what cannot run here at all.
pub(crate) fn parse(text: &str, wall: Wall) -> Result<Fleet, FleetError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| FleetError::Form(error.to_string()))?;
    let mut fleet = Fleet { host: Host::default(), server: Vec::new(), notes: Vec::new() };
    // The next port that nobody has: servers of other documents share the machine's network, too.
    let mut next = FIRST_PORT;
    for document in documents {
        let mut top = Table::new(String::new(), document)?;
        let (version, kind) = (top.text("apiVersion")?, top.text("kind")?);
        let kind = kind.unwrap_or_default();
        let is_ours = version.is_some_and(|it| it.starts_with("agones.dev/"));
        match &*kind {
            "GameServer" | "Fleet" if is_ours => {
                let server = read(top, &kind, wall, &mut next, &mut fleet.notes)?;
                fleet.server.push(server);
            }
            _ => fleet
                .notes
                .push(format!("kind {kind}: only GameServer and Fleet of agones.dev are read")),
        }
    }
    if fleet.server.is_empty() {
        let what = "no GameServer and no Fleet of apiVersion agones.dev/v1".to_owned();
        return Err(FleetError::Form(what));
    }
    fleet.check()?;
    Ok(fleet)
}

/// What a document says of its servers besides how they run.
struct Head {
    name: String,
    /// How many, of a `Fleet`.
    count: Option<u32>,
    wall: Wall,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn read(
    mut top: Table,
    kind: &str,
    wall: Wall,
    next: &mut u16,
    notes: &mut Vec<String>,
) -> Result<Server, FleetError> {
    let mut meta = top.table("metadata")?;
    let mut spec = top.table("spec")?;
    let name = match meta.text("name")? {
        Some(name) => name,
        None => meta.text("generateName")?.unwrap_or_default().trim_end_matches('-').to_owned(),
    };
    let namespace = meta.text("namespace")?;
    let (mut labels, mut annotations) = (meta.pairs("labels")?, meta.pairs("annotations")?);
    let mut count = None;
    if kind == "Fleet" {
        let replicas = spec.number("replicas")?.unwrap_or(1);
        count = Some(u32::try_from(replicas).unwrap_or(u32::MAX));
        let mut template = spec.table("template")?;
        let mut of_each = template.table("metadata")?;
        let own = annotations.remove(WALL);
        (labels, annotations) = (of_each.pairs("labels")?, of_each.pairs("annotations")?);
        annotations.extend(own.map(|wall| (WALL.to_owned(), wall)));
        labels.insert("agones.dev/fleet".to_owned(), name.clone());
        of_each.rest(notes);
        // What is left of the fleet's own: how it is rolled out, how it is spread.
        let of_all = std::mem::replace(&mut spec, template.table("spec")?);
        of_all.rest(notes);
        template.rest(notes);
    }
    let wall = match annotations.remove(WALL) {
        Some(word) => Wall::of(&word).ok_or_else(|| {
            FleetError::Form(format!(
                "annotation {WALL}: `{word}`: process, cgroup, files or network"
            ))
        })?,
        None => wall,
    };
    if annotations.contains_key("agones.dev/dev-address") {
        notes.push("agones.dev/dev-address: servers elsewhere are not taken in".to_owned());
    }
    meta.rest(notes);
    top.take("status");
    top.rest(notes);
    server(Head { name, count, wall, namespace, labels, annotations }, spec, next, notes)
}

/// From the `spec` of a `GameServer`.
fn server(
    head: Head,
    mut spec: Table,
    next: &mut u16,
    notes: &mut Vec<String>,
) -> Result<Server, FleetError> {
    let count = head.count.unwrap_or(1);
    let ports = ports(&mut spec, head.wall, count, next, notes)?;
    let mut sdk = spec.table("sdkServer")?;
    let (grpc_port, http_port) = (sdk.port("grpcPort")?, sdk.port("httpPort")?);
    // How much it says; here it says what is wrong.
    sdk.take("logLevel");
    sdk.rest(notes);
    let mut players = spec.table("players")?;
    let capacity = players.number("initialCapacity")?;
    players.rest(notes);
    let agones = Agones {
        health: health(&mut spec, notes)?,
        counters: spec.typed::<BTreeMap<String, Counter>>("counters")?,
        lists: spec.typed::<BTreeMap<String, List>>("lists")?,
        players: capacity.map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
        labels: head.labels,
        annotations: head.annotations,
        namespace: head.namespace,
        ports,
        grpc_port,
        http_port,
    };
    let wanted = spec.text("container")?;
    let mut template = spec.table("template")?;
    let mut pod = template.table("spec")?;
    let container = container(&mut pod, wanted.as_deref(), notes)?;
    let grace = pod.number("terminationGracePeriodSeconds")?;
    let program = program(container, head.wall, notes)?;
    for table in [spec, template, pod] {
        table.rest(notes);
    }
    let is_fleet = head.count.is_some();
    Ok(Server {
        name: head.name,
        count: head.count,
        command: program.command,
        dir: program.dir,
        env: program.env,
        port: agones.ports.first().map(|it| it.port),
        wall: head.wall,
        ready: Ready { sdk: true, timeout: Some(Span(READY_PATIENCE)), ..Ready::default() },
        // A fleet always has as many as it says; a server alone that has ended well is done.
        restart: if is_fleet { Restart::Always } else { Restart::OnFailure },
        on_demand: false,
        stop_grace: grace
            .and_then(|it| u64::try_from(it).ok())
            .map(|it| Span(Duration::from_secs(it))),
        limits: program.limits,
        cpu: program.cpu,
        writable: Vec::new(),
        seccomp: crate::fleet::Seccomp::default(),
        agones: Some(agones),
    })
}

fn health(spec: &mut Table, notes: &mut Vec<String>) -> Result<Health, FleetError> {
    let mut table = spec.table("health")?;
    let mut seconds = |key: &'static str| {
        let number = table.number(key)?.and_then(|it| u64::try_from(it).ok());
        Ok::<_, FleetError>(number.map(|it| Span(Duration::from_secs(it))))
    };
    let (initial_delay, period) = (seconds("initialDelaySeconds")?, seconds("periodSeconds")?);
    let failures = table.number("failureThreshold")?.and_then(|it| u32::try_from(it).ok());
    let disabled = table.take("disabled").is_some_and(|it| it == Value::Bool(true));
    table.rest(notes);
    Ok(Health { disabled, initial_delay, period, failures })
}

/// A server's ports: those of its container, at an address of its own; or, of `Passthrough`, any.
fn ports(
    spec: &mut Table,
    wall: Wall,
    count: u32,
    next: &mut u16,
    notes: &mut Vec<String>,
) -> Result<Vec<Port>, FleetError> {
    let mut all = Vec::new();
    for (number, mut table) in (0_u32..).zip(spec.tables("ports")?) {
        let name = table.text("name")?;
        let name = name.unwrap_or_else(|| {
            if number == 0 { "default".to_owned() } else { format!("port-{number}") }
        });
        let policy = table.text("portPolicy")?.unwrap_or_else(|| "Dynamic".to_owned());
        let (inside, outside) = (table.port("containerPort")?, table.port("hostPort")?);
        // Nothing is translated, so that both protocols have the same port.
        table.take("protocol");
        table.take("container");
        let port = match (&*policy, inside) {
            ("Passthrough", _) => {
                let port = *next;
                *next = next.saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
                port
            }
            ("Dynamic" | "Static" | "None", Some(port)) => port,
            ("Dynamic" | "Static" | "None", None) => {
                return Err(
                    table.wrong("containerPort", "is missing: the port that the server binds")
                );
            }
            (_, _) => return Err(table.wrong("portPolicy", "Dynamic, Static, Passthrough or None")),
        };
        if policy != "Passthrough" && wall < Wall::Network && count > 1 {
            let what = "servers that share the machine's network cannot all bind it: Passthrough, or the \
                        annotation throng.dev/wall: network, as root";
            return Err(table.wrong("containerPort", what));
        }
        if let Some(outside) = outside.filter(|it| *it != port) {
            notes.push(format!(
                "{}.hostPort: {outside}: no port is translated; it is {port} at the server's address",
                table.path
            ));
        }
        table.rest(notes);
        all.push(Port { name, port });
    }
    Ok(all)
}

/// The container that is the game server.
fn container(
    pod: &mut Table,
    wanted: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Table, FleetError> {
    let mut found = None;
    for mut table in pod.tables("containers")? {
        let name = table.text("name")?;
        if found.is_none() && wanted.is_none_or(|it| name.as_deref() == Some(it)) {
            found = Some(table);
        } else {
            let name = name.unwrap_or_default();
            notes.push(format!("{}: `{name}` is not started: a server is one program", table.path));
        }
    }
    found.ok_or_else(|| pod.wrong("containers", "the game server's is missing"))
}

/// What a container says of its process.
struct Program {
    command: Vec<String>,
    dir: Option<std::path::PathBuf>,
    env: BTreeMap<String, String>,
    limits: Limits,
    cpu: Cpu,
}

fn program(mut it: Table, wall: Wall, notes: &mut Vec<String>) -> Result<Program, FleetError> {
    let mut env = BTreeMap::new();
    for mut table in it.tables("env")? {
        let name = table.text("name")?.unwrap_or_default();
        let value = match (table.text("value")?, field(&mut table)?) {
            (Some(value), _) => value,
            (None, Some(value)) => value.to_owned(),
            (None, None) => {
                notes.push(format!("{}.valueFrom: `{name}` is left empty", table.path));
                String::new()
            }
        };
        env.insert(name, value);
    }
    let mut command = it.texts("command")?;
    let Some(program) = command.first().cloned() else {
        let what = "is missing: images are not run here, so that it has to name a program of this machine: \
                    command: [\"/srv/game/server\"]";
        return Err(it.wrong("command", what));
    };
    command.extend(it.texts("args")?);
    for word in &mut command {
        for (name, value) in &env {
            *word = word.replace(&format!("$({name})"), value);
        }
    }
    if let Some(image) = it.text("image")? {
        notes.push(format!(
            "{}.image: {image} is not run: the program is {program} of this machine, with its files",
            it.path
        ));
    }
    it.take("imagePullPolicy");
    let dir = it.text("workingDir")?.map(Into::into);
    let (limits, cpu) = resources(&mut it, wall, notes)?;
    it.rest(notes);
    Ok(Program { command, dir, env, limits, cpu })
}

/// What of the pod a variable is to hold, as it is called here.
fn field(env: &mut Table) -> Result<Option<&'static str>, FleetError> {
    let mut from = env.table("valueFrom")?;
    let path = from.table("fieldRef")?.text("fieldPath")?;
    Ok(match path.as_deref() {
        Some("metadata.name") => Some("{name}"),
        Some("status.podIP" | "status.hostIP") => Some("{address}"),
        Some(_) | None => None,
    })
}

/// Memory is a limit here as there; of processors a server has its part, and never a limit.
fn resources(
    container: &mut Table,
    wall: Wall,
    notes: &mut Vec<String>,
) -> Result<(Limits, Cpu), FleetError> {
    let mut table = container.table("resources")?;
    let (mut limits, mut requests) = (table.table("limits")?, table.table("requests")?);
    let (mut ours, mut cpu) = (Limits::default(), Cpu::default());
    let mut note = |table: &Table, key: &str, why: &str| {
        notes.push(format!("{}.{key}: {why}", table.path));
    };
    if let Some(text) = limits.text("memory")? {
        match bytes(&text) {
            Some(_) if wall < Wall::Cgroup => note(&limits, "memory", "takes wall cgroup, as root"),
            Some(bytes) => ours.memory = Some(Bytes(bytes)),
            None => return Err(limits.wrong("memory", "a number of bytes: 512Mi, 2G")),
        }
    }
    if let Some(text) = limits.text("ephemeral-storage")? {
        match bytes(&text) {
            Some(bytes) => {
                if wall < Wall::Files {
                    let why = "of its home alone, and without root of each of its files";
                    note(&limits, "ephemeral-storage", why);
                }
                ours.disk = Some(Bytes(bytes));
            }
            None => return Err(limits.wrong("ephemeral-storage", "a number of bytes: 512Mi, 2G")),
        }
    }
    if limits.take("cpu").is_some() {
        note(
            &limits,
            "cpu",
            "a limit that is reached takes whole ticks away: there is none; see requests.cpu",
        );
    }
    if let Some(text) = requests.text("cpu")? {
        let Some(cpus) = quantity(&text) else {
            return Err(requests.wrong("cpu", "a number of processors: 500m, 2"));
        };
        if wall < Wall::Cgroup {
            note(&requests, "cpu", "takes wall cgroup, as root");
        } else {
            // Kubernetes gives 1,024 shares for a processor, which are our 100.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "1 to 10,000"
            )]
            let weight = (cpus * 100.0).round().clamp(1.0, 10_000.0) as u32;
            cpu.weight = Some(weight);
        }
    }
    if requests.take("memory").is_some() {
        note(&requests, "memory", "nothing is set aside");
    }
    for table in [limits, requests, table] {
        table.rest(notes);
    }
    Ok((ours, cpu))
}

#[cfg(test)]
mod tests;
