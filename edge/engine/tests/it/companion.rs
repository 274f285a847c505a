//! A second handler on a core's thread: who hears what when, and that the core's connections go on.

use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use engine::{CompanionPlan, Count, DriverChoice, Engine, Running, ThreadPlan};
use event::{Handler, Input, Now, Output, ThreadId};

use crate::rig::{PATIENCE, Script, echo, quick, round_trip};

const CORE: ThreadId = ThreadId(0);
const COMPANION: ThreadId = ThreadId(1);

/// Longer than any turn here.
const LONG_US: u32 = 20_000_000;

/// A core with a companion; mailboxes of so much mail, turns of so many microseconds.
fn start<C, D>(
    driver: DriverChoice,
    (mail_max, turn_us): (usize, u32),
    core: C,
    companion: D,
) -> Pair
where
    C: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
    D: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
{
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let mut engine = Engine::new(driver);
    let mut plan = ThreadPlan::core("core", listeners, |_| Script(core));
    plan.limits = quick();
    assert_eq!(engine.add(plan), CORE);
    let mut plan = CompanionPlan::new("companion", turn_us, |start| {
        assert_eq!(start.thread, COMPANION);
        Script(companion)
    });
    plan.mailbox_max = mail_max;
    assert_eq!(engine.add_companion(CORE, plan), COMPANION);
    let running = engine.start().unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    Pair { running, client }
}

struct Pair {
    running: Running<u64>,
    client: TcpStream,
}

impl Pair {
    fn stop(self) {
        self.running.stop();
        self.running.join().unwrap();
    }
}

/// Asks the companion for every byte, and sends what it answers.
fn asks() -> impl FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send {
    let mut asker = None;
    move |_, input, out| match input {
        Input::Bytes { conn, bytes } => {
            asker = Some(conn);
            bytes.iter().for_each(|byte| out.mail(COMPANION, u64::from(*byte)));
        }
        Input::Mail(mail) => {
            if let (Some(conn), Ok(byte)) = (asker, u8::try_from(mail)) {
                out.send(conn, &[byte]);
            }
        }
        _ => {}
    }
}

/// Nobody is woken, and no turn is taken, for an answer that is there when the turn ends.
pub(crate) fn a_companion_answers_in_the_turn_that_asks(driver: DriverChoice) {
    let (told, turns) = mpsc::channel();
    let mut core = asks();
    let mut inputs = Vec::new();
    let pair = start(
        driver,
        (64, LONG_US),
        move |now, input, out| {
            inputs.push(match &input {
                Input::Bytes { .. } => 'b',
                Input::Mail(_) => 'm',
                Input::TurnEnd => 'e',
                _ => ' ',
            });
            if let Input::TurnEnd = input {
                told.send(inputs.drain(..).collect::<String>()).unwrap();
            }
            core(now, input, out);
        },
        |_, input, out| {
            if let Input::Mail(mail) = input {
                out.mail(CORE, mail + 1);
            }
        },
    );
    for _ in 0..50 {
        assert_eq!(round_trip(&pair.client, b"aceg"), b"bdfh");
    }
    let turns: Vec<String> = turns.try_iter().filter(|turn| turn.contains('b')).collect();
    // What is sent at once may come in pieces.
    assert!(turns.len() >= 50, "{turns:?}");
    for turn in turns {
        let mails = turn.chars().filter(|input| *input == 'm').count();
        assert!(mails > 0 && turn.trim_start().starts_with('b'), "{turn}");
    }
    let mut running = pair.running;
    running.stop();
    running.wait().unwrap();
    for counted in running.counters() {
        let of = |count| counted.counters.value(count);
        assert_eq!((of(Count::Wakes), of(Count::MailIn)), (0, 200), "{}", counted.name);
    }
}

/// It sleeps with its core, and mail of others and its own timer wake both.
pub(crate) fn a_companion_is_heard_and_woken_by_all_as_a_thread_is(driver: DriverChoice) {
    let (told, heard) = mpsc::channel();
    let pair = start(driver, (64, LONG_US), echo, move |now, input, out| match input {
        Input::Mail(0) => out.wake_at(Some(now.after_ms(3).mono_ns)),
        Input::Mail(mail) => told.send(mail).unwrap(),
        Input::Wake => told.send(0).unwrap(),
        _ => {}
    });
    for round in 0..20 {
        (1..=5).for_each(|mail| pair.running.post(COMPANION, round * 5 + mail).unwrap());
        for mail in 1..=5 {
            assert_eq!(heard.recv_timeout(PATIENCE), Ok(round * 5 + mail));
        }
    }
    pair.running.post(COMPANION, 0).unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(round_trip(&pair.client, b"and the core"), b"and the core");
    pair.stop();
}

pub(crate) fn a_companion_without_rest_leaves_the_core_its_turns(driver: DriverChoice) {
    let pair = start(driver, (64, 0), echo, |now, input, out| match input {
        // Both ways of never being idle.
        Input::Mail(mail) => out.mail(COMPANION, mail),
        Input::Wake => out.wake_at(Some(now.mono_ns)),
        _ => {}
    });
    pair.running.post(COMPANION, 1).unwrap();
    for _ in 0..50 {
        assert_eq!(round_trip(&pair.client, b"all the same"), b"all the same");
    }
    pair.stop();
}

/// Turns of no length: one mail in each, and the core is heard between any two.
pub(crate) fn a_companion_that_has_had_its_turn_waits_for_the_next(driver: DriverChoice) {
    const MAILS: u64 = 20;
    let (told, heard) = mpsc::channel();
    let mut mails = 0;
    let core = move |_: Now, input: Input<'_, u64>, out: &mut Output<u64>| match input {
        Input::Bytes { .. } => (0..MAILS).for_each(|mail| out.mail(COMPANION, mail)),
        Input::Mail(_) => mails += 1,
        Input::TurnEnd if mails > 0 => told.send(std::mem::take(&mut mails)).unwrap(),
        _ => {}
    };
    let pair = start(driver, (64, 0), core, |_, input, out| {
        if let Input::Mail(mail) = input {
            out.mail(CORE, mail);
        }
    });
    std::io::Write::write_all(&mut &pair.client, b"x").unwrap();
    for _ in 0..MAILS {
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(1));
    }
    pair.stop();
}

/// What is refused comes back in order, and what was taken is heard in order.
pub(crate) fn a_companion_refuses_what_it_has_no_room_for(driver: DriverChoice) {
    let (told, heard) = mpsc::channel();
    let core = {
        let told = told.clone();
        move |_: Now, input: Input<'_, u64>, out: &mut Output<u64>| match input {
            Input::Bytes { .. } => (0..10).for_each(|mail| out.mail(COMPANION, mail)),
            Input::Refused { to, mail } => told.send((to, mail)).unwrap(),
            _ => {}
        }
    };
    let pair = start(driver, (4, LONG_US), core, move |_, input, _| {
        if let Input::Mail(mail) = input {
            told.send((CORE, mail)).unwrap();
        }
    });
    std::io::Write::write_all(&mut &pair.client, b"x").unwrap();
    let all: Vec<_> = (0..10).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    let of = |who| all.iter().filter(move |(to, _)| *to == who).map(|(_, mail)| *mail);
    assert!(of(CORE).eq(0..4) && of(COMPANION).eq(4..10), "{all:?}");
    pair.stop();
}

/// Told to stop, it goes on for as long as its core does; then it hears of it, behind its mail.
pub(crate) fn a_companion_ends_with_its_core(driver: DriverChoice) {
    struct Lasting(Option<event::ConnId>);
    impl Handler for Lasting {
        type Mail = u64;

        fn handle(&mut self, _: Now, input: Input<'_, u64>, out: &mut Output<u64>) {
            match input {
                Input::Opened { conn, .. } => self.0 = Some(conn),
                // Asked to stop, it has a question first.
                Input::Stop => out.mail(COMPANION, 7),
                Input::Mail(8) => {
                    out.mail(COMPANION, 9);
                    out.stop();
                }
                _ => {}
            }
        }
    }
    let (told, heard) = mpsc::channel();
    let companion = move |_: Now, input: Input<'_, u64>, out: &mut Output<u64>| match input {
        Input::Mail(mail) => {
            told.send(mail).unwrap();
            out.mail(CORE, mail + 1);
        }
        Input::Stop => told.send(0).unwrap(),
        _ => {}
    };
    let mut engine = Engine::new(driver);
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let mut plan = ThreadPlan::core("core", listeners, |_| Lasting(None));
    plan.limits = quick();
    let core = engine.add(plan);
    let plan = CompanionPlan::new("companion", LONG_US, |_| Script(companion));
    let companion = engine.add_companion(core, plan);
    let running = engine.start().unwrap();
    running.stop_thread(companion);
    assert!(!running.is_finished(companion));
    running.stop();
    let all: Vec<u64> =
        std::iter::from_fn(|| heard.recv_timeout(Duration::from_secs(20)).ok()).collect();
    assert_eq!(all, [7, 9, 0]);
    while !running.is_finished(companion) {
        std::thread::yield_now();
    }
    assert!(running.is_finished(core));
    assert_eq!(running.post(companion, 1), Err(1));
    running.join().unwrap();
}
