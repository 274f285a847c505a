//! A door to a real PostgreSQL, enough to run the game's rules on one: its protocol over a Unix socket,
//! version 3 (PostgreSQL's manual, chapter "Frontend/Backend Protocol"), texts for all values. It keeps
//! what `game::db` promises, and its translation of statements ([`translate`]) is all that the game's
//! SQL needs.
//!
//! Not here: connections that break, waiting for the disk, scripts' own SQL.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use game::db::{Cell, Database, DbError, Param, Row};
use game::schema::{CLUSTERED, MIGRATIONS, NOBODY, SCHEMA_VERSION};

/// Names the folder of a server's socket: then tests of the rules run there.
pub(crate) const SERVER: &str = "THRONG_TEST_POSTGRES";

/// With it a machine without PostgreSQL fails, instead of leaving these tests out.
const WANTED: &str = "THRONG_POSTGRES";

/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server of its own, in a folder that goes with it.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    child: Child,
}

impl Server {
    /// Starts one; `None` where PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let is_wanted = std::env::var_os(WANTED).is_some();
            assert!(!is_wanted, "{WANTED} is set, and there is no PostgreSQL (Debian: postgresql)");
            println!("left out: PostgreSQL is not installed (Debian: postgresql)");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("throng-postgres-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let user = unprivileged();
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let data = folder.join("data");
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.arg("-D").arg(&data).current_dir(&folder).stdin(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let made = command("initdb")
            .args(["-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut server = command("postgres");
        server.arg("-k").arg(&folder).args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        server.args(["-c", "deadlock_timeout=20ms", "-c", "max_connections=40"]);
        server.args(["-c", "shared_buffers=32MB", "-c", "logging_collector=off"]);
        let child = server.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self { folder, child };
        let give_up = Instant::now() + PATIENCE;
        while Postgres::connect(&server.folder).is_none() {
            let log = || std::fs::read_to_string(server.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < give_up, "PostgreSQL did not start: {}", log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // "Fast": open transactions are rolled back.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let give_up = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < give_up {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Where the newest version's programs are; Debian keeps them out of the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    folders.filter(|folder| folder.join("initdb").is_file()).max()
}

/// PostgreSQL does not run as root: then as the user that its package makes, or nobody.
fn unprivileged() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().unwrap());
        Some((fields.next()?, fields.next()?))
    };
    Some(of("postgres").or_else(|| of("nobody")).unwrap())
}

/// The game's SQL as PostgreSQL reads it: locks are no comments there, tables have no clusters, and
/// lists are read by other functions.
pub(crate) fn translate(sql: &str) -> String {
    let nobody = format!("decode({}, 'hex')", NOBODY.trim_start_matches('x'));
    let sql = sql
        .replace(CLUSTERED, "")
        .replace(NOBODY, &nobody)
        .replace("/* FOR ", "FOR ")
        .replace(" */", "");
    let sql = replaced(&sql, "json_each(", &|list, rest| match rest.strip_prefix(" AS item") {
        Some(rest) => (format!("jsonb_array_elements({list}::jsonb) AS item(value)"), rest),
        None => (format!("jsonb_array_elements_text({list}::jsonb) AS list(value)"), rest),
    });
    replaced(&sql, "unhex(", &|digits, rest| (format!("decode({digits}, 'hex')"), rest))
}

/// What takes the place of a call, and what is left of the text behind it.
type Replacement<'a> = &'a dyn for<'b> Fn(&'b str, &'b str) -> (String, &'b str);

/// Replaces every call of a function whose arguments have no brackets.
fn replaced(sql: &str, call: &str, by: Replacement<'_>) -> String {
    let Some((before, after)) = sql.split_once(call) else { return sql.to_owned() };
    let (argument, rest) = after.split_once(')').unwrap();
    let (text, left) = by(argument, rest);
    let left = replaced(left, call, by);
    format!("{before}{text}{left}")
}

/// The same without its locks, to see what they are good for.
fn unlocked(sql: &str) -> String {
    sql.split_once("/* FOR ").map_or(sql, |(before, _)| before).to_owned()
}

/// A connection.
pub(crate) struct Postgres {
    stream: UnixStream,
    /// Statements that the server has, by text and types of parameters.
    prepared: BTreeMap<(String, Vec<u32>), String>,
    /// Statements that were prepared so far; of one that has failed it is not known.
    serial: u64,
    is_open: bool,
    /// Savepoints of the game's that are open.
    savepoints: u32,
    /// Statements that lock do not.
    pub(crate) is_careless: bool,
}

/// What came of one statement.
#[derive(Default)]
struct Outcome {
    columns: Vec<(String, u32)>,
    rows: Vec<Vec<Cell>>,
    tag: String,
    error: Option<BTreeMap<u8, String>>,
}

impl Postgres {
    /// `None` if nobody answers there.
    pub(crate) fn connect(folder: &Path) -> Option<Self> {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut db = Self {
            stream,
            prepared: BTreeMap::new(),
            serial: 0,
            is_open: false,
            savepoints: 0,
            is_careless: false,
        };
        let mut hello = 196_608_i32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
        let length = i32::try_from(hello.len() + 4).unwrap().to_be_bytes();
        db.stream.write_all(&[&length[..], &hello].concat()).ok()?;
        db.outcome().ok()?.error.is_none().then_some(db)
    }

    /// A connection to tables of its own, made by the game's steps.
    pub(crate) fn fresh(folder: &Path) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let schema = format!("t{}_{serial}", std::process::id());
        let mut db = Self::connect(folder).unwrap();
        db.simple(&format!("CREATE SCHEMA {schema}")).unwrap();
        db.enter(&schema);
        let steps = MIGRATIONS.iter().flat_map(|step| step.sql);
        for sql in [SCHEMA_VERSION].iter().chain(steps) {
            db.simple(&translate(sql)).unwrap();
        }
        db
    }

    /// Another connection to the same tables.
    pub(crate) fn beside(&mut self, folder: &Path) -> Self {
        let mut schema = String::new();
        self.query("SELECT current_schema()::text", &[], &mut |row| schema = row.text(0).into())
            .unwrap();
        let mut db = Self::connect(folder).unwrap();
        db.enter(&schema);
        db
    }

    fn enter(&mut self, schema: &str) {
        self.simple(&format!("SET search_path TO {schema}")).unwrap();
    }

    fn simple(&mut self, sql: &str) -> Result<String, DbError> {
        self.post(&[(b'Q', [sql.as_bytes(), b"\0"].concat())]);
        sorted(sql, self.outcome().unwrap()).map(|outcome| outcome.tag)
    }

    fn post(&mut self, messages: &[(u8, Vec<u8>)]) {
        let mut bytes = Vec::new();
        for (kind, body) in messages {
            bytes.push(*kind);
            bytes.extend_from_slice(&i32::try_from(body.len() + 4).unwrap().to_be_bytes());
            bytes.extend_from_slice(body);
        }
        self.stream.write_all(&bytes).unwrap();
    }

    fn read(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length - 4).unwrap()];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Reads until the server is ready for more.
    fn outcome(&mut self) -> std::io::Result<Outcome> {
        let mut outcome = Outcome::default();
        loop {
            let (kind, body) = self.read()?;
            let mut body = Body(&body);
            match kind {
                b'T' => outcome.columns = body.columns(),
                b'D' => outcome.rows.push(body.cells(&outcome.columns)),
                b'C' => outcome.tag = body.text(),
                b'E' => outcome.error = Some(body.fields()),
                b'Z' => return Ok(outcome),
                // Authentication, settings, notices, "parsed", "bound", "no rows".
                _ => {}
            }
        }
    }

    /// Runs one statement.
    fn run_bare(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Outcome, DbError> {
        let locking = if self.is_careless { unlocked(sql) } else { sql.to_owned() };
        let types: Vec<u32> = params.iter().map(type_of).collect();
        let key = (translate(&locking), types);
        let known = self.prepared.get(&key).cloned();
        self.serial += u64::from(known.is_none());
        let name = known.clone().unwrap_or_else(|| format!("s{}", self.serial));
        let mut messages = Vec::new();
        if known.is_none() {
            let mut parse = [name.as_bytes(), b"\0", key.0.as_bytes(), b"\0"].concat();
            parse.extend_from_slice(&u16::try_from(key.1.len()).unwrap().to_be_bytes());
            key.1.iter().for_each(|kind| parse.extend_from_slice(&kind.to_be_bytes()));
            messages.push((b'P', parse));
        }
        let mut bind = [b"\0", name.as_bytes(), b"\0\0\0"].concat();
        bind.extend_from_slice(&u16::try_from(params.len()).unwrap().to_be_bytes());
        for param in params {
            match text_of(param) {
                None => bind.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(text) => {
                    bind.extend_from_slice(&i32::try_from(text.len()).unwrap().to_be_bytes());
                    bind.extend_from_slice(text.as_bytes());
                }
            }
        }
        bind.extend_from_slice(&[0, 0]);
        messages.push((b'B', bind));
        messages.push((b'D', b"P\0".to_vec()));
        messages.push((b'E', vec![0; 5]));
        messages.push((b'S', Vec::new()));
        self.post(&messages);
        let outcome = sorted(sql, self.outcome().unwrap())?;
        // What has failed may not be there.
        self.prepared.insert(key, name);
        Ok(outcome)
    }

    /// Runs a statement that fails alone: within a transaction, but outside of the game's savepoints,
    /// behind one of its own.
    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Outcome, DbError> {
        if !self.is_open || self.savepoints > 0 {
            return self.run_bare(sql, params);
        }
        self.simple("SAVEPOINT statement")?;
        let result = self.run_bare(sql, params);
        if result.is_err() {
            self.simple("ROLLBACK TO SAVEPOINT statement")?;
        }
        self.simple("RELEASE SAVEPOINT statement")?;
        result
    }
}

fn sorted(sql: &str, outcome: Outcome) -> Result<Outcome, DbError> {
    let Some(error) = &outcome.error else { return Ok(outcome) };
    let field = |name: u8| error.get(&name).map_or("", String::as_str);
    let (code, message) = (field(b'C'), field(b'M'));
    Err(match code {
        // unique_violation
        "23505" => {
            let (table, detail) = (field(b't'), field(b'D'));
            let columns = detail.split_once('(').and_then(|(_, rest)| rest.split_once(")="));
            DbError::Exists { what: format!("{table}.{}", columns.map_or("", |it| it.0)) }
        }
        // serialization_failure, deadlock_detected, lock_not_available
        "40001" | "40P01" | "55P03" => DbError::Conflict { cause: message.to_owned() },
        _ => {
            eprintln!("PostgreSQL: {code} {message}: {sql}");
            DbError::Machine(format!("{code} {message}"))
        }
    })
}

fn type_of(param: &Param<'_>) -> u32 {
    match param {
        Param::Null => 0,
        Param::Int(_) => 20,
        Param::Real(_) => 701,
        Param::Text(_) => 25,
        Param::Blob(_) => 17,
    }
}

fn text_of(param: &Param<'_>) -> Option<String> {
    match param {
        Param::Null => None,
        Param::Int(number) => Some(number.to_string()),
        Param::Real(number) => Some(number.to_string()),
        Param::Text(text) => Some((*text).to_owned()),
        Param::Blob(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
            Some(format!("\\x{}", digits.concat()))
        }
    }
}

/// The body of a message.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8(self.0[..end].to_vec()).unwrap();
        self.0 = &self.0[end + 1..];
        text
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        let (number, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        *number
    }

    /// Names and types of columns.
    fn columns(&mut self) -> Vec<(String, u32)> {
        let count = u16::from_be_bytes(self.number());
        let mut column = || {
            let name = self.text();
            // The table, the column's number in it.
            let _: [u8; 6] = self.number();
            let kind = u32::from_be_bytes(self.number());
            // Length, modifier, format.
            let _: [u8; 8] = self.number();
            (name, kind)
        };
        (0..count).map(|_| column()).collect()
    }

    fn cells(&mut self, columns: &[(String, u32)]) -> Vec<Cell> {
        let count = u16::from_be_bytes(self.number());
        assert_eq!(usize::from(count), columns.len());
        let mut cell = |kind: u32| {
            let length = i32::from_be_bytes(self.number());
            let Ok(length) = usize::try_from(length) else { return Cell::Null };
            let (text, rest) = self.0.split_at(length);
            self.0 = rest;
            let text = std::str::from_utf8(text).unwrap();
            match kind {
                20 | 21 | 23 => Cell::Int(text.parse().unwrap()),
                701 => Cell::Real(text.parse().unwrap()),
                17 => {
                    let digits = text.strip_prefix("\\x").unwrap();
                    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                    Cell::Blob((0..digits.len()).step_by(2).map(byte).collect())
                }
                _ => Cell::Text(text.to_owned()),
            }
        };
        columns.iter().map(|(_, kind)| cell(*kind)).collect()
    }

    /// The fields of an error, by their letters.
    fn fields(&mut self) -> BTreeMap<u8, String> {
        let mut fields = BTreeMap::new();
        loop {
            let [name] = self.number();
            if name == 0 {
                return fields;
            }
            fields.insert(name, self.text());
        }
    }
}

struct PostgresRow<'a>(&'a [(String, u32)], &'a [Cell]);

impl Row for PostgresRow<'_> {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn name(&self, column: usize) -> &str {
        &self.0[column].0
    }

    fn cell(&self, column: usize) -> Cell {
        self.1[column].clone()
    }

    fn int(&self, column: usize) -> i64 {
        if let Some(Cell::Int(number)) = self.1.get(column) { *number } else { 0 }
    }

    fn text(&self, column: usize) -> &str {
        if let Some(Cell::Text(text)) = self.1.get(column) { text } else { "" }
    }

    fn blob(&self, column: usize) -> &[u8] {
        if let Some(Cell::Blob(blob)) = self.1.get(column) { blob } else { &[] }
    }

    fn is_null(&self, column: usize) -> bool {
        matches!(self.1.get(column), None | Some(Cell::Null))
    }
}

impl Database for Postgres {
    fn begin(&mut self) -> Result<(), DbError> {
        assert!(!self.is_open, "a transaction is open already");
        self.simple("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        self.is_open = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DbError> {
        (self.is_open, self.savepoints) = (false, 0);
        match &*self.simple("COMMIT")? {
            "COMMIT" => Ok(()),
            tag => Err(DbError::Machine(format!("a commit ended with {tag}"))),
        }
    }

    fn sync(&mut self) {}

    fn is_synced(&self) -> bool {
        true
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        (self.is_open, self.savepoints) = (false, 0);
        self.simple("ROLLBACK").map(drop)
    }

    fn in_transaction(&self) -> bool {
        self.is_open
    }

    fn savepoint(&mut self) -> Result<(), DbError> {
        self.simple("SAVEPOINT job")?;
        self.savepoints += 1;
        Ok(())
    }

    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        self.simple("ROLLBACK TO SAVEPOINT job").map(drop)
    }

    fn release_savepoint(&mut self) -> Result<(), DbError> {
        self.simple("RELEASE SAVEPOINT job")?;
        self.savepoints -= 1;
        Ok(())
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        let outcome = self.run(sql, params)?;
        // "UPDATE 3", "INSERT 0 1", "CREATE TABLE".
        Ok(outcome.tag.rsplit(' ').next().unwrap().parse().unwrap_or(0))
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        let outcome = self.run(sql, params)?;
        for row in &outcome.rows {
            each(&PostgresRow(&outcome.columns, row));
        }
        Ok(())
    }

    fn guest_execute(&mut self, _sql: &str, _params: &[Param<'_>]) -> Result<u64, DbError> {
        Err(DbError::Statement("not for scripts".into()))
    }

    fn guest_query(
        &mut self,
        _sql: &str,
        _params: &[Param<'_>],
        _each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        Err(DbError::Statement("not for scripts".into()))
    }
}

#[test]
fn statements_are_translated_by_their_texts_alone() {
    for (sql, expected) in [
        ("SELECT 1 FROM users WHERE id = $1", "SELECT 1 FROM users WHERE id = $1"),
        ("CREATE TABLE t (a TEXT) WITHOUT ROWID", "CREATE TABLE t (a TEXT)"),
        (
            "SELECT 1 FROM t WHERE a <> x'00000000000000000000000000000000'",
            "SELECT 1 FROM t WHERE a <> decode('00000000000000000000000000000000', 'hex')",
        ),
        (
            "SELECT 1 FROM users u, writer_turn t /* FOR NO KEY UPDATE OF u FOR KEY SHARE OF t */",
            "SELECT 1 FROM users u, writer_turn t FOR NO KEY UPDATE OF u FOR KEY SHARE OF t",
        ),
        (
            "SELECT 1 FROM t WHERE a IN (SELECT unhex(value) FROM json_each($2))",
            "SELECT 1 FROM t WHERE a IN (SELECT decode(value, 'hex') \
             FROM jsonb_array_elements_text($2::jsonb) AS list(value))",
        ),
        (
            "SELECT 1 FROM json_each($1) AS item CROSS JOIN t WHERE a = unhex(item.value ->> 0)",
            "SELECT 1 FROM jsonb_array_elements($1::jsonb) AS item(value) CROSS JOIN t \
             WHERE a = decode(item.value ->> 0, 'hex')",
        ),
    ] {
        assert_eq!(translate(sql), expected);
    }
}
