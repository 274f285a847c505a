//! The made parts of the SDK for Rust: messages, calls and functions, as lists that macros of the crate read
//! (`guests/rust/src/message.rs`, `hooks.rs`, `nk.rs`).
//!
//! What is deliberately not here: code, which those macros have.

use std::fmt::Write as _;

use anyhow::Context as _;

use super::{
    Argument, Function, Kind, MADE, Message, Outcome, Reference, Table, camel, plain, snake,
};

/// The name of a type: a message within another has its own.
fn type_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Names that Rust has taken, and what stands in their place, as in the server.
fn field_name(name: &str) -> &str {
    match name {
        "self" => "own",
        "type" => "kind",
        name => name,
    }
}

fn value_type(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".to_owned(),
        Kind::Int32 => "i32".to_owned(),
        Kind::Int64 => "i64".to_owned(),
        Kind::Double => "f64".to_owned(),
        Kind::Text => "String".to_owned(),
        Kind::Bytes => "Bytes".to_owned(),
        Kind::Time => "Timestamp".to_owned(),
        Kind::Message(None) => "()".to_owned(),
        Kind::Message(Some(message)) => type_name(&message.name).to_owned(),
        Kind::Optional(inner) => format!("Option<{}>", value_type(inner)),
        Kind::List(inner) => format!("Vec<{}>", value_type(inner)),
        Kind::Map(inner) => format!("BTreeMap<String, {}>", value_type(inner)),
    }
}

/// Module `api` or `rtapi`.
///
/// # Errors
/// The table cannot be read.
pub fn package(json: &[u8], package: &str) -> anyhow::Result<String> {
    let table = Table::read(json)?;
    let mut body = "messages! {\n".to_owned();
    for message in table.package(package) {
        text_of(&mut body, message);
    }
    body.push_str("}\n");
    let mut others: Vec<&Reference> = Vec::new();
    let within =
        table.package(package).flat_map(|it| &it.fields).filter_map(|it| it.kind.message());
    others.extend(within);
    if package == "rtapi" {
        body.push_str("\nenvelope! {\n");
        for entry in &table.realtime {
            let (variant, name) = (camel(&entry.name), &entry.name);
            // Writing to a String cannot fail.
            let _ = writeln!(body, "    {variant}({}) \"{name}\",", type_name(&entry.message.name));
        }
        body.push_str("}\n");
        others.extend(table.realtime.iter().map(|entry| &entry.message));
    }
    others.retain(|message| message.package != package);
    others.sort_unstable();
    others.dedup();
    let about = match package {
        "api" => "The messages of Nakama's API, of those calls that throng has.",
        _ => "The messages of Nakama's socket, and the envelope of each.",
    };
    let mut head = format!("//! {about} {MADE}\n\nuse std::collections::BTreeMap;\n\n");
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|message| type_name(&message.name)).collect();
        let _ = writeln!(head, "use crate::api::{{{}}};", names.join(", "));
    }
    let mut used: Vec<&str> =
        ["Bytes", "Timestamp"].into_iter().filter(|it| body.contains(it)).collect();
    if package == "rtapi" {
        used.push("envelope");
    }
    used.push("messages");
    let _ = writeln!(head, "use crate::message::{{{}}};\n", used.join(", "));
    Ok(head + &body)
}

fn text_of(body: &mut String, message: &Message) {
    let _ = writeln!(body, "    /// {}\n    {} {{", plain(&message.doc), type_name(&message.name));
    for field in &message.fields {
        let (name, kind) = (field_name(&field.name), value_type(&field.kind));
        let _ = writeln!(
            body,
            "        /// {}\n        {name}: {kind} = \"{}\",",
            plain(&field.doc),
            field.name
        );
    }
    body.push_str("    }\n");
}

/// The calls of the API, for `hooks!`.
///
/// # Errors
/// The table cannot be read.
pub fn calls(json: &[u8]) -> anyhow::Result<String> {
    let table = Table::read(json)?;
    let mut page = format!("//! The calls of Nakama's API that throng has. {MADE}\n\n");
    page.push_str(
        "/// Gives each call of the API to a macro: its name, the names of the two functions of\n\
         /// [`Initializer`](crate::Initializer) for hooks, its request and its answer, if it has them.\n\
         #[macro_export]\nmacro_rules! every_call {\n    ($with:ident) => {\n        $with! {\n",
    );
    for call in table.built() {
        let (name, snake) = (&call.name, snake(&call.name));
        let message = |of: &Option<Reference>| {
            of.as_ref().map_or(String::new(), |it| type_name(&it.name).to_owned())
        };
        let (request, response) = (message(&call.request), message(&call.response));
        let doc = call.doc.as_deref().map(plain).unwrap_or_default();
        let _ = writeln!(page, "            /// {doc}");
        let _ = writeln!(
            page,
            "            {name} before_{snake} after_{snake} ({request}) ({response});"
        );
    }
    page.push_str("        }\n    };\n}\n");
    Ok(page)
}

fn argument_type(argument: &Argument) -> String {
    match (argument.kind.as_str(), argument.is_required) {
        ("string", true) => "impl Text".to_owned(),
        ("string", false) => "Option<&str>".to_owned(),
        ("number", true) => "impl Number".to_owned(),
        ("number", false) => "Option<i64>".to_owned(),
        ("boolean", true) => "bool".to_owned(),
        ("boolean", false) => "Option<bool>".to_owned(),
        ("list", true) => "Vec<Value>".to_owned(),
        ("list", false) => "Option<Vec<Value>>".to_owned(),
        (_, true) => "Value".to_owned(),
        (_, false) => "Option<Value>".to_owned(),
    }
}

fn result_type(result: &Outcome) -> String {
    let of = match (result.kind.as_str(), result.is_text) {
        ("string", true) => "String",
        ("string", false) => "Vec<u8>",
        ("number", _) => "i64",
        ("boolean", _) => "bool",
        ("list", _) => "Vec<Value>",
        _ => "Value",
    };
    // Nothing is a value of its own.
    if result.may_be_nil && of != "Value" { format!("Option<{of}>") } else { of.to_owned() }
}

/// The functions of the server, for `server_functions!`.
///
/// # Errors
/// The table cannot be read.
pub fn functions(json: &[u8]) -> anyhow::Result<String> {
    let all: Vec<Function> = serde_json::from_slice(json).context("the table of functions")?;
    let mut page = format!(
        "//! The server's functions by name. {MADE}\n\nuse super::{{Number, Text, server_functions}};\nuse crate::Value;\n\n\
         server_functions! {{\n"
    );
    for function in &all {
        let Some(doc) = &function.doc else { continue };
        let arguments = function.arguments.iter();
        let arguments: Vec<_> =
            arguments.map(|it| format!("{}: {}", it.name, argument_type(it))).collect();
        let results: Vec<_> = function.results.iter().map(result_type).collect();
        let results = results.join(", ");
        let _ = writeln!(page, "    /// {}", plain(doc));
        let _ = writeln!(page, "    {}({}) -> ({results});", function.name, arguments.join(", "));
    }
    page.push_str("}\n");
    Ok(page)
}
