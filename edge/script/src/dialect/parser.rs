//! The statements of a Lua text: blocks, jumps and where they begin and end. Expressions are
//! parsed as well, but only their functions and calls are kept: nothing here computes.
//!
//! Source: nakama 3.40, `internal/gopher-lua/parse/parser.go.y`.

use super::lexer::{Kind, Token};
use super::names::{CallNames, Callee, PATH_MAX};
use super::reads::{Functions, Parameters};
use super::scope::Scope;
use super::{DEPTH_MAX, Edit, SyntaxError, Trouble, Work};

/// Locals in scope, those of outer functions included; Luau allows 200 in one function.
const LOCALS_MAX: usize = 2_000;

type Parsed<T> = Result<T, Trouble>;

/// Statements with one scope.
#[derive(Debug)]
pub(super) struct Block {
    /// Unique in the text.
    pub(super) id: usize,
    pub(super) statements: Vec<Statement>,
    /// Where its last token ends.
    pub(super) end: usize,
}

/// One statement: bytes `start..end` of the text, a semicolon after it not included.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) kind: Statements,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: u32,
}

/// What jumps and scopes need to know of a statement.
#[derive(Debug)]
pub(super) enum Statements {
    /// Declares this local, perhaps among others.
    Local(String),
    Label(String),
    Goto(String),
    Break,
    Return,
    /// `while` and `for`: loops whose body ends where the next round begins.
    Loop(Block),
    Repeat(Repeat),
    /// `do` and `if`: the blocks in it.
    Blocks(Vec<Block>),
    Other,
}

/// `repeat … until …` with the places of its words.
#[derive(Debug)]
pub(super) struct Repeat {
    pub(super) body: Block,
    pub(super) repeat: usize,
    pub(super) until: usize,
}

/// What is known of a text.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The text's block and those of all functions in it: no jump leaves one.
    pub(super) roots: Vec<Block>,
    pub(super) edits: Vec<Edit>,
    pub(super) calls: CallNames,
    pub(super) functions: Functions,
}

/// A function whose body is being read.
#[derive(Default)]
struct Function {
    is_variadic: bool,
    uses_dots: bool,
    uses_arg: bool,
}

struct Parser<'a, 'w> {
    text: &'a [u8],
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    blocks: usize,
    /// Whether tables are to remember the order of their keys.
    ordered: bool,
    functions: Vec<Function>,
    locals: Scope<'a>,
    work: &'w mut Work,
    out: Outcome,
}

/// Parses a whole text.
pub(super) fn parse(
    text: &[u8],
    tokens: &[Token],
    ordered: bool,
    work: &mut Work,
) -> Parsed<Outcome> {
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        depth: 0,
        blocks: 0,
        ordered,
        functions: vec![Function { is_variadic: true, ..Function::default() }],
        locals: Scope::default(),
        work,
        out: Outcome::default(),
    };
    if ordered && let Some(first) = tokens.first() {
        let text = "local __ordered = (\"\").__ordered ";
        parser.out.edits.push(Edit::insert(first.start, text));
    }
    let block = parser.block()?;
    if parser.token().kind != Kind::End {
        return parser.unexpected("end of file");
    }
    parser.out.roots.push(block);
    Ok(parser.out)
}

/// What a prefix expression turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Name,
    Place,
    Call,
    Value,
}

const UNARY: [&[u8]; 3] = [b"-", b"not", b"#"];
const BINARY: [&[u8]; 15] = [
    b"+", b"-", b"*", b"/", b"%", b"^", b"..", b"<", b"<=", b">", b">=", b"==", b"~=", b"and",
    b"or",
];

/// A prefix expression up to where its callee is named.
#[derive(Clone, Copy)]
struct Named {
    /// The number of its first token.
    first: usize,
    /// Whether all of it is names with points between them.
    is_path: bool,
    is_global: bool,
}

impl<'a> Parser<'a, '_> {
    fn token(&self) -> Token {
        let end = Token { kind: Kind::End, start: self.text.len(), end: self.text.len(), line: 0 };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    /// The token before the next one.
    fn last(&self) -> Token {
        let none = Token { kind: Kind::End, start: 0, end: 0, line: 1 };
        self.next.checked_sub(1).and_then(|at| self.tokens.get(at)).copied().unwrap_or(none)
    }

    fn word(&self, token: Token) -> &'a [u8] {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    fn is(&self, word: &str) -> bool {
        let token = self.token();
        matches!(token.kind, Kind::Keyword | Kind::Symbol) && self.word(token) == word.as_bytes()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.next += usize::from(found);
        found
    }

    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let token = self.token();
        let near = match token.kind {
            Kind::End => "end of file".to_owned(),
            _ => format!("'{}'", String::from_utf8_lossy(self.word(token))),
        };
        let message = format!("{wanted} expected near {near}");
        Err(SyntaxError { line: token.line, message }.into())
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.take(word) { Ok(()) } else { self.unexpected(&format!("'{word}'")) }
    }

    fn name(&mut self) -> Parsed<&'a [u8]> {
        let token = self.token();
        if token.kind != Kind::Name {
            return self.unexpected("name");
        }
        self.next += 1;
        self.work.pay(1)?;
        Ok(self.word(token))
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        self.work.pay(1)?;
        if self.depth > DEPTH_MAX {
            let line = self.token().line;
            let message = format!("nested deeper than {DEPTH_MAX} levels");
            return Err(SyntaxError { line, message }.into());
        }
        Ok(())
    }

    // Statements.

    fn block(&mut self) -> Parsed<Block> {
        let scope = self.locals.len();
        let block = self.open_block()?;
        self.locals.truncate(scope);
        Ok(block)
    }

    /// A block whose locals stay in scope, as `until` needs them.
    fn open_block(&mut self) -> Parsed<Block> {
        self.deeper()?;
        if self.locals.len() > LOCALS_MAX {
            let message = format!("more than {LOCALS_MAX} local variables in scope");
            return Err(SyntaxError { line: self.token().line, message }.into());
        }
        self.blocks += 1;
        let id = self.blocks;
        let mut statements: Vec<Statement> = Vec::new();
        loop {
            self.work.pay(1)?;
            let token = self.token();
            if self.take(";") {
                // Luau knows no empty statements; only the semicolon after a statement may stay.
                let before = self.next.checked_sub(2).and_then(|at| self.tokens.get(at));
                let follows = statements.last().is_some_and(|statement| {
                    !matches!(statement.kind, Statements::Label(_))
                        && before.is_some_and(|before| before.end == statement.end)
                });
                if !follows {
                    self.out.edits.push(Edit { at: token.start, removed: 1, text: " ".into() });
                }
                continue;
            }
            let ends = ["end", "else", "elseif", "until"].iter().any(|word| self.is(word));
            if ends || token.kind == Kind::End {
                break;
            }
            if matches!(statements.last(), Some(Statement { kind: Statements::Return, .. })) {
                return self.unexpected("'end'");
            }
            let kind = self.statement()?;
            let end = self.last().end;
            statements.push(Statement { kind, start: token.start, end, line: token.line });
        }
        self.depth -= 1;
        Ok(Block { id, statements, end: self.last().end })
    }

    fn statement(&mut self) -> Parsed<Statements> {
        let token = self.token();
        if token.kind == Kind::Keyword {
            self.next += 1;
            return match self.word(token) {
                b"if" => self.if_blocks(),
                b"while" => {
                    self.expression()?;
                    self.expect("do")?;
                    self.loop_body(&[])
                }
                b"do" => {
                    let block = self.block()?;
                    self.expect("end")?;
                    Ok(Statements::Blocks(vec![block]))
                }
                b"for" => self.for_loop(),
                b"repeat" => self.repeat(token),
                b"function" => self.function_statement(token),
                b"local" => self.local(),
                b"return" => self.return_statement(),
                b"break" => Ok(Statements::Break),
                b"goto" => Ok(Statements::Goto(text(self.name()?))),
                _ => {
                    self.next -= 1;
                    self.unexpected("statement")
                }
            };
        }
        if self.take("::") {
            let label = text(self.name()?);
            self.expect("::")?;
            return Ok(Statements::Label(label));
        }
        self.assignment_or_call()
    }

    fn if_blocks(&mut self) -> Parsed<Statements> {
        let mut blocks = Vec::new();
        loop {
            self.expression()?;
            self.expect("then")?;
            blocks.push(self.block()?);
            if !self.take("elseif") {
                break;
            }
        }
        if self.take("else") {
            blocks.push(self.block()?);
        }
        self.expect("end")?;
        Ok(Statements::Blocks(blocks))
    }

    fn loop_body(&mut self, names: &[&'a [u8]]) -> Parsed<Statements> {
        let scope = self.locals.len();
        for name in names {
            self.locals.add(name);
        }
        let body = self.block()?;
        self.locals.truncate(scope);
        self.expect("end")?;
        Ok(Statements::Loop(body))
    }

    fn for_loop(&mut self) -> Parsed<Statements> {
        let mut names = vec![self.name()?];
        if self.take("=") {
            self.expression()?;
            self.expect(",")?;
            self.expression()?;
            if self.take(",") {
                self.expression()?;
            }
        } else {
            while self.take(",") {
                names.push(self.name()?);
            }
            self.expect("in")?;
            self.expressions()?;
        }
        self.expect("do")?;
        self.loop_body(&names)
    }

    fn repeat(&mut self, repeat: Token) -> Parsed<Statements> {
        let scope = self.locals.len();
        let body = self.open_block()?;
        let until = self.token().start;
        self.expect("until")?;
        self.expression()?;
        self.locals.truncate(scope);
        Ok(Statements::Repeat(Repeat { body, repeat: repeat.start, until }))
    }

    fn function_statement(&mut self, function: Token) -> Parsed<Statements> {
        let name = self.name()?;
        let member = self.member();
        self.seen(name, member);
        let mut is_method = false;
        while self.take(".") {
            self.name()?;
        }
        if self.take(":") {
            self.name()?;
            is_method = true;
        }
        self.function_body(function.line, is_method)?;
        Ok(Statements::Other)
    }

    fn local(&mut self) -> Parsed<Statements> {
        if self.take("function") {
            let line = self.last().line;
            let name = self.name()?;
            self.locals.add(name);
            self.function_body(line, false)?;
            return Ok(Statements::Local(text(name)));
        }
        let mut names = vec![self.name()?];
        while self.take(",") {
            names.push(self.name()?);
        }
        if self.take("=") {
            self.expressions()?;
        }
        let first = names.first().map_or_else(String::new, |name| text(name));
        for name in names {
            self.locals.add(name);
        }
        Ok(Statements::Local(first))
    }

    fn return_statement(&mut self) -> Parsed<Statements> {
        let ends = ["end", "else", "elseif", "until", ";"].iter().any(|word| self.is(word));
        if !ends && self.token().kind != Kind::End {
            self.expressions()?;
        }
        Ok(Statements::Return)
    }

    fn assignment_or_call(&mut self) -> Parsed<Statements> {
        let first = self.prefix_expression()?;
        if first == Prefix::Call {
            return Ok(Statements::Other);
        }
        if first == Prefix::Value {
            return self.unexpected("'='");
        }
        while self.take(",") {
            if !matches!(self.prefix_expression()?, Prefix::Name | Prefix::Place) {
                return self.unexpected("'='");
            }
        }
        self.expect("=")?;
        self.expressions()?;
        Ok(Statements::Other)
    }

    // Expressions.

    fn expressions(&mut self) -> Parsed<()> {
        self.expression()?;
        while self.take(",") {
            self.expression()?;
        }
        Ok(())
    }

    /// Which operator binds closer makes no difference here.
    fn expression(&mut self) -> Parsed<()> {
        self.deeper()?;
        loop {
            while UNARY.contains(&self.operator()) {
                self.next += 1;
                self.work.pay(1)?;
            }
            self.work.pay(1)?;
            self.simple_expression()?;
            if !BINARY.contains(&self.operator()) {
                break;
            }
            self.next += 1;
        }
        self.depth -= 1;
        Ok(())
    }

    fn operator(&self) -> &'a [u8] {
        let token = self.token();
        let is_operator = matches!(token.kind, Kind::Keyword | Kind::Symbol);
        if is_operator { self.word(token) } else { b"" }
    }

    fn simple_expression(&mut self) -> Parsed<()> {
        let token = self.token();
        match token.kind {
            Kind::Number | Kind::Text => self.next += 1,
            Kind::Keyword => match self.word(token) {
                b"nil" | b"true" | b"false" => self.next += 1,
                b"function" => {
                    self.next += 1;
                    self.function_body(token.line, false)?;
                }
                _ => return self.unexpected("expression"),
            },
            Kind::Symbol if self.is("...") => {
                self.next += 1;
                match self.functions.last_mut() {
                    Some(function) if function.is_variadic => function.uses_dots = true,
                    _ => {
                        let message = "cannot use '...' outside a vararg function".to_owned();
                        return Err(SyntaxError { line: token.line, message }.into());
                    }
                }
            }
            Kind::Symbol if self.is("{") => self.table(false)?,
            _ => {
                self.prefix_expression()?;
            }
        }
        Ok(())
    }

    /// A constructor; as the only argument of a call it may stand without parentheses.
    fn table(&mut self, is_argument: bool) -> Parsed<()> {
        self.deeper()?;
        let (open, start) = (self.token().start, self.out.edits.len());
        if self.ordered {
            // Its place among the edits is here; whether there is a text shows at the end.
            self.out.edits.push(Edit::insert(open, ""));
        }
        // Whoever gives a table a metatable at once has no use for ours.
        let has_own = self.next >= 2
            && self.word(self.last()) == b"("
            && self.tokens.get(self.next - 2).is_some_and(|it| self.word(*it) == b"setmetatable");
        self.expect("{")?;
        let is_empty = self.is("}");
        let mut names = Vec::new();
        while !self.is("}") {
            self.work.pay(1)?;
            let is_named = self.token().kind == Kind::Name
                && self.tokens.get(self.next + 1).is_some_and(|token| self.word(*token) == b"=");
            if is_named {
                names.push(text(self.word(self.token())));
                self.next += 2;
            } else if self.take("[") {
                self.expression()?;
                self.expect("]")?;
                self.expect("=")?;
            }
            self.expression()?;
            if !self.take(",") && !self.take(";") {
                break;
            }
        }
        self.depth -= 1;
        self.expect("}")?;
        if self.ordered && !has_own && (is_empty || !names.is_empty()) {
            let (before, after) = if is_argument { ("(", ")") } else { ("", "") };
            let names = if is_empty { String::new() } else { format!(", \"{}\"", names.join(" ")) };
            if let Some(edit) = self.out.edits.get_mut(start) {
                edit.text = format!("{before}__ordered(");
            }
            self.out.edits.push(Edit::insert(self.last().end, format!("{names}){after}")));
        }
        Ok(())
    }

    fn prefix_expression(&mut self) -> Parsed<Prefix> {
        self.deeper()?;
        let mut named = Named { first: self.next, is_path: false, is_global: false };
        let mut prefix = if self.take("(") {
            self.expression()?;
            self.expect(")")?;
            Prefix::Value
        } else {
            if self.token().kind != Kind::Name {
                return self.unexpected("expression");
            }
            let name = self.name()?;
            let member = self.member();
            named = Named { is_path: true, is_global: self.seen(name, member), ..named };
            Prefix::Name
        };
        loop {
            self.work.pay(1)?;
            let (line, end) = (self.last().line, self.next);
            if self.take(".") {
                self.name()?;
                prefix = Prefix::Place;
            } else if self.take("[") {
                self.expression()?;
                self.expect("]")?;
                named.is_path = false;
                prefix = Prefix::Place;
            } else if self.take(":") {
                let name = text(self.name()?);
                let line = self.last().line;
                if !self.arguments()? {
                    return self.unexpected("arguments");
                }
                self.out.calls.add(line, Callee::Method(name));
                named.is_path = false;
                prefix = Prefix::Call;
            } else if self.arguments()? {
                if let Some(callee) = self.callee(named, prefix, end) {
                    self.out.calls.add(line, callee);
                }
                named.is_path = false;
                prefix = Prefix::Call;
            } else {
                self.depth -= 1;
                return Ok(prefix);
            }
        }
    }

    /// How a prefix expression that ends before token `end` names the function that it calls.
    fn callee(&self, named: Named, prefix: Prefix, end: usize) -> Option<Callee> {
        let last = end.checked_sub(1).and_then(|at| self.tokens.get(at)).copied()?;
        let name = text(self.word(last));
        let Named { first, is_path, is_global } = named;
        match prefix {
            Prefix::Name if is_global => Some(Callee::Global(name)),
            Prefix::Name => Some(Callee::Local(name)),
            Prefix::Place if last.kind == Kind::Name => {
                // Every second token is a point.
                let names = self.tokens.get(first..end).unwrap_or_default().iter().step_by(2);
                let is_path = is_path && names.len() <= PATH_MAX;
                let names = names.map(|token| text(self.word(*token)));
                let path = if is_path { names.collect() } else { Vec::new() };
                Some(Callee::Field { name, path, global: is_global && is_path })
            }
            Prefix::Place | Prefix::Call | Prefix::Value => None,
        }
    }

    /// Arguments of a call, if they follow. A `(` on the next line begins them too, as for
    /// gopher-lua; Luau asks for one line, so it gets that.
    fn arguments(&mut self) -> Parsed<bool> {
        let (last, token) = (self.last(), self.token());
        if token.kind == Kind::Text {
            self.next += 1;
            return Ok(true);
        }
        if self.is("{") {
            self.table(true)?;
            return Ok(true);
        }
        if !self.take("(") {
            return Ok(false);
        }
        if token.line != last.line && self.lines_between(last, token) {
            if self.word(last) == b")" {
                let message = "ambiguous syntax (function call x new statement)".to_owned();
                return Err(SyntaxError { line: token.line, message }.into());
            }
            self.out.edits.push(Edit::insert(last.end, "("));
            self.out.edits.push(Edit { at: token.start, removed: 1, text: " ".into() });
        }
        if !self.is(")") {
            self.expressions()?;
        }
        self.expect(")")?;
        Ok(true)
    }

    /// Whether a line ends between two tokens; the first may itself be a text of many lines.
    fn lines_between(&self, first: Token, second: Token) -> bool {
        self.text.get(first.end..second.start).unwrap_or_default().contains(&b'\n')
    }

    /// What follows `function`, which stands on this line, and the function's name.
    fn function_body(&mut self, line: u32, is_method: bool) -> Parsed<()> {
        let scope = self.locals.len();
        let mut function = Function::default();
        if is_method {
            self.locals.add(b"self");
        }
        let mut own_arg = None;
        self.expect("(")?;
        while !self.is(")") {
            if self.take("...") {
                function.is_variadic = true;
                break;
            }
            let name = self.name()?;
            if name == b"arg" {
                own_arg = Some(self.locals.len() - scope);
            }
            self.locals.add(name);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        let (begin, named) = (self.last().end, self.locals.len() - scope);
        if function.is_variadic {
            self.locals.add(b"arg");
        }
        self.functions.push(function);
        let block = self.block()?;
        let mut reads = self.locals.reads(scope);
        self.locals.truncate(scope);
        let hidden_arg = reads.drain(named..).next().unwrap_or_default();
        self.expect("end")?;
        let function = self.functions.pop().unwrap_or_default();
        if let Some(outer) = self.functions.last_mut() {
            // An inner function may mean the outer one's.
            outer.uses_arg |= function.uses_arg;
        }
        if function.is_variadic && function.uses_arg && !function.uses_dots {
            let text = " local arg = {n = select('#', ...), ...} ";
            self.out.edits.push(Edit::insert(begin, text));
        }
        if function.uses_dots && hidden_arg.is_any() {
            // There is no such local then: what is meant is a parameter, or a variable outside.
            match own_arg {
                Some(place) => reads[place].note(None),
                None => _ = self.locals.read(b"arg", None),
            }
        }
        let reads_more = function.is_variadic && (function.uses_dots || function.uses_arg);
        self.out.functions.add(line, Parameters { named: reads, reads_more });
        self.out.roots.push(block);
        Ok(())
    }

    /// The name behind a point that follows.
    fn member(&self) -> Option<&'a [u8]> {
        let name = self.tokens.get(self.next + 1).filter(|it| it.kind == Kind::Name)?;
        self.is(".").then(|| self.word(*name))
    }

    /// Notes that a variable is named, alone or with a member, and says whether it is global.
    fn seen(&mut self, name: &'a [u8], member: Option<&[u8]>) -> bool {
        if let Some(function) = self.functions.last_mut() {
            function.uses_arg |= name == b"arg";
        }
        !self.locals.read(name, member)
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
