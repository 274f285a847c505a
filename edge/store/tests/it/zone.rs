//! Parts of the zone in the database: in order, each node's its own, a snapshot in place of all before it.

use game::db::{Database as _, DbError};
use game::zone::{give_up, keep, kept, nodes};

use crate::world::World;

#[test]
fn a_snapshot_takes_the_place_of_what_was_kept_before() {
    let mut world = World::new();
    let db = &mut world.db;
    for (number, part) in [(0, "a"), (1, "b"), (2, "c")] {
        keep(db, "one", number, part.as_bytes()).unwrap();
    }
    keep(db, "two", 0, &vec![7; 100_000]).unwrap();
    db.commit().unwrap();
    assert_eq!(kept(db, "one").unwrap(), [b"a", b"b", b"c"]);
    // One that is there already is another process's, or a mistake: nothing has changed.
    let again = keep(db, "one", 2, b"d");
    assert!(matches!(again, Err(DbError::Exists { .. })), "{again:?}");
    keep(db, "one", 0, b"e").unwrap();
    db.commit().unwrap();
    assert_eq!(kept(db, "one").unwrap(), [b"e"]);
    assert_eq!(nodes(db).unwrap(), ["one", "two"]);
    give_up(db, "one").unwrap();
    assert_eq!((kept(db, "one").unwrap().len(), kept(db, "two").unwrap()[0].len()), (0, 100_000));
}
