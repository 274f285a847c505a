//! What the operator should hear before anything starts: default keys, and addresses that others
//! can reach.
//!
//! What is deliberately not here: mistakes, which stop the start (`source.rs`).

use std::net::IpAddr;

use super::Effective;
use super::value::Value;
use crate::options::{BUILT, Default, Kind};

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Fine on a developer's machine.
    Warn,
    /// Fine nowhere.
    Error,
}

/// One line for the operator. It names the setting that silences it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud.
    pub level: Level,
    /// The line, without secrets.
    pub text: String,
}

/// Everything worth a line, the worst first.
pub(super) fn notices(values: &Effective) -> Vec<Notice> {
    let mut lines = Vec::new();
    let keys = default_keys(values);
    let (address, port) = (values.address("socket.address"), values.number::<u16>("socket.port"));
    let open = !address.is_loopback();
    if open {
        let at = place(address);
        let mut text =
            format!("listening on {at}, port {port}: reachable from outside (`socket.address`)");
        let mut level = Level::Warn;
        if !keys.is_empty() {
            level = Level::Error;
            let names: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
            text = format!(
                "{text}, WITH DEFAULT KEYS: everyone who reaches it can act as any player or as \
                 the server; set {} or listen on 127.0.0.1",
                names.join(", "),
            );
        }
        lines.push(Notice { level, text });
    }
    let level = if open { Level::Error } else { Level::Warn };
    for key in keys {
        let text = format!("`{key}` has its default value, which everyone knows: set it");
        lines.push(Notice { level, text });
    }
    let metrics = values.address("metrics.address");
    if values.number::<u16>("metrics.prometheus_port") != 0 && !metrics.is_loopback() {
        let at = place(metrics);
        let text = format!("metrics are readable from outside, on {at} (`metrics.address`)");
        lines.push(Notice { level: Level::Warn, text });
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.level));
    lines
}

/// The secret options that hold the value that stands in the public table.
fn default_keys(values: &Effective) -> Vec<&'static str> {
    let is_default = |opt: &&crate::options::Opt| {
        let (Default::Fixed(default), Value::Text(text)) = (opt.default, &values.value(opt.name).0)
        else {
            return false;
        };
        opt.secret && matches!(opt.kind, Kind::Text { .. }) && text == default
    };
    BUILT.iter().filter(is_default).map(|opt| opt.name).collect()
}

fn place(address: IpAddr) -> String {
    if address.is_unspecified() {
        format!("every address of this machine ({address})")
    } else {
        address.to_string()
    }
}
