//! Mail that a full mailbox gave back, kept for another try: answers that somebody waits for, and
//! news that threads would otherwise never hear. Not kept: what its poster answers "busy" itself.
//!
//! Mail comes in from [`event::Input::Refused`], and is posted again in that order. What rooms and
//! workers post to the same thread meanwhile waits behind it, so that no frame overtakes another.

use std::collections::{BTreeSet, VecDeque};

use event::{Now, Output, ThreadId};

use crate::limit_log::LimitLog;
use crate::mail::Mail;
use crate::stats::Counter;

/// Mails that one thread keeps; further ones are dropped and counted. As many as fit into a core's
/// mailbox: whoever is that far behind is not coming back.
const RETRIES_MAX: usize = 65_536;
/// How long until the next try.
const RETRY_NS: u64 = 1_000_000;

/// Refused mail of one thread.
#[derive(Debug, Default)]
pub(crate) struct RetryQueue {
    mails: VecDeque<(ThreadId, Mail)>,
    due_ns: Option<u64>,
}

impl RetryQueue {
    /// Keeps a mail; `false` if there is no room: then it is lost.
    #[must_use]
    fn keep(&mut self, now: Now, to: ThreadId, mail: Mail) -> bool {
        if self.mails.len() >= RETRIES_MAX {
            return false;
        }
        self.due_ns.get_or_insert(now.mono_ns.saturating_add(RETRY_NS));
        self.mails.push_back((to, mail));
        true
    }

    /// Keeps a mail, or counts it as dropped if there is no room.
    pub(crate) fn keep_or_count(
        &mut self,
        now: Now,
        (to, mail): (ThreadId, Mail),
        dropped_count: &Counter,
    ) {
        // Whoever has a full mailbox need not be woken.
        if !mail.is_wake_up() && !self.keep(now, to, mail) {
            dropped_count.up();
        }
    }

    /// Keeps what was just posted to threads that have not taken older mail yet. Counts as dropped
    /// what there is no room for.
    pub(crate) fn hold_back(&mut self, now: Now, out: &mut Output<Mail>, dropped_count: &Counter) {
        if self.mails.is_empty() {
            return;
        }
        let behind: BTreeSet<ThreadId> = self.mails.iter().map(|(to, _)| *to).collect();
        for mail in out.take_mail(|to| behind.contains(&to)) {
            self.keep_or_count(now, mail, dropped_count);
        }
    }

    /// Posts again what is due.
    pub(crate) fn post_due(&mut self, now: Now, out: &mut Output<Mail>) {
        for (to, mail) in self.take_due(now) {
            out.mail(to, mail);
        }
    }

    /// A mailbox was full: whoever waits for this mail waits on, so it is kept and said.
    pub(crate) fn given_back(
        &mut self,
        now: Now,
        (to, mail): (ThreadId, Mail),
        (refused_count, dropped_count): (&Counter, &Counter),
        limit_log: &mut LimitLog,
    ) {
        refused_count.up();
        say_refused(limit_log, now, to, &mail);
        self.keep_or_count(now, (to, mail), dropped_count);
    }

    /// When the next try is due, in nanoseconds of [`Now::mono_ns`].
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Everything that is kept, if the next try is due.
    pub(crate) fn take_due(&mut self, now: Now) -> VecDeque<(ThreadId, Mail)> {
        if self.due_ns.is_none_or(|due_ns| due_ns > now.mono_ns) {
            return VecDeque::new();
        }
        self.due_ns = None;
        std::mem::take(&mut self.mails)
    }
}

/// Says, once a second, that a mailbox gave mail back: every try of every mail may do so.
pub(crate) fn say_refused(limit_log: &mut LimitLog, now: Now, to: ThreadId, mail: &Mail) {
    let (to, kind) = (to.0, mail.kind());
    limit_log.note(
        now,
        "mailbox",
        format_args!("thread {to} takes no more mail, or has ended: {kind} refused"),
    );
}

#[cfg(test)]
mod tests {
    use event::{Now, Output};

    use super::{RETRIES_MAX, RetryQueue};
    use crate::limit_log::LimitLog;
    use crate::mail::{CoreMail, Mail, Post as _, Topology};
    use crate::stats::Counter;

    #[test]
    fn what_is_kept_comes_back_in_order_when_due_and_is_bounded() {
        let mut retries = RetryQueue::default();
        let (start, later) = (Now::default(), Now::default().after_ms(1));
        let topology = Topology::new(1_000, 1, 0);
        for id in 0..=RETRIES_MAX {
            let (to, mail) = topology.cores[id % 1_000].seal(&topology, CoreMail::WakeUp);
            assert_eq!(retries.keep(start, to, mail), id < RETRIES_MAX);
        }
        assert_eq!((retries.due_ns(), retries.take_due(start).len()), (Some(later.mono_ns), 0));
        let due = retries.take_due(later);
        assert!(due.iter().zip(0..).all(|((to, _), id)| usize::from(to.0) == id % 1_000));
        assert_eq!(
            (due.len(), retries.due_ns(), retries.take_due(later).len()),
            (RETRIES_MAX, None, 0)
        );
    }
    /// What is posted to a thread that has not taken older mail waits behind that mail.
    #[test]
    fn no_mail_overtakes_what_is_kept_and_what_is_lost_is_counted() {
        let topology = Topology::new(2, 1, 0);
        let Topology { cores, rooms, .. } = &topology;
        let rate = |hz| CoreMail::TickRate { room: rooms[0], tick_rate_hz: hz };
        let (mut retries, dropped, mut out) =
            (RetryQueue::default(), Counter::default(), Output::default());
        let (start, later) = (Now::default(), Now::default().after_ms(1));
        let (behind, other) = (cores[0], cores[1]);
        out.post(&topology, behind, rate(1));
        retries.hold_back(start, &mut out, &dropped);
        assert_eq!(out.drain().len(), 1, "nothing is kept");
        retries.keep_or_count(start, behind.seal(&topology, CoreMail::WakeUp), &dropped);
        assert_eq!(retries.due_ns(), None, "whose mailbox is full is awake");
        let mut log = LimitLog::default();
        let refused = Counter::default();
        retries.given_back(start, behind.seal(&topology, rate(2)), (&refused, &dropped), &mut log);
        out.post(&topology, behind, rate(3));
        out.post(&topology, other, rate(4));
        retries.hold_back(start, &mut out, &dropped);
        retries.post_due(start, &mut out);
        let rates = |out: &mut Output<Mail>| {
            let posts = out.take_posts().map(|(to, mail, _)| {
                let to = if to == behind.thread() { behind } else { other };
                match to.open(mail) {
                    CoreMail::TickRate { tick_rate_hz, .. } => (to, tick_rate_hz),
                    mail => unreachable!("{mail:?}"),
                }
            });
            posts.collect::<Vec<_>>()
        };
        assert_eq!(rates(&mut out), [(other, 4)]);
        retries.post_due(later, &mut out);
        assert_eq!(rates(&mut out), [(behind, 2), (behind, 3)]);
        assert_eq!((refused.read(), dropped.read()), (1, 0));
        let keep = |_| retries.keep_or_count(later, other.seal(&topology, rate(5)), &dropped);
        (0..=RETRIES_MAX).for_each(keep);
        assert_eq!(dropped.read(), 1);
    }
}
