//! What a command's fields hold, read in place: text is borrowed, and an object is the list of its members, since commands
//! have few and each is looked for by name.

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::json::Name;
use crate::ordered::{CollectVec, sort};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Object<'a>),
}

/// Members up to which each new name is held against all others; more are sorted, so that a hostile object takes no longer
/// than its length says.
const FEW: usize = 32;

/// The members of an object, as they stand, no name twice: which of the two is meant nobody knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    /// The member of that name; no object has two.
    pub(super) fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl<'a> Json<'a> {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Json::Number(_))
    }

    pub(super) fn as_i64(&self) -> Option<i64> {
        if let Json::Number(number) = self { number.as_i64() } else { None }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        if let Json::Number(number) = self { number.as_u64() } else { None }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        if let Json::Number(number) = self { number.as_f64() } else { None }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_array(&self) -> Option<&[Json<'a>]> {
        if let Json::List(list) = self { Some(list) } else { None }
    }

    /// The same for messages, which show it as JSON.
    fn told(&self) -> serde_json::Value {
        match self {
            Json::Null => serde_json::Value::Null,
            Json::Bool(value) => (*value).into(),
            Json::Number(number) => number.clone().into(),
            Json::Text(text) => text.as_ref().into(),
            Json::List(list) => list.iter().map(Json::told).collect(),
            Json::Object(Object(members)) => {
                let mut map = serde_json::Map::new();
                for (name, value) in members {
                    map.insert(name.as_ref().to_owned(), value.told());
                }
                map.into()
            }
        }
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'de>, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Json<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any valid JSON value")
            }

            fn visit_unit<E>(self) -> Result<Json<'de>, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
                Ok(Json::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
                Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
                Ok(Json::Text(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
                Ok(Json::Text(text.to_owned().into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json<'de>, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Json::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
                let twice = |name: &str| Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                let mut members: Vec<(Cow<'de, str>, Json<'de>)> = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    if members.len() < FEW && members.iter().any(|(known, _)| *known == name) {
                        return twice(&name);
                    }
                    members.push((name, map.next_value()?));
                }
                if FEW <= members.len() {
                    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect_vec();
                    sort(&mut names);
                    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                        return twice(pair[0]);
                    }
                }
                Ok(Json::Object(Object(members)))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_core::Deserialize as _;
    use serde_json::{Value, from_str};

    use super::Json;

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        let texts = [
            r#"{"op": "copy", "sync": false, "dst": {"buf": "a", "off": 0, "dims": [[2, -8]]}, "x": null}"#,
            r#"{"a\u0041": "tab\t", "b": "ä", "n": [0, -1, 18446744073709551615, -9223372036854775808, 1.5, 1e300]}"#,
            r#"[18446744073709551616, -0.0, 1e-400, "", {"": {"": ""}}]"#,
            " null ",
            "1e400",
            "[1,]",
            "{\"a\" 1}",
            "{1: 2}",
            "[\"\\ud800\"]",
            "\"open",
            "",
        ];
        for text in texts {
            let expected = from_str::<Value>(text).map_err(|e| e.to_string());
            let told = from_str::<Json<'_>>(text).map(|json| json.told()).map_err(|e| e.to_string());
            assert_eq!(told, expected, "{text}");
            let shown = from_str::<Json<'_>>(text).map(|json| json.to_string()).ok();
            assert_eq!(shown, expected.as_ref().ok().map(Value::to_string), "{text}");
            let Some(expected) = expected.ok() else { continue };
            // From a reader nothing can be borrowed.
            let mut reader = serde_json::Deserializer::from_reader(text.as_bytes());
            assert_eq!(Json::deserialize(&mut reader).unwrap().told(), expected, "{text}");
            let json = from_str::<Json<'_>>(text).unwrap();
            let (Json::Object(members), Value::Object(map)) = (&json, &expected) else { continue };
            assert!(map.iter().all(|(key, value)| members.get(key).unwrap().told() == *value), "{text}");
            assert_eq!(members.get("nowhere"), None);
        }
    }
}
