//! The frames of a commit, written to the write-ahead log in few large pieces.
//!
//! SQLite writes a frame with two calls, one for its 24 bytes of header and one for its page (`walWriteOneFrame` in
//! wal.c), so that a commit of 100 pages makes 200 of them, none of which begins where a page of the system's does:
//! a sixth of what an RPC that writes one object costs. Here frames that follow one another are gathered, and
//! written when they have [`GATHERED_BYTES_MAX`] bytes or when the one comes that ends the commit, which its header
//! says (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>, bytes 4 to 7). The commit is seen by others only
//! after that frame's write has come back, and fails with it.
//!
//! Frames are gathered within [`gathered`] alone, and until the commit's end. What a transaction writes before it
//! commits, because the cache is full, is written at once: nothing says when it is taken back, and another connection's
//! frames could be there when it were written later.
//!
//! ```text
//! gathered(COMMIT) ─▶ header, page, header, page … ─▶ memory of the thread ─▶ one write for each 64 KiB ─▶ log
//! all other writes, and all reads of a log ─▶ what is in memory first, then as SQLite would
//! ```
//!
//! Files other than logs are SQLite's own, which knows nothing of all this. Not here: when the disk has it (`store::log`).

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_OK, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// The name that connections give to open a file this way.
pub const NAME: &CStr = c"throng";

/// Of how many bytes a piece is at most, but for its last frame. Few enough to stay in a core's own cache until they
/// are written. SQLite's unix files take less than 128 KiB at a time: of a length they look at 17 bits (`seekAndWriteFd` in
/// `os_unix.c`), and a frame of the largest pages comes on top.
pub const GATHERED_BYTES_MAX: usize = 64 * 1_024;
const _: () = assert!(GATHERED_BYTES_MAX <= 64 * 1_024, "a piece would be written cut short");

/// Before the page of each frame.
const HEADER_BYTES: usize = 24;
/// Where the header says how many pages the database has after the commit; 0 in all frames but its last.
const ENDS: std::ops::Range<usize> = 4..8;

static WAY: OnceLock<Option<Way>> = OnceLock::new();

thread_local! {
    static GATHER: RefCell<Gather> = const { RefCell::new(Gather::IDLE) };
}

/// The system's files as SQLite opens them.
#[derive(Clone, Copy, Debug)]
struct Way {
    vfs: *mut sqlite3_vfs,
    open: unsafe extern "C" fn(
        *mut sqlite3_vfs,
        *const c_char,
        *mut sqlite3_file,
        c_int,
        *mut c_int,
    ) -> c_int,
}

// SAFETY: SQLite's own, never taken away, made for all threads.
unsafe impl Send for Way {}
// SAFETY: as above.
unsafe impl Sync for Way {}

/// A log as SQLite knows it. Behind it, in the same memory, is the log as the system's files are opened.
#[repr(C)]
struct Log {
    file: sqlite3_file,
}

/// What a thread has gathered.
struct Gather {
    /// Whether a commit's frames come.
    is_on: bool,
    /// Whose they are; null while there are none.
    log: *mut sqlite3_file,
    /// Where they belong.
    start: sqlite3_int64,
    bytes: Vec<u8>,
    /// Whether the last of them is a header, whose page comes next.
    wants_page: bool,
    /// Whether the frame ends the commit.
    ends: bool,
    counts: Counts,
}

/// What a thread has gathered since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that were gathered.
    pub frames: u64,
    /// Writes that they made.
    pub writes: u64,
}

/// What this thread has gathered.
pub fn counts() -> Counts {
    GATHER.with_borrow(|gather| gather.counts)
}

/// Makes [`NAME`] known to SQLite; the first call counts. Whether it is: not if there is no system that SQLite knows.
pub fn install() -> bool {
    WAY.get_or_init(stand_before).is_some()
}

/// Commits by `act`, on a connection that was opened by [`NAME`]; on another one it makes no difference.
///
/// # Errors
/// Those of `act`.
///
/// # Panics
/// If a commit that went well has left frames unwritten: it would be lost, though somebody is told that it is done.
pub fn gathered<T, E>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    /// However `act` ends.
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            GATHER.with_borrow_mut(|gather| gather.stop());
        }
    }
    GATHER.with_borrow_mut(|gather| {
        assert!(!gather.is_on && gather.bytes.is_empty(), "a commit within a commit");
        gather.is_on = true;
    });
    let off = Off;
    let done = act();
    let is_whole = GATHER.with_borrow(|gather| gather.bytes.is_empty());
    drop(off);
    assert!(is_whole || done.is_err(), "a commit has left frames unwritten");
    done
}

impl Gather {
    const IDLE: Self = Self {
        is_on: false,
        log: std::ptr::null_mut(),
        start: 0,
        bytes: Vec::new(),
        wants_page: false,
        ends: false,
        counts: Counts { frames: 0, writes: 0 },
    };

    /// The commit is over. What is left of it has failed.
    fn stop(&mut self) {
        self.is_on = false;
        self.forget();
    }

    fn forget(&mut self) {
        self.log = std::ptr::null_mut();
        self.bytes.clear();
        (self.wants_page, self.ends) = (false, false);
    }

    /// Whether bytes for this place of the log follow what there is.
    fn is_next(&self, log: *mut sqlite3_file, at: sqlite3_int64) -> bool {
        let end = i64::try_from(self.bytes.len()).ok().and_then(|len| self.start.checked_add(len));
        self.log == log && end == Some(at)
    }

    /// Takes what is to be written, if it is a part of a frame that belongs here; `None` if it is not.
    ///
    /// # Safety
    /// `log` is an open log of the system's.
    unsafe fn take(
        &mut self,
        log: *mut sqlite3_file,
        bytes: &[u8],
        at: sqlite3_int64,
    ) -> Option<c_int> {
        if !self.is_on {
            return None;
        }
        let is_page = self.wants_page && self.is_next(log, at);
        if is_page {
            self.bytes.extend_from_slice(bytes);
            self.wants_page = false;
            self.counts.frames += 1;
            if !self.ends && self.bytes.len() < GATHERED_BYTES_MAX {
                return Some(SQLITE_OK);
            }
            self.is_on = !self.ends;
            // SAFETY: so the caller promises.
            return Some(unsafe { self.write() });
        }
        let is_header = bytes.len() == HEADER_BYTES && !self.wants_page;
        if !is_header || !(self.bytes.is_empty() || self.is_next(log, at)) {
            return None;
        }
        if self.bytes.is_empty() {
            (self.log, self.start) = (log, at);
        }
        self.bytes.extend_from_slice(bytes);
        self.wants_page = true;
        self.ends = bytes[ENDS] != [0; 4];
        Some(SQLITE_OK)
    }

    /// Writes what there is.
    ///
    /// # Safety
    /// Its log is open.
    unsafe fn write(&mut self) -> c_int {
        let Ok(len) = c_int::try_from(self.bytes.len()) else {
            unreachable!("{} bytes are gathered", self.bytes.len())
        };
        self.counts.writes += 1;
        // SAFETY: it is open, as the caller promises, and takes so many bytes.
        let answer = unsafe {
            (methods(self.log).write)(self.log, self.bytes.as_ptr().cast(), len, self.start)
        };
        self.forget();
        answer
    }

    /// Writes what there is of this log, before something else happens to it.
    ///
    /// # Safety
    /// `log` is open.
    unsafe fn settle(&mut self, log: *mut sqlite3_file) -> c_int {
        if self.bytes.is_empty() || self.log != log {
            return SQLITE_OK;
        }
        // SAFETY: so the caller promises.
        unsafe { self.write() }
    }
}

/// As [`Gather::settle`], of this thread.
///
/// # Safety
/// `log` is open.
unsafe fn settle(log: *mut sqlite3_file) -> c_int {
    // A thread that ends has nothing gathered any more.
    let settled = GATHER.try_with(|gather| {
        // SAFETY: so the caller promises.
        unsafe { gather.borrow_mut().settle(log) }
    });
    settled.unwrap_or(SQLITE_OK)
}

/// The methods of a log of the system's that are needed here.
struct Methods {
    close: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
    read: unsafe extern "C" fn(*mut sqlite3_file, *mut c_void, c_int, sqlite3_int64) -> c_int,
    write: unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, sqlite3_int64) -> c_int,
    truncate: unsafe extern "C" fn(*mut sqlite3_file, sqlite3_int64) -> c_int,
    sync: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    size: unsafe extern "C" fn(*mut sqlite3_file, *mut sqlite3_int64) -> c_int,
    lock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    unlock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    check_lock: unsafe extern "C" fn(*mut sqlite3_file, *mut c_int) -> c_int,
    control: unsafe extern "C" fn(*mut sqlite3_file, c_int, *mut c_void) -> c_int,
    sector: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
    traits: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
}

impl Methods {
    fn of(methods: &sqlite3_io_methods) -> Option<Self> {
        Some(Self {
            close: methods.xClose?,
            read: methods.xRead?,
            write: methods.xWrite?,
            truncate: methods.xTruncate?,
            sync: methods.xSync?,
            size: methods.xFileSize?,
            lock: methods.xLock?,
            unlock: methods.xUnlock?,
            check_lock: methods.xCheckReservedLock?,
            control: methods.xFileControl?,
            sector: methods.xSectorSize?,
            traits: methods.xDeviceCharacteristics?,
        })
    }
}

/// # Safety
/// `log` is open, and has all methods: [`open`] has looked.
unsafe fn methods(log: *mut sqlite3_file) -> Methods {
    // SAFETY: so the caller promises.
    let methods = unsafe { Methods::of(&*(*log).pMethods) };
    let Some(methods) = methods else { unreachable!("a log without methods was opened") };
    methods
}

/// What SQLite calls of a log. The rest, shared memory and mapping, is asked of databases alone.
static OURS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(traits),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

fn stand_before() -> Option<Way> {
    // SAFETY: it takes a name or none, and answers with what lives as long as the process.
    let own = unsafe { sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: null, or such a one, which nobody changes.
    let methods = unsafe { own.as_ref() }?;
    let ahead = c_int::try_from(size_of::<Log>()).ok()?;
    let way = Way { vfs: own, open: methods.xOpen? };
    // All else is done as the system's: a copy with all that it knows.
    let ours = sqlite3_vfs {
        zName: NAME.as_ptr(),
        szOsFile: methods.szOsFile.checked_add(ahead)?,
        pNext: std::ptr::null_mut(),
        xOpen: Some(open),
        ..*methods
    };
    // SAFETY: it keeps the contract of the one that it was made from, and lives as long as the process.
    let answer = unsafe { sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0) };
    (answer == SQLITE_OK).then_some(way)
}

/// The log behind ours.
///
/// # Safety
/// `file` is the memory of a file that [`open`] was given for a log.
unsafe fn behind(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: it has room for both.
    unsafe { file.byte_add(size_of::<Log>()) }
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(way) = WAY.get().copied().flatten() else {
        unreachable!("a file is opened by a name that was not installed")
    };
    if flags & SQLITE_OPEN_WAL == 0 {
        // SAFETY: SQLite's arguments, for SQLite's method.
        return unsafe { (way.open)(way.vfs, name, file, flags, out) };
    }
    // SAFETY: the memory has room for ours and for the one behind it.
    let log = unsafe {
        (*file).pMethods = std::ptr::null();
        behind(file)
    };
    // SAFETY: as above.
    let answer = unsafe { (way.open)(way.vfs, name, log, flags, out) };
    // SAFETY: as above. Without methods a file is not open, and is not closed.
    unsafe {
        let Some(methods) = (*log).pMethods.as_ref() else { return answer };
        if let (true, Some(close)) = (Methods::of(methods).is_none(), methods.xClose) {
            let _ = close(log);
            return SQLITE_CANTOPEN;
        }
        (*file).pMethods = &raw const OURS;
    }
    answer
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite names an open log, and so many bytes.
    let (log, slice) = unsafe {
        let len = usize::try_from(len).unwrap_or_default();
        (behind(file), std::slice::from_raw_parts(bytes.cast::<u8>(), len))
    };
    let taken = GATHER.try_with(|gather| {
        let mut gather = gather.borrow_mut();
        // SAFETY: the log is open.
        unsafe {
            let taken = gather.take(log, slice, at);
            taken.or_else(|| Some(gather.settle(log)).filter(|answer| *answer != SQLITE_OK))
        }
    });
    match taken {
        Ok(Some(answer)) => answer,
        // SAFETY: SQLite's arguments, for SQLite's method.
        Ok(None) | Err(_) => unsafe { (methods(log).write)(log, bytes, len, at) },
    }
}

/// Does something with a log once it has all that belongs to it.
///
/// # Safety
/// SQLite names an open log.
unsafe fn settled(
    file: *mut sqlite3_file,
    act: impl FnOnce(*mut sqlite3_file, Methods) -> c_int,
) -> c_int {
    // SAFETY: so the caller promises.
    unsafe {
        let log = behind(file);
        match settle(log) {
            SQLITE_OK => act(log, methods(log)),
            failed => failed,
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite names an open log.
    unsafe {
        let log = behind(file);
        let settled = settle(log);
        let closed = (methods(log).close)(log);
        if settled == SQLITE_OK { closed } else { settled }
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite names an open log, and room for so many bytes.
    unsafe { settled(file, |log, own| (own.read)(log, into, len, at)) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    // SAFETY: SQLite names an open log.
    unsafe { settled(file, |log, own| (own.truncate)(log, len)) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { settled(file, |log, own| (own.sync)(log, flags)) }
}

unsafe extern "C" fn size(file: *mut sqlite3_file, len: *mut sqlite3_int64) -> c_int {
    // SAFETY: as above, and a place for the answer.
    unsafe { settled(file, |log, own| (own.size)(log, len)) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, kind: c_int) -> c_int {
    // SAFETY: as above; what is in the file does not matter.
    unsafe { (methods(behind(file)).lock)(behind(file), kind) }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, kind: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { (methods(behind(file)).unlock)(behind(file), kind) }
}

unsafe extern "C" fn check_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: as above, and a place for the answer.
    unsafe { (methods(behind(file)).check_lock)(behind(file), out) }
}

unsafe extern "C" fn control(file: *mut sqlite3_file, what: c_int, with: *mut c_void) -> c_int {
    // SAFETY: as above, with what the control takes.
    unsafe { (methods(behind(file)).control)(behind(file), what, with) }
}

unsafe extern "C" fn sector(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as above.
    unsafe { (methods(behind(file)).sector)(behind(file)) }
}

unsafe extern "C" fn traits(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as above.
    unsafe { (methods(behind(file)).traits)(behind(file)) }
}
