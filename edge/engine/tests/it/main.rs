//! One list of behaviours, run on both drivers. Clients are blocking sockets of std: what a
//! stranger would see.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod behaviours;
mod rig;

use engine::DriverChoice;

macro_rules! on_both_drivers {
    ($($behaviour:ident,)*) => {
        mod uring {
            $(#[test] fn $behaviour() { super::on(super::DriverChoice::Uring, super::behaviours::$behaviour); })*
        }
        mod poll {
            $(#[test] fn $behaviour() { super::on(super::DriverChoice::Poll, super::behaviours::$behaviour); })*
        }
    };
}

/// Skips the ring where the kernel has none, and says so.
fn on(driver: DriverChoice, behaviour: fn(DriverChoice)) {
    if driver == DriverChoice::Uring
        && let Err(missing) = engine::probe()
    {
        eprintln!("not tried on the ring: {missing}");
        return;
    }
    behaviour(driver);
}

on_both_drivers! {
    every_size_comes_back_whole,
    a_request_split_at_every_byte_is_the_same_request,
}
