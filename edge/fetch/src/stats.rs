//! Counters of requests to other servers, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter as `/metrics` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchSample {
    /// Name without the configured prefix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it only ever rises.
    pub rises: bool,
    /// Its value.
    pub value: u64,
}

/// A number that the thread of requests writes and others may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $kind:ident $name:ident,)+) => {
        /// What has become of requests since the start.
        #[derive(Debug, Default)]
        pub struct FetchStats {
            $($(#[doc = $help])+ pub(crate) $name: Count,)+
        }

        impl FetchStats {
            /// All counters.
            #[must_use]
            pub fn samples(&self) -> Vec<FetchSample> {
                vec![$(FetchSample {
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
    /// Requests of scripts to other servers (http_request).
    counter fetch_requests,
    /// Of these, answered, with any status.
    counter fetch_answered,
    /// Refused because of the URL, a header, the host, its address, or where a redirect led.
    counter fetch_refused,
    /// Refused by fetch.requests_per_user, fetch.requests_per_address, fetch.requests_per_host or
    /// fetch.waiting_max.
    counter fetch_limited,
    /// Ended because content was too large, or all of it together.
    counter fetch_too_large,
    /// Not done in the time that the script or fetch.connect_timeout_ms gave.
    counter fetch_timeouts,
    /// Given up, by time or otherwise, before their turn came: fetch.requests_max or
    /// fetch.requests_per_host.
    counter fetch_turns_missed,
    /// Failed otherwise: no such name, no connection, no TLS, not HTTP.
    counter fetch_failed,
    /// Given up because the call that made them had ended.
    counter fetch_cancelled,
    /// Answers that a full mailbox did not take in time.
    counter fetch_answers_dropped,
    /// Requests now, those that wait for their turn included.
    gauge fetch_requests_now,
    /// Of these, waiting for their turn.
    gauge fetch_waiting_now,
    /// Names that are being looked up now.
    gauge fetch_lookups_now,
    /// Bytes of contents, of requests and answers, in memory now.
    gauge fetch_bytes_now,
}
