//! What the operator should hear before anything starts: default keys, addresses that others can
//! reach, and options of Nakama that have no effect here. Every line says what to do.
//!
//! What is deliberately not here: mistakes, which stop the start (`source.rs`).

use std::net::IpAddr;

use super::source::Source;
use super::value::OptionValue;
use super::{Effective, Ignored};
use crate::options::{BUILT, Default, Kind};

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know; nothing has to be done now.
    Note,
    /// Something does not do what the configuration says, or others can reach more than usual.
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
    let keys: Vec<_> = default_keys(values).iter().map(|key| format!("`{key}`")).collect();
    let keys = keys.join(", ");
    let (address, port) = (values.address("socket.address"), values.number::<u16>("socket.port"));
    let at = place(address);
    let is_open = !address.is_loopback();
    if is_open && keys.is_empty() {
        let text =
            format!("listening on {at}, port {port}: reachable from outside (`socket.address`)");
        lines.push(Notice { level: Level::Warn, text });
    } else if is_open {
        let text = format!(
            "listening on {at}, port {port}, WITH DEFAULT KEYS: everyone who reaches it can act as \
             any player or as the server. Set {keys} (`throng keys` makes a file of them), or \
             listen on 127.0.0.1 (`socket.address`)"
        );
        lines.push(Notice { level: Level::Error, text });
    } else if !keys.is_empty() {
        let text = "default keys are in use: fine while only this machine reaches the server; \
                    before others do, `throng keys` makes a file of new ones"
            .to_owned();
        lines.push(Notice { level: Level::Note, text });
    }
    let metrics = values.address("metrics.address");
    if values.number::<u16>("metrics.prometheus_port") != 0 && !metrics.is_loopback() {
        let at = place(metrics);
        let text = format!("metrics are readable from outside, on {at} (`metrics.address`)");
        lines.push(Notice { level: Level::Warn, text });
    }
    lines.extend(of_fetch(values).map(|text| Notice { level: Level::Warn, text }));
    lines.extend(without_effect(&values.ignored));
    lines.sort_by_key(|line| std::cmp::Reverse(line.level));
    lines
}

/// Options of `nk.http_request` that others defeat.
fn of_fetch(values: &Effective) -> Option<String> {
    let is_set = |name: &str| values.source(name) != Source::Default;
    if !values.switch("fetch.enabled") {
        let of_fetch = BUILT.iter().map(|opt| opt.name).filter(|it| it.starts_with("fetch."));
        let names: Vec<_> = of_fetch
            .filter(|name| *name != "fetch.enabled" && is_set(name))
            .map(|name| format!("`{name}` ({})", values.source(name)))
            .collect();
        let has = if names.len() == 1 { "has" } else { "have" };
        let text = format!(
            "{} {has} no effect as long as `fetch.enabled` is false: nk.http_request is an error",
            names.join(", ")
        );
        return (!names.is_empty()).then_some(text);
    }
    let (request, call) = ("fetch.timeout_max_ms", "runtime.call_wait_max_ms");
    let (request_ms, call_ms) = (values.number::<u64>(request), values.number::<u64>(call));
    (request_ms > call_ms).then(|| {
        format!(
            "`{request}` ({request_ms}, {}) is more than `{call}` ({call_ms}, {}): a call that waits for so \
             long a request is ended before the script hears of it",
            values.source(request),
            values.source(call)
        )
    })
}

/// A line for each reason for which options have no effect, with their names and places.
fn without_effect(ignored: &[Ignored]) -> Vec<Notice> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for Ignored { name, from, why } in ignored {
        let (why, name) = (why.to_string(), format!("`{name}` ({from})"));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let notice = |(why, names): (String, Vec<String>)| {
        let has = if names.len() == 1 { "has" } else { "have" };
        let text = format!("{} {has} no effect: {why}", names.join(", "));
        Notice { level: Level::Warn, text }
    };
    reasons.into_iter().map(notice).collect()
}

/// The secret options that hold the value that stands in the public table.
fn default_keys(values: &Effective) -> Vec<&'static str> {
    let is_default = |opt: &&crate::options::Opt| {
        let (Default::Fixed(default), OptionValue::Text(text)) =
            (opt.default, &values.value(opt.name).0)
        else {
            return false;
        };
        is_key(opt) && text == default
    };
    BUILT.iter().filter(is_default).map(|opt| opt.name).collect()
}

/// Whether an option is a key, as against a list of secrets.
pub fn is_key(opt: &crate::options::Opt) -> bool {
    opt.secret && matches!(opt.kind, Kind::Text { .. })
}

fn place(address: IpAddr) -> String {
    if address.is_unspecified() {
        format!("every address of this machine ({address})")
    } else {
        address.to_string()
    }
}
