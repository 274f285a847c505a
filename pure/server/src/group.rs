//! A group: sessions that are in something together, and what there is to know of each. The members of
//! a stream are a group (`room/registry.rs`), and those who follow a user.
//!
//! Data in: members with their [`Meta`], by session. Data out: who is there, in the order of joining.
//! Finding a member takes a look at each of the few, or a search in an index of the many; sending to
//! some of them costs as much as the some; taking many out costs what each of them costs alone. What
//! deliberately is not here: what members are told (`room`), and who may join.
//!
//! Source: Nakama 3.40, `server/tracker.go`, for what a presence is, and who hears of which change.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::mail::Member;

/// Places from which on members are found by an index. Up to here a look at each is as fast, and most
/// groups need no index at all.
const INDEXED_FROM: usize = 17;

/// What there is to know of a member beside who it is.
pub trait Meta {
    /// Whether nobody is told of it. It is told of others all the same.
    fn is_hidden(&self) -> bool;
}

/// A session in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember<M> {
    /// Who it is, and where its socket is.
    pub member: Member,
    /// What there is to know of it here.
    pub meta: M,
}

/// Sessions that are in something together, each once. Empty, or with one member, it needs no memory
/// of its own.
#[derive(Debug)]
pub struct Group<M> {
    places: Places<M>,
}

#[derive(Debug)]
enum Places<M> {
    /// Always there, but while it is taken out.
    One(Option<GroupMember<M>>),
    Many(Many<M>),
}

/// Places in the order of joining; those of who has left are empty, until half of them are.
#[derive(Debug)]
struct Many<M> {
    places: Vec<Option<GroupMember<M>>>,
    empty: usize,
    /// The place of each session, once there are [`INDEXED_FROM`] places; empty before.
    index: BTreeMap<Uuid, usize>,
}

impl<M> Default for Group<M> {
    fn default() -> Self {
        Self { places: Places::Many(Many::default()) }
    }
}

impl<M> Default for Many<M> {
    fn default() -> Self {
        Self { places: Vec::new(), empty: 0, index: BTreeMap::new() }
    }
}

impl<M> Group<M> {
    /// How many are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.places {
            Places::One(one) => usize::from(one.is_some()),
            Places::Many(many) => many.places.len() - many.empty,
        }
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a session is in it.
    #[must_use]
    pub fn has(&self, session_id: Uuid) -> bool {
        self.find(session_id).is_some()
    }

    /// A session that is in it.
    #[must_use]
    pub fn get(&self, session_id: Uuid) -> Option<&GroupMember<M>> {
        self.places().get(self.find(session_id)?)?.as_ref()
    }

    /// As [`Self::get`].
    pub fn get_mut(&mut self, session_id: Uuid) -> Option<&mut GroupMember<M>> {
        let place = self.find(session_id)?;
        self.places_mut().get_mut(place)?.as_mut()
    }

    /// Takes a session in, or changes what there is to know of it: then gives back what that was.
    pub fn put(&mut self, member: Member, meta: M) -> Option<M> {
        if let Some(joined) = self.get_mut(member.presence.session_id) {
            return Some(std::mem::replace(&mut joined.meta, meta));
        }
        let joined = Some(GroupMember { member, meta });
        match &mut self.places {
            Places::One(one) => {
                let mut many = Many::default();
                many.places.reserve(2);
                many.places.extend([one.take(), joined]);
                self.places = Places::Many(many);
            }
            Places::Many(many) if many.places.is_empty() => self.places = Places::One(joined),
            Places::Many(many) => many.push(joined),
        }
        None
    }

    /// Takes a session out.
    pub fn take(&mut self, session_id: Uuid) -> Option<GroupMember<M>> {
        let place = self.find(session_id)?;
        match &mut self.places {
            Places::One(one) => {
                let joined = one.take();
                *self = Self::default();
                joined
            }
            Places::Many(many) => many.take(place, session_id),
        }
    }

    /// Who is in it, in the order of joining.
    pub fn iter(&self) -> impl Iterator<Item = &GroupMember<M>> + Clone {
        self.places().iter().flatten()
    }

    /// As [`Self::iter`].
    pub fn members(&self) -> impl Iterator<Item = &Member> + Clone {
        self.iter().map(|joined| &joined.member)
    }

    /// Those of these sessions who are in it, each once; the sessions are sorted, each once. Looks at
    /// no more members than there are sessions.
    pub fn among<'a>(
        &'a self,
        sessions: &'a [Uuid],
    ) -> impl Iterator<Item = &'a GroupMember<M>> + Clone {
        let are_few = sessions.len() < self.len();
        let (few, all) = if are_few { (sessions, &[][..]) } else { (&[][..], self.places()) };
        let found = few.iter().filter_map(move |session_id| self.get(*session_id));
        let is_wanted = move |joined: &&GroupMember<M>| {
            sessions.binary_search(&joined.member.presence.session_id).is_ok()
        };
        let of_all = all.iter().flatten().filter(is_wanted);
        found.chain(of_all)
    }

    fn places(&self) -> &[Option<GroupMember<M>>] {
        match &self.places {
            Places::One(one) => std::slice::from_ref(one),
            Places::Many(many) => &many.places,
        }
    }

    fn places_mut(&mut self) -> &mut [Option<GroupMember<M>>] {
        match &mut self.places {
            Places::One(one) => std::slice::from_mut(one),
            Places::Many(many) => &mut many.places,
        }
    }

    fn find(&self, session_id: Uuid) -> Option<usize> {
        if let Places::Many(Many { index, .. }) = &self.places
            && !index.is_empty()
        {
            return index.get(&session_id).copied();
        }
        let is_it = |joined: &GroupMember<M>| joined.member.presence.session_id == session_id;
        self.places().iter().position(|place| place.as_ref().is_some_and(is_it))
    }
}

impl<M: Meta> Group<M> {
    /// Of whom others are told, in the order of joining.
    pub fn visible(&self) -> impl Iterator<Item = &GroupMember<M>> + Clone {
        self.iter().filter(|joined| !joined.meta.is_hidden())
    }
}

impl<M> Many<M> {
    fn push(&mut self, joined: Option<GroupMember<M>>) {
        let place = self.places.len();
        if let Some(joined) = &joined
            && !self.index.is_empty()
        {
            self.index.insert(joined.member.presence.session_id, place);
        }
        self.places.push(joined);
        if self.index.is_empty() && self.places.len() >= INDEXED_FROM {
            self.make_index();
        }
    }

    fn take(&mut self, place: usize, session_id: Uuid) -> Option<GroupMember<M>> {
        let joined = self.places.get_mut(place)?.take();
        self.empty += 1;
        self.index.remove(&session_id);
        if self.empty == self.places.len() {
            *self = Self::default();
        } else if self.empty * 2 > self.places.len() {
            self.close_up();
        }
        joined
    }

    /// Takes out the empty places: each time after as many have left as stay, so that it costs each
    /// of them once.
    fn close_up(&mut self) {
        self.places.retain(Option::is_some);
        self.empty = 0;
        self.places.shrink_to(self.places.len() * 2);
        // As it shrinks and grows by a few, it shall not be indexed again and again.
        if self.places.len() < INDEXED_FROM / 2 {
            self.index = BTreeMap::new();
        } else if !self.index.is_empty() {
            self.make_index();
        }
    }

    fn make_index(&mut self) {
        let session_of = |(place, joined): (usize, &Option<GroupMember<M>>)| {
            joined.as_ref().map(|joined| (joined.member.presence.session_id, place))
        };
        self.index = self.places.iter().enumerate().filter_map(session_of).collect();
    }
}

#[cfg(test)]
mod tests;
