//! Which calls and messages have hooks, so that cores know without asking the scripts; and what an
//! author should be told at start about hooks that will never run.
//!
//! Made once by the wiring from what the modules registered. Running hooks is the workers' part
//! (`worker/hooks.rs`), waiting for them the core's (`core/hooks.rs`).

use std::collections::BTreeSet;

use game::api::{BUILT, NOT_BUILT};
use game::events::EventKind;
use game::guest::{GuestVersion, Registered};
use game::nearest::nearest;
use game::rules::ZoneRule;
use wire::nakama::realtime;

use crate::mail::{HookStep, Work};

/// Realtime messages that are handled. Hooks of others run, too, but what follows them is the
/// answer that the message is not implemented.
const REALTIME_BUILT: &[&str] = &[
    "match_create",
    "match_data_send",
    "match_join",
    "match_leave",
    "ping",
    "pong",
    "status_follow",
    "status_unfollow",
    "status_update",
];

/// The names with hooks.
#[derive(Debug, Default)]
pub struct Hooks {
    /// The version of the guest code whose they are.
    pub(crate) version: GuestVersion,
    /// Whether any realtime message has one: the only thing that the hot path looks at.
    pub(crate) has_realtime: bool,
    before_realtime: Vec<&'static str>,
    after_realtime: Vec<&'static str>,
    before_api: Vec<&'static str>,
    after_api: Vec<&'static str>,
    /// Whether there is a function to run at shutdown.
    pub(crate) has_shutdown: bool,
    /// The kinds of events that have a handler.
    events: Vec<EventKind>,
    has_rules: bool,
    /// RPC functions that run at callers alone ([`Registered::blocking`]).
    blocking_rpc: BTreeSet<String>,
    /// Those of the above that do.
    blocking_before_api: Vec<&'static str>,
    blocking_after_api: Vec<&'static str>,
}

impl Hooks {
    /// The names with hooks among those that the modules registered.
    #[must_use]
    pub fn new(registered: &Registered) -> Self {
        let api = |names: &[String]| known(names.iter().map(String::as_str), BUILT);
        let realtime = |names: &[String]| {
            known(names.iter().filter_map(|id| realtime_name(id)), realtime::NAMES)
        };
        let blocking = |kind: &'static str| {
            registered.blocking.iter().filter_map(move |name| name.strip_prefix(kind))
        };
        let (before, after) = (&registered.before, &registered.after);
        let (before_realtime, after_realtime) = (realtime(before), realtime(after));
        Self {
            version: GuestVersion::FIRST,
            has_realtime: !before_realtime.is_empty() || !after_realtime.is_empty(),
            before_realtime,
            after_realtime,
            before_api: api(before),
            after_api: api(after),
            has_shutdown: registered.events.iter().any(|event| event == "shutdown"),
            events: handled(registered).collect(),
            has_rules: registered.events.iter().any(|it| ZoneRule::named(it).is_some()),
            blocking_rpc: blocking("rpc ").map(str::to_owned).collect(),
            blocking_before_api: known(blocking("before "), BUILT),
            blocking_after_api: known(blocking("after "), BUILT),
        }
    }

    /// The same of a later version.
    #[must_use]
    pub fn of_version(self, version: GuestVersion) -> Self {
        Self { version, ..self }
    }

    /// Whether there are handlers of events.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether there is anything for the thread of events: handlers, or rules of the zone.
    #[must_use]
    pub(crate) fn needs_events_thread(&self) -> bool {
        self.has_events() || self.has_rules
    }

    /// Whether events of this kind have a handler.
    pub(crate) fn is_handled(&self, kind: EventKind) -> bool {
        self.events.contains(&kind)
    }

    /// Whether a core's companion may do this, and the batch a function that writes, because its language
    /// gives the thread back; the rest is for callers. Hooks of realtime messages are, too: they run in the
    /// order of what they belong to.
    pub(crate) fn may_run_on_core(&self, work: &Work) -> bool {
        match work {
            Work::Rpc(job) => !self.blocking_rpc.contains(&job.id),
            Work::Hooked(hooked) => {
                let name = hooked.call.name();
                match hooked.step {
                    HookStep::Before => !self.blocking_before_api.contains(&name),
                    HookStep::After(_) => !self.blocking_after_api.contains(&name),
                    HookStep::Call => false,
                }
            }
            _ => false,
        }
    }

    /// Whether the API call of this name has a before-hook, and an after-hook.
    pub(crate) fn of_api(&self, name: &str) -> (bool, bool) {
        let has = |names: &[&str]| !names.is_empty() && names.contains(&name);
        (has(&self.before_api), has(&self.after_api))
    }

    /// Whether the realtime message of this name has a before-hook.
    pub(crate) fn is_before(&self, name: &str) -> bool {
        self.before_realtime.contains(&name)
    }

    /// Whether the realtime message of this name has an after-hook.
    pub(crate) fn is_after(&self, name: &str) -> bool {
        self.after_realtime.contains(&name)
    }
}

/// The kinds of events that have a handler.
pub(crate) fn handled(registered: &Registered) -> impl Iterator<Item = EventKind> + '_ {
    let has = |kind: &EventKind| registered.events.iter().any(|event| event == kind.handler());
    EventKind::ALL.into_iter().filter(has)
}

/// The id under which scripts registered the hooks of a realtime message.
pub(crate) fn realtime_id(name: &str) -> String {
    format!("rt:{}", name.replace('_', ""))
}

fn realtime_name(id: &str) -> Option<&str> {
    id.strip_prefix("rt:").filter(|name| *name != "rpc")
}

/// Those of `known` that are among the registered lower-case names.
fn known<'a>(
    names: impl Iterator<Item = &'a str>,
    known: &'static [&'static str],
) -> Vec<&'static str> {
    names.filter_map(|name| find(name, known)).collect()
}

fn find(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    known.iter().copied().find(|known| same(known, name))
}

/// Whether a registered lower-case name means `known`, in CamelCase or snake_case.
fn same(known: &str, name: &str) -> bool {
    let letters = known.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase());
    letters.eq(name.bytes())
}

/// A line for every registered hook and event that will never run, with the place where it is
/// defined and the reason; with `shutdown_grace_s` 0 that is the one for the shutdown as well, and without a
/// zone are its rules. Nakama
/// starts without a word about names that it does not know.
#[must_use]
pub fn warnings(registered: &Registered, (shutdown_grace_s, has_zone): (u32, bool)) -> Vec<String> {
    let hooks = [("before", &registered.before), ("after", &registered.after)];
    let hooks = hooks.into_iter().flat_map(|(kind, ids)| ids.iter().map(move |id| (kind, id)));
    let mut lines = Vec::new();
    for (kind, id) in hooks {
        if let Some(reason) = reason_of_hook(id) {
            let place = place(registered, &format!("{kind} {id}"));
            lines.push(format!("{place}the {kind}-hook of {id} is registered, but {reason}"));
        }
    }
    for event in &registered.events {
        let place = place(registered, event);
        let (name, reason) = match event.as_str() {
            "shutdown" if shutdown_grace_s > 0 => continue,
            event if EventKind::ALL.iter().any(|kind| kind.handler() == event) => continue,
            rule if ZoneRule::named(rule).is_some() => {
                if has_zone {
                    continue;
                }
                (rule, "there is no zone (`world.enabled` is false)")
            }
            "shutdown" => ("register_shutdown", "shutdown_grace_sec is 0"),
            other => (other, "not implemented in throng yet"),
        };
        lines.push(format!("{place}{name} is registered, but {reason}: it never runs"));
    }
    lines
}

fn place(registered: &Registered, what: &str) -> String {
    let found = registered.locations.iter().find(|(name, _)| name == what);
    found.map(|(_, location)| format!("{location}: ")).unwrap_or_default()
}

/// Why a hook never runs; `None` if it does.
fn reason_of_hook(id: &str) -> Option<String> {
    if let Some(name) = id.strip_prefix("rt:") {
        if name == "rpc" {
            return Some("RPC calls have no hooks".to_owned());
        }
        return match find(name, realtime::NAMES) {
            None => {
                let meant = meant(name, realtime::NAMES.iter().copied());
                Some(format!("there is no such message: it never runs{meant}"))
            }
            Some(known) if REALTIME_BUILT.contains(&known) => None,
            Some(known) => Some(format!("{known} is not implemented in throng yet")),
        };
    }
    if find(id, BUILT).is_some() {
        return None;
    }
    Some(match find(id, NOT_BUILT) {
        Some(known) => format!("{known} is not implemented in throng yet: it never runs"),
        None => {
            let meant = meant(id, BUILT.iter().chain(NOT_BUILT).copied());
            format!("there is no such call: it never runs{meant}")
        }
    })
}

/// The name that may have been meant. Registered names are in lower case, so that is compared.
fn meant(id: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.map(|it| (it.replace('_', "").to_ascii_lowercase(), it)).collect();
    let lower = nearest(id, known.iter().map(|(lower, _)| lower.as_str()));
    let found = known.iter().find(|(it, _)| Some(it.as_str()) == lower);
    found.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use game::guest::Registered;

    use super::{EventKind, Hooks, realtime_id, warnings};

    fn registered(before: &[&str], after: &[&str], events: &[&str]) -> Registered {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Registered {
            before: owned(before),
            after: owned(after),
            events: owned(events),
            locations: vec![("before validatepurchaseapple".to_owned(), "a.lua:3".to_owned())],
            ..Registered::default()
        }
    }

    #[test]
    fn names_are_found_whatever_their_spelling() {
        let hooks = Hooks::new(&registered(
            &["authenticatedevice", "rt:matchdatasend", "rt:rpc", "nonsense"],
            &["getusers", "rt:ping"],
            &["shutdown", "event_session_end"],
        ));
        assert!(hooks.has_realtime && hooks.has_shutdown && hooks.has_events());
        assert!(hooks.is_handled(EventKind::SessionEnd) && !hooks.is_handled(EventKind::Custom));
        assert_eq!(hooks.of_api("AuthenticateDevice"), (true, false));
        assert_eq!(hooks.of_api("GetUsers"), (false, true));
        assert_eq!(hooks.of_api("GetAccount"), (false, false));
        assert!(hooks.is_before("match_data_send") && !hooks.is_after("match_data_send"));
        assert!(hooks.is_after("ping") && !hooks.is_before("ping"));
        assert!(!hooks.is_before("rpc"));
        assert_eq!(realtime_id("match_data_send"), "rt:matchdatasend");
        let none = Hooks::new(&registered(&["rt:rpc", "getaccount"], &["rt:nothing"], &[]));
        assert!(!none.has_realtime && !none.has_shutdown && !none.has_events());
    }

    #[test]
    fn what_never_runs_is_told_with_its_place() {
        for (before, after, events, expected) in [
            (
                &["getaccount", "rt:matchjoin", "rt:ping"][..],
                &["rt:pong"][..],
                &["shutdown", "event", "event_session_start", "event_session_end", "zone_hit"][..],
                &[][..],
            ),
            (
                &["validatepurchaseapple", "addfriend"],
                &["validatepurchasegoogle"],
                &["matchmaker_matched"],
                &[
                    "a.lua:3: the before-hook of validatepurchaseapple is registered, but ValidatePurchaseApple is not implemented in throng yet: it never runs",
                    "the before-hook of addfriend is registered, but there is no such call: it never runs; did you mean `AddFriends`?",
                    "the after-hook of validatepurchasegoogle is registered, but ValidatePurchaseGoogle is not implemented in throng yet: it never runs",
                    "matchmaker_matched is registered, but not implemented in throng yet: it never runs",
                ],
            ),
            (
                &["rt:rpc", "rt:channeljoin", "rt:matchjump"],
                &[],
                &[],
                &[
                    "the before-hook of rt:rpc is registered, but RPC calls have no hooks",
                    "the before-hook of rt:channeljoin is registered, but channel_join is not implemented in throng yet",
                    "the before-hook of rt:matchjump is registered, but there is no such message: it never runs; did you mean `match_join`?",
                ],
            ),
        ] {
            assert_eq!(warnings(&registered(before, after, events), (1, true)), expected);
        }
        assert_eq!(
            warnings(&registered(&[], &[], &["shutdown"]), (0, true)),
            ["register_shutdown is registered, but shutdown_grace_sec is 0: it never runs"]
        );
        let rules = registered(&[], &[], &["zone_hit"]);
        assert_eq!(warnings(&rules, (1, true)), Vec::<String>::new());
        assert_eq!(
            warnings(&rules, (1, false)),
            [
                "zone_hit is registered, but there is no zone (`world.enabled` is false): it never runs"
            ]
        );
    }
}
