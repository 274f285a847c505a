//! The copy of a database that is made before its schema is upgraded: `throng.db.before-v2` is the
//! database as it was before it came to version 2. The newest [`COPIES_MAX`] are kept. To go back,
//! stop the server, remove `throng.db` with its `-wal` and `-shm`, and rename the copy.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::watch::beside;

/// Copies that are kept; older ones are removed after a successful upgrade.
const COPIES_MAX: usize = 2;

/// Room beside the copy itself that must be free, for the upgrade's own log, bytes.
const ROOM_BYTES: u64 = 64 << 20;

const MIB: u64 = 1 << 20;

/// Copies the database, and makes sure that the copy is whole and on the disk.
pub(crate) fn make(
    conn: &Connection,
    database: &Path,
    found: i64,
    known: i64,
) -> Result<PathBuf, OpenError> {
    let copy = beside(database, &format!(".before-v{known}"));
    let failed =
        |cause: String| OpenError::Copy { path: database.to_owned(), copy: copy.clone(), cause };
    let bytes = size(conn).map_err(|error| failed(error.to_string()))?;
    check_room(database, bytes + ROOM_BYTES)?;
    tracing::info!(bytes, "copying the database before its upgrade to {}", copy.display());
    let started = Instant::now();
    let making = beside(database, ".copying");
    write(conn, &making).map_err(&failed)?;
    verify(conn, &making, found).map_err(&failed)?;
    settle(&making, &copy).map_err(|error| failed(error.to_string()))?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(took_ms, "the database as it is now is kept as {}", copy.display());
    Ok(copy)
}

/// Bytes that the copy has at most.
fn size(conn: &Connection) -> Result<u64, rusqlite::Error> {
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let bytes = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Whether so many bytes fit on the disk. Where that cannot be told, the copy itself will tell.
fn check_room(database: &Path, needed: u64) -> Result<(), OpenError> {
    let folder = database.parent().unwrap_or(database);
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let (needed_mib, free_mib) = (needed.div_ceil(MIB), free / MIB);
    Err(OpenError::NoRoom { path: database.to_owned(), needed_mib, free_mib })
}

fn write(conn: &Connection, making: &Path) -> Result<(), String> {
    // Left by a start that was killed; SQLite does not write into a file that is there.
    if let Err(error) = std::fs::remove_file(making)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error.to_string());
    }
    let name = making.to_str().ok_or("the path is not UTF-8")?;
    conn.execute("VACUUM INTO ?1", [name]).map(drop).map_err(|error| error.to_string())
}

/// Compares the copy with the database: its version, its tables, and its pages.
fn verify(conn: &Connection, making: &Path, found: i64) -> Result<(), String> {
    let copy = Connection::open_with_flags(making, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| error.to_string())?;
    let ask = |conn: &Connection, sql: &str| {
        conn.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(|error| error.to_string())
    };
    let objects = "SELECT CAST(COUNT(*) AS TEXT) FROM sqlite_schema";
    let version = "SELECT CAST(MAX(version) AS TEXT) FROM schema_version";
    let is_whole = ask(&copy, "PRAGMA quick_check(1)")? == "ok"
        && ask(&copy, version)? == found.to_string()
        && ask(&copy, objects)? == ask(conn, objects)?;
    if is_whole { Ok(()) } else { Err("the copy is not what was copied".to_owned()) }
}

/// Gives the copy its name once it is on the disk.
fn settle(making: &Path, copy: &Path) -> io::Result<()> {
    File::open(making)?.sync_all()?;
    std::fs::rename(making, copy)?;
    if let Some(folder) = copy.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Takes a copy away that is of no use: the upgrade failed and has changed nothing.
pub(crate) fn remove(copy: &Path) {
    if let Err(error) = std::fs::remove_file(copy) {
        tracing::warn!("cannot remove {}: {error}", copy.display());
    }
}

/// Removes all but the newest copies.
pub(crate) fn prune(database: &Path) {
    let (Some(folder), Some(name)) = (database.parent(), database.file_name()) else { return };
    let prefix = format!("{}.before-v", name.to_string_lossy());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let version = |path: &Path| -> Option<i64> {
        path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse().ok()
    };
    let mut copies: Vec<(i64, PathBuf)> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((version(&path)?, path)))
        .collect();
    copies.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    for (_, path) in copies.iter().skip(COPIES_MAX) {
        tracing::info!("removing {}, an older copy", path.display());
        remove(path);
    }
}
