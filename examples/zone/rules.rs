//! Rules of the zone: pilots come in two squadrons, shots of one's own cost nothing, and streaks are worth more. The same
//! rules are written in Lua, JavaScript and Go beside this file.
//!
//! ```sh
//! rustup target add wasm32-wasip1
//! cargo build --release --target wasm32-wasip1 --manifest-path guests/rust/Cargo.toml --example zone
//! mkdir -p data/modules && cp guests/rust/target/wasm32-wasip1/release/examples/zone.wasm data/modules/
//! throng serve --world.enabled true --world.page true --world.bots 200
//! ```
//!
//! What the rules are given and may change is in docs/world/rules.md. They run on the thread of events: what they take too
//! long for, the zone does by its own rules.

use std::cell::RefCell;
use std::collections::HashMap;

use throng_guest::{Context, Initializer, Result, Zone, ZoneHit, ZoneKill, ZoneSpawn};

throng_guest::module!(init_module);

#[derive(Clone, Copy, PartialEq)]
enum Squadron {
    West,
    East,
}

/// What is known again as long as this instance of the module is there; if it is lost, squadrons are drawn anew. What must
/// not be forgotten stands in storage.
#[derive(Default)]
struct Known {
    /// By user.
    squadrons: HashMap<String, Squadron>,
    /// Kills of each user since they were last shot down.
    streaks: HashMap<String, i64>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

fn init_module(initializer: &mut Initializer) -> Result<()> {
    initializer.register_zone_spawn(spawn)?;
    initializer.register_zone_hit(hit)?;
    initializer.register_zone_score(score)
}

/// Into the squadron that fewer have joined so far, side by side, with the nose towards the other one.
fn spawn(_: &Context, zone: &mut Zone<ZoneSpawn>) -> Result<()> {
    KNOWN.with_borrow_mut(|Known { squadrons, .. }| {
        for entry in &mut zone.entries {
            let west = squadrons.values().filter(|it| **it == Squadron::West).count();
            let fewer = if west * 2 <= squadrons.len() { Squadron::West } else { Squadron::East };
            let squadron = *squadrons.entry(entry.pilot.user_id.clone()).or_insert(fewer);
            let is_west = squadron == Squadron::West;
            entry.x = zone.side / 2.0 + if is_west { -60.0 } else { 60.0 };
            entry.y = zone.side / 2.0 - 30.0 + (squadrons.len() % 20) as f64 * 3.0;
            entry.heading = if is_west { 0.0 } else { 180.0 };
        }
        Ok(())
    })
}

fn hit(_: &Context, zone: &mut Zone<ZoneHit>) -> Result<()> {
    KNOWN.with_borrow(|Known { squadrons, .. }| {
        for hit in &mut zone.entries {
            if let (Some(victim), Some(by)) = (&hit.victim, &hit.by)
                && let Some(squadron) = squadrons.get(&victim.user_id)
                && squadrons.get(&by.user_id) == Some(squadron)
            {
                hit.damage = 0;
            }
        }
        Ok(())
    })
}

fn score(_: &Context, zone: &mut Zone<ZoneKill>) -> Result<()> {
    KNOWN.with_borrow_mut(|Known { streaks, .. }| {
        for kill in &mut zone.entries {
            if let Some(victim) = &kill.victim {
                streaks.remove(&victim.user_id);
            }
            if let Some(by) = &kill.by {
                let streak = streaks.entry(by.user_id.clone()).or_default();
                *streak += 1;
                kill.points = if kill.victim.is_some() { 5 * *streak } else { 1 };
                if *streak >= 3 {
                    kill.text = format!("{streak} in a row");
                }
            }
            kill.respawn_ms = 2_000;
        }
        Ok(())
    })
}
