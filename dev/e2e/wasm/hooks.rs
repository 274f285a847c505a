//! Registers every hook of every call of the API, with the SDK's own list of them, and of every message of the socket.
//! Each writes a line to the log: "before NAME" or "after NAME", and what it was given, for the test
//! (`dev/e2e/guest_hooks.test.mjs`).

use throng_guest::{ApiMessage, Context, Initializer, Result, Value, api, nk, rtapi};

throng_guest::module!(init_module);

/// Messages as JSON, behind what happened.
fn told(what: &str, messages: &[Value]) {
    let messages: Vec<String> = messages.iter().map(Value::to_json).collect();
    nk::log_info(&format!("{what} {}", messages.join(" ")));
}

/// Registers both functions of each call.
macro_rules! register {
    ($(
        #[doc = $doc:literal]
        $name:ident $before:ident $after:ident ($($request:ident)?) ($($response:ident)?);
    )+) => {
        fn register_all(initializer: &mut Initializer) -> Result<()> {
            $(
                register!(@before initializer $name $before ($($request)?));
                initializer.$after(
                    |_: &Context $(, _answer: register!(@answer $response))? $(, _request: api::$request)?| {
                        told(concat!("after ", stringify!($name)), &[
                            $(register!(@value _answer $response),)?
                            $(register!(@value _request $request),)?
                        ]);
                        Ok(())
                    },
                )?;
            )+
            Ok(())
        }
    };
    (@before $initializer:ident $name:ident $before:ident ($request:ident)) => {
        $initializer.$before(|_: &Context, request: api::$request| {
            told(concat!("before ", stringify!($name)), &[request.value()]);
            Ok(Some(request))
        })?;
    };
    (@before $initializer:ident $name:ident $before:ident ()) => {
        $initializer.$before(|_: &Context| {
            told(concat!("before ", stringify!($name)), &[]);
            Ok(())
        })?;
    };
    (@answer $response:ident) => { api::$response };
    (@value $message:ident $type:ident) => { $message.value() };
}

throng_guest::every_call!(register);

fn init_module(initializer: &mut Initializer) -> Result<()> {
    register_all(initializer)?;
    for message in rtapi::MESSAGES {
        initializer.before_rt(message, move |_, envelope| {
            told(&format!("before rt:{message}"), &[envelope.value()]);
            Ok(Some(envelope))
        })?;
        initializer.after_rt(message, move |_, answer, envelope| {
            let answer = answer.map_or(Value::Nil, |answer| answer.value());
            told(&format!("after rt:{message}"), &[answer, envelope.value()]);
            Ok(())
        })?;
    }
    for (kind, event) in
        [("event", "event"), ("start", "event_session_start"), ("end", "event_session_end")]
    {
        initializer.register_event(event, move |_, argument| {
            told(&format!("heard {kind}"), &[api::Event::read(&argument)?.value()]);
            Ok(())
        })?;
    }
    Ok(())
}
