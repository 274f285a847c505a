//! What is kept of a run: `result.json` of `throng load` and the histograms of what was counted, a
//! line of JSON for each run, compressed. Any figure of a table can be computed from it again.
//!
//! Left out is what follows from the histograms (`curve` of an operation, `heat` of a second), and the
//! seconds of the histograms: each operation has one for all its counted time. Of several rounds of a
//! server in a row only the middle one keeps them; figures of the others are in their results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::per_cpu_second;

/// The file in a folder of results.
pub const FILE: &str = "runs.jsonl.gz";

/// How the tags of a log end that no figure of the result counts: what was before the counted time.
const UNCOUNTED: [&str; 2] = [".ramp", ".warm-up"];

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the row.
    pub row: String,
    /// Name of the server.
    pub who: String,
    /// From 1.
    pub round: usize,
    /// Place in the round, from 1.
    #[serde(default)]
    pub place: usize,
    /// What is known of the processor: `vendor_id`, `cpu family`, `model`, `model name`, `stepping`.
    #[serde(default)]
    pub processor: BTreeMap<String, String>,
    /// What the processes beside the server had used by when: seconds since 1970, processor seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<[f64; 2]>,
    /// `result.json`, without what follows from the histograms.
    pub result: Value,
    /// Of what was counted, in nanoseconds, by `OPERATION.service`, `.response` and `.late`:
    /// HdrHistogram V2, deflated, base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<String, String>,
}

/// The processor as the system names it now.
pub fn processor() -> BTreeMap<String, String> {
    let names = ["vendor_id", "cpu family", "model", "model name", "stepping"];
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut known = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        if names.contains(&name.trim()) {
            known.entry(name.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }
    known
}

/// What `throng load --out` wrote, as it is kept.
///
/// # Errors
/// If a file is missing or not understood.
pub fn read_run(folder: &Path) -> anyhow::Result<(Value, BTreeMap<String, String>)> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| path.display().to_string())
    };
    let mut result: Value = serde_json::from_slice(&read("result.json")?)?;
    name_no_folder(&mut result, folder);
    let histograms = merged(&read("result.hlog")?)?;
    for (list, derived) in [("ops", "curve"), ("series", "heat")] {
        for one in result.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(fields) = one.as_object_mut() {
                fields.remove(derived);
            }
        }
    }
    Ok((result, histograms))
}

/// Leaves of the folder of a run its last name: where a machine keeps such folders is nobody's
/// business.
fn name_no_folder(result: &mut Value, folder: &Path) {
    let words = result.pointer_mut("/environment/command").and_then(Value::as_array_mut);
    for word in words.into_iter().flatten() {
        if word.as_str().is_some_and(|text| Path::new(text) == folder) {
            *word = folder
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
                .into();
        }
    }
}

/// One histogram for each tag of a log, but for what the result counts nowhere.
fn merged(log: &[u8]) -> anyhow::Result<BTreeMap<String, String>> {
    let is_counted = |tag: &str| !UNCOUNTED.iter().any(|stage| tag.ends_with(stage));
    let mut all: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(log) {
        let entry = entry.map_err(|error| anyhow::anyhow!("result.hlog: {error:?}"))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
        if !is_counted(&tag) {
            continue;
        }
        let bytes = STANDARD.decode(interval.encoded_histogram()).context("result.hlog")?;
        let histogram: Histogram<u64> =
            deserializer.deserialize(&mut &*bytes).context("result.hlog")?;
        match all.get_mut(&tag) {
            Some(whole) => whole.add(&histogram).context("result.hlog")?,
            None => drop(all.insert(tag, histogram)),
        }
    }
    let mut serializer = V2DeflateSerializer::new();
    let mut texts = BTreeMap::new();
    for (tag, histogram) in all {
        let mut bytes = Vec::new();
        serializer.serialize(&histogram, &mut bytes).context("a histogram")?;
        texts.insert(tag, STANDARD.encode(bytes));
    }
    Ok(texts)
}

/// Takes the histograms out of all rounds of a row but, for each server, the middle one by its
/// operations per CPU-second: they are most of what a record takes.
pub fn thin_out(records: &mut [Record], row: &str) {
    let servers: BTreeSet<String> =
        records.iter().filter(|it| it.row == row).map(|it| it.who.clone()).collect();
    for who in servers {
        let mut rounds: Vec<&mut Record> =
            records.iter_mut().filter(|it| it.row == row && it.who == who).collect();
        let found = |record: &Record| per_cpu_second(&record.result).unwrap_or(0.0);
        rounds.sort_by(|a, b| found(a).total_cmp(&found(b)));
        let middle = rounds.len() / 2;
        for (at, record) in rounds.into_iter().enumerate() {
            if at != middle {
                record.histograms.clear();
            }
        }
    }
}

/// All records of a folder; none if there is no such file.
///
/// # Errors
/// If the file is not understood.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Record>> {
    let path = folder.join(FILE);
    let Ok(file) = File::open(&path) else { return Ok(Vec::new()) };
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let record = |line: std::io::Result<String>| anyhow::Ok(serde_json::from_str(&line?)?);
    lines.map(record).collect::<anyhow::Result<_>>().with_context(|| path.display().to_string())
}

/// Writes all records of a folder, whole or not at all.
///
/// # Errors
/// If that cannot be done.
pub fn write(folder: &Path, records: &[Record]) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let part = folder.join(format!("{FILE}.part"));
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut packed = GzEncoder::new(File::create(&part)?, Compression::best());
    for record in records {
        serde_json::to_writer(&mut packed, record)?;
        packed.write_all(b"\n")?;
    }
    packed.finish()?.sync_all()?;
    std::fs::rename(&part, &path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
    use serde_json::json;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    fn result() -> Value {
        json!({
            "ops": [{ "name": "log in", "curve": [1] }, { "name": "rpc", "curve": [2] }],
            "series": [
                { "stage": "counted", "heat": [[1, 1]] },
                { "stage": "counted" },
            ],
        })
    }

    #[test]
    fn a_record_names_no_folder_of_the_machine() {
        let mut result =
            json!({ "environment": { "command": ["load", "--out", "/somewhere/run"] } });
        name_no_folder(&mut result, Path::new("/somewhere/run"));
        assert_eq!(result["environment"]["command"], json!(["load", "--out", "run"]));
    }

    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let start = SystemTime::UNIX_EPOCH;
        let builder = &mut IntervalLogWriterBuilder::new();
        let mut writer =
            builder.with_start_time(start).begin_log_with(&mut log, &mut serializer).unwrap();
        for (tag, at_s, values) in [
            ("log_in.service", 0, &[10][..]),
            ("rpc.service.warm-up", 0, &[1, 2]),
            ("rpc.service", 1, &[100, 200]),
            ("rpc.service", 2, &[300]),
        ] {
            let (at, second) = (Duration::from_secs(at_s), Duration::from_secs(1));
            writer.write_histogram(&histogram(values), at, second, Tag::new(tag)).unwrap();
        }
        log
    }

    fn unpacked(text: &str) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut &*STANDARD.decode(text).unwrap()).unwrap()
    }

    #[test]
    fn what_was_counted_is_kept() {
        let folder = std::env::temp_dir().join(format!("throng-run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("result.json"), result().to_string()).unwrap();
        std::fs::write(folder.join("result.hlog"), log()).unwrap();
        let (kept, histograms) = read_run(&folder).unwrap();
        assert!(!kept.to_string().contains("curve") && !kept.to_string().contains("heat"));
        assert_eq!(unpacked(&histograms["rpc.service"]), histogram(&[100, 200, 300]));
        assert_eq!(unpacked(&histograms["log_in.service"]), histogram(&[10]));
        assert_eq!(histograms.len(), 2);
        let record = Record {
            row: "rpc".to_owned(),
            who: "throng".to_owned(),
            round: 1,
            place: 2,
            processor: processor(),
            beside: vec![[7.5, 0.25]],
            result: kept,
            histograms,
        };
        assert!(read(&folder).unwrap().is_empty());
        write(&folder, &[record.clone(), record.clone()]).unwrap();
        assert_eq!(read(&folder).unwrap(), [record.clone(), record]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_middle_round_keeps_its_histograms() {
        let record = |row: &str, who: &str, round, ops_per_cpu_s: f64| Record {
            row: row.to_owned(),
            who: who.to_owned(),
            round,
            place: 1,
            processor: BTreeMap::new(),
            beside: Vec::new(),
            result: json!({ "server": { "ops_per_cpu_s": ops_per_cpu_s } }),
            histograms: BTreeMap::from([("rpc.service".to_owned(), "text".to_owned())]),
        };
        let mut records = vec![
            record("rpc", "throng", 1, 30.0),
            record("rpc", "other", 1, 5.0),
            record("rpc", "throng", 2, 10.0),
            record("rpc", "throng", 3, 20.0),
            record("match", "throng", 1, 1.0),
            record("match", "throng", 2, 2.0),
        ];
        thin_out(&mut records, "rpc");
        let kept: Vec<_> = records.iter().map(|it| !it.histograms.is_empty()).collect();
        assert_eq!(kept, [false, true, false, true, true, true]);
    }
}
