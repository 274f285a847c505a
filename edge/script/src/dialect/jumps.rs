//! Programs with `goto` to the same programs without: Luau has none.
//!
//! A jump forward leaves a `repeat … until true` that is put around the statements from the first
//! one that jumps to the label. A jump back starts a `while true do … break end` anew that reaches
//! from the label to the end of its block, so that no scope ends early. A jump to the end of a loop's
//! body is Luau's `continue`. A jump out of several loops sets a flag that each loop on the way asks
//! for after its end. A jump forward over a label that is also jumped back to enters that label's
//! loop with a flag up; a jump to the end of a block passes by its loops. Lua forbids other jumps into the scope of a local, so nothing declared between a
//! jump and its label is needed after the label: this is exact.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::parser::{Block, Repeat, Statement, Statements};
use super::{Edit, SyntaxError, Trouble, Work};

/// Labels of one block: each may be passed by jumps to each other one.
const LABELS_MAX: usize = 200;

/// What becomes of one block's labels, which are known by their statements' numbers.
#[derive(Debug, Default)]
struct Plan {
    /// Labels that are jumped back to.
    loops: BTreeSet<usize>,
    /// Labels that are jumped forward to, and the first statement that does.
    wraps: BTreeMap<usize, usize>,
    /// The same by that statement: the labels whose `repeat` begins there, the last one first.
    begins: BTreeMap<usize, Vec<usize>>,
    /// Labels whose loop is entered on the way to other labels, which follow.
    entries: BTreeMap<usize, BTreeSet<usize>>,
    /// The first of the labels after which the block has nothing more, if a jump forward leads to
    /// one of them. Such a jump may pass locals, so it leaves loops behind and enters none.
    ending: Option<usize>,
}

impl Plan {
    /// The first loop that a jump from statement `from` to `label` enters on its way.
    fn between(&self, from: usize, label: usize) -> Option<usize> {
        if self.ending.is_some_and(|ending| label >= ending) {
            return None;
        }
        self.loops.range(from + 1..label).next().copied()
    }

    fn build(
        loops: BTreeSet<usize>,
        forward: &[(usize, usize)],
        ending: Option<usize>,
        work: &mut Work,
    ) -> Result<Self, Trouble> {
        let mut plan = Self { loops, ending, ..Self::default() };
        for &(jump, label) in forward {
            let mut from = jump;
            loop {
                work.pay(1)?;
                let Some(entered) = plan.between(from, label) else {
                    plan.wrap(from, label);
                    break;
                };
                plan.wrap(from, entered);
                if !plan.entries.entry(entered).or_default().insert(label) {
                    // From here on another jump has gone the same way.
                    break;
                }
                from = entered;
            }
        }
        // Of two that overlap, the later one begins where the earlier one does.
        let mut apart: Vec<(usize, usize)> = Vec::new();
        for (&label, from) in &mut plan.wraps {
            while let Some((_, begins)) = apart.pop_if(|(earlier, _)| *earlier > *from) {
                *from = begins.min(*from);
            }
            apart.push((label, *from));
        }
        for (&label, &from) in plan.wraps.iter().rev() {
            plan.begins.entry(from).or_default().push(label);
        }
        Ok(plan)
    }

    fn wrap(&mut self, from: usize, label: usize) {
        let first = self.wraps.entry(label).or_insert(from);
        *first = (*first).min(from);
    }
}

/// Where a `goto` leads.
#[derive(Clone, Copy, Debug)]
struct Jump {
    block: usize,
    /// The statement of that block which holds the `goto`.
    from: usize,
    label: usize,
    /// Whether the label ends the body of a loop.
    continues: bool,
}

/// A block around a statement.
struct Around<'a> {
    id: usize,
    /// The number of the block's statement.
    at: usize,
    kind: Body,
    /// Where the labels begin after which the block has nothing more.
    ending: usize,
    /// The statements that declare locals, and one name of each.
    locals: Vec<(usize, &'a str)>,
}

impl<'a> Around<'a> {
    /// The last local that is declared after statement `from` and before `label`.
    fn declared(&self, from: usize, label: usize) -> Option<&'a str> {
        let before = self.locals.partition_point(|(at, _)| *at < label);
        let (at, name) = before.checked_sub(1).and_then(|last| self.locals.get(last))?;
        (*at > from).then_some(name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Loop,
    Repeat,
    Plain,
}

struct Scan<'a, 'w> {
    work: &'w mut Work,
    around: Vec<Around<'a>>,
    /// The labels in sight by name, the innermost last: the place of its block in `around`, and
    /// its statement.
    labels: HashMap<&'a str, Vec<(usize, usize)>>,
    jumps: BTreeMap<usize, Jump>,
    back: BTreeMap<usize, BTreeSet<usize>>,
    forward: BTreeMap<usize, Vec<(usize, usize)>>,
    /// See [`Plan::ending`].
    endings: BTreeMap<usize, usize>,
}

/// The changes that make the functions whose bodies are `roots` do without `goto`.
///
/// # Errors
/// A label that is missing, there twice, or in the scope of a local that the jump is not in; or
/// what `work` refuses.
pub(super) fn without(text: &[u8], roots: &[Block], work: &mut Work) -> Result<Vec<Edit>, Trouble> {
    let mut writer = Writer::new(text, work);
    for root in roots.iter().filter(|root| needs_work(root)) {
        let mut scan = Scan::new(writer.work);
        scan.block(root, Body::Plain)?;
        let Scan { jumps, mut back, mut forward, mut endings, .. } = scan;
        let ids: BTreeSet<usize> = back.keys().chain(forward.keys()).copied().collect();
        writer.jumps = jumps;
        for id in ids {
            let (back, ending) = (back.remove(&id).unwrap_or_default(), endings.remove(&id));
            let forward = forward.remove(&id).unwrap_or_default();
            writer.plans.insert(id, Plan::build(back, &forward, ending, writer.work)?);
        }
        writer.block(root, None)?;
    }
    Ok(writer.edits)
}

/// Whether there is a label, a `goto`, or a `break` that is not the last of its block.
fn needs_work(block: &Block) -> bool {
    let last = block.statements.len();
    block.statements.iter().enumerate().any(|(at, statement)| match &statement.kind {
        Statements::Label(_) | Statements::Goto(_) => true,
        Statements::Break => at + 1 < last,
        Statements::Loop(body) => needs_work(body),
        Statements::Repeat(repeat) => needs_work(&repeat.body),
        Statements::Blocks(blocks) => blocks.iter().any(needs_work),
        Statements::Local(_) | Statements::Return | Statements::Other => false,
    })
}

fn wrong<T>(line: u32, message: String) -> Result<T, Trouble> {
    Err(SyntaxError { line, message }.into())
}

impl<'a, 'w> Scan<'a, 'w> {
    fn new(work: &'w mut Work) -> Self {
        Self {
            work,
            around: Vec::new(),
            labels: HashMap::new(),
            jumps: BTreeMap::new(),
            back: BTreeMap::new(),
            forward: BTreeMap::new(),
            endings: BTreeMap::new(),
        }
    }

    /// Puts a block's labels in sight; gives their names.
    fn enter(&mut self, block: &'a Block, kind: Body) -> Result<Vec<&'a str>, Trouble> {
        let depth = self.around.len();
        let (mut labels, mut locals, mut ending) = (Vec::new(), Vec::new(), 0);
        for (at, statement) in block.statements.iter().enumerate() {
            self.work.pay(1)?;
            let Statements::Label(name) = &statement.kind else {
                ending = at + 1;
                if let Statements::Local(name) = &statement.kind {
                    locals.push((at, name.as_str()));
                }
                continue;
            };
            let of_name = self.labels.entry(name.as_str()).or_default();
            if of_name.last().is_some_and(|(of, _)| *of == depth) {
                return wrong(statement.line, format!("label '{name}' already defined"));
            }
            of_name.push((depth, at));
            labels.push(name.as_str());
            if labels.len() > LABELS_MAX {
                return wrong(statement.line, format!("more than {LABELS_MAX} labels in a block"));
            }
        }
        self.around.push(Around { id: block.id, at: 0, kind, ending, locals });
        Ok(labels)
    }

    fn block(&mut self, block: &'a Block, kind: Body) -> Result<(), Trouble> {
        let labels = self.enter(block, kind)?;
        for (at, statement) in block.statements.iter().enumerate() {
            if let Some(around) = self.around.last_mut() {
                around.at = at;
            }
            match &statement.kind {
                Statements::Goto(name) => self.jump(statement, name)?,
                Statements::Loop(body) => self.block(body, Body::Loop)?,
                Statements::Repeat(repeat) => self.block(&repeat.body, Body::Repeat)?,
                Statements::Blocks(blocks) => {
                    for inner in blocks {
                        self.block(inner, Body::Plain)?;
                    }
                }
                Statements::Label(_)
                | Statements::Local(_)
                | Statements::Break
                | Statements::Return
                | Statements::Other => {}
            }
        }
        self.around.pop();
        for name in labels {
            self.labels.get_mut(name).map(Vec::pop);
        }
        Ok(())
    }

    fn jump(&mut self, statement: &Statement, name: &str) -> Result<(), Trouble> {
        self.work.pay(1)?;
        let found = self.labels.get(name).and_then(|of_name| of_name.last()).copied();
        let found = found.and_then(|(depth, label)| Some((self.around.get(depth)?, label)));
        let Some((around, label)) = found else {
            let text = format!("no visible label '{name}' for goto at line {}", statement.line);
            return wrong(statement.line, text);
        };
        let &Around { id: block, at: from, kind, ending, .. } = around;
        let is_last = label >= ending;
        let continues = kind == Body::Loop && is_last && from < label;
        self.jumps.insert(statement.start, Jump { block, from, label, continues });
        if from > label {
            self.back.entry(block).or_default().insert(label);
            return Ok(());
        }
        if let Some(local) = around.declared(from, label)
            && (!is_last || kind == Body::Repeat)
        {
            let text = format!(
                "<goto {name}> at line {} jumps into the scope of local '{local}'",
                statement.line
            );
            return wrong(statement.line, text);
        }
        if is_last && kind == Body::Plain {
            self.endings.insert(block, ending);
        }
        if !continues {
            self.forward.entry(block).or_default().push((from, label));
        }
        Ok(())
    }
}

/// What `break` or `continue` would act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Frame {
    /// A loop of the script's.
    Source {
        body: usize,
    },
    Wrap {
        block: usize,
        label: usize,
    },
    Loop {
        block: usize,
        label: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Break,
    Continue,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Break => "break",
            Self::Continue => "continue",
        }
    }
}

/// A jump that leaves the frame on its way to the frame `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    target: usize,
    action: Action,
    flag: usize,
}

struct Open {
    frame: Frame,
    /// The change that declares the flags of jumps which end here.
    declares: usize,
    flags: Vec<(Action, usize)>,
    leaving: BTreeSet<Leaving>,
}

struct Writer<'a, 'w> {
    text: &'a [u8],
    work: &'w mut Work,
    edits: Vec<Edit>,
    /// Bytes of all `edits`.
    written: usize,
    plans: BTreeMap<usize, Plan>,
    jumps: BTreeMap<usize, Jump>,
    frames: Vec<Open>,
    /// Where each frame stands in `frames`.
    places: HashMap<Frame, usize>,
    /// The places of the script's loops.
    sources: Vec<usize>,
    flags: usize,
    /// Flags of the jumps that enter loops on their way to a label: by block and label.
    entries: BTreeMap<(usize, usize), usize>,
}

fn flag_name(flag: usize) -> String {
    format!("__goto{flag}")
}

impl<'a, 'w> Writer<'a, 'w> {
    fn new(text: &'a [u8], work: &'w mut Work) -> Self {
        Self {
            text,
            work,
            edits: Vec::new(),
            written: 0,
            plans: BTreeMap::new(),
            jumps: BTreeMap::new(),
            frames: Vec::new(),
            places: HashMap::new(),
            sources: Vec::new(),
            flags: 0,
            entries: BTreeMap::new(),
        }
    }

    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.write(Edit::insert(at, text));
    }

    fn write(&mut self, edit: Edit) {
        self.written += edit.text.len();
        self.edits.push(edit);
    }

    /// Puts `new` in the place of a statement, and leaves its line ends.
    fn replace(&mut self, start: usize, end: usize, new: &str) {
        let old = self.text.get(start..end).unwrap_or_default();
        let lines = memchr::memchr_iter(b'\n', old).count();
        let text = format!(" {new} {}", "\n".repeat(lines));
        self.write(Edit { at: start, removed: end - start, text });
    }

    fn new_flag(&mut self) -> usize {
        self.flags += 1;
        self.flags
    }

    fn open(&mut self, frame: Frame, at: usize, text: &str) {
        let declares = self.edits.len();
        self.insert(at, "");
        self.insert(at, text);
        self.places.insert(frame, self.frames.len());
        if matches!(frame, Frame::Source { .. }) {
            self.sources.push(self.frames.len());
        }
        self.frames.push(Open { frame, declares, flags: Vec::new(), leaving: BTreeSet::new() });
    }

    /// Ends the innermost frame with `text`, and passes jumps on that go further.
    fn close(&mut self, at: usize, text: &str) -> Result<(), Trouble> {
        self.insert(at, text);
        let Some(closed) = self.frames.pop() else { return Ok(()) };
        self.places.remove(&closed.frame);
        self.sources.pop_if(|place| *place == self.frames.len());
        for leaving in closed.leaving {
            self.work.pay(1)?;
            let flag = flag_name(leaving.flag);
            if leaving.target + 1 == self.frames.len() {
                let word = leaving.action.word();
                self.insert(at, format!(" if {flag} then {flag} = false {word} end "));
            } else {
                self.insert(at, format!(" if {flag} then break end "));
                if let Some(outer) = self.frames.last_mut() {
                    outer.leaving.insert(leaving);
                }
            }
        }
        if !closed.flags.is_empty() {
            self.insert(at, " end ");
            let names: Vec<String> =
                closed.flags.iter().map(|(_, flag)| flag_name(*flag)).collect();
            if let Some(edit) = self.edits.get_mut(closed.declares) {
                edit.text = format!(" do local {} ", names.join(", "));
                self.written += edit.text.len();
            }
        }
        self.check()
    }

    /// Whether there may be more.
    fn check(&self) -> Result<(), Trouble> {
        self.work.check_bytes(self.written)
    }

    /// The words that lead to `target`.
    fn leave(&mut self, target: usize, action: Action) -> String {
        if target + 1 == self.frames.len() {
            return action.word().to_owned();
        }
        let fresh = self.flags + 1;
        let Some(aim) = self.frames.get_mut(target) else { return String::new() };
        let known = aim.flags.iter().find(|(of, _)| *of == action).map(|(_, flag)| *flag);
        let flag = known.unwrap_or(fresh);
        if known.is_none() {
            aim.flags.push((action, flag));
            self.flags = fresh;
        }
        let leaving = Leaving { target, action, flag };
        if let Some(inner) = self.frames.last_mut() {
            inner.leaving.insert(leaving);
        }
        format!("{} = true break", flag_name(flag))
    }

    fn find(&self, frame: Frame) -> Option<usize> {
        self.places.get(&frame).copied()
    }

    /// The words of a jump forward from statement `from` of a block to one of its labels.
    fn forward(&mut self, block: usize, from: usize, label: usize) -> String {
        let entered = self.plans.get(&block).and_then(|plan| plan.between(from, label));
        let next = entered.unwrap_or(label);
        let Some(target) = self.find(Frame::Wrap { block, label: next }) else {
            return String::new();
        };
        let way = self.leave(target, Action::Break);
        match (entered, self.entries.get(&(block, label)).copied()) {
            (Some(_), Some(flag)) => format!("{} = true {way}", flag_name(flag)),
            _ => way,
        }
    }

    fn jump(&mut self, jump: Jump) -> String {
        let Jump { block, from, label, continues } = jump;
        if from < label && !continues {
            return self.forward(block, from, label);
        }
        let wanted =
            if continues { Frame::Source { body: block } } else { Frame::Loop { block, label } };
        match self.find(wanted) {
            Some(target) => self.leave(target, Action::Continue),
            None => String::new(),
        }
    }

    /// Writes a block; `until` is its loop's when that must be asked inside of the block's loops.
    fn block(&mut self, block: &Block, until: Option<(&Repeat, usize)>) -> Result<(), Trouble> {
        let plan = self.plans.remove(&block.id).unwrap_or_default();
        let first = block.statements.first().map_or(block.end, |statement| statement.start);
        let entered: BTreeSet<usize> = plan.entries.values().flatten().copied().collect();
        for label in entered {
            let flag = self.new_flag();
            self.entries.insert((block.id, label), flag);
            self.insert(first, format!(" local {} ", flag_name(flag)));
        }
        let depth = self.frames.len();
        let has_loops = !plan.loops.is_empty();
        self.plans.insert(block.id, plan);
        for (at, statement) in block.statements.iter().enumerate() {
            self.work.pay(1)?;
            self.before(block.id, at, statement.start)?;
            let is_last = at + 1 == block.statements.len() && !has_loops;
            self.statement(statement, is_last)?;
        }
        let mut end = block.end;
        if let Some((repeat, asked)) = until {
            let out = self.find(Frame::Source { body: block.id });
            let way = out.map(|target| self.leave(target, Action::Break)).unwrap_or_default();
            self.replace(repeat.until, repeat.until + "until".len(), "if");
            self.insert(asked, format!(" then {way} end "));
            end = asked;
        }
        while self.frames.len() > depth {
            self.close(end, " break end ")?;
        }
        Ok(())
    }

    /// What ends and begins before statement `at` of a block.
    fn before(&mut self, block: usize, at: usize, start: usize) -> Result<(), Trouble> {
        let Some(plan) = self.plans.get_mut(&block) else { return Ok(()) };
        let ends = plan.wraps.contains_key(&at);
        let begins_loop = plan.loops.contains(&at);
        let begin = plan.begins.remove(&at).unwrap_or_default();
        let entries = plan.entries.remove(&at).unwrap_or_default();
        if ends {
            // Only at the end of a block: loops reach as far.
            let is_loop =
                |open: &Open| matches!(open.frame, Frame::Loop { block: of, .. } if of == block);
            while self.frames.last().is_some_and(is_loop) {
                self.close(start, " break end ")?;
            }
            self.close(start, " until true ")?;
        }
        if begins_loop {
            self.open(Frame::Loop { block, label: at }, start, " while true do ");
        }
        for label in begin {
            self.open(Frame::Wrap { block, label }, start, " repeat ");
        }
        for label in entries {
            self.work.pay(1)?;
            let Some(flag) = self.entries.get(&(block, label)).copied() else { continue };
            let way = self.forward(block, at, label);
            let name = flag_name(flag);
            self.insert(start, format!(" if {name} then {name} = false {way} end "));
            self.check()?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement, is_last: bool) -> Result<(), Trouble> {
        let (start, end) = (statement.start, statement.end);
        match &statement.kind {
            Statements::Goto(_) => {
                let words = self.jumps.get(&start).copied().map(|jump| self.jump(jump));
                self.replace(start, end, &format!("do {} end", words.unwrap_or_default()));
            }
            Statements::Label(_) => self.replace(start, end, ""),
            Statements::Break => {
                let Some(target) = self.sources.last().copied() else {
                    return wrong(statement.line, "break outside a loop".to_owned());
                };
                let words = self.leave(target, Action::Break);
                if words != "break" || !is_last {
                    self.replace(start, end, &format!("do {words} end"));
                }
            }
            Statements::Return if !is_last => {
                self.insert(start, " do ");
                self.insert(end, " end ");
            }
            Statements::Loop(body) => {
                self.open(Frame::Source { body: body.id }, start, "");
                self.block(body, None)?;
                self.close(end, "")?;
            }
            Statements::Repeat(repeat) => self.repeat(repeat, start, end)?,
            Statements::Blocks(blocks) => {
                for block in blocks {
                    self.block(block, None)?;
                }
            }
            Statements::Local(_) | Statements::Return | Statements::Other => {}
        }
        Ok(())
    }

    fn repeat(&mut self, repeat: &Repeat, start: usize, end: usize) -> Result<(), Trouble> {
        let body = &repeat.body;
        let has_loops = self.plans.get(&body.id).is_some_and(|plan| !plan.loops.is_empty());
        self.open(Frame::Source { body: body.id }, start, "");
        if has_loops {
            self.replace(repeat.repeat, repeat.repeat + "repeat".len(), "while true do");
            self.block(body, Some((repeat, end)))?;
            self.close(end, " end ")?;
        } else {
            self.block(body, None)?;
            self.close(end, "")?;
        }
        Ok(())
    }
}
