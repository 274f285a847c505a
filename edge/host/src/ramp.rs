//! The servers of a ramp: one table of a fleet's file, as many of it as there could be, of which a daemon
//! starts and stops so many as are to be measured. The file's other tables run all the time, beside them.
//!
//! In: a fleet, and numbers. Out: servers that are ready, by the daemon's own API. What is measured is
//! `lab::ramp`'s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::games::query::Query;
use lab::ramp::{Running, Servers};

use crate::api::{AskError, ask};
use crate::fleet::{Fleet, FleetError, SERVERS_MAX, Wall};
use crate::view::{Overview, State, Status};

/// How often is looked whether servers are ready.
const LOOK: Duration = Duration::from_millis(100);
/// Time for servers to be ready, whatever the file gives each: many start one after the other.
const PATIENCE: Duration = Duration::from_mins(5);
/// A server that has failed, and was started again so often, will not be ready.
const HOPELESS_RESTARTS: u32 = 3;

/// Why a fleet cannot be ramped.
#[derive(Debug, thiserror::Error)]
pub enum RampFleetError {
    /// It is not said which servers are meant.
    #[error("the file has {0} tables of servers: name one with --server, the others run beside it")]
    Which(usize),
    /// There is no such table.
    #[error("the file has no server `{0}`")]
    Unknown(String),
    /// Nobody knows how to play there.
    #[error(
        "server `{0}`: `ready`: write ready = {{ query = \"throng\" }}, \"teeworlds\", \"quake3\" or \"a2s\": \
         it says who can play there"
    )]
    Query(String),
    /// It cannot be reached.
    #[error(
        "server `{0}`: behind macvlan this machine's players cannot reach it: leave [host] macvlan out"
    )]
    Macvlan(String),
    /// With so many servers it is no fleet.
    #[error("{0} (--most says how many servers there may be)")]
    Fleet(FleetError),
}

// Not a source: who prints those as well would say it twice.
impl From<FleetError> for RampFleetError {
    fn from(error: FleetError) -> Self {
        Self::Fleet(error)
    }
}

/// What is to be ramped.
#[derive(Debug)]
pub struct Chosen {
    /// The file's servers, as many of the table as there may be.
    pub fleet: Fleet,
    /// The table's name.
    pub name: String,
    /// What its servers answer.
    pub query: Query,
    /// Its wall.
    pub wall: Wall,
    names: Vec<String>,
    others: Vec<String>,
}

impl Chosen {
    /// Chooses a table and lets there be so many of it.
    ///
    /// # Errors
    /// When it cannot be ramped.
    pub fn of(mut fleet: Fleet, name: Option<&str>, most: u32) -> Result<Self, RampFleetError> {
        let place = match name {
            Some(name) => fleet.server.iter().position(|it| it.name == name),
            None if fleet.server.len() == 1 => Some(0),
            None => return Err(RampFleetError::Which(fleet.server.len())),
        };
        let unknown = || RampFleetError::Unknown(name.unwrap_or_default().to_owned());
        let server = place.and_then(|it| fleet.server.get_mut(it)).ok_or_else(unknown)?;
        server.count = Some(most.clamp(1, SERVERS_MAX));
        let (name, wall) = (server.name.clone(), server.wall);
        let query = server.ready.query.ok_or_else(|| RampFleetError::Query(name.clone()))?;
        let names = server.names().collect();
        if wall == Wall::Network && fleet.host.macvlan.is_some() {
            return Err(RampFleetError::Macvlan(name));
        }
        fleet.check()?;
        let others = fleet.server.iter().filter(|it| it.name != name);
        let others = others.flat_map(crate::fleet::Server::names).collect();
        Ok(Self { fleet, name, query, wall, names, others })
    }

    /// The servers, once a daemon looks after the fleet.
    #[must_use]
    pub fn servers(&self, folder: &Path) -> Ramped {
        Ramped { folder: folder.to_owned(), names: self.names.clone(), others: self.others.clone() }
    }
}

/// Servers that a daemon starts and stops.
#[derive(Debug)]
pub struct Ramped {
    folder: PathBuf,
    names: Vec<String>,
    /// Those that run all the time.
    others: Vec<String>,
}

impl Ramped {
    fn overview(&self) -> Result<Overview, String> {
        let body = self.ask("GET", "/v1/servers")?;
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    }

    fn ask(&self, method: &str, target: &str) -> Result<Vec<u8>, String> {
        ask(&self.folder, method, target, b"").map_err(|error| match error {
            AskError::Absent(..) => "the daemon has ended".to_owned(),
            other => other.to_string(),
        })
    }

    /// Tells those that are not as they should be to begin or to end.
    fn tell(&self, all: &Overview, wanted: &[String]) -> Result<(), String> {
        for it in &all.servers {
            let is_wanted = wanted.contains(&it.name);
            let word = match (is_wanted, it.state) {
                (true, State::Stopped) if it.pid.is_none() => "start",
                (true, _) | (false, State::Stopped) => continue,
                (false, _) => "stop",
            };
            self.ask("POST", &format!("/v1/servers/{}/{word}", it.name))?;
        }
        Ok(())
    }
}

impl Servers for Ramped {
    fn set(&mut self, count: u32, is_over: &dyn Fn() -> bool) -> Result<Vec<Running>, String> {
        let names = self.names.get(..count as usize);
        let names = names.ok_or_else(|| format!("{} are the most", self.names.len()))?;
        let wanted = [names, &self.others].concat();
        let since = Instant::now();
        let mut restarts = BTreeMap::new();
        loop {
            let all = self.overview()?;
            self.tell(&all, &wanted)?;
            let is_ready = |it: &Status| {
                if wanted.contains(&it.name) { it.state == State::Ready } else { it.pid.is_none() }
            };
            let Some(open) = all.servers.iter().find(|it| !is_ready(it)) else {
                return names.iter().map(|name| running(&all, name)).collect();
            };
            if is_over() {
                return Err("stopped".to_owned());
            }
            let began = *restarts.entry(open.name.clone()).or_insert(open.restarts);
            let is_hopeless =
                open.state == State::Failed && open.restarts >= began + HOPELESS_RESTARTS;
            if is_hopeless || since.elapsed() > PATIENCE {
                return Err(format!("{} is {}: {}", open.name, open.state.word(), open.what));
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn running(all: &Overview, name: &str) -> Result<Running, String> {
    let it = all.servers.iter().find(|it| it.name == *name);
    let address = it.and_then(|it| it.address.as_ref()?.parse().ok());
    match (address, it.and_then(|it| it.pid)) {
        (Some(address), Some(pid)) => Ok(Running { name: name.to_owned(), address, pid }),
        _ => Err(format!("{name} has no address or no process")),
    }
}

#[cfg(test)]
mod tests {
    use super::Chosen;
    use crate::fleet::parse;

    const TWO: &str = "[[server]]\nname = 'a'\ncommand = ['a', '{port}']\nport = 1000\n\
                       ready = { query = 'throng' }\n[[server]]\nname = 'hog'\ncommand = ['b']\n";

    fn of(text: &str, name: Option<&str>) -> Result<Chosen, String> {
        Chosen::of(parse(text).unwrap(), name, 3).map_err(|error| error.to_string())
    }

    #[test]
    fn one_table_is_ramped_and_the_others_run_beside_it() {
        let chosen = of(TWO, Some("a")).unwrap();
        assert_eq!(
            (chosen.names, chosen.others),
            (["a-1", "a-2", "a-3"].map(str::to_owned).to_vec(), vec!["hog".to_owned()],)
        );
    }

    #[test]
    fn what_cannot_be_ramped_is_said() {
        for (text, name, part) in [
            (TWO, None, "2 tables"),
            (TWO, Some("b"), "no server `b`"),
            (TWO, Some("hog"), "ready = { query"),
            (
                "[[server]]\nname = 'a'\ncommand = ['a']\nport = 1\nready = { query = 'a2s' }",
                None,
                "{port}",
            ),
        ] {
            let error = of(text, name).unwrap_err();
            assert!(error.contains(part), "{name:?}: {error}");
        }
    }
}
