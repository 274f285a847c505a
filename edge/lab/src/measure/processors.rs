//! Which processors threads and processes may use, and binding them.
//! Source: sched_setaffinity(2).

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use super::target::TargetError;

/// Binds the calling thread, and what it starts from now on, to one processor.
pub(crate) fn pin_thread(cpu: usize) -> Result<(), TargetError> {
    let mut set = CpuSet::new();
    let result = if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(Into::into)
    } else {
        Err(std::io::Error::other("no such processor"))
    };
    result.map_err(|error| TargetError::Pin { cpu, error })
}

/// Steps of priority that [`give_way`] goes down, and the lowest there is: three times less of a
/// processor than others who want it, which on a busy machine is enough to be measured. Source:
/// setpriority(2), sched(7).
const STEPS_DOWN: i32 = 5;
const LOWEST: i32 = 19;

/// The processor that [`give_way`] and [`leave_one`] leave; none where there is one alone.
pub(crate) fn kept_free() -> Option<usize> {
    match *cpus() {
        [first, _, ..] => Some(first),
        _ => None,
    }
}

/// Lets others go before the calling thread, for good: it has a lower priority than they, and stays away
/// from one processor where there are several. Anybody may do that.
pub(crate) fn give_way() {
    // In Linux priorities are of threads.
    let thread = Some(gettid());
    let before = getpriority_process(thread).unwrap_or(0);
    let _ = setpriority_process(thread, (before + STEPS_DOWN).min(LOWEST));
    stay_away();
}

/// Leaves one processor to others, for good; where there is one alone the calling thread gives way on it.
pub(crate) fn leave_one() {
    if kept_free().is_some() { stay_away() } else { give_way() }
}

fn stay_away() {
    if let (Some(kept), Ok(mut set)) = (kept_free(), sched_getaffinity(None)) {
        set.unset(kept);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Gives the calling thread its processors back when dropped: a run binds it, and the next run has
/// to find all of them.
#[derive(Debug)]
pub(crate) struct Unbind(Option<CpuSet>);

impl Unbind {
    /// Remembers the processors of the calling thread, which has to drop it too.
    pub(crate) fn later() -> Self {
        Self(sched_getaffinity(None).ok())
    }
}

impl Drop for Unbind {
    fn drop(&mut self) {
        if let Some(set) = &self.0 {
            // They were the thread's before, so that only a machine that has lost some refuses.
            let _ = sched_setaffinity(None, set);
        }
    }
}

/// Makes the calling thread an ordinary one again when dropped; what it started meanwhile stays a
/// realtime one.
#[derive(Debug)]
pub(crate) struct Realtime(());

impl Realtime {
    /// Makes the calling thread, and what it starts from now on, a realtime one.
    pub(crate) fn begin() -> Result<Self, TargetError> {
        engine::set_realtime(true).map_err(|error| TargetError::Realtime { error })?;
        Ok(Self(()))
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        // Whoever may become a realtime thread may stop being one.
        let _ = engine::set_realtime(false);
    }
}

/// The processors that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The processors that process `pid` may use; none of one that is gone.
pub(crate) fn cpus_of(pid: u32) -> Vec<usize> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let Some(set) = pid.and_then(|pid| sched_getaffinity(Some(pid)).ok()) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Whether process `pid` may run on this processor; a process that is gone may not.
pub(crate) fn may_run_on(pid: u32, cpu: usize) -> bool {
    cpus_of(pid).contains(&cpu)
}

#[cfg(test)]
mod tests {
    use super::{Unbind, cpus, cpus_of, give_way, pin_thread};
    use crate::doctor::{Tree, facts::online};

    #[test]
    fn processors_of_the_machine_are_those_that_are_online() {
        let online = online(&Tree::here());
        assert!(cpus().iter().all(|cpu| online.contains(cpu)));
        assert_eq!(
            (cpus_of(std::process::id()).is_empty(), cpus_of(u32::MAX)),
            (false, Vec::new())
        );
    }

    #[test]
    fn whoever_gives_way_leaves_a_processor_and_goes_last() {
        let (before, nice_before) = (cpus(), super::getpriority_process(None).unwrap());
        let (after, nice) = std::thread::spawn(|| {
            give_way();
            let thread = Some(rustix::thread::gettid());
            (cpus(), super::getpriority_process(thread).unwrap())
        })
        .join()
        .unwrap();
        let kept = usize::from(before.len() > 1);
        assert_eq!((&*after, nice), (&before[kept..], (nice_before + 5).min(19)));
        assert_eq!(cpus(), before, "other threads stay as they are");
    }

    #[test]
    fn a_thread_gets_its_processors_back() {
        let before = cpus();
        let unbind = Unbind::later();
        pin_thread(before[0]).unwrap();
        assert_eq!(cpus(), before[..1]);
        drop(unbind);
        assert_eq!(cpus(), before);
    }
}
