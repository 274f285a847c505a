//! Scenarios: what virtual players do, as TOML files with the field's nouns.
//!
//! Only the form is known here; `program` turns a scenario into steps that can be run. Unknown
//! keys are errors, so that a misspelt threshold cannot pass in silence.

pub mod data;
mod form_error;
pub(crate) mod mark;
pub(crate) mod path;
pub(crate) mod program;
pub(crate) mod template;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};

pub use crate::measure::arrivals::Process;
pub use crate::measure::span::{BadSpan, Span};

/// Bytes of a scenario file, at most.
pub const SCENARIO_BYTES_MAX: usize = 256 * 1024;

/// The scenarios that are built into the binary, by name: the files of `scenarios/`.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("plaintext", include_str!("../../../../scenarios/plaintext.toml")),
    ("json", include_str!("../../../../scenarios/json.toml")),
    ("ws-echo", include_str!("../../../../scenarios/ws-echo.toml")),
    ("ccu", include_str!("../../../../scenarios/ccu.toml")),
    ("register", include_str!("../../../../scenarios/register.toml")),
    ("authenticate", include_str!("../../../../scenarios/authenticate.toml")),
    ("rpc-lua", include_str!("../../../../scenarios/rpc-lua.toml")),
    ("rpc-json", include_str!("../../../../scenarios/rpc-json.toml")),
    ("rpc-write", include_str!("../../../../scenarios/rpc-write.toml")),
    ("transfer", include_str!("../../../../scenarios/transfer.toml")),
    ("transfer-ws", include_str!("../../../../scenarios/transfer-ws.toml")),
    ("rpc-js", include_str!("../../../../scenarios/rpc-js.toml")),
    ("rpc-go", include_str!("../../../../scenarios/rpc-go.toml")),
    ("ws-broadcast", include_str!("../../../../scenarios/ws-broadcast.toml")),
    ("ws-room", include_str!("../../../../scenarios/ws-room.toml")),
    ("ws-room-8", include_str!("../../../../scenarios/ws-room-8.toml")),
    ("match", include_str!("../../../../scenarios/match.toml")),
    ("zone", include_str!("../../../../scenarios/zone.toml")),
    ("zone-churn", include_str!("../../../../scenarios/zone-churn.toml")),
];

/// The text of a built-in scenario.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// One scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as on the command line.
    pub name: String,
    /// One line for the head of a report.
    pub title: String,
    /// What it does, for the report's reader.
    #[serde(default)]
    pub about: String,
    /// What the server must have for it.
    #[serde(default)]
    pub needs: String,
    /// Virtual players, unless `--players` says otherwise; ignored with phases.
    #[serde(default = "default_players")]
    pub players: u32,
    /// Rate of the paced loops, unless `--rate` says otherwise; see [`Session::pace`].
    pub rate: Option<f64>,
    /// What the rate becomes, evenly, until the counted time ends, unless `--rate-end` says
    /// otherwise.
    pub rate_end: Option<f64>,
    /// Time over which the players come, unless there are phases. Zero: as fast as the target
    /// accepts them.
    #[serde(default)]
    pub ramp: Span,
    /// How many requests stand in one write, for a loop of one HTTP step; `--pipeline`.
    #[serde(default = "one")]
    pub pipeline: u16,
    /// How long an operation may take before it counts as failed.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// The operation that the headline is about; the first of the first loop by default.
    pub headline: Option<String>,
    /// Values for `${name}`, each changed by `--set name=value`.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Arrivals over time: players come, do their session once and go.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
    /// Files whose rows are values for `${name.column}`.
    #[serde(default)]
    pub data: Vec<data::Data>,
    /// What players do.
    #[serde(rename = "session")]
    pub sessions: Vec<Session>,
    /// Conditions on the result, as with `--expect`.
    #[serde(default)]
    pub thresholds: Vec<String>,
}

/// One span of the arrival schedule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// For the reader.
    #[serde(default)]
    pub name: String,
    /// How long it lasts.
    pub duration: Span,
    /// Players that arrive a second.
    pub arrivals: f64,
    /// How the arrivals are spaced.
    #[serde(default)]
    pub process: Process,
    /// The most players that this phase lets in; those above do not come at all.
    pub players_max: Option<u32>,
}

/// What one kind of player does: `first` once, `loop` again and again, `last` once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// For the reader.
    pub name: String,
    /// So many players do this session, the first ones to come, whatever the weights.
    pub count: Option<u32>,
    /// Share of the players, relative to the other sessions' weights.
    #[serde(default = "one_f64")]
    pub weight: f64,
    /// How the loop is paced in the open loop.
    #[serde(default)]
    pub pace: Pace,
    /// Whether a beat is one round of the loop or one step of it.
    #[serde(default)]
    pub beat: Beat,
    /// How the beats are spaced.
    #[serde(default)]
    pub process: Process,
    /// How often the loop is done; for ever by default, or until the run ends.
    pub rounds: Option<u32>,
    /// How long the loop is done.
    pub lasts: Option<Span>,
    /// While a socket is open, a Nakama ping is sent this often.
    pub ping_every: Option<Span>,
    /// `first` is done again this often, between two rounds: for credentials that expire.
    pub renew_every: Option<Span>,
    /// Steps done once, before the loop.
    #[serde(default)]
    pub first: Vec<StepForm>,
    /// Steps repeated.
    #[serde(default, rename = "loop")]
    pub repeated: Vec<StepForm>,
    /// Steps done once, after the loop.
    #[serde(default)]
    pub last: Vec<StepForm>,
}

/// What the rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Beats a second of all players together.
    #[default]
    All,
    /// Beats a second of each player.
    Player,
    /// No pace: each round begins when the last is done, think time apart.
    None,
}

/// What one beat is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beat {
    /// All steps of the loop.
    #[default]
    Round,
    /// The next step of the loop.
    Step,
}

/// One step as written; exactly one of `get`, `post`, `put`, `delete`, `connect`, `send`,
/// `send_binary`, `publish`, `match_send`, `zone_join`, `zone_datagrams`, `zone_fly`, `think`, `close` says what it does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepForm {
    /// Name in the tables; steps of one name are one operation.
    pub op: Option<String>,
    /// HTTP target of a GET.
    pub get: Option<String>,
    /// HTTP target of a POST.
    pub post: Option<String>,
    /// HTTP target of a PUT.
    pub put: Option<String>,
    /// HTTP target of a DELETE.
    pub delete: Option<String>,
    /// WebSocket target; the connection becomes a socket.
    pub connect: Option<String>,
    /// Text frame.
    pub send: Option<String>,
    /// Binary frame of so many bytes, at least 8: the number of the message, then its pattern.
    pub send_binary: Option<u32>,
    /// Binary frame of so many bytes that carries sender, number and time, and that the server sends
    /// to all who are connected.
    pub publish: Option<u32>,
    /// A Nakama match message whose payload carries sender, number and time.
    pub match_send: Option<MatchSend>,
    /// Joins the zone whose id was captured as `match`, over a socket that speaks protobuf; done when
    /// the player has its ship.
    pub zone_join: Option<bool>,
    /// Asks for datagrams beside the socket; from then on controls and snapshots go by them, as far as they may. Done
    /// when they come through. Behind `zone_join`.
    pub zone_datagrams: Option<bool>,
    /// Steers the ship once, and acknowledges snapshots: a word of [`Fleet`], or a variable that is one.
    pub zone_fly: Option<String>,
    /// Waits so long.
    pub think: Option<Think>,
    /// Closes the connection.
    pub close: Option<bool>,
    /// Credentials of an HTTP step.
    #[serde(default)]
    pub auth: Auth,
    /// Body of an HTTP step.
    pub body: Option<String>,
    /// Further headers of an HTTP step or a handshake.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Statuses that are a success; 200 by default.
    #[serde(default)]
    pub expect: Vec<u16>,
    /// Headers that an HTTP answer has to have.
    #[serde(default)]
    pub required: Vec<String>,
    /// Text that the answer has to contain.
    pub contains: Option<String>,
    /// What answers a frame.
    #[serde(default, rename = "await")]
    pub awaited: Await,
    /// Values to take out of the answer: name = path.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// Whether the operation counts; preparation does not, but its errors do.
    pub counted: Option<bool>,
    /// What a failure means for the player.
    #[serde(default)]
    pub on_error: OnError,
    /// Which refusal is no failure but a reason to try again.
    pub retry: Option<Retry>,
    /// Done only if these variables have these values.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
}

/// A refusal that is part of the game: a seat that somebody else was faster to take. An answer
/// (of HTTP or an envelope) that is an error and contains the text is counted as retried, and the
/// player goes on from an earlier step after a short random wait.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Text in the answer.
    pub on: String,
    /// The operation of an earlier step of the same list from which on everything is done again;
    /// this step's own by default.
    pub from: Option<String>,
}

/// A match message.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchSend {
    /// Its op code, which the answer must bear too.
    pub op_code: i64,
    /// Characters of the payload before base64.
    pub size: u32,
    /// Who is to get it.
    pub to: Audience,
}

/// Who gets a match message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// The sender alone: an echo.
    Sender,
    /// All members, the sender too.
    All,
}

/// Where pilots of the zone fly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fleet {
    /// Each from place to place, anywhere, at two thirds of the top speed.
    Spread,
    /// Each from one edge of the world to another, at the top speed.
    Fast,
    /// All in the middle of the world, in each other's sight.
    Crowd,
    /// Two fleets, each around a place of its own; the places fly through the world towards each other, meet
    /// in the middle, pass, and turn.
    Converge,
    /// All around one place, which goes round the middle of the world.
    Circle,
}

impl Fleet {
    /// All of them, with their words.
    pub(crate) const ALL: [(&str, Self); 5] = [
        ("spread", Self::Spread),
        ("fast", Self::Fast),
        ("crowd", Self::Crowd),
        ("converge", Self::Converge),
        ("circle", Self::Circle),
    ];
}

/// A think time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Always the same.
    Fixed(Span),
    /// Random, exponential with this mean.
    Random {
        /// The mean.
        mean: Span,
    },
    /// Random, all values between equally likely.
    Between {
        /// The shortest.
        min: Span,
        /// The longest.
        max: Span,
    },
}

/// Credentials of an HTTP step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// None.
    #[default]
    None,
    /// `Basic` with `--server-key`.
    ServerKey,
    /// `Basic` with `--http-key`.
    HttpKey,
    /// `Bearer` with the captured `token`.
    Token,
}

/// What answers a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Await {
    /// Nothing: the step is done when it is sent.
    #[default]
    Nothing,
    /// The next data frame, which must be equal for a binary frame.
    Echo,
    /// The envelope with the same `cid`.
    Cid,
}

/// What a failed operation means for the player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// Within the loop: goes on with the next step. Elsewhere: begins the session again, a second
    /// later.
    #[default]
    Auto,
    /// Goes on with the next step.
    Continue,
    /// Begins the session again, a second later.
    Restart,
    /// The player leaves.
    Leave,
    /// The run ends.
    Stop,
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ThinkForms)
    }
}

/// A time, or a table with either its mean or its bounds.
struct ThinkForms;

impl<'de> Visitor<'de> for ThinkForms {
    type Value = Think;

    fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("\"2s\", { mean = \"2s\" } or { min = \"1s\", max = \"3s\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Think, E> {
        text.parse().map(Think::Fixed).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Think, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form {
            mean: Option<Span>,
            min: Option<Span>,
            max: Option<Span>,
        }
        match Form::deserialize(MapAccessDeserializer::new(map))? {
            Form { mean: Some(mean), min: None, max: None } => Ok(Think::Random { mean }),
            Form { mean: None, min: Some(min), max: Some(max) } => Ok(Think::Between { min, max }),
            _ => Err(A::Error::custom(
                "`think` is \"2s\", { mean = \"2s\" } or { min = \"1s\", max = \"3s\" }",
            )),
        }
    }
}

fn default_players() -> u32 {
    100
}

fn default_timeout() -> Span {
    Span(Duration::from_secs(10))
}

fn one() -> u16 {
    1
}

fn one_f64() -> f64 {
    1.0
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Not the form of a scenario; the text names line and key.
    #[error("scenario: {0}")]
    Form(String),
    /// Larger than [`SCENARIO_BYTES_MAX`].
    #[error("scenario: larger than {SCENARIO_BYTES_MAX} bytes")]
    TooLarge,
    /// A data file that it names.
    #[error(transparent)]
    Data(#[from] data::DataError),
    /// Well-formed, but it cannot be meant so.
    #[error("scenario: {place}: {what}")]
    Meaning {
        /// Session and step.
        place: String,
        /// What is wrong.
        what: String,
    },
}

impl Scenario {
    /// 16 hexadecimal digits that differ, in all likelihood, when anything in it does: to tell
    /// whether two runs did the same. What the data files say is part of it.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("{:016x}", digest(format!("{self:?}").bytes()))
    }
}

/// Source: FNV-1a, 64 bits.
fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Reads a scenario.
///
/// # Errors
/// When the text is not TOML of this form.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    if text.len() > SCENARIO_BYTES_MAX {
        return Err(ScenarioError::TooLarge);
    }
    toml::from_str(text).map_err(|error| ScenarioError::Form(form_error::explain(text, &error)))
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, Span, parse};

    #[test]
    fn spans() {
        for (text, ns) in
            [("250ms", 250_000_000), ("1.5s", 1_500_000_000), ("2m", 120_000_000_000), ("0s", 0)]
        {
            assert_eq!(text.parse::<Span>().map(Span::ns), Ok(ns), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1 s", "1e9h", "99999h", "1d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn built_in_scenarios_are_scenarios_of_their_name() {
        for (name, text) in BUILT_IN {
            match parse(text) {
                Ok(scenario) => assert_eq!(scenario.name, *name),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn digests_tell_scenarios_apart() {
        let digests = BUILT_IN.iter().map(|(_, text)| parse(text).unwrap().digest());
        assert_eq!(digests.collect::<std::collections::BTreeSet<_>>().len(), BUILT_IN.len());
        let text = BUILT_IN[0].1;
        assert_eq!(parse(text).unwrap().digest(), parse(text).unwrap().digest());
        assert_ne!(
            parse(text).unwrap().digest(),
            parse(&text.replacen("players = ", "players = 1", 1)).unwrap().digest()
        );
    }

    #[test]
    fn misspelt_keys_are_errors() {
        let text = "name='a'\ntitle='b'\n[[session]]\nname='c'\nwieght=1\n";
        assert!(parse(text).is_err_and(|error| error.to_string().contains("wieght")));
    }
}
