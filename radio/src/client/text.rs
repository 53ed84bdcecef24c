//! Parameter values as text.

use steady_common::value::{Type, Value};

/// Formats a value.
#[must_use]
pub fn show(value: Value) -> String {
    match value {
        Value::U8(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::U16(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
    }
}

/// Parses a value of a type.
///
/// # Errors
/// If it is not a number, or out of range.
pub fn parse(text: &str, kind: Type) -> std::result::Result<Value, String> {
    let whole = |what: &str| format!("`{text}` is not a {what}");
    let digits = text.strip_prefix("0x");
    macro_rules! number {
        ($type:ident, $variant:ident, $what:literal) => {
            digits
                .map_or_else(|| text.parse(), |d| $type::from_str_radix(d, 16))
                .map(Value::$variant)
                .map_err(|_| whole($what))
        };
    }
    match kind {
        Type::U8 => number!(u8, U8, "whole number from 0 to 255"),
        Type::I8 => number!(i8, I8, "whole number from -128 to 127"),
        Type::U16 => number!(u16, U16, "whole number from 0 to 65535"),
        Type::I16 => number!(i16, I16, "whole number from -32768 to 32767"),
        Type::U32 => number!(u32, U32, "whole number from 0 to 4294967295"),
        Type::I32 => number!(i32, I32, "whole number of 32 bits"),
        Type::F32 | Type::F16 => match text.parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(Value::F32(value)),
            _ => Err(whole("number")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_as_their_type_and_errors_name_the_text() {
        assert_eq!(parse("0x1F", Type::U8), Ok(Value::U8(31)));
        assert_eq!(parse("-3", Type::I16), Ok(Value::I16(-3)));
        assert_eq!(parse("0.5", Type::F32), Ok(Value::F32(0.5)));
        for (text, kind) in
            [("256", Type::U8), ("x", Type::F32), ("nan", Type::F32), ("1.5", Type::U16), ("-1", Type::U32)]
        {
            assert!(parse(text, kind).unwrap_err().contains(text), "{text}");
        }
        assert_eq!(show(Value::F32(0.1)), "0.1");
    }
}
