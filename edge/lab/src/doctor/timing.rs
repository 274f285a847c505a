//! How long packets are held back for the sake of fewer interrupts: by the card (coalescing), and by
//! the kernel (NAPI's timer).
//!
//! Source: ethtool(8), Documentation/networking/napi.rst of Linux.

use super::interface::{CLASS, interfaces};
use super::tree::Tree;
use super::{Change, Finding, Group};
use crate::measure::number::{group, time};

/// Microseconds that a packet may be held back: some per cent of a good round trip in a data centre.
const HELD_US_MAX: u64 = 100;

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    let of = |name: &String| [coalescing(tree, name), napi(tree, name)];
    interfaces(tree).iter().flat_map(of).collect()
}

fn coalescing(tree: &Tree, name: &str) -> Finding {
    let why = "the card waits so long for more packets before it interrupts: each player's input is \
               that much later";
    let source = format!("ethtool -c {name} (netlink)");
    let finding = Finding::of(format!("coalescing:{name}"), Group::Interfaces, source, why);
    match tree.ethtool(name).coalescing {
        None => finding.none("the driver does not say"),
        Some(it) if it.is_adaptive => finding.ok(format!("by load, {} µs now", it.rx_us)),
        Some(it) => finding
            .warn_if(u64::from(it.rx_us) > HELD_US_MAX, format!("{} µs", it.rx_us))
            .cured_by(format!("ethtool -C {name} adaptive-rx on # or rx-usecs 20")),
    }
}

fn napi(tree: &Tree, name: &str) -> Finding {
    let path = format!("{CLASS}/{name}/gro_flush_timeout");
    let why = "the kernel holds packets back so long to join them, and may leave interrupts off \
               meanwhile";
    let finding = Finding::of(format!("napi:{name}"), Group::Interfaces, &*path, why);
    let word = |file: &str| tree.text_or_empty(&format!("{CLASS}/{name}/{file}"));
    let threaded = if word("threaded") == "1" { ", in threads of its own" } else { "" };
    finding.over(tree.number(&path), "this kernel does not say", |it, ns| {
        let value = match ns {
            0 => format!("not held back{threaded}"),
            ns => {
                let deferred = word("napi_defer_hard_irqs").parse().unwrap_or(0_u64);
                format!("{}, {} interrupts left out{threaded}", time(ns), group(deferred))
            }
        };
        it.warn_if(ns > 1_000 * HELD_US_MAX, value)
            .cured_by(format!("echo 20000 > {path}"))
            .with([Change { path: path.clone(), value: "20000".to_owned() }])
    })
}
