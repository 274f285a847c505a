//! The tables of calls, messages and functions as JSON, for programs: what the SDKs in `guests/` are made from
//! (`cargo xtask docs`), and what an SDK for another language could be.
//!
//! Not here: the text of anything, which stands in the tables. Names are those of the tables; what is not there is
//! left out.

use game::api::{CallRow, ROWS};
use game::host::{Argument, FunctionKind, Need, ReturnValue, functions};
use serde_json::{Map, Value, json};
use wire::nakama::{FieldType, MessageInfo, realtime};

use super::calls::{gather, sentence};

/// `throng calls --json`: `calls` of the API; `realtime`, what an envelope of the socket may hold; and `messages`, all
/// that both name, each in its package as Nakama has it (`api` or `rtapi`).
pub fn calls() -> String {
    let built = ROWS.iter().filter_map(|row| row.built.as_ref());
    let mut messages: Vec<&'static MessageInfo> = Vec::new();
    let infos = realtime::Message::INFOS;
    built
        .flat_map(|built| [built.request, built.response])
        .for_each(|message| gather(message, &mut messages));
    infos.iter().for_each(|message| gather(message, &mut messages));
    messages.sort_by_key(|message| (package(message), name(message)));
    let envelope = (2..).zip(infos).zip(realtime::NAMES).zip(realtime::Message::FROM_CLIENT);
    let envelope = envelope.map(|(((number, message), name), is_from_client)| {
        json!({ "number": number, "name": name, "message": reference(message), "isFromClient": is_from_client })
    });
    let page = json!({
        "calls": ROWS.iter().map(call).collect::<Vec<_>>(),
        "realtime": envelope.collect::<Vec<_>>(),
        "messages": messages.into_iter().map(message).collect::<Vec<_>>(),
    });
    format!("{page:#}\n")
}

fn call(row: &CallRow) -> Value {
    let routes: Vec<Value> =
        row.routes.iter().map(|it| json!({ "method": it.method, "path": it.path })).collect();
    let mut call = Map::new();
    call.insert("name".into(), row.name.into());
    call.insert("routes".into(), routes.into());
    if let Some(built) = &row.built {
        call.insert("doc".into(), sentence(built.doc).into());
        call.insert("request".into(), reference(built.request));
        call.insert("response".into(), reference(built.response));
    }
    call.into()
}

/// Nakama's package of a message.
fn package(message: &MessageInfo) -> &'static str {
    if message.module.contains("::api") { "api" } else { "rtapi" }
}

/// Its full name, with that of the message within which it is declared.
fn name(message: &MessageInfo) -> String {
    match message.within {
        Some(outer) => format!("{outer}.{}", message.name),
        None => message.name.to_owned(),
    }
}

/// Which message is meant; nothing for one without fields, which Nakama's API has as `google.protobuf.Empty`.
fn reference(message: &MessageInfo) -> Value {
    if message.name == "Empty" {
        return Value::Null;
    }
    json!({ "package": package(message), "name": name(message) })
}

fn message(message: &'static MessageInfo) -> Value {
    let fields = message.fields.iter().map(|field| {
        let mut known = Map::new();
        known.insert("number".into(), field.number.into());
        known.insert("name".into(), field.name.into());
        known.insert("doc".into(), sentence(field.doc).into());
        known.insert("type".into(), field_type(field.kind));
        if let Some(choice) = field.choice {
            known.insert("choice".into(), choice.into());
        }
        Value::Object(known)
    });
    let fields: Vec<Value> = fields.collect();
    let (package, name, doc) = (package(message), name(message), sentence(message.doc));
    json!({ "package": package, "name": name, "doc": doc, "fields": fields })
}

/// A word for what is plain; of a message which it is; of all else what it is of.
fn field_type(of: FieldType) -> Value {
    match of {
        FieldType::Bool => "bool".into(),
        FieldType::Int32 => "int32".into(),
        FieldType::Int64 => "int64".into(),
        FieldType::Double => "double".into(),
        FieldType::Text => "text".into(),
        FieldType::Bytes => "bytes".into(),
        FieldType::Time => "time".into(),
        FieldType::Message(message) => json!({ "message": reference(message) }),
        FieldType::Optional(inner) => json!({ "optional": field_type(*inner) }),
        FieldType::List(inner) => json!({ "list": field_type(*inner) }),
        FieldType::Map(inner) => json!({ "map": field_type(*inner) }),
    }
}

/// `throng functions --json`: all that modules may call by a name.
pub fn host_functions() -> String {
    let all: Vec<Value> = functions()
        .map(|function| {
            let name = function.name;
            match (function.kind, function.doc()) {
                (FunctionKind::Built(doc), _) => json!({
                    "name": name,
                    "kind": "built",
                    "doc": sentence(&doc.meaning()),
                    "arguments": doc.arguments.iter().map(argument).collect::<Vec<_>>(),
                    "results": doc.results.iter().map(result).collect::<Vec<_>>(),
                }),
                (FunctionKind::Language(_), _) => json!({ "name": name, "kind": "language" }),
                (FunctionKind::Missing, _) => json!({ "name": name, "kind": "missing" }),
            }
        })
        .collect();
    format!("{:#}\n", Value::Array(all))
}

fn argument(argument: &Argument) -> Value {
    let Argument { name, value_type, need, .. } = argument;
    let is_required = *need == Need::Required;
    json!({ "name": name, "type": value_type.to_string(), "isRequired": is_required })
}

fn result(result: &ReturnValue) -> Value {
    let ReturnValue { name, value_type, may_be_nil, is_text } = result;
    json!({ "name": name, "type": value_type.to_string(), "mayBeNil": may_be_nil, "isText": is_text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_and_function_is_there_and_every_message_that_is_named() {
        let page: Value = serde_json::from_str(&calls()).unwrap();
        assert_eq!(page["calls"].as_array().unwrap().len(), ROWS.len());
        assert_eq!(page["realtime"].as_array().unwrap().len(), realtime::NAMES.len());
        let messages = page["messages"].as_array().unwrap();
        let named = |package: &str, name: &str| {
            messages.iter().filter(|it| it["package"] == package && it["name"] == name).count()
        };
        for call in page["calls"].as_array().unwrap() {
            for part in [&call["request"], &call["response"]].into_iter().filter(|it| !it.is_null())
            {
                let (package, name) = (part["package"].as_str(), part["name"].as_str());
                assert_eq!(named(package.unwrap(), name.unwrap()), 1, "{part}");
            }
        }
        // Both packages have a `Match`; one message is within another; sockets carry messages of the API.
        assert_eq!(named("api", "Match") + named("rtapi", "Match"), 2);
        assert_eq!(named("rtapi", "MatchmakerMatched.MatchmakerUser"), 1);
        assert_eq!((named("api", "Notification"), named("rtapi", "Notification")), (1, 0));
        let all: Value = serde_json::from_str(&host_functions()).unwrap();
        assert_eq!(all.as_array().unwrap().len(), functions().count());
    }
}
