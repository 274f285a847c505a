//! Runs other people's dedicated game servers, many on one machine, each in its own walls.
//!
//! A fleet is described by a file ([`fleet`]), or by one of Agones (`agones`). One daemon ([`Daemon`]) starts its servers, each by the
//! daemon's own program again ([`become_server`]), which puts up the walls and then becomes the server:
//! no process stands between the two, and none is left when the daemon dies. What happened to each is in
//! an [`view::Overview`], which the daemon gives over a socket ([`api`]). Servers that are made for Agones meet
//! its SDK (`sdk`).
//!
//! How many of them a machine carries is measured by `lab`, for which [`ramp`] starts and stops them.
//!
//! What is deliberately not here: measuring, images, and machines besides this one. Linux only; elsewhere a fleet's file can be read, and nothing more.

#![forbid(unsafe_code)]

mod agones;
pub mod fleet;
pub mod view;

#[cfg(target_os = "linux")]
pub mod api;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod daemon;
#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
mod http;
#[cfg(target_os = "linux")]
mod logs;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
pub mod ramp;
#[cfg(target_os = "linux")]
mod sdk;
#[cfg(target_os = "linux")]
mod state;

#[cfg(target_os = "linux")]
pub use child::become_server;
#[cfg(target_os = "linux")]
pub use daemon::{Daemon, HostError, Options, Stopper, clean};

/// Where a daemon of root keeps what it has to know again, unless it is told otherwise.
pub const FOLDER: &str = "/run/throng-host";
