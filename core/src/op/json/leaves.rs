//! Leaves as JSON: everything that a leaf was made of, checked again when it is read.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::JsonError;
use super::read::{Fields, File};
use super::write::{Writer, space};
use crate::op::leaves::{
    Axis, Convolve, Cuts, Dense, Diagonal, Entries, Fft, Fourier, Gather, Piece, Shape, Sparse, Taps, counts,
};
use crate::op::operator::Operator;
use crate::op::{Leaf, LeafFacts, Name, OpError, Space, Tags, Tensor};
use crate::ordered::CollectVec;

/// A leaf as it was made, whichever side is meant.
pub(super) fn write(writer: &mut Writer, leaf: &Leaf, place: &str) -> Result<Value, JsonError> {
    let facts = leaf.op.facts();
    let mut leaf_file = if let Some(d) = leaf.downcast::<Diagonal>() {
        json!({"kind": "diagonal", "weights": writer.tensor(d.weights())})
    } else if let Some(d) = leaf.downcast::<Dense>() {
        let output: Vec<String> = facts.codomain.names().map(Name::to_string).collect_vec();
        json!({"kind": "dense", "weights": writer.tensor(d.weights()), "output": output})
    } else if let Some(f) = leaf.downcast::<Fourier>() {
        let dims: Vec<[String; 2]> =
            f.dims().iter().map(|(a, b)| [a.to_string(), b.to_string()]).collect_vec();
        json!({"kind": "fft", "dims": dims, "centered": f.centered()})
    } else if let Some(g) = leaf.downcast::<Gather>() {
        let axes = g.axes.iter().map(|a| {
            let pieces: Vec<[i64; 4]> = a.pieces.iter().map(|p| [p.at, p.len, p.from, p.step]).collect_vec();
            json!({"from": a.from, "pieces": pieces})
        });
        let cuts = match g.cuts {
            Cuts::Refused => json!("refused"),
            Cuts::Out => json!("out"),
            Cuts::Renamed => json!("renamed"),
            Cuts::By(axis, unit) => json!([axis, unit]),
        };
        let axes: Vec<Value> = axes.collect_vec();
        let to = space(&facts.codomain);
        json!({"kind": "gather", "codomain": to, "axes": axes, "cuts": cuts, "tags": tags(facts.tags)})
    } else if let Some(s) = leaf.downcast::<Sparse>() {
        let grid: Vec<String> = s.grid.iter().map(Name::to_string).collect_vec();
        json!({
            "kind": "sparse", "grid": grid, "rows": s.rows.to_string(), "ends": s.entries.ends,
            "columns": s.entries.columns, "values": s.entries.weights,
        })
    } else if let Some(c) = leaf.downcast::<Convolve>() {
        let taps = |a: &Taps| json!([a.name.to_string(), a.new.to_string(), a.taps, a.offset]);
        let along: Vec<Value> = c.shape.along.iter().map(taps).collect_vec();
        json!({
            "kind": "convolve", "codomain": space(&facts.codomain), "kernel": writer.tensor(c.kernel()),
            "along": along, "periodic": c.shape.periodic, "stride": c.shape.stride,
            "dilation": c.shape.dilation,
        })
    } else if let Some((kind, recipe)) = leaf.op.recipe() {
        return Ok(json!({"kind": kind, "recipe": recipe}));
    } else {
        return Err(JsonError::new(place, format!("`{}` has no recipe to write", facts.name)));
    };
    leaf_file["name"] = json!(facts.name);
    leaf_file["adjoint_name"] = json!(facts.adjoint_name);
    leaf_file["domain"] = space(&facts.domain);
    Ok(leaf_file)
}

fn tags(t: Tags) -> Value {
    let all = [
        ("hermitian", t.hermitian),
        ("real", t.real),
        ("isometry", t.isometry),
        ("coisometry", t.coisometry),
        ("idempotent", t.idempotent),
        ("involution", t.involution),
        ("psd", t.psd),
    ];
    all.iter().filter(|(_, holds)| *holds).map(|(name, _)| json!(name)).collect()
}

/// A leaf from its fields.
pub(super) fn read(file: &File<'_>, fields: &Fields<'_>) -> Result<Operator, JsonError> {
    let kind = fields.text("kind")?;
    if let Some(make) = file.reader.kinds.get(kind) {
        let recipe = fields.get("recipe")?;
        let made = make(recipe).map_err(|problem| fields.error("recipe", problem));
        let leaf = made?;
        return match leaf {
            Operator::Leaf(_) => Ok(leaf),
            _ => Err(fields.error("recipe", "makes no leaf")),
        };
    }
    let known = ["diagonal", "dense", "fft", "gather", "sparse", "convolve"];
    if !known.contains(&kind) {
        return Err(fields.error("kind", format!("{kind:?} is no kind of leaf that is known here")));
    }
    let domain = fields.space("domain")?;
    if domain.members().is_some() {
        return Err(fields.error("domain", "a leaf works on no tuple"));
    }
    let name = fields.text("name")?.to_owned();
    let adjoint = fields.maybe_text("adjoint_name")?.map(str::to_owned);
    let bad = |e: OpError| fields.error("kind", e);
    match kind {
        "diagonal" => {
            let weights = file.tensor(&fields.object("weights")?)?;
            Diagonal::broadcast(domain.clone(), &weights).map_err(bad)?;
            let weights = rounded(file, weights, &domain).map_err(|e| fields.error("weights", e))?;
            Ok(Diagonal::of(name, domain, weights).into())
        }
        "dense" => {
            let weights = file.tensor(&fields.object("weights")?)?;
            let output = fields.names("output")?;
            within(&weights, &domain).map_err(|e| fields.error("weights", e))?;
            let weights = rounded(file, weights, &domain).map_err(|e| fields.error("weights", e))?;
            Ok(Operator::leaf(Dense::of(name, domain, weights, &output).map_err(bad)?))
        }
        "fft" => fourier(file, fields, &domain),
        "gather" => gather(file, fields, (name, adjoint), domain),
        "sparse" => sparse(fields, (name, adjoint), domain),
        _ => convolve(file, fields, name, domain),
    }
}

/// Weights as the type of a space holds them: the same storage where it does so already.
fn rounded(file: &File<'_>, weights: Tensor, space: &Space) -> Result<Tensor, String> {
    if weights.to_vec().iter().all(|w| space.round(*w) == *w) {
        return Ok(weights);
    }
    file.take(i64::try_from(weights.storage().len()).unwrap_or(i64::MAX))?;
    Ok(weights.map(|w| space.round(w)))
}

/// Refuses complex weights on a real space, as the builders do.
fn within(weights: &Tensor, space: &Space) -> Result<(), OpError> {
    crate::op::leaf::check_values("weights", &weights.to_vec(), space)
}

fn fourier(file: &File<'_>, fields: &Fields<'_>, domain: &Space) -> Result<Operator, JsonError> {
    let mut fft = Fft { dims: vec![], named: vec![], centered: fields.flag("centered")?, real: false };
    fft.real = !domain.is_complex();
    for (k, pair) in fields.list("dims")?.iter().enumerate() {
        let place = format!("dims[{k}]");
        let [Some(from), Some(to)] = [pair.get(0), pair.get(1)].map(|n| n.and_then(Value::as_str)) else {
            return Err(fields.error(&place, "expected two names"));
        };
        let long = from.parse().ok().and_then(|name: Name| domain.size(&name)).unwrap_or(0);
        file.take(long).map_err(|problem| fields.error(&place, problem))?;
        fft.dims.push(from.to_owned());
        fft.named.push(to.to_owned());
    }
    fft.over(domain).map_err(|e| fields.error("dims", e))
}

fn gather(
    file: &File<'_>,
    fields: &Fields<'_>,
    (name, adjoint): (String, Option<String>),
    domain: Space,
) -> Result<Operator, JsonError> {
    let codomain = fields.space("codomain")?;
    let kin = codomain.members().is_none()
        && (domain.dtype(), domain.device()) == (codomain.dtype(), codomain.device());
    let list = fields.list("axes")?;
    if !kin || list.len() != codomain.dims().len() {
        return Err(
            fields.error("axes", "expected one for each dimension of a codomain of the same type and device")
        );
    }
    let (strides, rank) = (domain.strides(), domain.dims().len());
    let mut axes = Vec::new();
    // The lowest and the highest place that any choice of pieces reads.
    let (mut lowest, mut highest) = (0i128, 0i128);
    for (k, ((_, size), axis)) in codomain.dims().iter().zip(list).enumerate() {
        let place = format!("axes[{k}]");
        let axis = fields.inner(&place, axis)?;
        let from = axis.maybe_index("from")?;
        if from.is_some_and(|d| d >= rank) {
            return Err(axis.error("from", "is no dimension of the domain"));
        }
        let unit = from.map_or(0, |d| i128::from(strides[d]));
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut lo, mut hi) = (i128::MAX, i128::MIN);
        for (p, piece) in axis.list("pieces")?.iter().enumerate() {
            let place = format!("pieces[{p}]");
            let numbers: Option<Vec<i64>> =
                piece.as_array().and_then(|list| list.iter().map(Value::as_i64).collect());
            let Some(&[at, len, first, step]) = numbers.as_deref() else {
                return Err(axis.error(&place, "expected four whole numbers"));
            };
            let end = pieces.last().map_or(0, |p: &Piece| p.at + p.len);
            if at < end || len < 1 || at.checked_add(len).is_none_or(|e| e > *size) {
                return Err(axis.error(&place, format!("{at}, {len} long, does not rise inside 0..{size}")));
            }
            let last = i128::from(first) + i128::from(len - 1) * i128::from(step);
            let places = [i128::from(first), last, i128::from(step)].map(|i| i.checked_mul(unit));
            let near = |place: &Option<i128>| place.is_some_and(|p| p.unsigned_abs() < 1 << 56);
            let (true, [Some(a), Some(b), _]) = (places.iter().all(near), places) else {
                return Err(axis.error(&place, "leaves the domain"));
            };
            (lo, hi) = (lo.min(a).min(b), hi.max(a).max(b));
            pieces.push(Piece { at, len, from: first, step });
        }
        if !pieces.is_empty() {
            (lowest, highest) = (lowest.saturating_add(lo), highest.saturating_add(hi));
        }
        axes.push(Axis { size: *size, from, pieces });
    }
    let any = axes.iter().all(|axis| !axis.pieces.is_empty());
    if any && (lowest < 0 || highest >= i128::from(domain.elements())) {
        return Err(fields.error("axes", "elements outside the domain are read"));
    }
    let cuts = match fields.get("cuts")? {
        Value::String(s) if s == "refused" => Cuts::Refused,
        Value::String(s) if s == "out" => Cuts::Out,
        Value::String(s) if s == "renamed" => Cuts::Renamed,
        pair => match (pair.get(0).and_then(Value::as_u64), pair.get(1).and_then(Value::as_i64)) {
            (Some(axis), Some(unit)) if unit > 0 && axis < axes.len() as u64 => {
                Cuts::By(usize::try_from(axis).unwrap_or(0), unit)
            }
            _ => return Err(fields.error("cuts", "expected `refused`, `out`, `renamed` or [axis, unit]")),
        },
    };
    let holds: Vec<&str> = fields.list("tags")?.iter().filter_map(Value::as_str).collect_vec();
    let tag = |name: &str| holds.contains(&name);
    let said = Tags {
        hermitian: tag("hermitian"),
        real: true,
        isometry: tag("isometry"),
        coisometry: tag("coisometry"),
        idempotent: tag("idempotent"),
        involution: tag("involution"),
        psd: tag("psd"),
        ..Tags::default()
    };
    let points = domain.elements().saturating_add(codomain.elements());
    let silent = Gather::new(name, adjoint, (domain, codomain), axes, Tags::default(), cuts);
    // Promises are looked at, since rewriting believes them; beyond the limit the operator comes without.
    if said == silent.facts.tags || file.take(points).is_err() {
        return Ok(Operator::leaf(silent));
    }
    silent.keeps_promises(said).map_err(|broken| fields.error("tags", format!("{broken} does not hold")))?;
    Ok(Operator::leaf(Gather { facts: LeafFacts { tags: said, ..silent.facts }, ..silent }))
}

fn sparse(
    fields: &Fields<'_>,
    names: (String, Option<String>),
    domain: Space,
) -> Result<Operator, JsonError> {
    let grid = fields.names("grid")?;
    let rows: Name = fields.text("rows")?.parse().map_err(|e| fields.error("rows", e))?;
    let sizes: Option<Vec<i64>> = grid.iter().map(|name| domain.size(name)).collect();
    let twice = (1..grid.len()).any(|k| grid[..k].contains(&grid[k]));
    let sizes = sizes.filter(|sizes| !sizes.is_empty() && !twice);
    let sizes = sizes.ok_or_else(|| fields.error("grid", "expected dimensions of the domain, each once"))?;
    let whole = |name: &str| -> Result<Vec<i64>, JsonError> {
        let list: Option<Vec<i64>> = fields.list(name)?.iter().map(Value::as_i64).collect();
        list.ok_or_else(|| fields.error(name, "expected whole numbers"))
    };
    let (ends, columns) = (whole("ends")?, whole("columns")?);
    let values: Option<Vec<f64>> = fields.list("values")?.iter().map(Value::as_f64).collect();
    let values = values.ok_or_else(|| fields.error("values", "expected numbers"))?;
    let n = i64::try_from(values.len()).unwrap_or(i64::MAX);
    let rises = ends.windows(2).all(|w| w[0] <= w[1]) && ends.first().is_none_or(|e| *e >= 0);
    if !rises || ends.last().copied().unwrap_or(0) != n {
        return Err(fields.error("ends", format!("do not rise to {n}, the number of values")));
    }
    if columns.len() != values.len() * sizes.len() {
        return Err(fields.error("columns", "expected one index for each value and dimension of the grid"));
    }
    let outside =
        columns.chunks(sizes.len()).position(|c| c.iter().zip(&sizes).any(|(i, n)| !(0..*n).contains(i)));
    if let Some(at) = outside {
        return Err(fields.error(&format!("columns[{at}]"), "lies outside the grid"));
    }
    let ends = ends.into_iter().map(|e| usize::try_from(e).unwrap_or(0)).collect_vec();
    let entries = Arc::new(Entries { ends, columns, weights: values });
    let made = Sparse::new(names, domain, grid, rows, entries).map_err(|e| fields.error("kind", e))?;
    Ok(Operator::leaf(made))
}

fn convolve(
    file: &File<'_>,
    fields: &Fields<'_>,
    name: String,
    domain: Space,
) -> Result<Operator, JsonError> {
    let codomain = fields.space("codomain")?;
    let kernel = file.tensor(&fields.object("kernel")?)?;
    within(&kernel, &domain).map_err(|e| fields.error("kernel", e))?;
    let mut shape = Shape {
        along: Vec::new(),
        periodic: fields.flag("periodic")?,
        stride: fields.whole("stride")?,
        dilation: fields.whole("dilation")?,
    };
    if shape.stride < 1 || shape.dilation < 1 {
        return Err(fields.error("stride", "stride and dilation are at least 1"));
    }
    for (k, axis) in fields.list("along")?.iter().enumerate() {
        let place = format!("along[{k}]");
        let read = |k: usize| axis.get(k).and_then(Value::as_str).and_then(|n| n.parse::<Name>().ok());
        let number = |k: usize| axis.get(k).and_then(Value::as_i64);
        let (Some(name), Some(new), Some(taps), Some(offset)) = (read(0), read(1), number(2), number(3))
        else {
            return Err(fields.error(&place, "expected two names, taps and an offset"));
        };
        let (Some(n), Some(m)) = (domain.size(&name), codomain.size(&new)) else {
            return Err(fields.error(&place, "names no dimension on both sides"));
        };
        let fits = counts(shape.stride, shape.dilation, (taps, offset), m);
        if kernel.size(&name) != Some(taps) || taps < 1 || !fits || (n == 0 && shape.periodic) {
            return Err(fields.error(&place, "does not fit the kernel"));
        }
        if shape.along.iter().any(|a: &Taps| a.name == name || a.new == new) {
            return Err(fields.error(&place, "a dimension twice"));
        }
        shape.along.push(Taps { name, new, taps, offset });
    }
    let convolved = |n: &Name| shape.along.iter().any(|a| a.name == *n || a.new == *n);
    let rest = |n: &Name| domain.size(n).into_iter().chain(codomain.size(n)).collect_vec();
    let fits = kernel.dims().iter().all(|(n, size)| {
        shape.along.iter().any(|a| a.name == *n) || (!rest(n).is_empty() && rest(n).iter().all(|s| s == size))
    });
    let same = domain.names().filter(|n| !convolved(n)).all(|n| rest(n).windows(2).all(|w| w[0] == w[1]));
    // What one side alone has is a channel of the kernel.
    let lonely = |a: &Space, b: &Space| {
        a.names().any(|n| !convolved(n) && b.axis(n).is_none() && kernel.size(n).is_none())
    };
    let kin = codomain.members().is_none()
        && (domain.dtype(), domain.device()) == (codomain.dtype(), codomain.device());
    if !fits || !same || !kin || lonely(&domain, &codomain) || lonely(&codomain, &domain) {
        return Err(fields.error("codomain", "does not fit the domain and the kernel"));
    }
    let kernel = rounded(file, kernel, &domain).map_err(|e| fields.error("kernel", e))?;
    Ok(Operator::leaf(Convolve::new(name, domain, codomain, kernel, shape)))
}

/// The fields of an object.
pub(super) fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}
