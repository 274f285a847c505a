//! What the tables of one file take from each other, and words in braces that nobody fills in.
//!
//! In: a fleet. Out: the table and the key that have to change.

use std::collections::BTreeMap;

use super::{Fleet, FleetError, Server, Wall};

/// What is filled in.
const WORDS: &[&str] = &["name", "index", "port", "address"];

impl Fleet {
    /// Servers that share the machine's network need ports of their own, those of other tables too.
    pub(super) fn check_ports(&self) -> Result<(), FleetError> {
        let mut taken: BTreeMap<u32, String> = BTreeMap::new();
        for server in self.server.iter().filter(|it| it.wall < Wall::Network) {
            let named = server.agones.iter().flat_map(|it| it.ports.iter().map(|it| it.port));
            let mut ports: Vec<u16> = named.chain(server.port).collect();
            ports.sort_unstable();
            ports.dedup();
            for (shift, name) in (0_u32..).zip(server.names()) {
                for port in ports.iter().map(|it| u32::from(*it) + shift) {
                    if let Some(other) = taken.insert(port, name.clone()) {
                        let what = format!(
                            "`{name}` and `{other}` would both have {port} of the machine's network \
                             (each server of a table gets the next port): write another, or wall = \
                             \"network\""
                        );
                        return Err(server.wrong("port", what));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Server {
    /// A word in braces is the program's own, unless it is nearly one of ours.
    pub(super) fn check_words(&self) -> Result<(), FleetError> {
        let env = self.env.values().map(|it| ("env", it));
        for (key, text) in self.command.iter().map(|it| ("command", it)).chain(env) {
            let words = text.split('{').skip(1).filter_map(|it| Some(it.split_once('}')?.0));
            for word in words.filter(|it| !WORDS.contains(it)) {
                if let Some(meant) = wire::nearest::nearest(word, WORDS.iter().copied()) {
                    let what = format!(
                        "there is no {{{word}}} to be filled in, but {{name}}, {{index}}, {{port}} and \
                         {{address}}; did you mean {{{meant}}}?"
                    );
                    return Err(self.wrong(key, what));
                }
            }
        }
        Ok(())
    }
}
