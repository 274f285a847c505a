//! Hooks with the messages of the calls that they stand before and after, on [`Initializer`]; the calls themselves are
//! made from the server's table (`calls`).

use crate::message::ApiMessage;
use crate::rtapi::Envelope;
use crate::{Context, Initializer, Result, Value, api, name_of};

/// What is nil is not there.
fn read<T: ApiMessage>(value: &Value) -> Result<Option<T>> {
    if *value == Value::Nil { Ok(None) } else { T::read(value).map(Some) }
}

/// Declares the two functions of each call.
macro_rules! hooks {
    ($(
        #[doc = $doc:literal]
        $name:ident $before:ident $after:ident ($($request:ident)?) ($($response:ident)?);
    )+) => {
        impl Initializer {
            $(
                hooks!(@before $name $before $doc ($($request)?));
                hooks!(@after $name $after $doc ($($request)?) ($($response)?));
            )+
        }
    };
    (@before $name:ident $before:ident $doc:literal ($request:ident)) => {
        #[doc = concat!(
            "Runs a function before each `", stringify!($name), "`. It returns the request, changed or not; `None` \
             refuses it.\n\nThe call: ", $doc, "\n\n# Errors\nThe server refuses.",
        )]
        pub fn $before(
            &mut self,
            function: impl Fn(&Context, api::$request) -> Result<Option<api::$request>> + 'static,
        ) -> Result<()> {
            type Hook = dyn Fn(&Context, api::$request) -> Result<Option<api::$request>>;
            let place = name_of(&function);
            let function: Box<Hook> = Box::new(function);
            self.register_before(stringify!($name), move |context, request| {
                let returned = function(context, ApiMessage::read(&request)?);
                let returned = returned.map_err(|error| error.of(place))?;
                Ok(returned.map(|request| request.value()))
            })
        }
    };
    (@before $name:ident $before:ident $doc:literal ()) => {
        #[doc = concat!(
            "Runs a function before each `", stringify!($name), "`. An error of it refuses the call.\n\nThe call: ",
            $doc, "\n\n# Errors\nThe server refuses.",
        )]
        pub fn $before(
            &mut self,
            function: impl Fn(&Context) -> Result<()> + 'static,
        ) -> Result<()> {
            let place = name_of(&function);
            let function: Box<dyn Fn(&Context) -> Result<()>> = Box::new(function);
            self.register_before(stringify!($name), move |context, request| {
                function(context).map(|()| Some(request)).map_err(|error| error.of(place))
            })
        }
    };
    (@after $name:ident $after:ident $doc:literal ($($request:ident)?) ($($response:ident)?)) => {
        #[doc = concat!(
            "Runs a function after each `", stringify!($name), "`, with the answer and the request, as far as the call \
             has them. What it returns no client is told.\n\nThe call: ", $doc, "\n\n# Errors\nThe server refuses.",
        )]
        pub fn $after(
            &mut self,
            function: impl Fn(&Context $(, api::$response)? $(, api::$request)?) -> Result<()> + 'static,
        ) -> Result<()> {
            type Hook = dyn Fn(&Context $(, api::$response)? $(, api::$request)?) -> Result<()>;
            let place = name_of(&function);
            let function: Box<Hook> = Box::new(function);
            self.register_after(stringify!($name), move |context, _answer, _request| {
                function(
                    context
                    $(, <api::$response as ApiMessage>::read(&_answer)?)?
                    $(, <api::$request as ApiMessage>::read(&_request)?)?
                )
                .map_err(|error| error.of(place))
            })
        }
    };
}

crate::every_call!(hooks);

type BeforeRt = Box<dyn Fn(&Context, Envelope) -> Result<Option<Envelope>>>;
type AfterRt = Box<dyn Fn(&Context, Option<Envelope>, Envelope) -> Result<()>>;

impl Initializer {
    /// Runs a function before each message of the socket of this name, such as `MatchCreate`. It returns the message,
    /// changed or not; `None` refuses it.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn before_rt(
        &mut self,
        message: &str,
        function: impl Fn(&Context, Envelope) -> Result<Option<Envelope>> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        let function: BeforeRt = Box::new(function);
        self.register_before(&format!("rt:{message}"), move |context, request| {
            let returned = function(context, Envelope::read(&request)?);
            let returned = returned.map_err(|error| error.of(place))?;
            Ok(returned.map(|envelope| envelope.value()))
        })
    }

    /// Runs a function after each message of the socket of this name, with the answer, if there is one, and the message.
    ///
    /// # Errors
    /// The server refuses the name.
    pub fn after_rt(
        &mut self,
        message: &str,
        function: impl Fn(&Context, Option<Envelope>, Envelope) -> Result<()> + 'static,
    ) -> Result<()> {
        let place = name_of(&function);
        let function: AfterRt = Box::new(function);
        self.register_after(&format!("rt:{message}"), move |context, answer, request| {
            let after = function(context, read(&answer)?, Envelope::read(&request)?);
            after.map_err(|error| error.of(place))
        })
    }
}
