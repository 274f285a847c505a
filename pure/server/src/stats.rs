//! Counters of one thread. The one exception to "threads share nothing": a handler writes its
//! own, with plain relaxed stores, and `/metrics` reads them; nobody waits for anybody.

mod calls;
mod versions;
mod zone;

use std::sync::atomic::{AtomicU64, Ordering};

pub use calls::{CallCounters, CallStats};
pub(crate) use calls::{Counted, Metered};
pub use versions::VersionErrors;
pub use zone::{CellShown, ZoneMap, ZoneStats};

/// A number that one thread writes and others may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Only the owning thread may, so a load and a store do, without a locked
    /// instruction.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one.
    pub fn up(&self) {
        self.add(1);
    }

    /// Takes one away, for gauges.
    pub fn down(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    /// Takes away from it, for gauges.
    pub fn take(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
    }

    /// Sets it, for gauges.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Reads it.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where the buckets of times end, microseconds: from well below one commit to a client's patience.
/// What is longer counts in one more bucket.
pub const TIME_BOUNDS_US: [u64; 15] = [
    200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// How often something took how long; as counters, one thread writes it.
#[derive(Debug, Default)]
pub struct Times {
    /// All times together, microseconds.
    pub sum_us: Counter,
    /// One for each of [`TIME_BOUNDS_US`], and one beyond.
    pub counts: [Counter; TIME_BOUNDS_US.len() + 1],
}

impl Times {
    /// It has taken so long.
    pub fn note(&self, us: u64) {
        self.sum_us.add(us);
        let bucket = TIME_BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.counts.get(bucket) {
            bucket.up();
        }
    }
}

/// One counter as `/metrics` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Name without the configured prefix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it only ever rises.
    pub rises: bool,
    /// Its value.
    pub value: u64,
}

macro_rules! counters {
    (
        $(#[$doc:meta])* $group:ident { $($(#[doc = $help:literal])+ $kind:ident $name:ident,)+ }
        $(and { $(#[$part_doc:meta])* $part:ident: $part_type:ty })*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $group {
            $($(#[doc = $help])+ pub $name: Counter,)+
            $($(#[$part_doc])* pub $part: $part_type,)*
        }

        impl $group {
            /// All of them, for `/metrics`.
            #[must_use]
            pub fn samples(&self) -> Vec<Sample> {
                vec![$(Sample {
                    name: stringify!($name),
                    help: concat!($($help),+).trim_ascii(),
                    rises: counters!(@rises $kind),
                    value: self.$name.read(),
                },)+]
            }
        }
    };
    (@rises counter) => { true };
    (@rises gauge) => { false };
}

counters! {
    /// Of a core.
    CoreStats {
        /// Requests over HTTP and gRPC answered.
        counter overall_request_count,
        /// Of these, answered with a status of 400 or above, or the like of it.
        counter overall_request_errors,
        /// Bytes of their bodies received.
        counter overall_request_recv_bytes,
        /// Bytes of their answers sent.
        counter overall_request_sent_bytes,
        /// Socket messages received.
        counter overall_message_count,
        /// Socket messages answered with an error.
        counter overall_message_errors,
        /// Bytes of socket messages received.
        counter overall_message_recv_bytes,
        /// Bytes of socket frames sent.
        counter overall_message_sent_bytes,
        /// News of users sent before the answer to a status_follow that is older than they are, because
        /// too many waited behind it.
        counter news_early,
        /// Wishes of scripts that a session follow users, or no more, lost because a room's mailbox was full or
        /// its node away.
        counter follows_of_scripts_lost,
        /// Requests refused before they reached a handler: not HTTP, too large, wrong credentials.
        counter refused_requests,
        /// Requests to load the modules again without the right key (runtime.reload_key).
        counter refused_reloads,
        /// Sockets closed because what they were in lived on a node that is gone.
        counter closed_with_node,
        /// Jobs refused because limit.calls_waiting were waiting, or a mailbox was full (503).
        counter refused_jobs,
        /// Requests and messages refused by limit.requests_per_user_per_s.
        counter limited_requests_per_user,
        /// Requests and messages refused by limit.requests_per_address_per_s.
        counter limited_requests_per_address,
        /// Sockets refused by limit.sockets_per_user.
        counter limited_sockets_per_user,
        /// Sockets refused by limit.sockets_per_address.
        counter limited_sockets_per_address,
        /// Connections refused by limit.connections_per_address.
        counter limited_connections_per_address,
        /// Connections whose first request named its client in X-Forwarded-For while
        /// socket.proxy_count is 0, so that the peer counts as the client.
        counter forwarded_ignored,
        /// Calls refused by limit.calls_waiting_per_user.
        counter limited_calls_waiting_per_user,
        /// Calls refused by limit.calls_waiting_per_address.
        counter limited_calls_waiting_per_address,
        /// Match listings refused by limit.listings_per_user.
        counter limited_listings_per_user,
        /// Calls with a password refused by limit.passwords_waiting.
        counter limited_passwords_waiting,
        /// Users and addresses that are counted for limits.
        gauge limit_groups,
        /// Users and addresses for which limits did not hold, because too many were counted.
        counter limit_groups_overflow,
        /// Calls of RPC functions and before-hooks that wait for their user's turn.
        gauge calls_waiting,
        /// Waiting calls dropped because their client was gone.
        counter dropped_calls,
        /// After-hooks not run: too many jobs were waiting, or for one of a call a mailbox was full.
        counter refused_after_hooks,
        /// Jobs handed to workers and not yet answered.
        gauge jobs_waiting,
        /// Open sockets.
        gauge sessions,
        /// Sockets opened.
        counter socket_ws_opened,
        /// Sockets closed.
        counter socket_ws_closed,
        /// Sockets closed because their client broke the protocol.
        counter socket_ws_closed_malformed,
        /// Sockets closed because nothing was heard within socket.pong_wait_ms.
        counter socket_ws_closed_silent,
        /// Sockets closed because a message took longer than socket.read_timeout_ms to arrive.
        counter socket_ws_closed_slow,
        /// Large answers refused because clients had limit.unsent_max_bytes unsent.
        counter answers_refused,
        /// Answers that went as they were although their client accepts gzip, because others of the same
        /// turn had been compressed.
        counter answers_not_packed,
        /// Bytes received that wait behind a request or message, or for the next turn.
        gauge input_bytes_waiting,
        /// Times that a connection's next request or message waited because its client had not taken
        /// earlier answers.
        counter answers_awaited,
        /// HTTP connections closed because a request took longer than socket.read_timeout_ms.
        counter http_closed_slow,
        /// Connections of gRPC.
        gauge grpc_connections,
        /// Bytes of answers that wait for gRPC clients to open their windows.
        gauge grpc_unwritten_bytes,
        /// Streams of gRPC refused because their connection had 100 at work, or was ending.
        counter grpc_streams_refused,
        /// Calls over gRPC that their client took back before they were answered.
        counter grpc_cancelled,
        /// Streams of gRPC reset because their request was malformed.
        counter grpc_malformed,
        /// Streams and connections of gRPC ended because a request took longer than
        /// socket.read_timeout_ms to arrive.
        counter grpc_closed_slow,
        /// Answers over gRPC dropped because their client took none of them for
        /// socket.write_timeout_ms, though it took others.
        counter grpc_answers_stalled,
        /// Connections of gRPC closed because their client took too little of its answers for
        /// socket.write_timeout_ms.
        counter grpc_closed_stalled,
        /// Answers over gRPC refused because too many of their connection or address waited already: an
        /// eighth, or a quarter, of a core's part of limit.unsent_max_bytes.
        counter grpc_answers_refused,
        /// Connections of gRPC closed because of too many frames that carry no request: pings, resets,
        /// settings, windows, crumbs of bodies.
        counter grpc_closed_flooding,
        /// Sessions that have asked for datagrams.
        gauge datagram_sessions,
        /// Of these, how many have an address that is believed, so that they are sent some.
        gauge datagram_paths,
        /// Addresses that are not believed any more: silent for datagram.idle_ms, or nothing acknowledged for
        /// five seconds.
        counter datagram_paths_lost,
        /// Challenges sent to addresses that are not believed yet.
        counter datagram_challenges,
        /// Datagrams of sessions that are theirs and new.
        counter datagrams_heard,
        /// Datagrams dropped because they are of no form, or from where nobody can be.
        counter datagrams_malformed,
        /// Datagrams dropped because they name no session.
        counter datagrams_unknown,
        /// Datagrams dropped because their tag is wrong.
        counter datagrams_forged,
        /// Datagrams dropped because their number came already, or too late.
        counter datagrams_stale,
        /// Datagrams dropped by datagram.per_address_per_s.
        counter limited_datagrams_per_address,
        /// Datagrams dropped by datagram.per_session_per_s, or because too many came from where a session is not
        /// believed to be.
        counter limited_datagrams_per_session,
        /// Match messages that came by datagram.
        counter datagram_messages,
        /// Match messages that came by datagram and were dropped: malformed, beyond the limits of socket
        /// messages, or while the modules have a hook of match_data_send.
        counter datagram_messages_refused,
        /// Match messages sent by datagram.
        counter datagram_messages_sent,
        /// Match messages that might have gone by datagram and went over the socket.
        counter datagram_messages_over_socket,
        /// Log-outs and deleted accounts whose tokens are remembered. Told by the first core for all.
        gauge revocations,
        /// Log-outs and deletions forgotten early, because there were too many. As above.
        counter revocations_forgotten,
        /// Users whose tokens do not count because they are banned. As above.
        gauge banned_users,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    }
    and {
        /// Of each API call.
        calls: CallStats
    }
}

counters! {
    /// Of a room.
    RoomStats {
        /// Running authoritative matches.
        gauge authoritative_matches,
        /// Running relayed matches.
        gauge relayed_matches,
        /// Presences in matches and in streams of scripts.
        gauge presences,
        /// Streams of scripts that somebody is in.
        gauge streams,
        /// Users not followed because the session follows too many of this room already.
        counter follows_refused,
        /// Joins refused by limit.presences_per_session.
        counter joins_refused,
        /// Sessions not taken into a stream because of limit.streams_per_user.
        counter limited_streams_per_user,
        /// Sessions not taken into a stream because of limit.presences_per_stream.
        counter limited_presences_per_stream,
        /// Messages of scripts to streams not sent because of limit.stream_deliveries_per_call,
        /// limit.stream_deliveries_per_user_per_s or limit.stream_deliveries_of_matches_per_s.
        counter stream_messages_refused,
        /// Messages of scripts to streams delivered to clients.
        counter stream_messages_delivered,
        /// Presences in streams that came or went beyond limit.stream_events_per_s, so that members who
        /// are behind are not told of them.
        counter stream_events_excess,
        /// Presence events sent.
        counter presence_event_count,
        /// Sockets that were sent notifications.
        counter notifications_shown,
        /// Match messages from clients taken.
        counter match_messages_received,
        /// Match messages delivered to clients.
        counter match_messages_delivered,
        /// Match messages dropped because match.input_queue_size were waiting.
        counter match_input_dropped,
        /// Messages of relayed matches whose sender sent more than match.relayed_bytes_per_sec, so
        /// that members who are behind do not get them.
        counter relayed_messages_excess,
        /// Match messages dropped because sender or match were not there.
        counter match_messages_unroutable,
        /// Relayed matches not entered because of limit.relayed_matches_per_user.
        counter limited_relayed_matches_per_user,
        /// Authoritative matches not made because match.matches_max were running.
        counter matches_refused,
        /// Authoritative matches not made because of match.matches_per_user_max or
        /// match.matches_per_address_max.
        counter matches_of_one_refused,
        /// Matches that callbacks of matches asked for, not made because of match.descendants_max or
        /// match.descendants_per_s.
        counter match_descendants_refused,
        /// Lines of scripts not logged because of runtime.log_lines_per_second_max.
        counter script_log_dropped,
        /// Matches not made because one call may make match.created_per_call_max.
        counter match_creates_refused,
        /// Disconnects, log-outs, bans and deletions refused because one call wanted too many.
        counter cut_offs_refused,
        /// Changes of the scripts' cache refused: too large, or too many in one call.
        counter localcache_refused,
        /// Calls of scripts that wanted to send more notifications than one call may.
        counter notifications_refused,
        /// Calls of stream functions refused because one call of a script wanted too many, or to send
        /// too much.
        counter stream_calls_refused,
        /// Events that no handler will hear of: runtime.event_queue_size of them were waiting, or one user
        /// or one call had too many.
        counter dropped_events,
        /// Kept notifications that made room for newer ones, because a user had too many.
        counter notifications_forgotten,
        /// Callbacks of matches that wanted to send more than match.broadcast_bytes_max.
        counter match_broadcasts_refused,
        /// Ticks run.
        counter match_ticks,
        /// Ticks skipped because the one before was late.
        counter match_ticks_skipped,
        /// Callbacks that wait just now, for other threads or servers.
        gauge match_callbacks_waiting,
        /// How often callbacks had to wait.
        counter match_callbacks_waited,
        /// Joins and signals refused because match.join_attempt_queue_size or match.signal_queue_size of
        /// them waited already, behind a callback that waits.
        counter match_calls_refused,
        /// Circles found of matches that waited for one another, of which one is answered "match busy"; of two
        /// that signal each other at once each finds it.
        counter match_circles,
        /// Matches stopped because a callback waited for longer than runtime.call_wait_max_ms.
        counter match_waits_cancelled,
        /// Answers that came when nobody waited for them any more.
        counter late_answers,
        /// Matches stopped because a callback failed.
        counter match_errors,
        /// Matches stopped because a callback used up its time.
        counter match_out_of_time,
        /// Matches stopped because they used up their memory.
        counter match_out_of_memory,
        /// Sessions that steer a ship of the zone.
        gauge zone_players,
        /// Sessions that wait in line to be let into the zone.
        gauge zone_waiting,
        /// Cells that computed the zone's newest tick.
        gauge zone_cells,
        /// How fast time goes in the zone, in thousandths.
        gauge zone_tau_permille,
        /// Ticks of the zone.
        counter zone_ticks,
        /// Of these, those that began more than 5 ms after they were due.
        counter zone_ticks_late,
        /// Ticks of the zone that were due while cells computed the one before.
        counter zone_ticks_held,
        /// Ticks of the zone that were late by a whole one, so that time went slower.
        counter zone_ticks_slowed,
        /// Cells of the zone that were cut in two.
        counter zone_splits,
        /// Cells of the zone that became one with the one beside them.
        counter zone_merges,
        /// Borders between two cells of the zone that were moved.
        counter zone_border_moves,
        /// Entities that were handed from one cell of the zone to another.
        counter zone_hand_overs,
        /// Ticks that the zone's books did not agree with: an entity was lost, or there twice.
        counter zone_faults,
        /// Snapshots of the zone that were written to the database.
        counter zone_snapshots,
        /// Bytes of the newest of them.
        gauge zone_snapshot_bytes,
        /// Writes of the zone, of snapshots and of what has happened since, that failed; a snapshot follows.
        counter zone_saves_failed,
        /// Ships that wait for their pilots, behind a restart.
        gauge zone_away,
        /// Packets of clients that the zone heeded.
        counter zone_inputs,
        /// Packets of clients that it did not: malformed, of another opcode, or more than 4 in a tick.
        counter zone_inputs_refused,
        /// Joins of the zone that were given a place in the line of who waits.
        counter zone_joins_waited,
        /// Joins of the zone that were refused: it is full or has too much to do and world.waiting_max wait, or
        /// by world.ships_per_user or world.ships_per_address.
        counter zone_joins_refused,
        /// Snapshots of the zone that were written for clients.
        counter zone_packets,
        /// Snapshots that were not, because as many as the client takes were on their way.
        counter zone_packets_held,
        /// Updates of one entity in these snapshots.
        counter zone_updates,
        /// Questions to rules of the zone, each of all that happened for it since the one before.
        counter zone_rules_asked,
        /// Of these, those whose rule raised an error or used up its budget: the zone's own rules took its place.
        counter zone_rules_failed,
        /// Of these, those whose answer did not come within world.rules_wait_ms.
        counter zone_rules_late,
        /// What rules returned and meant nothing, each part by itself: the zone's own rules took its place.
        counter zone_rules_refused,
        /// Pilots, hits and kills that rules were not asked of, because as many as may waited for them.
        counter zone_rules_left_out,
        /// News of who was shot down that were sent, once for each of who flies.
        counter zone_news,
        /// Ships shot down that pilots were not told of, because too many were in a short time.
        counter zone_news_dropped,
        /// Ticks that viewers of a room were never told of, because a newer one was done while they were still told of an
        /// older one.
        counter zone_shows_skipped,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    } and {
        /// Of the zone's home.
        zone: ZoneStats
    } and {
        /// Of the matches' callbacks.
        guest_errors: VersionErrors
    }
}

counters! {
    /// Of a worker.
    WorkerStats {
        /// API calls run.
        counter api_count,
        /// API calls that failed.
        counter api_errors,
        /// Functions run for guests that wait for them on other threads.
        counter host_calls,
        /// Of these, those that ended with an error.
        counter host_calls_failed,
        /// RPC calls run.
        counter rpc_count,
        /// Of these, those that ran in the transaction of a batch.
        counter rpc_batched,
        /// RPC calls that were undone in a batch, because they computed for longer than
        /// runtime.batch_slice_us, met the end of runtime.memory_max_bytes or needed what only callers may do, and began again at a caller.
        counter rpc_undone,
        /// RPC calls that failed.
        counter rpc_errors,
        /// RPC calls stopped at their time budget.
        counter rpc_out_of_time,
        /// RPC calls stopped at their memory budget.
        counter rpc_out_of_memory,
        /// Lines of scripts not logged because of runtime.log_lines_per_second_max.
        counter script_log_dropped,
        /// Matches not made because one call may make match.created_per_call_max.
        counter match_creates_refused,
        /// Disconnects, log-outs, bans and deletions refused because one call wanted too many.
        counter cut_offs_refused,
        /// Changes of the scripts' cache refused: too large, or too many in one call.
        counter localcache_refused,
        /// Calls of scripts that wanted to send more notifications than one call may.
        counter notifications_refused,
        /// Calls of stream functions refused because one call of a script wanted too many, or to send
        /// too much.
        counter stream_calls_refused,
        /// Events that no handler will hear of: runtime.event_queue_size of them were waiting, or one user
        /// or one call had too many.
        counter dropped_events,
        /// Kept notifications that made room for newer ones, because a user had too many.
        counter notifications_forgotten,
        /// Times that a call of a script began to wait for another thread or server.
        counter calls_suspended,
        /// Calls of scripts that wait for other threads or servers.
        gauge calls_waiting_now,
        /// Calls of functions that are known to be quick, begun on the threads of cores.
        counter calls_on_cores,
        /// Slices of a core (runtime.core_slice_us) that were not enough for a call.
        counter calls_paused,
        /// Calls that took more than two slices of a core without a pause: where they cannot be interrupted.
        counter calls_overran,
        /// Calls that another thread had to run: instead of a core, because another one of the function had just turned out long
        /// there, because there was no room (all instances of its module were in use), or because they met the end of
        /// runtime.memory_max_bytes there; instead of a caller, because the memory of its scripts was used up.
        counter calls_given_back,
        /// Calls, hooks that nobody waits for among them, that no caller ran: the memory of the scripts was used up, and the
        /// modules did not load once more.
        counter calls_without_modules,
        /// Calls ended while they waited because calls that wait held more than half of the memory of their
        /// scripts (runtime.memory_max_bytes), and those of their user or address the most.
        counter waiting_calls_ended,
        /// Waits refused because of runtime.waiting_calls_max or runtime.waiting_calls_per_user.
        counter waiting_calls_refused,
        /// Calls ended because they had waited for runtime.call_wait_max_ms.
        counter calls_waited_too_long,
        /// Answers that came when nobody waited for them any more.
        counter late_answers,
        /// Before-hooks run.
        counter overall_before_count,
        /// Before-hooks that failed or refused with an error.
        counter overall_before_errors,
        /// After-hooks run.
        counter overall_after_count,
        /// After-hooks that failed.
        counter overall_after_errors,
        /// Events that handlers have heard of.
        counter event_count,
        /// Handlers of events that failed.
        counter event_errors,
        /// Events that wait for their handlers.
        gauge events_waiting,
        /// Database commits.
        counter db_commits,
        /// Jobs that shared a commit with others before them.
        counter db_commits_saved,
        /// Commits that failed.
        counter db_commit_errors,
        /// Batches that ended at their limit of calls or time while calls were waiting.
        counter db_batches_cut,
        /// Batches of calls that are much work for the database, such as writes of many objects.
        counter db_batches_heavy,
        /// Passwords not looked at because of limit.password_attempts_per_account.
        counter limited_password_attempts_per_account,
        /// Passwords not looked at because of limit.password_attempts_per_address.
        counter limited_password_attempts_per_address,
        /// Entries of the scripts' cache. Told by the batcher for all replicas.
        gauge localcache_entries,
        /// Bytes of the scripts' cache, an estimate. As above.
        gauge localcache_bytes,
        /// Entries of the scripts' cache that made room for newer ones. As above.
        counter localcache_evicted,
        /// Matches in the directory. Told by the batcher for all replicas.
        gauge directory_matches,
        /// Sessions that appear online. As above.
        gauge directory_online_sessions,
        /// Matches not listed because the directory was full. As above.
        counter directory_matches_refused,
        /// Sessions not shown as online because there were too many. As above.
        counter directory_online_refused,
        /// Events that came late or twice. As above.
        counter directory_events_stale,
        /// Values of labels that queries cannot find because the label has too many. As above.
        counter directory_label_values_skipped,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    } and {
        /// Of RPC functions, hooks and handlers of events.
        guest_errors: VersionErrors
    }
}

counters! {
    /// Of a lister.
    ListerStats {
        /// Match listings answered.
        counter listings,
        /// Match listings refused: malformed, or dearer than match.list_steps_max.
        counter listings_refused,
        /// What listings have cost, in steps of very roughly a nanosecond.
        counter listing_steps,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    }
}

counters! {
    /// Of the loader.
    LoaderStats {
        /// The version of the modules on which calls and matches begin.
        gauge guest_version,
        /// Older versions that matches and calls still run on.
        gauge guest_versions_older,
        /// Versions of the modules that were loaded while the server ran, and served.
        counter reloads,
        /// Versions that did not load.
        counter reloads_failed,
        /// Loadings refused: too many older versions in use, or too many requests for one.
        counter reloads_refused,
        /// Threads whose scripts' memory (runtime.memory_max_bytes) calls have used up, so that calls run at
        /// (other) callers until the modules have been loaded for them once more.
        gauge scripts_missing,
        /// Times that they were.
        counter scripts_renewed,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    }
}

counters! {
    /// Of the gate to other nodes.
    GateStats {
        /// Letters to other nodes written.
        counter node_letters_sent,
        /// Letters of other nodes read.
        counter node_letters_opened,
        /// Letters of or for a life of a node that is over: dropped.
        counter node_letters_late,
        /// Letters that are malformed, too long, or say what their node may not say: dropped.
        counter node_letters_refused,
        /// Mail for nodes that are away: dropped.
        counter node_mail_lost,
        /// Mail for other nodes that was too long for a letter: dropped.
        counter node_mail_too_long,
        /// Mail that could not be posted because a mailbox was full.
        counter refused_mail,
        /// Refused mail that was lost: too much of it waited for another try.
        counter dropped_mail,
    }
}

#[cfg(test)]
mod tests {
    use super::CoreStats;

    #[test]
    fn samples_carry_name_help_and_kind() {
        let stats = CoreStats::default();
        stats.sessions.up();
        stats.overall_request_count.add(3);
        let samples = stats.samples();
        let find = |name| samples.iter().find(|sample| sample.name == name).copied().unwrap();
        assert_eq!(find("sessions").value, 1);
        assert!(!find("sessions").rises);
        assert_eq!(find("overall_request_count").value, 3);
        assert_eq!(find("overall_request_count").help, "Requests over HTTP and gRPC answered.");
    }
}
