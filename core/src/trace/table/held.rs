//! A table of a [`Trace`] that is held already, so that rules know one of both models.

use super::fill::{MOST_CATS, role, size};
use super::{Call, Cat, CatRole, Num, Op, Row, Table, Work};
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::read::event::arguments;
use crate::trace::{FlowKind, LaneKind, Slice, StrId, Trace};

/// No index.
const NONE: u32 = u32::MAX;

impl Table {
    /// An imported trace in columns, as far as runs of it ask for them: slices, operations, calls, devices, streams and
    /// synchronisation. The position of an event is the index of its slice.
    ///
    /// Halves of slices that the trace has put together are slices, and bytes of 0 are none.
    ///
    /// # Cost
    /// Linear in slices; arguments are read of rows of synchronisation alone.
    pub(crate) fn of_trace(trace: &Trace) -> Table {
        let slices = &trace.slices;
        let n_texts = trace.strings.len();
        let (mut names, mut cats) = (vec![NONE; n_texts], vec![None; n_texts]);
        let mut streams: Vec<Option<(u32, u32)>> = vec![None; trace.lanes.len()];
        let mut devices = BTreeMap::new();
        let mut call_of = vec![NONE; slices.len()];
        let row = Row { pid: StrId::EMPTY, tid: StrId::EMPTY };
        let mut table = Table { rows: vec![row; trace.lanes.len()], ..Table::default() };
        table.spans.event = (0..index(slices.len())).collect_vec();
        table.spans.row.clone_from(&slices.lane);
        table.spans.start.clone_from(&slices.start);
        table.spans.end.clone_from(&slices.end);
        table.spans.cat = vec![0; slices.len()];
        table.spans.name = slices.name.clone();
        let args = |span: u32| trace.strings.get(slices.args[span as usize]);
        for (k, call_here) in call_of.iter_mut().enumerate() {
            let span = index(k);
            let name = &mut names[slices.name[k].index()];
            if *name == NONE {
                *name = index(table.strings.intern(trace.strings.get(slices.name[k])).index());
            }
            table.spans.name[k] = StrId::from_index(*name);
            let cat = *cats[slices.cat[k].index()]
                .get_or_insert_with(|| table.place_of_cat(trace.strings.get(slices.cat[k])));
            table.spans.cat[k] = cat;
            let correlation = Some(slices.correlation[k]).filter(|number| *number != Slice::NO_CORRELATION);
            let correlation = correlation.map(Num::Int);
            match table.cats[usize::from(cat)].role {
                CatRole::Op(work) => {
                    let lane = slices.lane[k] as usize;
                    let (device, stream) =
                        *streams[lane].get_or_insert_with(|| table.place_of_lane(trace, lane, &mut devices));
                    let bytes = Some(slices.bytes[k]).filter(|bytes| *bytes > 0);
                    let direction =
                        Some(slices.kind[k]).filter(|kind| work == Work::Kernel && kind.is_copy());
                    let call = Op::NONE;
                    table.ops.push(Op { span, work, device, stream, correlation, bytes, direction, call });
                }
                CatRole::Call => {
                    *call_here = index(table.calls.len());
                    table.calls.push(Call { span, correlation, size: None });
                }
                CatRole::Sync => table.sync(span, &arguments(args(span))),
                CatRole::Operator | CatRole::Note | CatRole::Python | CatRole::Other => {}
            }
        }
        for flow in trace.flows.iter().filter(|flow| flow.kind == FlowKind::Launch) {
            // Operations stand in the order of their slices.
            let op = table.ops.binary_search_by_key(&flow.to, |op| op.span);
            if let (Ok(op), Some(&call)) = (op, call_of.get(flow.from as usize)) {
                table.ops[op].call = call;
            }
        }
        table
    }

    /// Adds what arguments say of who made a call, `ids` too that join it and an operator elsewhere, and the bytes that calls were
    /// given for copies without any. What was left in the file is not there.
    ///
    /// # Cost
    /// Linear in the text of arguments of operators, with ids of calls too.
    pub(crate) fn add_arguments(&mut self, trace: &Trace, ids: bool) {
        let args = |span: u32| trace.strings.get(trace.slices.args[span as usize]);
        for span in 0..index(self.spans.len()) {
            match self.cat(span).role {
                CatRole::Operator if ids || args(span).contains("Call stack") => {
                    self.operator(span, &arguments(args(span)));
                }
                CatRole::Call if ids => self.external(span, &arguments(args(span))),
                _ => {}
            }
        }
        for op in self.ops.iter().filter(|op| op.work == Work::Memcpy && op.bytes.is_none()) {
            if let Some(call) = op.call().and_then(|call| self.calls.get_mut(call)) {
                call.size = size(&arguments(args(call.span)));
            }
        }
    }

    /// The place of a category that is new.
    fn place_of_cat(&mut self, text: &str) -> u16 {
        if self.cats.len() < MOST_CATS {
            let name = self.strings.intern(text);
            self.cats.push(Cat { name, role: role(text) });
        }
        u16::try_from(self.cats.len() - 1).unwrap_or(u16::MAX)
    }

    /// The places of device and stream of a lane, which are numbers or else what their lane is called.
    fn place_of_lane(&mut self, trace: &Trace, lane: usize, devices: &mut BTreeMap<Num, u32>) -> (u32, u32) {
        let lane = &trace.lanes[lane];
        let (device, stream) = match lane.kind {
            LaneKind::Stream { dev, stream } => (Num::Int(dev), Num::Int(stream)),
            _ => {
                let [group, name] =
                    [lane.group, lane.name].map(|id| self.strings.intern(trace.strings.get(id)));
                (Num::Text(group), Num::Text(name))
            }
        };
        let n = index(self.devices.len());
        let place = *devices.entry(device).or_insert(n);
        if place == n {
            self.devices.push(device);
        }
        self.streams.push((place, stream));
        (place, index(self.streams.len() - 1))
    }
}

/// A position among slices or lanes, of which there are fewer than names.
fn index(k: usize) -> u32 {
    u32::try_from(k).unwrap_or(NONE)
}
