//! The functions of `nk` in print: their names in JavaScript, signatures in TypeScript's words, and what the host
//! table says of each, whose words are Lua's, respelled.
//!
//! In: rows of `game::host`. Out: [`Described`], for a page or a terminal. Not here: examples, which the table has in
//! Lua only, and what a call does at run time (`bind`).

use game::host::{Argument, Doc, HostFunction, Need, ValueType};

use crate::names::{self, Binding, Shape};

/// Words with an underscore that are no names of functions, arguments or members: of the protocol, of metrics and of
/// the configuration.
const KEPT: &[&str] =
    &["nakama_custom_", "shutdown_grace_sec", "stream_data", "stream_presence_event"];

/// A function as its callers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name, without `nk.`.
    pub name: &'static str,
    /// Arguments and result: `(name: type, name?: type = default): type`.
    pub signature: String,
    /// What it does, in sentences.
    pub meaning: String,
}

/// What a function is called here; `None` if Nakama's JavaScript has none of the kind.
#[must_use]
pub fn name(function: &'static HostFunction) -> Option<&'static str> {
    names::of_table(function.name).map(|binding| binding.name)
}

/// What there is to know of a function; `None` if there is none here, or it is not built.
#[must_use]
pub fn describe(function: &'static HostFunction) -> Option<Described> {
    let binding = names::of_table(function.name)?;
    let doc = binding.function.doc()?;
    Some(Described {
        name: binding.name,
        signature: format!("({}){}", arguments(binding, doc), result(binding, doc)),
        meaning: respelled(&doc.meaning()),
    })
}

fn arguments(binding: &Binding, doc: &Doc) -> String {
    let in_order = |index: usize| binding.order.get(index).copied().unwrap_or(index);
    let arguments = (0..doc.arguments.len()).filter_map(|index| doc.arguments.get(in_order(index)));
    arguments.map(argument).collect::<Vec<_>>().join(", ")
}

fn argument(argument: &Argument) -> String {
    let (name, kind) = (names::camel_case(argument.name), type_name(argument.value_type));
    match argument.need {
        Need::Required => format!("{name}: {kind}"),
        Need::Optional | Need::OrNil => format!("{name}?: {kind}"),
        Need::OrEmpty if argument.value_type == ValueType::List => format!("{name}?: {kind} = []"),
        Need::OrEmpty => format!("{name}?: {kind} = {{}}"),
        Need::OrFlag(flag) => format!("{name}?: {kind} = {flag}"),
        Need::OrNumber(number) => format!("{name}?: {kind} = {number}"),
    }
}

/// With its colon in front; nothing if there is none.
fn result(binding: &Binding, doc: &Doc) -> String {
    let members = |names: Vec<String>| {
        let members = names.iter().zip(doc.results).map(|(name, result)| {
            let mark = if result.may_be_nil { "?" } else { "" };
            format!("{name}{mark}: {}", type_name(result.value_type))
        });
        format!(": {{ {} }}", members.collect::<Vec<_>>().join(", "))
    };
    match (binding.shape, doc.results) {
        (_, []) => String::new(),
        (Shape::Bytes, _) => ": ArrayBuffer".to_owned(),
        (Shape::Named(names), _) => members(names.iter().map(ToString::to_string).collect()),
        (Shape::Plain | Shape::Account, [one]) => {
            let or_null = if one.may_be_nil { " | null" } else { "" };
            format!(": {}{or_null}", type_name(one.value_type))
        }
        (Shape::Plain | Shape::Account, several) => {
            members(several.iter().map(|one| names::camel_case(one.name)).collect())
        }
    }
}

fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Any => "any",
        ValueType::Boolean => "boolean",
        ValueType::Function => "function",
        ValueType::List => "any[]",
        ValueType::Number => "number",
        ValueType::String => "string",
        ValueType::Table => "object",
    }
}

/// A text with names as they are here: in code all but options (`runtime.…`) and [`KEPT`], and Lua's words for null
/// and objects everywhere.
fn respelled(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| {
        let is_option = part.split_once('.').is_some_and(|(section, _)| {
            !matches!(section, "nk" | "context")
                && section.bytes().all(|it| it.is_ascii_lowercase())
        });
        match index % 2 {
            1 if is_option => part.to_owned(),
            1 => words(part, |word| spelled(word, true)),
            _ => words(part, |word| spelled(word, false)),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

fn spelled(word: &str, is_code: bool) -> String {
    match word {
        "nil" => "null".to_owned(),
        "table" => "object".to_owned(),
        "context" if is_code => "ctx".to_owned(),
        _ if !is_code || !word.contains('_') => word.to_owned(),
        // Ends of names, as of metrics, are no names; functions of Lua alone have none here.
        _ if word.starts_with('_') || KEPT.contains(&word) || names::is_of_lua(word) => {
            word.to_owned()
        }
        _ => names::of_table(word)
            .map_or_else(|| names::camel_case(word), |binding| binding.name.to_owned()),
    }
}

/// A text with every word of letters, digits and underscores changed.
fn words(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = rest.find(|letter| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        changed += &if is_word(first) { change(part) } else { part.to_owned() };
        rest = after;
    }
    // An article stands before what it is now.
    changed.replace(" a object", " an object")
}

#[cfg(test)]
mod tests {
    use game::host::functions;

    use super::*;

    fn of(name: &str) -> Described {
        functions().find(|one| one.name == name).and_then(describe).unwrap()
    }

    #[test]
    fn a_signature_has_the_order_names_and_shapes_of_javascript() {
        let Described { name, signature, meaning } = of("storage_list");
        assert_eq!(name, "storageList");
        let expected = "(userId?: string, collection?: string, limit?: number = 100, cursor?: string, \
                        callerId?: string): { objects: any[], cursor?: string }";
        assert_eq!(signature, expected);
        assert!(meaning.contains("`userId` is null"), "{meaning}");
        let account = of("account_update_id").signature;
        assert!(account.ends_with("metadata?: object)"), "{account}");
        assert_eq!(of("base64_decode").signature.rsplit(": ").next(), Some("ArrayBuffer"));
        assert!(of("sql_exec").signature.ends_with("): { rowsAffected: number }"));
    }

    #[test]
    fn names_are_respelled_in_code_and_options_are_not() {
        let text = "As `storage_read` of `{ user_id? }`: a table or nil, in `nk.uuid_v4` and `runtime.sql_rows_max`, \
                    `nakama_custom_<name>`, `_sum`, `nk.json_encode`, `context.session_id`; user_id.";
        let there = "As `storageRead` of `{ userId? }`: an object or null, in `nk.uuidv4` and `runtime.sql_rows_max`, \
                     `nakama_custom_<name>`, `_sum`, `nk.json_encode`, `ctx.sessionId`; user_id.";
        assert_eq!(respelled(text), there);
    }

    #[test]
    fn what_lua_alone_has_is_not_described() {
        let json = functions().find(|one| one.name == "json_encode").unwrap();
        assert_eq!((name(json), describe(json)), (None, None));
    }
}
