//! What an earlier daemon left: servers that go on are the new daemon's, everything else is taken away.
//! Nothing is touched that does not carry the folder's tag, its users, or stands in its folder.

use super::plan::{Plan, plans};
use super::start::Left;
use crate::fleet::{Fleet, Wall};
use crate::groups::Groups;
use crate::net::Network;
use crate::process::boot;
use crate::state::{Folder, Record};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    adopted: usize,
    ended: Vec<String>,
    links: usize,
}

impl Found {
    pub(crate) fn text(&self) -> Option<String> {
        if self.adopted == 0 && self.ended.is_empty() && self.links == 0 {
            return None;
        }
        let verb = if self.adopted == 1 { "goes" } else { "go" };
        let adopted = crate::view::servers(self.adopted);
        let mut parts = vec![format!("an earlier daemon left: {adopted} {verb} on")];
        if !self.ended.is_empty() {
            parts.push(format!("ended and removed: {}", self.ended.join(", ")));
        }
        if self.links > 0 {
            parts.push(format!("{} network links removed", self.links));
        }
        Some(parts.join("; "))
    }
}

/// Gives every server of the fleet its slot, with the record of the process that goes on if there is one,
/// and takes everything else away.
pub(super) fn recover(
    folder: &Folder,
    groups: Option<&Groups>,
    network: Option<&Network>,
    fleet: &Fleet,
) -> (Vec<(Plan, Option<Record>)>, Found) {
    let mut found = Found::default();
    let mut records = folder.records();
    let boot = boot();
    let mut taken = Vec::new();
    let mut all: Vec<(Plan, Option<Record>)> = Vec::new();
    for plan in plans(fleet) {
        let at = records.iter().position(|(name, record)| {
            // In another subnet nobody would reach it, nor it the machine.
            let address = |it: &Record| fleet.host.subnet.server(it.slot);
            let is_there = |it: &Record| it.address.is_none() || it.address == address(it);
            let is_it =
                |it: &Record| it.wall == plan.server.wall && is_there(it) && goes_on(it, &boot);
            *name == plan.name && record.as_ref().is_some_and(is_it)
        });
        let record = at.and_then(|at| records.remove(at).1);
        if let Some(record) = &record {
            taken.push(record.slot);
            found.adopted += 1;
        }
        all.push((plan, record));
    }
    let kept: Vec<String> =
        all.iter().filter(|(_, it)| it.is_some()).map(|(plan, _)| plan.name.clone()).collect();
    for (name, record) in records {
        let is_root = rustix::process::geteuid().is_root();
        let user = record.as_ref().filter(|_| is_root).map(|it| folder.user(it.slot));
        // Of one that has ended meanwhile the number may be somebody else's session by now.
        let first = record.as_ref().filter(|it| goes_on(it, &boot)).and_then(|it| it.identity);
        Left { name: &name, folder: &folder.server(&name), groups, user, first }.sweep();
        folder.forget(&name);
        found.ended.push(name);
    }
    for name in groups.map(Groups::servers).unwrap_or_default() {
        if !kept.contains(&name) && !found.ended.contains(&name) {
            let folder = folder.server(&name);
            Left { name: &name, folder: &folder, groups, user: None, first: None }.sweep();
            found.ended.push(name);
        }
    }
    let mut free = (0..).filter(|slot| !taken.contains(slot));
    for (plan, record) in &mut all {
        let slot = record.as_ref().map(|it| it.slot).or_else(|| free.next());
        plan.place(slot.unwrap_or(0), fleet);
    }
    if let Some(network) = network {
        let apart =
            all.iter().filter(|(plan, it)| it.is_some() && plan.server.wall == Wall::Network);
        let kept: Vec<u32> = apart.map(|(plan, _)| plan.slot).collect();
        found.links = network.clean(&kept);
    }
    (all, found)
}

/// Whether a record's process still runs.
fn goes_on(record: &Record, boot: &str) -> bool {
    record.boot == boot && record.identity.is_some_and(|it| it.is_alive())
}
