//! Programs made by chance, run by a small interpreter that knows `goto`, and run as Luau.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use mlua::Lua;

use super::{Work, translate};

enum Node {
    Trace(u32),
    Local(u32),
    Use(u32),
    If(Vec<Node>, Option<Vec<Node>>),
    While(Vec<Node>),
    Repeat(Vec<Node>),
    For(u32, Vec<Node>),
    Do(Vec<Node>),
    Label(u32),
    Goto(u32),
    Break,
}

struct Maker {
    state: u64,
    names: u32,
}

impl Maker {
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % limit
    }

    fn one_of(&mut self, names: &[u32]) -> u32 {
        let at = usize::try_from(self.below(names.len() as u64)).unwrap();
        names[at]
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    /// A block in which the labels and locals of the blocks around are visible.
    fn block(&mut self, depth: u32, in_loop: bool, labels: &[u32], locals: &[u32]) -> Vec<Node> {
        let mut visible = labels.to_vec();
        let mut locals = locals.to_vec();
        let mine: Vec<u32> = (0..self.below(3)).map(|_| self.name()).collect();
        visible.extend(&mine);
        let count = 2 + self.below(5);
        let mut nodes = Vec::new();
        let mut left = mine;
        for _ in 0..count {
            if self.below(3) == 0 && !left.is_empty() {
                nodes.push(Node::Label(left.remove(0)));
            }
            let inner = depth > 0;
            let kind = self.below(12);
            if kind < 2 && !visible.is_empty() {
                nodes.push(Node::Trace(self.name()));
            }
            nodes.push(match kind {
                0 | 1 if !visible.is_empty() => Node::Goto(self.one_of(&visible)),
                2..=4 if inner => {
                    let then = self.block(depth - 1, in_loop, &visible, &locals);
                    let other = (self.below(3) == 0)
                        .then(|| self.block(depth - 1, in_loop, &visible, &locals));
                    Node::If(then, other)
                }
                5 if inner => Node::While(self.block(depth - 1, true, &visible, &locals)),
                6 if inner => Node::Repeat(self.block(depth - 1, true, &visible, &locals)),
                7 if inner => {
                    Node::For(self.name(), self.block(depth - 1, true, &visible, &locals))
                }
                8 if inner => Node::Do(self.block(depth - 1, in_loop, &visible, &locals)),
                9 => {
                    let name = self.name();
                    locals.push(name);
                    Node::Local(name)
                }
                10 if !locals.is_empty() => Node::Use(self.one_of(&locals)),
                _ => Node::Trace(self.name()),
            });
        }
        nodes.extend(left.into_iter().map(Node::Label));
        if in_loop && self.below(4) == 0 {
            nodes.push(Node::Break);
        }
        nodes
    }
}

fn write(nodes: &[Node], out: &mut String) {
    for node in nodes {
        let blocks: Vec<(&str, &[Node])> = match node {
            Node::Trace(name) => {
                let _ = writeln!(out, "t({name})");
                continue;
            }
            Node::Local(name) => {
                let _ = writeln!(out, "local v{name} = n()");
                continue;
            }
            Node::Use(name) => {
                let _ = writeln!(out, "t(v{name})");
                continue;
            }
            Node::Label(name) => {
                let _ = write!(out, "::l{name}:: ");
                continue;
            }
            Node::Goto(name) => {
                let _ = write!(out, "goto l{name};");
                continue;
            }
            Node::Break => {
                let _ = write!(out, "break ");
                continue;
            }
            Node::If(then, None) => vec![("if c() then ", then)],
            Node::If(then, Some(other)) => vec![("if c() then ", then), ("else ", other)],
            Node::While(body) => vec![("while c() do ", body)],
            Node::For(name, body) => {
                let _ = write!(out, "for i{name} = 1, 3 do ");
                vec![("", body)]
            }
            Node::Do(body) => vec![("do ", body)],
            Node::Repeat(body) => {
                let _ = write!(out, "repeat ");
                write(body, out);
                let _ = writeln!(out, "until c()");
                continue;
            }
        };
        for (head, body) in blocks {
            out.push_str(head);
            write(body, out);
        }
        out.push_str("end\n");
    }
}

enum Flow {
    On,
    Break,
    Goto(u32),
    Stop,
}

#[derive(Default)]
struct World {
    trace: Mutex<Vec<u32>>,
    state: AtomicU64,
    count: AtomicU32,
}

impl World {
    const STEPS_MAX: u32 = 300;

    fn step(&self) -> bool {
        self.count.fetch_add(1, Relaxed) < Self::STEPS_MAX
    }

    fn chance(&self) -> Option<bool> {
        let state =
            self.state.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        self.state.store(state, Relaxed);
        self.step().then_some(!(state >> 40).is_multiple_of(3))
    }

    fn note(&self, number: u32) -> bool {
        self.trace.lock().unwrap().push(number);
        self.step()
    }
}

struct Reference<'a> {
    world: &'a World,
    locals: Vec<(u32, u32)>,
}

impl Reference<'_> {
    fn block(&mut self, nodes: &[Node]) -> Flow {
        let scope = self.locals.len();
        let mut at = 0;
        let flow = loop {
            let Some(node) = nodes.get(at) else { break Flow::On };
            at += 1;
            match self.node(node) {
                Flow::On => {}
                Flow::Goto(name) => {
                    let is_it = |node: &Node| matches!(node, Node::Label(label) if *label == name);
                    match nodes.iter().position(is_it) {
                        Some(label) => at = label,
                        None => break Flow::Goto(name),
                    }
                }
                other => break other,
            }
        };
        self.locals.truncate(scope);
        flow
    }

    fn node(&mut self, node: &Node) -> Flow {
        let on = |ok: bool| if ok { Flow::On } else { Flow::Stop };
        match node {
            Node::Trace(name) => on(self.world.note(*name)),
            Node::Local(name) => {
                let ok = self.world.step();
                self.locals.push((*name, self.world.count.load(Relaxed)));
                on(ok)
            }
            Node::Use(name) => {
                let known = self.locals.iter().rev().find(|(local, _)| local == name);
                on(self.world.note(known.unwrap().1))
            }
            Node::Label(_) => Flow::On,
            Node::Goto(name) => Flow::Goto(*name),
            Node::Break => Flow::Break,
            Node::If(then, other) => match self.world.chance() {
                None => Flow::Stop,
                Some(true) => self.block(then),
                Some(false) => other.as_ref().map_or(Flow::On, |other| self.block(other)),
            },
            Node::Do(body) => self.block(body),
            Node::While(body) => loop {
                match self.world.chance() {
                    None => return Flow::Stop,
                    Some(false) => return Flow::On,
                    Some(true) => {}
                }
                match self.block(body) {
                    Flow::On => {}
                    Flow::Break => return Flow::On,
                    other => return other,
                }
            },
            Node::Repeat(body) => loop {
                match self.block(body) {
                    Flow::On => {}
                    Flow::Break => return Flow::On,
                    other => return other,
                }
                match self.world.chance() {
                    None => return Flow::Stop,
                    Some(true) => return Flow::On,
                    Some(false) => {}
                }
            },
            Node::For(_, body) => {
                for _ in 0..3 {
                    match self.block(body) {
                        Flow::On => {}
                        Flow::Break => return Flow::On,
                        other => return other,
                    }
                }
                Flow::On
            }
        }
    }
}

/// Runs `nodes` both ways; whether the program was valid.
fn compare(nodes: &[Node], seed: u64) -> bool {
    let mut text = String::new();
    write(nodes, &mut text);
    let Ok(translated) = translate(text.as_bytes(), false, &mut Work::unbounded()) else {
        return false;
    };
    let wanted = World::default();
    wanted.state.store(seed, Relaxed);
    let _ = Reference { world: &wanted, locals: Vec::new() }.block(nodes);

    let world = Arc::new(World::default());
    world.state.store(seed, Relaxed);
    let lua = Lua::new();
    let stop = || mlua::Error::runtime("enough");
    let its = Arc::clone(&world);
    let trace = lua.create_function(move |_, n| if its.note(n) { Ok(()) } else { Err(stop()) });
    let its = Arc::clone(&world);
    let chance = lua.create_function(move |_, ()| its.chance().ok_or_else(stop));
    let its = Arc::clone(&world);
    let number =
        lua.create_function(
            move |_, ()| {
                if its.step() { Ok(its.count.load(Relaxed)) } else { Err(stop()) }
            },
        );
    lua.globals().set("t", trace.unwrap()).unwrap();
    lua.globals().set("c", chance.unwrap()).unwrap();
    lua.globals().set("n", number.unwrap()).unwrap();
    let shown = String::from_utf8_lossy(&translated.text).into_owned();
    if let Err(error) = lua.load(translated.text).exec() {
        assert!(error.to_string().contains("enough"), "{seed}: {error}\n{text}\n{shown}");
    }
    assert_eq!(
        *world.trace.lock().unwrap(),
        *wanted.trace.lock().unwrap(),
        "{seed}\n{text}\n{shown}"
    );
    true
}

#[test]
fn random_programs_do_as_they_say() {
    const PROGRAMS: u64 = 300;
    let mut valid = 0;
    for seed in 0..PROGRAMS {
        let mut maker = Maker { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), names: 0 };
        let nodes = maker.block(4, false, &[], &[]);
        valid += u64::from(compare(&nodes, seed));
    }
    assert!(valid > PROGRAMS / 3, "{valid} of {PROGRAMS} are programs");
}
