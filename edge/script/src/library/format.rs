//! `string.format` as Nakama's scripts know it: Go's `fmt.Sprintf` over Lua values, which prints
//! what is missing or of another kind instead of raising an error. `%i` and `%u` are `%d`, and
//! strings that hold numbers count as numbers, as in Lua.
//!
//! Source: nakama 3.40, `internal/gopher-lua/value.go` (`Format`), Go's package `fmt`.

use std::fmt::Write as _;

use mlua::{Lua, MultiValue, Value as LuaValue};

use crate::budget;

/// Widths and precisions; Go stops at a million.
const WIDTH_MAX: usize = 9_999;

/// Steps taken before the budget hears of them.
const STEPS_PER_REPORT: usize = 1_000;

/// One conversion: `%`, flags, width, precision, verb.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    minus: bool,
    plus: bool,
    space: bool,
    zero: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
    verb: char,
}

/// The text of `format` with `values` in the places of its conversions.
///
/// # Errors
/// Of the budget, of `__tostring`, and [`WIDTH_MAX`].
pub(super) fn format(lua: &Lua, format: &[u8], values: &MultiValue) -> mlua::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(format.len() + 16);
    let mut rest = format;
    let (mut values, mut steps) = (values.iter(), 0);
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let (spec, length) = spec(rest)?;
        rest = rest.get(length..).unwrap_or_default();
        match spec.verb {
            '%' => out.push(b'%'),
            '\0' => out.extend_from_slice(b"%!(NOVERB)"),
            verb => match values.next() {
                Some(value) => convert(spec, value, &mut out)?,
                None => write_text(&mut out, &format!("%!{verb}(MISSING)")),
            },
        }
        steps += spec.width / 2 + 40;
        if steps > STEPS_PER_REPORT {
            budget::spend(u32::try_from(steps).unwrap_or(u32::MAX))?;
            budget::check_bytes(lua, out.len())?;
            steps = 0;
        }
    }
    out.extend_from_slice(rest);
    budget::spend(u32::try_from(steps).unwrap_or(u32::MAX))?;
    budget::check_bytes(lua, out.len())?;
    Ok(out)
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// The conversion at the start of `text`, and its length without the percent sign.
fn spec(text: &[u8]) -> mlua::Result<(Spec, usize)> {
    let mut spec = Spec::default();
    let mut at = 0;
    while let Some(flag) = text.get(at) {
        match flag {
            b'-' => spec.minus = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'0' => spec.zero = true,
            b'#' => spec.sharp = true,
            _ => break,
        }
        at += 1;
    }
    let number = |at: &mut usize| {
        let mut number = 0_usize;
        while let Some(digit) = text.get(*at).filter(|digit| digit.is_ascii_digit()) {
            number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
            *at += 1;
        }
        if number > WIDTH_MAX {
            let text = "invalid format (width or precision too long)";
            return Err(mlua::Error::runtime(text));
        }
        Ok(number)
    };
    spec.width = number(&mut at)?;
    if text.get(at) == Some(&b'.') {
        at += 1;
        spec.precision = Some(number(&mut at)?);
    }
    let rest = text.get(at..).unwrap_or_default();
    let whole = rest.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    spec.verb = whole.or_else(|| rest.first().map(|byte| char::from(*byte))).unwrap_or('\0');
    let length = whole.map_or(rest.len().min(1), char::len_utf8);
    Ok((spec, at + length))
}

/// The number that a value is, or holds as text.
fn number_of(value: &LuaValue) -> Option<f64> {
    match value {
        #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
        LuaValue::Integer(number) => Some(*number as f64),
        LuaValue::Number(number) => Some(*number),
        LuaValue::String(text) => {
            let text = text.to_str().ok()?;
            let text = text.trim();
            match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
                Some(hex) => u64::from_str_radix(hex, 16).ok().map(|number| number as f64),
                None if text.starts_with(|c: char| c.is_ascii_alphabetic()) => None,
                None => text.parse().ok(),
            }
        }
        _ => None,
    }
}

fn convert(spec: Spec, value: &LuaValue, out: &mut Vec<u8>) -> mlua::Result<()> {
    let number = number_of(value);
    match (spec.verb, number) {
        ('d' | 'i' | 'u' | 'b' | 'o' | 'x' | 'X' | 'c' | 'U', Some(number))
            if !(matches!(spec.verb, 'x' | 'X') && value.is_string()) =>
        {
            integer(spec, number, out);
        }
        ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Some(number)) => float(spec, number, out),
        ('s' | 'v' | 'q' | 'x' | 'X', _) => text(spec, value, out)?,
        ('t', _) if value.is_boolean() => text(spec, value, out)?,
        ('d' | 'i' | 'u', None) => match value {
            LuaValue::Nil => pad(spec, b"&{}", out),
            LuaValue::String(_) => integer(spec, 0.0, out),
            _ => wrong_verb(spec, value, out)?,
        },
        ('p', _) => pad(spec, format!("{:p}", value.to_pointer()).as_bytes(), out),
        _ => wrong_verb(spec, value, out)?,
    }
    Ok(())
}

/// What Go prints for a verb that its value does not know.
fn wrong_verb(spec: Spec, value: &LuaValue, out: &mut Vec<u8>) -> mlua::Result<()> {
    let kind = match value {
        LuaValue::Nil => "nil",
        LuaValue::Boolean(_) => "lua.LBool",
        LuaValue::Integer(_) => "int64",
        LuaValue::Number(_) => "float64",
        LuaValue::String(_) => "string",
        other => other.type_name(),
    };
    let shown = shown(value)?;
    write_text(out, &format!("%!{}({kind}=", spec.verb));
    out.extend_from_slice(&shown);
    out.push(b')');
    Ok(())
}

/// `tostring(value)`.
fn shown(value: &LuaValue) -> mlua::Result<Vec<u8>> {
    Ok(match value {
        LuaValue::String(text) => text.as_bytes().to_vec(),
        LuaValue::Integer(number) => number.to_string().into_bytes(),
        LuaValue::Number(number) => number_text(*number).into_bytes(),
        other => other.to_string()?.into_bytes(),
    })
}

/// A number as `tostring` shows it in Nakama: whole ones without a fraction.
fn number_text(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "checked: whole and within 64 bits")]
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        return (number as i64).to_string();
    }
    shortest(number, 21)
}

fn text(spec: Spec, value: &LuaValue, out: &mut Vec<u8>) -> mlua::Result<()> {
    let mut bytes = shown(value)?;
    if let Some(most) = spec.precision
        && spec.verb != 'q'
    {
        let end = letters(&bytes).nth(most);
        bytes.truncate(end.unwrap_or(bytes.len()));
    }
    match spec.verb {
        'q' => bytes = quoted(&bytes).into_bytes(),
        'x' | 'X' => {
            let mut hex = String::with_capacity(bytes.len() * 2);
            for byte in &bytes {
                let _ = if spec.verb == 'x' {
                    write!(hex, "{byte:02x}")
                } else {
                    write!(hex, "{byte:02X}")
                };
            }
            bytes = hex.into_bytes();
        }
        _ => {}
    }
    pad(spec, &bytes, out);
    Ok(())
}

/// Where the letters of a text begin; a byte that is not UTF-8 is one.
fn letters(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let starts = |byte: u8| byte & 0xc0 != 0x80;
    text.iter().enumerate().filter(move |(_, byte)| starts(**byte)).map(|(at, _)| at)
}

/// Go's `strconv.Quote`.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let _ = match letter {
                '"' => out.write_str("\\\""),
                '\\' => out.write_str("\\\\"),
                '\n' => out.write_str("\\n"),
                '\r' => out.write_str("\\r"),
                '\t' => out.write_str("\\t"),
                '\x07' => out.write_str("\\a"),
                '\x08' => out.write_str("\\b"),
                '\x0b' => out.write_str("\\v"),
                '\x0c' => out.write_str("\\f"),
                _ if letter.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(letter)),
                _ => out.write_char(letter),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn pad(spec: Spec, bytes: &[u8], out: &mut Vec<u8>) {
    let fill = spec.width.saturating_sub(if spec.width > 0 { letters(bytes).count() } else { 0 });
    let with = if spec.zero && !spec.minus { b'0' } else { b' ' };
    if spec.minus {
        out.extend_from_slice(bytes);
    }
    out.extend(std::iter::repeat_n(with, fill));
    if !spec.minus {
        out.extend_from_slice(bytes);
    }
}

/// Digits with their sign: zeros go between the two.
fn pad_number(spec: Spec, negative: bool, digits: &str, out: &mut Vec<u8>) {
    let sign = match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    if spec.zero && !spec.minus {
        write_text(out, sign);
        let spec = Spec { width: spec.width.saturating_sub(sign.len()), ..spec };
        pad(spec, digits.as_bytes(), out);
    } else {
        pad(Spec { zero: false, ..spec }, format!("{sign}{digits}").as_bytes(), out);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "Lua cuts off; `as` saturates")]
fn integer(spec: Spec, number: f64, out: &mut Vec<u8>) {
    let number = number as i64;
    let size = number.unsigned_abs();
    let mut digits = match spec.verb {
        'b' => format!("{size:b}"),
        'o' => format!("{size:o}"),
        'x' if spec.sharp => format!("{size:#x}"),
        'x' => format!("{size:x}"),
        'X' if spec.sharp => format!("0X{size:X}"),
        'X' => format!("{size:X}"),
        'U' => return pad(spec, format!("U+{size:04X}").as_bytes(), out),
        'c' => {
            let letter = u32::try_from(size).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            return pad(spec, letter.encode_utf8(&mut [0; 4]).as_bytes(), out);
        }
        _ => size.to_string(),
    };
    let mut spec = spec;
    if let Some(least) = spec.precision {
        digits = format!("{digits:0>least$}");
        spec.zero = false;
    }
    pad_number(spec, number < 0, &digits, out);
}

fn float(spec: Spec, number: f64, out: &mut Vec<u8>) {
    if !number.is_finite() {
        let spec = Spec { zero: false, plus: spec.plus || number.is_infinite(), ..spec };
        let digits = if number.is_nan() { "NaN" } else { "Inf" };
        return pad_number(spec, number < 0.0, digits, out);
    }
    let size = number.abs();
    let mut digits = match (spec.verb, spec.precision) {
        ('f' | 'F', precision) => format!("{size:.*}", precision.unwrap_or(6)),
        ('e' | 'E', precision) => exponent(&format!("{size:.*e}", precision.unwrap_or(6))),
        (_, None) => shortest(size, 6),
        (_, Some(precision)) => significant(size, precision.max(1)),
    };
    if matches!(spec.verb, 'E' | 'G') {
        digits.make_ascii_uppercase();
    }
    pad_number(spec, number.is_sign_negative(), &digits, out);
}

/// `1.5e7` to `1.5e+07`.
fn exponent(text: &str) -> String {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// The fewest digits that read back as `number`; with an exponent below -4 and from `large` on.
fn shortest(number: f64, large: i32) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:e}");
    let power: i32 = scientific.split_once('e').and_then(|(_, it)| it.parse().ok()).unwrap_or(0);
    if power < -4 || power >= large { exponent(&scientific) } else { format!("{number}") }
}

/// `%.{precision}g`.
fn significant(number: f64, precision: usize) -> String {
    let scientific = format!("{number:.*e}", precision - 1);
    let power: i32 = scientific.split_once('e').and_then(|(_, it)| it.parse().ok()).unwrap_or(0);
    let trimmed = |digits: &str| {
        let whole = digits.trim_end_matches('0').trim_end_matches('.');
        if digits.contains('.') { whole.to_owned() } else { digits.to_owned() }
    };
    let places = i32::try_from(precision).unwrap_or(i32::MAX);
    if power < -4 || power >= places {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return exponent(&format!("{}e{power}", trimmed(digits)));
    }
    trimmed(&format!("{number:.*}", usize::try_from(places - 1 - power).unwrap_or(0)))
}
