//! The server from a seed: cores, rooms, callers, batcher, hasher and lister in one thread, with a
//! made-up kernel and made-up mailboxes between them, a database that fails and stalls, guests that
//! are stopped, and players who do everything. A seed decides who runs next, how much of his mail he
//! finds, what is refused because a mailbox is full, what the database and the guests do, and how
//! time passes: nothing else moves it.
//!
//! * `world` has the threads of one node or two, their mailboxes, the connections and the time. It keeps
//!   what the engine promises (`event::Handler`: the order of a turn, mail in order, who is woken), and no
//!   more. `world::nodes` is what is between two nodes, and how one of them is lost.
//! * `db` is SQLite in memory behind a connection that fails, stalls and gathers commits.
//! * `guest` are the scripts: programs that players send along, and a match, whose callbacks wait for
//!   the database, for each other and for other servers (`crate::network`). Their budget is counted in
//!   steps.
//! * `player` and `socket` are the clients: they know what they asked, what they were told, and who
//!   they believe is where.
//! * `check` compares that with the database and with what the server says when it is asked again.
//! * `play` draws a profile from the seed, plays a run, heals the world, and looks whether it settles.
//!
//! What must hold: whoever stayed has one answer to each request, in order, or a reason why he was
//! closed; what was acknowledged is in the database, once and whole, and what was refused is not;
//! who logged out is logged out on every core; what players believe of matches and of who is online is
//! what the server says; who is in a stream was told of who came and went, and hears what is said there,
//! and nobody else does; a match lives on one room, and one callback of it runs at a time; messages
//! come in order and once; no mail is lost, and when all have gone, nothing is left of them.
//!
//! ```text
//! THRONG_SEED=42 cargo test -p server --test it seeds -- --nocapture      plays one seed, and tells
//! THRONG_SEEDS=100000 cargo test -p server --test it seeds                as many from 0
//! ```
//!
//! Left out: gRPC, passwords, events, the shutdown, and real
//! scripts, sockets and files (`script`, `engine` and `store` have tests of their own).

mod check;
mod db;
mod guest;
mod play;
mod player;
mod socket;
mod world;
