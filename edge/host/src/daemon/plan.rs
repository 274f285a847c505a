//! From a table of the fleet's file to one server: its name, port, address, and what its process is to
//! become.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::child::{Files, HOME, Home, Spec};
use crate::fleet::{Fleet, Server, Wall};

/// Where programs are looked for, those of Debian's games among them.
const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games";
/// The variable in which the processes of a server have its folder, where they have no user of their own to
/// be known by.
pub(super) const MARK: &str = "THRONG_HOST_SERVER";
/// What a server may write, if the file does not say.
pub(super) const DISK_BYTES: u64 = 256 << 20;
/// What it may print in a second, if the file does not say.
pub(super) const LOG_BYTES_PER_S: u64 = 256 << 10;
/// Processes and threads, if the file does not say: enough for a run-time with many threads, and few
/// enough for the machine when all servers reach it.
const PIDS: u32 = 512;

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    /// From 1 on among those of its table.
    pub(super) number: u32,
    pub(super) slot: u32,
    pub(super) server: Server,
    pub(super) port: Option<u16>,
    /// Its ports as the SDK names them.
    pub(super) ports: Vec<(String, u16)>,
    /// Its own, behind a wall of network.
    pub(super) address: Option<Ipv4Addr>,
}

/// All servers of a fleet, with slots that are not yet theirs.
pub(super) fn plans(fleet: &Fleet) -> Vec<Plan> {
    let mut all = Vec::new();
    for server in &fleet.server {
        for (number, name) in (1..).zip(server.names()) {
            let mut server = server.clone();
            server.limits.pids.get_or_insert(PIDS);
            let shift = if server.wall == Wall::Network { 0 } else { number - 1 };
            let shifted = |port: u16| port.saturating_add(u16::try_from(shift).unwrap_or(0));
            let port = server.port.map(shifted);
            let named = server.agones.iter().flat_map(|it| &it.ports);
            let mut ports: Vec<_> = named.map(|it| (it.name.clone(), shifted(it.port))).collect();
            if ports.is_empty() {
                ports.extend(port.map(|port| ("default".to_owned(), port)));
            }
            all.push(Plan { name, number, slot: 0, server, port, ports, address: None });
        }
    }
    all
}

impl Plan {
    /// Gives it its slot, and with it its address.
    pub(super) fn place(&mut self, slot: u32, fleet: &Fleet) {
        self.slot = slot;
        let is_apart = self.server.wall == Wall::Network;
        self.address = fleet.host.subnet.server(slot).filter(|_| is_apart);
    }

    /// The address as players use it.
    pub(super) fn place_text(&self) -> Option<String> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST);
        match self.port {
            Some(port) => Some(format!("{address}:{port}")),
            None => self.address.map(|it| it.to_string()),
        }
    }

    /// What it was started from, to be compared. How many there are besides it changes nothing of it.
    pub(super) fn description(&self) -> String {
        let server = Server { count: None, ..self.server.clone() };
        format!("{server:?} {:?} {:?}", self.port, self.address)
    }

    fn fill(&self, text: &str) -> String {
        let port = self.port.map_or_else(String::new, |it| it.to_string());
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST).to_string();
        text.replace("{name}", &self.name)
            .replace("{index}", &self.number.to_string())
            .replace("{port}", &port)
            .replace("{address}", &address)
    }

    /// Its home as it sees it.
    pub(super) fn home(&self, folder: &Path) -> PathBuf {
        if self.server.wall >= Wall::Files { HOME.into() } else { folder.join("home") }
    }

    /// What its process is to become.
    pub(super) fn spec(
        &self,
        folder: &Path,
        hidden: &Path,
        user: Option<u32>,
        groups: Vec<PathBuf>,
        doors: (u16, u16),
    ) -> Spec {
        let (server, home) = (&self.server, self.home(folder));
        let mut env = vec![
            ("HOME".to_owned(), home.display().to_string()),
            ("PATH".to_owned(), PATH.to_owned()),
            ("USER".to_owned(), self.name.clone()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        env.extend(server.env.iter().map(|(name, value)| (name.clone(), self.fill(value))));
        // Last, and so always: there is no other place where the SDK is. Source: Agones 1.61, SDK ports.
        for (name, port) in [("AGONES_SDK_GRPC_PORT", doors.0), ("AGONES_SDK_HTTP_PORT", doors.1)] {
            env.push((name.to_owned(), port.to_string()));
        }
        if user.is_none() {
            env.push((MARK.to_owned(), folder.display().to_string()));
        }
        let bytes = server.limits.disk.map_or(DISK_BYTES, |it| it.0);
        let is_apart = server.wall >= Wall::Files;
        let bound = (!is_apart && user.is_some()).then(|| Home { path: home.clone(), bytes });
        let files = is_apart.then(|| Files {
            folder: folder.to_owned(),
            bytes,
            writable: server.writable.clone(),
            hidden: hidden.to_owned(),
        });
        Spec {
            name: self.name.clone(),
            argv: server.command.iter().map(|it| self.fill(it)).collect(),
            env,
            dir: server.dir.clone().unwrap_or(home),
            id: user,
            processes: server.limits.pids.filter(|_| groups.is_empty()),
            groups,
            files,
            home: bound,
            file_bytes: user.is_none().then_some(bytes),
            cores: server.cpu.cores.clone().map_or_else(Vec::new, |it| it.0),
            realtime: server.cpu.realtime,
            is_filtered: server.seccomp == crate::fleet::Seccomp::Default,
            log: folder.join("pipe"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::plans;
    use crate::fleet::parse;

    #[test]
    fn a_description_is_of_one_server() {
        let of = |more: &str| {
            let text = format!("[[server]]\nname = 'a'\ncommand = ['x', '{{port}}']\n{more}\n");
            plans(&parse(&text).unwrap())[0].description()
        };
        assert_eq!(of("count = 2\nport = 7"), of("count = 3\nport = 7"));
        assert_ne!(of("count = 2\nport = 7"), of("count = 2\nport = 8"));
    }

    #[test]
    fn what_a_server_is_told_is_filled_in() {
        let fleet = parse(
            "[[server]]\nname = 'a'\ncount = 2\ncommand = ['x', '--port={port}', '{name} {index}']\n\
             port = 7000\nenv = { AT = '{address}' }\n\
             [[server]]\nname = 'b'\ncommand = ['y', '{port}']\nport = 9\nwall = 'network'\n",
        )
        .unwrap();
        let mut plans = plans(&fleet);
        for (slot, plan) in (0..).zip(&mut plans) {
            plan.place(slot, &fleet);
        }
        let doors = (9_357, 9_358);
        let spec = plans[1].spec(Path::new("/f"), Path::new("/d"), None, Vec::new(), doors);
        assert_eq!(spec.argv, ["x", "--port=7001", "a-2 2"]);
        assert!(spec.env.contains(&("AT".to_owned(), "127.0.0.1".to_owned())));
        assert_eq!((spec.processes, spec.dir.to_str().unwrap()), (Some(512), "/f/home"));
        assert!(spec.env.contains(&("AGONES_SDK_HTTP_PORT".to_owned(), "9358".to_owned())));
        // Nobody's user is known by a variable, and has a limit of each file alone.
        assert!(spec.env.contains(&("THRONG_HOST_SERVER".to_owned(), "/f".to_owned())));
        assert_eq!((spec.file_bytes, spec.home.is_some()), (Some(256 << 20), false));
        let spec = plans[1].spec(Path::new("/f"), Path::new("/d"), Some(1), Vec::new(), doors);
        let home = spec.home.unwrap();
        assert_eq!((home.path.to_str().unwrap(), home.bytes), ("/f/home", 256 << 20));
        assert!(spec.file_bytes.is_none() && !spec.env.iter().any(|it| it.0 == super::MARK));
        let spec =
            plans[2].spec(Path::new("/f"), Path::new("/d"), Some(1), vec!["/g".into()], doors);
        assert_eq!((&*spec.argv, spec.processes), (&["y".to_owned(), "9".to_owned()][..], None));
        assert_eq!(spec.dir.to_str().unwrap(), "/run/home");
        assert_eq!(plans[2].place_text().unwrap(), "10.213.0.4:9");
        assert_eq!(plans[0].place_text().unwrap(), "127.0.0.1:7000");
    }
}
