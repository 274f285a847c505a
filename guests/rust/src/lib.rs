//! What a game's server code in Rust is written with. It is built for `wasm32-wasip1` as a `cdylib`, put into
//! the folder of the server's modules, and run by throng under budgets of time and memory.
//!
//! ```ignore
//! use throng_guest::{Context, Initializer, Result};
//!
//! throng_guest::module!(init_module);
//!
//! fn init_module(initializer: &mut Initializer) -> Result<()> {
//!     initializer.register_rpc("hello", |context: &Context, payload| {
//!         Ok(format!("{{\"hello\":\"{}\",\"payload\":{payload}}}", context.username()))
//!     })
//! }
//! ```
//!
//! [`nk`] has the server's functions, under the names of Nakama's Lua; [`Initializer`] takes RPC functions, hooks with
//! the messages of [`api`] and [`rtapi`], and matches ([`Match`]). What is not here: threads, files, sockets and sleep,
//! which a guest does not have.

pub mod api;
mod calls;
mod hooks;
mod matches;
mod message;
pub mod nk;
pub mod rtapi;
mod value;
#[doc(hidden)]
pub mod wire;
mod zone;

use std::cell::OnceCell;
use std::fmt;

pub use matches::{Dispatcher, Join, Match, MatchContext, Message, Opened, Presence, Verdict};
pub use message::{ApiMessage, Bytes, Timestamp};
pub use value::{BadValue, Value};
pub use zone::{Zone, ZoneHit, ZoneKill, ZonePilot, ZoneShip, ZoneSpawn};

/// Why a function of the game refuses: a gRPC code from 1 to 16, and the text that clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code; 13, internal, says nothing more.
    pub code: u8,
    /// The text.
    pub message: String,
    /// The function of the game that has returned it, for the server's log.
    place: Option<&'static str>,
}

impl Error {
    /// An error with this code and text.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None }
    }

    /// The error as of this function, unless it is known to be of another.
    pub(crate) fn of(self, place: &'static str) -> Self {
        Self { place: self.place.or(Some(place)), ..self }
    }

    pub(crate) fn place(&self) -> &'static str {
        self.place.unwrap_or_default()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::new(13, message)
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::new(13, message)
    }
}

/// What functions of the game return.
pub type Result<T> = std::result::Result<T, Error>;

/// Who calls, and how. What is not known is empty.
#[derive(Clone, Debug, Default)]
pub struct Context {
    bytes: Vec<u8>,
    /// What the bytes are, once somebody has asked for some of it.
    value: OnceCell<Value>,
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Context {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, value: OnceCell::new() }
    }

    fn text(&self, name: &str) -> &str {
        self.value().get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The user's id.
    pub fn user_id(&self) -> &str {
        self.text("user_id")
    }

    /// The user's name.
    pub fn username(&self) -> &str {
        self.text("username")
    }

    /// The socket's session id, for calls over a socket.
    pub fn session_id(&self) -> &str {
        self.text("session_id")
    }

    /// The caller's address.
    pub fn client_ip(&self) -> &str {
        self.text("client_ip")
    }

    /// A variable of the session.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.value().get("vars")?.get(name)?.as_str()
    }

    /// All of it.
    pub fn value(&self) -> &Value {
        // Bytes that are no value have nothing in them: the server writes none.
        self.value.get_or_init(|| Value::decode(&self.bytes).unwrap_or_default())
    }
}

type Rpc = Placed<dyn Fn(&Context, &str) -> Result<String>>;
type Before = Placed<dyn Fn(&Context, Value) -> Result<Option<Value>>>;
type After = Placed<dyn Fn(&Context, Value, Value) -> Result<()>>;
type Event = Placed<dyn Fn(&Context, Value) -> Result<()>>;
type Rule = Placed<dyn Fn(&Context, Value) -> Result<Value>>;
type NewMatch = Box<dyn Fn(&MatchContext, Value) -> Result<(Box<dyn Match>, Opened)>>;

/// A function of the game, and its name, which errors tell. It is called through a pointer, so that it stands under its own
/// name in the stack of a trap.
pub(crate) struct Placed<F: ?Sized> {
    pub(crate) function: Box<F>,
    pub(crate) place: &'static str,
}

/// The name of a function, or of the function in which it stands.
pub(crate) fn name_of<F>(_: &F) -> &'static str {
    std::any::type_name::<F>()
}

/// Takes what the game has for the server to call.
#[derive(Default)]
pub struct Initializer {
    pub(crate) rpc: Vec<(String, Rpc)>,
    pub(crate) before: Vec<(String, Before)>,
    pub(crate) after: Vec<(String, After)>,
    pub(crate) events: Vec<(String, Event)>,
    pub(crate) rules: Vec<(String, Rule)>,
    pub(crate) matches: Vec<(String, NewMatch)>,
}

impl fmt::Debug for Initializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initializer").finish_non_exhaustive()
    }
}

impl Initializer {
    fn register(kind: &str, name: &str) -> Result<()> {
        nk::call("register", &[kind.into(), name.into()]).map(drop)
    }

    /// Makes a function callable by clients under this id, in any case.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn register_rpc(
        &mut self,
        id: &str,
        function: impl Fn(&Context, &str) -> Result<String> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        self.rpc.push((id.to_lowercase(), Placed { function: Box::new(function), place }));
        Self::register("rpc", id)
    }

    /// Runs a function before each API call of this name, such as `UpdateAccount`, or socket message,
    /// such as `rt:MatchCreate`. It returns the request, changed or not; `None` refuses it.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn register_before(
        &mut self,
        call: &str,
        function: impl Fn(&Context, Value) -> Result<Option<Value>> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        self.before.push((call.to_lowercase(), Placed { function: Box::new(function), place }));
        Self::register("before", call)
    }

    /// Runs a function after each call of this name, with the answer and the request.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn register_after(
        &mut self,
        call: &str,
        function: impl Fn(&Context, Value, Value) -> Result<()> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        self.after.push((call.to_lowercase(), Placed { function: Box::new(function), place }));
        Self::register("after", call)
    }

    /// Runs a function for `event`, `event_session_start`, `event_session_end` or `shutdown`.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn register_event(
        &mut self,
        name: &str,
        function: impl Fn(&Context, Value) -> Result<()> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        self.events.push((name.to_owned(), Placed { function: Box::new(function), place }));
        Self::register("event", name)
    }

    /// Makes matches of this name possible. Each runs in an instance of the module of its own.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn register_match<M: Match + 'static>(
        &mut self,
        name: &str,
        open: impl Fn(&MatchContext, Value) -> Result<(M, Opened)> + 'static,
    ) -> Result<()> {
        let open = move |context: &MatchContext, params| {
            let opened = open(context, params);
            let (game, opened) = opened.map_err(|error| error.of(name_of(&open)))?;
            Ok((Box::new(game) as Box<dyn Match>, opened))
        };
        self.matches.push((name.to_owned(), Box::new(open)));
        Self::register("match", name)
    }
}

/// Makes a module of a function `fn(&mut Initializer) -> Result<()>`, which runs once in every instance: it
/// registers what the game has, and leaves the rest to the calls.
#[macro_export]
macro_rules! module {
    ($init:path) => {
        /// The version of the convention that this module speaks.
        #[unsafe(no_mangle)]
        pub extern "C" fn throng_version() -> u32 {
            $crate::wire::VERSION
        }

        /// Runs a call of `length` bytes.
        #[unsafe(no_mangle)]
        pub extern "C" fn throng_call(length: u32) -> u32 {
            $crate::wire::serve(length, $init)
        }
    };
}
