//! The program at the interface: hands the datagrams of one address and port to a socket, and leaves
//! everything else to the kernel. It goes when its link is closed, however the process ends.
//!
//! Written as instructions, because there are twenty. Source: RFC 9669 (the instruction set), bpf(2),
//! the kernel's linux/bpf.h.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use super::super::OpenError;
use super::frame;

/// Commands of bpf(2).
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;

const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// What the program returns to leave a frame to the kernel.
const PASS: i32 = 2;
/// The kernel's function that sends a frame to a socket of a map.
const REDIRECT_MAP: i32 = 51;

/// Receive queues for which a socket can be noted.
const QUEUES: u32 = 64;
/// Bytes of `union bpf_attr` that are told.
const ATTRIBUTE_BYTES: usize = 128;

/// Whose datagrams the program takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Where they are sent to; the unspecified address is any.
    pub(super) to: SocketAddrV4,
    /// Where they have to come from; none is from anybody.
    pub(super) from: Option<SocketAddrV4>,
}

/// A program that is in force while this lives. Dropped in this order: first nothing more comes.
pub(super) struct Program {
    _link: OwnedFd,
    _program: OwnedFd,
    _map: OwnedFd,
}

impl Program {
    /// Puts the program in front of interface `interface` (its index), for the datagrams between these
    /// ends that come on `queue`, which go to `socket`.
    pub(super) fn attach(
        (interface, queue): (u32, u32),
        ends: Ends,
        socket: RawFd,
    ) -> Result<Self, OpenError> {
        if queue >= QUEUES {
            return Err(OpenError::of("queue")(io::ErrorKind::InvalidInput.into()));
        }
        let map = make_map().map_err(OpenError::of("bpf: a map of sockets"))?;
        note_socket(&map, queue, socket).map_err(OpenError::of("bpf: the socket in the map"))?;
        let program = load(&instructions(ends, map.as_raw_fd()))
            .map_err(OpenError::of("bpf: loading the program"))?;
        let link = link(&program, interface)
            .map_err(OpenError::of("bpf: the program at the interface"))?;
        Ok(Self { _link: link, _program: program, _map: map })
    }
}

/// Arguments of bpf(2): numbers at places.
struct Attribute([u8; ATTRIBUTE_BYTES]);

impl Attribute {
    fn new(numbers: &[(usize, u32)]) -> Self {
        let mut bytes = [0; ATTRIBUTE_BYTES];
        for (place, number) in numbers {
            bytes[*place..place + 4].copy_from_slice(&number.to_ne_bytes());
        }
        Self(bytes)
    }

    /// Puts an address at a place; what it points to has to outlive the call.
    fn pointer<T>(&mut self, place: usize, to: *const T) {
        self.0[place..place + 8].copy_from_slice(&(to as u64).to_ne_bytes());
    }

    /// Calls bpf(2).
    ///
    /// # Safety
    /// Addresses in it point to what the command reads, of the size that it reads.
    unsafe fn call(&self, command: i32) -> io::Result<i32> {
        // SAFETY: the attribute lives and has as many bytes as are told; the rest is promised.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), ATTRIBUTE_BYTES) };
        i32::try_from(result).ok().filter(|it| *it >= 0).ok_or_else(io::Error::last_os_error)
    }

    /// Likewise, of a command that makes something.
    ///
    /// # Safety
    /// As [`Self::call`], and the command returns a new file.
    unsafe fn make(&self, command: i32) -> io::Result<OwnedFd> {
        // SAFETY: promised by the caller.
        let fd = unsafe { self.call(command)? };
        // SAFETY: the kernel has just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn make_map() -> io::Result<OwnedFd> {
    // Type, bytes of a key, bytes of a value, entries.
    let attribute = Attribute::new(&[(0, MAP_OF_SOCKETS), (4, 4), (8, 4), (12, QUEUES)]);
    // SAFETY: there is no address in it, and it makes a map.
    unsafe { attribute.make(MAP_CREATE) }
}

fn note_socket(map: &OwnedFd, queue: u32, socket: RawFd) -> io::Result<()> {
    let mut attribute = Attribute::new(&[(0, map.as_raw_fd().cast_unsigned())]);
    attribute.pointer(8, &raw const queue);
    attribute.pointer(16, &raw const socket);
    // SAFETY: key and value live, and are of four bytes, as the map was made for.
    unsafe { attribute.call(MAP_UPDATE).map(|_| ()) }
}

fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    let count = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    let mut attribute = Attribute::new(&[(0, PROGRAM_XDP), (4, count)]);
    attribute.pointer(8, instructions.as_ptr());
    attribute.pointer(16, c"Apache-2.0".as_ptr());
    // SAFETY: as many instructions as are told live, and the licence ends with a zero.
    unsafe { attribute.make(PROGRAM_LOAD) }
}

fn link(program: &OwnedFd, interface: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    // Without flags: in the driver where it can, else in front of the stack.
    let attribute = Attribute::new(&[(0, program), (4, interface), (8, ATTACH_XDP), (12, 0)]);
    // SAFETY: there is no address in it, and it makes a link.
    unsafe { attribute.make(LINK_CREATE) }
}

/// The registers that are used.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;

/// An instruction as the kernel reads it.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let (offset, value) = (offset.to_ne_bytes(), value.to_ne_bytes());
    // Two registers share a byte, the low half first in the order of the machine.
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    u64::from_ne_bytes([
        code, registers, offset[0], offset[1], value[0], value[1], value[2], value[3],
    ])
}

/// Loads of a byte, two and four from memory.
const LOAD_1: u8 = 0x71;
const LOAD_2: u8 = 0x69;
const LOAD_4: u8 = 0x61;
const LOAD_MAP: u8 = 0x18;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const MOVE: u8 = 0xb7;
const COPY: u8 = 0xbf;
const IF_GREATER: u8 = 0x2d;
/// Of 32 bits, so that the value is not continued with its sign.
const IF_NOT: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// A place in the head of a frame, or a distance of a few instructions.
fn short(number: usize) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// The program: some comparisons, and a call.
fn instructions(ends: Ends, map: RawFd) -> Vec<u64> {
    let Ends { to, from } = ends;
    // Bytes of the network, as a load of the machine finds them.
    let number = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
    let address = |of: SocketAddrV4| i32::from_ne_bytes(of.ip().octets());
    let any = to.ip().is_unspecified();
    // What is looked at: how it is loaded, where, what part of it, and what it has to be.
    let looks = [
        (LOAD_2, frame::ETHERTYPE, None, number([8, 0])),
        (LOAD_1, frame::IP, None, 0x45),
        (LOAD_1, frame::PROTOCOL, None, 17),
        (LOAD_2, frame::FRAGMENT, Some(number([0x3f, 0xff])), 0),
        (LOAD_2, frame::PORT_TO, None, number(to.port().to_be_bytes())),
        (LOAD_4, frame::IP_TO, any.then_some(0), if any { 0 } else { address(to) }),
    ];
    let looks_at_sender = from.map(|from| {
        [
            (LOAD_4, frame::IP_FROM, None, address(from)),
            (LOAD_2, frame::UDP, None, number(from.port().to_be_bytes())),
        ]
    });
    // `data`, `data_end` and `rx_queue_index` of struct xdp_md stand at 0, 4 and 16.
    let mut code = vec![
        instruction(LOAD_4, R2, R1, 0, 0),
        instruction(LOAD_4, R3, R1, 4, 0),
        instruction(COPY, R4, R2, 0, 0),
        instruction(ADD, R4, 0, 0, frame::DATA_BYTES),
    ];
    let mut to_pass = vec![code.len()];
    code.push(instruction(IF_GREATER, R4, R3, 0, 0));
    for (load, place, mask, wanted) in
        looks.into_iter().chain(looks_at_sender.into_iter().flatten())
    {
        code.push(instruction(load, R5, R2, short(place), 0));
        code.extend(mask.map(|mask| instruction(AND, R5, 0, 0, mask)));
        to_pass.push(code.len());
        code.push(instruction(IF_NOT, R5, 0, 0, wanted));
    }
    code.extend([
        instruction(LOAD_4, R2, R1, 16, 0),
        // A map takes two places; 1 says that it is named by its file.
        instruction(LOAD_MAP, R1, 1, 0, map),
        0,
        instruction(MOVE, R3, 0, 0, PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    let pass = code.len();
    code.extend([instruction(MOVE, R0, 0, 0, PASS), instruction(EXIT, 0, 0, 0, 0)]);
    for from in to_pass {
        let [code_byte, registers, _, _, value @ ..] = code[from].to_ne_bytes();
        let offset = short(pass - from - 1).to_ne_bytes();
        let [a, b, c, d] = value;
        code[from] = u64::from_ne_bytes([code_byte, registers, offset[0], offset[1], a, b, c, d]);
    }
    code
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use super::super::frame::tests::frame;
    use super::{Ends, PASS, REDIRECT_MAP, instructions};

    /// What the program does with a frame: runs the few kinds of instructions that it is made of.
    fn run(code: &[u64], frame: &[u8]) -> &'static str {
        const DATA: u64 = 1 << 20;
        let mut registers = [0_u64; 11];
        let mut at = 0;
        loop {
            let [kind, both, o0, o1, v0, v1, v2, v3] = code[at].to_le_bytes();
            let (to, from) = (usize::from(both & 15), usize::from(both >> 4));
            let offset = i16::from_le_bytes([o0, o1]);
            let value = i32::from_le_bytes([v0, v1, v2, v3]);
            let place = usize::try_from(offset).unwrap();
            let read = |bytes: usize| {
                if registers[from] != DATA {
                    return [DATA, DATA + frame.len() as u64, 0, 0, 7][place / 4];
                }
                let mut wide = [0; 8];
                wide[..bytes].copy_from_slice(&frame[place..place + bytes]);
                u64::from_le_bytes(wide)
            };
            at += 1;
            match kind {
                0x71 => registers[to] = read(1),
                0x69 => registers[to] = read(2),
                0x61 => registers[to] = read(4),
                0x07 => registers[to] += u64::from(value.cast_unsigned()),
                0x57 => registers[to] &= u64::from(value.cast_unsigned()),
                0xb7 => registers[to] = u64::from(value.cast_unsigned()),
                0xbf => registers[to] = registers[from],
                0x2d if registers[to] > registers[from] => at += place,
                0x56 if registers[to] & 0xffff_ffff != u64::from(value.cast_unsigned()) => {
                    at += place;
                }
                0x2d | 0x56 => {}
                0x18 => {
                    registers[to] = u64::from(value.cast_unsigned());
                    at += 1;
                }
                0x85 => {
                    assert_eq!((value, registers[1], registers[2]), (REDIRECT_MAP, 5, 7));
                    assert_eq!(registers[3], u64::from(PASS.cast_unsigned()));
                    return "ours";
                }
                0x95 => {
                    assert_eq!(registers[0], u64::from(PASS.cast_unsigned()));
                    return "passed";
                }
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn only_datagrams_to_the_address_and_port_are_ours() {
        let to: SocketAddrV4 = "192.0.2.2:2000".parse().unwrap();
        let any: SocketAddrV4 = "0.0.0.0:2000".parse().unwrap();
        let from: SocketAddrV4 = "192.0.2.1:1000".parse().unwrap();
        let program = |to, from| instructions(Ends { to, from }, 5);
        let ours = frame(b"abc");
        for (place, byte, wanted) in [
            (0, 9, "ours"),
            (12, 6, "passed"),    // Not IPv4.
            (13, 6, "passed"),    // ARP.
            (14, 0x46, "passed"), // Options.
            (15, 3, "ours"),      // A traffic class.
            (20, 0x20, "passed"), // More fragments.
            (21, 1, "passed"),    // A later fragment.
            (20, 0, "ours"),      // May be fragmented, and is not.
            (23, 6, "passed"),    // TCP.
            (30, 193, "passed"),  // Another address.
            (33, 3, "passed"),
            (29, 9, "ours"),   // Another sender.
            (34, 9, "ours"),   // Another of its ports.
            (36, 1, "passed"), // Another port.
            (37, 1, "passed"),
            (42, 0, "ours"),
        ] {
            let mut odd = ours.clone();
            odd[place] = byte;
            assert_eq!(run(&program(to, None), &odd), wanted, "byte {place} is {byte}");
            let of_sender = [26, 27, 28, 29, 34, 35].contains(&place);
            let wanted_of_one = if of_sender { "passed" } else { wanted };
            assert_eq!(
                run(&program(to, Some(from)), &odd),
                wanted_of_one,
                "byte {place} is {byte}"
            );
            let address = (30..34).contains(&place);
            let wanted = if address { "ours" } else { wanted };
            assert_eq!(run(&program(any, None), &odd), wanted, "byte {place} is {byte}");
        }
        assert_eq!(run(&program(to, None), &frame(b"")), "ours");
        for cut in 0..42 {
            assert_eq!(run(&program(to, None), &ours[..cut]), "passed", "{cut}");
        }
    }
}
