//! The table of calls in print: `docs/api.md`, and the reference for a terminal.
//!
//! What is deliberately not here: any call's or field's text, which stands in the table
//! (`pure/game/src/api/table.rs`) and in the messages' declarations (`pure/wire/src/nakama`).

use std::fmt::Write as _;

use anyhow::bail;
use game::api::{Auth, Body, Built, CallLane, CallRow, ROWS};
use game::nearest::did_you_mean;
use wire::nakama::{FieldType, MessageInfo, realtime};

const INTRODUCTION: &str = "\
<!-- Made by `cargo xtask docs` from pure/game/src/api/table.rs and pure/wire/src/nakama/. Change
them, not this page. -->

# API

The calls and messages of Nakama 3.40 that throng answers, and those that it does not answer yet.
Clients use an SDK of Nakama and need none of this; hooks see these messages. `throng calls WORD`
prints a call in a terminal.

Names are written in snake_case, and read in camelCase as well; what is zero or empty is left out,
save for fields that *may be unset*. A 64-bit number is a string, a time is RFC 3339, bytes are base64.
Fields that a table marks with the query stand there; names in braces are a part of the path. An answer that
is an error has a body of `code` (gRPC's) and `message`, and the HTTP status that belongs to the code.

A call shows the server's key (HTTP Basic, `socket.server_key` as the user) or a session's token (Bearer).
What is said of where it runs: *core*, in memory; *read* and *write*, in the database's batches;
*slow*, on the thread for passwords.

Beside the calls: `GET /` and `GET /healthcheck` (200), `GET /ws` (the socket),
`GET` and `POST /v2/rpc/{id}` (functions of scripts, with a session's token or `runtime.http_key`), and
`POST /v2/runtime/reload` (the modules are loaded again, with `runtime.reload_key`: [reload.md](reload.md)).

Over gRPC, one port below, each call is the method of its name of the service `nakama.api.Nakama`, with its
messages in protobuf by the numbers below, its credentials in the metadata `authorization`, and its error as
code and text of the status. Functions of scripts are `RpcFunc`, with the key in the message; `Healthcheck` needs
no credentials. All calls are unary; those that are not built answer UNIMPLEMENTED, as do health checks and reflection,
which Nakama does not serve either. What shows it: `dev/e2e/grpc.test.mjs` (every call, with the Go client that Nakama
publishes), `dev/e2e/grpc_js.test.mjs` (node's client), and against hostile clients `dev/e2e/attack/grpc.test.mjs` and
`http2.test.mjs`. REST is JSON whatever a
request's Content-Type says, as in Nakama, whose gateway knows nothing else; its bodies may be compressed (gzip,
deflate), and its answers are for who accepts gzip.
";

/// `docs/api.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut area = "";
    let mut messages: Vec<&MessageInfo> = Vec::new();
    for (row, built) in built() {
        if area != row.area {
            area = row.area;
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {area}\n");
        }
        let _ = write!(page, "\n### {}\n\n{}\n\n", row.name, sentence(built.doc));
        for route in row.routes {
            let _ = writeln!(page, "- `{} {}`", route.method, route.path);
        }
        let _ = writeln!(page, "- shows {}; {}", shown(built.auth), lane(built.lane));
        let _ = writeln!(page, "- request: {}", request(built));
        let _ = writeln!(page, "- answer: {}", link(built.response));
        for message in [built.request, built.response] {
            gather(message, &mut messages);
        }
    }
    messages.sort_by_key(|message| message.name);
    page += "\n## Messages\n";
    for message in messages.into_iter().filter(|message| !message.fields.is_empty()) {
        message_text(&mut page, message);
    }
    page += "\n## Messages of the socket\n\nEach in an envelope: an object with `cid`, which joins an \
             answer to its request, and the message under its name.\n\n| number | name | sent by |\n|---|---|---|\n";
    for ((number, name), is_from_client) in
        (2..).zip(realtime::NAMES).zip(realtime::Message::FROM_CLIENT)
    {
        let by = if *is_from_client { "client" } else { "server" };
        let _ = writeln!(page, "| {number} | `{name}` | {by} |");
    }
    page += "\n## Not built yet\n\nThese are answered with code 12 (501), which says so.\n\n\
             | call | route | missing |\n|---|---|---|\n";
    for row in ROWS.iter().filter(|row| row.built.is_none()) {
        let routes: Vec<_> =
            row.routes.iter().map(|it| format!("`{} {}`", it.method, it.path)).collect();
        let missing = row.area.trim_end_matches(" are").trim_end_matches(" is");
        let _ = writeln!(page, "| {} | {} | {missing} |", row.name, routes.join(", "));
    }
    page
}

/// The reference for a terminal: the calls with `word` in their name.
///
/// # Errors
/// If there is no such name.
pub fn text(word: &str) -> anyhow::Result<String> {
    let is_meant =
        |row: &&CallRow| row.name.to_ascii_lowercase().contains(&word.to_ascii_lowercase());
    let mut page = String::new();
    for row in ROWS.iter().filter(is_meant) {
        for route in row.routes {
            let _ = writeln!(page, "{:<6} {:<48} {}", route.method, route.path, row.name);
        }
        let Some(built) = &row.built else {
            let _ = writeln!(page, "    {} not implemented in throng yet.\n", row.area);
            continue;
        };
        let _ = writeln!(page, "    {} Shows {}.", sentence(built.doc), shown(built.auth));
        for (what, message) in [("request", built.request), ("answer", built.response)] {
            let _ = writeln!(page, "    {what}: {}", message.name);
            for field in message.fields {
                let (name, kind) = (field.name, kind(field.kind).replace('`', ""));
                let _ = writeln!(page, "        {name:<16} {kind:<24} {}", sentence(field.doc));
            }
        }
        page.push('\n');
    }
    if page.is_empty() {
        bail!(
            "no call has `{word}` in its name{}",
            did_you_mean(word, ROWS.iter().map(|it| it.name))
        );
    }
    Ok(page)
}

fn built() -> impl Iterator<Item = (&'static CallRow, &'static Built)> {
    ROWS.iter().filter_map(|row| Some((row, row.built.as_ref()?)))
}

/// Documentation as one paragraph: comments have a line each, and links to other items.
pub(super) fn sentence(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(auth: Auth) -> &'static str {
    match auth {
        Auth::ServerKey => "the server's key",
        Auth::Bearer => "a session's token",
    }
}

fn lane(lane: CallLane) -> &'static str {
    match lane {
        CallLane::Core => "core",
        CallLane::Read => "read",
        CallLane::Write => "write",
        CallLane::Slow => "slow",
    }
}

fn link(message: &MessageInfo) -> String {
    if message.fields.is_empty() {
        return "nothing (`{}`)".to_owned();
    }
    format!("[{}](#{})", message.name, message.name.to_lowercase())
}

fn request(built: &Built) -> String {
    let message = link(built.request);
    match built.body {
        _ if built.request.fields.is_empty() => "nothing".to_owned(),
        Body::None => format!("{message}, in the query"),
        Body::Whole => format!("{message}, as the body"),
        Body::Field(field) => format!("{message}; `{field}` is the body, the rest in the query"),
    }
}

/// The message and those that it has within it, each once.
pub(super) fn gather(message: &'static MessageInfo, messages: &mut Vec<&'static MessageInfo>) {
    // Both packages of Nakama have a `Match`.
    if messages.iter().any(|known| known.name == message.name && known.module == message.module) {
        return;
    }
    messages.push(message);
    for field in message.fields {
        let mut kind = field.kind;
        while let FieldType::Optional(inner) | FieldType::List(inner) | FieldType::Map(inner) = kind
        {
            kind = *inner;
        }
        if let FieldType::Message(inner) = kind {
            gather(inner, messages);
        }
    }
}

fn message_text(page: &mut String, message: &MessageInfo) {
    let _ = write!(page, "\n### {}\n\n{}\n\n", message.name, sentence(message.doc));
    *page += "| number | field | type | meaning |\n|---|---|---|---|\n";
    for field in message.fields {
        let (number, name) = (field.number, field.name);
        let _ = writeln!(
            page,
            "| {number} | `{name}` | {} | {} |",
            kind(field.kind),
            sentence(field.doc)
        );
    }
}

fn kind(of: FieldType) -> String {
    match of {
        FieldType::Bool => "boolean".to_owned(),
        FieldType::Int32 => "number".to_owned(),
        FieldType::Int64 => "64-bit number".to_owned(),
        FieldType::Double => "number with a fraction".to_owned(),
        FieldType::Text => "text".to_owned(),
        FieldType::Bytes => "bytes".to_owned(),
        FieldType::Time => "time".to_owned(),
        FieldType::Message(message) => format!("`{}`", message.name),
        // Messages and times may always be unset; only of values it has to be said.
        FieldType::Optional(inner) => match inner {
            FieldType::Message(_) | FieldType::Time => kind(*inner),
            _ => format!("{}, may be unset", kind(*inner)),
        },
        FieldType::List(inner) => format!("list of {}", kind(*inner)),
        FieldType::Map(inner) => format!("names with {}", kind(*inner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == markdown(), "docs/api.md is out of date: run `cargo xtask docs`");
    }

    #[test]
    fn every_call_and_message_stands_on_the_page_and_is_found_in_the_terminal() {
        let page = markdown();
        for row in ROWS {
            let shown = match &row.built {
                Some(_) => format!("\n### {}\n", row.name),
                None => format!("\n| {} | ", row.name),
            };
            assert!(page.contains(&shown), "{}", row.name);
            assert!(text(row.name).unwrap().contains(row.name));
        }
        for name in realtime::NAMES {
            assert!(page.contains(&format!(" | `{name}` | ")), "{name}");
        }
        assert!(page.contains("| 2 | `create` | boolean, may be unset |"));
        let error = text("GetAcount").unwrap_err().to_string();
        assert!(error.contains("did you mean `GetAccount`"), "{error}");
    }
}
