//! Networks of servers: a bridge of the machine's with a veth pair to each, or macvlan beside an
//! interface of the machine's.
//!
//! In: a network namespace and an address. Out: the server's interface `eth0` in it. Links carry the
//! daemon's tag in their names, so that what an earlier one left is found; those of a server go with its
//! namespace. Servers reach the machine and others, but not each other, unless they are to. By `ip` of
//! iproute2 (`engine::ip`). Not here: address translation. Source: veth(4), ip-link(8), bridge(8).

mod taken;

use std::net::Ipv4Addr;

use engine::{Namespace, NamespaceError};

use crate::fleet::{Host, Subnet};
pub(crate) use taken::Taken;

/// The interface in a server's namespace.
const INTERFACE: &str = "eth0";

/// The network of one daemon's servers.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// What the names of links begin with.
    tag: String,
    host: Host,
}

impl Network {
    pub(crate) fn new(tag: &str, host: &Host) -> Self {
        Self { tag: tag.to_owned(), host: host.clone() }
    }

    pub(crate) fn subnet(&self) -> Subnet {
        self.host.subnet
    }

    fn bridge(&self) -> String {
        format!("{}br", self.tag)
    }

    /// Who uses addresses already that servers are to get, and a subnet that nobody uses. Beside another
    /// interface (macvlan) they have addresses of its network.
    pub(crate) fn clash(&self) -> Option<(Taken, Option<Subnet>)> {
        if self.host.macvlan.is_some() {
            return None;
        }
        let bridge = self.bridge();
        let mut all = taken::here();
        all.retain(|it| it.interface != bridge);
        let found = all.iter().find(|it| self.host.subnet.overlaps(it.subnet))?;
        Some((found.clone(), taken::free(self.host.subnet, &all)))
    }

    /// Makes the bridge, if there is to be one and it is not there.
    ///
    /// # Errors
    /// Without the right to; when the addresses are in use here.
    pub(crate) fn set_up(&self) -> Result<(), NamespaceError> {
        let (bridge, subnet) = (self.bridge(), self.host.subnet);
        if self.host.macvlan.is_some() || links().contains(&bridge) {
            return Ok(());
        }
        let (address, bits) = (subnet.machine(), subnet.bits);
        let made = engine::ip(&format!(
            "link add {bridge} type bridge\n\
             address add {address}/{bits} dev {bridge}\n\
             link set {bridge} up\n"
        ));
        if made.is_err() {
            let _ = engine::ip(&format!("link del {bridge}\n"));
        }
        made
    }

    /// Gives a server its interface. Its address.
    ///
    /// # Errors
    /// Without the right to; without veth or macvlan in the kernel.
    pub(crate) fn attach(
        &self,
        namespace: &Namespace,
        slot: u32,
        address: Ipv4Addr,
    ) -> Result<(), NamespaceError> {
        let there = namespace.path();
        let subnet = self.host.subnet;
        let gateway = match &self.host.macvlan {
            Some(parent) => {
                let mode = if self.host.isolated { "private" } else { "bridge" };
                engine::ip(&format!(
                    "link add link {parent} name {INTERFACE} netns {there} type macvlan mode {mode}\n"
                ))?;
                self.host.gateway
            }
            None => {
                let (near, bridge) = (self.link(slot), self.bridge());
                engine::ip(&format!(
                    "link add {near} type veth peer name {INTERFACE} netns {there}\n\
                     link set {near} master {bridge}\n{}link set {near} up\n",
                    self.isolated(slot)
                ))?;
                Some(self.host.gateway.unwrap_or(subnet.machine()))
            }
        };
        let route = gateway.map_or_else(String::new, |it| format!("route add default via {it}\n"));
        let bits = subnet.bits;
        namespace.within(|| {
            engine::ip(&format!(
                "address add {address}/{bits} dev {INTERFACE}\nlink set {INTERFACE} up\n{route}"
            ))
        })?
    }

    /// Sets whether a server that has its link reaches the others. By macvlan that is so for good.
    ///
    /// # Errors
    /// Without the right to.
    pub(crate) fn isolate(&self, slot: u32) -> Result<(), NamespaceError> {
        if self.host.macvlan.is_some() { Ok(()) } else { engine::ip(&self.isolated(slot)) }
    }

    /// Ports of a bridge that are isolated pass nothing to each other; the bridge itself is none.
    fn isolated(&self, slot: u32) -> String {
        let word = if self.host.isolated { "on" } else { "off" };
        format!("link set {} type bridge_slave isolated {word}\n", self.link(slot))
    }

    fn link(&self, slot: u32) -> String {
        format!("{}v{slot}", self.tag)
    }

    /// Takes a server's link away. It goes with the namespace as well, but the kernel takes its time for
    /// that, and the next server of the slot wants the name.
    pub(crate) fn detach(&self, slot: u32) {
        let link = self.link(slot);
        if links().contains(&link) {
            let _ = engine::ip(&format!("link del {link}\n"));
        }
    }

    /// Takes away all links that carry the tag, but those of the slots that are kept, and the bridge when
    /// there are none.
    pub(crate) fn clean(&self, kept: &[u32]) -> usize {
        let kept: Vec<String> = kept.iter().map(|slot| self.link(*slot)).collect();
        let mut removed = 0;
        for link in links().iter().filter(|it| it.starts_with(&self.tag) && !kept.contains(it)) {
            if *link == self.bridge() && !kept.is_empty() {
                continue;
            }
            removed += usize::from(engine::ip(&format!("link del {link}\n")).is_ok());
        }
        removed
    }
}

/// The names of the machine's interfaces.
fn links() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    entries.flatten().filter_map(|it| it.file_name().into_string().ok()).collect()
}
