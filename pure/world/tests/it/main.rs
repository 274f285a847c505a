//! The zone, played from seeds: cells that run at their own pace, mail between them that is late,
//! doubled and out of order, a partition that changes at random; beside the same world in one cell.
//!
//! `THRONG_SEED=42 cargo test -p world --test it seeds` plays seed 42 alone, and
//! `THRONG_SEEDS=100000` as many from 0.

#![allow(clippy::unwrap_used)]

mod balance;
mod cells;
mod fuzz;
mod interest;
mod model;
mod overload;
mod saved;
mod script;
mod seeds;
mod view;
mod zone;
