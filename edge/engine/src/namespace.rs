//! Network namespaces with a veth pair between them: two machines' ends on one, for measuring and for
//! tests. They go when nobody uses them any more, however the process ends.
//!
//! By `unshare` of util-linux and `ip` of iproute2: the system calls are not worth unsafe code outside
//! the drivers. Not here: namespaces with names, which stay behind when a process is killed.
//!
//! Source: network_namespaces(7), setns(2), veth(4).

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Why there is no namespace, or none that is set up.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A program is missing, or failed.
    #[error("`{command}`: {said}")]
    Command {
        /// What was called.
        command: String,
        /// What it, or the system, said.
        said: String,
    },
    /// The system refused a step.
    #[error("{step}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// A network namespace. It lives as long as this, and as sockets and threads in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes an empty one, with its loopback interface up.
    ///
    /// # Errors
    /// Without the right to (`CAP_SYS_ADMIN`), or without the programs.
    pub fn new() -> Result<Self, NamespaceError> {
        // The shell says that it is there, and stays until its input ends.
        let script = "ip link set lo up && echo && read _";
        let command = format!("unshare --net sh -c '{script}'");
        let failed = |said: String| NamespaceError::Command { command: command.clone(), said };
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        if let Some(stdout) = &mut child.stdout {
            // If it says nothing, its exit tells why.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let namespace = File::open(format!("/proc/{}/ns/net", child.id()));
        drop(child.stdin.take());
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if line.is_empty() {
            return Err(failed(words(&output.stderr, output.status)));
        }
        let step = "the namespace of a process";
        Ok(Self(namespace.map_err(|error| NamespaceError::System { step, error })?))
    }

    /// Moves the calling thread, and what it starts from now on, into it. Sockets stay where they
    /// were opened.
    ///
    /// # Errors
    /// Without the right to.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| NamespaceError::System { step: "setns", error: error.into() })
    }

    /// Does something in it, in a thread of its own.
    ///
    /// # Errors
    /// Without the right to.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().map(|()| work()));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The one that a process is in.
    ///
    /// # Errors
    /// If there is no such process, or without the right to.
    pub fn of_process(pid: u32) -> Result<Self, NamespaceError> {
        let step = "the namespace of a process";
        let namespace = File::open(format!("/proc/{pid}/ns/net"));
        namespace.map(Self).map_err(|error| NamespaceError::System { step, error })
    }

    /// A path that other processes can open it by, such as those that [`ip`] starts.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Lets `ip` of iproute2 do what stands in the lines, a command each without its `ip`, in the calling
/// thread's network namespace. It ends at the first that fails.
///
/// # Errors
/// Without `ip`, and as it says.
pub fn ip(lines: &str) -> Result<(), NamespaceError> {
    let command = lines.lines().map(|line| format!("ip {line}")).collect::<Vec<_>>().join("; ");
    let failed = |said| NamespaceError::Command { command: command.clone(), said };
    let system = |error: io::Error| failed(error.to_string());
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(system)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it has ended, its exit tells why.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().map_err(system)?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(words(&output.stderr, output.status)))
}

fn words(stderr: &[u8], status: std::process::ExitStatus) -> String {
    let said = String::from_utf8_lossy(stderr).trim().to_owned();
    if said.is_empty() { status.to_string() } else { said }
}

/// Two namespaces with a veth pair between them, of one queue each way.
#[derive(Debug)]
pub struct VethPair {
    /// One end, with [`VethPair::NEAR`] on the interface [`VethPair::INTERFACE`].
    pub near: Namespace,
    /// The other, with [`VethPair::FAR`] on an interface of the same name.
    pub far: Namespace,
}

impl VethPair {
    /// The interface at either end.
    pub const INTERFACE: &str = "veth0";
    /// Addresses of the ends. Source: RFC 5737, which keeps them for such uses.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    /// Likewise.
    pub const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

    /// Makes both and what is between them.
    ///
    /// # Errors
    /// As [`Namespace::new`]; without veth in the kernel.
    pub fn new() -> Result<Self, NamespaceError> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let (name, queues) = (Self::INTERFACE, "numtxqueues 1 numrxqueues 1");
        let there = far.path();
        near.within(|| {
            ip(&format!(
                "link add {name} {queues} type veth peer name {name} {queues} netns {there}\n"
            ))
        })??;
        for (end, address) in [(&near, Self::NEAR), (&far, Self::FAR)] {
            end.within(|| {
                ip(&format!("address add {address}/30 dev {name}\nlink set {name} up\n"))
            })??;
        }
        Ok(Self { near, far })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::{Namespace, VethPair};

    #[test]
    fn what_is_in_a_namespace_is_not_outside() {
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = namespace.within(listen).unwrap();
        let address = listener.local_addr().unwrap();
        // The port may be taken outside by somebody else, who then is not our listener.
        listener.set_nonblocking(true).unwrap();
        drop(TcpStream::connect(address));
        assert!(listener.accept().is_err());
        listener.set_nonblocking(false).unwrap();
        let connected = namespace.within(|| TcpStream::connect(address)).unwrap().unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from, connected.local_addr().unwrap());
    }

    #[test]
    fn the_ends_of_a_pair_reach_each_other() {
        let pair = match VethPair::new() {
            Ok(pair) => pair,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let bind = |ip| move || UdpSocket::bind((ip, 0)).unwrap();
        let near = pair.near.within(bind(VethPair::NEAR)).unwrap();
        let far = pair.far.within(bind(VethPair::FAR)).unwrap();
        near.send_to(b"there", far.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        let (len, from) = far.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..len], from), (&b"there"[..], near.local_addr().unwrap()));
    }
}
