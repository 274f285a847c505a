//! Rules of the zone, on the thread of events, in turns with its handlers. The zone waits for them, and never for long. Of each rule the zone asks one question at a time.
//!
//! Data in: questions of the zone's home. Data out: what rules return, or that they failed. What is deliberately
//! not here: what that means, and what is done meanwhile (`zone::rules`).

use event::Now;
use game::guest::{CallContext, GuestCall, Returned, ScriptError};
use game::rules::ZoneRule;
use game::value::Value;

use super::hooks::Then;
use super::{Named, Worker};
use crate::mail::{RoomIndex, ZoneAsk, ZoneMail};

/// Questions that wait here. More there are only if the zone has given some up.
const WAITING_MAX: usize = 8;

impl Worker {
    /// The zone asks a rule. One question too many is answered as one whose rule failed.
    pub(super) fn take_in_rule(&mut self, ask: ZoneAsk) {
        if self.rules.len() < WAITING_MAX {
            return self.rules.push_back(ask);
        }
        self.answer_rule((ask.home, ask.rule, ask.number), None);
    }

    /// Asks the next rule.
    pub(super) fn run_rule(&mut self, now: Now) {
        let Some(ZoneAsk { home, rule, number, argument }) = self.rules.pop_front() else { return };
        let name = rule.handler();
        let context = CallContext { execution_mode: name, ..CallContext::default() };
        let call = GuestCall::Event { name, argument };
        self.begin(now, (None, Then::Rule { home, rule, number }), (name, &context), call);
    }

    /// A rule has returned, or failed.
    pub(super) fn rule_ended(
        &mut self,
        (name, version): Named<'_>,
        asked: (RoomIndex, ZoneRule, u64),
        result: Result<Returned, ScriptError>,
    ) {
        let returned = match result {
            Ok(Returned::Rule(Some(value))) => Some(value),
            Ok(_) => Some(Value::Nil),
            Err(error) => {
                if let Some(location) = self.failed("", (name, version), &error) {
                    tracing::warn!(
                        name,
                        location,
                        version = version.0,
                        "a rule of the zone failed, and the zone goes on without it: {error}"
                    );
                }
                None
            }
        };
        self.answer_rule(asked, returned);
    }

    /// What rules have written in this batch is not kept, so what they returned does not count.
    pub(super) fn lose_rules(&mut self) {
        for (_, mail) in &mut self.ruled {
            if let ZoneMail::Ruled { returned, .. } = mail {
                *returned = None;
            }
        }
    }

    fn answer_rule(
        &mut self,
        (home, rule, number): (RoomIndex, ZoneRule, u64),
        returned: Option<Value>,
    ) {
        let returned = returned.map(Box::new);
        self.ruled.push((home, ZoneMail::Ruled { rule, number, returned }));
    }
}
