//! One server's side of the SDK: what it has said of itself, and what the daemon makes of it.
//!
//! Two threads meet here: that of the SDK, with what the server calls, and the daemon's, with what it
//! decides. Everything is answered from here, so that the daemon is told of nothing but a wish to change
//! the state, and of that no more often than [`TOLD_EVERY`], however often it is said.
//!
//! In: calls, the daemon's decisions, the time. Out: answers, wishes, a picture of the server. Not here:
//! sockets, and which wish is followed (`daemon::one`). Everything is bounded: who fills it is refused.
//!
//! Semantics are those of Agones 1.61 (pkg/sdkserver/sdkserver.go), its texts of refusals among them; all of
//! these are code 2 there, whatever the comments in its protocol's files say.

mod paper;

use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub(crate) use paper::Paper;

use super::messages::{
    Bool, Count, Counter, Empty, GameServer, KeyValue, List, ListValue, Named, PlayerId, PlayerIds,
    Seconds, UpdateCounter, UpdateList,
};
use crate::daemon::Event;
use crate::fleet::sdk::Agones;
use crate::view;

/// How often the daemon is told of a server's wishes, at most. Agones changes a state every 500 ms at most.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Why something is refused. Source: grpc/grpc, doc/statuscodes.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// What Agones says of nearly everything.
    Unknown = 2,
    InvalidArgument = 3,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What a server wants to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Ready,
    Allocated,
    /// For so long, or until it says otherwise.
    Reserved(Option<Duration>),
    Shutdown,
}

/// A server's state in Agones' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Word {
    #[default]
    Scheduled,
    RequestReady,
    Ready,
    Allocated,
    Reserved,
    Unhealthy,
    Shutdown,
}

impl Word {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::RequestReady => "RequestReady",
            Self::Ready => "Ready",
            Self::Allocated => "Allocated",
            Self::Reserved => "Reserved",
            Self::Unhealthy => "Unhealthy",
            Self::Shutdown => "Shutdown",
        }
    }
}

/// Who the server is; it does not change while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) ports: Vec<(String, u16)>,
    /// When it was started, in seconds since 1970.
    pub(crate) created_s: i64,
}

/// What became of what a server wanted of the SDK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// Times that it had to wait, because it asked for too much in too short a time.
    pub(crate) waited: u64,
    /// Connections and watches beyond those that it may have.
    pub(crate) refused: u64,
    /// Connections of others, which were closed.
    pub(crate) strangers: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Which of its starts it is; 0 before the first.
    round: u64,
    who: Who,
    word: Word,
    paper: Paper,
    version: u64,
    wanted: Option<Wanted>,
    /// An event for the daemon is under way.
    is_told: bool,
    /// A timer of the SDK's thread will tell it.
    is_timed: bool,
    told: Option<Instant>,
    /// Its program's start, its last sign of health, when it is looked at next, and looks in vain.
    begun: Option<Instant>,
    heard: Option<Instant>,
    look: Option<Instant>,
    failures: u32,
    /// It has called something.
    is_used: bool,
    /// Something was written down for it by who gave it away.
    is_told_of: bool,
    troubles: Troubles,
}

/// What is known of one server by the SDK.
#[derive(Debug)]
pub(crate) struct Desk {
    settings: Agones,
    index: usize,
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
    events: Sender<Event>,
}

type Answer<T> = Result<T, Refusal>;

impl Desk {
    pub(crate) fn new(index: usize, settings: Agones, events: Sender<Event>) -> Self {
        let paper = Paper::new(&settings);
        let inner = Mutex::new(Inner { paper, ..Inner::default() });
        Self { settings, index, inner, version: watch::Sender::new(0), events }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that who watches would see has changed.
    fn changed(&self, inner: &mut Inner) {
        inner.version += 1;
        self.version.send_replace(inner.version);
    }

    // The daemon's side.

    /// A new start: everything is as the file says again.
    pub(crate) fn begin(&self, round: u64, who: Who) {
        let mut inner = self.inner();
        let version = inner.version;
        *inner =
            Inner { round, who, version, paper: Paper::new(&self.settings), ..Inner::default() };
        self.changed(&mut inner);
    }

    /// A server that an earlier daemon had started goes on with what it had said.
    pub(crate) fn resume(&self, round: u64, who: Who, paper: Option<Paper>) {
        self.begin(round, who);
        if let Some(paper) = paper {
            let mut inner = self.inner();
            inner.is_used = true;
            inner.paper = paper;
        }
    }

    /// Its program runs: from now on it is to give signs of health.
    pub(crate) fn run(&self, now: Instant) {
        let mut inner = self.inner();
        (inner.begun, inner.heard) = (Some(now), Some(now));
    }

    /// What it wants since it was asked last.
    pub(crate) fn take(&self) -> Option<Wanted> {
        let mut inner = self.inner();
        inner.is_told = false;
        inner.wanted.take()
    }

    /// The daemon's decision. While the server waits for another one, what it has said stays.
    pub(crate) fn set_word(&self, word: Word) {
        let mut inner = self.inner();
        let is_asked =
            inner.wanted.is_some() || word == Word::Scheduled && inner.word == Word::RequestReady;
        if inner.word != word && !is_asked {
            inner.word = word;
            self.changed(&mut inner);
        }
    }

    /// It was given away, with labels and annotations for it.
    pub(crate) fn allocated(&self, unix_s: i64, metadata: &Metadata) {
        let mut inner = self.inner();
        let mut text = Vec::new();
        wire::date::write_rfc3339(&mut text, unix_s, 0);
        let text = String::from_utf8_lossy(&text).into_owned();
        inner.paper.annotations.insert("agones.dev/last-allocated".to_owned(), text);
        inner.is_told_of |= !metadata.labels.is_empty() || !metadata.annotations.is_empty();
        inner.paper.labels.extend(metadata.labels.clone());
        inner.paper.annotations.extend(metadata.annotations.clone());
        inner.wanted = None;
        inner.word = Word::Allocated;
        self.changed(&mut inner);
    }

    /// Whether it has given no sign of health for too long, in words.
    pub(crate) fn unhealthy(&self, now: Instant) -> Option<String> {
        let health = self.settings.health;
        let mut inner = self.inner();
        let begun = inner.begun.filter(|_| !health.disabled)?;
        let look = inner.look.unwrap_or(begun + health.initial_delay());
        if now < look {
            return None;
        }
        inner.look = Some(now + health.period());
        let is_late = inner.heard.is_none_or(|at| now.duration_since(at) > health.period());
        inner.failures += u32::from(is_late);
        let (failures, period) = (inner.failures, health.period().as_secs_f64());
        (failures >= health.failures()).then(|| {
            format!("unhealthy: no Health() at {failures} looks, one every {period} s; killed")
        })
    }

    /// What the next daemon has to know; nothing if it never spoke, nor anybody of it.
    pub(crate) fn paper(&self) -> Option<Paper> {
        let inner = self.inner();
        (inner.is_used || inner.is_told_of).then(|| inner.paper.clone())
    }

    /// A number that changes with what is written down.
    pub(crate) fn version(&self) -> u64 {
        self.inner().version
    }

    /// Players, and how many there may be, if it tells them in some way.
    pub(crate) fn players(&self) -> Option<(u32, u32)> {
        let inner = self.inner();
        inner.paper.players().filter(|_| inner.is_used)
    }

    /// What is shown of it; nothing if it never spoke, nor anybody of it, and it asked for no
    /// more than it may.
    pub(crate) fn view(&self) -> Option<view::Sdk> {
        let inner = self.inner();
        let is_shown = inner.is_used || inner.is_told_of || inner.troubles != Troubles::default();
        is_shown.then(|| inner.paper.view(inner.word.text(), inner.troubles))
    }

    // The server's side.

    /// To be told of every change from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Whether a connection's server still is this one.
    pub(crate) fn is(&self, round: u64) -> bool {
        self.inner().round == round
    }

    /// Counts something that was kept from it.
    pub(crate) fn trouble(&self, count: impl FnOnce(&mut Troubles)) {
        count(&mut self.inner().troubles);
    }

    /// Tells the daemon what is wanted, if it is not told yet. Some time if it is to be called again after
    /// that.
    pub(crate) fn tell(&self, now: Instant, is_timer: bool) -> Option<Duration> {
        let mut inner = self.inner();
        if is_timer {
            inner.is_timed = false;
        }
        if inner.wanted.is_none() || inner.is_told || inner.is_timed {
            return None;
        }
        let left = inner.told.and_then(|at| TOLD_EVERY.checked_sub(now.duration_since(at)));
        if let Some(left) = left.filter(|it| !it.is_zero()) {
            inner.is_timed = true;
            return Some(left);
        }
        (inner.is_told, inner.told) = (true, Some(now));
        // A daemon that has ended needs to know nothing.
        let _ = self.events.send(Event::Wanted { index: self.index, round: inner.round });
        None
    }

    fn want(&self, wanted: Wanted) -> Empty {
        let mut inner = self.inner();
        inner.is_used = true;
        let is_final = matches!(inner.word, Word::Shutdown | Word::Unhealthy)
            || inner.wanted == Some(Wanted::Shutdown);
        if is_final {
            return Empty {};
        }
        inner.wanted = Some(wanted);
        if wanted == Wanted::Ready && inner.word != Word::RequestReady {
            inner.word = Word::RequestReady;
            self.changed(&mut inner);
        }
        Empty {}
    }

    /// Reads something.
    fn read<T>(&self, work: impl FnOnce(&Paper) -> Answer<T>) -> Answer<T> {
        let mut inner = self.inner();
        inner.is_used = true;
        work(&inner.paper)
    }

    /// Changes something; if that fails, nothing has changed.
    fn change<T>(&self, work: impl FnOnce(&mut Paper) -> Answer<T>) -> Answer<T> {
        let mut inner = self.inner();
        inner.is_used = true;
        let done = work(&mut inner.paper)?;
        self.changed(&mut inner);
        Ok(done)
    }

    pub(crate) fn ready(&self, _: Empty) -> Answer<Empty> {
        Ok(self.want(Wanted::Ready))
    }

    pub(crate) fn allocate(&self, _: Empty) -> Answer<Empty> {
        Ok(self.want(Wanted::Allocated))
    }

    pub(crate) fn shutdown(&self, _: Empty) -> Answer<Empty> {
        Ok(self.want(Wanted::Shutdown))
    }

    pub(crate) fn reserve(&self, it: Seconds) -> Answer<Empty> {
        let seconds = u64::try_from(it.seconds).ok().filter(|it| *it > 0);
        // Beyond a century it is forever.
        let time = seconds.filter(|it| *it < 3_000_000_000).map(Duration::from_secs);
        Ok(self.want(Wanted::Reserved(time)))
    }

    pub(crate) fn health(&self, now: Instant) -> Empty {
        let mut inner = self.inner();
        inner.is_used = true;
        (inner.heard, inner.failures) = (Some(now), 0);
        Empty {}
    }

    pub(crate) fn game_server(&self, _: Empty) -> Answer<GameServer> {
        let mut inner = self.inner();
        inner.is_used = true;
        let (who, word) = (&inner.who, inner.word.text());
        Ok(inner.paper.game_server(who, &self.settings, word, inner.version))
    }

    pub(crate) fn set_label(&self, it: KeyValue) -> Answer<Empty> {
        self.change(|paper| paper.set_label(&it.key, it.value))
    }

    pub(crate) fn set_annotation(&self, it: KeyValue) -> Answer<Empty> {
        self.change(|paper| paper.set_annotation(&it.key, it.value))
    }

    pub(crate) fn counter(&self, it: Named) -> Answer<Counter> {
        self.read(|paper| paper.counter(&it.name))
    }

    pub(crate) fn update_counter(&self, it: UpdateCounter) -> Answer<Counter> {
        let update = it.update.unwrap_or_default();
        self.change(|paper| paper.update_counter(update))
    }

    pub(crate) fn list(&self, it: Named) -> Answer<List> {
        self.read(|paper| paper.list(&it.name))
    }

    pub(crate) fn update_list(&self, it: UpdateList) -> Answer<List> {
        let fields = it.mask.unwrap_or_default().paths;
        self.change(|paper| paper.update_list(it.list.unwrap_or_default(), &fields))
    }

    pub(crate) fn add_value(&self, it: ListValue) -> Answer<List> {
        self.change(|paper| paper.add_value(&it.name, it.value))
    }

    pub(crate) fn remove_value(&self, it: ListValue) -> Answer<List> {
        self.change(|paper| paper.remove_value(&it.name, &it.value))
    }

    pub(crate) fn connect_player(&self, it: PlayerId) -> Answer<Bool> {
        self.change(|paper| paper.connect_player(it.id))
    }

    pub(crate) fn disconnect_player(&self, it: PlayerId) -> Answer<Bool> {
        self.change(|paper| paper.disconnect_player(&it.id))
    }

    pub(crate) fn is_player(&self, it: PlayerId) -> Answer<Bool> {
        self.read(|paper| Ok(Bool { bool: paper.tracked()?.ids.contains(&it.id) }))
    }

    pub(crate) fn player_ids(&self, _: Empty) -> Answer<PlayerIds> {
        self.read(|paper| Ok(PlayerIds { list: paper.tracked()?.ids.clone() }))
    }

    pub(crate) fn player_count(&self, _: Empty) -> Answer<Count> {
        self.read(|paper| Ok(Count { count: paper.tracked()?.count() }))
    }

    pub(crate) fn player_capacity(&self, _: Empty) -> Answer<Count> {
        self.read(|paper| Ok(Count { count: paper.tracked()?.capacity }))
    }

    pub(crate) fn set_player_capacity(&self, it: Count) -> Answer<Empty> {
        self.change(|paper| paper.set_player_capacity(it.count))
    }
}

/// Labels and annotations that an allocation gives to a server.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) annotations: std::collections::BTreeMap<String, String>,
}

#[cfg(test)]
mod tests;
