//! Times by size as `/metrics` shows them, summed over threads: histograms in seconds.

use std::borrow::Cow;
use std::sync::Arc;

use server::stats::{RoomStats, TIME_BOUNDS_US, Times, ZoneStats};

use crate::metrics::{Kind, Sample};

/// Times of several threads.
#[derive(Clone, Debug, Default)]
pub(super) struct TimesSum {
    sum_us: u64,
    counts: [u64; TIME_BOUNDS_US.len() + 1],
}

impl TimesSum {
    pub(super) fn add(&mut self, times: &Times) {
        self.sum_us += times.sum_us.read();
        for (sum, bucket) in self.counts.iter_mut().zip(&times.counts) {
            *sum += bucket.read();
        }
    }

    /// The histogram, under this name.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus numbers are doubles")]
    pub(super) fn samples(&self, name: String, help: &'static str, out: &mut Vec<Sample>) {
        let sample = |suffix: &'static str, value: f64| Sample {
            name: Cow::Owned(name.clone()),
            suffix,
            help,
            kind: Kind::Histogram,
            labels: Vec::new(),
            value,
        };
        let bounds = TIME_BOUNDS_US.iter().map(|us| (*us as f64 / 1e6).to_string());
        let mut below = 0;
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&self.counts) {
            below += count;
            out.push(sample("_bucket", below as f64).with("le", bound));
        }
        out.push(sample("_sum", self.sum_us as f64 / 1e6));
        // Of the buckets, so that both agree while a thread counts on.
        out.push(sample("_count", below as f64));
    }
}

/// A name, its help, and where its times are.
type Part = (&'static str, &'static str, fn(&ZoneStats) -> &Times);

/// The times of the zone's ticks; zeros if there is none.
pub(super) fn zone(rooms: &[Arc<RoomStats>], out: &mut Vec<Sample>) {
    let parts: [Part; 3] = [
        ("late", "How late ticks of the zone began, seconds.", |it| &it.late),
        ("cells", "Processor time of a tick's cells on the fullest room, seconds.", |it| &it.cells),
        ("packets", "Processor time of packets on the fullest room, seconds.", |it| &it.packets),
    ];
    for (name, help, of) in parts {
        let mut sum = TimesSum::default();
        rooms.iter().for_each(|room| sum.add(of(&room.zone)));
        sum.samples(format!("zone_tick_{name}_seconds"), help, out);
    }
}
