//! What a machine draws: by its own counters where it has them, else by a model, which is called one.
//!
//! The model is a straight line between an idle and a busy processor, so that it only says again what
//! the processors' use says. Source of its numbers: Cloud Carbon Footprint's coefficients for EPYC of the
//! third generation, from SPECpower; of the counters: the kernel's Documentation/power/powercap/powercap.rst.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measure::number::float;

/// Watts of one processor that does nothing, and of one that has no pause.
pub(crate) const WATTS: [f64; 2] = [0.45, 2.02];

/// Where a figure of power is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerSource {
    /// A straight line over the processors' use.
    #[default]
    Modelled,
    /// The machine's counters of energy (RAPL): its processors, not the whole machine.
    Measured,
}

/// Counters of energy: of each processor package one.
#[derive(Debug)]
pub(super) struct Energy(Vec<PathBuf>);

impl Energy {
    pub(super) fn here() -> Self {
        Self::of(Path::new("/sys/class/powercap"))
    }

    fn of(root: &Path) -> Self {
        let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|it| it.path());
        let is_package = |path: &PathBuf| {
            let name = fs::read_to_string(path.join("name")).unwrap_or_default();
            name.trim().starts_with("package") && fs::read(path.join("energy_uj")).is_ok()
        };
        Self(entries.filter(is_package).collect())
    }

    pub(super) fn source(&self) -> PowerSource {
        if self.0.is_empty() { PowerSource::Modelled } else { PowerSource::Measured }
    }

    /// What they show now, with what they can show at most, in microjoules.
    pub(super) fn read(&self) -> Vec<[u64; 2]> {
        let number = |path: &Path, name: &str| {
            let text = fs::read_to_string(path.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let of = |path: &PathBuf| {
            let most = number(path, "max_energy_range_uj").unwrap_or(u64::MAX);
            [number(path, "energy_uj").unwrap_or(0), most]
        };
        self.0.iter().map(of).collect()
    }
}

/// Watts between two looks at the counters; they begin again at nought when they are full.
pub(super) fn measured(before: &[[u64; 2]], after: &[[u64; 2]], span_s: f64) -> f64 {
    let spent = |([before, _], [after, most]): (&[u64; 2], &[u64; 2])| {
        if after >= before { after - before } else { most.saturating_sub(*before) + after }
    };
    let microjoules: u64 = before.iter().zip(after).map(spent).sum();
    float(microjoules) / 1e6 / span_s.max(1e-9)
}

/// Watts of so many processors of which this part is busy.
pub(super) fn modelled(processors: u32, busy: f64, [idle, full]: [f64; 2]) -> f64 {
    f64::from(processors) * (idle + busy.clamp(0.0, 1.0) * (full - idle))
}

#[cfg(test)]
mod tests {
    use super::{Energy, PowerSource, measured, modelled};

    #[test]
    fn a_model_is_a_line_and_counters_go_round() {
        assert!((modelled(2, 0.0, [1.0, 3.0]) - 2.0).abs() < 1e-9);
        assert!((modelled(2, 0.5, [1.0, 3.0]) - 4.0).abs() < 1e-9);
        let watts = measured(&[[1_000_000, 9_000_000]], &[[3_000_000, 9_000_000]], 2.0);
        assert!((watts - 1.0).abs() < 1e-9);
        let watts = measured(&[[8_000_000, 9_000_000]], &[[1_000_000, 9_000_000]], 2.0);
        assert!((watts - 1.0).abs() < 1e-9);
    }

    #[test]
    fn counters_are_those_of_packages() {
        let root = std::env::temp_dir().join(format!("throng-power-{}", std::process::id()));
        for (folder, name) in [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("name"), name).unwrap();
            std::fs::write(root.join(folder).join("energy_uj"), "5\n").unwrap();
        }
        let energy = Energy::of(&root);
        assert_eq!((energy.source(), energy.read()), (PowerSource::Measured, vec![[5, u64::MAX]]));
        assert_eq!(Energy::of(&root.join("none")).source(), PowerSource::Modelled);
        std::fs::remove_dir_all(root).unwrap();
    }
}
