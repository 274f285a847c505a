use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use mlua::{Lua, Value};

use super::translate;

/// What a text, run as Luau, returns as text; `!` and the message for an error.
fn run(text: &str) -> String {
    let translated = match translate(text.as_bytes()) {
        Ok(translated) => translated.text,
        Err(error) => return format!("!{}: {}", error.line, error.message),
    };
    let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines(&translated), text.replace("\r\n", "\n").matches('\n').count(), "{text}");
    let shown = String::from_utf8_lossy(&translated).into_owned();
    let lua = Lua::new();
    match lua.load(translated).set_name("=t").eval::<Value>() {
        Ok(value) => value.to_string().unwrap(),
        Err(error) => format!("!{error}\n{shown}"),
    }
}

#[test]
fn jumps_go_where_they_lead() {
    for (text, wanted) in [
        ("local s = 0 for i = 1, 5 do if i == 3 then goto continue end s = s + i ::continue:: end return s", "12"),
        ("local s = 0 for i = 1, 5 do for j = 1, 5 do if j > i then goto next end s = s + 1 end ::next:: end return s", "15"),
        ("local i = 0 ::top:: i = i + 1 if i < 10 then goto top end return i", "10"),
        ("local i = 0 ::top:: i = i + 1 local j = i * 2 if j < 10 then goto top end return j", "10"),
        ("for i = 1, 3 do for j = 1, 3 do if i * j == 4 then goto done end end end do return 'no' end ::done:: return 'yes'", "yes"),
        ("local i = 0 repeat i = i + 1 if i == 2 then goto continue end local x = i ::continue:: until i > 4 return i", "!1: <goto continue> at line 1 jumps into the scope of local 'x'"),
        ("local i = 0 repeat i = i + 1 if i == 2 then goto continue end i = i + 1 ::continue:: until i > 4 return i", "6"),
        ("local i = 0 repeat ::again:: i = i + 1 local x = i if x == 2 then goto again end until x > 4 return i", "5"),
        ("local s = '' for i = 1, 3 do ::again:: s = s .. i if #s == 2 then goto again end if i == 3 then break end end return s", "1223"),
        ("local function f(n) ::top:: if n == 0 then return 'end' end n = n - 1 goto top end return f(5)", "end"),
        ("goto a ::b:: do return 'b' end ::a:: goto b", "b"),
        ("do goto l3; ::l3:: end return 1", "1"),
        ("local t = {} for i = 1, 3 do local k = i t[i] = function() return k end if k == 2 then goto continue end ::continue:: end return t[1]() + t[2]() + t[3]()", "6"),
        ("do local a = {} local i = 1 ::l1:: do local x = i if i > 3 then goto l2 end a[i] = function() return x end i = i + 1 goto l1 end ::l2:: return a[1]() + a[2]() + a[3]() end", "6"),
        ("goto missing", "!1: no visible label 'missing' for goto at line 1"),
        ("goto l1; do ::l1:: end", "!1: no visible label 'l1' for goto at line 1"),
        ("::l1:: ::l1::", "!1: label 'l1' already defined"),
        ("goto l1; local aa ::l1:: ::l2:: print(3)", "!1: <goto l1> at line 1 jumps into the scope of local 'aa'"),
        ("local n = 0 while true do n = n + 1 if n > 3 then break end do goto continue end ::continue:: end return n", "4"),
        ("while true do do break end end return 'out'", "out"),
        ("while true do if true then break ; local x end end return 1", "1"),
        ("break", "!syntax error: t:1: break statement must be inside a loop"),
        ("::a:: break", "!1: break outside a loop"),
        ("local x = 0\ngoto\nskip\nx = 1\n::\nskip\n::\nreturn x", "0"),
        // Into the middle of what is jumped back to, and overlapping ways.
        ("local s, n = '', 0 goto mid ::top:: s = s .. 't' ::mid:: s = s .. 'm' n = n + 1 if n < 3 then goto top end return s", "mtmtm"),
        ("local s, n = '', 0 if n == 0 then goto b end ::a:: s = s .. 'a' if n > 2 then goto c end ::b:: s = s .. 'b' n = n + 1 goto a ::c:: return s", "bababa"),
        ("local s = '' do goto one end s = 'x' ::two:: s = s .. '2' goto three ::one:: s = s .. '1' goto two ::three:: return s", "12"),
    ] {
        let answer = run(text);
        assert!(answer.starts_with(wanted) && (wanted.starts_with('!') || answer == wanted), "{text}\n{answer}");
    }
}

#[test]
fn what_luau_reads_differently_reads_as_in_lua() {
    for (text, wanted) in [
        (";;; local a = 1;; ; return a;", "1"),
        ("local continue = 1 continue = continue + 1 local type = 2 type = 3 return continue + type", "5"),
        ("local export, const, typeof = 1, 2, 3 export = 2 const = 3 return export + const + typeof", "8"),
        ("local f = tostring\nlocal a = f\n(5)\nreturn a", "5"),
        ("local f = tostring -- why\n  -- not\n(7) return 1", "1"),
        ("local t = {f = tostring} return t.f\n  (7)", "7"),
        ("local a = tostring(1)\n(tostring)(2)", "!2: ambiguous syntax (function call x new statement)"),
        ("local a = tostring(1);\n(tostring)(2) return a", "1"),
        ("return '\\x41\\z \\u{41}\\300\\65\\q'", "x41z u{41},Aq"),
        ("return 'a\\\nb'", "a\nb"),
        ("return #[[\r\n1\r\n2]]", "3"),
        ("return [==[a]]]=]b]==] .. [[c]]", "a]]]=]bc"),
        ("--[==[ x ]] \n ]==] return 1 --[[ y", "!2: unfinished long comment"),
        ("--[==[ x ]] \n ]==] return 1 --[ y", "1"),
        ("#!/usr/bin/lua\nreturn 3", "3"),
        ("\u{feff}return 4", "4"),
        ("return 0xFF+1e2+.5+3.+0x1", "359.5"),
        ("return 5or 6", "5"),
        ("local function f(...) return arg.n .. arg[1] end return f('a', nil)", "2a"),
        ("local function f(...) local arg = {...} return #arg end return f(1, 2)", "2"),
        ("local function f(a, ...) return function() return arg[a] end end return f(2, 7, 8)()", "8"),
        ("return (function(...) return select('#', ...) end)(1, 2, 3)", "3"),
        ("local a <const> = 1", "!1: "),
        ("x += 1", "!1: '=' expected near '+'"),
        ("return ...", ""),
        ("function f() return ... end", "!1: cannot use '...' outside a vararg function"),
        ("x = = 1", "!1: expression expected near '='"),
        ("\n\nif x then", "!3: 'end' expected near end of file"),
        ("x = 'abc", "!1: unfinished string"),
        ("x = `a`", "!1: unexpected symbol near '`'"),
        ("return return", "!1: expression expected near 'return'"),
        ("return 1 x = 2", "!1: 'end' expected near 'x'"),
        ("local t = {1, 2; 3, a = 4, ['b'] = 5, f = function() end,} return #t + t.a + t.b", "12"),
        ("local s = 'x' return s:rep(3):upper() .. ('y'):rep(2) .. #'abc'", "XXXyy3"),
        ("local a = {} function a.b() return 1 end function a:c(x) return self == a and x end return a:c(a.b()) .. a.b'' .. a.b{}", "111"),
        ("return -2^2 .. not nil and 1 or 2", "1"),
    ] {
        let answer = run(text);
        let fits = if wanted.ends_with(": ") { answer.starts_with(wanted) } else { answer == wanted || (wanted.is_empty() && answer == "nil") };
        assert!(fits, "{text}\n{answer}");
    }
}

#[test]
fn nesting_is_limited() {
    for text in ["(", "{", "f(", "function() return ", "do ", "while x do ", "if x then ", "-", "t["] {
        let _ = run(&format!("return {}", text.repeat(100_000)));
        let _ = run(&text.repeat(100_000));
    }
    assert_eq!(run(&format!("return {}1{}", "(".repeat(60), ")".repeat(60))), "1");
    assert_eq!(run(&format!("return {}1", "1 .. ".repeat(150))).len(), 151);
}

// Programs made by chance, run by a small interpreter that knows `goto` and run as Luau.

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
                0 | 1 if !visible.is_empty() => {
                    let at = self.below(visible.len() as u64) as usize;
                    Node::Goto(visible[at])
                }
                2 | 3 | 4 if inner => {
                    let then = self.block(depth - 1, in_loop, &visible, &locals);
                    let other = (self.below(3) == 0)
                        .then(|| self.block(depth - 1, in_loop, &visible, &locals));
                    Node::If(then, other)
                }
                5 if inner => Node::While(self.block(depth - 1, true, &visible, &locals)),
                6 if inner => Node::Repeat(self.block(depth - 1, true, &visible, &locals)),
                7 if inner => Node::For(self.name(), self.block(depth - 1, true, &visible, &locals)),
                8 if inner => Node::Do(self.block(depth - 1, in_loop, &visible, &locals)),
                9 => {
                    let name = self.name();
                    locals.push(name);
                    Node::Local(name)
                }
                10 if !locals.is_empty() => {
                    Node::Use(locals[self.below(locals.len() as u64) as usize])
                }
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
        let state = self.state.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        self.state.store(state, Relaxed);
        self.step().then_some((state >> 40) % 3 != 0)
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
    let Ok(translated) = translate(text.as_bytes()) else { return false };
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
    let number = lua.create_function(move |_, ()| {
        if its.step() { Ok(its.count.load(Relaxed)) } else { Err(stop()) }
    });
    lua.globals().set("t", trace.unwrap()).unwrap();
    lua.globals().set("c", chance.unwrap()).unwrap();
    lua.globals().set("n", number.unwrap()).unwrap();
    let shown = String::from_utf8_lossy(&translated.text).into_owned();
    if let Err(error) = lua.load(translated.text).exec() {
        assert!(error.to_string().contains("enough"), "{seed}: {error}\n{text}\n{shown}");
    }
    assert_eq!(*world.trace.lock().unwrap(), *wanted.trace.lock().unwrap(), "{seed}\n{text}\n{shown}");
    true
}

#[test]
fn random_programs_do_as_they_say() {
    const PROGRAMS: u64 = 1_500;
    let mut valid = 0;
    for seed in 0..PROGRAMS {
        let mut maker = Maker { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), names: 0 };
        let nodes = maker.block(4, false, &[], &[]);
        valid += u64::from(compare(&nodes, seed));
    }
    assert!(valid > PROGRAMS / 3, "{valid} of {PROGRAMS} are programs");
}
