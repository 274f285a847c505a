//! What one client does to the server, and what its neighbours notice of that.

use super::*;

/// The head of a message of so many bytes (`peer/protocol.rs` of the lab has its form).
fn head(len: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&len.to_be_bytes());
    head
}

#[test]
fn one_client_has_half_of_the_memory_and_its_neighbour_the_other() {
    const MESSAGE: u32 = 16 << 20;
    let (server, port) = server(&[]);
    let control = stranger(port);
    let answer = first_line(&control, "throng/1 ping control version=x\n");
    let line = format!("throng/1 ping tcp session={}\n", session_in(&answer));
    // The small message comes back, the large one is announced and never comes: the server has room for
    // eight, and closes the others.
    let held: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = stranger(port);
            first_line(&stream, &line);
            stream.write_all(&[head(16), head(MESSAGE)].concat()).unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
            stream
        })
        .collect();
    let target = at(port);
    let ran = ping(&[&target, "-l", "16m", "-n", "2", "-w", "0", "-i", "0"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    drop((held, control));
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(ran.out.contains("12 turned away at a limit"), "{}", ran.out);
}

#[test]
fn a_client_that_never_pauses_ends_with_its_session() {
    let (_server, port) = server(&[]);
    let control = stranger(port);
    let answer = first_line(&control, "throng/1 ping control version=x\n");
    let stream = stranger(port);
    first_line(&stream, &format!("throng/1 ping tcp session={}\n", session_in(&answer)));
    let (mut writes, mut reads) = (stream.try_clone().unwrap(), stream);
    let messages = head(16).repeat(64);
    let writer = std::thread::spawn(move || while writes.write_all(&messages).is_ok() {});
    let mut bytes = [0; 4_096];
    reads.read_exact(&mut bytes).unwrap();
    drop(control);
    let began = Instant::now();
    while reads.read(&mut bytes).is_ok_and(|len| len > 0) {
        assert!(began.elapsed() < SOON, "it goes on");
    }
    drop(reads);
    writer.join().unwrap();
}

#[test]
fn whoever_guesses_tokens_is_not_listened_to_and_its_neighbour_is() {
    let (server, port) = server(&["--token", "right"]);
    let control = |token: &str| {
        first_line(&stranger(port), &format!("throng/1 ping control version=x token={token}\n"))
    };
    for guess in 0..10 {
        let answer = control(&format!("wrong-{guess}"));
        assert!(answer.starts_with("throng/1 no token "), "{guess}: {answer}");
    }
    for token in ["wrong", "right"] {
        let answer = control(token);
        assert!(answer.starts_with("throng/1 no guessing too many wrong tokens"), "{answer}");
    }
    let answer = first_line(
        &stranger(port),
        "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    let target = at(port);
    for kind in [&[][..], &["--http"]] {
        let args = [&[&*target, "--token", "right", "-n", "3", "-i", "1ms"], kind].concat();
        let ran = ping(&args);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    }
    server.signal(Signal::INT);
    let ran = server.end();
    for part in ["10 refused for their token", "3 refused without a look at their token"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

/// Interrupts a client that waits for something that never comes, with a timeout of a minute.
pub(crate) fn ends_when_interrupted(mut command: Command, wait_for: impl FnOnce()) {
    command.args(["--timeout", "1m"]);
    let told = format!("{command:?}");
    let client = Process::of(command);
    wait_for();
    client.signal(Signal::INT);
    let began = Instant::now();
    let ran = client.end();
    let took = began.elapsed();
    assert_eq!(ran.code, Some(130), "{told} {took:?}\n{}{}", ran.out, ran.err);
    assert!(ran.err.contains("ended by SIGINT") && took < SOON, "{told} {took:?}\n{}", ran.err);
}

#[test]
fn whoever_waits_for_an_answer_can_be_interrupted() {
    for kind in [&[][..], &["--udp"], &["--ws"], &["--http"]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
        command.args(["ping", &at(listener.local_addr().unwrap().port())]).args(kind);
        let mut accepted = None;
        ends_when_interrupted(command, || {
            // It has connected, and said what it wants.
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut [0]).unwrap();
            accepted = Some(stream);
        });
    }
}
