//! Who sends and who takes in: transmit queues by processor (XPS), and packets to the processor where
//! their socket is read (RFS).
//!
//! Source: Documentation/networking/scaling.rst of Linux.

use super::facts::{self, sysctl_path};
use super::interface::{CLASS, interfaces, is_empty_mask, mask};
use super::tree::Tree;
use super::{Change, Finding, Group};
use crate::measure::number::group;

/// Flows that are followed on the whole machine.
const FLOWS: u64 = 32_768;

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    let names = interfaces(tree);
    let mut found: Vec<Finding> = names.iter().map(|name| xps(tree, name)).collect();
    found.push(rfs(tree, &names));
    found
}

fn queues(tree: &Tree, interface: &str, start: &str) -> Vec<String> {
    let folder = format!("{CLASS}/{interface}/queues");
    let names = tree.names(&folder).into_iter().filter(|it| it.starts_with(start));
    names.map(|it| format!("{folder}/{it}")).collect()
}

fn xps(tree: &Tree, name: &str) -> Finding {
    let why = "transmit packet steering: a processor that has a transmit queue of its own sends \
               without waiting for the lock of another's";
    let source = format!("{CLASS}/{name}/queues/tx-*/xps_cpus");
    let finding = Finding::of(format!("xps:{name}"), Group::Interfaces, &*source, why);
    let processors = facts::online(tree).len().max(1);
    let masks: Vec<(String, String)> = queues(tree, name, "tx-")
        .into_iter()
        .filter_map(|queue| {
            let path = format!("{queue}/xps_cpus");
            let text = tree.text(&path).ok().flatten()?;
            Some((path, text))
        })
        .collect();
    if masks.len() < 2 || processors < 2 {
        return finding.none("one queue, or one processor");
    }
    let is_off = masks.iter().all(|it| is_empty_mask(&it.1));
    let count = masks.len();
    // Each processor to one queue, in turns.
    let of_queue = |queue: usize| mask((0..processors).filter(|cpu| cpu % count == queue));
    let changes: Vec<Change> = masks
        .into_iter()
        .enumerate()
        .map(|(at, (path, _))| Change { path, value: of_queue(at) })
        .collect();
    let each = changes.iter().take(4).map(|it| format!("echo {} > {}", it.value, it.path));
    let more = if changes.len() > 4 { "; …" } else { "" };
    let cure = format!("{}{more}", each.collect::<Vec<_>>().join("; "));
    let queues = format!("{count} transmit queues");
    let value = if is_off { format!("off, with {queues}") } else { format!("on, with {queues}") };
    finding.warn_if(is_off, value).cured_by(cure).with(changes)
}

fn rfs(tree: &Tree, names: &[String]) -> Finding {
    const NAME: &str = "net.core.rps_sock_flow_entries";
    let path = sysctl_path(NAME);
    let why = "receive flow steering: where the kernel spreads the packets, it can send each to the \
               processor on which its socket is read, instead of to any";
    let finding = Finding::of("rfs", Group::Interfaces, &*path, why);
    // It only chooses among the processors of RPS.
    let steered: Vec<String> = names
        .iter()
        .flat_map(|name| queues(tree, name, "rx-"))
        .filter(|queue| !is_empty_mask(&tree.text_or_empty(&format!("{queue}/rps_cpus"))))
        .collect();
    finding.over(tree.number(&path), "this kernel or network namespace has none", |it, entries| {
        if steered.is_empty() {
            return it.none("the kernel spreads no packets (rps)");
        }
        let each = FLOWS / (steered.len() as u64);
        let mut changes = vec![Change { path: path.clone(), value: FLOWS.to_string() }];
        let flows = steered.iter().map(|queue| format!("{queue}/rps_flow_cnt"));
        changes.extend(flows.map(|path| Change { path, value: each.to_string() }));
        let value =
            if entries == 0 { "off".to_owned() } else { format!("{} flows", group(entries)) };
        it.warn_if(entries == 0, value)
            .cured_by(format!(
                "sysctl -w {NAME}={FLOWS}; echo {each} | tee {CLASS}/*/queues/rx-*/rps_flow_cnt"
            ))
            .with(changes)
    })
}
