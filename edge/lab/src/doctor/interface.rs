//! Network interfaces: queues and who serves them, interrupts, offloads, drops.
//!
//! Looked at are interfaces with hardware behind them, and where there are none (in a container or
//! a network namespace) those that are up. Bridges and tunnels have no queues of their own.
//!
//! Source: Documentation/networking/scaling.rst and Documentation/ABI/testing/sysfs-class-net-* of
//! Linux, ethtool(8).

use super::ethtool::{Feature, Settings};
use super::facts;
use super::tree::Tree;
use super::{Change, Finding, Group};
use crate::measure::number::{float, group};

/// Interfaces that are looked at, at most; hosts of many containers have thousands.
const INTERFACES_MAX: usize = 16;
/// Queues and interrupts of one interface that are looked at, at most.
const QUEUES_MAX: usize = 1_024;
/// `IFF_UP` in `/sys/class/net/IF/flags`, and the type of Ethernet.
const UP: u64 = 1;
const ETHERNET: &str = "1";

pub(super) const CLASS: &str = "/sys/class/net";

/// The names of the interfaces that checks are about.
pub(super) fn interfaces(tree: &Tree) -> Vec<String> {
    let is_up = |name: &String| {
        let flags = tree.text_or_empty(&format!("{CLASS}/{name}/flags"));
        let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
        flags & UP != 0 && name != "lo"
    };
    let is_plain = |name: &String| {
        let has = |part: &str| tree.exists(&format!("{CLASS}/{name}/{part}"));
        tree.text_or_empty(&format!("{CLASS}/{name}/type")) == ETHERNET
            && !has("bridge")
            && !has("bonding")
            && !has("tun_flags")
    };
    let up: Vec<String> = tree.names(CLASS).into_iter().filter(is_up).collect();
    let (hardware, others): (Vec<_>, Vec<_>) =
        up.into_iter().partition(|it| tree.exists(&format!("{CLASS}/{it}/device")));
    let mut found: Vec<_> =
        if hardware.is_empty() { others.into_iter().filter(is_plain).collect() } else { hardware };
    found.truncate(INTERFACES_MAX);
    found
}

/// The driver of an interface; none of what has no hardware.
pub(super) fn driver(tree: &Tree, interface: &str) -> Option<String> {
    tree.link(&format!("{CLASS}/{interface}/device/driver"))
}

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    let processors = facts::online(tree).len().max(1);
    let of = |name: String| {
        let it = Interface {
            tree,
            queues: queues(tree, &name),
            settings: tree.ethtool(&name),
            folder: format!("{CLASS}/{name}"),
            name,
            processors,
        };
        [it.rss(), it.rps(), it.interrupts(), it.offloads(), it.drops()]
    };
    interfaces(tree).into_iter().flat_map(of).collect()
}

fn queues(tree: &Tree, name: &str) -> Vec<String> {
    let names = tree.names(&format!("{CLASS}/{name}/queues"));
    names.into_iter().filter(|it| it.starts_with("rx-")).take(QUEUES_MAX).collect()
}

/// Processors, as `rps_cpus` and `xps_cpus` take them: groups of 32 bits in hexadecimal, the highest
/// first.
pub(super) fn mask(processors: impl Iterator<Item = usize>) -> String {
    let mut groups: Vec<u32> = Vec::new();
    for processor in processors {
        groups.resize(groups.len().max(processor / 32 + 1), 0);
        groups[processor / 32] |= 1 << (processor % 32);
    }
    let mut text = format!("{:x}", groups.pop().unwrap_or(0));
    text.extend(groups.iter().rev().map(|group| format!(",{group:08x}")));
    text
}

/// Whether a mask of processors names none.
pub(super) fn is_empty_mask(text: &str) -> bool {
    text.chars().all(|c| c == '0' || c == ',')
}

struct Interface<'a> {
    tree: &'a Tree,
    name: String,
    folder: String,
    queues: Vec<String>,
    settings: Settings,
    processors: usize,
}

impl Interface<'_> {
    fn finding(&self, id: &str, source: &str, why: &str) -> Finding {
        Finding::of(format!("{id}:{}", self.name), Group::Interfaces, source, why)
    }

    /// Receive side scaling: a queue, with an interrupt, for each processor.
    fn rss(&self) -> Finding {
        let why = "receive side scaling: with one queue a single processor takes in all packets, and \
                   is full while the others idle";
        let finding = self.finding("rss", &format!("{}/queues", self.folder), why);
        let name = &self.name;
        let now = self.queues.len();
        let queues =
            if now == 1 { "1 receive queue".to_owned() } else { format!("{now} receive queues") };
        let most = self.settings.channels.map(|it| it.most as usize);
        let processors = if self.processors == 1 { "processor" } else { "processors" };
        let value = format!("{queues} for {} {processors}", self.processors);
        if now >= self.processors {
            return finding.ok(value);
        }
        match self.settings.channels {
            Some(channels) if most.is_some_and(|most| most.min(self.processors) > now) => {
                let set = channels.most.min(u32::try_from(self.processors).unwrap_or(u32::MAX));
                finding
                    .warn(format!("{value}; the card has up to {}", channels.most))
                    .cured_by(format!("ethtool -L {name} {} {set}", channels.word))
            }
            _ => finding.none(format!("{value}, and the device has no more: see rps:{name}")),
        }
    }

    /// Receive packet steering: what spreads the packets of too few queues.
    fn rps(&self) -> Finding {
        let why = "receive packet steering: where the card has fewer queues than there are \
                   processors, the kernel can spread the work by itself";
        let path = |queue: &str| format!("{}/queues/{queue}/rps_cpus", self.folder);
        let finding = self.finding("rps", &path("rx-*"), why);
        if self.processors == 1 {
            return finding.none("one processor");
        }
        if self.queues.len() >= self.processors {
            return finding.none("not needed: each processor has a queue");
        }
        let mut masks = Vec::new();
        for queue in &self.queues {
            match self.tree.text(&path(queue)) {
                Ok(Some(text)) => masks.push((path(queue), text)),
                Ok(None) => {}
                Err(unread) => return finding.unread(&unread),
            }
        }
        let Some((_, first)) = masks.first() else {
            return finding.none("this kernel or device has none");
        };
        let all = mask(0..self.processors);
        let value = if masks.iter().all(|it| is_empty_mask(&it.1)) {
            "off".to_owned()
        } else {
            format!("to processors {first} (mask)")
        };
        let off: Vec<_> =
            masks.iter().filter(|it| is_empty_mask(&it.1)).map(|it| it.0.clone()).collect();
        let cure = format!("echo {all} | tee {}", path("rx-*"));
        finding
            .warn_if(off.len() == masks.len(), value)
            .cured_by(cure)
            .with(off.into_iter().map(|path| Change { path, value: all.clone() }))
    }

    /// Whether the queues' interrupts go to different processors.
    fn interrupts(&self) -> Finding {
        let why = "queues whose interrupts all go to one processor are as good as one queue";
        let finding = self.finding("interrupts", "/proc/interrupts, /proc/irq", why);
        let text = self.tree.text_or_empty("/proc/interrupts");
        let of_queue = |irq: &String| {
            let line = text.lines().find(|line| {
                line.split_once(':').is_some_and(|(number, _)| number.trim() == irq)
            })?;
            let action = line.split_ascii_whitespace().last()?;
            // Of virtio `virtio2-input.0`, of others `mlx5_comp0@pci…`, `eth0-TxRx-0`, `mana_q0`.
            let is_one = ["input", "-rx", "TxRx", "comp", "mana_q", "-Tx-Rx-", "ntfy"];
            is_one.iter().any(|part| action.contains(part)).then(|| irq.clone())
        };
        // Virtual functions have their own, virtio those of the device that it sits on.
        let folders = ["device/msi_irqs", "device/../msi_irqs"];
        let names = folders.map(|it| self.tree.names(&format!("{}/{it}", self.folder)));
        let irqs = names.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        let irqs: Vec<String> = irqs.iter().filter_map(of_queue).take(QUEUES_MAX).collect();
        if irqs.len() < 2 || self.processors == 1 {
            return finding.none(match irqs.len() {
                0 => "the queues have none that is known".to_owned(),
                _ => "one queue, or one processor".to_owned(),
            });
        }
        let place = |irq: &String| {
            let file = |name: &str| self.tree.text_or_empty(&format!("/proc/irq/{irq}/{name}"));
            let effective = file("effective_affinity_list");
            if effective.is_empty() { file("smp_affinity_list") } else { effective }
        };
        let places: Vec<String> = irqs.iter().map(place).collect();
        let mut different = places.clone();
        different.sort();
        different.dedup();
        let single = facts::list(&different[0]).is_some_and(|it| it.len() == 1);
        let value = format!("{} queues, on processors {}", irqs.len(), different.join(", "));
        let each = irqs.iter().enumerate().take(4).map(|(at, irq)| {
            format!("echo {} > /proc/irq/{irq}/smp_affinity_list", at % self.processors)
        });
        let more = if irqs.len() > 4 { "; …" } else { "" };
        finding
            .warn_if(different.len() == 1 && single, value)
            .cured_by(format!("{}{more}", each.collect::<Vec<_>>().join("; ")))
    }

    /// What makes one pass through the stack of many packets.
    fn offloads(&self) -> Finding {
        let why = "packets of one flow that pass the stack as one: without them every datagram and \
                   segment costs a whole pass, several times the processor time";
        let source = format!("ethtool -k {} (netlink)", self.name);
        let finding = self.finding("offloads", &source, why);
        const WANTED: [(&str, &str); 3] = [
            ("generic-receive-offload", "gro"),
            ("generic-segmentation-offload", "gso"),
            ("tx-tcp-segmentation", "tso"),
        ];
        let known: Vec<(&str, Feature)> = WANTED
            .iter()
            .filter_map(|(name, short)| Some((*short, *self.settings.features.get(*name)?)))
            .collect();
        if known.is_empty() {
            return finding.none("the driver does not say");
        }
        let state = |it: &(&str, Feature)| {
            let word = match (it.1.is_on, it.1.is_fixed) {
                (true, _) => "on",
                (false, true) => "not there",
                (false, false) => "off",
            };
            format!("{} {word}", it.0)
        };
        let value = known.iter().map(state).collect::<Vec<_>>().join(", ");
        let off = known.iter().filter(|it| !it.1.is_on && !it.1.is_fixed);
        let off: Vec<String> = off.map(|it| format!("{} on", it.0)).collect();
        let cure = if off.is_empty() {
            String::new()
        } else {
            format!("ethtool -K {} {}", self.name, off.join(" "))
        };
        finding.warn_if(!off.is_empty(), value).cured_by(cure)
    }

    /// Packets that the card had no place for.
    fn drops(&self) -> Finding {
        let why = "packets that the card dropped because its ring was full: a burst that the \
                   processors took in too slowly";
        let folder = format!("{}/statistics", self.folder);
        let finding = self.finding("nic-drops", &folder, why);
        let count = |name: &str| self.tree.number(&format!("{folder}/{name}"));
        let read = count("rx_packets").and_then(|all| {
            let Some(all) = all else { return Ok(None) };
            let missed = count("rx_missed_errors")?.unwrap_or(0);
            Ok(Some((all, missed.saturating_add(count("rx_fifo_errors")?.unwrap_or(0)))))
        });
        let ring = self.settings.ring;
        finding.over(read, "no counters", |it, (taken, missed)| {
            let all = taken.saturating_add(missed);
            let mut value = format!("{} of {} packets dropped", group(missed), group(all));
            if let Some((now, most)) = ring {
                value = format!(
                    "{value}; ring of {}, up to {}",
                    group(u64::from(now)),
                    group(u64::from(most))
                );
            }
            let cure = match ring {
                Some((now, most)) if most > now => format!("ethtool -G {} rx {most}", self.name),
                _ => "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000"
                    .to_owned(),
            };
            it.warn_if(missed > 10 && float(missed) > float(all) / 1e5, value).cured_by(cure)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks_are_groups_of_32_processors() {
        for (processors, wanted) in [
            (1, "1"),
            (2, "3"),
            (31, "7fffffff"),
            (32, "ffffffff"),
            (36, "f,ffffffff"),
            (64, "ffffffff,ffffffff"),
        ] {
            assert_eq!(mask(0..processors), wanted, "{processors}");
        }
        assert_eq!(mask([0, 33, 64].into_iter()), "1,00000002,00000001");
        assert_eq!(mask(std::iter::empty()), "0");
    }
}
