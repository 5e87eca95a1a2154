//! Plans as JSON; [`Plan::to_json`] says what stands in a file.

use crate::ordered::{BTreeSet, CollectVec};

use num_complex::Complex64;
use serde_json::{Map, Value, json};

use super::expression::{Note, Plan};
use super::planning::Planning;
use super::write;
use crate::memory::Device;
use crate::op::{Array, JsonError, Reader, Space, Weights, read_value};
use crate::program::{Contents, Op};
use crate::units::Bytes;

impl Plan {
    /// The plan as one JSON object; no line end.
    ///
    /// | field | what stands there |
    /// |---|---|
    /// | `schema_version` | 1 |
    /// | `operator` | the expression with its weights, as [`Operator::to_json`](crate::op::Operator::to_json) writes it |
    /// | `planning` | `ahead`, a number of tiles or null; `caps`, bytes by device; `streams`, the names of those that were chosen, by device |
    /// | `input` | the values that the plan is for, as `{"real": [...]}` or `{"complex": [re, im, ...]}`; null for any values |
    /// | `program` | the program in its JSON form, without values of input and weights |
    /// | `transfers` | `edge`, `bytes`, `from`, `to`, `stream`, `why`, `command` of each |
    /// | `memory` | by device the bytes of `input`, `output`, `weights`, `between` |
    /// | `notes` | `command`, an index or null, and `text` |
    ///
    /// The first four say everything; the others are there for whoever reads plans without this library. Reading plans the
    /// expression again and compares: a file in which the two sides disagree is refused with the place, so that a plan that was
    /// read is as good as one that was made.
    ///
    /// # Errors
    /// As [`Operator::to_json`](crate::op::Operator::to_json).
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Reader, Space, Weights, to};
    /// use spanlift::plan::Plan;
    ///
    /// let line = Space::new([("x", 4)], Dtype::F32)?;
    /// let w = Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 3.0, 4.0])?;
    /// let plan = chain![to(cuda(0)), w, to(cpu())]?.plan()?;
    /// let file = plan.to_json(Weights::ByName)?;
    /// let again = Plan::read(&Reader::new().weights(plan.operator().weights()), file.as_bytes())?;
    /// assert_eq!((again.program(), again.transfers()), (plan.program(), plan.transfers()));
    ///
    /// let wrong = file.replacen("\"bytes\":16", "\"bytes\":12", 1);
    /// let reader = Reader::new().weights(plan.operator().weights());
    /// assert!(Plan::read(&reader, wrong.as_bytes()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_json(&self, weights: Weights) -> Result<String, JsonError> {
        const BUG: &str = "bug: an expression or a program is no JSON";
        let operator: Value = serde_json::from_str(&self.operator.to_json(weights)?).expect(BUG);
        let mut caps = Map::new();
        for (device, cap) in self.planning.caps() {
            caps.insert(device.to_string(), json!(cap.0));
        }
        let mut planning = json!({"ahead": self.planning.ahead_of(), "caps": caps});
        for (device, name) in self.planning.streams() {
            planning["streams"][device.to_string()] = json!(name);
        }
        let input = match self.given() {
            None => Value::Null,
            Some(values) => {
                let space = self.operator.domain();
                let name = if space.is_complex() { "complex" } else { "real" };
                let short = values.iter().map(|v| space.shortest((*v).into()).re);
                json!({name: short.collect_vec()})
            }
        };
        let mut file = json!({
            "schema_version": 1, "operator": operator, "input": input,
            "planning": planning,
        });
        let bare =
            write::plan(&self.operator, &self.planning, None).map_err(|e| JsonError::new("operator", e))?;
        for (field, value) in bare.derived() {
            file[field] = value;
        }
        file["notes"] = self.notes.iter().map(note).collect();
        Ok(file.to_string())
    }

    /// The plan in a file, with weights that the file leaves out and operators of one's own from `reader`.
    ///
    /// # Errors
    /// [`JsonError`] with the place of the first mistake: an expression that is none, or a program, a transfer or an amount of
    /// memory that is not what the expression asks for.
    ///
    /// # Cost
    /// As [`Reader::read`], and planning.
    pub fn read(reader: &Reader, bytes: &[u8]) -> Result<Plan, JsonError> {
        let file = read_value(bytes)?;
        if file.get("schema_version").and_then(Value::as_i64) != Some(1) {
            return Err(JsonError::new("schema_version", "only version 1 is known"));
        }
        let operator = reader
            .value(field(&file, "operator")?)
            .map_err(|e| JsonError::new(&format!("operator.{}", e.place), e.problem))?;
        let planning = planning(field(&file, "planning")?)?;
        let planned = |x: Option<&Array>| {
            write::plan(&operator, &planning, x).map_err(|e| JsonError::new("operator", e))
        };
        let bare = planned(None)?;
        for (name, expected) in bare.derived() {
            agrees(name, field(&file, name)?, &expected)?;
        }
        for (device, cap) in planning.caps() {
            let holds = bare.peaks.get(device).map_or(Bytes(0), |peak| peak.total());
            if holds > *cap {
                let problem = format!("{holds} are held where planning.caps allows {cap}");
                return Err(JsonError::new(&format!("memory.{device}"), problem));
            }
        }
        let input = input(field(&file, "input")?, operator.domain())?;
        let mut plan = match &input {
            Some(x) => planned(Some(x))?,
            None => bare,
        };
        let more = notes(field(&file, "notes")?, &plan.notes)?;
        plan.notes.extend(more);
        Ok(plan)
    }

    /// The values that the plan is for: real and imaginary parts in turn where they are complex.
    fn given(&self) -> Option<&[f64]> {
        self.program.commands().iter().find_map(|command| match &command.op {
            Op::Alloc(alloc) if alloc.buffer == self.input => match &alloc.contents {
                Some(Contents::Values { values, .. }) => Some(&values[..]),
                _ => None,
            },
            _ => None,
        })
    }

    /// What follows from the expression.
    fn derived(&self) -> [(&'static str, Value); 3] {
        let program: Value = serde_json::from_str(&self.program.to_json())
            .unwrap_or_else(|e| unreachable!("bug: a program is no JSON: {e}"));
        let transfers = self.transfers.iter().map(|t| {
            json!({
                "edge": t.edge, "bytes": t.bytes.0, "from": t.from.to_string(), "to": t.to.to_string(),
                "stream": t.stream, "why": t.why, "command": t.command,
            })
        });
        let mut memory = Map::new();
        for (device, p) in &self.peaks {
            let parts = json!({
                "input": p.input.0, "output": p.output.0, "weights": p.weights.0, "between": p.between.0,
            });
            memory.insert(device.to_string(), parts);
        }
        [("program", program), ("transfers", transfers.collect()), ("memory", memory.into())]
    }
}

fn field<'v>(file: &'v Value, name: &str) -> Result<&'v Value, JsonError> {
    file.get(name).ok_or_else(|| JsonError::new(name, "is missing"))
}

fn planning(file: &Value) -> Result<Planning, JsonError> {
    let mut planning = Planning::new();
    let ahead = file.get("ahead").ok_or_else(|| JsonError::new("planning.ahead", "is missing"))?;
    if !ahead.is_null() {
        let tiles = ahead.as_u64().and_then(|n| usize::try_from(n).ok());
        planning = planning.ahead(
            tiles.ok_or_else(|| JsonError::new("planning.ahead", "expected a number of tiles or null"))?,
        );
    }
    let caps = file.get("caps").and_then(Value::as_object);
    for (device, cap) in caps.ok_or_else(|| JsonError::new("planning.caps", "expected bytes by device"))? {
        let place = format!("planning.caps.{device}");
        let known: Device = device.parse().map_err(|e| JsonError::new(&place, e))?;
        let bytes = cap.as_u64().ok_or_else(|| JsonError::new(&place, "expected a number of bytes"))?;
        planning = planning.cap(known, Bytes(bytes));
    }
    let Some(streams) = file.get("streams") else { return Ok(planning) };
    let streams = streams.as_object();
    for (device, name) in
        streams.ok_or_else(|| JsonError::new("planning.streams", "expected names by device"))?
    {
        let place = format!("planning.streams.{device}");
        let known: Device = device.parse().map_err(|e| JsonError::new(&place, e))?;
        let name = name.as_str().ok_or_else(|| JsonError::new(&place, "expected a name"))?;
        planning = planning.compute_on(known, name);
    }
    Ok(planning)
}

fn input(file: &Value, space: &Space) -> Result<Option<Array>, JsonError> {
    if file.is_null() {
        return Ok(None);
    }
    let kind = if space.is_complex() { "complex" } else { "real" };
    let place = format!("input.{kind}");
    let list =
        file.get(kind).and_then(Value::as_array).ok_or_else(|| JsonError::new(&place, "expected a list"))?;
    let numbers: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
    let numbers = numbers.ok_or_else(|| JsonError::new(&place, "expected numbers"))?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    let values: Vec<Complex64> = match space.is_complex() {
        true if rest.is_empty() => pairs.iter().map(|&[re, im]| Complex64::new(re, im)).collect_vec(),
        true => return Err(JsonError::new(&place, "expected pairs of numbers")),
        false => numbers.into_iter().map(Complex64::from).collect_vec(),
    };
    Array::new(space.clone(), values).map(Some).map_err(|e| JsonError::new(&place, e))
}

fn note(note: &Note) -> Value {
    json!({"command": note.command, "text": note.text})
}

/// The notes that no command has, such as that of a limit; those of commands must be the ones that were found.
fn notes(file: &Value, found: &[Note]) -> Result<Vec<Note>, JsonError> {
    let list = file.as_array().ok_or_else(|| JsonError::new("notes", "expected a list"))?;
    let (mut of_commands, mut more) = (Vec::new(), Vec::new());
    for (k, entry) in list.iter().enumerate() {
        let text = entry.get("text").and_then(Value::as_str);
        let text = text.ok_or_else(|| JsonError::new(&format!("notes[{k}].text"), "expected a text"))?;
        match entry.get("command") {
            None | Some(Value::Null) => more.push(Note { command: None, text: text.to_owned() }),
            Some(_) => of_commands.push(entry.clone()),
        }
    }
    agrees("notes", &of_commands.into(), &found.iter().map(note).collect())?;
    Ok(more)
}

/// Refuses what a file says otherwise than its expression.
fn agrees(place: &str, found: &Value, expected: &Value) -> Result<(), JsonError> {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            names.into_iter().try_for_each(|name| {
                let place = format!("{place}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => agrees(&place, a, b),
                    (None, _) => Err(JsonError::new(&place, "is missing")),
                    (_, None) => Err(JsonError::new(&place, "nothing of the expression asks for it")),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            let entries = a.iter().zip(b).enumerate();
            for (k, (a, b)) in entries {
                agrees(&format!("{place}[{k}]"), a, b)?;
            }
            if a.len() != b.len() {
                let problem = format!("{} entries, the expression asks for {}", a.len(), b.len());
                return Err(JsonError::new(place, problem));
            }
            Ok(())
        }
        (a, b) if a == b => Ok(()),
        (a, b) => {
            Err(JsonError::new(place, format!("is {}, the expression asks for {}", short(a), short(b))))
        }
    }
}

/// A value in few words.
fn short(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        plain => plain.to_string(),
    }
}
