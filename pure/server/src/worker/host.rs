//! What a script that runs on a worker may ask for: [`WorkerHost`] is lent to it for a piece of a call.
//! What lives on other threads it waits for (`waiting`), or the whole thread does ([`Blocking`]), in a language
//! whose calls cannot be put aside. A room goes on meanwhile whatever its matches wait for, so that a circle
//! (this thread waits for a match that waits for this thread) ends with the patience for a room's answer.

use std::cell::RefCell;
use std::net::IpAddr;

use event::{Now, Output, Requester, ThreadId};
use game::db::Database;
use game::fetch::{FetchPayer, Principal};
use game::guest::{Answer, Ask, CallContext, CommonHost, Dispatcher, Host, HostError};
use game::host::{Args, HostFunction, HostLane};
use game::stream::{StreamId, StreamRequest};

use super::batched::Slice;
use super::queues::HEAVY_ROWS_MIN;
use super::waiting::{Origin, commit, fetch, room_question};
use crate::mail::{
    Asker, Mail, News, Post as _, RoomError, RoomMail, StreamMail, Topology, Used, Waiter,
    WorkerAddress, weight_rows,
};
use crate::question::PATIENCE_MS;
use crate::resources::{CANNOT_WAIT, Resources, Spent, from_resources};
use crate::settings::Settings;

/// The host of a piece of a call on a worker.
pub(super) struct WorkerHost<'a> {
    pub(super) now: Now,
    pub(super) resources: &'a mut Resources,
    /// What the call has had so far.
    pub(super) spent: &'a mut Spent,
    /// What this piece has used, but for its time.
    pub(super) used: &'a mut Used,
    /// Where it runs in the batch, what it has there.
    pub(super) slice: Option<&'a mut Slice>,
    /// For a language that keeps its thread.
    pub(super) blocking: Blocking<'a>,
}

/// What a worker needs to ask other threads and to wait for them where it is.
pub(super) struct Blocking<'a> {
    pub(super) me: WorkerAddress,
    pub(super) topology: &'a Topology,
    pub(super) settings: &'a Settings,
    /// `None` on a thread that was given nobody to ask.
    pub(super) requester: Option<&'a mut dyn Requester<Mail>>,
    pub(super) last_question: &'a mut u64,
    pub(super) mails: &'a mut Vec<(ThreadId, Mail)>,
    pub(super) payer: FetchPayer,
}

impl WorkerHost<'_> {
    /// Asks a room and keeps the thread until it answers, or its patience ends.
    fn wait_for_room(&mut self, ask: Ask) -> Answer {
        let Blocking { me, topology, settings, requester, last_question, mails, .. } =
            &mut self.blocking;
        let Some(requester) = requester else { return Err(HostError::new(CANNOT_WAIT)) };
        let number = **last_question + 1;
        let from = Waiter { who: Asker::Worker(*me), request: number };
        let (question, (to, mail)) =
            room_question(from, topology, settings, self.resources, self.spent, ask)?;
        **last_question = number;
        // Who is asked may tell others of what was written.
        commit(self.resources)?;
        // What the worker has to say already is said before the request.
        let mut before = Output::default();
        mails.drain(..).for_each(|(to, mail)| before.mail(to, mail));
        for (room, streams) in self.resources.take_streams(topology) {
            before.post(topology, room, RoomMail::Streams(streams));
        }
        // Directory changes that pass by while waiting are heard at once (and again, without
        // effect, when their mail's turn comes): the script finds listed what it just created.
        let passing = RefCell::new(Vec::new());
        let is_answer = |mail: &Mail| match mail.news() {
            Some(News::Directory(events)) => {
                passing.borrow_mut().extend_from_slice(events);
                false
            }
            Some(News::Answer { request, .. }) => *request == number,
            Some(
                News::Cache(_)
                | News::Returned(_)
                | News::Fetched(_)
                | News::Nodes(_)
                | News::Guests(_),
            )
            | None => false,
        };
        let patience_ms = u32::try_from(PATIENCE_MS).unwrap_or(u32::MAX);
        let answer = requester.request(&mut before, to, mail, &is_answer, patience_ms);
        passing.into_inner().iter().for_each(|event| self.resources.directory.apply(event));
        let outcome = answer.and_then(Mail::into_answer).unwrap_or(Err(RoomError::Busy));
        if outcome == Err(RoomError::Busy) {
            mails.extend(question.take_back(from, topology));
        }
        question.answer(outcome)
    }
}

impl Host for WorkerHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
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

    fn ask_and_wait(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Fetch(request) => fetch(self.resources, self.blocking.payer, *request),
            ask => self.wait_for_room(ask),
        }
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
