//! Bytes as vectors have them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// Base64; more than 256 bytes that repeat a unit of at most 64 in a short form; null.
pub(super) fn to_json(bytes: Option<&[u8]>) -> Json {
    let Some(bytes) = bytes else { return Json::Null };
    let repeats = |unit: &usize| bytes[*unit..] == bytes[..bytes.len() - unit];
    match (1..=64).find(|unit| bytes.len() > 256 && repeats(unit)) {
        Some(unit) => json!({"repeat": STANDARD.encode(&bytes[..unit]), "length": bytes.len()}),
        None => STANDARD.encode(bytes).into(),
    }
}

/// The bytes of both forms, or null.
pub(super) fn from_json(json: &Json) -> Result<Option<Vec<u8>>, String> {
    let decode = |json: &Json| {
        let text = json.as_str().ok_or_else(|| format!("{json} is no Base64"))?;
        STANDARD.decode(text).map_err(|error| format!("{json} is no Base64: {error}"))
    };
    match json {
        Json::Null => Ok(None),
        Json::Object(short) => {
            let unit = decode(short.get("repeat").unwrap_or(&Json::Null))?;
            let length = short.get("length").and_then(Json::as_u64).ok_or("no length")?;
            Ok(Some(unit.iter().copied().cycle().take(length as usize).collect()))
        }
        _ => decode(json).map(Some),
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::{from_json, to_json};

    #[test]
    fn every_form_leads_back() {
        let long: Vec<u8> = b"abc".iter().copied().cycle().take(400).collect();
        let forms = [
            (None, json!(null)),
            (Some(&b""[..]), json!("")),
            (Some(b"abc"), json!("YWJj")),
            (Some(&long), json!({"repeat": "YWJj", "length": 400})),
        ];
        for (bytes, form) in forms {
            assert_eq!(to_json(bytes), form);
            assert_eq!(from_json(&form), Ok(bytes.map(Vec::from)));
        }
        // As Kafka's side does: no short form up to 256 bytes.
        assert!(to_json(Some(&long[..256])).is_string());
        assert!(from_json(&json!(7)).is_err());
    }
}
