//! Every limit of a core thread that a setting can move, with its default and what happens there.

/// Limits of one core thread and of each of its connections. All have working defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that a thread holds at once, accepted and outgoing together. One more is
    /// accepted and closed at once, so that its peer is not left waiting, and counted
    /// (`accept_refused`). The ring driver also cannot go beyond the process's limit of open files
    /// for each thread; the readiness driver cannot go beyond it for all threads together.
    pub connections_max: u32,
    /// Unsent bytes that one connection may have; one piece is taken however large, when nothing
    /// else waits. Beyond, the connection is closed with
    /// `CloseReason::OutputLimit` and counted; its neighbours notice nothing.
    pub output_bytes_max: u32,
    /// Unsent bytes above which the engine stops reading from that connection until half of it
    /// has left: a peer that asks faster than it reads is slowed, and loses nothing.
    pub output_bytes_high: u32,
    /// Unsent bytes that all connections of a thread may have together. Beyond, a connection that
    /// is behind (16 KiB or more unsent) and is sent still more is closed with
    /// `CloseReason::OutputTotal` and counted; handlers see the sum in `Output::unsent`.
    pub output_total_max: u64,
    /// How long a peer may take less than an eighth of what waits for it (and less than 16 KiB, and
    /// less than all), in milliseconds; then it is closed with `CloseReason::OutputStalled` and
    /// counted. `u32::MAX` is for ever. Handlers may set it for each connection.
    pub stall_ms: u32,
    /// How long after the last byte was sent and the sending side shut down the peer's own closing
    /// is waited for, in milliseconds; its bytes are thrown away meanwhile.
    pub linger_ms: u32,
    /// How long an outgoing connection may be in the making, in milliseconds; then it has failed
    /// with `ConnectFailure::TimedOut`. The kernel gives up by itself after about two minutes.
    pub connect_ms: u32,
    /// How long the peer of a connection that is being closed may take less of its last bytes than
    /// `stall_ms` says, in milliseconds; then it is aborted and counted (`flush_timeouts`).
    pub flush_ms: u32,
    /// How long no connection is accepted after the system had no file or memory left for one, in
    /// milliseconds.
    pub accept_pause_ms: u32,
    /// How long a thread that stops waits for its connections to take their last bytes, in
    /// milliseconds.
    pub stop_ms: u32,
    /// Cost of what the kernel brought that one turn tells, in bytes; an input costs 256 besides its
    /// own. The rest waits for the next turn. Connections that flood have half of it together: see
    /// `fair`. 256 KiB of small requests take a core a millisecond or less.
    pub turn_bytes: u32,
    /// Bytes of the longest datagram that is received or sent, 65,507 at most (UDP over IPv4). Longer
    /// ones are dropped and counted (`datagrams_in_dropped`, `datagrams_out_dropped`). The default
    /// is what goes through Ethernet in one piece.
    pub datagram_bytes_max: u32,
    /// Cost of the datagrams that one turn tells, in bytes, each costing 256 besides its own: a bound
    /// apart from that of connections, so that a flood of the one takes no turns from the other.
    /// The rest waits in the kernel, which drops what its socket has no room for
    /// (`datagrams_lost`).
    pub datagram_turn_bytes: u32,
    /// Bytes of datagrams that one socket may have to send at the end of a turn, each counted with 64
    /// more. What comes beyond is dropped and counted (`datagrams_out_dropped`).
    pub datagram_queue_bytes: u32,
    /// Receive buffers that a thread shares among its connections; ring driver only. A power of
    /// two, at most 32,768. A connection that finds none is the first to be armed again, at the end
    /// of the turn, and that is counted (`buffer_shortages`). Fewer stay in the processor's cache:
    /// 256 took 5 % less than 1,024 for small requests on 512 connections.
    pub receive_buffers: u16,
    /// Size of one receive buffer in bytes: the most that one `Input::Bytes` carries.
    pub receive_buffer_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 100_000,
            output_bytes_max: 2 << 20,
            output_bytes_high: 64 << 10,
            output_total_max: u64::MAX,
            stall_ms: u32::MAX,
            linger_ms: 2_000,
            connect_ms: 120_000,
            flush_ms: 10_000,
            accept_pause_ms: 100,
            stop_ms: 1_000,
            turn_bytes: 256 << 10,
            datagram_bytes_max: 1_472,
            datagram_turn_bytes: 128 << 10,
            datagram_queue_bytes: 2 << 20,
            receive_buffers: 256,
            receive_buffer_bytes: 16 << 10,
        }
    }
}
