//! The parts of a node's zone that are kept: a snapshot, and behind it what has happened since.
//!
//! Data in: parts as whoever runs the zone has written them, which mean nothing here. Data out: the same,
//! in order. A new snapshot takes the place of all parts, so that there is never more than one and what came
//! behind it. What is deliberately not here: what is in a part (`world::Saved`), and when one is written.

use crate::account::atomically;
use crate::db::{Database, DbError, Param};

/// Keeps a part of the zone of the node with this name: number 0, the snapshot, in place of all others; any other one behind those before it.
///
/// # Errors
/// Any [`DbError`]; nothing has changed then.
pub fn keep(db: &mut dyn Database, node: &str, number: u32, part: &[u8]) -> Result<(), DbError> {
    atomically(db, |db| {
        if number == 0 {
            db.execute(GIVE_UP, &[Param::Text(node)])?;
        }
        let sql = "INSERT INTO zone_part (node, number, bytes) VALUES ($1, $2, $3)";
        let number = Param::Int(i64::from(number));
        db.execute(sql, &[Param::Text(node), number, Param::Blob(part)]).map(drop)
    })
}

/// What is kept of a node's zone, in order; nothing if it had none.
///
/// # Errors
/// Any [`DbError`].
pub fn kept(db: &mut dyn Database, node: &str) -> Result<Vec<Vec<u8>>, DbError> {
    let mut parts = Vec::new();
    let sql = "SELECT bytes FROM zone_part WHERE node = $1 ORDER BY number";
    db.query(sql, &[Param::Text(node)], &mut |row| parts.push(row.blob(0).to_vec()))?;
    Ok(parts)
}

/// The names of nodes whose zones are kept.
///
/// # Errors
/// Any [`DbError`].
pub fn nodes(db: &mut dyn Database) -> Result<Vec<String>, DbError> {
    let mut nodes = Vec::new();
    let sql = "SELECT node FROM zone_part WHERE number = 0 ORDER BY node";
    db.query(sql, &[], &mut |row| nodes.push(row.text(0).to_owned()))?;
    Ok(nodes)
}

/// Keeps nothing of a node's zone any more. Outside of a transaction it has happened at once.
///
/// # Errors
/// Any [`DbError`]; nothing has changed then.
pub fn give_up(db: &mut dyn Database, node: &str) -> Result<(), DbError> {
    db.execute(GIVE_UP, &[Param::Text(node)]).map(drop)
}

const GIVE_UP: &str = "DELETE FROM zone_part WHERE node = $1";
