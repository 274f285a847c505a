//! Calls that run to their end at once, for tests and measurements of anything but waiting: whatever
//! a call asks, its host answers there and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use game::guest::{
    CallContext, CallId, GuestCall, Host, JoinRequest, JoinVerdict, MatchCall, MatchContext,
    MatchInit, MatchMessage, MatchReturned, MatchScript, Presence, PresenceReason, Returned,
    ScriptError, Scripts, Step,
};
use game::value::Value;

/// A number that no other call has.
pub(crate) fn next_id() -> CallId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    CallId(LAST.fetch_add(1, Relaxed) + 1)
}

/// What is called of scripts, to its end.
pub(crate) trait Straight: Scripts {
    fn run(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Result<Returned, ScriptError> {
        let id = next_id();
        let mut step = self.call(host, id, context, call);
        loop {
            match step {
                Step::Done(result) => return result,
                Step::Waits(ask) => {
                    let answer = host.ask(ask);
                    step = self.resume(host, id, answer);
                }
                Step::Paused => step = self.go_on(host, id),
            }
        }
    }

    fn rpc(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        payload: &[u8],
    ) -> Result<Option<Bytes>, ScriptError> {
        match self.run(host, context, GuestCall::Rpc { id, payload })? {
            Returned::Rpc(answer) => Ok(answer),
            other => panic!("{other:?}"),
        }
    }

    fn before(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        request: Value,
    ) -> Result<Option<Value>, ScriptError> {
        match self.run(host, context, GuestCall::Before { id, request })? {
            Returned::Before(request) => Ok(request),
            other => panic!("{other:?}"),
        }
    }

    fn after(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        answer: Value,
        request: Value,
    ) -> Result<(), ScriptError> {
        let returned = self.run(host, context, GuestCall::After { id, answer, request })?;
        assert_eq!(returned, Returned::Nothing);
        Ok(())
    }

    fn event(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        name: &str,
        argument: Value,
    ) -> Result<(), ScriptError> {
        let returned = self.run(host, context, GuestCall::Event { name, argument })?;
        assert_eq!(returned, Returned::Nothing);
        Ok(())
    }

    /// Makes a match and runs its `match_init`.
    fn match_start(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
        params: Value,
    ) -> Result<(Box<dyn MatchScript>, MatchInit), ScriptError> {
        let mut made = self.match_new(host, context, module)?;
        match made.run(host, context, 0, MatchCall::Init { params: &params })? {
            MatchReturned::Init(init) => Ok((made, init)),
            other => panic!("{other:?}"),
        }
    }
}

impl<T: Scripts + ?Sized> Straight for T {}

/// What is called of a match, to its end; false or `None` when it ends quietly.
pub(crate) trait StraightMatch: MatchScript {
    fn run(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Result<MatchReturned, ScriptError> {
        let mut step = self.call(host, context, tick, call);
        loop {
            match step {
                Step::Done(result) => return result,
                Step::Waits(ask) => {
                    let answer = host.ask(ask);
                    step = self.resume(host, context, answer);
                }
                Step::Paused => unreachable!("matches have no slices"),
            }
        }
    }

    fn join_attempt(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        request: &JoinRequest,
    ) -> Result<Option<JoinVerdict>, ScriptError> {
        Ok(match self.run(host, context, tick, MatchCall::JoinAttempt(request))? {
            MatchReturned::Verdict(verdict) => Some(verdict),
            other => {
                assert_eq!(other, MatchReturned::Ends);
                None
            }
        })
    }

    fn presences(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        joined: bool,
        presences: &[(Presence, PresenceReason)],
    ) -> Result<bool, ScriptError> {
        let returned = self.run(host, context, tick, MatchCall::Presences { joined, presences })?;
        Ok(returned == MatchReturned::GoesOn)
    }

    fn tick(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        messages: &[MatchMessage],
    ) -> Result<bool, ScriptError> {
        let returned = self.run(host, context, tick, MatchCall::Loop(messages))?;
        Ok(returned == MatchReturned::GoesOn)
    }

    fn signal(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        data: &[u8],
    ) -> Result<Option<Bytes>, ScriptError> {
        Ok(match self.run(host, context, tick, MatchCall::Signal(data))? {
            MatchReturned::Signal(text) => Some(text),
            other => {
                assert_eq!(other, MatchReturned::Ends);
                None
            }
        })
    }

    fn terminate(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        grace_s: u32,
    ) -> Result<bool, ScriptError> {
        let returned = self.run(host, context, tick, MatchCall::Terminate { grace_s })?;
        Ok(returned == MatchReturned::GoesOn)
    }
}

impl<T: MatchScript + ?Sized> StraightMatch for T {}
