//! A server that watches itself: a picture of it at once, and one after every change.
//!
//! In: a door. Out: pictures, each paid for as a call is; who changes faster than it can pay sees the latest.
//! Not here: how they are sent.

use std::sync::Arc;

use prost::Message as _;
use tokio::sync::mpsc::{Receiver, channel};

use super::desk::{Code, Refusal};
use super::door::{CALL_COST, Door};
use super::messages::{Empty, GameServer};

/// Begins a watch. It ends when the receiver is dropped, and with the server.
///
/// # Errors
/// When the server has too many.
pub(super) fn begin(door: &Arc<Door>) -> Result<Receiver<GameServer>, Refusal> {
    let Ok(seat) = Arc::clone(&door.watches).try_acquire_owned() else {
        door.desk.trouble(|it| it.refused += 1);
        return Err(Refusal::new(Code::ResourceExhausted, "too many watches of this server"));
    };
    let (pictures, receiver) = channel(1);
    let door = Arc::clone(door);
    tokio::spawn(async move {
        let _seat = seat;
        let mut changes = door.desk.watch();
        loop {
            changes.borrow_and_update();
            let Some(picture) = door.desk.game_server(Empty {}).ok().filter(|_| door.is_open())
            else {
                return;
            };
            door.pay(CALL_COST + picture.encoded_len()).await;
            if pictures.send(picture).await.is_err() {
                return;
            }
            tokio::select! {
                () = pictures.closed() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    });
    Ok(receiver)
}
