//! What the zone goes on with when the server starts, and that it stands before anybody is told of the server.
//!
//! Data in: the parts that the database has. Data out: what was saved, or nothing for a zone that begins anew;
//! never that because something is wrong with what was saved: then the server does not start, and says what can
//! be done. Then, of what rooms count, that a first tick is done. What is deliberately not here: what is in a part (`world::Saved`), and who writes it
//! (`server::zone`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use game::db::Database;
use server::settings::WorldSettings;
use server::stats::RoomStats;
use world::{Damaged, Saved};

use crate::config::Config;

/// The longest that a first tick may take: many times what the largest zone takes on a busy machine.
const STANDS_WITHIN: Duration = Duration::from_mins(2);

/// What was saved of this node's zone, if anything was. With `world.snapshot_interval_ms` 0 it is given up.
///
/// # Errors
/// If the database fails, or what was saved cannot be gone on with.
pub(super) fn saved(
    db: &mut dyn Database,
    world: &WorldSettings,
    config: &Config,
) -> anyhow::Result<Option<Saved>> {
    if world.snapshot_interval_ms == 0 {
        game::zone::give_up(db, &config.name)
            .context("cannot give up what was saved of the zone")?;
        return Ok(None);
    }
    let parts =
        game::zone::kept(db, &config.name).context("cannot read what was saved of the zone")?;
    if parts.is_empty() {
        let others = game::zone::nodes(db).context("cannot read whose zones were saved")?;
        if !others.is_empty() {
            tracing::warn!(
                "the zone begins anew: none was saved by node {}, but by {}; with that `name` it would go on",
                config.name,
                others.join(", ")
            );
        }
        return Ok(None);
    }
    Saved::restore(&parts, world.bins).map(Some).map_err(|damaged| refusal(&damaged, config))
}

/// Returns when the zone has done its first tick: all threads that list matches have been posted its match by
/// then, so that whoever reads that the server listens finds it.
///
/// # Errors
/// If it has not within [`STANDS_WITHIN`].
pub(super) fn wait_until_it_stands(rooms: &[Arc<RoomStats>]) -> anyhow::Result<()> {
    let start = Instant::now();
    while rooms.iter().all(|room| room.zone.map.read().is_none()) {
        anyhow::ensure!(
            start.elapsed() < STANDS_WITHIN,
            "the zone does not begin: no tick within {} s; it may be too large (`world.bots`) for this machine",
            STANDS_WITHIN.as_secs()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Why the server does not start, and what can be done.
fn refusal(damaged: &Damaged, config: &Config) -> anyhow::Error {
    let cure = match damaged {
        Damaged::Side { saved_m, .. } => format!("set `world.side_m` to {saved_m}"),
        Damaged::Version { .. } => "start the version of throng that wrote it".to_owned(),
        _ => "restore the folder from a backup".to_owned(),
    };
    anyhow::anyhow!(
        "the zone that was saved cannot go on: {damaged} (table `zone_part` of the database in {}, `data_dir`): \
         {cure}, or give up its ships and scores by one start with `world.snapshot_interval_ms` 0",
        config.data_dir.display()
    )
}
