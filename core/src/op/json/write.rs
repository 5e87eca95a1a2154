//! Expressions written as JSON.

use std::sync::Arc;

use num_complex::Complex64;
use serde_json::{Value, json};

use super::{DEEPEST, JsonError, leaves, name_of};
use crate::memory::Dtype;
use crate::op::operator::Operator;
use crate::op::space::shortest_single;
use crate::op::{DeviceSpec, LeafOp, Side, Space, Tensor};
use crate::ordered::CollectVec;

/// Whether values of weights stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// All of them.
    Inline,
    /// A name for each storage: [`Operator::weights`] lists the values, [`Reader::weights`](super::Reader::weights) takes
    /// them.
    ByName,
}

/// What was written so far.
#[derive(Default)]
pub(super) struct Writer {
    leaves: Vec<(Arc<dyn LeafOp>, Value)>,
    pub(super) storages: Vec<Arc<[Complex64]>>,
}

impl Operator {
    /// The expression as one JSON object, whose fields [`Reader`](super::Reader) lists; no line end.
    ///
    /// # Errors
    /// [`JsonError`] for a leaf that has no recipe, such as one made of two functions, and for parts too deep in each other.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Reader, Weights, dense};
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 2)], [1.0, 2.0, 3.0, 4.0], Dtype::F64)?;
    /// let a = a.normal();
    /// let file = a.to_json(Weights::ByName)?;
    /// let b = Reader::new().weights(a.weights()).read(file.as_bytes())?;
    /// let x = Array::new(a.domain().clone(), [1.0, -1.0])?;
    /// assert_eq!(a.apply(&x)?, b.apply(&x)?);
    /// assert_eq!(b.to_json(Weights::ByName)?, file);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_json(&self, weights: Weights) -> Result<String, JsonError> {
        let mut writer = Writer::default();
        let operator = writer.operator(self, "operator", 0)?;
        let storages = writer.storages.iter().map(|values| match weights {
            Weights::ByName => json!({"name": name_of(values), "elements": values.len()}),
            Weights::Inline => storage(values),
        });
        let storages: Vec<Value> = storages.collect_vec();
        let leaves: Vec<Value> = writer.leaves.into_iter().map(|(_, leaf)| leaf).collect_vec();
        let file = json!({"schema_version": 1, "operator": operator, "leaves": leaves, "weights": storages});
        Ok(file.to_string())
    }

    /// The storages of weights by the names that stand for them in a file.
    pub fn weights(&self) -> Vec<(String, Arc<[Complex64]>)> {
        let mut writer = Writer::default();
        // Leaves without a recipe have no place in a file, nor have their weights.
        writer.collect(self);
        writer.storages.into_iter().map(|values| (name_of(&values), values)).collect_vec()
    }
}

impl Writer {
    fn collect(&mut self, a: &Operator) {
        if let Operator::Leaf(leaf) = a {
            let _ = leaves::write(self, leaf, "");
        }
        a.children().iter().for_each(|part| self.collect(part));
    }

    fn operator(&mut self, a: &Operator, place: &str, depth: usize) -> Result<Value, JsonError> {
        if depth > DEEPEST {
            return Err(JsonError::new(place, format!("more than {DEEPEST} parts in each other")));
        }
        let parts = a.children().iter().enumerate();
        let parts: Result<Vec<Value>, JsonError> = parts
            .map(|(k, part)| self.operator(part, &format!("{place}.parts[{k}]"), depth + 1))
            .try_collect_vec();
        let parts = parts?;
        let slot = |slot: Option<(crate::op::Name, usize)>| slot.map(|(n, k)| json!([n.to_string(), k]));
        let name = |name: Option<&crate::op::Name>| name.map(ToString::to_string);
        Ok(match a {
            Operator::Identity(s) => json!({"op": "identity", "space": space(s)}),
            Operator::Zero(_) => {
                json!({"op": "zero", "domain": space(a.domain()), "codomain": space(a.codomain())})
            }
            Operator::Scale(s) => {
                let factor = s.number().0;
                json!({"op": "scale", "space": space(a.domain()), "factor": [factor.re, factor.im]})
            }
            Operator::ToDevice(t) => json!({
                "op": "to_device", "space": space(t.domain()), "from": end(t.ispec()), "to": end(t.ospec()),
                "after": t.listener(),
            }),
            Operator::Chain(_) => json!({"op": "chain", "parts": parts}),
            Operator::Sum(sum) => json!({"op": "sum", "parts": parts, "tree": sum.tree()}),
            Operator::Concat(c) => {
                let mut file =
                    json!({"op": "concat", "parts": parts, "odim": name(c.odim()), "idim": name(c.idim())});
                if c.tree() {
                    file["tree"] = json!(true);
                }
                file
            }
            Operator::Stack(s) => {
                json!({"op": "stack", "parts": parts, "out": slot(s.slot(true)), "into": slot(s.slot(false))})
            }
            Operator::BlockDiag(_) => json!({"op": "block_diag", "parts": parts}),
            Operator::Power(p) => {
                json!({"op": "power", "base": parts.into_iter().next(), "exponent": p.exponent()})
            }
            Operator::Leaf(leaf) => {
                let known = self.leaves.iter().position(|(op, _)| Arc::ptr_eq(op, &leaf.op));
                let index = match known {
                    Some(index) => index,
                    None => {
                        let written = leaves::write(self, leaf, place)?;
                        self.leaves.push((Arc::clone(&leaf.op), written));
                        self.leaves.len() - 1
                    }
                };
                json!({
                    "op": "leaf", "leaf": index, "adjoint": leaf.side == Side::Adjoint, "conj": leaf.conj,
                    "device": leaf.domain().device().to_string(),
                })
            }
        })
    }

    pub(super) fn tensor(&mut self, t: &Tensor) -> Value {
        let known = self.storages.iter().position(|s| Arc::ptr_eq(s, t.storage()));
        let storage = known.unwrap_or_else(|| {
            self.storages.push(Arc::clone(t.storage()));
            self.storages.len() - 1
        });
        json!({"storage": storage, "dims": dims(t.dims()), "strides": t.strides(), "offset": t.offset()})
    }
}

/// The values of a storage. Those of single precision that have a shorter text than the same numbers of double precision are written so,
/// and the type is said.
fn storage(values: &[Complex64]) -> Value {
    let real = values.iter().all(|z| z.im.to_bits() == 0);
    let (name, dtype) = if real { ("real", Dtype::F32) } else { ("complex", Dtype::C32) };
    let mut numbers = Vec::with_capacity(values.len() * if real { 1 } else { 2 });
    for z in values {
        numbers.push(z.re);
        if !real {
            numbers.push(z.im);
        }
    }
    let short: Option<Vec<f64>> = numbers.iter().map(|v| shortest_single(*v)).collect();
    match short {
        Some(short) if short != numbers => json!({name: short, "dtype": dtype.to_string()}),
        _ => json!({name: numbers}),
    }
}

fn dims(dims: &[(crate::op::Name, i64)]) -> Value {
    dims.iter().map(|(name, size)| json!([name.to_string(), size])).collect()
}

fn end(spec: &DeviceSpec) -> Value {
    json!({
        "device": spec.device.to_string(), "compute": spec.compute_stream, "transfer": spec.transfer_stream,
    })
}

pub(super) fn space(s: &Space) -> Value {
    match s.members() {
        Some(members) => json!({"members": members.iter().map(space).collect_vec()}),
        None => {
            json!({"dims": dims(s.dims()), "dtype": s.dtype().to_string(), "device": s.device().to_string()})
        }
    }
}
