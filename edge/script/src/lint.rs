//! What an author should hear before a player does: functions that are not there, typos, match
//! handlers that lack callbacks, modules that do nothing.
//!
//! In: the facts of every module's text (`facts`), and the tables that match modules returned. Out:
//! [`Finding`]s in the order of the files. Nothing here stops a server. Modules that did not load
//! have no tables: then their text alone is looked at.

mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use game::guest::Finding;
use game::host::{FunctionKind, find, functions};
use game::nearest::did_you_mean;
use mlua::{Table, Value as LuaValue};

use facts::{Facts, Form, Use};

pub(crate) use facts::{Facts as ModuleFacts, read};

/// Places that are named for one finding; of the others there is a number.
const PLACES_NAMED_MAX: usize = 3;

/// What the dispatcher of a match can do. Source: nakama 3.40, `server/runtime_lua_match_core.go`.
const DISPATCHER: &[&str] =
    &["broadcast_message", "broadcast_message_deferred", "match_kick", "match_label_update"];

/// The callbacks of a match and how many arguments each is given.
/// Source: nakama 3.40, `server/runtime_lua_match_core.go`.
const CALLBACKS: &[(&str, u8)] = &[
    ("match_init", 2),
    ("match_join_attempt", 6),
    ("match_join", 5),
    ("match_leave", 5),
    ("match_loop", 5),
    ("match_terminate", 5),
    (SIGNAL, 5),
];

/// The callback without which signals are answered all the same.
const SIGNAL: &str = "match_signal";

/// The callbacks that no match can do without; of the others the prelude has defaults.
const NEEDED: &[&str] = &["match_init", "match_loop"];

/// Modules that `require` finds without a file.
const OWN_MODULES: &[&str] =
    &["nakama", "string", "table", "math", "os", "bit32", "_G", "utf8", "package"];

/// A match module as it stands after loading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handler {
    missing: Vec<&'static str>,
    /// What is odd about a callback that is there.
    odd: Vec<String>,
}

impl Handler {
    /// What the value that a module returned says of a match; `None` if it is no match module.
    pub(crate) fn of(returned: &LuaValue) -> Option<Self> {
        let LuaValue::Table(callbacks) = returned else { return None };
        let mut handler = Self::default();
        let (mut is_handler, mut left_out) = (false, Vec::new());
        for &(name, given) in CALLBACKS {
            match callback(callbacks, name) {
                Some(takes) => {
                    is_handler = true;
                    if takes > given {
                        handler.odd.push(format!(
                            "{name} takes {takes} arguments and is given {given}: is it written \
                             with a colon instead of a point?"
                        ));
                    }
                }
                None if NEEDED.contains(&name) => handler.missing.push(name),
                None => left_out.push(name),
            }
        }
        if handler.missing.is_empty() && !left_out.is_empty() {
            let mut instead = Vec::new();
            if left_out.iter().any(|name| *name != SIGNAL) {
                instead.push("joins are let in, the state stays as it is");
            }
            if left_out.contains(&SIGNAL) {
                instead.push("signals are answered with an empty text");
            }
            handler.odd.push(format!(
                "lacks {}, which Nakama asks for: {}",
                left_out.join(", "),
                instead.join(", ")
            ));
        }
        is_handler.then_some(handler)
    }
}

/// How many arguments a callback takes; `None` if there is none.
fn callback(callbacks: &Table, name: &str) -> Option<u8> {
    match callbacks.raw_get::<LuaValue>(name) {
        Ok(LuaValue::Function(function)) => Some(function.info().num_params),
        _ => None,
    }
}

/// Findings about all modules: `(name, file, facts)` in the order of their names, and the match
/// modules among them; `None` if they did not load.
pub(crate) fn findings(
    modules: &[(&str, &str, &Facts)],
    handlers: Option<&BTreeMap<String, Handler>>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    members(modules, &mut found);
    dispatchers(modules, &mut found);
    requires(modules, &mut found);
    matches(modules, handlers, &mut found);
    for (_, file, facts) in modules {
        if !facts.acts && !facts.returns {
            let cure = match &facts.table {
                Some(table) => format!("is `return {table}` missing at its end?"),
                // What the module would have done if it had loaded nobody knows.
                None if handlers.is_none() => continue,
                None => "it can be removed, or a registration or `return` is missing".to_owned(),
            };
            let text = format!("{file}: registers nothing and returns nothing: {cure}");
            found.push(Finding { is_certain: false, text });
        }
    }
    found
}

/// The places of one name: `a.lua:3: `, and where else.
#[derive(Default)]
struct Places {
    first: Vec<String>,
    count: usize,
    is_called: bool,
}

impl Places {
    fn add(&mut self, file: &str, line: u32, form: Form) {
        self.count += 1;
        self.is_called |= matches!(form, Form::Call | Form::Colon);
        let place = format!("{file}:{line}");
        if self.first.len() < PLACES_NAMED_MAX && !self.first.contains(&place) {
            self.first.push(place);
        }
    }

    /// `text` with the first place in front and the others behind.
    fn finding(&self, is_certain: bool, text: &str) -> Finding {
        let (first, others) = self.first.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        let mut line = format!("{first}: {text}");
        let more = self.count - self.first.len().min(self.count);
        let mut others = others.to_vec();
        if more > 0 {
            others.push(format!("{more} more"));
        }
        if !others.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(line, " (also {})", others.join(", "));
        }
        Finding { is_certain, text: line }
    }
}

/// Where each name is used that `is_wanted`, in the order of first use.
fn gather<'a>(
    modules: &[(&str, &'a str, &'a Facts)],
    uses: fn(&Facts) -> &[Use],
    is_wanted: impl Fn(&Use) -> bool,
) -> Vec<(&'a str, Places)> {
    let mut names: Vec<(&str, Places)> = Vec::new();
    let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
    for &(_, file, facts) in modules {
        for it in uses(facts).iter().filter(|it| is_wanted(it)) {
            let index = *index_of.entry(&it.name).or_insert_with(|| {
                names.push((&it.name, Places::default()));
                names.len() - 1
            });
            if let Some((_, places)) = names.get_mut(index) {
                places.add(file, it.line, it.form);
            }
        }
    }
    names
}

/// Functions of `nk` that are not built, or that there are not; and calls with a colon.
fn members(modules: &[(&str, &str, &Facts)], found: &mut Vec<Finding>) {
    let uses: fn(&Facts) -> &[Use] = |facts| &facts.nk;
    // What some module puts into `nk` itself is there.
    let defined: BTreeSet<&str> = modules
        .iter()
        .flat_map(|(_, _, facts)| &facts.nk)
        .filter(|it| it.form == Form::Define)
        .map(|it| it.name.as_str())
        .collect();
    for (name, places) in gather(modules, uses, |it| !defined.contains(it.name.as_str())) {
        match find(name).map(|function| function.kind) {
            Some(FunctionKind::Built(_) | FunctionKind::Language(_)) => {}
            Some(FunctionKind::Missing) => {
                let text = format!("nk.{name} is not built yet: calling it is an error");
                found.push(places.finding(false, &text));
            }
            None => {
                let known = functions().map(|function| function.name);
                let text =
                    format!("nk.{name}: Nakama has no such function{}", did_you_mean(name, known));
                found.push(places.finding(places.is_called, &text));
            }
        }
    }
    for (name, places) in gather(modules, uses, |it| it.form == Form::Colon) {
        let text = format!(
            "nk:{name} is written with a colon, which passes `nk` as the first argument: write \
             nk.{name}"
        );
        found.push(places.finding(false, &text));
    }
}

/// What matches ask of a dispatcher that it cannot do.
fn dispatchers(modules: &[(&str, &str, &Facts)], found: &mut Vec<Finding>) {
    let uses: fn(&Facts) -> &[Use] = |facts| &facts.dispatcher;
    let is_unknown = |it: &Use| it.form == Form::Call && !DISPATCHER.contains(&it.name.as_str());
    for (name, places) in gather(modules, uses, is_unknown) {
        let meant = did_you_mean(name, DISPATCHER.iter().copied());
        let text = format!("dispatcher.{name}: a dispatcher has no such function{meant}");
        found.push(places.finding(true, &text));
    }
    let is_colon = |it: &Use| it.form == Form::Colon && DISPATCHER.contains(&it.name.as_str());
    for (name, places) in gather(modules, uses, is_colon) {
        let text = format!(
            "dispatcher:{name} is written with a colon, which passes the dispatcher as the first \
             argument: write dispatcher.{name}"
        );
        found.push(places.finding(true, &text));
    }
}

/// Modules that are required and are not there; one that is required at start has failed already.
fn requires(modules: &[(&str, &str, &Facts)], found: &mut Vec<Finding>) {
    let is_there = |wanted: &str| {
        OWN_MODULES.contains(&wanted) || modules.iter().any(|(name, ..)| *name == wanted)
    };
    for (_, file, facts) in modules {
        for (wanted, line) in facts.requires.iter().filter(|(wanted, _)| !is_there(wanted)) {
            let meant = did_you_mean(wanted, modules.iter().map(|(name, ..)| *name));
            let text = format!("{file}:{line}: there is no module \"{wanted}\" to require{meant}");
            found.push(Finding { is_certain: false, text });
        }
    }
}

/// Match modules that cannot run a match, and matches of modules that are none.
fn matches(
    modules: &[(&str, &str, &Facts)],
    handlers: Option<&BTreeMap<String, Handler>>,
    found: &mut Vec<Finding>,
) {
    let creates = || {
        modules.iter().flat_map(|(_, file, facts)| facts.creates.iter().map(move |it| (file, it)))
    };
    for (name, file, _) in modules {
        let Some(handler) = handlers.and_then(|all| all.get(*name)) else { continue };
        if !handler.missing.is_empty() {
            let missing = handler.missing.join(", ");
            // A table of callbacks may also be the base of others.
            let is_certain = creates().any(|(_, (created, _))| created == name);
            let text = format!("{file}: no match can run with this module: it lacks {missing}");
            found.push(Finding { is_certain, text });
        }
        for odd in &handler.odd {
            found.push(Finding { is_certain: false, text: format!("{file}: {odd}") });
        }
    }
    for (file, (created, line)) in creates() {
        let text = if modules.iter().all(|(name, ..)| name != created) {
            let meant = did_you_mean(created, modules.iter().map(|(name, ..)| *name));
            format!("{file}:{line}: nk.match_create: there is no module \"{created}\"{meant}")
        } else if handlers.is_some_and(|all| !all.contains_key(created)) {
            format!(
                "{file}:{line}: nk.match_create: the module \"{created}\" returns no table with \
                 match_init and the other callbacks"
            )
        } else {
            continue;
        };
        found.push(Finding { is_certain: true, text });
    }
}
