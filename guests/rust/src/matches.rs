//! Matches: what a game implements, and what it may do in a callback.

use crate::wire::find;
use crate::{Error, Initializer, Result, Value, nk};

/// Somebody in a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Presence {
    /// The user's id.
    pub user_id: String,
    /// The socket's session id.
    pub session_id: String,
    /// The user's name.
    pub username: String,
}

/// Which match it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchContext {
    /// Its id.
    pub match_id: String,
    /// Its label at the moment.
    pub label: String,
}

/// How a match begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Ticks a second, 1 to 60.
    pub tick_rate_hz: u8,
    /// The label.
    pub label: String,
}

/// Who asks to join.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    /// Who.
    pub presence: Presence,
    /// What the client sent along, texts by name.
    pub metadata: Value,
    /// The variables of the session, texts by name.
    pub vars: Value,
}

/// Whether somebody may join; a refusal has a reason.
pub type Verdict = std::result::Result<(), String>;

/// One message of a player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub sender: Presence,
    /// The client's code.
    pub op_code: i64,
    /// What it says.
    pub data: Vec<u8>,
    /// The client's flag.
    pub reliable: bool,
    /// When it was received, unix milliseconds.
    pub receive_time_ms: i64,
}

/// What a match does, besides its answers.
#[derive(Clone, Copy, Debug)]
pub struct Dispatcher(());

impl Dispatcher {
    /// Sends data to these players, or to all; the server seems to be the sender.
    ///
    /// # Errors
    /// The server refuses.
    pub fn broadcast(&self, op_code: i64, data: &[u8], to: Option<&[Presence]>) -> Result<()> {
        self.send("broadcast_message", (op_code, data, to), None)
    }

    /// The same as if `sender` had sent it.
    ///
    /// # Errors
    /// The server refuses.
    pub fn broadcast_from(
        &self,
        op_code: i64,
        data: &[u8],
        to: Option<&[Presence]>,
        sender: &Presence,
    ) -> Result<()> {
        self.send("broadcast_message", (op_code, data, to), Some(sender))
    }

    fn send(
        &self,
        name: &str,
        (op_code, data, to): (i64, &[u8], Option<&[Presence]>),
        sender: Option<&Presence>,
    ) -> Result<()> {
        let sender = sender.map(|presence| {
            let Presence { user_id, session_id, username } = presence;
            Value::List(vec![
                user_id.as_str().into(),
                session_id.as_str().into(),
                username.as_str().into(),
            ])
        });
        let arguments =
            [op_code.into(), data.into(), to.map(sessions).into(), sender.into(), true.into()];
        nk::call(name, &arguments).map(drop)
    }

    /// Removes players.
    ///
    /// # Errors
    /// The server refuses.
    pub fn kick(&self, presences: &[Presence]) -> Result<()> {
        nk::call("match_kick", &[sessions(presences)]).map(drop)
    }

    /// Changes the label.
    ///
    /// # Errors
    /// It is too long.
    pub fn set_label(&self, label: &str) -> Result<()> {
        nk::call("match_label_update", &[label.into()]).map(drop)
    }
}

fn sessions(presences: &[Presence]) -> Value {
    presences.iter().map(|presence| presence.session_id.as_str().into()).collect::<Vec<_>>().into()
}

/// A match. An error of a callback ends it and disconnects its players; `false` ends it quietly.
pub trait Match {
    /// Somebody asks to join.
    ///
    /// # Errors
    /// The match ends.
    fn join_attempt(&mut self, context: &MatchContext, join: &Join) -> Result<Verdict> {
        let _ = (context, join);
        Ok(Ok(()))
    }

    /// These have joined.
    ///
    /// # Errors
    /// The match ends.
    fn join(&mut self, dispatcher: Dispatcher, tick: i64, who: &[Presence]) -> Result<bool>;

    /// These have left.
    ///
    /// # Errors
    /// The match ends.
    fn leave(&mut self, dispatcher: Dispatcher, tick: i64, who: &[Presence]) -> Result<bool>;

    /// A tick, with what players have sent since the one before.
    ///
    /// # Errors
    /// The match ends.
    fn tick(&mut self, dispatcher: Dispatcher, tick: i64, messages: &[Message]) -> Result<bool>;

    /// Somebody asks the match something; `None` ends it.
    ///
    /// # Errors
    /// The match ends.
    fn signal(
        &mut self,
        dispatcher: Dispatcher,
        tick: i64,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let _ = (dispatcher, tick, data);
        Ok(Some(Vec::new()))
    }

    /// The server stops, in so many seconds.
    ///
    /// # Errors
    /// The match ends.
    fn terminate(&mut self, dispatcher: Dispatcher, tick: i64, grace_s: i64) -> Result<bool> {
        let _ = (dispatcher, tick, grace_s);
        Ok(true)
    }
}

/// The match of this instance.
pub(crate) type Running = Box<dyn Match>;

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn presence(parts: &[Value]) -> Presence {
    let [user_id, session_id, username] = [0, 1, 2].map(|index| text(parts.get(index)));
    Presence { user_id, session_id, username }
}

fn message(parts: &Value) -> Message {
    let parts = parts.items();
    let data = match parts.get(4) {
        Some(Value::Bytes(data)) => data.clone(),
        _ => Vec::new(),
    };
    Message {
        sender: presence(parts),
        op_code: parts.get(3).and_then(Value::as_int).unwrap_or_default(),
        data,
        reliable: parts.get(5).and_then(Value::as_bool).unwrap_or_default(),
        receive_time_ms: parts.get(6).and_then(Value::as_int).unwrap_or_default(),
    }
}

/// Runs a callback.
pub(crate) fn call(
    registered: &Initializer,
    running: &mut Option<Running>,
    (kind, name): (&str, &str),
    context: Value,
    arguments: Vec<Value>,
) -> Result<Value> {
    let context = MatchContext {
        match_id: text(context.get("match_id")),
        label: text(context.get("match_label")),
    };
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().unwrap_or_default();
    let tick = next().as_int().unwrap_or_default();
    if kind == "match_init" {
        let (game, opened) = find(&registered.matches, name)?(&context, next())?;
        *running = Some(game);
        return Ok(vec![i64::from(opened.tick_rate_hz).into(), opened.label.into()].into());
    }
    let game = running.as_mut().ok_or_else(|| Error::from("no match runs here"))?;
    let dispatcher = Dispatcher(());
    let who = |value: Value| -> Vec<Presence> {
        value.items().iter().map(|parts| presence(parts.items())).collect()
    };
    match kind {
        "match_join_attempt" => {
            let (asker, metadata) = (next(), next());
            let vars = asker.items().get(3).cloned().unwrap_or_default();
            let join = Join { presence: presence(asker.items()), metadata, vars };
            let verdict = game.join_attempt(&context, &join)?;
            let reason = verdict.as_ref().err().cloned().unwrap_or_default();
            Ok(vec![verdict.is_ok().into(), reason.into()].into())
        }
        "match_join" => game.join(dispatcher, tick, &who(next())).map(Value::from),
        "match_leave" => game.leave(dispatcher, tick, &who(next())).map(Value::from),
        "match_loop" => {
            let messages: Vec<Message> = next().items().iter().map(message).collect();
            game.tick(dispatcher, tick, &messages).map(Value::from)
        }
        "match_signal" => {
            let Value::Bytes(data) = next() else { return Err("a signal without data".into()) };
            Ok(game.signal(dispatcher, tick, &data)?.map_or(Value::Nil, Value::Bytes))
        }
        "match_terminate" => {
            let grace_s = next().as_int().unwrap_or_default();
            game.terminate(dispatcher, tick, grace_s).map(Value::from)
        }
        _ => Err(format!("this module knows no {kind}").into()),
    }
}
