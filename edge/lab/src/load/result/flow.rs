//! What a result of `throng flow` holds beside what every result holds.
//!
//! In: what was asked for, and what both ends have counted. Out: a part of `result.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What only `throng flow` has to say. Everything is of the counted time unless it says otherwise;
/// bits and bytes are those that were carried, without heads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowSummary {
    /// What it was carried by: `tcp` or `udp`.
    pub protocol: String,
    /// Whether the server sent and the client received.
    pub is_back: bool,
    /// Threads of the client.
    pub threads: u32,
    /// Connections, or sockets that sent datagrams.
    pub connections: u32,
    /// Bytes of each call that sent, or of each datagram.
    pub bytes: u32,
    /// The processor of each of the client's threads; none where the system chose.
    pub cores: Vec<Option<usize>>,
    /// The processor of the server's threads.
    pub remote_core: Option<usize>,
    /// Bits a second that were to be sent; none was as fast as could be.
    pub rate_bits: Option<f64>,
    /// Datagrams a second that were to be sent, if that was asked for.
    pub rate_datagrams: Option<f64>,
    /// How datagrams were received; empty of TCP.
    pub style: String,
    /// How they were sent; likewise.
    pub send_style: String,
    /// Processor time that the receiver burned for each datagram.
    pub work_ns: u64,
    /// Seconds of the cool-down.
    pub cool_down_s: f64,
    /// Version of the `throng ping serve` at the other end.
    pub server_version: String,
    /// The headline: bits a second that the receiver got.
    pub goodput_bits: f64,
    /// Who sent.
    pub sender: FlowEnd,
    /// Who received.
    pub receiver: FlowEnd,
    /// Segments that TCP sent again; none of datagrams.
    pub retransmits: Option<u64>,
    /// What became of datagrams; none of TCP.
    pub datagrams: Option<FlowDatagrams>,
    /// What the sender's TCP knew of each connection at the end.
    pub connections_tcp: Vec<FlowConnection>,
    /// Second by second, beside `series`.
    pub series: Vec<FlowSecond>,
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowEnd {
    /// Bits a second by its own clock.
    pub bits_per_s: f64,
    /// Bytes that it handed to the kernel, or got from it.
    pub bytes: u64,
    /// Calls of the system that did that.
    pub calls: u64,
    /// Datagrams, of a receiver those that came again too.
    pub datagrams: u64,
    /// Seconds that it counted, by its own clock.
    pub counted_s: f64,
    /// Seconds of processor time of its threads in user mode.
    pub user_s: f64,
    /// Likewise in the kernel. Within one machine, the sender's holds what the kernel does to hand
    /// over to the receiver's socket.
    pub system_s: f64,
    /// Nanoseconds of processor time for each byte; none where too little was moved or used to tell.
    pub cpu_ns_per_byte: Option<f64>,
    /// Likewise for each datagram.
    pub cpu_ns_per_datagram: Option<f64>,
    /// The whole machine, where it could be read.
    pub machine: Option<FlowMachine>,
}

/// What a machine did meanwhile, everything on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowMachine {
    /// Processors.
    pub processors: u32,
    /// Seconds of processors in user mode; all in steps of 10 ms.
    pub user_s: f64,
    /// In the kernel, on behalf of programs.
    pub system_s: f64,
    /// Idle.
    pub idle_s: f64,
    /// In interrupts.
    pub interrupt_s: f64,
    /// In softirqs: what comes from the network is handled in them.
    pub softirq_s: f64,
    /// Given to other machines by the host.
    pub steal_s: f64,
    /// Interrupts, with those of timers and between processors.
    pub interrupts: u64,
    /// Interrupts of devices alone.
    pub device_interrupts: u64,
    /// Changes from one thread to another.
    pub context_switches: u64,
}

/// What became of datagrams, by the numbers in them. Those that were sent in the counted time count,
/// whenever they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowDatagrams {
    /// Sent.
    pub sent: u64,
    /// Received, each once.
    pub received: u64,
    /// Sent, and never received.
    pub lost: u64,
    /// Received again.
    pub doubled: u64,
    /// Received after a later one.
    pub reordered: u64,
    /// Of those lost, dropped at the receiver's socket, which had no room for them: it was too slow.
    pub dropped: u64,
    /// Due, and not sent: the sender was too slow, or its interface's queue was full.
    pub missed: u64,
    /// Received, and not this flow's.
    pub foreign: u64,
}

/// What TCP knew of a connection at its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowConnection {
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round trip at the end.
    pub rtt_ns: u64,
    /// Its mean deviation.
    pub rtt_deviation_ns: u64,
    /// The least one since the connection was made; 0 where the kernel does not say.
    pub rtt_least_ns: u64,
    /// Congestion window at the end, in bytes.
    pub window_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// The last rate at which it delivered, bits a second.
    pub delivery_bits_per_s: f64,
    /// Of the time in which there was something to send: held up by the receiver's window.
    pub receiver_limited_share: f64,
    /// Likewise by the room for what is under way in the sender's socket.
    pub buffer_limited_share: f64,
    /// Bytes that the receiver has acknowledged.
    pub acknowledged_bytes: u64,
}

/// One second of a flow, or what came instead of one at a stage's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowSecond {
    /// Bits a second that were sent, by the sender's clock.
    pub sent_bits: f64,
    /// Bits a second that were received, by the receiver's clock.
    pub goodput_bits: f64,
    /// Datagrams a second that were received.
    pub datagrams_per_s: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Mean round trip of the connections at its end.
    pub rtt_ns: u64,
    /// Congestion windows of all connections at its end.
    pub window_bytes: u64,
    /// Datagrams missing: below 0 where more came late than were skipped.
    pub lost: i64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams dropped at the receiver's socket.
    pub dropped: u64,
    /// Of one processor: the sender's threads in user mode.
    pub sender_user: f64,
    /// In the kernel.
    pub sender_system: f64,
    /// The receiver's in user mode.
    pub receiver_user: f64,
    /// In the kernel.
    pub receiver_system: f64,
}
