//! What a script that runs on a worker may ask for: [`WorkerHost`] is lent to it for a piece of a call.
//! What lives on other threads it waits for (`waiting`).

use std::net::IpAddr;

use event::{Now, client_bits};
use game::db::Database;
use game::fetch::Principal;
use game::guest::{Answer, Ask, CallContext, CommonHost, Dispatcher, Host, HostError};
use game::stream::{StreamId, StreamRequest};

use crate::mail::StreamMail;
use crate::resources::{CANNOT_WAIT, Resources, Spent, from_resources};
use crate::settings::Settings;

/// The host of a piece of a call on a worker.
pub(super) struct WorkerHost<'a> {
    pub(super) now: Now,
    pub(super) resources: &'a mut Resources,
    /// What the call has had so far.
    pub(super) spent: &'a mut Spent,
}

impl Host for WorkerHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
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

/// Who pays for a call: its user, else its client's address where limits of addresses hold for it.
pub(super) fn payer(settings: &Settings, context: &CallContext) -> Principal {
    if let Some(user_id) = context.user_id {
        return Principal::User(user_id);
    }
    let address = context.client_ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
    let exempt = &settings.limits.exempt_addresses;
    match address.filter(|address| !exempt.iter().any(|network| network.contains(*address))) {
        Some(address) => Principal::Address(client_bits(address)),
        None => Principal::Server,
    }
}
