//! Streams: groups of sessions that scripts make, and those of the server.

use crate::host::declare::{Table, functions};
use crate::host::read::{flag, object, records, text, text_or_empty};
use crate::host::streams::{self, meta, session, stream, user};
use crate::stream::SessionId;
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Takes everybody out of a stream; nobody is told. Those of the server cannot be closed.
        /// ```lua
        /// nk.stream_close({ mode = 100, label = "lobby" })
        /// ```
        built stream_close(stream: stream()) = streams::close(host, &stream);
        /// How many sessions are in a stream, hidden ones too.
        /// ```lua
        /// local count = nk.stream_count({ mode = 100, label = "lobby" })
        /// ```
        asks [room] stream_count(stream: stream()) -> (count: u64)
            = streams::count(host, stream) => streams::counted;
        /// Sends text to the members of a stream, or to those of these presences who are members.
        /// Clients get it as `stream_data`. Of what is not reliable nobody gets anything who is
        /// behind with reading.
        /// ```lua
        /// nk.stream_send({ mode = 100, label = "lobby" }, nk.json_encode({ starts_in = 10 }))
        /// ```
        built stream_send(
            stream: stream(), data: text(),
            presences: records("expects a valid set of presences").or_nil(), reliable: flag(true),
        )
            = streams::send(host, args, &stream, (data.into_owned(), &presences, reliable));
        /// As `stream_send`, with any message that a server may send a client, as in the JSON form
        /// of the protocol.
        /// ```lua
        /// local envelope = { stream_data = { stream = { mode = 100, label = "lobby" }, data = "hi" } }
        /// nk.stream_send_raw({ mode = 100, label = "lobby" }, envelope)
        /// ```
        built stream_send_raw(
            stream: stream(), envelope: object("expects envelope to be a table"),
            presences: records("expects a valid set of presences").or_nil(), reliable: flag(true),
        )
            = streams::send_raw(host, args, &stream, (envelope, &presences, reliable));
        /// What there is to know of a session in a stream: `{ hidden, persistence, username, status
        /// }`, or nil.
        /// ```lua
        /// local lobby = { mode = 100, label = "lobby" }
        /// local known = nk.stream_user_get(context.user_id, context.session_id, lobby)
        /// if known then nk.logger_info(known.status) end
        /// ```
        asks [room] stream_user_get(user_id: user(), session_id: session(), stream: stream())
            -> (presence: Option<Table>)
            = streams::find(host, stream, SessionId { user_id, session_id }) => streams::found;
        /// Takes a session of a user into a stream, until it leaves or its socket closes; true if it
        /// was not in it. Members are told by a `stream_presence_event`, of hidden ones nobody. For a
        /// function that is called over a socket, `context.session_id` is that socket's.
        /// ```lua
        /// local lobby = { mode = 100, label = "lobby" }
        /// local is_new = nk.stream_user_join(context.user_id, context.session_id, lobby)
        /// ```
        asks [room] stream_user_join(
            user_id: user(), session_id: session(), stream: stream(), hidden: flag(false),
            persistence: flag(true), status: text_or_empty(),
        ) -> (is_new: bool) = {
            let meta = meta(args, hidden, persistence, &status)?;
            streams::join(host, args, stream, (SessionId { user_id, session_id }, meta))
        } => streams::joined;
        /// As `stream_user_leave`, of a presence `{ user_id, session_id }`.
        /// ```lua
        /// local lobby = { mode = 100, label = "lobby" }
        /// for _, presence in ipairs(nk.stream_user_list(lobby)) do
        ///   if presence.status == "idle" then nk.stream_user_kick(presence, lobby) end
        /// end
        /// ```
        built stream_user_kick(presence: object("expects a valid presence"), stream: stream())
            = streams::leave(host, &stream, streams::kicked(args, presence)?, "kick");
        /// Takes a session out of a stream; the others are told, unless it was hidden. Nothing
        /// happens if it is not in it.
        /// ```lua
        /// local lobby = { mode = 100, label = "lobby" }
        /// nk.stream_user_leave(context.user_id, context.session_id, lobby)
        /// ```
        built stream_user_leave(user_id: user(), session_id: session(), stream: stream())
            = streams::leave(host, &stream, SessionId { user_id, session_id }, "leave");
        /// Who is in a stream, in the order of joining: `{ user_id, session_id, node, hidden,
        /// persistence, username, status }`. Of the server's own, mode 0 with a user as its subject
        /// lists all sockets of the user, mode 1 those that appear online.
        /// ```lua
        /// for _, presence in ipairs(nk.stream_user_list({ mode = 100, label = "lobby" })) do
        ///   nk.logger_info(presence.username .. " " .. presence.status)
        /// end
        /// ```
        asks [room] stream_user_list(
            stream: stream(), include_hidden: flag(true), include_not_hidden: flag(true),
        ) -> (presences: Vec<Value>)
            = streams::list(host, args, stream, (include_hidden, include_not_hidden)) => streams::listed;
        /// As `stream_user_join`, and changes what there is to know of a session that is in the
        /// stream: members are told of the former presence as one that leaves, and of the new one as
        /// one that joins.
        /// ```lua
        /// local lobby = { mode = 100, label = "lobby" }
        /// nk.stream_user_update(context.user_id, context.session_id, lobby, false, false, "ready")
        /// ```
        asks [room] stream_user_update(
            user_id: user(), session_id: session(), stream: stream(), hidden: flag(false),
            persistence: flag(true), status: text_or_empty(),
        ) = {
            let meta = meta(args, hidden, persistence, &status)?;
            streams::update(host, args, stream, (SessionId { user_id, session_id }, meta))
        } => streams::updated;
    }
}
