//! Which driver runs, and what is missing when it is not the ring.

use std::fmt;
use std::io;
use std::str::FromStr;

/// `--driver`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// The ring where the kernel has what it needs, else readiness polling.
    #[default]
    Auto,
    /// io_uring, or no start.
    Uring,
    /// Readiness polling (epoll on Linux).
    Poll,
}

/// Not the name of a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no driver is called {name:?}: expected auto, uring or poll")]
pub struct BadChoice {
    /// What was given.
    pub name: String,
}

impl FromStr for DriverChoice {
    type Err = BadChoice;

    fn from_str(name: &str) -> Result<Self, BadChoice> {
        match name {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "poll" => Ok(Self::Poll),
            _ => Err(BadChoice { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Poll => "poll",
        })
    }
}

/// What the ring driver lacks on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// Not Linux, or a kernel built without io_uring.
    #[error("the system has no io_uring")]
    Absent,
    /// Switched off, or kept out by the walls around the process.
    #[error(
        "io_uring is forbidden: see the sysctl kernel.io_uring_disabled, and the seccomp profile \
         of the container"
    )]
    Forbidden,
    /// The kernel does not know the set-up flags.
    #[error("the kernel's io_uring is too old: Linux 6.1 or later is needed")]
    TooOld,
    /// A feature that every kernel with those flags should have.
    #[error("io_uring has no timed waits or may drop completions")]
    Feature,
    /// An operation that the kernel does not know or that is forbidden.
    #[error("io_uring lacks the operation {operation}")]
    Operation {
        /// Its name.
        operation: &'static str,
    },
    /// No table of files.
    #[error("io_uring cannot register files: {error}")]
    Files {
        /// What the system said.
        error: io::Error,
    },
    /// No ring of buffers.
    #[error("io_uring cannot register receive buffers: {error}")]
    Buffers {
        /// What the system said.
        error: io::Error,
    },
    /// Anything else.
    #[error("io_uring cannot be set up: {error}")]
    Ring {
        /// What the system said.
        error: io::Error,
    },
}

/// Tries whether the ring driver would run here.
///
/// # Errors
/// What is missing, first thing first.
#[cfg(target_os = "linux")]
pub fn probe() -> Result<(), Missing> {
    crate::uring::probe::probe()
}

/// Tries whether the ring driver would run here: only on Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn probe() -> Result<(), Missing> {
    Err(Missing::Absent)
}

#[cfg(test)]
mod tests {
    use super::DriverChoice;

    #[test]
    fn names_are_read_back() {
        for choice in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Poll] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "epoll".parse::<DriverChoice>().map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("no driver is called \"epoll\": expected auto, uring or poll".into())
        );
    }
}
