//! JavaScript's values to the host's [`Value`]s and back, by JSON's rules as far as they go: what is
//! undefined or a function is left out of objects, `toJSON` is asked, and dates are text. Bytes come as
//! `ArrayBuffer` or `Uint8Array`, and go as text.
//!
//! Names of members are spelled anew on the way, if the caller says so ([`Names`]).

use bytes::Bytes;
use game::guest::HostError;
use game::host::Meter;
use game::value::{TABLE_DEPTH_MAX, Value};
use rquickjs::function::This;
use rquickjs::object::Property;
use rquickjs::{
    Array, ArrayBuffer, Ctx, Function, IntoJs as _, Object, TypedArray, Value as JsValue,
};
use thiserror::Error;

use crate::names;

/// Values in one conversion, those in objects counted wherever they appear.
const VALUES_MAX: usize = 1_000_000;

/// Bytes of all strings of one conversion.
const BYTES_MAX: usize = 64 << 20;

/// Steps that the conversion of one value costs, strings' bytes not counted.
const VALUE_STEPS: u32 = 100;

/// The greatest whole number that every smaller one is next to as a double.
const WHOLE_END: f64 = 9_007_199_254_740_992.0;

/// How the names of members change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Not at all.
    Kept,
    /// camelCase to snake_case or back, but for what is inside of the game's own data.
    Spelled,
}

impl Names {
    /// How those of what stands under this name change; `snake` is the table's spelling.
    fn below(self, snake: &str) -> Self {
        if names::is_user_data(snake) { Self::Kept } else { self }
    }
}

/// Why a value cannot leave the VM.
#[derive(Debug, Error)]
pub(crate) enum ConvertError {
    #[error("cannot convert a {0}")]
    Kind(&'static str),
    #[error("object nested deeper than {TABLE_DEPTH_MAX} levels")]
    Deep,
    #[error("value larger than {VALUES_MAX} elements or {BYTES_MAX} bytes")]
    Large,
    /// A getter or `toJSON` threw: the exception is pending.
    #[error("exception")]
    Thrown(#[from] rquickjs::Error),
    #[error(transparent)]
    Budget(#[from] HostError),
}

struct Reader<'a> {
    values_left: usize,
    bytes_left: usize,
    meter: &'a dyn Meter,
}

/// The plain data of a value, paid for with `meter`.
pub(crate) fn from_js(
    value: &JsValue<'_>,
    names: Names,
    meter: &dyn Meter,
) -> Result<Value, ConvertError> {
    let mut reader = Reader { values_left: VALUES_MAX, bytes_left: BYTES_MAX, meter };
    Ok(reader.read(value, names, TABLE_DEPTH_MAX)?.unwrap_or_default())
}

impl Reader<'_> {
    /// `None` for what JSON leaves out.
    fn read(
        &mut self,
        value: &JsValue<'_>,
        names: Names,
        depth_left: usize,
    ) -> Result<Option<Value>, ConvertError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ConvertError::Large)?;
        self.meter.spend(VALUE_STEPS)?;
        if let Some(object) = value.as_object() {
            return self.object(object, names, depth_left);
        }
        if let Some(text) = value.as_string() {
            return Ok(Some(Value::Bytes(self.bytes(text.to_string()?.into_bytes())?)));
        }
        if let Some(number) = value.as_number() {
            return Ok(Some(self::number(number)));
        }
        if let Some(flag) = value.as_bool() {
            return Ok(Some(Value::Bool(flag)));
        }
        if value.is_null() {
            return Ok(Some(Value::Nil));
        }
        if value.is_undefined() {
            return Ok(None);
        }
        match value.as_big_int() {
            Some(big) => Ok(Some(Value::Int(big.clone().to_i64()?))),
            None => Err(ConvertError::Kind(value.type_name())),
        }
    }

    fn bytes(&mut self, bytes: Vec<u8>) -> Result<Bytes, ConvertError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or(ConvertError::Large)?;
        self.meter.hold(bytes.len())?;
        Ok(bytes.into())
    }

    fn object(
        &mut self,
        object: &Object<'_>,
        names: Names,
        depth_left: usize,
    ) -> Result<Option<Value>, ConvertError> {
        let depth_left = depth_left.checked_sub(1).ok_or(ConvertError::Deep)?;
        if object.is_function() {
            return Ok(None);
        }
        if let Some(bytes) = binary(object.as_value())? {
            return Ok(Some(Value::Bytes(self.bytes(bytes)?)));
        }
        if let Some(array) = object.as_array() {
            let mut items = Vec::new();
            let length = length(array.as_object())?.filter(|length| *length <= self.values_left);
            for index in 0..length.ok_or(ConvertError::Large)? {
                self.meter.hold(size_of::<Value>())?;
                let item: JsValue<'_> = array.get(index)?;
                items.push(self.read(&item, names, depth_left)?.unwrap_or_default());
            }
            return Ok(Some(Value::List(items)));
        }
        let to_json: JsValue<'_> = object.get("toJSON")?;
        if let Some(to_json) = to_json.as_function() {
            let plain: JsValue<'_> = to_json.call((This(object.clone()), ""))?;
            return self.read(&plain, names, depth_left);
        }
        let mut members = Vec::new();
        for member in object.props::<String, JsValue<'_>>() {
            let (name, member) = member?;
            self.meter.hold(size_of::<(Bytes, Value)>())?;
            let (name, below) = match names {
                Names::Kept => (name, Names::Kept),
                Names::Spelled => {
                    let name = names::snake_case(&name);
                    let below = names.below(&name);
                    (name, below)
                }
            };
            if let Some(member) = self.read(&member, below, depth_left)? {
                members.push((self.bytes(name.into_bytes())?, member));
            }
        }
        Ok(Some(Value::Map(members)))
    }
}

/// How long an array is; `None` if that is more than the engine's own count can tell.
pub(crate) fn length(array: &Object<'_>) -> rquickjs::Result<Option<usize>> {
    let length: JsValue<'_> = array.get("length")?;
    Ok(length.as_int().and_then(|length| usize::try_from(length).ok()))
}

#[expect(clippy::cast_possible_truncation, reason = "checked: no fraction, within ±2^53")]
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= WHOLE_END {
        Value::Int(number as i64)
    } else {
        Value::Float(number)
    }
}

/// The bytes of an `ArrayBuffer` or a `Uint8Array`; `None` for other values.
///
/// By way of hexadecimal text, which the engine makes quickly: it lends memory of scripts to unsafe code
/// only.
pub(crate) fn binary(value: &JsValue<'_>) -> Result<Option<Vec<u8>>, rquickjs::Error> {
    let Some(object) = value.as_object() else { return Ok(None) };
    let array = if let Some(buffer) = ArrayBuffer::from_object(object.clone()) {
        TypedArray::<u8>::from_arraybuffer(buffer)?.into_object()
    } else if object.as_typed_array::<u8>().is_some() {
        object.clone()
    } else {
        return Ok(None);
    };
    let to_hex: Function<'_> = array.get("toHex")?;
    let text: String = to_hex.call((This(array),))?;
    Ok(wire::hex::decode(text.as_bytes()))
}

/// A value in the VM. Bytes become text, in which what is not UTF-8 is replaced.
pub(crate) fn to_js<'js>(
    ctx: &Ctx<'js>,
    value: &Value,
    names: Names,
) -> rquickjs::Result<JsValue<'js>> {
    Ok(match value {
        Value::Nil => JsValue::new_null(ctx.clone()),
        Value::Bool(flag) => JsValue::new_bool(ctx.clone(), *flag),
        Value::Int(number) => int(ctx, *number),
        Value::Float(number) => JsValue::new_number(ctx.clone(), *number),
        Value::Bytes(bytes) => text(ctx, bytes)?,
        Value::List(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                array.set(index, to_js(ctx, item, names)?)?;
            }
            array.into_value()
        }
        Value::Map(members) => {
            let object = Object::new(ctx.clone())?;
            for (name, member) in members {
                let name = String::from_utf8_lossy(name);
                match names {
                    Names::Kept => set(&object, &name, to_js(ctx, member, names)?)?,
                    Names::Spelled => {
                        let member = to_js(ctx, member, names.below(&name))?;
                        set(&object, &names::camel_case(&name), member)?;
                    }
                }
            }
            object.into_value()
        }
    })
}

/// Sets a member of an object that is made: of this name it is one, and no prototype.
pub(crate) fn set<'js>(
    object: &Object<'js>,
    name: &str,
    member: JsValue<'js>,
) -> rquickjs::Result<()> {
    if name == "__proto__" {
        let property = Property::from(member).enumerable().configurable().writable();
        return object.prop(name, property);
    }
    object.set(name, member)
}

/// A whole number, as near as a double comes.
#[expect(clippy::cast_precision_loss, reason = "a script's numbers are doubles")]
pub(crate) fn int<'js>(ctx: &Ctx<'js>, number: i64) -> JsValue<'js> {
    match i32::try_from(number) {
        Ok(small) => JsValue::new_int(ctx.clone(), small),
        Err(_) => JsValue::new_number(ctx.clone(), number as f64),
    }
}

/// Text of bytes.
pub(crate) fn text<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> rquickjs::Result<JsValue<'js>> {
    String::from_utf8_lossy(bytes).into_js(ctx)
}

/// Bytes as an `ArrayBuffer`.
pub(crate) fn buffer<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> rquickjs::Result<JsValue<'js>> {
    Ok(ArrayBuffer::new_copy(ctx.clone(), bytes)?.into_value())
}
