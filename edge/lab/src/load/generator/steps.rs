//! Doing the steps of a session: what comes next, sending it, and what its end means.

use event::{ConnId, Output};
use wire::http1::ResponseDecoder;
use wire::websocket::{self, Opcode};

use super::http::Wrong;
use super::{Command, Generator, Node, RESTART_NS};
use crate::load::generator::player::{Doing, Expecting, Link, Player};
use crate::load::record::Stage;
use crate::load::record::kind::{Cause, Kind};
use crate::load::scenario::mark::{Mark, NUMBER_MASK};
use crate::load::scenario::program::{
    HttpStep, Program, SessionPlan, Step, StepKind, audience_index,
};
use crate::load::scenario::template::{Filling, Template};
use crate::load::scenario::{Audience, Await, Beat, Process, Think};

/// Steps that a player does at once before the others have their turn.
const STEPS_AT_ONCE_MAX: usize = 16;
/// How long a player waits before it tries again what was refused: between these.
const RETRY_NS_MIN: u64 = 50_000_000;
const RETRY_NS_MAX: u64 = 250_000_000;
/// How often in a row a player tries again; then the refusal is a failure.
const RETRIES_MAX: u8 = 100;

/// Whether the next step can be done now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Wait,
}

impl Generator {
    /// Goes on with the player's session until it has to wait for something.
    pub(super) fn advance(&mut self, now_ns: u64, index: usize, out: &mut Output<Command>) {
        let program = self.program.clone();
        for _ in 0..STEPS_AT_ONCE_MAX {
            if self.next(now_ns, index, &program, out) == Next::Wait {
                return;
            }
        }
        self.wait_until(index, now_ns);
    }

    /// An answer is an error: tries again if the step says so of it, else it has failed.
    pub(super) fn refused(
        &mut self,
        now_ns: u64,
        index: usize,
        wrong: Wrong,
        out: &mut Output<Command>,
    ) {
        let program = self.program.clone();
        let player = &self.players[index];
        let plan = &program.sessions[usize::from(player.session)];
        let step = plan.steps.get(usize::from(player.step));
        let in_loop = (plan.loop_start..plan.loop_end).contains(&player.step);
        // Nothing new is begun in the loop when the counted time is over.
        let may_again = player.doing == Doing::Busy
            && player.retries < RETRIES_MAX
            && !(in_loop && self.stage >= Stage::Drain);
        match step.and_then(|step| Some((step, step.retry.as_ref()?))) {
            Some((step, retry)) if wrong.is_retry && may_again => {
                if let Some(op) = step.op.and_then(|op| self.record.op(op)) {
                    op.retried += u64::from(player.left.max(1));
                }
                self.try_again(now_ns, index, retry.from);
            }
            _ => self.fail(now_ns, index, &wrong.kind, || wrong.example, out),
        }
    }

    /// Goes back to step `from` after a short random wait, so that players that raced for one
    /// thing do not race again at once.
    fn try_again(&mut self, now_ns: u64, index: usize, from: u16) {
        self.settle(index);
        let player = &mut self.players[index];
        let due_ns = now_ns + player.random.between_ns(RETRY_NS_MIN, RETRY_NS_MAX);
        player.retries += 1;
        // The same step again is still the same intention.
        player.is_intended = player.step == from;
        player.step = from;
        player.ready_ns = due_ns;
        self.wait_until(index, due_ns);
    }

    /// Begins the session again, a while later.
    pub(super) fn restart(&mut self, now_ns: u64, index: usize, out: &mut Output<Command>) {
        self.settle(index);
        self.drop_link(index, out);
        let player = &mut self.players[index];
        player.step = 0;
        player.rounds = 0;
        player.loop_ns = 0;
        player.is_thinking = false;
        player.retries = 0;
        player.ready_ns = now_ns + RESTART_NS;
        self.leave_door(index);
        self.wait_until(index, now_ns + RESTART_NS);
    }

    fn next(
        &mut self,
        now_ns: u64,
        index: usize,
        program: &Program,
        out: &mut Output<Command>,
    ) -> Next {
        let player = &mut self.players[index];
        let plan = &program.sessions[usize::from(player.session)];
        let has_loop = plan.loop_end > plan.loop_start;
        if std::mem::take(&mut player.is_thinking) {
            player.step += 1;
        }
        if self.stage >= Stage::Drain && self.settings.phases.is_empty() {
            // Nothing new begins. Stays until the run's end closes all connections.
            return Next::Wait;
        }
        let is_round_done = has_loop && player.step == plan.loop_end;
        if is_round_done && self.goes_round_again(now_ns, index, plan) {
            self.players[index].step = plan.loop_start;
        }
        let player = &mut self.players[index];
        let mut in_loop = has_loop && (plan.loop_start..plan.loop_end).contains(&player.step);
        if in_loop && self.stage >= Stage::Drain {
            // Its phase is over: what comes after the loop, and then it leaves.
            player.step = plan.loop_end;
            player.is_intended = false;
            in_loop = false;
        }
        if in_loop && player.step == plan.loop_start && !player.is_intended {
            self.mark_ready(now_ns, index);
            if self.begin_round(now_ns, index, plan) {
                return Next::GoOn;
            }
        }
        let Some(step) = plan.steps.get(usize::from(self.players[index].step)) else {
            return self.end_of_session(now_ns, index, has_loop, out);
        };
        if let Some(due_ns) = self.intend(now_ns, index, plan, in_loop)
            && due_ns > now_ns
        {
            self.wait_until(index, due_ns);
            return Next::Wait;
        }
        self.act(now_ns, index, step, out)
    }

    pub(super) fn goes_round_again(&self, now_ns: u64, index: usize, plan: &SessionPlan) -> bool {
        let player = &self.players[index];
        let is_over = plan.rounds.is_some_and(|rounds| player.rounds >= rounds)
            || plan.lasts_ns.is_some_and(|lasts_ns| now_ns - player.loop_ns >= lasts_ns);
        !is_over && self.stage < Stage::Drain
    }

    /// Counts a round; `true` if `first` has to be done again before.
    fn begin_round(&mut self, now_ns: u64, index: usize, plan: &SessionPlan) -> bool {
        let player = &mut self.players[index];
        if player.loop_ns == 0 {
            player.loop_ns = now_ns;
            player.renewed_ns = now_ns;
        }
        let is_stale = plan.loop_start > 0
            && plan.renew_every_ns.is_some_and(|every| now_ns - player.renewed_ns >= every);
        if is_stale {
            player.renewed_ns = now_ns;
            player.step = 0;
            return true;
        }
        player.rounds += 1;
        player.round = player.round.wrapping_add(1);
        // The row that it came with is that of its first round too.
        if player.round > 1 && !player.rows.is_empty() {
            self.renew_rows(index);
        }
        false
    }

    fn end_of_session(
        &mut self,
        now_ns: u64,
        index: usize,
        has_loop: bool,
        out: &mut Output<Command>,
    ) -> Next {
        if has_loop || !self.settings.phases.is_empty() {
            self.leave(index, out);
        } else {
            // Nothing more to do but to stay.
            self.mark_ready(now_ns, index);
        }
        Next::Wait
    }

    /// Takes the intended time of the step, once.
    fn intend(
        &mut self,
        now_ns: u64,
        index: usize,
        plan: &SessionPlan,
        in_loop: bool,
    ) -> Option<u64> {
        let player = &self.players[index];
        if player.is_intended {
            return Some(player.intended_ns);
        }
        // Thinking is no operation that anybody could be late with.
        let has_op = plan.steps.get(usize::from(player.step)).is_some_and(|it| it.op.is_some());
        let is_beat = in_loop
            && match plan.beat {
                Beat::Step => has_op,
                Beat::Round => player.step == plan.loop_start,
            };
        let paced = if is_beat { self.interval_ns(plan) } else { None };
        let due_ns = match paced {
            Some(interval_ns) => self.take_beat(now_ns, index, interval_ns),
            None if player.ready_ns != 0 => player.ready_ns,
            None => now_ns,
        };
        let player = &mut self.players[index];
        player.intended_ns = due_ns;
        player.is_intended = true;
        Some(due_ns)
    }

    fn act(&mut self, now_ns: u64, index: usize, step: &Step, out: &mut Output<Command>) -> Next {
        let is_socket = matches!(self.links[index], Link::Socket(_));
        match &step.kind {
            StepKind::Think(think) => {
                let think_ns = self.think_ns(index, *think);
                let player = &mut self.players[index];
                let due_ns = player.intended_ns.saturating_add(think_ns);
                player.free_ns = player.free_ns.saturating_add(think_ns);
                (player.is_thinking, player.is_intended) = (true, false);
                player.ready_ns = due_ns;
                self.wait_until(index, due_ns);
                Next::Wait
            }
            StepKind::Close => {
                self.say_goodbye(index, out);
                self.done_with_step(now_ns, index);
                Next::GoOn
            }
            StepKind::Http(http) => {
                let Some(conn) = self.http_link(now_ns, index, out) else { return Next::Wait };
                self.send_request(now_ns, (index, conn), (step, http), out);
                Next::Wait
            }
            StepKind::Connect { target, extra } => {
                let Some(conn) = self.http_link(now_ns, index, out) else { return Next::Wait };
                self.send_handshake(now_ns, (index, conn), (step, target, extra), out);
                Next::Wait
            }
            _ if !is_socket => {
                let kind = Kind::of(Cause::Other, "no socket is open");
                self.fail(now_ns, index, &kind, String::new, out);
                Next::Wait
            }
            StepKind::Text { frame, awaited, .. } => {
                self.send_text(now_ns, index, (step, frame, *awaited), out)
            }
            StepKind::Binary { bytes, awaited } => {
                self.send_binary(now_ns, index, (step, *bytes, *awaited), out)
            }
            StepKind::Match { op_code, size, to } => {
                self.send_match(now_ns, index, (step, *op_code, *size, *to), out)
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "think times are below 2^53 ns")]
    fn think_ns(&mut self, index: usize, think: Think) -> u64 {
        let random = &mut self.players[index].random;
        match think {
            Think::Fixed(span) => span.ns(),
            Think::Random { mean } => random.gap_ns(Process::Poisson, mean.ns() as f64),
            Think::Between { min, max } => random.between_ns(min.ns(), max.ns()),
        }
    }

    /// The connection if it speaks HTTP; else begins to make one.
    fn http_link(
        &mut self,
        now_ns: u64,
        index: usize,
        out: &mut Output<Command>,
    ) -> Option<ConnId> {
        match self.links[index] {
            Link::Http { .. } => return self.players[index].conn,
            Link::Connecting | Link::Securing => return None,
            Link::Socket(_) | Link::Upgrading { .. } => self.say_goodbye(index, out),
            Link::None => {}
        }
        let behind_ns = if self.settings.saturate { 0 } else { self.behind_ns(now_ns, index) };
        let player = &mut self.players[index];
        player.connect_behind_ns = behind_ns;
        player.attempt = player.attempt.wrapping_add(1);
        player.doing = Doing::Connecting;
        player.sent_ns = now_ns;
        self.links[index] = Link::Connecting;
        self.connecting += 1;
        let token = u64::from(self.players[index].attempt) << 32 | index as u64;
        let to = self.node(index).addr;
        let from = self.settings.source.of(self.players[index].number, to);
        // No longer than the engine's own limit, which is the run's time-out.
        out.connect_from(from, to, token, u32::MAX);
        None
    }

    /// The server that the player uses.
    fn node(&self, index: usize) -> &Node {
        &self.settings.nodes[self.node_index(index)]
    }

    pub(super) fn node_index(&self, index: usize) -> usize {
        self.players[index].number as usize % self.settings.nodes.len()
    }

    /// Closes the player's connection as a client should.
    pub(super) fn say_goodbye(&mut self, index: usize, out: &mut Output<Command>) {
        if let Some(conn) = self.take_conn(index) {
            if matches!(self.links[index], Link::Socket(_)) {
                let payload = websocket::close_payload(1_000, "");
                let key = self.mask_key();
                self.tls.send_with((index, conn), out, |bytes| {
                    websocket::encode_masked(bytes, Opcode::Close, &payload, key);
                });
            }
            self.tls.say_goodbye((index, conn), out);
            out.close(conn);
        }
        self.forget_link(index, out);
    }

    pub(super) fn mask_key(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.random.u64().to_le_bytes();
        [a, b, c, d]
    }

    fn send_request(
        &mut self,
        now_ns: u64,
        (index, conn): (usize, ConnId),
        (step, http): (&Step, &HttpStep),
        out: &mut Output<Command>,
    ) {
        let request = &http.requests[self.node_index(index)];
        let bytes = if let Some(whole) = &request.whole {
            self.tls.send_with((index, conn), out, |bytes| bytes.extend_from_slice(whole));
            whole.len()
        } else {
            let player = &self.players[index];
            let filling = filling(player, &self.program);
            self.tls.send_with((index, conn), out, |bytes| {
                let start = bytes.len();
                for _ in 0..http.pipeline {
                    write_request(bytes, (&request.head, http.body.as_ref()), &filling);
                }
                bytes.len() - start
            })
        };
        self.record.bytes_out += bytes as u64;
        self.sent(now_ns, index, step, http.pipeline);
        self.players[index].expecting = Expecting::Responses;
    }

    fn send_handshake(
        &mut self,
        now_ns: u64,
        (index, conn): (usize, ConnId),
        (step, target, extra): (&Step, &Template, &[u8]),
        out: &mut Output<Command>,
    ) {
        let key = self.random.bytes::<16>();
        self.text.clear();
        target.fill(&mut self.text, &filling(&self.players[index], &self.program));
        let target = String::from_utf8_lossy(&self.text);
        let host = &self.settings.nodes[self.node_index(index)].host;
        let bytes = self.tls.send_with((index, conn), out, |bytes| {
            let start = bytes.len();
            websocket::request(bytes, &target, host, key, extra);
            bytes.len() - start
        });
        self.record.bytes_out += bytes as u64;
        self.links[index] = Link::Upgrading { decoder: ResponseDecoder::default(), key };
        self.sent(now_ns, index, step, 1);
        self.players[index].expecting = Expecting::Upgrade;
    }

    fn send_text(
        &mut self,
        now_ns: u64,
        index: usize,
        (step, frame, awaited): (&Step, &Template, Await),
        out: &mut Output<Command>,
    ) -> Next {
        let player = &mut self.players[index];
        player.cid = player.cid.wrapping_add(1);
        let expecting = match awaited {
            Await::Nothing => None,
            Await::Echo => Some(Expecting::Frame),
            Await::Cid => Some(Expecting::Cid(player.cid)),
        };
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        frame.fill(&mut text, &filling(&self.players[index], &self.program));
        self.send_frame(index, Opcode::Text, &text, out);
        self.text = text;
        self.sent_frame(now_ns, index, step, expecting)
    }

    fn send_binary(
        &mut self,
        now_ns: u64,
        index: usize,
        (step, size, awaited): (&Step, u32, Await),
        out: &mut Output<Command>,
    ) -> Next {
        let number = self.random.u64();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        binary_message(&mut text, number, size);
        self.send_frame(index, Opcode::Binary, &text, out);
        self.text = text;
        let expecting = (awaited != Await::Nothing).then_some(Expecting::Echo(number));
        self.sent_frame(now_ns, index, step, expecting)
    }

    fn send_match(
        &mut self,
        now_ns: u64,
        index: usize,
        (step, op_code, size, to): (&Step, i64, u32, Audience),
        out: &mut Output<Command>,
    ) -> Next {
        let late_ns = now_ns.saturating_sub(self.players[index].intended_ns);
        let sent_ns = now_ns + self.mono_offset_ns;
        let run = self.settings.run_tag;
        let player = &mut self.players[index];
        let number = player.numbers[audience_index(to)];
        player.numbers[audience_index(to)] = number.wrapping_add(1);
        let sender = self.settings.sender_of(player.number);
        let mark = Mark { run, sender, number, sent_ns, late_ns };
        if to == Audience::Sender {
            player.inbox.expect(sender, to, number & NUMBER_MASK);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.extend_from_slice(b"{\"match_data_send\":{\"match_id\":\"");
        if let Some(id) = self.program.match_id(&self.players[index].captured) {
            text.extend_from_slice(id.as_bytes());
        }
        text.extend_from_slice(b"\",\"op_code\":\"");
        text.extend_from_slice(itoa::Buffer::new().format(op_code).as_bytes());
        text.extend_from_slice(b"\",\"data\":\"");
        self.scratch.clear();
        mark.write(&mut self.scratch, size as usize);
        push_base64(&mut text, &self.scratch);
        text.extend_from_slice(b"\",\"presences\":[]}}");
        self.send_frame(index, Opcode::Text, &text, out);
        self.text = text;
        self.record.deliveries.sent[audience_index(to)] += 1;
        // In the closed loop the echo is the answer; in the open one nobody waits.
        let waits = self.settings.saturate && to == Audience::Sender;
        if waits {
            let number = number & NUMBER_MASK;
            return self.sent_frame(now_ns, index, step, Some(Expecting::Delivery(number)));
        }
        self.count_sent(now_ns, index, step, 1);
        self.done_with_step(now_ns, index);
        Next::GoOn
    }

    pub(super) fn send_frame(
        &mut self,
        index: usize,
        opcode: Opcode,
        payload: &[u8],
        out: &mut Output<Command>,
    ) {
        let Some(conn) = self.players[index].conn else { return };
        let key = self.mask_key();
        let bytes = self.tls.send_with((index, conn), out, |bytes| {
            let start = bytes.len();
            websocket::encode_masked(bytes, opcode, payload, key);
            bytes.len() - start
        });
        self.record.bytes_out += bytes as u64;
    }

    fn sent_frame(
        &mut self,
        now_ns: u64,
        index: usize,
        step: &Step,
        expecting: Option<Expecting>,
    ) -> Next {
        if let Some(expecting) = expecting {
            self.sent(now_ns, index, step, 1);
            self.players[index].expecting = expecting;
            return Next::Wait;
        }
        self.count_sent(now_ns, index, step, 1);
        if let Some(op) = step.op.and_then(|op| self.record.op(op)) {
            op.done += 1;
        }
        self.done_with_step(now_ns, index);
        Next::GoOn
    }

    fn count_sent(&mut self, now_ns: u64, index: usize, step: &Step, count: u16) {
        let player = &mut self.players[index];
        player.sent_ns = now_ns;
        let late_ns = now_ns.saturating_sub(player.intended_ns);
        if let Some(op) = step.op.and_then(|op| self.record.op(op)) {
            op.started += u64::from(count);
            if !self.settings.saturate {
                op.lateness.record(late_ns, u64::from(count));
            }
        }
        if !self.settings.saturate {
            // An operation that had to connect first was begun with that.
            let connect_ns = std::mem::take(&mut player.connect_behind_ns);
            let behind_ns = self.behind_ns(now_ns, index);
            self.record.own.behind.record(connect_ns + behind_ns, 1);
        }
    }

    /// An operation is under way.
    fn sent(&mut self, now_ns: u64, index: usize, step: &Step, count: u16) {
        self.count_sent(now_ns, index, step, count);
        let player = &mut self.players[index];
        player.left = count;
        player.doing = Doing::Busy;
        self.busy += 1;
    }

    fn done_with_step(&mut self, now_ns: u64, index: usize) {
        let player = &mut self.players[index];
        player.step += 1;
        player.is_intended = false;
        player.ready_ns = now_ns;
    }

    /// So many good answers have come; returns whether the operation is done.
    pub(super) fn answered(&mut self, now_ns: u64, index: usize, count: u16) -> bool {
        let player = &mut self.players[index];
        let plan = &self.program.sessions[usize::from(player.session)];
        let step = plan.steps.get(usize::from(player.step));
        if let Some(op) = step.and_then(|step| step.op).and_then(|op| self.record.op(op)) {
            let count = u64::from(count);
            op.done += count;
            op.service.record(now_ns.saturating_sub(player.sent_ns), count);
            if !self.settings.saturate {
                op.response.record(now_ns.saturating_sub(player.intended_ns), count);
            }
        }
        player.left = player.left.saturating_sub(count);
        if player.left > 0 {
            return false;
        }
        if step.is_some_and(|step| step.retry.is_some()) {
            player.retries = 0;
        }
        self.settle(index);
        self.done_with_step(now_ns, index);
        true
    }

    /// Keeps what an answer gave.
    pub(super) fn keep(&mut self, index: usize, captured: Vec<(u8, Box<str>)>) {
        for (place, value) in captured {
            if let Some(slot) = self.players[index].captured.get_mut(usize::from(place)) {
                *slot = value;
            }
        }
    }
}

fn filling<'a>(player: &'a Player, program: &'a Program) -> Filling<'a> {
    Filling {
        data: &program.data,
        rows: &player.rows,
        player: player.number,
        round: player.round,
        cid: player.cid,
        captured: &player.captured,
    }
}

fn write_request(
    out: &mut Vec<u8>,
    (head, body): (&Template, Option<&Template>),
    filling: &Filling<'_>,
) {
    head.fill(out, filling);
    if let Some(body) = body {
        let len = body.len(filling);
        out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        body.fill(out, filling);
    }
}

/// A binary message: its number, then a pattern.
pub(super) fn binary_message(out: &mut Vec<u8>, number: u64, size: u32) {
    let pattern = number.to_le_bytes();
    let start = out.len();
    out.resize(start + size as usize, 0);
    for chunk in out[start..].chunks_mut(8) {
        chunk.copy_from_slice(&pattern[..chunk.len()]);
    }
}

/// Whether these bytes are the message of this number.
pub(super) fn is_binary_message(bytes: &[u8], number: u64) -> bool {
    let pattern = number.to_le_bytes();
    bytes.chunks(8).all(|chunk| *chunk == pattern[..chunk.len()])
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
}
