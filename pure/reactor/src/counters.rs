//! What a thread counts. It adds to plain numbers and publishes them once a turn
//! ([`crate::Process::publish`]); whoever serves `/metrics` reads the published copy. No formatting
//! here, and nothing shared.

macro_rules! counters {
    ($($(#[$doc:meta])* $count:ident $kind:literal $name:literal $help:literal,)*) => {
        /// Names one counter of a thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Count { $(#[doc = $help] $count,)* }

        /// All counters, in the order of [`Count`].
        pub const COUNTERS: &[CounterInfo] = &[
            $(CounterInfo { count: Count::$count, name: $name, help: $help, gauge: $kind == 'g' },)*
        ];

        /// How many counters there are.
        pub const COUNTERS_LEN: usize = [$($name,)*].len();
    };
}

/// How a counter is called in `/metrics`, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Which one.
    pub count: Count,
    /// Name in snake case, without a prefix.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether it may also fall; else it only rises.
    pub gauge: bool,
}

counters! {
    Open 'g' "connections_open" "connections open now",
    Unsent 'g' "output_bytes_unsent" "bytes waiting in output queues now",
    Held 'g' "input_bytes_held" "bytes received and held back while reading is stopped",
    Flooding 'g' "connections_flooding" "connections that get one receive buffer at a time now",
    Accepted 'c' "accepted" "connections accepted",
    Connected 'c' "connected" "outgoing connections made",
    AcceptFailures 'c' "accept_failures" "accepts that the system refused; each pauses accepting",
    AcceptRefused 'c' "accept_refused" "connections closed at once: connections_max or the limit of open files",
    ClosedAsked 'c' "closed_asked" "connections closed because the handler asked",
    ClosedPeer 'c' "closed_peer" "connections closed after the peer had closed its side",
    ClosedReset 'c' "closed_reset" "connections that the peer or the network reset",
    ClosedOutputLimit 'c' "closed_output_limit" "connections closed at output_bytes_max",
    ClosedOutputTotal 'c' "closed_output_total" "connections closed because all had too much unsent",
    ClosedOutputStalled 'c' "closed_output_stalled" "connections closed whose peer took too little for too long",
    OutputDropped 'c' "output_dropped" "messages not sent because their receiver was behind",
    ClosedConnectFailed 'c' "closed_connect_failed" "outgoing connections that could not be made",
    ClosedShutdown 'c' "closed_shutdown" "connections closed because the thread stopped",
    FlushTimeouts 'c' "flush_timeouts" "closing connections aborted whose peer took too little for flush_ms",
    LingerTimeouts 'c' "linger_timeouts" "closed connections whose peer did not close in linger_ms",
    BytesIn 'c' "bytes_in" "bytes received",
    BytesOut 'c' "bytes_out" "bytes sent",
    BytesDiscarded 'c' "bytes_discarded" "bytes received on connections that were being closed",
    Receives 'c' "receives" "completed receives that carried bytes",
    Sends 'c' "sends" "completed sends",
    Turns 'c' "turns" "turns of the loop",
    SystemCalls 'c' "system_calls" "system calls of the loop",
    BufferShortages 'c' "buffer_shortages" "receives that found no free buffer and were armed again",
    CompletionOverflows 'c' "completion_overflows" "turns that found the completion queue overrun",
    ReadPauses 'c' "read_pauses" "times reading from a connection was stopped",
    MailIn 'c' "mail_in" "mail taken from the mailbox",
    MailOut 'c' "mail_out" "mail posted to other threads",
    MailRefused 'c' "mail_refused" "mail that could not be posted: the receiver's mailbox was full",
    MailDropped 'c' "mail_dropped" "mail that came too late: its thread had stopped",
    Wakes 'c' "wakes" "times another thread was woken for mail",
    Misdirected 'c' "misdirected" "socket operations asked for on a thread without sockets",
    DatagramsIn 'c' "datagrams_in" "datagrams received",
    DatagramBytesIn 'c' "datagram_bytes_in" "bytes of datagrams received",
    DatagramsInDropped 'c' "datagrams_in_dropped" "datagrams received and dropped: longer than datagram_bytes_max, unreadable, or the thread stopped",
    DatagramsLost 'c' "datagrams_lost" "datagrams that the kernel dropped because a socket was full; merged ones may count as one",
    DatagramsOut 'c' "datagrams_out" "datagrams sent",
    DatagramBytesOut 'c' "datagram_bytes_out" "bytes of datagrams sent",
    DatagramsOutDropped 'c' "datagrams_out_dropped" "datagrams not sent: longer than datagram_bytes_max, or datagram_queue_bytes waited",
    DatagramsOutRefused 'c' "datagrams_out_refused" "datagrams that the kernel did not take: no room at once, or no way to their address",
}

/// The counters of one thread, as of its last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    values: [u64; COUNTERS_LEN],
}

impl Default for Counters {
    fn default() -> Self {
        Self { values: [0; COUNTERS_LEN] }
    }
}

impl Counters {
    /// The value of one counter.
    #[must_use]
    pub fn value(&self, count: Count) -> u64 {
        self.values[count as usize]
    }

    /// All values, in the order of [`COUNTERS`].
    #[must_use]
    pub fn values(&self) -> &[u64; COUNTERS_LEN] {
        &self.values
    }

    /// Counters with these values, in the order of [`COUNTERS`].
    #[must_use]
    pub fn from_values(values: [u64; COUNTERS_LEN]) -> Self {
        Self { values }
    }

    /// Counts `more`.
    #[inline]
    pub fn add(&mut self, count: Count, more: u64) {
        self.values[count as usize] = self.values[count as usize].wrapping_add(more);
    }

    /// Takes `less` back from a gauge that holds at least as much.
    #[inline]
    pub fn subtract(&mut self, count: Count, less: u64) {
        let value = &mut self.values[count as usize];
        debug_assert!(*value >= less, "gauge {count:?} would fall below zero");
        *value = value.wrapping_sub(less);
    }

    /// Adds another thread's counters to these.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.values.iter_mut().zip(other.values) {
            *mine = mine.wrapping_add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTERS, Count, Counters};

    #[test]
    fn table_is_in_the_order_of_the_enum_and_names_differ() {
        for (index, info) in COUNTERS.iter().enumerate() {
            assert_eq!(info.count as usize, index);
            assert!(COUNTERS.iter().filter(|other| other.name == info.name).count() == 1);
        }
    }

    #[test]
    fn counters_are_read_back_and_merge() {
        let mut counters = Counters::default();
        counters.add(Count::Open, 5);
        counters.subtract(Count::Open, 2);
        counters.add(Count::Turns, 7);
        let mut read = Counters::from_values(*counters.values());
        assert_eq!(read, counters);
        read.merge(&counters);
        assert_eq!((read.value(Count::Open), read.value(Count::Turns)), (6, 14));
    }
}
