//! The ceiling of the engine, for measuring it: `bare PORT [auto|uring|poll] [plaintext|echo]`.
//! Plaintext answers once for every blank line, without parsing; echo sends back what it gets.
//! Prints its counters when its input ends.

use std::io::Read as _;

use engine::{Count, DriverChoice, Engine, ThreadPlan};
use event::{Handler, Input, Now, Output};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: throng\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

struct Bare {
    is_plaintext: bool,
}

impl Handler for Bare {
    type Mail = ();

    fn handle(&mut self, _: Now, input: Input<'_, ()>, out: &mut Output<()>) {
        match input {
            Input::Bytes { conn, bytes } if self.is_plaintext => {
                for _ in 0..bytes.windows(4).filter(|four| *four == b"\r\n\r\n").count() {
                    out.send(conn, ANSWER);
                }
            }
            Input::Bytes { conn, bytes } => out.send(conn, bytes),
            Input::Eof { conn } => out.close(conn),
            Input::Stop => out.stop(),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("which port?")?.parse()?;
    let choice: DriverChoice = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let is_plaintext = arguments.next().as_deref() != Some("echo");
    let mut engine = Engine::new(choice);
    let listeners = engine::listen(([127, 0, 0, 1], port).into(), 1)?;
    engine.add(ThreadPlan::core("core", listeners, move |_| Bare { is_plaintext }));
    let running = engine.start()?;
    println!("{}", running.driver());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    running.stop();
    let counters = running.counters()[0].counters;
    for count in [Count::Receives, Count::Sends, Count::Turns, Count::SystemCalls] {
        println!("{count:?} {}", counters.value(count));
    }
    Ok(running.join()?)
}
