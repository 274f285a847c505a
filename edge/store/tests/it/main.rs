//! The game's rules on a real database, and the database itself. One binary; every test has its
//! own store.

mod accounts;
mod crash;
mod database;
mod opening;
mod storage;
mod world;
