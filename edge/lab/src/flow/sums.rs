//! Figures of a flow from what both ends had done at two moments: of a second, of the counted time.
//!
//! In: totals. Out: rates, costs, losses. Each end's figures are divided by its own clock.

use super::words::Totals;
use crate::load::result::figures::CPU_S_MIN;
use crate::load::{FlowEnd, FlowSecond};
use crate::measure::number::{float, seconds};

/// Both ends when a stretch began: who sends, who receives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub(super) sender: Totals,
    pub(super) receiver: Totals,
}

/// One end between two moments.
pub(super) fn end(before: &Totals, after: &Totals) -> FlowEnd {
    let counted_s = span_s(before, after);
    let bytes = after.bytes.saturating_sub(before.bytes);
    let datagrams = after.datagrams.saturating_sub(before.datagrams);
    let user_s = seconds(after.user_ns.saturating_sub(before.user_ns));
    let system_s = seconds(after.system_ns.saturating_sub(before.system_ns));
    let cpu_s = user_s + system_s;
    // The kernel counts in ticks where it does not count exactly.
    let per =
        |count: u64| (count > 0 && cpu_s >= CPU_S_MIN / 10.0).then(|| 1e9 * cpu_s / float(count));
    let machine = after.machine.zip(before.machine).map(|(after, before)| after.since(&before));
    FlowEnd {
        bits_per_s: per_s(8.0 * float(bytes), counted_s),
        bytes,
        calls: after.calls.saturating_sub(before.calls),
        datagrams,
        counted_s,
        user_s,
        system_s,
        cpu_ns_per_byte: per(bytes),
        cpu_ns_per_datagram: per(datagrams),
        machine,
    }
}

/// Both ends in a second.
pub(super) fn second(before: &Ends, after: &Ends) -> FlowSecond {
    let [sender, receiver] =
        [end(&before.sender, &after.sender), end(&before.receiver, &after.receiver)];
    let (of_sender, of_receiver) =
        ((&before.sender, &after.sender), (&before.receiver, &after.receiver));
    let more = |(before, after): (&Totals, &Totals), of: fn(&Totals) -> u64| {
        of(after).saturating_sub(of(before))
    };
    let missing = |it: &Totals| i64::try_from(it.missing).unwrap_or(i64::MAX);
    FlowSecond {
        sent_bits: sender.bits_per_s,
        goodput_bits: receiver.bits_per_s,
        datagrams_per_s: per_s(float(receiver.datagrams), receiver.counted_s),
        retransmits: more(of_sender, |it| it.retransmits),
        rtt_ns: after.sender.rtt_us.saturating_mul(1_000),
        window_bytes: after.sender.window_bytes,
        lost: missing(&after.receiver) - missing(&before.receiver),
        reordered: more(of_receiver, |it| it.reordered),
        dropped: more(of_receiver, |it| it.dropped),
        sender_user: per_s(sender.user_s, sender.counted_s),
        sender_system: per_s(sender.system_s, sender.counted_s),
        receiver_user: per_s(receiver.user_s, receiver.counted_s),
        receiver_system: per_s(receiver.system_s, receiver.counted_s),
    }
}

fn span_s(before: &Totals, after: &Totals) -> f64 {
    seconds(after.at_ns.saturating_sub(before.at_ns))
}

fn per_s(count: f64, span_s: f64) -> f64 {
    if span_s > 0.0 { count / span_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Ends, end, second};
    use crate::flow::words::Totals;

    const MS: u64 = 1_000_000;

    #[test]
    fn each_end_is_divided_by_its_own_clock() {
        let sender = Totals {
            at_ns: 2_000 * MS,
            bytes: 3_000_000,
            user_ns: 100 * MS,
            system_ns: 200 * MS,
            retransmits: 7,
            rtt_us: 250,
            ..Totals::default()
        };
        let receiver = Totals {
            at_ns: 1_000 * MS,
            bytes: 1_000_000,
            datagrams: 1_000,
            system_ns: 500 * MS,
            missing: 3,
            ..Totals::default()
        };
        let before =
            Ends { receiver: Totals { missing: 5, ..Totals::default() }, ..Ends::default() };
        let it = second(&before, &Ends { sender, receiver });
        assert!((it.sent_bits - 12e6).abs() < 1e-3 && (it.goodput_bits - 8e6).abs() < 1e-3);
        assert!((it.sender_system - 0.1).abs() < 1e-9 && (it.receiver_system - 0.5).abs() < 1e-9);
        assert_eq!((it.retransmits, it.lost, it.rtt_ns), (7, -2, 250_000));
        let it = end(&Totals::default(), &receiver);
        assert!(it.cpu_ns_per_byte.is_some_and(|ns| (ns - 500.0).abs() < 1e-9));
        assert!(it.cpu_ns_per_datagram.is_some_and(|ns| (ns - 5e5).abs() < 1e-3));
    }

    #[test]
    fn of_nothing_there_is_no_rate_and_no_cost() {
        let it = end(&Totals::default(), &Totals::default());
        assert!(it.bits_per_s.abs() < 1e-9 && it.cpu_ns_per_byte.is_none());
        // A tick of the kernel is no figure.
        let few = Totals { at_ns: MS, bytes: 10, system_ns: 1_000, ..Totals::default() };
        assert!(end(&Totals::default(), &few).cpu_ns_per_byte.is_none());
    }
}
