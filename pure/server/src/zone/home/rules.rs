//! What rules of scripts decide about the zone: where pilots come, what hits cost, what it means that a ship was
//! shot down.
//!
//! What has happened in a tick waits in `zone::rules` for an answer, which enters the zone as an input of the next
//! tick, as what pilots want does: so the zone is the same however it is partitioned, and plays again from its
//! inputs. Of what an answer says each part counts for itself: one that means nothing is as if it were not there.
//!
//! Data in: what cells showed, answers. Data out: questions for the thread of events, spawns and rulings for the
//! director. What is deliberately not here: running scripts (`worker::rules`).

use event::Now;
use game::guest::{GuestVersion, Presence, Registered};
use game::rules::{ZoneRule, of_pilot, pilot, table};
use game::value::Value;
use uuid::Uuid;
use world::{DOWN_TICKS, EntityId, HEALTH_FULL, Hit, Kill, Point, Ruling, UNITS_PER_METRE, units};

use super::kills::{Downing, Verdict};
use super::{Home, Open};
use crate::mail::ZoneAsk;
use crate::stats::RoomStats;
use crate::zone::rules::Line;

/// Points that a rule may give at once, or take.
const POINTS_MAX: i64 = 1_000_000;

/// A hit, with who steered the ship that was hit and who the other one, if anybody did.
#[derive(Clone, Debug)]
pub(super) struct Struck {
    hit: Hit,
    victim: Option<Presence>,
    by: Option<Presence>,
}

/// Where a pilot comes, and with which ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landing {
    pub(super) at: Point,
    pub(super) heading: u16,
    pub(super) health: u8,
}

impl Landing {
    /// With a whole ship that points east.
    pub(super) fn new(at: Point) -> Self {
        Self { at, heading: 0, health: HEALTH_FULL }
    }
}

/// What waits for rules.
#[derive(Debug)]
pub(super) struct Rules {
    wait_ns: u64,
    version: GuestVersion,
    /// Where each rule is defined, as [`ZoneRule::ALL`].
    places: [String; 3],
    pub(super) spawn: Line<(Presence, Landing)>,
    pub(super) hit: Line<Struck>,
    pub(super) score: Line<Downing>,
    /// Counts questions.
    number: u64,
    asks: Vec<ZoneAsk>,
    /// What is to be said of the last answer that meant nothing, or was overdue.
    complaint: Option<String>,
}

impl Rules {
    pub(super) fn new(wait_ms: u32) -> Self {
        Self {
            wait_ns: u64::from(wait_ms) * 1_000_000,
            version: GuestVersion::default(),
            places: Default::default(),
            spawn: Line::new(ZoneRule::Spawn),
            hit: Line::new(ZoneRule::Hit),
            score: Line::new(ZoneRule::Score),
            number: 0,
            asks: Vec::new(),
            complaint: None,
        }
    }

    fn complain(&mut self, rule: ZoneRule, what: &str) {
        let (name, version) = (rule.handler(), self.version.0);
        let place = &self.places[rule as usize];
        self.complaint = Some(format!(
            "{name} ({place}, version {version}) {what}, and the zone goes on by its own rules"
        ));
    }
}

impl Home {
    /// Modules have a new version: its rules hold from the next tick on. Questions under way are answered by the
    /// version before.
    pub(crate) fn register(&mut self, registered: &Registered, version: GuestVersion) {
        let has = |rule: ZoneRule| registered.events.iter().any(|it| it == rule.handler());
        let rules = &mut self.rules;
        rules.version = version;
        rules.spawn.register(has(ZoneRule::Spawn));
        rules.hit.register(has(ZoneRule::Hit));
        rules.score.register(has(ZoneRule::Score));
        rules.places = ZoneRule::ALL.map(|rule| {
            let mut known = registered.locations.iter();
            let found = known.find(|(name, _)| name == rule.handler());
            found.map_or_else(|| "a module".to_owned(), |(_, place)| place.clone())
        });
    }

    /// Which rules modules have, each with its place; nothing if they have none.
    pub(crate) fn rules_text(&self) -> String {
        let rules = &self.rules;
        let has =
            [rules.spawn.is_registered(), rules.hit.is_registered(), rules.score.is_registered()];
        let texts = ZoneRule::ALL.into_iter().zip(has).filter(|(_, has)| *has);
        let text = |(rule, _): (ZoneRule, bool)| {
            format!("{} ({})", rule.handler(), rules.places[rule as usize])
        };
        texts.map(text).collect::<Vec<_>>().join(", ")
    }

    /// What rules are to be asked by now.
    pub(crate) fn take_asks(&mut self) -> Vec<ZoneAsk> {
        std::mem::take(&mut self.rules.asks)
    }

    /// What is to be said of rules by now.
    pub(crate) fn take_complaint(&mut self) -> Option<String> {
        self.rules.complaint.take()
    }

    /// Hits of a tick that have cost nothing yet, in an order that does not tell of cells. Those between ships
    /// without pilots are no rule's.
    pub(super) fn struck(&mut self, now: Now, open: &Open) {
        let all = open.published.iter().flat_map(|published| &published.hits);
        let mut all: Vec<Hit> = all.copied().collect();
        all.sort_unstable();
        if let Some(Hit { tick, .. }) = all.first() {
            self.rules.hit.take_turns(*tick, &mut all);
        }
        for hit in all {
            let (victim, by) = (self.steers(hit.victim), self.steers(hit.by));
            let is_of_pilots = victim.is_some() || by.is_some();
            let struck = Struck { hit, victim, by };
            if !is_of_pilots || self.rules.hit.push(now.mono_ns, struck).is_err() {
                self.cost(hit, hit.damage());
            }
        }
    }

    fn cost(&mut self, Hit { victim, by, .. }: Hit, damage: u8) {
        if damage > 0 {
            self.director.rule(Ruling::Damage { victim, by, damage });
        }
    }

    /// Asks rules about all that waits for them.
    pub(super) fn ask_rules(&mut self, now: Now, stats: &RoomStats) {
        let number = self.rules.number;
        for (number, rule) in (number + 1..).zip(ZoneRule::ALL) {
            let items: Option<Vec<Value>> = match rule {
                ZoneRule::Spawn => {
                    let items = self.rules.spawn.ask(now.mono_ns, number);
                    items.map(|items| items.iter().map(of_arrival).collect())
                }
                ZoneRule::Hit => {
                    let items = self.rules.hit.ask(now.mono_ns, number);
                    items.map(|items| items.iter().map(of_hit).collect())
                }
                ZoneRule::Score => {
                    let tick_rate_hz = self.settings.tick_rate_hz;
                    let items = self.rules.score.ask(now.mono_ns, number);
                    items.map(|items| items.iter().map(|it| of_kill(it, tick_rate_hz)).collect())
                }
            };
            let Some(items) = items else { continue };
            stats.zone_rules_asked.up();
            let side_m = i64::from(units(self.settings.bins) / UNITS_PER_METRE);
            let argument = table([
                ("tick", Value::Int(self.director.tick().into())),
                ("tick_rate", Value::Int(self.settings.tick_rate_hz.into())),
                ("side", Value::Int(side_m)),
                (rule.list(), Value::List(items)),
            ]);
            self.rules.asks.push(ZoneAsk { home: self.me, rule, number, argument });
        }
        self.rules.number += ZoneRule::ALL.len() as u64;
        let Rules { spawn, hit, score, .. } = &mut self.rules;
        let left_out = spawn.take_left_out() + hit.take_left_out() + score.take_left_out();
        stats.zone_rules_left_out.add(left_out);
    }

    /// What has waited for too long is done by the zone's own rules.
    pub(super) fn lose_patience(&mut self, now: Now, stats: &RoomStats) {
        let (now_ns, wait_ns) = (now.mono_ns, self.rules.wait_ns);
        let (arrivals, spawn_is_late) = self.rules.spawn.take_overdue(now_ns, wait_ns);
        let (hits, hit_is_late) = self.rules.hit.take_overdue(now_ns, wait_ns);
        let (kills, score_is_late) = self.rules.score.take_overdue(now_ns, wait_ns);
        let late = [spawn_is_late, hit_is_late, score_is_late];
        for (rule, _) in ZoneRule::ALL.into_iter().zip(late).filter(|(_, is_late)| *is_late) {
            stats.zone_rules_late.up();
            self.rules.complain(rule, "has not answered within world.rules_wait_ms");
        }
        self.arrive(arrivals.into_iter());
        hits.into_iter().for_each(|struck| self.cost(struck.hit, struck.hit.damage()));
        kills.iter().for_each(|downing| self.settle(downing, Verdict::default(), stats));
    }

    /// A rule has answered, `None` if it failed.
    pub(crate) fn ruled(
        &mut self,
        now: Now,
        (rule, number): (ZoneRule, u64),
        returned: Option<&Value>,
        stats: &RoomStats,
    ) {
        if returned.is_none() {
            stats.zone_rules_failed.up();
        }
        let answer = (number, returned.is_none());
        let returned = returned.unwrap_or(&Value::Nil);
        let is_known = match rule {
            ZoneRule::Spawn => self.rules.spawn.answered(now.mono_ns, answer).map(|arrivals| {
                let said = self.said(rule, returned, arrivals.len(), stats);
                let side = units(self.settings.bins);
                let landing = |at: usize, said: &Value| landing_of(said, (arrivals[at].1, side));
                let decided = self.decided(rule, (&said, landing), stats);
                let arrivals = arrivals.into_iter().zip(decided);
                self.arrive(arrivals.map(|((who, own), told)| (who, told.unwrap_or(own))));
            }),
            ZoneRule::Hit => self.rules.hit.answered(now.mono_ns, answer).map(|hits| {
                let said = self.said(rule, returned, hits.len(), stats);
                let damage = |at: usize, said: &Value| damage_of(said, hits[at].hit.damage());
                let decided = self.decided(rule, (&said, damage), stats);
                for (struck, damage) in hits.into_iter().zip(decided) {
                    self.cost(struck.hit, damage.unwrap_or(struck.hit.damage()));
                }
            }),
            ZoneRule::Score => self.rules.score.answered(now.mono_ns, answer).map(|kills| {
                let said = self.said(rule, returned, kills.len(), stats);
                let tick_rate_hz = self.settings.tick_rate_hz;
                let verdict = |_, said: &Value| verdict_of(said, tick_rate_hz);
                let decided = self.decided(rule, (&said, verdict), stats);
                for (downing, decided) in kills.iter().zip(decided) {
                    let (verdict, ticks) = decided.unwrap_or((Verdict::default(), DOWN_TICKS));
                    self.respawn(downing, ticks);
                    self.settle(downing, verdict, stats);
                }
            }),
        };
        if is_known.is_none() {
            stats.late_answers.up();
        }
    }

    /// What a rule says of each of so many; nil of all of them if it says nothing.
    fn said(
        &mut self,
        rule: ZoneRule,
        returned: &Value,
        count: usize,
        stats: &RoomStats,
    ) -> Vec<Value> {
        match returned.member(rule.list()) {
            Some(Value::List(list)) if list.len() == count => return list.clone(),
            _ if *returned == Value::Nil => {}
            _ => {
                stats.zone_rules_refused.up();
                let list = rule.list();
                let what =
                    format!("has returned a table without the {count} {list} that it was given");
                self.rules.complain(rule, &what);
            }
        }
        vec![Value::Nil; count]
    }

    /// What that means; `None` of nil, and of what means nothing.
    fn decided<D>(
        &mut self,
        rule: ZoneRule,
        (said, read): (&[Value], impl Fn(usize, &Value) -> Result<D, &'static str>),
        stats: &RoomStats,
    ) -> Vec<Option<D>> {
        let mut decided = Vec::with_capacity(said.len());
        for (at, one) in said.iter().enumerate() {
            let read = match one {
                Value::Nil => None,
                // An empty table is a list, too.
                Value::Map(_) => Some(read(at, one).map_err(|field| wrong_member(field, one))),
                Value::List(list) if list.is_empty() => Some(read(at, one).map_err(str::to_owned)),
                _ => Some(Err(format!("an entry that is no table ({})", shown(one)))),
            };
            if let Some(Err(what)) = &read {
                stats.zone_rules_refused.up();
                self.rules.complain(rule, &format!("has returned {} with {what}", rule.list()));
            }
            decided.push(read.and_then(Result::ok));
        }
        decided
    }

    /// A ship lies still for so many ticks from when it was shot down.
    fn respawn(&mut self, downing: &Downing, ticks: u8) {
        if ticks == DOWN_TICKS {
            return;
        }
        let passed = self.director.tick().saturating_sub(downing.downed.tick);
        if passed >= u32::from(DOWN_TICKS) {
            // It is whole again, or another one has shot it down since.
            return;
        }
        let left = u32::from(ticks).saturating_sub(passed).max(1);
        let ticks = u8::try_from(left).unwrap_or(u8::MAX);
        self.director.rule(Ruling::Respawn { ship: downing.downed.victim, ticks });
    }

    /// It is known of pilots where they come.
    fn arrive(&mut self, landings: impl Iterator<Item = (Presence, Landing)>) {
        self.landings.extend(landings.map(|(who, landing)| (who.session_id, landing)));
        self.land();
    }

    /// Somewhere in the world.
    pub(super) fn place(&mut self) -> Point {
        let side = units(self.settings.bins).unsigned_abs();
        let mut place = || self.random.below(side).cast_signed();
        Point { x: place(), y: place() }
    }
}

fn of_arrival((presence, landing): &(Presence, Landing)) -> Value {
    let metres = |units: i32| Value::Float(f64::from(units) / f64::from(UNITS_PER_METRE));
    let degrees = f64::from(landing.heading) * 360.0 / 65_536.0;
    let [user_id, session_id, username] = of_pilot(presence);
    table([
        user_id,
        session_id,
        username,
        ("x", metres(landing.at.x)),
        ("y", metres(landing.at.y)),
        ("heading", Value::Float(degrees)),
        ("health", Value::Int(landing.health.into())),
    ])
}

fn of_ship(id: EntityId) -> Value {
    table([("slot", Value::Int(id.slot.into())), ("generation", Value::Int(id.generation.into()))])
}

fn of_hit(Struck { hit, victim, by }: &Struck) -> Value {
    table([
        ("tick", Value::Int(hit.tick.into())),
        ("victim", pilot(victim.as_ref())),
        ("by", pilot(by.as_ref())),
        ("victim_ship", of_ship(hit.victim)),
        ("by_ship", of_ship(hit.by)),
        ("shots", Value::Int(hit.shots.into())),
        ("damage", Value::Int(hit.damage().min(HEALTH_FULL).into())),
    ])
}

fn of_kill(Downing { downed, victim, by }: &Downing, tick_rate_hz: u8) -> Value {
    let Verdict { points, victim_points, text } = Verdict::default();
    table([
        ("tick", Value::Int(downed.tick.into())),
        ("victim", pilot(victim.as_ref())),
        ("by", pilot(by.as_ref())),
        ("victim_ship", of_ship(downed.victim)),
        ("by_ship", of_ship(downed.by)),
        ("points", Value::Int(points.into())),
        ("victim_points", Value::Int(victim_points.into())),
        ("respawn_ms", Value::Int(down_ms(tick_rate_hz))),
        ("text", Value::text(text)),
    ])
}

/// For how long a ship lies still unless a rule says otherwise, milliseconds.
fn down_ms(tick_rate_hz: u8) -> i64 {
    i64::from(DOWN_TICKS) * 1_000 / i64::from(tick_rate_hz)
}

/// What is said of a member that cannot be.
fn wrong_member(field: &str, said: &Value) -> String {
    format!("a wrong `{field}` ({})", said.member(field).map_or_else(String::new, shown))
}

/// A value, as a rule's author knows it again.
fn shown(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bytes(_) => "a text".to_owned(),
        Value::List(_) | Value::Map(_) => "a table".to_owned(),
    }
}

/// A member that is there. What a rule has taken away stays the server's own.
fn there<'a>(said: &'a Value, field: &str) -> Option<&'a Value> {
    said.member(field).filter(|member| **member != Value::Nil)
}

/// A member that is a whole number in a range, or `own` if it is not there.
fn whole(
    said: &Value,
    field: &'static str,
    (own, range): (i64, std::ops::RangeInclusive<i64>),
) -> Result<i64, &'static str> {
    let Some(member) = there(said, field) else { return Ok(own) };
    member.as_int().filter(|number| range.contains(number)).ok_or(field)
}

/// A member that is any number, times `by`, rounded down, below `end`; or `own` if it is not there.
fn scaled(
    said: &Value,
    field: &'static str,
    (own, by, end): (i32, f64, f64),
) -> Result<i32, &'static str> {
    let Some(member) = there(said, field) else { return Ok(own) };
    let number = match member {
        Value::Float(number) => *number,
        Value::Int(number) => i32::try_from(*number).map(f64::from).map_err(|_| field)?,
        _ => return Err(field),
    };
    let scaled = (number * by).floor();
    let is_inside = (0.0..end).contains(&scaled);
    let whole = Value::Float(scaled).as_int().filter(|_| is_inside);
    whole.and_then(|whole| i32::try_from(whole).ok()).ok_or(field)
}

fn landing_of(said: &Value, (own, side): (Landing, i32)) -> Result<Landing, &'static str> {
    let (metre, side) = (f64::from(UNITS_PER_METRE), f64::from(side));
    let x = scaled(said, "x", (own.at.x, metre, side))?;
    let y = scaled(said, "y", (own.at.y, metre, side))?;
    let (turn, own_heading) = (65_536.0, i32::from(own.heading));
    let heading = scaled(said, "heading", (own_heading, turn / 360.0, turn))?;
    let health = whole(said, "health", (own.health.into(), 1..=HEALTH_FULL.into()))?;
    Ok(Landing {
        at: Point { x, y },
        heading: u16::try_from(heading).map_err(|_| "heading")?,
        health: u8::try_from(health).map_err(|_| "health")?,
    })
}

fn damage_of(said: &Value, own: u8) -> Result<u8, &'static str> {
    let damage = whole(said, "damage", (own.into(), 0..=HEALTH_FULL.into()))?;
    u8::try_from(damage).map_err(|_| "damage")
}

/// What a kill means, and for how many ticks the ship lies still.
fn verdict_of(said: &Value, tick_rate_hz: u8) -> Result<(Verdict, u8), &'static str> {
    let own = Verdict::default();
    let points = |field, own: i32| {
        let points = whole(said, field, (own.into(), -POINTS_MAX..=POINTS_MAX))?;
        i32::try_from(points).map_err(|_| field)
    };
    let rate_hz = i64::from(tick_rate_hz);
    let longest_ms = i64::from(u8::MAX) * 1_000 / rate_hz;
    let respawn_ms = whole(said, "respawn_ms", (down_ms(tick_rate_hz), 0..=longest_ms))?;
    let ticks = (respawn_ms * rate_hz + 500).div_euclid(1_000).max(1);
    let text = match there(said, "text") {
        None => &*own.text,
        Some(text) => text.as_str().ok_or("text")?,
    };
    let text = text[..text.floor_char_boundary(Kill::TEXT_BYTES_MAX)].to_owned();
    let verdict = Verdict {
        points: points("points", own.points)?,
        victim_points: points("victim_points", own.victim_points)?,
        text,
    };
    Ok((verdict, u8::try_from(ticks).map_err(|_| "respawn_ms")?))
}

/// Who comes: not in the zone yet, because a rule says where.
#[derive(Clone, Debug)]
pub(super) struct Arriving {
    pub(super) member: crate::mail::Member,
    pub(super) address: Option<u128>,
}

/// Whose rule has answered, and who may not be there any more.
pub(super) type Landings = Vec<(Uuid, Landing)>;
