//! The functions of the host table as functions of `nk`: arguments are read, the function is run, its
//! results are shaped as Nakama's JavaScript shapes them. A refusal is thrown as an `Error`, or as a
//! `TypeError` if an argument is wrong.
//!
//! One that must wait lets its call be put aside (`pieces`), wherever in the script it stands; for a match also
//! one that another thread can run as a whole. While a VM starts it cannot.

use game::guest::{Allowance, Answer, Ask, HostError};
use game::host::{Args, HostFunction, Ran, Returns};
use game::value::Value;
use rquickjs::function::Rest;
use rquickjs::{Ctx, Exception, Function, IntoJs as _, Object, Value as JsValue};
use script::budget::{self, CallMeter};
use script::lend;
use smallvec::SmallVec;

use crate::convert::{self, ConvertError, Names};
use crate::names::{self, Binding, Shape};
use crate::{pieces, vm};

/// The function `nk.<name>`; undefined if Nakama has none.
pub(crate) fn bind<'js>(ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<JsValue<'js>> {
    let Some(binding) = names::find(name) else {
        return match name {
            "binaryToString" => Function::new(ctx.clone(), binary_to_string)?.into_js(ctx),
            "stringToBinary" => Function::new(ctx.clone(), string_to_binary)?.into_js(ctx),
            _ => Ok(JsValue::new_undefined(ctx.clone())),
        };
    };
    let call = move |ctx: Ctx<'js>, args: Rest<JsValue<'js>>| run(&ctx, binding, &args.0);
    Function::new(ctx.clone(), call)?.with_name(binding.name)?.into_js(ctx)
}

fn binary_to_string<'js>(
    ctx: Ctx<'js>,
    args: Rest<JsValue<'js>>,
) -> rquickjs::Result<JsValue<'js>> {
    let bytes = args.0.first().map(convert::binary).transpose()?.flatten();
    let Some(bytes) = bytes else {
        return Err(Exception::throw_type(&ctx, "expects a ArrayBuffer object"));
    };
    match String::from_utf8(bytes) {
        Ok(text) => text.into_js(&ctx),
        Err(_) => Err(Exception::throw_type(&ctx, "expects data to be UTF-8 encoded")),
    }
}

fn string_to_binary<'js>(
    ctx: Ctx<'js>,
    args: Rest<JsValue<'js>>,
) -> rquickjs::Result<JsValue<'js>> {
    let Some(text) = args.0.first().and_then(JsValue::as_string) else {
        return Err(Exception::throw_type(&ctx, "expects a string"));
    };
    convert::buffer(&ctx, text.to_string()?.as_bytes())
}

fn run<'js>(
    ctx: &Ctx<'js>,
    binding: &Binding,
    given: &[JsValue<'js>],
) -> rquickjs::Result<JsValue<'js>> {
    if !binding.is_built() {
        let text = format!("nk.{} is not implemented in throng yet", binding.name);
        return Err(Exception::throw_message(ctx, &text));
    }
    vm::look(ctx.clone())?;
    let meter = CallMeter::default();
    let values = read(ctx, binding, given, &meter)?;
    let returns = call(binding.function, values, &meter);
    // It may have taken long, as a password's hash does.
    vm::look(ctx.clone())?;
    match returns {
        Ok(returns) => shaped(ctx, binding, &returns),
        Err(error) => Err(refused(ctx, binding, &error)),
    }
}

/// Runs a function to its end.
fn call(
    function: &'static HostFunction,
    values: Values,
    meter: &CallMeter,
) -> Result<Returns, HostError> {
    let may_wait = pieces::may_wait();
    if may_wait && budget::is_match() && function.lane.can_run_elsewhere() {
        let allowance =
            Allowance { time_ms: budget::left_ms().0, memory_bytes: budget::memory_bytes() };
        let values = values.into_vec();
        let ask = Ask::Run { function: function.name, values, allowance };
        return answered(function, meter, pieces::wait(ask));
    }
    let args = Args { function: function.name, values: &values, meter };
    let is_long = meter.holds_much();
    let ran = lend::host(|host| {
        if is_long {
            host.db().rest(true);
        }
        match function.begin(host, &args)? {
            Ran::Waits(ask) if !may_wait => {
                let answer = host.ask(ask);
                function.answered(host, &args, answer).map(Ran::Returned)
            }
            ran => Ok(ran),
        }
    });
    drop(values);
    match ran.unwrap_or_else(|| Err(no_host()))? {
        Ran::Returned(returns) => Ok(returns),
        Ran::Waits(ask) => answered(function, meter, pieces::wait(ask)),
    }
}

fn answered(
    function: &'static HostFunction,
    meter: &CallMeter,
    answer: Answer,
) -> Result<Returns, HostError> {
    let args = Args { function: function.name, values: &[], meter };
    let returns = lend::host(|host| function.answered(host, &args, answer));
    returns.unwrap_or_else(|| Err(no_host()))
}

fn no_host() -> HostError {
    HostError::new("not possible outside of a call")
}

/// A call's arguments.
type Values = SmallVec<[Value; 8]>;

/// The arguments in the table's order; what is missing at the end stays missing.
fn read<'js>(
    ctx: &Ctx<'js>,
    binding: &Binding,
    given: &[JsValue<'js>],
    meter: &CallMeter,
) -> rquickjs::Result<Values> {
    let declared = binding.function.arguments();
    let mut values = Values::new();
    for (index, value) in given.iter().take(declared.len()).enumerate() {
        let at = binding.order.get(index).copied().unwrap_or(index);
        let is_data = declared.get(at).is_some_and(|argument| names::is_user_data(argument.name));
        let spelling = if is_data { Names::Kept } else { Names::Spelled };
        let value = convert::from_js(value, spelling, meter).map_err(|error| match error {
            ConvertError::Thrown(error) => error,
            other => {
                let text = format!("{}: argument {}: {other}", binding.name, index + 1);
                Exception::throw_type(ctx, &text)
            }
        })?;
        while values.len() <= at {
            values.push(Value::Nil);
        }
        if let Some(place) = values.get_mut(at) {
            *place = value;
        }
    }
    Ok(values)
}

/// A refusal as an exception: Lua's `bad argument #1 to users_ban_id (…)` names what JavaScript has.
fn refused(ctx: &Ctx<'_>, binding: &Binding, error: &HostError) -> rquickjs::Error {
    let parts = error.message.strip_prefix("bad argument #").and_then(|rest| {
        let (number, rest) = rest.split_once(" to ")?;
        let (_, what) = rest.split_once(" (")?;
        Some((number.parse::<usize>().ok()?.checked_sub(1)?, what.strip_suffix(')')?))
    });
    let Some((index, what)) = parts else {
        return Exception::throw_message(ctx, &error.message);
    };
    let place = binding.order.iter().position(|at| *at == index).unwrap_or(index);
    let text = format!("{}: argument {}: {}", binding.name, place + 1, in_words(what));
    Exception::throw_type(ctx, &text)
}

/// What Lua calls a table, nil or `user_id`.
fn in_words(what: &str) -> String {
    let words = what.split(' ').map(|word| match word {
        "table" => "object".to_owned(),
        "nil" => "null".to_owned(),
        word if word.contains('_') => names::camel_case(word),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn shaped<'js>(
    ctx: &Ctx<'js>,
    binding: &Binding,
    returns: &Returns,
) -> rquickjs::Result<JsValue<'js>> {
    let results = binding.function.doc().map_or(&[][..], |doc| doc.results);
    let spelling = |index: usize| {
        let is_data = results.get(index).is_some_and(|result| names::is_users_result(result.name));
        if is_data { Names::Kept } else { Names::Spelled }
    };
    let value = |index: usize| match returns.get(index) {
        Some(value) => convert::to_js(ctx, value, spelling(index)),
        None => Ok(JsValue::new_undefined(ctx.clone())),
    };
    let named = |names: &[&str]| {
        let object = Object::new(ctx.clone())?;
        for (index, name) in names.iter().enumerate() {
            object.set(*name, value(index)?)?;
        }
        Ok(object.into_value())
    };
    match binding.shape {
        Shape::Bytes => match returns.first() {
            Some(Value::Bytes(bytes)) => convert::buffer(ctx, bytes),
            _ => value(0),
        },
        Shape::Named(names) => named(names),
        Shape::Account => match returns.first() {
            Some(found) => convert::to_js(ctx, &account(found), Names::Spelled),
            None => value(0),
        },
        Shape::Plain if results.len() > 1 => {
            let camel: Vec<String> =
                results.iter().map(|result| names::camel_case(result.name)).collect();
            named(&camel.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Shape::Plain => value(0),
    }
}

/// An account without the fields that stand in its `user` as well.
fn account(value: &Value) -> Value {
    const OWN: &[&str] =
        &["user", "wallet", "email", "devices", "custom_id", "verify_time", "disable_time"];
    match value {
        Value::List(accounts) => Value::List(accounts.iter().map(account).collect()),
        Value::Map(members) => {
            let own =
                members.iter().filter(|(name, _)| OWN.iter().any(|own| own.as_bytes() == name));
            Value::Map(own.cloned().collect())
        }
        other => other.clone(),
    }
}
