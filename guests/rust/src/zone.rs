//! Rules of the zone: where pilots come, what hits cost, what it means that a ship was shot down. The server asks a rule
//! with all that has happened for it since it was asked last, in which each entry says what the server would do; the
//! rule changes entries. What the numbers mean, and which of them may be, is on the server's page about rules.
//!
//! Not here: when rules are asked, and what becomes of one that fails, which is the server's business.

use crate::message::Field;
use crate::{Context, Initializer, Result, Value};

/// The zone at a tick, and what has happened in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zone<T> {
    /// The tick that comes next.
    pub tick: i64,
    /// Ticks in a second.
    pub tick_rate: i64,
    /// Of the world, metres.
    pub side: f64,
    /// What has happened, in an order that is to stay as it is.
    pub entries: Vec<T>,
}

/// Who steers a ship.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZonePilot {
    /// The user.
    pub user_id: String,
    /// The session.
    pub session_id: String,
    /// The user's name.
    pub username: String,
}

/// A ship, as in the packets of the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneShip {
    /// Its place.
    pub slot: i64,
    /// Which ship it is of those that have had this place.
    pub generation: i64,
}

/// A pilot who has joined and is to get a ship.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneSpawn {
    /// Who it is.
    pub pilot: ZonePilot,
    /// Metres east of a corner, from 0 up to the side of the world. May be changed.
    pub x: f64,
    /// Metres north of it. May be changed.
    pub y: f64,
    /// Where the nose points, degrees to the left of east, from 0 up to 360. May be changed.
    pub heading: f64,
    /// 1 to 15, a whole ship. May be changed.
    pub health: i64,
}

/// A ship that was hit in a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneHit {
    /// When.
    pub tick: i64,
    /// Who steers the ship that was hit; none of a bot.
    pub victim: Option<ZonePilot>,
    /// Who steers the ship that hit it; none of a bot.
    pub by: Option<ZonePilot>,
    /// The ship that was hit.
    pub victim_ship: ZoneShip,
    /// The ship that hit it, of several the one in the lowest slot.
    pub by_ship: ZoneShip,
    /// How many shots.
    pub shots: i64,
    /// What that costs, 0 to 15. May be changed.
    pub damage: i64,
}

/// A ship that was shot down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneKill {
    /// When.
    pub tick: i64,
    /// Who steers the ship that was shot down; none of a bot.
    pub victim: Option<ZonePilot>,
    /// Who steers the ship that hit it last; none of a bot.
    pub by: Option<ZonePilot>,
    /// The ship that was shot down.
    pub victim_ship: ZoneShip,
    /// The ship that hit it last.
    pub by_ship: ZoneShip,
    /// What `by` gets, up to a million, or loses. May be changed.
    pub points: i64,
    /// What the victim gets. May be changed.
    pub victim_points: i64,
    /// For how long the ship lies still, milliseconds, up to 255 ticks. May be changed.
    pub respawn_ms: i64,
    /// What all pilots are told of it, 128 bytes at most. May be changed.
    pub text: String,
}

/// What a rule is about: the name under which it is registered, and how entries are read and written.
trait Entry: Sized {
    const RULE: &'static str;
    /// The member of the zone that lists them.
    const LIST: &'static str;

    fn read(value: &Value) -> Result<Self>;

    /// What may be changed.
    fn value(self) -> Value;
}

fn member<T: Field + Default>(of: &Value, name: &str) -> Result<T> {
    of.get(name).map_or_else(|| Ok(T::default()), T::read)
}

impl ZonePilot {
    fn read(value: &Value) -> Result<Self> {
        Ok(Self {
            user_id: member(value, "user_id")?,
            session_id: member(value, "session_id")?,
            username: member(value, "username")?,
        })
    }

    fn of(entry: &Value, name: &str) -> Result<Option<Self>> {
        match entry.get(name) {
            None | Some(Value::Nil) => Ok(None),
            Some(pilot) => Self::read(pilot).map(Some),
        }
    }
}

impl ZoneShip {
    fn of(entry: &Value, name: &str) -> Result<Self> {
        let ship = entry.get(name).unwrap_or(&Value::Nil);
        Ok(Self { slot: member(ship, "slot")?, generation: member(ship, "generation")? })
    }
}

impl Entry for ZoneSpawn {
    const RULE: &'static str = "zone_spawn";
    const LIST: &'static str = "pilots";

    fn read(value: &Value) -> Result<Self> {
        Ok(Self {
            pilot: ZonePilot::read(value)?,
            x: member(value, "x")?,
            y: member(value, "y")?,
            heading: member(value, "heading")?,
            health: member(value, "health")?,
        })
    }

    fn value(self) -> Value {
        Value::map([
            ("x", Value::Float(self.x)),
            ("y", Value::Float(self.y)),
            ("heading", Value::Float(self.heading)),
            ("health", Value::Int(self.health)),
        ])
    }
}

impl Entry for ZoneHit {
    const RULE: &'static str = "zone_hit";
    const LIST: &'static str = "hits";

    fn read(value: &Value) -> Result<Self> {
        Ok(Self {
            tick: member(value, "tick")?,
            victim: ZonePilot::of(value, "victim")?,
            by: ZonePilot::of(value, "by")?,
            victim_ship: ZoneShip::of(value, "victim_ship")?,
            by_ship: ZoneShip::of(value, "by_ship")?,
            shots: member(value, "shots")?,
            damage: member(value, "damage")?,
        })
    }

    fn value(self) -> Value {
        Value::map([("damage", Value::Int(self.damage))])
    }
}

impl Entry for ZoneKill {
    const RULE: &'static str = "zone_score";
    const LIST: &'static str = "kills";

    fn read(value: &Value) -> Result<Self> {
        Ok(Self {
            tick: member(value, "tick")?,
            victim: ZonePilot::of(value, "victim")?,
            by: ZonePilot::of(value, "by")?,
            victim_ship: ZoneShip::of(value, "victim_ship")?,
            by_ship: ZoneShip::of(value, "by_ship")?,
            points: member(value, "points")?,
            victim_points: member(value, "victim_points")?,
            respawn_ms: member(value, "respawn_ms")?,
            text: member(value, "text")?,
        })
    }

    fn value(self) -> Value {
        Value::map([
            ("points", Value::Int(self.points)),
            ("victim_points", Value::Int(self.victim_points)),
            ("respawn_ms", Value::Int(self.respawn_ms)),
            ("text", self.text.as_str().into()),
        ])
    }
}

/// Asks a rule: the zone as it leaves it.
fn ask<T: Entry>(
    rule: impl Fn(&Context, &mut Zone<T>) -> Result<()>,
    context: &Context,
    value: &Value,
) -> Result<Value> {
    let entries = value.get(T::LIST).unwrap_or(&Value::Nil).items();
    let mut zone = Zone {
        tick: member(value, "tick")?,
        tick_rate: member(value, "tick_rate")?,
        side: member(value, "side")?,
        entries: entries.iter().map(T::read).collect::<Result<_>>()?,
    };
    rule(context, &mut zone)?;
    let entries = zone.entries.into_iter().map(T::value).collect();
    Ok(Value::map([(T::LIST, Value::List(entries))]))
}

impl Initializer {
    fn register_zone<T: Entry + 'static>(
        &mut self,
        rule: impl Fn(&Context, &mut Zone<T>) -> Result<()> + 'static,
    ) -> Result<()> {
        let place = crate::name_of(&rule);
        let function = Box::new(move |context: &Context, value: Value| ask(&rule, context, &value));
        self.rules.push((T::RULE.to_owned(), crate::Placed { function, place }));
        Self::register("event", T::RULE)
    }

    /// Decides where pilots come who join the zone, and with what health.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn register_zone_spawn(
        &mut self,
        rule: impl Fn(&Context, &mut Zone<ZoneSpawn>) -> Result<()> + 'static,
    ) -> Result<()> {
        self.register_zone(rule)
    }

    /// Decides what hits cost.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn register_zone_hit(
        &mut self,
        rule: impl Fn(&Context, &mut Zone<ZoneHit>) -> Result<()> + 'static,
    ) -> Result<()> {
        self.register_zone(rule)
    }

    /// Decides what it means that ships were shot down.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn register_zone_score(
        &mut self,
        rule: impl Fn(&Context, &mut Zone<ZoneKill>) -> Result<()> + 'static,
    ) -> Result<()> {
        self.register_zone(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_given_what_has_happened_and_what_it_changes_goes_back() {
        let pilot = |name: &str| Value::map([("user_id", name.into()), ("username", name.into())]);
        let kill = Value::map([
            ("tick", 7.into()),
            ("victim", pilot("ada")),
            ("by", Value::Nil),
            ("by_ship", Value::map([("slot", 3.into()), ("generation", 1.into())])),
            ("points", 1.into()),
            ("respawn_ms", 3000.into()),
        ]);
        let zone = Value::map([("side", 512.into()), ("kills", Value::List(vec![kill]))]);
        let rule = |_: &Context, zone: &mut Zone<ZoneKill>| {
            let [kill] = zone.entries.as_mut_slice() else { panic!("one ship was shot down") };
            assert_eq!((zone.side, kill.tick, kill.by_ship.slot), (512.0, 7, 3));
            assert_eq!((kill.victim.as_ref().unwrap().username.as_str(), &kill.by), ("ada", &None));
            (kill.points, kill.text) = (0, "nobody".to_owned());
            Ok(())
        };
        let ruled = ask(rule, &Context::new(Vec::new()), &zone).unwrap();
        let kills = ruled.get("kills").unwrap().items();
        assert_eq!(kills[0].get("points").unwrap().as_int(), Some(0));
        assert_eq!(kills[0].get("respawn_ms").unwrap().as_int(), Some(3000));
        assert_eq!(kills[0].get("text").unwrap().as_str(), Some("nobody"));
    }
}
