//! How a host function is declared: one row of [`functions!`], from which follow its name, how its
//! arguments are read and its results handed over, what a language binding must know of it, and its
//! part of the reference. The rows are in `table`, the kinds of arguments in `read`.
//!
//! A row reads
//!
//! ```text
//! /// What it does, in sentences.
//! /// ```lua
//! /// the body of an RPC function that a reader can copy
//! /// ```
//! built name(argument: kind, …) -> (result: Type, …) = the call of a Rust function;
//! ```
//!
//! where `kind` is an expression such as `text()` or `flag(false)`, `Type` a [`Returned`], and the
//! call a `Result` of these types. It sees the host and the [`Args`] by the names that the head of
//! the table gives them, and each argument by its own. A row that waits for somebody else is
//!
//! ```text
//! asks name(argument: kind, …) -> (result: Type, …) = the call of a function => another function;
//! ```
//!
//! where the first gives what is asked (`Result<Ask, _>`), and the second, a `fn(&mut dyn
//! CommonHost, &Args, Answer)`, makes the results of the answer. Instead of `built` a row may be `language`
//! (each script language binds it itself, and there is no call; its example is a module) or
//! `missing` (Nakama has it, throng does not, and there is only a name).
//!
//! Between `built` and the name a mark says what the function waits for ([`HostLane`](super::HostLane)):
//! `[reads]`, `[writes]`, `[hashes]`, `[slow]`, `[room]`, `[network]`, nothing if it waits for nobody;
//! `[shares]` if what it does then is everybody's and cannot be taken back. Code of a row whose mark does not name the database is lent
//! [`CommonHost`](crate::guest::CommonHost), so that it cannot use it.
//!
//! [`Args`]: super::Args

use std::fmt;

use bytes::Bytes;

use super::read::Reader;
use super::{Args, Returns};
use crate::guest::HostError;
use crate::value::Value;

/// What a value is, in words that fit every script language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Anything.
    Any,
    /// True or false.
    Boolean,
    /// A function of the script.
    Function,
    /// A table with the keys 1, 2, 3, …, or an array.
    List,
    /// A number.
    Number,
    /// Text or bytes.
    String,
    /// A table, or an object.
    Table,
}

impl fmt::Display for ValueType {
    /// Its name in Lua.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Boolean => "boolean",
            Self::Function => "function",
            Self::List => "list",
            Self::Number => "number",
            Self::String => "string",
            Self::Table => "table",
        })
    }
}

/// Whether an argument may be nil, and what nil stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It may not, and is refused; but nil is one of the values of [`ValueType::Any`].
    Required,
    /// It may: nothing is given.
    Optional,
    /// It stands for itself.
    OrNil,
    /// It stands for an empty table.
    OrEmpty,
    /// It stands for this.
    OrFlag(bool),
    /// It stands for this.
    OrNumber(i64),
}

/// An argument of a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value_type: ValueType,
    /// Whether it may be nil.
    pub need: Need,
    /// Why a table with both numbers and names for keys is refused; `None` if such a table becomes
    /// a list without its named members.
    pub mixed: Option<&'static str>,
}

impl fmt::Display for Argument {
    /// As it stands in a signature: `name: type`, `name?: type` or `name?: type = default`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value_type, .. } = self;
        match self.need {
            Need::Required => write!(f, "{name}: {value_type}"),
            Need::Optional => write!(f, "{name}?: {value_type}"),
            Need::OrNil => write!(f, "{name}?: {value_type} = nil"),
            Need::OrEmpty => write!(f, "{name}?: {value_type} = {{}}"),
            Need::OrFlag(flag) => write!(f, "{name}?: {value_type} = {flag}"),
            Need::OrNumber(number) => write!(f, "{name}?: {value_type} = {number}"),
        }
    }
}

/// One result of a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnValue {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value_type: ValueType,
    /// Whether it may be nil.
    pub may_be_nil: bool,
    /// Whether it is a string that is text, for languages that tell text from bytes.
    pub is_text: bool,
}

impl fmt::Display for ReturnValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.may_be_nil { "?" } else { "" };
        write!(f, "{}{mark}: {}", self.name, self.value_type)
    }
}

/// What a reader, and a language binding, must know of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doc {
    /// Its arguments in order.
    pub arguments: &'static [Argument],
    /// Its results in order.
    pub results: &'static [ReturnValue],
    /// The lines of its comment, each with a space in front: sentences, then an example.
    pub(super) lines: &'static [&'static str],
}

/// What begins and ends an example in a comment.
const FENCES: (&str, &str) = ("```lua", "```");

impl Doc {
    /// What it does, in one or more sentences.
    pub fn meaning(&self) -> String {
        let lines = self.lines.iter().map(|line| line.trim());
        let lines: Vec<&str> = lines.take_while(|line| *line != FENCES.0).collect();
        lines.join(" ")
    }

    /// Lua that a reader can copy: the body of an RPC function, or, for
    /// [`FunctionKind::Language`](super::FunctionKind::Language), the text of a module.
    pub fn example(&self) -> String {
        let lines = self.lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line));
        let lines = lines.skip_while(|line| *line != FENCES.0).skip(1);
        let lines: Vec<&str> = lines.take_while(|line| *line != FENCES.1).collect();
        lines.join("\n")
    }

    /// Arguments and results: `(name: type, name?: type = default) -> name: type`, with the types of
    /// Lua and `list` for a table with the keys 1, 2, 3, …; a question mark marks what may be nil.
    pub fn signature(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        let results: Vec<String> = self.results.iter().map(ToString::to_string).collect();
        let arrow = if results.is_empty() { "" } else { " -> " };
        format!("({}){arrow}{}", arguments.join(", "), results.join(", "))
    }
}

/// What a host function may return as one of its results.
pub(super) trait Returned {
    /// What it is for scripts.
    const TYPE: ValueType;

    /// Whether it may be nil.
    const MAY_BE_NIL: bool = false;

    /// Whether it is a string that is text.
    const IS_TEXT: bool = false;

    /// As scripts get it.
    fn into_value(self) -> Value;
}

/// Whether strings of a type are text.
macro_rules! is_text {
    () => {
        false
    };
    (text) => {
        true
    };
}

/// Declares that a type is returned as a script's type.
macro_rules! returned {
    ($($type:ty: $value_type:ident $(is $text:ident)? = $convert:expr;)+) => {
        $(
            impl Returned for $type {
                const TYPE: ValueType = ValueType::$value_type;
                const IS_TEXT: bool = is_text!($($text)?);

                fn into_value(self) -> Value {
                    let convert: fn(Self) -> Value = $convert;
                    convert(self)
                }
            }
        )+
    };
}

/// A value that is a table.
pub(super) struct Table(pub(super) Value);

/// A value that is a string, or a number in its place.
pub(super) struct Text(pub(super) Value);

returned! {
    Value: Any = |value| value;
    bool: Boolean = Value::Bool;
    Vec<Value>: List = Value::List;
    i64: Number = Value::Int;
    u64: Number = |number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    Bytes: String = Value::Bytes;
    Vec<u8>: String = |bytes| Value::Bytes(bytes.into());
    String: String is text = Value::text;
    Text: String = |text| text.0;
    Table: Table = |table| table.0;
}

impl<T: Returned> Returned for Option<T> {
    const TYPE: ValueType = T::TYPE;
    const MAY_BE_NIL: bool = true;
    const IS_TEXT: bool = T::IS_TEXT;

    fn into_value(self) -> Value {
        self.map_or(Value::Nil, T::into_value)
    }
}

/// A result of the type `T`, for the reference.
pub(super) const fn outcome<T: Returned>(name: &'static str) -> ReturnValue {
    ReturnValue { name, value_type: T::TYPE, may_be_nil: T::MAY_BE_NIL, is_text: T::IS_TEXT }
}

/// Begins to read arguments.
pub(super) fn reader<'r, 'a>(args: &'r Args<'a>) -> Reader<'r, 'a> {
    Reader { args, index: 0 }
}

/// What the code of a host function gives, before it is made of [`Value`]s.
pub(super) type Outcomes<T> = Result<T, HostError>;

/// What a function is told that was answered something else than it asked: our own mistake.
pub(super) fn wrong_answer() -> HostError {
    debug_assert!(false, "an answer to another question");
    HostError::new("internal error: an answer to another question")
}

/// What a host function hands over; none yet.
pub(super) fn returns() -> Returns {
    Returns::new()
}

/// One row; see the head of this file.
macro_rules! row {
    ($host:ident $args:ident [] missing [] $name:ident () -> ()) => {
        $crate::host::HostFunction {
            name: stringify!($name),
            code: $crate::host::Code::Common($crate::host::missing),
            lane: $crate::host::HostLane::Here,
            kind: $crate::host::FunctionKind::Missing,
            #[cfg(test)]
            takes_nil: |_| Vec::new(),
        }
    };
    (
        $host:ident $args:ident [$($line:literal)+] language [] $name:ident
        ($($arg:ident: $how:expr),*) -> ($($result:ident: $returned:ty),*)
    ) => {
        $crate::host::HostFunction {
            name: stringify!($name),
            code: $crate::host::Code::Common($crate::host::missing),
            lane: $crate::host::HostLane::Here,
            kind: $crate::host::FunctionKind::Language($crate::host::declare::doc_of!(
                [$($line)+] ($($arg: $how),*) -> ($($result: $returned),*)
            )),
            #[cfg(test)]
            takes_nil: |_| Vec::new(),
        }
    };
    (
        $host:ident $args:ident [$($line:literal)+] built [$($mark:ident)?] $name:ident
        ($($arg:ident: $how:expr),*) -> ($($result:ident: $returned:ty),*) = $body:expr
    ) => {{
        #[allow(
            unused_variables, unused_mut, unused_parens, clippy::let_unit_value,
            clippy::ignored_unit_patterns, clippy::unnecessary_wraps,
            reason = "what a row does not use, or has none of"
        )]
        fn run(
            $host: $crate::host::declare::lent!($($mark)?),
            $args: &$crate::host::Args<'_>,
        ) -> $crate::host::RunResult {
            let mut reader = $crate::host::declare::reader($args);
            $( let $arg = reader.next(&$how)?; )*
            let outcomes: $crate::host::declare::Outcomes<($($returned),*)> = $body;
            let ($($result),*) = outcomes?;
            let mut returns = $crate::host::declare::returns();
            $( returns.push($crate::host::declare::Returned::into_value($result)); )*
            Ok(returns)
        }
        $crate::host::HostFunction {
            name: stringify!($name),
            code: $crate::host::declare::code!([$($mark)?] run),
            lane: $crate::host::declare::lane!($($mark)?),
            kind: $crate::host::FunctionKind::Built($crate::host::declare::doc_of!(
                [$($line)+] ($($arg: $how),*) -> ($($result: $returned),*)
            )),
            #[cfg(test)]
            takes_nil: |args| {
                #[allow(unused_variables, unused_mut, reason = "rows without arguments")]
                let mut reader = $crate::host::declare::reader(args);
                vec![$( reader.next(&$how).is_ok() ),*]
            },
        }
    }};
    (
        $host:ident $args:ident [$($line:literal)+] asks [$($mark:ident)?] $name:ident
        ($($arg:ident: $how:expr),*) -> ($($result:ident: $returned:ty),*)
        = $body:expr => $answered:expr
    ) => {{
        #[allow(unused_variables, unused_mut, reason = "what a row does not use, or has none of")]
        fn ask(
            $host: &mut dyn $crate::guest::CommonHost,
            $args: &$crate::host::Args<'_>,
        ) -> Result<$crate::guest::Ask, $crate::guest::HostError> {
            let mut reader = $crate::host::declare::reader($args);
            $( let $arg = reader.next(&$how)?; )*
            $body
        }
        #[allow(
            unused_mut, unused_parens, clippy::let_unit_value, clippy::ignored_unit_patterns,
            reason = "rows without results"
        )]
        fn answered(
            host: &mut dyn $crate::guest::CommonHost,
            args: &$crate::host::Args<'_>,
            answer: $crate::guest::Answer,
        ) -> $crate::host::RunResult {
            let outcomes: $crate::host::declare::Outcomes<($($returned),*)> =
                $answered(host, args, answer);
            let ($($result),*) = outcomes?;
            let mut returns = $crate::host::declare::returns();
            $( returns.push($crate::host::declare::Returned::into_value($result)); )*
            Ok(returns)
        }
        $crate::host::HostFunction {
            name: stringify!($name),
            code: $crate::host::Code::Asks { ask, answered },
            lane: $crate::host::declare::lane!($($mark)?),
            kind: $crate::host::FunctionKind::Built($crate::host::declare::doc_of!(
                [$($line)+] ($($arg: $how),*) -> ($($result: $returned),*)
            )),
            #[cfg(test)]
            takes_nil: |args| {
                let mut reader = $crate::host::declare::reader(args);
                vec![$( reader.next(&$how).is_ok() ),*]
            },
        }
    }};
}

/// What there is to know of one row.
macro_rules! doc_of {
    (
        [$($line:literal)+]
        ($($arg:ident: $how:expr),*) -> ($($result:ident: $returned:ty),*)
    ) => {{
        const ARGUMENTS: &[$crate::host::Argument] = &[$( $how.named(stringify!($arg)) ),*];
        const RESULTS: &[$crate::host::ReturnValue] =
            &[$( $crate::host::declare::outcome::<$returned>(stringify!($result)) ),*];
        $crate::host::Doc { arguments: ARGUMENTS, results: RESULTS, lines: &[$($line),+] }
    }};
}

/// What a mark says of where a function runs.
macro_rules! lane {
    () => {
        $crate::host::HostLane::Here
    };
    (shares) => {
        $crate::host::HostLane::Shared
    };
    (reads) => {
        $crate::host::HostLane::Read
    };
    (writes) => {
        $crate::host::HostLane::Write
    };
    (hashes) => {
        $crate::host::HostLane::Hash
    };
    (slow) => {
        $crate::host::HostLane::Slow
    };
    (room) => {
        $crate::host::HostLane::Room
    };
    (network) => {
        $crate::host::HostLane::Network
    };
}

/// What the code of a row with this mark is lent: the database only if the mark says so.
macro_rules! lent {
    (reads) => { &mut dyn $crate::guest::Host };
    (writes) => { &mut dyn $crate::guest::Host };
    (hashes) => { &mut dyn $crate::guest::Host };
    (slow) => { &mut dyn $crate::guest::Host };
    ($($other:ident)?) => { &mut dyn $crate::guest::CommonHost };
}

/// The code of a row with this mark.
macro_rules! code {
    ([reads] $run:ident) => {
        $crate::host::Code::Database($run)
    };
    ([writes] $run:ident) => {
        $crate::host::Code::Database($run)
    };
    ([hashes] $run:ident) => {
        $crate::host::Code::Database($run)
    };
    ([slow] $run:ident) => {
        $crate::host::Code::Database($run)
    };
    ([$($other:ident)?] $run:ident) => {
        $crate::host::Code::Common($run)
    };
}

/// Declares the functions of one area, sorted by name; see the head of this file.
macro_rules! functions {
    (
        $rows:ident($host:ident, $args:ident) {
            $(
                $(#[doc = $line:literal])*
                $kind:ident $([$mark:ident])? $name:ident
                    $( ($($arg:ident: $how:expr),* $(,)?) )?
                    $( -> ($($result:ident: $returned:ty),+ $(,)?) )?
                    $( = $body:expr $(=> $answered:expr)? )?;
            )+
        }
    ) => {
        pub(super) const $rows: &[$crate::host::HostFunction] = &[$(
            $crate::host::declare::row! {
                $host $args [$($line)*] $kind [$($mark)?] $name
                ($($($arg: $how),*)?) -> ($($($result: $returned),+)?) $(= $body $(=> $answered)?)?
            }
        ),+];
    };
}

pub(super) use {code, doc_of, functions, lane, lent, row};
