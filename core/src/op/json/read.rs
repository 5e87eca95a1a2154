//! Expressions read from JSON, from hands that are not trusted: every mistake is named with its place.

use crate::ordered::{BTreeMap, CollectVec};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;
use serde_json::{Map, Value};

use super::{DEEPEST, JsonError, MOST_POINTS, leaves, name_of, read_value};
use crate::memory::{Device, Dtype};
use crate::op::operator::{Operator, Scale};
use crate::op::{DeviceSpec, Name, OpError, Space, Tensor, ToDevice};

/// Makes a leaf of its recipe.
type Make = Box<dyn Fn(&Value) -> Result<Operator, String>>;

/// Reads expressions, with weights that files leave out and operators of one's own.
///
/// `{"schema_version": 1, "operator": O, "leaves": [L, ...], "weights": [W, ...]}`. A leaf that stands in several places,
/// its adjoint among them, is written once, and so is a storage of weights.
///
/// | `O["op"]` | other fields |
/// |---|---|
/// | `identity` | `space` |
/// | `zero` | `domain`, `codomain` |
/// | `scale` | `space`, `factor` `[re, im]` |
/// | `to_device` | `space`, that of the beginning; `from`, `to`: `{"device", "compute", "transfer"}`; `after`, an event |
/// | `chain`, `block_diag` | `parts` |
/// | `sum` | `parts`; `tree`, whether the order is fixed |
/// | `concat` | `parts`; `odim`, `idim`; `tree`, where joins inside it stay apart |
/// | `stack` | `parts`; `out`, `into`: `[name, place]` |
/// | `power` | `base`, `exponent` |
/// | `leaf` | `leaf`, its index; `adjoint`, `conj`; `device`, where it stands |
///
/// Leaves have a `kind`: `diagonal`, `dense`, `fft`, `gather`, `sparse`, `convolve`, or one that [`Reader::kind`] names, with
/// a `recipe`. Weights are `{"storage", "dims", "strides", "offset"}`, views of a storage. A storage is
/// `{"real": [...]}`, `{"complex": [re, im, ...]}`, with `"dtype": "f32"` or `"c32"` where the numbers are those of single precision
/// that are nearest to what stands there, or `{"name", "elements"}`: values that the file leaves out and
/// [`Reader::weights`] finds by a name that follows from them. Spaces are `{"dims": [[name, size], ...], "dtype", "device"}`
/// or `{"members": [...]}`.
///
/// ```
/// use spanlift::op::Reader;
/// let error = Reader::new().read(br#"{"schema_version": 1, "operator": {"op": "chain", "parts": [{"op": "scale",
///     "space": {"dims": [["x", -4]], "dtype": "f32", "device": "cpu"}, "factor": [2, 0]}]}, "leaves": [], "weights": []}"#);
/// assert_eq!(error.unwrap_err().to_string(), "operator.parts[0].space: dimension `x` has negative size -4");
/// ```
#[derive(Default)]
pub struct Reader {
    /// By name; the same values may lie in several storages.
    weights: BTreeMap<String, Vec<Arc<[Complex64]>>>,
    pub(super) kinds: BTreeMap<String, Make>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights: Vec<&String> = self.weights.keys().collect_vec();
        let kinds: Vec<&String> = self.kinds.keys().collect_vec();
        write!(f, "Reader {{ weights: {weights:?}, kinds: {kinds:?} }}")
    }
}

impl Reader {
    /// Reads files that have everything in them.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes weights by name, as [`Operator::weights`] gives them.
    #[must_use]
    pub fn weights(mut self, weights: impl IntoIterator<Item = (String, Arc<[Complex64]>)>) -> Reader {
        weights.into_iter().for_each(|(name, values)| self.weights.entry(name).or_default().push(values));
        self
    }

    /// Reads leaves of a kind with `make`, from what [`LeafOp::recipe`](crate::op::LeafOp::recipe) wrote.
    #[must_use]
    pub fn kind(mut self, kind: &str, make: impl Fn(&Value) -> Result<Operator, String> + 'static) -> Reader {
        self.kinds.insert(kind.to_owned(), Box::new(make));
        self
    }

    /// The expression in a file.
    ///
    /// # Errors
    /// [`JsonError`] with the place of the first mistake.
    ///
    /// # Cost
    /// Memory as the file is long, whatever sizes it names, and [`MOST_POINTS`] points for all tables of
    /// transforms and all weights that a type of less precision rounds; every leaf looks at its weights once more.
    pub fn read(&self, bytes: &[u8]) -> Result<Operator, JsonError> {
        self.value(&read_value(bytes)?)
    }

    pub(crate) fn value(&self, value: &Value) -> Result<Operator, JsonError> {
        let map = leaves::object(value).ok_or_else(|| JsonError::new("the file", "expected an object"))?;
        let top = Fields { map, place: String::new() };
        if top.whole("schema_version")? != 1 {
            return Err(top.error("schema_version", "only version 1 is known"));
        }
        let mut file = File { reader: self, storages: Vec::new(), leaves: Vec::new(), taken: Cell::new(0) };
        let mut named = BTreeMap::new();
        for (k, storage) in top.list("weights")?.iter().enumerate() {
            let fields = top.inner(&format!("weights[{k}]"), storage)?;
            file.storages.push(self.storage(&fields, &mut named)?);
        }
        for (k, leaf) in top.list("leaves")?.iter().enumerate() {
            let fields = top.inner(&format!("leaves[{k}]"), leaf)?;
            let leaf = leaves::read(&file, &fields)?;
            file.leaves.push(leaf);
        }
        file.operator(&top.object("operator")?, 0)
    }

    fn storage(
        &self,
        fields: &Fields<'_>,
        named: &mut BTreeMap<String, usize>,
    ) -> Result<Arc<[Complex64]>, JsonError> {
        let single = match fields.maybe_text("dtype")? {
            None | Some("f64" | "c64") => false,
            Some("f32" | "c32") => true,
            Some(_) => return Err(fields.error("dtype", "expected `f32`, `c32`, `f64` or `c64`")),
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the file says that these are numbers of the narrower type"
        )]
        let held = |v: f64| if single { f64::from(v as f32) } else { v };
        let numbers = |name: &str| -> Result<Vec<f64>, JsonError> {
            let list: Option<Vec<f64>> = fields.list(name)?.iter().map(|v| v.as_f64().map(held)).collect();
            list.ok_or_else(|| fields.error(name, "expected numbers"))
        };
        if fields.map.contains_key("real") {
            return Ok(numbers("real")?.into_iter().map(Complex64::from).collect());
        }
        if fields.map.contains_key("complex") {
            let all = numbers("complex")?;
            let (pairs, rest) = all.as_chunks::<2>();
            if !rest.is_empty() {
                return Err(fields.error("complex", "expected pairs of numbers"));
            }
            return Ok(pairs.iter().map(|&[re, im]| Complex64::new(re, im)).collect());
        }
        let name = fields.text("name")?;
        let known = self.weights.get(name).map_or(&[][..], |known| known);
        // What was apart stays apart, as far as there are as many.
        let nth = named.entry(name.to_owned()).or_default();
        let values = known.get(*nth).or(known.last());
        *nth += 1;
        let values = values.ok_or_else(|| fields.error("name", format!("no weights are called {name:?}")))?;
        if name_of(values) != name {
            return Err(fields.error("name", "the weights are others than those that were written"));
        }
        Ok(Arc::clone(values))
    }
}

/// What a file has beside the expression.
pub(super) struct File<'r> {
    pub(super) reader: &'r Reader,
    storages: Vec<Arc<[Complex64]>>,
    leaves: Vec<Operator>,
    /// Points that reading took beside the file's own values.
    taken: Cell<i64>,
}

impl File<'_> {
    /// Counts points that leaves need beside what stands in the file: few bytes must not ask for many of them.
    pub(super) fn take(&self, points: i64) -> Result<(), String> {
        let all = self.taken.get().saturating_add(points);
        if all > MOST_POINTS {
            return Err(format!("{all} points, at most {MOST_POINTS} are read"));
        }
        self.taken.set(all);
        Ok(())
    }

    fn operator(&self, fields: &Fields<'_>, depth: usize) -> Result<Operator, JsonError> {
        if depth > DEEPEST {
            return Err(fields.error("", format!("more than {DEEPEST} parts in each other")));
        }
        let parts = || -> Result<Vec<Operator>, JsonError> {
            let list = fields.list("parts")?.iter().enumerate();
            let read =
                list.map(|(k, part)| self.operator(&fields.inner(&format!("parts[{k}]"), part)?, depth + 1));
            let parts: Vec<Operator> = read.try_collect_vec()?;
            if parts.is_empty() { Err(fields.error("parts", "expected at least one")) } else { Ok(parts) }
        };
        let here = |e: crate::op::OpError| fields.error("", e);
        let op = fields.text("op")?;
        Ok(match op {
            "identity" => Operator::identity(fields.space("space")?),
            "zero" => Operator::zero(fields.space("domain")?, fields.space("codomain")?),
            "scale" => {
                let factor: Option<Vec<f64>> = fields.list("factor")?.iter().map(Value::as_f64).collect();
                let Some(&[re, im]) = factor.as_deref() else {
                    return Err(fields.error("factor", "expected two numbers"));
                };
                let factor = Complex64::new(re, im);
                match Operator::scale(factor, fields.space("space")?).map_err(here)? {
                    // The sign of a zero stays.
                    Operator::Scale(scale) if im == 0.0 => {
                        let factor = Complex64::new(scale.factor.re, im);
                        Operator::Scale(Scale { factor, ..scale })
                    }
                    scale => scale,
                }
            }
            "to_device" => {
                let (from, to) = (fields.end("from")?, fields.end("to")?);
                let space = fields.space("space")?;
                if space.device() != from.device {
                    return Err(fields.error("space", format!("is not on {}", from.device)));
                }
                let after = fields.maybe_text("after")?.map(str::to_owned);
                Operator::to_device(ToDevice::of(from, to, &space).listening(after))
            }
            "chain" => {
                let parts = parts()?;
                for (k, pair) in parts.windows(2).enumerate() {
                    let (gives, reads) = (pair[0].codomain(), pair[1].domain());
                    if gives != reads {
                        let place = format!("parts[{}]", k + 1);
                        let problem = format!("reads {} but {} comes", reads.sized(), gives.sized());
                        return Err(fields.error(&place, problem));
                    }
                }
                Operator::join(parts)
            }
            "sum" => {
                let parts = parts()?;
                let first = (parts[0].domain(), parts[0].codomain());
                if let Some(k) = parts.iter().position(|p| (p.domain(), p.codomain()) != first) {
                    return Err(fields.error(&format!("parts[{k}]"), "has other spaces than the first"));
                }
                let tree = fields.flag("tree")?;
                Operator::added(parts, tree)
            }
            "concat" => {
                let tree = fields.map.contains_key("tree") && fields.flag("tree")?;
                Operator::concatenated(fields.maybe_name("odim")?, fields.maybe_name("idim")?, parts()?, tree)
                    .map_err(here)?
            }
            "stack" => {
                let parts = parts()?;
                let slot = |field: &str, side: fn(&Operator) -> &Space| {
                    let slot = fields.slot(field)?;
                    if let Some((name, place)) = &slot
                        && let Some(space) = parts.first().map(side).filter(|s| s.members().is_none())
                        && *place > space.dims().len()
                    {
                        return Err(fields.error(field, OpError::place(name, *place, space)));
                    }
                    Ok(slot)
                };
                let (out, into) = (slot("out", Operator::codomain)?, slot("into", Operator::domain)?);
                Operator::stacked(out, into, parts).map_err(here)?
            }
            "block_diag" => Operator::blocks(parts()?).map_err(here)?,
            "power" => {
                let base = self.operator(&fields.object("base")?, depth + 1)?;
                let exponent = u32::try_from(fields.whole("exponent")?)
                    .map_err(|_| fields.error("exponent", "expected a number from 0 to 4294967295"))?;
                base.pow(exponent).map_err(here)?
            }
            "leaf" => {
                let index = fields.maybe_index("leaf")?;
                let leaf = index.and_then(|k| self.leaves.get(k));
                let leaf = leaf.ok_or_else(|| fields.error("leaf", "is the index of no leaf"))?;
                let device: Device = fields.parsed("device")?;
                leaf.on(device).turned(fields.flag("adjoint")?, fields.flag("conj")?)
            }
            other => return Err(fields.error("op", format!("{other:?} is no operator"))),
        })
    }

    /// A view of one of the storages.
    pub(super) fn tensor(&self, fields: &Fields<'_>) -> Result<Tensor, JsonError> {
        let storage = fields.maybe_index("storage")?.and_then(|k| self.storages.get(k));
        let storage = storage.ok_or_else(|| fields.error("storage", "is the index of no weights"))?;
        let dims = fields.dims("dims")?;
        let named: Vec<(String, i64)> = dims.iter().map(|(n, size)| (n.to_string(), *size)).collect_vec();
        let strides: Option<Vec<i64>> = fields.list("strides")?.iter().map(Value::as_i64).collect();
        let strides = strides.ok_or_else(|| fields.error("strides", "expected whole numbers"))?;
        // A stride of 0 lists far more elements than the file has.
        let listed = dims.iter().try_fold(1i64, |n, (_, size)| n.checked_mul(*size));
        let most = i64::try_from(storage.len()).unwrap_or(i64::MAX);
        if listed.is_none_or(|n| n > most) {
            return Err(fields.error("dims", format!("more elements than the {most} of the storage")));
        }
        let offset = fields.whole("offset")?;
        let names = named.iter().map(|(n, size)| (n.as_str(), *size));
        Tensor::strided(names, strides, offset, storage).map_err(|e| fields.error("", e))
    }
}

/// The fields of one object and where it stands.
pub(super) struct Fields<'v> {
    map: &'v Map<String, Value>,
    place: String,
}

impl<'v> Fields<'v> {
    pub(super) fn error(&self, field: &str, problem: impl fmt::Display) -> JsonError {
        let dot = if self.place.is_empty() || field.is_empty() { "" } else { "." };
        JsonError::new(&format!("{}{dot}{field}", self.place), problem)
    }

    pub(super) fn inner(&self, place: &str, value: &'v Value) -> Result<Fields<'v>, JsonError> {
        let dot = if self.place.is_empty() { "" } else { "." };
        let map = leaves::object(value).ok_or_else(|| self.error(place, "expected an object"))?;
        Ok(Fields { map, place: format!("{}{dot}{place}", self.place) })
    }

    pub(super) fn get(&self, field: &str) -> Result<&'v Value, JsonError> {
        self.map.get(field).ok_or_else(|| self.error(field, "is missing"))
    }

    fn maybe(&self, field: &str) -> Option<&'v Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, field: &str) -> Result<Fields<'v>, JsonError> {
        self.inner(field, self.get(field)?)
    }

    pub(super) fn list(&self, field: &str) -> Result<&'v Vec<Value>, JsonError> {
        self.get(field)?.as_array().ok_or_else(|| self.error(field, "expected a list"))
    }

    pub(super) fn text(&self, field: &str) -> Result<&'v str, JsonError> {
        self.get(field)?.as_str().ok_or_else(|| self.error(field, "expected a text"))
    }

    pub(super) fn maybe_text(&self, field: &str) -> Result<Option<&'v str>, JsonError> {
        let read = |value: &'v Value| value.as_str().ok_or_else(|| self.error(field, "expected a text"));
        self.maybe(field).map(read).transpose()
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool, JsonError> {
        self.get(field)?.as_bool().ok_or_else(|| self.error(field, "expected true or false"))
    }

    pub(super) fn whole(&self, field: &str) -> Result<i64, JsonError> {
        self.get(field)?.as_i64().ok_or_else(|| self.error(field, "expected a whole number"))
    }

    pub(super) fn maybe_index(&self, field: &str) -> Result<Option<usize>, JsonError> {
        let read = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let index = |value| read(value).ok_or_else(|| self.error(field, "expected an index"));
        self.maybe(field).map(index).transpose()
    }

    fn parsed<T: std::str::FromStr<Err: fmt::Display>>(&self, field: &str) -> Result<T, JsonError> {
        self.text(field)?.parse().map_err(|e| self.error(field, e))
    }

    fn maybe_name(&self, field: &str) -> Result<Option<Name>, JsonError> {
        let read = |text: &str| text.parse::<Name>().map_err(|e| self.error(field, e));
        self.maybe_text(field)?.map(read).transpose()
    }

    pub(super) fn names(&self, field: &str) -> Result<Vec<Name>, JsonError> {
        let read = |value: &Value| value.as_str().and_then(|text| text.parse::<Name>().ok());
        let names: Option<Vec<Name>> = self.list(field)?.iter().map(read).collect();
        names.ok_or_else(|| self.error(field, "expected names of dimensions"))
    }

    /// Name and place of a new dimension.
    fn slot(&self, field: &str) -> Result<Option<(Name, usize)>, JsonError> {
        let Some(pair) = self.maybe(field) else { return Ok(None) };
        let name = pair.get(0).and_then(Value::as_str).and_then(|text| text.parse::<Name>().ok());
        let place = pair.get(1).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        name.zip(place).map(Some).ok_or_else(|| self.error(field, "expected a name and a place"))
    }

    fn dims(&self, field: &str) -> Result<Vec<(Name, i64)>, JsonError> {
        let read = |pair: &Value| {
            let name = pair.get(0)?.as_str()?.parse::<Name>().ok()?;
            Some((name, pair.get(1)?.as_i64()?))
        };
        let list = self.list(field)?;
        if Space::MOST_DIMS < list.len() {
            return Err(self.error(field, format!("more than {} dimensions", Space::MOST_DIMS)));
        }
        let dims: Option<Vec<(Name, i64)>> = list.iter().map(read).collect();
        dims.ok_or_else(|| self.error(field, "expected [name, size] for each dimension"))
    }

    pub(super) fn space(&self, field: &str) -> Result<Space, JsonError> {
        self.object(field)?.own_space(0)
    }

    fn own_space(&self, depth: usize) -> Result<Space, JsonError> {
        if depth > DEEPEST {
            return Err(self.error("", format!("more than {DEEPEST} tuples in each other")));
        }
        if self.map.contains_key("members") {
            let list = self.list("members")?.iter().enumerate();
            let read =
                list.map(|(k, member)| self.inner(&format!("members[{k}]"), member)?.own_space(depth + 1));
            let members: Vec<Space> = read.try_collect_vec()?;
            return Space::tuple(members).map_err(|e| self.error("members", e));
        }
        let (dtype, device): (Dtype, Device) = (self.parsed("dtype")?, self.parsed("device")?);
        let space = Space::named(self.dims("dims")?, dtype).map_err(|e| self.error("", e))?;
        Ok(space.on(device))
    }

    fn end(&self, field: &str) -> Result<DeviceSpec, JsonError> {
        let inner = self.object(field)?;
        Ok(DeviceSpec {
            device: inner.parsed("device")?,
            compute_stream: inner.maybe_text("compute")?.map(str::to_owned),
            transfer_stream: inner.maybe_text("transfer")?.map(str::to_owned),
        })
    }
}
