//! Which runs stand together: sections by scenario and loop, columns by name and settings.

use super::{Run, Summary};
use crate::measure::number::group_f64;

/// Runs of one scenario in one kind of loop: times of the closed loop are never laid beside those
/// of the open one.
pub(crate) struct Section<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) title: &'a str,
    pub(crate) is_closed: bool,
    pub(crate) columns: Vec<Column<'a>>,
}

/// Rounds of one name with the same settings.
pub(crate) struct Column<'a> {
    /// The name given, and what tells it from columns of the same name.
    pub(crate) name: String,
    /// Never empty.
    pub(crate) runs: Vec<&'a Run>,
    /// Number of what was run on, the same in all sections; of the column's own name, if everything
    /// was run on one thing.
    pub(crate) side: usize,
    /// Its number among the columns of its section that have the same side.
    pub(crate) variant: usize,
    settings: Vec<Setting>,
}

/// One setting of a run, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    name: String,
    value: String,
    /// Whether figures of runs that differ in it cannot be divided by each other.
    is_load: bool,
}

/// Sections and columns in the order in which the runs were given.
pub(crate) fn sections(runs: &[Run]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for run in runs {
        let it = &run.summary;
        let is_closed = it.settings.is_closed();
        let at = sections
            .iter()
            .position(|section| section.scenario == it.scenario && section.is_closed == is_closed);
        let at = at.unwrap_or_else(|| {
            let (scenario, title) = (&*it.scenario, &*it.title);
            sections.push(Section { scenario, title, is_closed, columns: Vec::new() });
            sections.len() - 1
        });
        add(&mut sections[at].columns, run);
    }
    for section in &mut sections {
        section.tell_apart();
    }
    number_sides(&mut sections);
    sections
}

fn number_sides(sections: &mut [Section<'_>]) {
    fn number(name: &str, known: &mut Vec<String>) -> usize {
        known.iter().position(|it| it == name).unwrap_or_else(|| {
            known.push(name.to_owned());
            known.len() - 1
        })
    }
    let runs = || sections.iter().flat_map(|it| &it.columns).flat_map(|it| &it.runs);
    let has_several = runs().zip(runs().skip(1)).any(|(one, next)| one.name != next.name);
    let mut known = Vec::new();
    for section in sections {
        let mut columns_of: Vec<usize> = Vec::new();
        for column in &mut section.columns {
            let run = column.runs.first().map_or("", |run| &run.name);
            let name = if has_several { run } else { &column.name };
            column.side = number(name, &mut known);
            columns_of.resize(columns_of.len().max(column.side + 1), 0);
            column.variant = columns_of[column.side];
            columns_of[column.side] += 1;
        }
    }
}

fn add<'a>(columns: &mut Vec<Column<'a>>, run: &'a Run) {
    let settings = settings(&run.summary);
    let same = |column: &&mut Column<'_>| column.name == run.name && column.settings == settings;
    match columns.iter_mut().find(same) {
        Some(column) => column.runs.push(run),
        None => columns.push(Column {
            name: run.name.clone(),
            runs: vec![run],
            side: 0,
            variant: 0,
            settings,
        }),
    }
}

/// What a run was asked for. Two runs that differ in any of it are not rounds of one another.
fn settings(summary: &Summary) -> Vec<Setting> {
    let it = &summary.settings;
    let setting =
        |name: &str, value: String, is_load| Setting { name: name.to_owned(), value, is_load };
    let rate = it.rate.map_or("no rate".to_owned(), |rate| format!("rate {}/s", grouped(rate)));
    let rate = match it.rate_end {
        Some(end) => format!("{rate} to {}/s", grouped(end)),
        None => rate,
    };
    let scenario = match &*it.scenario_digest {
        "" => String::new(),
        digest => format!("scenario {digest}"),
    };
    let scheduling = if it.realtime { "realtime" } else { "" };
    let tls = match &summary.connections.tls {
        None => String::new(),
        Some(_) if it.tls.as_ref().is_some_and(|it| it.insecure) => "TLS, not checked".to_owned(),
        Some(_) => "TLS".to_owned(),
    };
    let mut all = vec![
        setting("players", summary.actors(it.players), true),
        setting("rate", rate, true),
        setting("requests in a write", format!("{} in a write", it.pipeline.max(1)), true),
        setting("nodes", format!("{} nodes", it.target.split(", ").count()), false),
        setting("counted time", format!("{} s counted", it.planned_s), false),
        setting("scenario", scenario, true),
        setting("ramp", format!("{} s ramp", it.ramp_s), false),
        setting("warm-up", format!("{} s warm-up", it.warm_up_s), false),
        setting("generating processes", format!("{} processes", it.processes.max(1)), false),
        setting("generator's driver", format!("driver {}", it.driver), false),
        setting("scheduling", scheduling.to_owned(), false),
        setting("TLS", tls, true),
        setting("peer", summary.environment.peer.clone(), false),
    ];
    all.extend(it.vars.iter().map(|(name, value)| {
        // What the same thing is called on each server is not another load, nor is how datagrams are
        // received and sent; sizes and groups are.
        let is_load = !["rpc", "path", "style", "send_style"].contains(&&**name);
        setting(name, format!("{name}={value}"), is_load)
    }));
    all
}

/// A number as it was typed, with its thousands apart.
fn grouped(number: f64) -> String {
    if number >= 1_000.0 && number.fract() == 0.0 { group_f64(number) } else { number.to_string() }
}

impl Section<'_> {
    /// Operations that some run counts: those of the loop, which a scenario is about, before those
    /// that only lead there.
    pub(crate) fn counted_ops(&self) -> Vec<&str> {
        let mut names = self.loop_ops();
        self.add_ops(&mut names, true);
        names
    }

    /// Operations of the loop that some run counts.
    pub(crate) fn loop_ops(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.add_ops(&mut names, false);
        names
    }

    fn add_ops<'s>(&'s self, names: &mut Vec<&'s str>, is_setup: bool) {
        let runs = self.columns.iter().flat_map(|column| &column.runs);
        for op in runs.flat_map(|run| &run.summary.ops) {
            if op.counted && op.setup == is_setup && !names.contains(&&*op.name) {
                names.push(&op.name);
            }
        }
    }

    /// Every run, by its column's name and its number in it.
    pub(crate) fn named_runs(&self) -> impl Iterator<Item = (String, &Run)> {
        self.columns.iter().flat_map(|column| {
            column.runs.iter().enumerate().map(|(index, run)| match column.runs.len() {
                1 => (column.name.clone(), *run),
                _ => (format!("{}, run {}", column.name, index + 1), *run),
            })
        })
    }

    /// A name for links within the page.
    pub(crate) fn anchor(&self) -> String {
        format!("{}-{}", self.scenario, if self.is_closed { "closed" } else { "open" })
    }

    /// Adds to columns of the same name what tells them apart.
    fn tell_apart(&mut self) {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let others = self.columns.iter().filter(|it| it.name == column.name);
                let others: Vec<_> = others.collect();
                let is_other = |setting: &&Setting| {
                    others.iter().any(|other| !other.settings.contains(setting))
                };
                let told: Vec<&str> = column
                    .settings
                    .iter()
                    .filter(is_other)
                    .map(|it| match (&*it.name, &*it.value) {
                        ("peer", "") => "no peer said",
                        ("scheduling", "") => "not realtime",
                        (_, "") => "another version's result",
                        (_, value) => value,
                    })
                    .collect();
                if told.is_empty() {
                    column.name.clone()
                } else {
                    format!("{} ({})", column.name, told.join(", "))
                }
            })
            .collect();
        for (column, name) in self.columns.iter_mut().zip(names) {
            column.name = name;
        }
    }

    /// In what the columns differ, and how: `players (64 players: throng; 32 players: nakama)`.
    /// Not told: what the columns' names say already, and peers, which are what is compared.
    pub(crate) fn differs(&self) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        for setting in self.columns.iter().flat_map(|column| &column.settings) {
            if setting.name != "peer" && !names.contains(&&*setting.name) {
                names.push(&setting.name);
            }
        }
        let tell = |name: &str| {
            let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
            for column in &self.columns {
                let setting = column.settings.iter().find(|it| it.name == name);
                let value = setting.map_or("none", |it| &it.value);
                match values.iter_mut().find(|known| known.0 == value) {
                    Some(known) => known.1.push(&column.name),
                    None => values.push((value, vec![&column.name])),
                }
            }
            let is_said = values.iter().all(|(value, columns)| {
                columns.iter().all(|column| column.ends_with(')') && column.contains(value))
            });
            let each = values.iter().map(|(value, it)| format!("{value}: {}", it.join(", ")));
            (values.len() > 1 && !is_said)
                .then(|| format!("{name} ({})", each.collect::<Vec<_>>().join("; ")))
        };
        names.into_iter().filter_map(tell).collect()
    }

    /// Whether it is about what a path carries: `throng flow`'s results.
    pub(crate) fn is_flow(&self) -> bool {
        self.columns.iter().flat_map(|it| &it.runs).any(|run| run.summary.flow.is_some())
    }

    /// How it was run, in one sentence.
    pub(crate) fn how(&self) -> String {
        let kind = match (self.is_flow(), self.is_closed) {
            (true, true) => "as fast as could be",
            (true, false) => "at a rate",
            (false, true) => "closed loop",
            (false, false) => "open loop",
        };
        let mut parts = vec![kind.to_owned()];
        if let Some(first) = self.columns.first() {
            let all = |setting: &&Setting| {
                self.columns.iter().all(|column| column.settings.contains(setting))
            };
            let is_told = |setting: &&Setting| match &*setting.name {
                "rate" => !self.is_closed && setting.value != "no rate",
                "requests in a write" => setting.value != "1 in a write",
                "nodes" => setting.value != "1 nodes",
                "generating processes" => setting.value != "1 processes",
                "ramp" => setting.value != "0 s ramp",
                "scenario" | "warm-up" | "generator's driver" | "peer" => false,
                _ => !setting.value.is_empty(),
            };
            let told = first.settings.iter().filter(all).filter(is_told);
            parts.extend(told.map(|setting| setting.value.clone()));
        }
        let mut sentences = vec![format!("{}; {}", parts.join(", "), self.rounds())];
        sentences.extend(self.differs().into_iter().map(|it| format!("Differs in {it}")));
        let text = format!("{}.", sentences.join(". "));
        upper_first(&text)
    }

    fn rounds(&self) -> String {
        let rounds = || self.columns.iter().map(|column| column.runs.len());
        match (rounds().min().unwrap_or(1), rounds().max().unwrap_or(1)) {
            (1, 1) => "one run of each, so nothing is known about the spread".to_owned(),
            (least, most) if least == most => {
                format!("medians of {most} runs, with the lowest and the highest")
            }
            (least, most) => {
                format!("medians of {least} to {most} runs, with the lowest and the highest")
            }
        }
    }

    /// Heads the column that tells how much more or less the second is than the first, if there is
    /// one: of two columns under the same load.
    pub(crate) fn factor_name(&self) -> Option<String> {
        let [first, second] = &*self.columns else { return None };
        first.is_like(second).then(|| format!("{} against {}", second.name, first.name))
    }
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

impl Column<'_> {
    /// Whether all runs of both counted for the same time, so that sums may be divided.
    pub(crate) fn counts_as_long(&self, other: &Self) -> bool {
        let runs = || self.runs.iter().chain(&other.runs).map(|run| run.summary.counted_s);
        let (most, least) = (runs().fold(0.0, f64::max), runs().fold(f64::INFINITY, f64::min));
        most - least <= most / 100.0
    }

    /// Whether none of its runs says that it must not be believed.
    pub(crate) fn is_valid(&self) -> bool {
        self.runs.iter().all(|run| run.summary.invalid.is_empty())
    }

    /// Whether the other was put under the same load, so that one may be divided by the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let load = |column: &Self| -> Vec<Setting> {
            column.settings.iter().filter(|setting| setting.is_load).cloned().collect()
        };
        load(self) == load(other)
    }
}
