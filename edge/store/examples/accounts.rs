//! How long registering and authenticating devices takes: `game::api::run` on a store in a
//! temporary folder, in batches as a worker makes them. Prints wall and CPU time per call.
//!
//! `cargo run --release -p store --example accounts -- [calls] [batch] [folder]`

#![expect(clippy::cast_precision_loss, reason = "counts of calls are small")]

use std::path::PathBuf;
use std::time::Instant;

use event::{Now, Random};
use game::api::{ApiCall, Cx, finish_batch, run};
use game::db::Database as _;
use game::directory::Directory;
use game::session::{SessionSettings, Signer};
use store::{Sqlite, Store};
use wire::nakama::api::{AccountDevice, AuthenticateDeviceRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let calls: u64 = args.next().map_or(Ok(200_000), |text| text.parse())?;
    let batch: usize = args.next().map_or(Ok(64), |text| text.parse())?;
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("throng-accounts-{}", std::process::id()));
    let store = Store::open(&folder)?;
    let mut db = store.connect()?;
    let signer = Signer::new(&SessionSettings {
        encryption_key: "defaultencryptionkey".into(),
        refresh_encryption_key: "defaultrefreshencryptionkey".into(),
        token_expiry_s: 60,
        refresh_token_expiry_s: 3_600,
    });
    let (mut random, directory) = (Random::from_number(1), Directory::default());
    for (what, seed) in
        [("register", 7), ("authenticate", 7), ("register more", 8), ("authenticate", 8)]
    {
        let mut ids = Random::from_number(seed);
        let calls: Vec<ApiCall> = (0..calls).map(|_| device(&mut ids)).collect();
        let (start, cpu) = (Instant::now(), cpu_us());
        let mut bytes = 0;
        let mut now = Now { mono_ns: 0, unix_ms: 1_800_000_000_000 + seed * 1_000_000 };
        for batch in calls.chunks(batch) {
            now = now.after_ms(2);
            db.begin_reading()?;
            for call in batch {
                let cx = Cx {
                    format: game::api::Format::Json,
                    now,
                    random: &mut random,
                    db: &mut db,
                    signer: &signer,
                    directory: &directory,
                    answer_bytes_max: 4 << 20,
                    caller: None,
                    effects: Vec::new(),
                    session: None,
                };
                bytes += run(cx, call)?.body.len();
            }
            finish_batch(&mut db)?;
        }
        let count = calls.len() as f64;
        let wall_us = start.elapsed().as_secs_f64() * 1e6 / count;
        let (user, system) = cpu_us();
        let (user, system) = ((user - cpu.0) / count, (system - cpu.1) / count);
        println!(
            "{what:14} {wall_us:6.2} us/call wall, {:6.2} us cpu ({user:.2} user, {system:.2} \
             system), {} bytes out",
            user + system,
            bytes
        );
    }
    lookups(&mut db)?;
    drop((db, store));
    let size = std::fs::metadata(folder.join(store::DATABASE_FILE))?.len();
    println!("{} bytes of database per user", size / (2 * calls).max(1));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn device(ids: &mut Random) -> ApiCall {
    let id = uuid::Uuid::from_bytes(ids.bytes()).to_string();
    ApiCall::AuthenticateDevice(AuthenticateDeviceRequest {
        account: Some(AccountDevice { id, ..AccountDevice::default() }),
        create: Some(true),
        username: String::new(),
    })
}

/// What a transaction saves readers.
fn lookups(db: &mut Sqlite) -> Result<(), game::db::DbError> {
    const COUNT: u32 = 100_000;
    for inside in [false, true] {
        if inside {
            db.begin()?;
        }
        let start = Instant::now();
        let mut found = 0;
        for number in 0..COUNT {
            let id = number.to_string();
            let sql = "SELECT user_id FROM user_device WHERE id > $1 ORDER BY id LIMIT 1";
            db.query(sql, &[game::db::Param::Text(&id)], &mut |row| found += row.blob(0).len())?;
        }
        let each_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(COUNT);
        println!("lookup {each_us:.2} us, in a transaction: {inside} ({found})");
        if inside {
            db.commit()?;
        }
    }
    Ok(())
}

/// User and system time of this process, microseconds (Linux; clock ticks of 10 ms).
fn cpu_us() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) * 1e4, ticks(12) * 1e4)
}
