//! A scenario turned into steps that a player can run: texts cut at their holes, heads written,
//! names turned into numbers. Everything that can be wrong with a scenario is found here, before
//! the first connection.

mod check;
mod when;

use std::collections::BTreeMap;
use std::sync::Arc;

use check::check;
use memchr::memmem::Finder;

use crate::load::scenario::data::{Data, Pick, Table};
use crate::load::scenario::path::Path;
use crate::load::scenario::template::{Filling, Names, Template};
use crate::load::scenario::{
    Audience, Auth, Await, Beat, Fleet, OnError, Pace, Process, Scenario, ScenarioError, Session,
    StepForm, Think,
};
use wire::nearest::did_you_mean;

/// Operations of one scenario, at most: each has its own histograms.
pub(crate) const OPS_MAX: usize = 64;
/// Steps of one session, at most.
pub(crate) const STEPS_MAX: usize = 256;
/// Values that one player captures, at most.
pub(crate) const CAPTURES_MAX: usize = 16;
/// Bytes of one write, at most: half of what a connection may have waiting to be sent, beyond which
/// the server would be blamed for not reading.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Holes that are filled with nothing.
const EMPTY: Filling<'_> =
    Filling { player: 0, round: 0, cid: 0, captured: &[], data: &[], rows: &[] };
/// Requests in one write, at most.
pub(crate) const PIPELINE_MAX: u16 = 1_024;

/// What a run changes in its scenario.
#[derive(Clone, Debug)]
pub(crate) struct Dials {
    /// `Host` header of requests, by node.
    pub(crate) hosts: Vec<String>,
    pub(crate) server_key: String,
    pub(crate) http_key: String,
    /// Unique to the run: part of the ids that it registers.
    pub(crate) run: String,
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) pipeline: u16,
}

/// What an operation is called, and how it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) name: String,
    /// Preparation does not count.
    pub(crate) counted: bool,
    /// Done outside the loop: counted over the whole run, not only in the window.
    pub(crate) setup: bool,
}

/// A scenario ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) sessions: Vec<SessionPlan>,
    pub(crate) captured_count: usize,
    /// Data files.
    pub(crate) data: Vec<Source>,
    /// Index into `ops`.
    pub(crate) headline: u16,
    /// The operation that times application pings, if any session sends them.
    pub(crate) ping_op: Option<u16>,
    /// Operations of match messages by audience: sender, all.
    pub(crate) match_ops: [Option<u16>; 2],
    /// Op codes of match messages by audience; what is published has none.
    match_op_codes: [Option<i64>; 2],
    /// The operation of controls for the zone.
    pub(crate) fly_op: Option<u16>,
    /// The place of `match` among the captured values.
    match_place: Option<usize>,
}

impl Program {
    /// Whether messages are published: without op codes.
    pub(crate) fn publishes(&self) -> bool {
        self.match_ops[1].is_some() && self.match_op_codes[1].is_none()
    }

    /// Whether players are pilots of the zone.
    pub(crate) fn flies(&self) -> bool {
        self.fly_op.is_some()
    }

    /// Whether they ask for datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        let mut steps = self.sessions.iter().flat_map(|session| &session.steps);
        steps.any(|step| matches!(step.kind, StepKind::ZoneDatagrams))
    }

    /// Whom match messages with this op code are for.
    pub(crate) fn audience_of(&self, op_code: i64) -> Option<Audience> {
        let [sender, all] = self.match_op_codes;
        if sender == Some(op_code) {
            Some(Audience::Sender)
        } else {
            (all == Some(op_code)).then_some(Audience::All)
        }
    }

    /// Whether some loop with the headline's operation has no pace at this rate: each of its rounds
    /// begins when the last one is done, which is a closed loop by another name.
    pub(crate) fn has_free_loop(&self, rate: Option<f64>) -> bool {
        let is_headline = |step: &Step| step.op == Some(self.headline);
        self.sessions.iter().any(|it| {
            let range = usize::from(it.loop_start)..usize::from(it.loop_end);
            let steps = it.steps.get(range).unwrap_or_default();
            (it.pace == Pace::None || rate.is_none()) && steps.iter().any(is_headline)
        })
    }

    /// The captured id of a player's match.
    pub(crate) fn match_id<'a>(&self, captured: &'a [Box<str>]) -> Option<&'a str> {
        captured.get(self.match_place?).map(|id| &**id)
    }
}

/// A data file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// As the scenario names it.
    pub(crate) file: String,
    pub(crate) pick: Pick,
    pub(crate) wrap: bool,
    pub(crate) table: Arc<Table>,
}

#[derive(Debug)]
pub(crate) struct SessionPlan {
    /// The first players so many do this session; the others share the sessions without a count.
    pub(crate) count: Option<u32>,
    pub(crate) weight: f64,
    pub(crate) pace: Pace,
    pub(crate) beat: Beat,
    pub(crate) process: Process,
    pub(crate) rounds: Option<u32>,
    pub(crate) lasts_ns: Option<u64>,
    pub(crate) ping_every_ns: Option<u64>,
    pub(crate) renew_every_ns: Option<u64>,
    pub(crate) steps: Vec<Step>,
    /// What one beat counts for: as many requests as stand in one write of the loop, at least 1.
    pub(crate) beat_requests: u16,
    /// Steps `loop_start..loop_end` are repeated.
    pub(crate) loop_start: u16,
    pub(crate) loop_end: u16,
}

#[derive(Debug)]
pub(crate) struct Step {
    /// Index into the program's operations; none for think times and closing.
    pub(crate) op: Option<u16>,
    pub(crate) kind: StepKind,
    pub(crate) on_error: OnError,
    pub(crate) retry: Option<Retry>,
}

impl Step {
    /// Operations that one beat of it begins: as many as requests stand in one write.
    pub(crate) fn ops_at_once(&self) -> u16 {
        match &self.kind {
            StepKind::Http(http) => http.pipeline,
            _ => 1,
        }
    }
}

/// Which refusal means to try again, and from which step on.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) on: Finder<'static>,
    pub(crate) from: u16,
}

#[derive(Debug)]
pub(crate) enum StepKind {
    Http(HttpStep),
    Connect {
        target: Template,
        extra: Box<[u8]>,
    },
    Text {
        frame: Template,
        awaited: Await,
        captures: Vec<(u8, Path)>,
    },
    Binary {
        bytes: u32,
        awaited: Await,
    },
    /// Without an op code the payload alone is the message.
    Match {
        op_code: Option<i64>,
        size: u32,
        to: Audience,
    },
    /// Joins the zone.
    ZoneJoin,
    /// Asks for datagrams beside the socket.
    ZoneDatagrams,
    /// Steers a ship in it.
    ZoneFly(Fleet),
    Think(Think),
    Close,
}

#[derive(Debug)]
pub(crate) struct HttpStep {
    /// By node.
    pub(crate) requests: Box<[Request]>,
    pub(crate) body: Option<Template>,
    pub(crate) pipeline: u16,
    pub(crate) expect: Vec<u16>,
    pub(crate) required: Vec<String>,
    pub(crate) contains: Option<Finder<'static>>,
    pub(crate) captures: Vec<(u8, Path)>,
}

/// A request to one node.
#[derive(Debug)]
pub(crate) struct Request {
    /// All of it, if it has no holes, already repeated for the pipeline.
    pub(crate) whole: Option<Box<[u8]>>,
    /// Up to and with `Content-Length: `, or to the end of the head for a GET without a body.
    pub(crate) head: Template,
}

/// Turns a scenario into a program.
///
/// # Errors
/// [`ScenarioError::Meaning`] with the place of the first thing that cannot be meant so.
pub(crate) fn compile(scenario: &Scenario, dials: &Dials) -> Result<Program, ScenarioError> {
    check(scenario)?;
    let scenario = &when::taken(scenario, &dials.vars)?;
    // Once more: a step may ask for one that is left out.
    check(scenario)?;
    let mut compiler = Compiler::new(scenario, dials)?;
    let mut sessions = Vec::new();
    for session in &scenario.sessions {
        sessions.push(compiler.session(session)?);
    }
    if !sessions.iter().any(|session| session.weight > 0.0 || session.count.is_some()) {
        return Err(mistake("session", "no session has a weight above zero"));
    }
    let headline = match &scenario.headline {
        Some(name) => compiler.ops.iter().position(|op| op.name == *name),
        None => compiler.first_loop_op.map(usize::from).or(Some(0)),
    };
    let headline = headline
        .and_then(|index| u16::try_from(index).ok())
        .ok_or_else(|| mistake("headline", "no operation has this name"))?;
    Ok(Program {
        ops: compiler.ops,
        sessions,
        captured_count: compiler.names.captured.len(),
        data: compiler.names.data.clone(),
        headline,
        ping_op: compiler.ping_op,
        match_ops: compiler.match_ops,
        match_op_codes: compiler.match_op_codes,
        fly_op: compiler.fly_op,
        match_place: compiler.names.captured.iter().position(|name| name == "match"),
    })
}

fn mistake(place: &str, what: impl Into<String>) -> ScenarioError {
    ScenarioError::Meaning { place: place.to_owned(), what: what.into() }
}

struct Compiler<'a> {
    dials: &'a Dials,
    names: Names,
    ops: Vec<Op>,
    first_loop_op: Option<u16>,
    ping_op: Option<u16>,
    match_ops: [Option<u16>; 2],
    match_op_codes: [Option<i64>; 2],
    fly_op: Option<u16>,
    /// With phases players come and go all the time: nothing is done before the counted time.
    has_phases: bool,
}

impl<'a> Compiler<'a> {
    fn new(scenario: &Scenario, dials: &'a Dials) -> Result<Self, ScenarioError> {
        let mut names = Names::default();
        names.constants.extend(scenario.vars.clone());
        for (name, value) in &dials.vars {
            if !scenario.vars.contains_key(name) {
                let known: Vec<_> = scenario.vars.keys().map(String::as_str).collect();
                let what = match &*known {
                    [] => "this scenario has no variables".to_owned(),
                    _ => format!("not a variable of this scenario; it has: {}", known.join(", ")),
                };
                let what = what + &did_you_mean(name, known);
                return Err(mistake(&format!("--set {name}"), what));
            }
            let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
            if scenario.vars.get(name).is_some_and(|it| is_number(it)) && !is_number(value) {
                let what = format!("`{value}` is no number, as the scenario's own value is");
                return Err(mistake(&format!("--set {name}"), what));
            }
            names.constants.insert(name.clone(), value.clone());
        }
        names.constants.insert("run".to_owned(), dials.run.clone());
        let steps = scenario.sessions.iter().flat_map(steps_of);
        for name in steps.flat_map(|step| step.capture.keys()) {
            if !names.captured.contains(name) {
                names.captured.push(name.clone());
            }
        }
        if names.captured.len() > CAPTURES_MAX {
            return Err(mistake("capture", format!("more than {CAPTURES_MAX} names")));
        }
        names.data = scenario.data.iter().map(source).collect();
        Ok(Self {
            dials,
            names,
            ops: Vec::new(),
            first_loop_op: None,
            ping_op: None,
            match_ops: [None; 2],
            match_op_codes: [None; 2],
            fly_op: None,
            has_phases: !scenario.phases.is_empty(),
        })
    }

    fn session(&mut self, form: &Session) -> Result<SessionPlan, ScenarioError> {
        let place = format!("session `{}`", form.name);
        let count = steps_of(form).count();
        if count == 0 || count > STEPS_MAX {
            return Err(mistake(
                &place,
                format!("has {count} steps; 1 to {STEPS_MAX} are possible"),
            ));
        }
        if !(form.weight >= 0.0 && form.weight.is_finite()) {
            return Err(mistake(&place, "the weight is not a number from 0 on"));
        }
        let mut steps = Vec::new();
        for (list, setup) in [(&form.first, true), (&form.repeated, false), (&form.last, true)] {
            let list_start = steps.len();
            for (index, form) in list.iter().enumerate() {
                let name = form.op.clone().unwrap_or_else(|| format!("step {}", index + 1));
                let place = format!("{place}, {name}");
                let mut step = self.step(&place, form, setup)?;
                step.retry = self.retry(&place, &list[..=index], list_start, &step.kind)?;
                steps.push(step);
            }
        }
        if form.ping_every.is_some() && self.ping_op.is_none() {
            self.ping_op = Some(self.op(&place, "ping", false, false)?);
        }
        let index = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        let (loop_start, loop_end) = (form.first.len(), form.first.len() + form.repeated.len());
        let at_once = steps.get(loop_start..loop_end).unwrap_or_default().iter();
        let beat_requests = at_once.map(Step::ops_at_once).max().unwrap_or(1);
        let can_pace = form.repeated.iter().any(|step| step.think.is_none());
        Ok(SessionPlan {
            count: form.count,
            weight: form.weight,
            pace: if can_pace { form.pace } else { Pace::None },
            beat: form.beat,
            process: form.process,
            rounds: form.rounds,
            lasts_ns: form.lasts.map(crate::load::scenario::Span::ns),
            ping_every_ns: form.ping_every.map(|span| span.ns().max(1_000_000_000)),
            renew_every_ns: form.renew_every.map(crate::load::scenario::Span::ns),
            steps,
            beat_requests,
            loop_start: index(loop_start),
            loop_end: index(loop_end),
        })
    }

    fn op(
        &mut self,
        place: &str,
        name: &str,
        counted: bool,
        setup: bool,
    ) -> Result<u16, ScenarioError> {
        let setup = setup && !self.has_phases;
        let found = self.ops.iter().position(|op| op.name == name);
        let index = found.unwrap_or_else(|| {
            self.ops.push(Op { name: name.to_owned(), counted, setup });
            self.ops.len() - 1
        });
        if self.ops.len() > OPS_MAX {
            return Err(mistake(place, format!("more than {OPS_MAX} operations")));
        }
        if self.ops[index] != (Op { name: name.to_owned(), counted, setup }) {
            let what =
                "another operation of this name counts differently or stands in another list";
            return Err(mistake(place, what));
        }
        Ok(u16::try_from(index).unwrap_or(u16::MAX))
    }

    fn step(&mut self, place: &str, form: &StepForm, setup: bool) -> Result<Step, ScenarioError> {
        let kind = self.kind(place, form, setup)?;
        let has_op = !matches!(kind, StepKind::Think(_) | StepKind::Close);
        let op = match (&form.op, has_op) {
            (Some(name), true) => {
                Some(self.op(place, name, form.counted.unwrap_or(true), setup)?)
            }
            (None, false) => None,
            (None, true) => return Err(mistake(place, "lacks `op`, its name in the tables")),
            (Some(_), false) => return Err(mistake(place, "cannot be timed: leave `op` out")),
        };
        if !setup && self.first_loop_op.is_none() {
            self.first_loop_op = op;
        }
        if let StepKind::Match { to, op_code, .. } = kind {
            let place_of = audience_index(to);
            let before = (self.match_ops[place_of], self.match_op_codes[place_of]);
            if before != (None, None) && before != (op, op_code) {
                return Err(mistake(place, "one operation only can send to each audience"));
            }
            (self.match_ops[place_of], self.match_op_codes[place_of]) = (op, op_code);
            if op_code.is_some() && self.match_op_codes[0] == self.match_op_codes[1] {
                return Err(mistake(place, "both audiences have the same op code"));
            }
        }
        if let StepKind::ZoneFly(_) = kind {
            if self.fly_op.is_some_and(|before| Some(before) != op) {
                return Err(mistake(place, "one operation only can steer"));
            }
            self.fly_op = op;
        }
        let on_error = resolve_on_error(form.on_error, setup);
        Ok(Step { op, kind, on_error, retry: None })
    }

    fn kind(&self, place: &str, form: &StepForm, setup: bool) -> Result<StepKind, ScenarioError> {
        let http = [
            ("GET", &form.get),
            ("POST", &form.post),
            ("PUT", &form.put),
            ("DELETE", &form.delete),
        ];
        let mut kinds = Vec::new();
        for (method, target) in http {
            if let Some(target) = target {
                kinds.push(StepKind::Http(self.http(place, form, (method, target), setup)?));
            }
        }
        if let Some(target) = &form.connect {
            let target = self.target(place, target)?;
            let lines = self.header_lines(place, form)?;
            let extra = lines.constant().ok_or_else(|| {
                let what = "headers of `connect` are the same for all players and rounds: only \
                            variables and ${run} can stand there";
                mistake(place, what)
            })?;
            kinds.push(StepKind::Connect { target, extra: extra.into() });
        }
        if let Some(frame) = &form.send {
            let (frame, awaited) = (self.template(place, frame)?, form.awaited);
            kinds.push(StepKind::Text { frame, awaited, captures: self.captures(form) });
        }
        if let Some(bytes) = form.send_binary {
            if !(8..=1 << 20).contains(&bytes) {
                return Err(mistake(place, "`send_binary` is 8 to 1,048,576 bytes"));
            }
            kinds.push(StepKind::Binary { bytes, awaited: form.awaited });
        }
        if let Some(size) = form.publish {
            let size = marked_size(place, size)?;
            kinds.push(StepKind::Match { op_code: None, size, to: Audience::All });
        }
        if let Some(send) = form.match_send {
            kinds.push(match_kind(place, send, &self.names)?);
        }
        if form.zone_join == Some(true) {
            has_match(place, &self.names)?;
            kinds.push(StepKind::ZoneJoin);
        }
        if form.zone_datagrams == Some(true) {
            kinds.push(StepKind::ZoneDatagrams);
        }
        if let Some(text) = &form.zone_fly {
            kinds.push(StepKind::ZoneFly(self.fleet(place, text)?));
        }
        kinds.extend(form.think.map(StepKind::Think));
        if form.close == Some(true) {
            kinds.push(StepKind::Close);
        }
        let count = kinds.len();
        match kinds.pop() {
            Some(kind) if count == 1 => Ok(kind),
            _ => Err(mistake(
                place,
                "needs exactly one of get, post, put, delete, connect, send, send_binary, \
                 publish, match_send, zone_join, zone_datagrams, zone_fly, think, close",
            )),
        }
    }

    fn fleet(&self, place: &str, text: &str) -> Result<Fleet, ScenarioError> {
        let word = self.constant(place, "zone_fly", text)?;
        let known = Fleet::ALL.into_iter().find(|(known, _)| known.as_bytes() == word);
        known.map(|(_, fleet)| fleet).ok_or_else(|| {
            let words = Fleet::ALL.map(|(known, _)| known).join(", ");
            let word = String::from_utf8_lossy(&word);
            mistake(place, format!("`zone_fly` is one of {words}, not `{word}`"))
        })
    }

    fn http(
        &self,
        place: &str,
        form: &StepForm,
        (method, target): (&str, &str),
        setup: bool,
    ) -> Result<HttpStep, ScenarioError> {
        let target = self.target(place, target)?;
        let mut rest = Template::default();
        self.push_auth(place, form.auth, &mut rest)?;
        rest.push(&self.header_lines(place, form)?);
        let body = form.body.as_deref().map(|text| self.template(place, text)).transpose()?;
        let body = body.or_else(|| matches!(method, "POST" | "PUT").then(Template::default));
        if body.is_some() {
            rest.push_text(b"Content-Type: application/json\r\nContent-Length: ");
        } else {
            rest.push_text(b"\r\n");
        }
        let pipeline = if setup { 1 } else { self.dials.pipeline.clamp(1, PIPELINE_MAX) };
        let least = rest.len(&EMPTY) + body.as_ref().map_or(0, |body| body.len(&EMPTY));
        if least.saturating_mul(usize::from(pipeline)) > WRITE_BYTES_MAX {
            let what = format!("a write of more than {WRITE_BYTES_MAX} bytes (--pipeline, `body`)");
            return Err(mistake(place, what));
        }
        let request = |host: &String| {
            let mut head = Template::default();
            head.push_text(format!("{method} ").as_bytes());
            head.push(&target);
            head.push_text(format!(" HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
            head.push(&rest);
            let whole = constant_request(&head, body.as_ref())
                .map(|request| request.repeat(usize::from(pipeline)).into_boxed_slice());
            Request { whole, head }
        };
        Ok(HttpStep {
            requests: self.dials.hosts.iter().map(request).collect(),
            body,
            pipeline,
            expect: if form.expect.is_empty() { vec![200] } else { form.expect.clone() },
            required: form.required.clone(),
            contains: match &form.contains {
                Some(text) => Some(finder(&self.constant(place, "contains", text)?)),
                None => None,
            },
            captures: self.captures(form),
        })
    }

    fn push_auth(&self, place: &str, auth: Auth, head: &mut Template) -> Result<(), ScenarioError> {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        match auth {
            Auth::None => return Ok(()),
            Auth::Token => {
                head.push_text(b"Authorization: Bearer ");
                head.push(&self.template(place, "${token}")?);
            }
            Auth::ServerKey | Auth::HttpKey => {
                let is_server = auth == Auth::ServerKey;
                let key = if is_server { &self.dials.server_key } else { &self.dials.http_key };
                head.push_text(b"Authorization: Basic ");
                head.push_text(STANDARD.encode(format!("{key}:")).as_bytes());
            }
        }
        head.push_text(b"\r\n");
        Ok(())
    }

    /// What the last of these steps says of trying again; the first of them is step `list_start` of
    /// the session.
    fn retry(
        &self,
        place: &str,
        until: &[StepForm],
        list_start: usize,
        kind: &StepKind,
    ) -> Result<Option<Retry>, ScenarioError> {
        let Some((form, earlier)) = until.split_last() else { return Ok(None) };
        let Some(retry) = &form.retry else { return Ok(None) };
        let is_answered = match kind {
            StepKind::Http(_) => true,
            StepKind::Text { awaited, .. } => *awaited == Await::Cid,
            _ => false,
        };
        if !is_answered || retry.on.is_empty() {
            let what = "`retry` wants a text, and a step whose answer can be an error: a request, or \
                        a `send` that awaits a cid";
            return Err(mistake(place, what));
        }
        let from = match &retry.from {
            None => Some(earlier.len()),
            Some(name) => until.iter().rposition(|step| step.op.as_ref() == Some(name)),
        };
        let from = from.and_then(|index| u16::try_from(list_start + index).ok());
        let from = from.ok_or_else(|| {
            mistake(place, "`retry.from` names no operation of an earlier step of its list")
        })?;
        let on = finder(&self.constant(place, "retry.on", &retry.on)?);
        Ok(Some(Retry { on, from }))
    }

    /// A text that is compared with answers: the same for all players and rounds.
    fn constant(&self, place: &str, key: &str, text: &str) -> Result<Vec<u8>, ScenarioError> {
        let template = self.template(place, text)?;
        let constant = template.constant().map(<[u8]>::to_vec);
        constant.ok_or_else(|| {
            let what = format!(
                "`{key} = {text:?}` would differ by player or round: only variables and ${{run}} \
                 can stand there"
            );
            mistake(place, what)
        })
    }

    fn header_lines(&self, place: &str, form: &StepForm) -> Result<Template, ScenarioError> {
        let mut lines = Template::default();
        for (name, value) in &form.headers {
            if name.is_empty() || name.eq_ignore_ascii_case("host") || name.contains([' ', ':']) {
                return Err(mistake(place, format!("`{name}` cannot be a header of a scenario")));
            }
            let value = self.template(place, &value.replace(|c: char| c.is_control(), " "))?;
            let cure = "no control characters can stand in a header: take them out of the file";
            self.check_fields(place, &value, (char::is_control, cure))?;
            let mut line = Vec::new();
            if let Some(value) = value.constant() {
                wire::http1::write_header(&mut line, name, &String::from_utf8_lossy(value));
                lines.push_text(&line);
                continue;
            }
            wire::http1::write_header(&mut line, name, "");
            lines.push_text(line.strip_suffix(b"\r\n").unwrap_or(&line));
            lines.push(&value);
            lines.push_text(b"\r\n");
        }
        Ok(lines)
    }

    /// A template of a path, in which a space would end it.
    fn target(&self, place: &str, text: &str) -> Result<Template, ScenarioError> {
        let template = self.template(place, text)?;
        let is_bad = |c: char| c.is_control() || c.is_whitespace() || !c.is_ascii();
        let cure = "that cannot stand in a path: write `:url` behind the column's name";
        self.check_fields(place, &template, (is_bad, cure))?;
        Ok(template)
    }

    /// Whether the values that fill a template may stand there.
    fn check_fields(
        &self,
        place: &str,
        template: &Template,
        (is_bad, cure): (impl Fn(char) -> bool, &str),
    ) -> Result<(), ScenarioError> {
        for field in template.raw_fields() {
            let Some(source) = self.names.data.get(usize::from(field.source)) else { continue };
            let line = source.table.line_where(field.column, |value| value.contains(&is_bad));
            if let Some(line) = line {
                let column = &source.table.fields[usize::from(field.column)];
                let at = format!("{}, line {line}, column `{column}`", source.file);
                return Err(mistake(place, format!("{at}: {cure}")));
            }
        }
        Ok(())
    }

    fn template(&self, place: &str, text: &str) -> Result<Template, ScenarioError> {
        Template::parse(text, &self.names).map_err(|error| mistake(place, error.to_string()))
    }

    fn captures(&self, form: &StepForm) -> Vec<(u8, Path)> {
        let place = |name: &String| self.names.captured.iter().position(|known| known == name);
        let capture = |(name, path): (&String, &String)| {
            Some((u8::try_from(place(name)?).ok()?, Path::parse(path)))
        };
        form.capture.iter().filter_map(capture).collect()
    }
}

fn source(data: &Data) -> Source {
    Source {
        name: data.name.clone(),
        file: data.file.clone(),
        pick: data.pick,
        wrap: data.wrap,
        table: data.table.clone(),
    }
}

fn finder(text: &[u8]) -> Finder<'static> {
    Finder::new(text).into_owned()
}

/// The place of an audience in [`Program::match_ops`].
pub(crate) fn audience_index(to: Audience) -> usize {
    match to {
        Audience::Sender => 0,
        Audience::All => 1,
    }
}

fn steps_of(session: &Session) -> impl Iterator<Item = &StepForm> {
    session.first.iter().chain(&session.repeated).chain(&session.last)
}

fn resolve_on_error(given: OnError, setup: bool) -> OnError {
    match given {
        OnError::Auto if setup => OnError::Restart,
        OnError::Auto => OnError::Continue,
        other => other,
    }
}

fn match_kind(
    place: &str,
    send: crate::load::scenario::MatchSend,
    names: &Names,
) -> Result<StepKind, ScenarioError> {
    let size = marked_size(place, send.size)?;
    has_match(place, names)?;
    Ok(StepKind::Match { op_code: Some(send.op_code), size, to: send.to })
}

fn has_match(place: &str, names: &Names) -> Result<(), ScenarioError> {
    if names.captured.iter().any(|name| name == "match") {
        return Ok(());
    }
    Err(mistake(place, "no step captures `match`, the id of the match"))
}

/// The size of a payload that carries sender, number and time.
fn marked_size(place: &str, bytes: u32) -> Result<u32, ScenarioError> {
    use crate::load::scenario::mark::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    if !(PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&size) {
        let range = format!("{PAYLOAD_BYTES_MIN} to {PAYLOAD_BYTES_MAX}");
        return Err(mistake(place, format!("a match message has {range} characters")));
    }
    Ok(bytes)
}

/// One request as bytes, if it has no holes.
fn constant_request(head: &Template, body: Option<&Template>) -> Option<Vec<u8>> {
    let mut request = head.constant()?.to_vec();
    if let Some(body) = body {
        let body = body.constant()?;
        request.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        request.extend_from_slice(b"\r\n\r\n");
        request.extend_from_slice(body);
    }
    Some(request)
}

#[cfg(test)]
mod tests;
