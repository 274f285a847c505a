//! Rules of the zone in Rust that change all that rules may change, for `dev/e2e/zone_rules.test.mjs`, where the same ones stand
//! in Lua and JavaScript.

use std::cell::Cell;

use throng_guest::{Context, Initializer, Result, Zone, ZoneHit, ZoneKill, ZoneSpawn};

throng_guest::module!(init_module);

thread_local! {
    static COUNT: Cell<i64> = const { Cell::new(0) };
}

fn init_module(initializer: &mut Initializer) -> Result<()> {
    initializer.register_zone_spawn(|_, zone: &mut Zone<ZoneSpawn>| {
        for pilot in &mut zone.entries {
            let count = COUNT.replace(COUNT.get() + 1);
            (pilot.x, pilot.y) = (200.0 + 10.0 * count as f64, 300.0);
            (pilot.heading, pilot.health) = (0.0, 15 - count);
        }
        Ok(())
    })?;
    initializer.register_zone_hit(|context: &Context, zone: &mut Zone<ZoneHit>| {
        let mode = context.value().get("execution_mode").and_then(|mode| mode.as_str());
        assert_eq!(mode, Some("zone_hit"));
        assert_eq!((zone.tick > 0, zone.tick_rate, zone.side), (true, 20, 512.0));
        for hit in &mut zone.entries {
            hit.damage = hit.shots * 15;
        }
        Ok(())
    })?;
    initializer.register_zone_score(|_, zone: &mut Zone<ZoneKill>| {
        for kill in &mut zone.entries {
            (kill.points, kill.victim_points, kill.respawn_ms) = (25, -5, 500);
            if let (Some(by), Some(victim)) = (&kill.by, &kill.victim) {
                kill.text = format!("{} hit {}", by.username, victim.username);
            }
        }
        Ok(())
    })
}
