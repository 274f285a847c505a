//! The scanner against a plain loop, and against `httparse`, which reads the same heads.

use event::Random;

use super::{HttpError, Scanner, value_span, value_span_slow};

#[test]
fn values_end_at_the_same_byte_eight_at_a_time() {
    for byte in 0..=u8::MAX {
        for len in 0..20 {
            for at in 0..len {
                let mut value = vec![b'\xff'; len];
                value[at] = byte;
                if at + 2 < len {
                    value[at + 2] = b'\r';
                }
                assert_eq!(value_span(&value), value_span_slow(&value), "{value:?}");
            }
        }
    }
}

/// Pieces that heads are put together from: of sound ones mostly, and of what breaks them.
const SOUND: &[&str] = &["GET", " ", "/", " ", "HTTP/1.1", "\r\n", "Host", ":", " ", "a", "\r\n"];
const SPICE: &[&str] = &[
    "\r",
    "\n",
    "\r\n",
    "\t",
    " ",
    ":",
    "\0",
    "\x7f",
    "é",
    "#",
    "?",
    "/a?b",
    "HTTP/1.0",
    "HTTP/2.0",
    "HTTP/1.1",
    "X-Long-Name",
    "a value, of some length; q=0.5",
    "(",
    "[",
    "~",
    "POST",
    "*",
    "200",
    "OK",
    "0",
];

fn made(random: &mut Random, first: &[&str]) -> Vec<u8> {
    let mut pieces: Vec<&str> = first.iter().chain(SOUND).copied().collect();
    for _ in 0..random.below(4) {
        let at = random.below(u32::try_from(pieces.len()).unwrap()) as usize;
        let spice = SPICE[random.below(u32::try_from(SPICE.len()).unwrap()) as usize];
        match random.below(3) {
            0 => pieces[at] = spice,
            1 => pieces.insert(at, spice),
            _ => drop(pieces.remove(at)),
        }
    }
    pieces.push("\r\n");
    let mut head = pieces.concat().into_bytes();
    if random.below(4) == 0 {
        head.truncate(random.below(u32::try_from(head.len() + 1).unwrap()) as usize);
    }
    head
}

/// What a head reads as: its first line, then its headers; `None` if its end is not there.
type Read = Result<Option<Vec<String>>, HttpError>;

fn rest(scanner: &mut Scanner<'_>, first: String) -> Read {
    let mut read = vec![first];
    while let Some(header) = scanner.header()? {
        let Some((name, value)) = header else { return Ok(Some(read)) };
        read.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()));
    }
    Ok(None)
}

fn request(head: &[u8]) -> Read {
    let mut scanner = Scanner::new(head);
    let Some(line) = scanner.request_line()? else { return Ok(None) };
    rest(&mut scanner, format!("{} {} {}", line.method, line.target, line.version_1_0))
}

fn response(head: &[u8]) -> Read {
    let mut scanner = Scanner::new(head);
    let Some(line) = scanner.status_line()? else { return Ok(None) };
    rest(&mut scanner, format!("{} {}", line.status, line.version_1_0))
}

fn headers(first: String, headers: &[httparse::Header<'_>]) -> Vec<String> {
    let text =
        |it: &httparse::Header<'_>| format!("{}={}", it.name, it.value.trim_ascii().escape_ascii());
    [first].into_iter().chain(headers.iter().map(text)).collect()
}

/// The same by `httparse`; `Err` for whatever it refuses.
fn request_by_other(head: &[u8]) -> Result<Option<Vec<String>>, httparse::Error> {
    let mut storage = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut storage);
    if parsed.parse(head)?.is_partial() {
        return Ok(None);
    }
    let (method, target) = (parsed.method.unwrap(), parsed.path.unwrap());
    let first = format!("{method} {target} {}", parsed.version == Some(0));
    Ok(Some(headers(first, parsed.headers)))
}

fn response_by_other(head: &[u8]) -> Result<Option<Vec<String>>, httparse::Error> {
    let mut storage = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut storage);
    if parsed.parse(head)?.is_partial() {
        return Ok(None);
    }
    let first = format!("{} {}", parsed.code.unwrap(), parsed.version == Some(0));
    Ok(Some(headers(first, parsed.headers)))
}

/// Whether a line ends in a line feed alone, which only the other takes.
fn has_bare_line_feed(head: &[u8]) -> bool {
    (0..head.len()).any(|at| head[at] == b'\n' && (at == 0 || head[at - 1] != b'\r'))
}

#[test]
fn heads_are_read_as_httparse_reads_them() {
    let mut random = Random::from_number(7);
    let (mut sound, mut refused) = (0, 0);
    for _ in 0..200_000 {
        let head = made(&mut random, &[]);
        let (ours, theirs) = (request(&head), request_by_other(&head));
        let shown = head.escape_ascii();
        match (ours, theirs) {
            (Ok(Some(ours)), theirs) => {
                assert_eq!(Ok(Some(ours)), theirs, "{shown}");
                sound += 1;
            }
            (Err(HttpError::Target), Ok(Some(_))) => {
                assert!(head.contains(&b'#') || !head.is_ascii(), "{shown}");
            }
            // It skips empty lines before a request, which the caller does here.
            (Err(error), Ok(Some(_))) => {
                assert!(has_bare_line_feed(&head) || head.starts_with(b"\r"), "{error}: {shown}");
            }
            (Ok(None), Ok(Some(_))) => panic!("not seen as complete: {shown}"),
            // What is wrong is said when the line is read that far, not sooner.
            (Ok(None) | Err(_), _) => refused += 1,
        }
    }
    assert!(sound > 20_000 && refused > 20_000, "{sound} {refused}");
}

#[test]
fn status_lines_are_read_as_httparse_reads_them() {
    let mut random = Random::from_number(8);
    let mut sound = 0;
    for _ in 0..100_000 {
        let line = ["HTTP/1.1", " ", "200", " ", "OK", "\r\n"];
        let mut head = made(&mut random, &[]);
        if let Some(at) = head.windows(2).position(|pair| pair == b"\r\n") {
            head.splice(..at + 2, line.concat().into_bytes());
        }
        let at = random.below(u32::try_from(line.concat().len()).unwrap()) as usize;
        if random.below(2) == 0 && at < head.len() {
            head[at] =
                SPICE[random.below(u32::try_from(SPICE.len()).unwrap()) as usize].as_bytes()[0];
        }
        let (ours, theirs) = (response(&head), response_by_other(&head));
        if let Ok(Some(ours)) = ours {
            assert_eq!(Ok(Some(ours)), theirs, "{}", head.escape_ascii());
            sound += 1;
        } else if let Ok(Some(theirs)) = theirs {
            // It takes a line feed alone, and statuses below 100.
            let status = theirs[0].split(' ').next().and_then(|it| it.parse::<u16>().ok());
            let is_low = status.is_some_and(|status| status < 100);
            assert!(has_bare_line_feed(&head) || is_low, "{ours:?} {}", head.escape_ascii());
        }
    }
    assert!(sound > 10_000, "{sound}");
}
