//! What a script that runs on a worker may ask for: [`WorkerHost`] is lent to it for a piece of a call.
//! What lives on other threads it waits for (`waiting`).

use std::net::IpAddr;

use event::Now;
use game::db::Database;
use game::fetch::{FetchPayer, Principal};
use game::guest::{Answer, Ask, CallContext, CommonHost, Dispatcher, Host, HostError};
use game::host::{Args, HostFunction, HostLane};
use game::stream::{StreamId, StreamRequest};

use super::batched::Slice;
use super::queues::HEAVY_ROWS_MIN;
use super::waiting::Origin;
use crate::mail::{StreamMail, Used, weight_rows};
use crate::resources::{CANNOT_WAIT, Resources, Spent, from_resources};
use crate::settings::Settings;

/// The host of a piece of a call on a worker.
pub(super) struct WorkerHost<'a> {
    pub(super) now: Now,
    pub(super) payer: Principal,
    pub(super) resources: &'a mut Resources,
    /// What the call has had so far.
    pub(super) spent: &'a mut Spent,
    /// What this piece has used, but for its time.
    pub(super) used: &'a mut Used,
    /// Where it runs in the batch, what it has there.
    pub(super) slice: Option<&'a mut Slice>,
}

impl Host for WorkerHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
    }

    fn payer(&self) -> Principal {
        self.payer
    }

    fn commits(&self) -> bool {
        self.slice.is_none()
    }

    fn meets_writer(&mut self) {
        if let Some(slice) = &mut self.slice {
            slice.leave();
        }
    }

    fn slice_us(&self) -> Option<u32> {
        self.slice.as_ref().map(|slice| slice.us)
    }

    fn begins(&mut self, function: &HostFunction, args: &Args<'_>) -> Result<(), HostError> {
        self.used.database |= matches!(function.lane, HostLane::Read | HostLane::Write);
        let needs_caller = match function.lane {
            HostLane::Here => false,
            HostLane::Read | HostLane::Write => weight_rows(args.values) >= HEAVY_ROWS_MIN,
            HostLane::Shared
            | HostLane::Hash
            | HostLane::Slow
            | HostLane::Room
            | HostLane::Network => true,
        };
        if needs_caller {
            return self.keeps_thread();
        }
        if function.lane == HostLane::Write {
            self.used.writes = true;
            if let Some(slice) = &mut self.slice {
                slice.protect(self.resources)?;
            }
        }
        Ok(())
    }

    fn keeps_thread(&mut self) -> Result<(), HostError> {
        self.used.needs_caller = true;
        self.slice.as_mut().map_or(Ok(()), |slice| Err(slice.leave()))
    }
}

impl CommonHost for WorkerHost<'_> {
    from_resources!(resources);

    fn ask(&mut self, _: Ask) -> Answer {
        Err(HostError::new(CANNOT_WAIT))
    }

    fn stream(&mut self, stream: &StreamId, mut request: StreamRequest) -> Result<(), HostError> {
        self.spent.pays(&mut request);
        debug_assert!(!request.is_answered(), "{request:?} is asked");
        self.spent.stream(request.bytes(), self.resources)?;
        let stream = stream.clone();
        self.resources.post_stream(StreamMail { stream, request, member: None, reply: None });
        Ok(())
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}

/// Who pays for a call: its user, else its client's address where limits of addresses hold for it. A core
/// has said which that is; of events, which no client's job brings, their text does.
pub(super) fn payer(
    settings: &Settings,
    context: &CallContext,
    origin: Option<&Origin>,
) -> FetchPayer {
    let client = match origin {
        Some(origin) => Some(origin.client).filter(|client| *client != 0),
        None => {
            let address = context.client_ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
            address.and_then(|address| settings.limits.client(address))
        }
    };
    let principal = match (context.user_id, client) {
        (Some(user_id), _) => Principal::User(user_id),
        (None, Some(bits)) => Principal::Address(bits),
        (None, None) => Principal::Server,
    };
    FetchPayer { principal, client }
}
