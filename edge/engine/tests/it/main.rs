//! One list of behaviours, run on both drivers. Clients are blocking sockets of std: what a
//! stranger would see.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod behaviours;
mod chaos;
mod companion;
mod crowd;
mod datagrams;
mod ends;
mod fair;
mod rig;
mod threads;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::DriverChoice;

macro_rules! on_both_drivers {
    ($($module:ident { $($behaviour:ident,)* })*) => {
        mod uring {
            $($(#[test]
            fn $behaviour() {
                super::on(super::DriverChoice::Uring, super::$module::$behaviour);
            })*)*
        }
        mod poll {
            $($(#[test]
            fn $behaviour() {
                super::on(super::DriverChoice::Poll, super::$module::$behaviour);
            })*)*
        }
    };
}

/// Skips the ring where the kernel has none, says so past the harness, which hides what a passed
/// test prints, and counts: the last line tells how many passes are none.
fn on(driver: DriverChoice, behaviour: fn(DriverChoice)) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    if driver == DriverChoice::Uring
        && let Err(missing) = engine::probe()
    {
        let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("SKIPPED on the ring, {count} until now: {missing}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    behaviour(driver);
}

on_both_drivers! {
    companion {
        a_companion_answers_in_the_turn_that_asks,
        a_companion_is_heard_and_woken_by_all_as_a_thread_is,
        a_companion_without_rest_leaves_the_core_its_turns,
        a_companion_that_has_had_its_turn_waits_for_the_next,
        a_companion_refuses_what_it_has_no_room_for,
        a_companion_ends_with_its_core,
    }
    behaviours {
        every_size_comes_back_whole,
        a_request_split_at_every_byte_is_the_same_request,
        a_slow_reader_loses_nothing,
        output_is_bounded_and_neighbours_notice_nothing,
        one_large_answer_is_sent_whole,
        a_half_closed_peer_still_gets_its_answer,
        a_reset_in_the_middle_hurts_nobody_else,
        an_accept_storm_is_weathered,
        running_out_of_receive_buffers_loses_nothing,
        a_close_delivers_what_was_sent,
        a_peer_that_never_closes_is_not_waited_for,
        a_peer_that_takes_too_little_is_closed,
        what_is_unsent_is_bounded_in_total,
        an_abort_closes_at_once,
        reading_can_be_stopped_without_losing_anything,
        little_is_held_of_a_peer_that_is_paused_again_and_again,
        sent_is_told_when_all_has_left,
        a_broadcast_reaches_everyone_in_order,
        one_connection_too_many_is_told_by_a_close,
        listeners_are_closed_on_request,
        a_stop_delivers_the_last_bytes,
        the_peers_address_is_told,
        an_idle_thread_sleeps,
    }
    threads {
        a_wake_comes_on_time_and_once,
        every_busy_turn_ends_once,
        the_turn_that_stops_a_thread_ends_too,
        mail_posted_before_an_answer_is_seen_before_the_next_request,
        mail_is_refused_not_lost,
        mail_without_end_keeps_no_client_waiting,
        outgoing_connections_stand_or_fail,
        outgoing_connections_come_from_where_they_were_told,
        failures_to_connect_have_their_cause,
        many_outgoing_connections_talk,
        no_wake_is_lost,
        listeners_are_told_apart,
        threads_are_as_planned,
        a_thread_that_panics_is_named,
    }
    ends {
        a_peer_that_reads_eagerly_is_not_cut_off,
        a_reset_is_told_though_nobody_reads,
        a_stop_is_told_to_every_connection,
        an_attempt_to_connect_can_be_taken_back,
        a_stop_ends_attempts_to_connect,
        accepting_pauses_after_an_error_and_goes_on,
        a_failed_start_leaves_no_thread,
        small_messages_leave_at_once,
    }
    fair {
        a_flood_delays_a_neighbour_by_a_turn_or_two,
    }
    datagrams {
        datagrams_of_every_size_come_back_whole,
        merged_datagrams_come_apart,
        what_is_too_long_is_dropped_and_counted,
        more_than_the_queue_holds_is_dropped_and_counted,
        what_cannot_be_sent_is_counted_and_hurts_nobody,
        what_the_kernel_drops_is_counted,
        a_turn_tells_so_many_datagrams,
        congestion_bits_are_told,
        threads_share_a_port,
        sockets_are_told_apart,
        sockets_of_a_thread_take_turns,
        a_stop_sends_the_last_datagrams,
        an_idle_thread_with_a_socket_sleeps,
        mail_posted_before_an_answer_is_seen_before_the_next_datagram,
        system_calls_are_few,
        a_flood_of_datagrams_leaves_connections_their_turn,
        a_flood_of_bytes_leaves_datagrams_their_turn,
        every_datagram_is_accounted_for,
    }
    chaos {
        echoes_survive_chaos,
        a_stop_does_not_wait_for_ever,
    }
    crowd {
        ten_thousand_connections_are_held,
        running_out_of_files_stops_accepting_for_a_moment_only,
    }
}
