//! Structs as objects, and enumerations as names.
//!
//! A form lists a struct's fields in the order in which they are written: `field`, or `field as "name"` where the file calls
//! it otherwise. With a `?` behind it a field that says nothing is left out, and a field that is left out says nothing.
//!
//! ```text
//! object!(Tensor<'de>: name, module_type as "type", kind?);
//! ```

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{Deserialize, Deserializer, Error, Visitor};

use crate::ordered::BTreeMap;

/// What may be left out of an object.
pub(crate) trait Optional {
    /// Whether it says nothing.
    fn is_absent(&self) -> bool;
}

impl<T> Optional for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl Optional for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl<T> Optional for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Optional for BTreeMap<K, V> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A name in a file, borrowed from it where it can be.
pub(crate) struct Name<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name<'de>, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Text)
    }
}

/// Which of these names a file has.
pub(crate) struct Choice(pub(crate) &'static [&'static str]);

impl Visitor<'_> for Choice {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {:?}", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        let number = self.0.iter().position(|name| *name == text);
        number.ok_or_else(|| E::unknown_variant(text, self.0))
    }
}

/// `Serialize` for a struct of this form. A field that the form forgets does not compile.
macro_rules! written {
    ($type:ident $(<$life:lifetime>)?:
        $($field:ident $(as $name:literal)? $(? $($never:lifetime)?)?),+ $(,)?) => {
        impl $(<$life>)? serde_core::Serialize for $type $(<$life>)? {
            fn serialize<S: serde_core::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use serde_core::ser::SerializeStruct;
                let $type { $($field),+ } = self;
                let present = 0 $(+ usize::from(crate::json::object!(@present $field $(? $($never)?)?)))+;
                let mut object = to.serialize_struct(stringify!($type), present)?;
                $(if crate::json::object!(@present $field $(? $($never)?)?) {
                    object.serialize_field(crate::json::object!(@name $field $($name)?), $field)?;
                })+
                object.end()
            }
        }
    };
}

/// `Deserialize` for a struct of this form; whatever else an object holds is passed over.
macro_rules! read {
    ($type:ident $(<$life:lifetime>)?: $($form:tt)+) => {
        crate::json::read!($type $(<$life>)?, "an object": $($form)+);
    };
    ($type:ident $(<$life:lifetime>)?, $expected:literal:
        $($field:ident $(as $name:literal)? $(? $($never:lifetime)?)?),+ $(,)?) => {
        impl<'de> serde_core::Deserialize<'de> for $type $(<$life>)? {
            fn deserialize<D: serde_core::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde_core::de::Visitor<'de> for Fields {
                    type Value = $type $(<$life>)?;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_map<A: serde_core::de::MapAccess<'de>>(
                        self,
                        mut object: A,
                    ) -> Result<Self::Value, A::Error> {
                        use serde_core::de::Error;
                        $(let mut $field = None;)+
                        while let Some(crate::json::Name(key)) = object.next_key()? {
                            $({
                                const NAME: &str = crate::json::object!(@name $field $($name)?);
                                if key == NAME {
                                    if $field.is_some() {
                                        return Err(A::Error::duplicate_field(NAME));
                                    }
                                    $field = Some(object.next_value()?);
                                    continue;
                                }
                            })+
                            object.next_value::<serde_core::de::IgnoredAny>()?;
                        }
                        Ok($type {
                            $($field: match $field {
                                Some(value) => value,
                                None => crate::json::object!(@missing A, $field, ($($name)?) $(? $($never)?)?),
                            },)+
                        })
                    }
                }
                from.deserialize_map(Fields)
            }
        }
    };
}

/// [`written`] and [`read`] by one form.
macro_rules! object {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@present $field:ident) => { true };
    (@present $field:ident ?) => { !crate::json::Optional::is_absent($field) };
    (@missing $access:ident, $field:ident, ($($name:literal)?)) => {
        return Err($access::Error::missing_field(crate::json::object!(@name $field $($name)?)))
    };
    (@missing $access:ident, $field:ident, ($($name:literal)?) ?) => { Default::default() };
    ($type:ident $(<$life:lifetime>)?: $($form:tt)+) => {
        crate::json::written!($type $(<$life>)?: $($form)+);
        crate::json::read!($type $(<$life>)?: $($form)+);
    };
}

/// `Serialize` and `Deserialize` for an enumeration of names: those listed, or what a `const` method calls each of `ALL`.
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        crate::json::named!(@impl $type, [$($type::$variant),+], [$($name),+], |it| match it {
            $($type::$variant => $name,)+
        });
    };
    ($type:ident by $name:ident) => {
        crate::json::named!(@impl $type, $type::ALL, {
            let mut names = [""; $type::ALL.len()];
            let mut n = 0;
            while n < names.len() {
                names[n] = $type::ALL[n].$name();
                n += 1;
            }
            names
        }, |it| it.$name());
    };
    (@impl $type:ident, $all:expr, $names:expr, |$it:ident| $name:expr) => {
        impl serde_core::Serialize for $type {
            fn serialize<S: serde_core::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                to.serialize_str($name)
            }
        }

        impl<'de> serde_core::Deserialize<'de> for $type {
            fn deserialize<D: serde_core::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                const NAMES: &[&str] = &$names;
                let number = from.deserialize_str(crate::json::Choice(NAMES))?;
                Ok($all[number])
            }
        }
    };
}

pub(crate) use {named, object, read, written};

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Tensor<'a> {
        name: Cow<'a, str>,
        of: i64,
        kind: Option<&'a str>,
        modules: Vec<u8>,
        pinned: bool,
    }

    // `Cow` itself is always owned when it is read.
    object!(Tensor<'de>: name, of as "type", kind?, modules?, pinned?);

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Way {
        Up,
        Down,
    }

    named!(Way: Up = "to_device", Down = "to_host");

    fn read(text: &str) -> Result<Tensor<'_>, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn what_says_nothing_is_left_out_and_comes_back() -> Result<(), String> {
        let short = Tensor { name: "a\n".into(), of: 3, ..Tensor::default() };
        let text = r#"{"name":"a\n","type":3}"#;
        assert_eq!(serde_json::to_string(&short).as_deref().ok(), Some(text));
        assert_eq!(read(text)?, short);
        let full = Tensor { kind: Some("k"), modules: vec![1], pinned: true, ..short };
        let text = r#"{"name":"a\n","type":3,"kind":"k","modules":[1],"pinned":true}"#;
        assert_eq!(serde_json::to_string(&full).as_deref().ok(), Some(text));
        assert_eq!(read(text)?, full);
        // In any order, with an escaped name of a field, and with what is somebody else's.
        let text = r#"{"kind":"k","x":{"name":[1]},"modules":[1],"pinned":true,"\u0074ype":3,"name":"a\n"}"#;
        assert_eq!(read(text)?, full);
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = |text: &str| read(text).expect_err("it is wrong");
        assert_eq!(wrong(r#"{"name":"a"}"#), "missing field `type` at line 1 column 12");
        assert_eq!(wrong(r#"{"type":1,"type":2,"name":"a"}"#), "duplicate field `type` at line 1 column 16");
        assert_eq!(wrong("[1]"), "invalid type: sequence, expected an object at line 1 column 0");
        assert_eq!(wrong(r#"{"type":"1"}"#), "invalid type: string \"1\", expected i64 at line 1 column 11");
    }

    #[test]
    fn names_are_those_of_the_table() {
        assert_eq!(
            serde_json::to_string(&[Way::Up, Way::Down]).ok().as_deref(),
            Some(r#"["to_device","to_host"]"#)
        );
        assert_eq!(serde_json::from_str::<Way>(r#""to\u005fhost""#).ok(), Some(Way::Down));
        let wrong = serde_json::from_str::<Way>(r#""up""#).map_err(|e| e.to_string());
        assert_eq!(
            wrong,
            Err("unknown variant `up`, expected `to_device` or `to_host` at line 1 column 4".to_owned())
        );
    }
}
