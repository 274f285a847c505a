//! The HdrHistogram interval log: every second's histograms of every operation, tagged
//! `operation.kind` (`.service`, `.response`, `.late`), in nanoseconds, for the usual viewers; those
//! of the operations that failed or did not end stand once more under `.service.failed`. What no
//! figure of the result counts, because it was before the counted time, has a tag of its own
//! (`.service.warm-up`): the histograms of one tag add up to what the result says.
//!
//! While a run lasts histograms are kept in their compact form, which is cheap to make; compressing
//! them is left for the end, so that it does not take the generator's processor.
//!
//! Source: HdrHistogram V2 encoding, log format 1.3.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

use super::percentiles::Times;

/// Bytes of histograms that are kept, at most; later seconds are left out of the log, and their
/// number stands in it as a comment.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Histograms of a run, compact.
#[derive(Default)]
pub struct Intervals {
    kept: Vec<Kept>,
    kept_bytes: usize,
    left_out: u64,
    serializer: Option<V2Serializer>,
}

#[derive(Debug)]
struct Kept {
    op: usize,
    kind: Kind,
    start: Duration,
    length: Duration,
    bytes: Vec<u8>,
}

/// What times are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// `service`, `response`, `late`, or a part of one of them.
    pub(crate) word: &'static str,
    /// The stage, when no figure counts what was recorded in it.
    pub(crate) apart: Option<&'static str>,
}

impl Intervals {
    /// Keeps the times of one operation and kind in a stretch: when it began, and its length.
    pub(crate) fn keep(
        &mut self,
        (op, kind): (usize, Kind),
        (start, length): (Duration, Duration),
        times: &Times,
    ) {
        let Some(histogram) = times.histogram() else { return };
        let mut bytes = Vec::new();
        let serializer = self.serializer.get_or_insert_with(V2Serializer::new);
        let is_full = self.kept_bytes >= KEPT_BYTES_MAX;
        if is_full || serializer.serialize(histogram, &mut bytes).is_err() {
            self.left_out += 1;
            return;
        }
        bytes.shrink_to_fit();
        self.kept_bytes += bytes.len();
        self.kept.push(Kept { op, kind, start, length, bytes });
    }

    /// The whole log. `ops` are the operations' names in order, `comment` its first line.
    #[must_use]
    pub fn log(&self, ops: &[&str], started: SystemTime, comment: &str) -> Vec<u8> {
        let mut log = Vec::new();
        let mut deflate = V2DeflateSerializer::new();
        let mut deserializer = Deserializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Histogram log format version 1.3]");
        builder.add_comment(comment).with_base_time(started).with_start_time(started);
        if self.left_out > 0 {
            builder.add_comment(&format!("{} histograms left out: no room", self.left_out));
        }
        // Writing to memory cannot fail.
        let Ok(mut writer) = builder.begin_log_with(&mut log, &mut deflate) else {
            return Vec::new();
        };
        for kept in &self.kept {
            let Ok(histogram) = deserializer.deserialize::<u64, _>(&mut &*kept.bytes) else {
                continue;
            };
            let name = ops.get(kept.op).unwrap_or(&"?");
            // A tag has neither commas nor white space.
            let name: String =
                name.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect();
            let mut tag = format!("{name}.{}", kept.kind.word);
            if let Some(stage) = kept.kind.apart {
                tag = format!("{tag}.{stage}");
            }
            let written =
                writer.write_histogram(&histogram, kept.start, kept.length, Tag::new(&tag));
            if written.is_err() {
                break;
            }
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::{Intervals, Kind};
    use crate::measure::percentiles::Times;

    #[test]
    fn the_log_is_read_back() {
        let mut intervals = Intervals::default();
        let (mut service, mut late) = (Times::default(), Times::default());
        for ns in 1..=1_000 {
            service.record(ns * 1_000, 1);
            late.record(ns, 2);
        }
        let stretch = (Duration::from_secs(1), Duration::from_secs(1));
        let kind = |word| Kind { word, apart: None };
        intervals.keep((1, kind("service")), stretch, &service);
        let warm_up = Kind { word: "late", apart: Some("warm-up") };
        intervals.keep((1, warm_up), stretch, &late);
        intervals.keep((0, kind("late")), stretch, &Times::default());
        let started = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let log = intervals.log(&["a", "b c"], started, "a comment");
        let text = String::from_utf8(log.clone()).unwrap();
        assert!(text.contains("a comment") && text.contains("HISTFAAA"), "{text}");
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interval.encoded_histogram())
                .unwrap();
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &*bytes).unwrap();
            let tag = interval.tag().unwrap().as_str().to_owned();
            found.push((tag, interval.start_timestamp().as_secs(), histogram.len()));
        }
        let wanted =
            [("b_c.service".to_owned(), 1, 1_000), ("b_c.late.warm-up".to_owned(), 1, 2_000)];
        assert_eq!(found, wanted);
    }
}
