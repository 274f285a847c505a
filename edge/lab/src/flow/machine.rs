//! What a machine did besides: processor time by kind, interrupts.
//!
//! In: `/proc/stat` and `/proc/interrupts`. Out: counts since the machine was started, and what they
//! became between two looks. In a container they are the whole machine's; where they cannot be read
//! there are none. Source: proc_stat(5), proc_interrupts(5).

use crate::load::FlowMachine;
use crate::measure::number::float;

/// Processor time in ticks, and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) processors: u64,
    /// Ticks a second.
    pub(crate) ticks_per_s: u64,
    /// user with nice, system, idle with waiting for disks, irq, softirq, steal.
    pub(crate) ticks: [u64; 6],
    /// Of devices: those with a number.
    pub(crate) device_interrupts: u64,
    /// All: also timers, and processors that wake each other.
    pub(crate) interrupts: u64,
    pub(crate) switches: u64,
}

impl Machine {
    /// Now; none where the system does not say.
    pub(crate) fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let interrupts = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
        Self::parse(&stat, &interrupts, rustix::param::clock_ticks_per_second())
    }

    fn parse(stat: &str, interrupts: &str, ticks_per_s: u64) -> Option<Self> {
        let line = |name: &str| {
            let mut lines = stat.lines().map(|line| line.split_ascii_whitespace());
            lines.find_map(|mut words| (words.next() == Some(name)).then_some(words))
        };
        let ticks: Vec<u64> = line("cpu")?.map_while(|word| word.parse().ok()).collect();
        let tick = |at: usize| ticks.get(at).copied().unwrap_or(0);
        let is_processor = |line: &&str| {
            line.starts_with("cpu") && line[3..].starts_with(|c: char| c.is_ascii_digit())
        };
        let first = |name: &str| line(name).and_then(|mut words| words.next()?.parse().ok());
        let mut device_interrupts = 0_u64;
        for line in interrupts.lines() {
            let Some((name, rest)) = line.split_once(':') else { continue };
            if name.trim().parse::<u32>().is_ok() {
                let counts = rest.split_ascii_whitespace().map_while(|word| word.parse().ok());
                device_interrupts = counts.fold(device_interrupts, u64::saturating_add);
            }
        }
        Some(Self {
            processors: stat.lines().filter(is_processor).count() as u64,
            ticks_per_s,
            ticks: [tick(0) + tick(1), tick(2), tick(3) + tick(4), tick(5), tick(6), tick(7)],
            device_interrupts,
            interrupts: first("intr").unwrap_or(0),
            switches: first("ctxt").unwrap_or(0),
        })
    }

    /// What it did since an earlier look.
    pub(crate) fn since(&self, before: &Self) -> FlowMachine {
        let seconds = |at: usize| {
            let ticks = self.ticks[at].saturating_sub(before.ticks[at]);
            float(ticks) / float(self.ticks_per_s.max(1))
        };
        FlowMachine {
            processors: u32::try_from(self.processors).unwrap_or(u32::MAX),
            user_s: seconds(0),
            system_s: seconds(1),
            idle_s: seconds(2),
            interrupt_s: seconds(3),
            softirq_s: seconds(4),
            steal_s: seconds(5),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            device_interrupts: self.device_interrupts.saturating_sub(before.device_interrupts),
            context_switches: self.switches.saturating_sub(before.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;

    const STAT: &str = "cpu  100 5 50 1000 20 3 40 7 0 0\ncpu0 50 5 25 500 10 1 20 3 0 0\n\
                        cpu1 50 0 25 500 10 2 20 4 0 0\nintr 12345 1 2 3\nctxt 678\nbtime 1\n";
    const INTERRUPTS: &str = "           CPU0       CPU1\n  1:   10   20   IO-APIC   1-edge   i8042\n\
                              24:    5    6   PCI-MSI 65536-edge   virtio0-input.0\n\
                              NMI:   1    1   Non-maskable interrupts\nERR:   0\n";

    #[test]
    fn devices_are_told_from_what_processors_do_to_each_other() {
        let it = Machine::parse(STAT, INTERRUPTS, 100).unwrap();
        assert_eq!((it.processors, it.ticks), (2, [105, 50, 1020, 3, 40, 7]));
        assert_eq!((it.device_interrupts, it.interrupts, it.switches), (41, 12_345, 678));
        let before = Machine { device_interrupts: 31, ticks: [5, 0, 20, 0, 30, 0], ..it };
        let since = it.since(&before);
        assert!((since.user_s - 1.0).abs() < 1e-9 && (since.softirq_s - 0.1).abs() < 1e-9);
        assert_eq!((since.device_interrupts, since.interrupts), (10, 0));
        assert_eq!(Machine::parse("", "", 100), None);
    }

    #[test]
    fn this_machine_counts() {
        let it = Machine::read().unwrap();
        assert!(it.processors > 0 && it.interrupts > 0 && it.ticks.iter().sum::<u64>() > 0);
    }
}
