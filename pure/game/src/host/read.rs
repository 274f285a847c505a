//! The kinds of arguments that host functions have: what a row of the table names, and what reads the
//! argument. A kind that only one chapter needs stands in that chapter, and is a [`Read`] as these.
//!
//! A kind is two things in one [`Arg`]: what the reference and a binding must know, and how the
//! value is read. Nothing is looked up when a function is called: a row's code is straight calls of
//! the readers that it names. What is read borrows from the arguments wherever that is possible.
//!
//! Texts of refusals are Nakama's, and so they are part of a row.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use std::borrow::Cow;
use std::marker::PhantomData;

use uuid::Uuid;

use super::Args;
use super::declare::{Argument, Need, ValueType};
use crate::guest::HostError;
use crate::value::Value;

/// Entries of a list argument; more are an error.
pub(super) const ENTRIES_MAX: usize = 1_000;

/// How an argument is read.
pub(super) trait Read: Copy {
    /// What the function is given.
    type Value<'a>;

    /// Reads the argument `index`, from 0.
    ///
    /// # Errors
    /// [`Args::wrong`]: it is none of this kind.
    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<Self::Value<'a>, HostError>;
}

/// A kind of argument.
#[derive(Clone, Copy)]
pub(super) struct Arg<R> {
    value_type: ValueType,
    need: Need,
    mixed: Option<&'static str>,
    how: R,
}

impl<R: Copy> Arg<R> {
    /// An argument that has to be given: [`Reader::next`] refuses nil where `how` would not.
    pub(super) const fn new(value_type: ValueType, how: R) -> Self {
        Self { value_type, need: Need::Required, mixed: None, how }
    }

    /// Which may be nil.
    pub(super) const fn or_nil(self) -> Self {
        self.when_nil(Need::Optional)
    }

    /// Which stands for an empty list when it is nil.
    pub(super) const fn or_empty(self) -> Self {
        self.when_nil(Need::OrEmpty)
    }

    /// Which stands for something when it is nil.
    pub(super) const fn when_nil(self, need: Need) -> Self {
        Self { need, ..self }
    }

    /// Which may not have both numbers and names for keys; `refusal` says so.
    pub(super) const fn unmixed(self, refusal: &'static str) -> Self {
        Self { mixed: Some(refusal), ..self }
    }

    /// The argument `name` of this kind.
    pub(super) const fn named(self, name: &'static str) -> Argument {
        Argument { name, value_type: self.value_type, need: self.need, mixed: self.mixed }
    }
}

/// Reads the arguments of one call, one after the other.
pub(super) struct Reader<'r, 'a> {
    pub(super) args: &'r Args<'a>,
    pub(super) index: usize,
}

impl<'a> Reader<'_, 'a> {
    /// The next argument.
    #[inline]
    pub(super) fn next<R: Read>(&mut self, arg: &Arg<R>) -> Result<R::Value<'a>, HostError> {
        let index = self.index;
        self.index += 1;
        let read = arg.how.read(self.args, index)?;
        // Many kinds take nil, so that a row may say what it stands for.
        let is_refused = matches!(arg.need, Need::Required) && arg.value_type != ValueType::Any;
        if is_refused && self.args.is_nil(index) {
            let wanted = match arg.value_type {
                ValueType::List => ValueType::Table,
                other => other,
            };
            return Err(self.args.mismatch(index, &wanted.to_string()));
        }
        Ok(read)
    }
}

/// Declares kinds of arguments: the reader, its fields, what it gives, and how.
macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($field:ident: $type:ty),* } -> $value:ty
            = |$this:ident, $args:ident, $index:ident| $body:expr;
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(super) struct $name { $($field: $type),* }

            impl Read for $name {
                type Value<'a> = $value;

                #[inline]
                fn read<'a>(
                    &self,
                    $args: &Args<'a>,
                    $index: usize,
                ) -> Result<Self::Value<'a>, HostError> {
                    let $this = self;
                    $body
                }
            }
        )+
    };
}

kinds! {
    /// Anything that is passed, even nil.
    Anything {} -> &'a Value = |_this, args, index| {
        args.values.get(index).ok_or_else(|| args.wrong(index, "value expected"))
    };
    /// Anything, passed or not.
    Whatever {} -> &'a Value = |_this, args, index| Ok(args.value(index));
    /// A string, or a number as its text.
    Str {} -> Cow<'a, [u8]> = |_this, args, index| args.bytes(index);
    /// A string that is not empty.
    FilledStr { empty: &'static str } -> Cow<'a, [u8]> = |this, args, index| {
        args.filled(index, this.empty)
    };
    /// A string in UTF-8, or a number as its text.
    Utf8 {} -> Cow<'a, str> = |_this, args, index| args.text(index);
    /// Text that is not empty.
    FilledUtf8 { empty: &'static str } -> Cow<'a, str> = |this, args, index| {
        let text = args.text(index)?;
        if text.is_empty() { Err(args.wrong(index, this.empty)) } else { Ok(text) }
    };
    /// Text; nil is none.
    Utf8OrEmpty {} -> Cow<'a, str> = |_this, args, index| {
        if args.is_nil(index) { Ok(Cow::Borrowed("")) } else { args.text(index) }
    };
    /// Text; `None` if it is empty or nil.
    SomeUtf8 {} -> Option<String> = |_this, args, index| {
        if args.is_nil(index) {
            return Ok(None);
        }
        let text = args.text(index)?;
        Ok(if text.is_empty() { None } else { Some(text.into_owned()) })
    };
    /// An id.
    Id { wrong: &'static str } -> Uuid = |this, args, index| args.uuid(index, this.wrong);
    /// An id, with a text of its own for an empty one.
    FilledId { empty: &'static str, wrong: &'static str } -> Uuid = |this, args, index| {
        args.filled(index, this.empty)?;
        args.uuid(index, this.wrong)
    };
    /// An id; `None` if it is empty or nil.
    IdOrNone { wrong: &'static str } -> Option<Uuid> = |this, args, index| {
        if args.is_nil(index) || matches!(args.value(index), Value::Bytes(id) if id.is_empty()) {
            return Ok(None);
        }
        args.uuid(index, this.wrong).map(Some)
    };
    /// A whole number; a fraction is cut off, as Nakama does.
    Int {} -> i64 = |_this, args, index| args.int(index);
    /// A whole number, or another one for nil.
    IntOr { default: i64 } -> i64 = |this, args, index| {
        if args.is_nil(index) { Ok(this.default) } else { args.int(index) }
    };
    /// Any number.
    Float {} -> f64 = |_this, args, index| args.float(index);
    /// How many are wanted, 1 or more.
    Limit { default: usize, most: usize } -> usize = |this, args, index| {
        if args.is_nil(index) {
            return Ok(this.default);
        }
        let limit = usize::try_from(args.int(index)?).unwrap_or(0);
        if (1..=this.most).contains(&limit) {
            return Ok(limit);
        }
        Err(args.wrong(index, &format!("expects limit to be 1-{}", this.most)))
    };
    /// A boolean, or another one for nil.
    Flag { default: bool } -> bool = |this, args, index| match args.value(index) {
        Value::Nil => Ok(this.default),
        Value::Bool(flag) => Ok(*flag),
        _ => Err(args.mismatch(index, "boolean")),
    };
    /// A table with names for keys, or an empty one.
    Object { wrong: &'static str } -> &'a Value = |this, args, index| match args.value(index) {
        value @ Value::Map(_) => Ok(value),
        _ => Err(args.wrong(index, this.wrong)),
    };
    /// A list; nil is an empty one.
    Items {} -> &'a [Value] = |_this, args, index| args.list(index);
    /// Ids in a list; nil is an empty one.
    Ids { not_list: &'static str, not_id: &'static str } -> Vec<Uuid> = |this, args, index| {
        let items = args.list(index).map_err(|_| args.wrong(index, this.not_list))?;
        if items.len() > ENTRIES_MAX {
            return Err(args.wrong(index, "too many ids"));
        }
        let id = |item: &Value| item.as_str().and_then(|id| Uuid::try_parse(id).ok());
        let wrong = || args.wrong(index, this.not_id);
        items.iter().map(|item| id(item).ok_or_else(wrong)).collect()
    };
    /// Texts in a list that are not empty; nil is an empty list.
    Texts { wrong: &'static str } -> Vec<String> = |this, args, index| {
        let items = args.list(index)?;
        if items.len() > ENTRIES_MAX {
            return Err(args.wrong(index, "too many entries"));
        }
        let text = |item: &Value| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let wrong = || args.wrong(index, this.wrong);
        items.iter().map(|item| text(item).ok_or_else(wrong)).collect()
    };
    /// Tables in a list; nil is an empty list.
    Records { wrong: &'static str } -> Vec<Record<'a>> = |this, args, index| {
        let items = args.list(index).map_err(|_| args.wrong(index, this.wrong))?;
        let record = |value: &'a Value| match value {
            Value::Map(_) | Value::List(_) => Ok(Record { args: *args, index, value }),
            _ => Err(args.wrong(index, this.wrong)),
        };
        items.iter().map(record).collect()
    };
}

/// A whole number within bounds.
#[derive(Clone, Copy)]
pub(super) struct Within<N> {
    min: i64,
    max: i64,
    default: Option<i64>,
    wrong: &'static str,
    number: PhantomData<N>,
}

impl<N: TryFrom<i64> + Copy> Read for Within<N> {
    type Value<'a> = N;

    #[inline]
    fn read(&self, args: &Args<'_>, index: usize) -> Result<N, HostError> {
        let number = match self.default {
            Some(default) if args.is_nil(index) => default,
            _ => args.int(index)?,
        };
        let number = Some(number).filter(|number| (self.min..=self.max).contains(number));
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| args.wrong(index, self.wrong))
    }
}

/// An argument that may be nil.
#[derive(Clone, Copy)]
pub(super) struct Optional<R>(R);

impl<R: Read> Read for Optional<R> {
    type Value<'a> = Option<R::Value<'a>>;

    #[inline]
    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<Self::Value<'a>, HostError> {
        if args.is_nil(index) { Ok(None) } else { self.0.read(args, index).map(Some) }
    }
}

/// Names and texts in a table; nil is an empty one.
pub(super) struct Strings<C> {
    /// What is said of what is no table.
    pub(super) not_table: &'static str,
    /// What is said of a key that is no text.
    pub(super) not_key: &'static str,
    /// What is said of a value that is no text.
    pub(super) not_value: &'static str,
    /// How many there may be, and what is said of more.
    pub(super) most: (usize, &'static str),
    pub(super) collection: PhantomData<C>,
}

impl<C> Clone for Strings<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Strings<C> {}

impl<C: FromIterator<(String, String)>> Read for Strings<C> {
    type Value<'a> = C;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<C, HostError> {
        let members: &[_] = match args.value(index) {
            Value::Nil => &[],
            Value::Map(members) => members,
            Value::List(items) if items.is_empty() => &[],
            Value::List(_) => return Err(args.wrong(index, self.not_key)),
            _ => return Err(args.wrong(index, self.not_table)),
        };
        if members.len() > self.most.0 {
            return Err(args.wrong(index, self.most.1));
        }
        let member = |(name, value): &(bytes::Bytes, Value)| {
            let name = std::str::from_utf8(name).map_err(|_| args.wrong(index, self.not_key))?;
            let value = value.as_str().ok_or_else(|| args.wrong(index, self.not_value))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        members.iter().map(member).collect()
    }
}

/// Any value, which has to be passed, even if it is nil.
pub(super) const fn anything() -> Arg<Anything> {
    Arg::new(ValueType::Any, Anything {})
}

/// Any value.
pub(super) const fn value() -> Arg<Whatever> {
    Arg::new(ValueType::Any, Whatever {})
}

/// A value that the function itself looks at, of this type for the reference.
pub(super) const fn shown_as(value_type: ValueType) -> Arg<Whatever> {
    Arg::new(value_type, Whatever {})
}

/// A string, or a number as its text.
pub(super) const fn string() -> Arg<Str> {
    Arg::new(ValueType::String, Str {})
}

/// A string that is not empty, or `empty` is said.
pub(super) const fn filled(empty: &'static str) -> Arg<FilledStr> {
    Arg::new(ValueType::String, FilledStr { empty })
}

/// A string in UTF-8, or a number as its text.
pub(super) const fn text() -> Arg<Utf8> {
    Arg::new(ValueType::String, Utf8 {})
}

/// Text that is not empty, or `empty` is said.
pub(super) const fn filled_text(empty: &'static str) -> Arg<FilledUtf8> {
    Arg::new(ValueType::String, FilledUtf8 { empty })
}

/// Text; nil is the empty one.
pub(super) const fn text_or_empty() -> Arg<Utf8OrEmpty> {
    Arg::new(ValueType::String, Utf8OrEmpty {}).or_nil()
}

/// Text; neither nil nor the empty one counts.
pub(super) const fn some_text() -> Arg<SomeUtf8> {
    Arg::new(ValueType::String, SomeUtf8 {}).or_nil()
}

/// An id, or `wrong` is said.
pub(super) const fn id(wrong: &'static str) -> Arg<Id> {
    Arg::new(ValueType::String, Id { wrong })
}

/// An id; of an empty one `empty` is said, of another that is none `wrong`.
pub(super) const fn filled_id(empty: &'static str, wrong: &'static str) -> Arg<FilledId> {
    Arg::new(ValueType::String, FilledId { empty, wrong })
}

/// The id of a user.
pub(super) const fn user_id() -> Arg<FilledId> {
    filled_id("expects user id", "expects user ID to be a valid identifier")
}

/// An id; neither nil nor the empty one counts.
pub(super) const fn id_or_none(wrong: &'static str) -> Arg<IdOrNone> {
    Arg::new(ValueType::String, IdOrNone { wrong }).or_nil()
}

/// A whole number.
pub(super) const fn int() -> Arg<Int> {
    Arg::new(ValueType::Number, Int {})
}

/// A whole number, `default` for nil.
pub(super) const fn int_or(default: i64) -> Arg<IntOr> {
    Arg::new(ValueType::Number, IntOr { default }).when_nil(Need::OrNumber(default))
}

/// Any number.
pub(super) const fn float() -> Arg<Float> {
    Arg::new(ValueType::Number, Float {})
}

/// A whole number from `min` to `max`, or `wrong` is said.
pub(super) const fn within<N: Copy>(min: i64, max: i64, wrong: &'static str) -> Arg<Within<N>> {
    let within = Within { min, max, default: None, wrong, number: PhantomData };
    Arg::new(ValueType::Number, within)
}

/// As [`within`], `default` for nil.
pub(super) const fn within_or<N: Copy>(
    default: i64,
    min: i64,
    max: i64,
    wrong: &'static str,
) -> Arg<Within<N>> {
    let within = Within { min, max, default: Some(default), wrong, number: PhantomData };
    Arg::new(ValueType::Number, within).when_nil(Need::OrNumber(default))
}

/// How many are wanted, 1 to `most`, `default` for nil.
pub(super) const fn limit(default: u16, most: usize) -> Arg<Limit> {
    let limit = Limit { default: default as usize, most };
    Arg::new(ValueType::Number, limit).when_nil(Need::OrNumber(default as i64))
}

/// A boolean, `default` for nil.
pub(super) const fn flag(default: bool) -> Arg<Flag> {
    Arg::new(ValueType::Boolean, Flag { default }).when_nil(Need::OrFlag(default))
}

/// A table with names for keys, or `wrong` is said.
pub(super) const fn object(wrong: &'static str) -> Arg<Object> {
    Arg::new(ValueType::Table, Object { wrong })
}

/// A list of anything.
pub(super) const fn list() -> Arg<Items> {
    Arg::new(ValueType::List, Items {})
}

/// The ids of users.
pub(super) const fn ids() -> Arg<Ids> {
    ids_or("invalid user id list", "each user id must be a valid id string")
}

/// Ids: of no list `not_list` is said, of an entry that is no id `not_id`.
pub(super) const fn ids_or(not_list: &'static str, not_id: &'static str) -> Arg<Ids> {
    Arg::new(ValueType::List, Ids { not_list, not_id })
}

/// A list of texts that are not empty, or `wrong` is said.
pub(super) const fn texts(wrong: &'static str) -> Arg<Texts> {
    Arg::new(ValueType::List, Texts { wrong })
}

/// A list of tables, or `wrong` is said.
pub(super) const fn records(wrong: &'static str) -> Arg<Records> {
    Arg::new(ValueType::List, Records { wrong })
}

/// Names and texts.
pub(super) const fn strings<C>(how: Strings<C>) -> Arg<Strings<C>> {
    Arg::new(ValueType::Table, how).or_nil()
}

/// What may be nil.
pub(super) const fn optional<R: Copy>(arg: Arg<R>) -> Arg<Optional<R>> {
    let Arg { value_type, mixed, how, .. } = arg;
    Arg { value_type, need: Need::Optional, mixed, how: Optional(how) }
}

/// A function, which only a script language can call: for the reference alone.
pub(super) const fn function() -> Arg<Whatever> {
    shown_as(ValueType::Function)
}

/// One table of a list argument, whose refusals name the argument.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    args: Args<'a>,
    index: usize,
    value: &'a Value,
}

impl<'a> Record<'a> {
    /// A member; `None` when it is missing or nil.
    pub(super) fn member(&self, name: &str) -> Option<&'a Value> {
        self.value.member(name).filter(|value| !matches!(value, Value::Nil))
    }

    /// Who pays for what is made of it.
    pub(super) fn meter(&self) -> &'a dyn super::Meter {
        self.args.meter
    }

    /// The refusal of it.
    pub(super) fn wrong(&self, what: &str) -> HostError {
        self.args.wrong(self.index, what)
    }

    /// A text; `None` when it is missing.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, HostError> {
        let text = |value: &'a Value| {
            value.as_str().ok_or_else(|| self.wrong(&format!("expects {name} to be string")))
        };
        self.member(name).map(text).transpose()
    }

    /// An id; `None` when it is missing. `kind` is what a refusal calls it.
    pub(super) fn id(&self, name: &str, kind: &str) -> Result<Option<Uuid>, HostError> {
        let wrong = || self.wrong(&format!("expects {name} to be a valid {kind}"));
        self.text(name)?.map(|text| Uuid::try_parse(text).map_err(|_| wrong())).transpose()
    }

    /// The id of a user; `None` when it is missing.
    pub(super) fn user_id(&self) -> Result<Option<Uuid>, HostError> {
        self.id("user_id", "ID")
    }
}
