//! A thread that lists matches for clients, from its own replica of the directory: a listing needs
//! no database, and a dear one must not hold up calls that do.
//!
//! Jobs come in as mail, users take turns, answers leave at the end of a turn. Cheap listings go
//! first, but not for ever. What one listing may cost is `match.list_steps_max`; how many a user
//! may have waiting is the core's to count. Not here: listings by scripts, and those with hooks,
//! which are done where the script runs.

use std::sync::Arc;

use event::{Handler, Input, Now, Output};
use game::api::{Answer, ApiCall, list_matches};
use game::directory::Directory;
use game::error::{ApiError, Code};
use wire::nakama::api::ListMatchesRequest;

use crate::fair::FairQueue;
use crate::limit_log::LimitLog;
use crate::mail::{
    Address, CoreMail, Done, Job, Line, ListerMail, Mail, Outcome, Post as _, Topology, Work,
};
use crate::retry_queue::RetryQueue;
use crate::settings::Settings;
use crate::stats::ListerStats;

/// Bytes of a query up to which a listing counts as cheap.
const CHEAP_QUERY_BYTES_MAX: usize = 256;
/// So many cheap listings go before a dear one.
const CHEAP_IN_A_ROW_MAX: u32 = 8;

/// The handler of a lister thread.
pub struct Lister {
    me: Address<ListerMail>,
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    stats: Arc<ListerStats>,
    directory: Directory,
    cheap: FairQueue<Line, Job>,
    dear: FairQueue<Line, Job>,
    cheap_in_a_row: u32,
    /// Answers of this turn.
    done: Vec<(Address<CoreMail>, Vec<Done>)>,
    retries: RetryQueue,
    limit_log: LimitLog,
}

impl Lister {
    /// A lister that knows of no match.
    #[must_use]
    pub fn new(topology: Arc<Topology>, settings: Arc<Settings>, stats: Arc<ListerStats>) -> Self {
        let me = topology.lister;
        let mut directory = Directory::new(topology.nodes.clone());
        directory.set_list_steps_max(settings.matches.list_steps_max);
        Self {
            me,
            topology,
            settings,
            stats,
            directory,
            cheap: FairQueue::default(),
            dear: FairQueue::default(),
            cheap_in_a_row: 0,
            done: Vec::new(),
            retries: RetryQueue::default(),
            limit_log: LimitLog::default(),
        }
    }

    fn mail(&mut self, mail: ListerMail) {
        match mail {
            ListerMail::Directory(events) => {
                events.iter().for_each(|event| self.directory.apply(event));
            }
            ListerMail::Nodes(topology) => {
                self.directory.set_nodes(topology.nodes.clone());
                self.topology = topology;
            }
            ListerMail::Job(job) => {
                let queue = if is_cheap(&job) { &mut self.cheap } else { &mut self.dear };
                queue.push(job.line(), *job);
            }
        }
    }

    fn next(&mut self) -> Option<Job> {
        let is_cheaps_turn = self.dear.is_empty() || self.cheap_in_a_row < CHEAP_IN_A_ROW_MAX;
        if is_cheaps_turn && let Some(job) = self.cheap.pop() {
            self.cheap_in_a_row += 1;
            return Some(job);
        }
        self.cheap_in_a_row = 0;
        self.dear.pop()
    }

    /// Lists until the turn has cost as much as one listing may.
    fn run(&mut self, now: Now) {
        let mut steps = 0;
        while steps < self.settings.matches.list_steps_max / 2 {
            let Some(job) = self.next() else { return };
            let mut own_steps = 0;
            let (core, group) = (job.address.core, job.group);
            let outcome = Outcome::Api(self.list(now, &job, &mut own_steps));
            steps += own_steps;
            self.stats.listing_steps.add(own_steps);
            let (queue, conn, stream) = (job.queue, job.address.conn, job.stream);
            let done = Done { queue, conn, stream, group, used: None, outcome };
            match self.done.iter_mut().find(|(to, _)| *to == core) {
                Some((_, list)) => list.push(done),
                None => self.done.push((core, vec![done])),
            }
        }
    }

    fn list(&mut self, now: Now, job: &Job, steps: &mut u64) -> Result<Answer, ApiError> {
        let Some(request) = request_of(job) else {
            tracing::error!(work = ?job.work, "a job that is not for a lister");
            return Err(ApiError::internal("Error listing matches."));
        };
        self.stats.listings.up();
        let listed = list_matches(&self.directory, request, job.format, steps);
        let body = listed.inspect_err(|error| {
            self.stats.listings_refused.up();
            if error.code == Code::ResourceExhausted {
                self.limit_log.hit(now, "match.list_steps_max", format_args!("{error}"));
            }
        })?;
        Ok(Answer { body, ..Answer::default() })
    }

    fn turn_end(&mut self, now: Now, out: &mut Output<Mail>) {
        self.run(now);
        for (core, list) in self.done.drain(..) {
            out.post(&self.topology, core, CoreMail::Done(list));
        }
        self.retries.hold_back(now, out, &self.stats.dropped_mail);
        let has_more = !self.cheap.is_empty() || !self.dear.is_empty();
        out.wake_at(has_more.then_some(now.mono_ns).or(self.retries.due_ns()));
    }
}

fn request_of(job: &Job) -> Option<&ListMatchesRequest> {
    match &job.work {
        Work::Api(call) => match &**call {
            ApiCall::ListMatches(request) => Some(request),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a listing costs little: that depends on its query, and on labels that are looked for.
fn is_cheap(job: &Job) -> bool {
    request_of(job).is_none_or(|request| {
        request.query.as_ref().is_none_or(|query| query.len() <= CHEAP_QUERY_BYTES_MAX)
    })
}

impl Handler for Lister {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        match input {
            Input::Mail(mail) => self.mail(self.me.open(mail)),
            Input::TurnEnd => self.turn_end(now, out),
            Input::Wake => self.retries.post_due(now, out),
            // Sessions wait for answers, and replicas for news.
            Input::Refused { to, mail } => {
                let counters = (&self.stats.refused_mail, &self.stats.dropped_mail);
                self.retries.given_back(now, (to, mail), counters, &mut self.limit_log);
            }
            Input::Stop => out.stop(),
            // A lister has no sockets.
            event::of_sockets!() => {}
        }
    }
}
