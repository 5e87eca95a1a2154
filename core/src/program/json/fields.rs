//! The fields of one command, read one by one: what is wrong is noted, and reading goes on.

use std::fmt;

use super::value::{Json, Object};
use crate::memory::{Dim, Dtype, Span};
use crate::ordered::CollectVec;
use crate::program::Names;
use crate::program::command::*;
use crate::program::words::MAX_DEVICES;
use crate::units::Nanos;

/// The fields of one command, and what is wrong with them.
pub(super) struct Fields<'a> {
    map: &'a Object<'a>,
    names: &'a mut Names,
    /// The command's name.
    pub(super) name: &'a str,
    /// Set once the name turns out to be no command's.
    pub(super) is_unknown: bool,
    pub(super) faults: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(value: &'a Json<'a>, names: &'a mut Names) -> Result<Fields<'a>, String> {
        let Json::Object(map) = value else {
            return Err("a command is an object with a field \"op\"".to_owned());
        };
        match map.get("op") {
            Some(Json::Text(name)) => Ok(Fields { map, names, name, is_unknown: false, faults: Vec::new() }),
            Some(_) => Err("\"op\" is not text".to_owned()),
            None => Err("a field \"op\" is missing".to_owned()),
        }
    }

    pub(super) fn fault<T>(&mut self, message: String) -> Option<T> {
        self.faults.push(message);
        None
    }

    pub(super) fn present(&self, key: &str) -> Option<&'a Json<'a>> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn required(&mut self, key: &str) -> Option<&'a Json<'a>> {
        match self.present(key) {
            Some(value) => Some(value),
            None => self.fault(format!("field {key:?} is missing")),
        }
    }

    pub(super) fn str(&mut self, key: &str) -> Option<&'a str> {
        match self.required(key)? {
            Json::Text(text) => Some(text),
            other => self.fault(format!("field {key:?} is {other}, text is needed")),
        }
    }

    pub(super) fn optional_str(&mut self, key: &str) -> Option<String> {
        self.present(key)?;
        self.str(key).map(str::to_owned)
    }

    pub(super) fn int_of(&mut self, key: &str, value: &Json<'_>) -> Option<i64> {
        match value.as_i64() {
            Some(n) => Some(n),
            None if value.is_number() => {
                self.fault(format!("field {key:?} is {value}, which is no integer within i64"))
            }
            None => self.fault(format!("field {key:?} is {value}, an integer is needed")),
        }
    }

    pub(super) fn int(&mut self, key: &str) -> Option<i64> {
        let value = self.required(key)?;
        self.int_of(key, value)
    }

    pub(super) fn dev(&mut self) -> Option<u32> {
        let dev = self.int("dev")?;
        match u32::try_from(dev) {
            // One more than the number must fit too, since tables are that long.
            Ok(n) if n < MAX_DEVICES => Some(n),
            _ => self.fault(format!("field \"dev\" is {dev}, a device is 0 to {}", MAX_DEVICES - 1)),
        }
    }

    pub(super) fn bool(&mut self, key: &str) -> Option<bool> {
        self.required(key)?;
        self.flag(key)
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        self.flag_of(key, self.map)
    }

    fn flag_of(&mut self, key: &str, map: &Object<'_>) -> Option<bool> {
        match map.get(key) {
            None | Some(Json::Null) => Some(false),
            Some(Json::Bool(b)) => Some(*b),
            Some(other) => self.fault(format!("field {key:?} is {other}, true or false is needed")),
        }
    }

    pub(super) fn float(&mut self, key: &str, map: &'a Object<'a>) -> Option<f64> {
        match map.get(key).and_then(Json::as_f64).filter(|v| v.is_finite()) {
            Some(v) => Some(v),
            None => self.fault(format!("field {key:?} needs a finite number")),
        }
    }

    pub(super) fn one_of<T: std::marker::Copy>(&mut self, key: &str, table: &[(&str, T)]) -> Option<T> {
        let text = self.str(key)?;
        match table.iter().find(|(name, _)| *name == text) {
            Some(&(_, value)) => Some(value),
            None => {
                let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect_vec();
                self.fault(format!("field {key:?} is {text:?}, one of {} is needed", names.join(", ")))
            }
        }
    }

    pub(super) fn intern<T>(
        &mut self,
        key: &str,
        intern: impl FnOnce(&mut Names, &str) -> Result<crate::id::Id<T>, crate::id::TooMany>,
    ) -> Option<crate::id::Id<T>> {
        let name = self.str(key)?;
        match intern(self.names, name) {
            Ok(id) => Some(id),
            Err(e) => self.fault(e.to_string()),
        }
    }

    pub(super) fn stream(&mut self) -> Option<StreamId> {
        self.intern("s", |n, s| n.streams.intern(s))
    }

    pub(super) fn optional_stream(&mut self) -> Option<Option<StreamId>> {
        if self.present("s").is_none() { Some(None) } else { self.stream().map(Some) }
    }

    pub(super) fn buffer(&mut self) -> Option<BufferId> {
        self.intern("buf", |n, s| n.buffers.intern(s))
    }

    pub(super) fn event(&mut self) -> Option<EventId> {
        self.intern("e", |n, s| n.events.intern(s))
    }

    pub(super) fn channel(&mut self) -> Option<ChannelId> {
        self.intern("ch", |n, s| n.channels.intern(s))
    }

    pub(super) fn graph(&mut self) -> Option<GraphId> {
        self.intern("g", |n, s| n.graphs.intern(s))
    }

    pub(super) fn thread_named(&mut self, key: &str) -> Option<ThreadId> {
        self.intern(key, |n, s| n.threads.intern(s))
    }

    /// The calling thread; declarations of streams and threads belong to `main`.
    pub(super) fn thread(&mut self) -> Option<ThreadId> {
        let main =
            matches!(self.name, "stream" | "thread_spawn" | "thread_join") || self.present("t").is_none();
        if main { Some(ThreadId::FIRST) } else { self.thread_named("t") }
    }

    pub(super) fn nanos(&mut self, key: &str) -> Option<Option<Nanos>> {
        if self.present(key).is_none() {
            return Some(None);
        }
        self.int(key).map(|ns| Some(Nanos(ns)))
    }

    pub(super) fn region(&mut self, key: &str) -> Option<Region> {
        let value = self.required(key)?;
        self.region_of(format_args!("{key}"), value)
    }

    pub(super) fn regions(&mut self, key: &str) -> Option<Vec<Region>> {
        match self.required(key)? {
            Json::List(list) => {
                // Every element is looked at, so that one bad span does not hide the next.
                let one = |(k, v)| self.region_of(format_args!("{key}[{k}]"), v);
                let regions: Vec<_> = list.iter().enumerate().map(one).collect();
                regions.into_iter().collect()
            }
            other => self.fault(format!("field {key:?} is {other}, a list of spans is needed")),
        }
    }

    /// The span at a place of the command.
    fn region_of(&mut self, place: fmt::Arguments<'_>, value: &'a Json<'a>) -> Option<Region> {
        let Json::Object(map) = value else {
            return self.fault(format!("field \"{place}\" is {value}, a span is needed"));
        };
        let mut inner =
            Fields { map, names: self.names, name: self.name, is_unknown: false, faults: Vec::new() };
        let region = inner.region_fields();
        let faults = std::mem::take(&mut inner.faults);
        self.faults.extend(faults.into_iter().map(|f| format!("{place}: {f}")));
        region
    }

    pub(super) fn region_fields(&mut self) -> Option<Region> {
        let buffer = self.buffer();
        let off = self.int("off");
        let opaque = self.flag("opaque");
        let span = if let Some(dims) = self.present("dims") {
            let elem = self.int("elem");
            let dims = self.dims(dims);
            Span::strided(off?, elem?, dims?)
        } else {
            let len = self.int("len");
            Span::range(off?, len?)
        };
        match span {
            Ok(span) => Some(Region { buffer: buffer?, span, opaque: opaque? }),
            Err(e) => self.fault(e.to_string()),
        }
    }

    pub(super) fn dims(&mut self, value: &Json<'_>) -> Option<Vec<Dim>> {
        let pairs = value.as_array();
        let Some(pairs) = pairs else {
            return self.fault(format!("field \"dims\" is {value}, a list of [count, stride] is needed"));
        };
        let mut dims = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let Some([count, stride]) = pair.as_array() else {
                return self.fault(format!("an entry of \"dims\" is {pair}, [count, stride] is needed"));
            };
            dims.push(Dim { count: self.int_of("count", count)?, stride: self.int_of("stride", stride)? });
        }
        Some(dims)
    }

    pub(super) fn dtype(&mut self, map: &Object<'_>) -> Option<Dtype> {
        match map.get("dtype").and_then(Json::as_str).map(str::parse) {
            Some(Ok(dtype)) => Some(dtype),
            Some(Err(e)) => self.fault(e.to_string()),
            None => self.fault("field \"dtype\" is missing".to_owned()),
        }
    }

    pub(super) fn contents(&mut self, key: &str) -> Option<Option<Contents>> {
        let map = match self.present(key) {
            None => return Some(None),
            Some(Json::Object(map)) => map,
            Some(other) => {
                return self.fault(format!("field {key:?} is {other}, declared contents are needed"));
            }
        };
        if let Some(seed) = map.get("seed") {
            return match seed.as_u64() {
                Some(seed) => Some(Some(Contents::Seed(seed))),
                None => self.fault(format!("field \"seed\" is {seed}, a non-negative integer is needed")),
            };
        }
        let dtype = self.dtype(map)?;
        if map.get("fill").is_some() {
            return Some(Some(Contents::Fill { dtype, value: self.float("fill", map)? }));
        }
        if map.get("start").is_some() {
            let (start, step) = (self.float("start", map)?, self.float("step", map)?);
            return Some(Some(Contents::Ramp { dtype, start, step }));
        }
        let values = map.get("values").and_then(Json::as_array);
        let values: Option<Vec<f64>> = values.and_then(|list| list.iter().map(Json::as_f64).collect());
        match values {
            Some(values) if !values.is_empty() => Some(Some(Contents::Values { dtype, values })),
            _ => self.fault(format!(
                "field {key:?} needs \"fill\", \"start\" and \"step\", \"values\" or \"seed\""
            )),
        }
    }

    pub(super) fn compute(&mut self) -> Option<Option<Compute>> {
        let map = match self.present("compute") {
            None => return Some(None),
            Some(Json::Object(map)) => map,
            Some(other) => return self.fault(format!("field \"compute\" is {other}, an object is needed")),
        };
        let dtype = self.dtype(map)?;
        let func = match map.get("fn").and_then(Json::as_str) {
            Some("fill") => Func::Fill(self.float("value", map)?),
            Some("affine") => Func::Affine { mul: self.float("mul", map)?, add: self.float("add", map)? },
            Some("mul") => Func::Mul { conj: self.flag_of("conj", map)? },
            Some("add") => Func::Add,
            Some("dot") => Func::Dot,
            Some("multiple") => Func::Multiple { factor: self.float("factor", map)? },
            Some("divide") => Func::Divide,
            Some("sqrt") => Func::Sqrt,
            Some("where") => Func::Where { above: self.float("above", map)? },
            Some("guard") => Func::Guard { strict: self.flag_of("strict", map)? },
            Some("shrink") => Func::Shrink { by: self.float("by", map)? },
            _ => {
                return self.fault(
                    "field \"fn\" of \"compute\" is fill, affine, mul, add, dot, multiple, divide, sqrt, where, guard or \
                     shrink"
                        .to_owned(),
                );
            }
        };
        Some(Some(Compute { dtype, func }))
    }
}
