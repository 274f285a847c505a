//! Every argument is read as its row in the host table says.

use game::host::{Argument, FunctionKind, ValueType, functions};

use crate::host::TestHost;
use crate::run_on;

/// An argument in Lua that fits this one; any id will do as a string that is not one of a few words.
fn fitting(argument: &Argument) -> &'static str {
    match argument.value_type {
        ValueType::String if argument.name == "method" => "'get'",
        ValueType::Any => "nil",
        ValueType::Boolean => "true",
        ValueType::Function => "print",
        ValueType::List | ValueType::Table => "{}",
        ValueType::Number => "1",
        ValueType::String => "'5a2e12c6-5a0e-4c3c-9c0b-0a0b0c0d0e0f'",
    }
}

/// An argument that is not of this type; `None` if everything is.
fn unfitting(value_type: ValueType) -> Option<&'static str> {
    match value_type {
        ValueType::Any => None,
        ValueType::String => Some("true"),
        ValueType::Boolean
        | ValueType::Function
        | ValueType::List
        | ValueType::Number
        | ValueType::Table => Some("'x'"),
    }
}

/// A call of `name` with fitting arguments before the last, which does not fit.
fn call(name: &str, before: &[Argument], last: &str) -> String {
    let mut arguments: Vec<&str> = before.iter().map(fitting).collect();
    arguments.push(last);
    format!("return tostring(select(2, pcall(nk.{name}, {})))", arguments.join(", "))
}

#[test]
fn what_does_not_fit_its_row_is_refused_and_named() {
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for function in functions().filter(|it| matches!(it.kind, FunctionKind::Built(_))) {
        for (index, argument) in function.arguments().iter().enumerate() {
            let Some(last) = unfitting(argument.value_type) else { continue };
            let text = call(function.name, &function.arguments()[..index], last);
            let answer = run_on(&text, "", &mut TestHost::default()).unwrap().unwrap();
            let wanted = format!("bad argument #{} to {} (", index + 1, function.name);
            looked_at += 1;
            if !answer.contains(&wanted) {
                wrong.push(format!("{text}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(looked_at > 150, "{looked_at}");
}

#[test]
fn what_is_passed_beyond_the_arguments_is_left_alone() {
    let answer = run_on("return nk.md5_hash('abc', newproxy())", "", &mut TestHost::default());
    assert_eq!(answer.unwrap().unwrap(), "900150983cd24fb0d6963f7d28e17f72");
}
