//! SQLite's own page cache, but a commit does not walk through all of it because a page was split.
//!
//! When SQLite splits a page of a table it sorts the numbers of the pages it got, and lends one of them the number
//! of the page that no database ever has, that with the locks at 1 GiB (`balance_nonroot` in btree.c:
//! `sqlite3PagerRekey(…, PENDING_BYTE / pageSize + 1, …)`). The cache remembers that number as the largest it has seen
//! (`pcache1Rekey` in pcache1.c), so that the commit, which throws away what lies behind the end of the file
//! (`pager_end_transaction`, `pcache1Truncate`), looks at every page it holds: some 30,000 in 64 MiB, a millisecond for
//! each commit that has split a page.
//!
//! So another number is lent: 0, which no page has either, and which is never the largest. Everything else is done by
//! the methods that SQLite comes with; they are wrapped because one of them is told the size of the pages, on which
//! the number of the lock page depends (<https://www.sqlite.org/c3ref/pcache_methods2.html>). Not here: how much memory
//! the cache takes (`PRAGMA cache_size` decides). A crate of its own because the border to SQLite takes `unsafe`.
//!
//! [`log`] is the other way of pages out of a connection: to the log, when they are committed.
//!
//! In: [`install`], once, before the first connection. Out: [`lent`], how often the number was lent.

#![allow(unsafe_code, reason = "these are functions that C calls, and that call C")]

pub mod log;

use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi::{
    SQLITE_CONFIG_GETPCACHE2, SQLITE_CONFIG_PCACHE2, SQLITE_OK, sqlite3_config, sqlite3_pcache,
    sqlite3_pcache_methods2, sqlite3_pcache_page,
};

/// Where the page with the locks begins, bytes (<https://www.sqlite.org/fileformat.html>, "The Lock-Byte Page").
const PENDING_BYTE: c_uint = 0x4000_0000;
/// What is lent instead of its number.
const NO_PAGE: c_uint = 0;

static OWN: OnceLock<Option<Own>> = OnceLock::new();
static LENT: AtomicU64 = AtomicU64::new(0);

/// The methods that SQLite comes with.
#[derive(Clone, Copy, Debug)]
struct Own {
    create: unsafe extern "C" fn(c_int, c_int, c_int) -> *mut sqlite3_pcache,
    cachesize: unsafe extern "C" fn(*mut sqlite3_pcache, c_int),
    pagecount: unsafe extern "C" fn(*mut sqlite3_pcache) -> c_int,
    fetch: unsafe extern "C" fn(*mut sqlite3_pcache, c_uint, c_int) -> *mut sqlite3_pcache_page,
    unpin: unsafe extern "C" fn(*mut sqlite3_pcache, *mut sqlite3_pcache_page, c_int),
    rekey: unsafe extern "C" fn(*mut sqlite3_pcache, *mut sqlite3_pcache_page, c_uint, c_uint),
    truncate: unsafe extern "C" fn(*mut sqlite3_pcache, c_uint),
    destroy: unsafe extern "C" fn(*mut sqlite3_pcache),
    shrink: unsafe extern "C" fn(*mut sqlite3_pcache),
}

/// One cache: SQLite's own, and the number of the page with the locks at this size of pages.
#[derive(Debug)]
struct Cache {
    inner: *mut sqlite3_pcache,
    locks: c_uint,
}

/// Stands this cache before SQLite's, for all connections that this process opens; the first call counts. Whether it
/// stands there: not if SQLite was in use before, when it may not be changed any more.
pub fn install() -> bool {
    OWN.get_or_init(stand_before).is_some()
}

/// How often a page was lent the number, since the start.
pub fn lent() -> u64 {
    LENT.load(Ordering::Relaxed)
}

fn stand_before() -> Option<Own> {
    let mut methods = sqlite3_pcache_methods2 {
        iVersion: 0,
        pArg: std::ptr::null_mut(),
        xInit: None,
        xShutdown: None,
        xCreate: None,
        xCachesize: None,
        xPagecount: None,
        xFetch: None,
        xUnpin: None,
        xRekey: None,
        xTruncate: None,
        xDestroy: None,
        xShrink: None,
    };
    // SAFETY: the option takes a pointer to these methods, and writes them (sqlite.org/c3ref/c_config_covering_index_scan.html).
    if unsafe { sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &raw mut methods) } != SQLITE_OK {
        return None;
    }
    let own = Own {
        create: methods.xCreate?,
        cachesize: methods.xCachesize?,
        pagecount: methods.xPagecount?,
        fetch: methods.xFetch?,
        unpin: methods.xUnpin?,
        rekey: methods.xRekey?,
        truncate: methods.xTruncate?,
        destroy: methods.xDestroy?,
        shrink: methods.xShrink?,
    };
    let ours = sqlite3_pcache_methods2 {
        xCreate: Some(create),
        xCachesize: Some(cachesize),
        xPagecount: Some(pagecount),
        xFetch: Some(fetch),
        xUnpin: Some(unpin),
        xRekey: Some(rekey),
        xTruncate: Some(truncate),
        xDestroy: Some(destroy),
        xShrink: Some(shrink),
        // Beginning and end are SQLite's, with its argument.
        ..methods
    };
    // SAFETY: the option takes a pointer to methods and copies them; each of ours keeps the contract of the method it
    // stands for. SQLite refuses once it is in use.
    let answer = unsafe { sqlite3_config(SQLITE_CONFIG_PCACHE2, &raw const ours) };
    (answer == SQLITE_OK).then_some(own)
}

/// The methods behind ours: they are there before SQLite knows of ours being used.
fn own() -> Own {
    let Some(own) = OWN.get().copied().flatten() else {
        unreachable!("a page cache is used that was not installed")
    };
    own
}

/// # Safety
/// `cache` comes from [`create`], and is not destroyed yet.
unsafe fn inner(cache: *mut sqlite3_pcache) -> *mut sqlite3_pcache {
    // SAFETY: so the caller promises.
    unsafe { (*cache.cast::<Cache>()).inner }
}

unsafe extern "C" fn create(page: c_int, extra: c_int, purgeable: c_int) -> *mut sqlite3_pcache {
    // SAFETY: SQLite's arguments, for SQLite's method.
    let inner = unsafe { (own().create)(page, extra, purgeable) };
    if inner.is_null() {
        return inner;
    }
    let locks = c_uint::try_from(page)
        .ok()
        .filter(|page| *page > 0)
        .map_or(NO_PAGE, |page| PENDING_BYTE / page + 1);
    Box::into_raw(Box::new(Cache { inner, locks })).cast()
}

unsafe extern "C" fn cachesize(cache: *mut sqlite3_pcache, pages: c_int) {
    // SAFETY: SQLite names a cache that it has created here.
    unsafe { (own().cachesize)(inner(cache), pages) }
}

unsafe extern "C" fn pagecount(cache: *mut sqlite3_pcache) -> c_int {
    // SAFETY: as above.
    unsafe { (own().pagecount)(inner(cache)) }
}

unsafe extern "C" fn fetch(
    cache: *mut sqlite3_pcache,
    key: c_uint,
    create: c_int,
) -> *mut sqlite3_pcache_page {
    // SAFETY: as above.
    unsafe { (own().fetch)(inner(cache), key, create) }
}

unsafe extern "C" fn unpin(
    cache: *mut sqlite3_pcache,
    page: *mut sqlite3_pcache_page,
    discard: c_int,
) {
    // SAFETY: as above, and a page that it has of it.
    unsafe { (own().unpin)(inner(cache), page, discard) }
}

unsafe extern "C" fn rekey(
    cache: *mut sqlite3_pcache,
    page: *mut sqlite3_pcache_page,
    old: c_uint,
    new: c_uint,
) {
    // SAFETY: as above; nobody else has the cache meanwhile.
    let locks = unsafe { (*cache.cast::<Cache>()).locks };
    let lend = |key| if key == locks { NO_PAGE } else { key };
    if new == locks {
        LENT.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: as above. The page has the number `lend(old)`, because it was given numbers here only, and none
    // has `lend(new)`: SQLite has looked, and lends to one page at a time.
    unsafe { (own().rekey)(inner(cache), page, lend(old), lend(new)) }
}

unsafe extern "C" fn truncate(cache: *mut sqlite3_pcache, first: c_uint) {
    // SAFETY: as above.
    unsafe { (own().truncate)(inner(cache), first) }
}

unsafe extern "C" fn destroy(cache: *mut sqlite3_pcache) {
    // SAFETY: it was made by `create` in a box, and SQLite does not name it again.
    let cache = unsafe { Box::from_raw(cache.cast::<Cache>()) };
    // SAFETY: SQLite's own, of which nobody else knows.
    unsafe { (own().destroy)(cache.inner) }
}

unsafe extern "C" fn shrink(cache: *mut sqlite3_pcache) {
    // SAFETY: as above.
    unsafe { (own().shrink)(inner(cache)) }
}
