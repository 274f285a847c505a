//! Paths around the host's virtual switch that are there and not used: virtual functions (SR-IOV)
//! under Azure's synthetic card, the cards that clouds offer instead of slow ones, virtual functions
//! that a host's card could give to its guests.
//!
//! Traffic of a virtual function is counted twice by Linux, at the function and at the synthetic
//! card, which shows whether it is used. What a cloud's own interface says is not asked.
//!
//! Source: Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst and
//! Documentation/PCI/pci-iov-howto.rst of Linux; the clouds' pages on enhanced and accelerated
//! networking.

use super::interface::{CLASS, driver, interfaces};
use super::tree::Tree;
use super::{Finding, Group};
use crate::measure::number::{float, group};

/// Packets from which on a share of them means something.
const PACKETS_LEAST: u64 = 10_000;
/// Drivers of virtual functions that clouds give.
const FUNCTIONS: [&str; 6] = ["mlx4_core", "mlx4_en", "mlx5_core", "mana", "ixgbevf", "iavf"];
/// Devices of guests on this machine, by the beginning of their names.
const GUESTS: [&str; 3] = ["vnet", "tap", "fwpr"];

const WHY: &str = "the path past the host's virtual switch: a fraction of the latency, jitter and \
                   processor time; in T. Arora's measurement on Azure a mean of 521 ms became 125 ms";

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    let names = interfaces(tree);
    let of = |name: &String| {
        let finding = Finding::of(
            format!("accelerated-path:{name}"),
            Group::Interfaces,
            format!("{CLASS}/{name}/device/driver"),
            WHY,
        );
        let Some(driver) = driver(tree, name) else {
            return finding.none("no device: a virtual interface");
        };
        match &*driver {
            "hv_netvsc" => synthetic(tree, name, finding),
            "virtio_net" => virtio(tree, finding),
            "vif" | "xen-netfront" | "e1000" | "e1000e" | "8139cp" | "vmxnet3" => {
                emulated(tree, &driver, finding)
            }
            driver => card(tree, name, driver, finding),
        }
    };
    names.iter().map(of).collect()
}

/// Azure and Hyper-V: the function is a device below the synthetic one.
fn synthetic(tree: &Tree, name: &str, finding: Finding) -> Finding {
    let function = tree
        .names(&format!("{CLASS}/{name}"))
        .into_iter()
        .find_map(|it| it.strip_prefix("lower_").map(str::to_owned));
    let address = tree.text_or_empty(&format!("{CLASS}/{name}/address"));
    let is_function = |other: &String| {
        let theirs = tree.text_or_empty(&format!("{CLASS}/{other}/address"));
        let has_driver = driver(tree, other).is_some_and(|it| FUNCTIONS.contains(&&*it));
        other != name && theirs == address && has_driver
    };
    let Some(function) = function else {
        // The function may be there without having been joined.
        return match tree.names(CLASS).into_iter().find(is_function) {
            Some(stray) => finding
                .warn(format!(
                    "the virtual function {stray} is there and not joined: no traffic takes it"
                ))
                .cured_by(format!(
                    "ip link set {stray} up # a rule of udev or NetworkManager keeps it apart"
                )),
            None => finding
                .warn("hv_netvsc without a virtual function: accelerated networking is off")
                .cured_by(
                    "az network nic update --name NIC --resource-group GROUP \
                 --accelerated-networking true # with the machine deallocated",
                ),
        };
    };
    let state = tree.text_or_empty(&format!("{CLASS}/{function}/operstate"));
    if state == "down" {
        return finding
            .warn(format!(
                "the virtual function {function} is down: all traffic takes the slow path"
            ))
            .cured_by(format!("ip link set {function} up"));
    }
    let packets = |of: &str| -> u64 {
        let count = |what: &str| {
            tree.number(&format!("{CLASS}/{of}/statistics/{what}")).ok().flatten().unwrap_or(0)
        };
        count("rx_packets").saturating_add(count("tx_packets"))
    };
    let (fast, all) = (packets(&function), packets(name));
    let is_little = all > PACKETS_LEAST && float(fast) < 0.5 * float(all);
    let value =
        format!("{} of {} packets took the virtual function {function}", group(fast), group(all));
    finding.warn_if(is_little, value).cured_by(if is_little {
        format!("ip link set {function} down; ip link set {function} up # then look whether its share grows")
    } else {
        String::new()
    })
}

fn vendor(tree: &Tree) -> String {
    let text = |name: &str| tree.text_or_empty(&format!("/sys/class/dmi/id/{name}"));
    format!("{} {}", text("sys_vendor"), text("product_name"))
}

fn virtio(tree: &Tree, finding: Finding) -> Finding {
    if vendor(tree).contains("Google") {
        return finding.warn("virtio_net, where gVNIC is offered").cured_by(
            "gcloud compute instances create NAME --network-interface=nic-type=GVNIC # a new machine, \
             whose image has GVNIC among its guest features",
        );
    }
    finding.none("virtio_net: whether the host could give a virtual function is not known here")
}

fn emulated(tree: &Tree, driver: &str, finding: Finding) -> Finding {
    let value = format!("{driver}: an emulated or paravirtual card");
    if vendor(tree).contains("Amazon") {
        return finding.warn(format!("{value}, where ENA is offered")).cured_by(
            "aws ec2 modify-instance-attribute --instance-id ID --ena-support # with the \
             machine stopped",
        );
    }
    match driver {
        // Real machines have these cards too.
        "e1000e" => finding.ok(driver),
        _ => finding.none(format!("{value}; the host decides")),
    }
}

/// A card or function that is used directly; of a host's own card, whether guests could have its
/// functions.
fn card(tree: &Tree, name: &str, driver: &str, finding: Finding) -> Finding {
    let folder = format!("{CLASS}/{name}/device");
    let number = |file: &str| tree.number(&format!("{folder}/{file}")).ok().flatten();
    let (Some(most @ 1..), Some(now)) = (number("sriov_totalvfs"), number("sriov_numvfs")) else {
        return finding.ok(driver);
    };
    let is_guest = |it: &String| GUESTS.iter().any(|start| it.starts_with(start));
    let guests = tree.names(CLASS).iter().filter(|it| is_guest(it)).count();
    let value = format!(
        "{driver}; {now} of {most} virtual functions given out, {guests} guests behind the software switch"
    );
    finding
        .warn_if(now == 0 && guests > 0, value)
        .cured_by(format!("echo {} > {folder}/sriov_numvfs", most.min(guests.max(1) as u64)))
}
