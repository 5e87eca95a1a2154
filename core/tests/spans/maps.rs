//! Memory maps against a model that knows every byte: who shares what, what is copied, and what is where.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};

use spanlift::Bytes;
use spanlift::memory::{
    Block, Device, Dim, Dtype, Layout, MapError, MemoryMap, MovePlan, Span, Splitting, TensorView, View, cpu,
    cuda, mock,
};

use crate::rng::Rng;

fn at(position: i64) -> usize {
    usize::try_from(position).unwrap()
}

/// Every byte position of a view, element by element, from shape and strides alone.
fn positions(view: &View) -> Vec<i64> {
    let item = view.dtype.bytes();
    let mut elements = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        elements = elements.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    elements.iter().flat_map(|e| (0..item).map(move |j| e * item + j)).collect()
}

fn bytes_of(span: &Span) -> Vec<i64> {
    let mut offsets = vec![span.off()];
    for &Dim { count, stride } in span.dims() {
        offsets = offsets.iter().flat_map(|o| (0..count).map(move |i| o + i * stride)).collect();
    }
    offsets.iter().flat_map(|o| (0..span.elem()).map(move |j| o + j)).collect()
}

/// What the blocks of all devices hold: each byte has a value, or nothing was ever written there.
type Memory = BTreeMap<String, Vec<Option<u64>>>;

/// Carries out a plan in memory and gives the bytes that were copied: none of them over a value of a tensor there.
fn carry_out(plan: &MovePlan, memory: &mut Memory) -> usize {
    for a in &plan.allocations {
        let block = vec![None; at(a.bytes.0.cast_signed())];
        if a.is_there {
            memory.entry(a.name.clone()).or_insert(block);
        } else {
            assert!(memory.insert(a.name.clone(), block).is_none(), "{} is allocated twice", a.name);
        }
    }
    let mut written = BTreeSet::new();
    let mut n = 0;
    for copy in &plan.copies {
        let (from, to) = (&plan.before.storage_of(copy.from).id, &plan.allocations[copy.allocation].name);
        let (src, dst) = (bytes_of(&copy.span), bytes_of(&copy.target()));
        assert_eq!((src.len(), src.len() as u64), (dst.len(), copy.bytes.0));
        for (s, d) in src.into_iter().zip(dst) {
            assert!(written.insert((to.clone(), d)), "byte {d} of {to} is written twice");
            let value = memory[from][at(s)];
            assert!(value.is_some(), "byte {s} of {from} is copied and holds nothing");
            memory.get_mut(to).unwrap()[at(d)] = value;
            n += 1;
        }
    }
    n
}

/// The values of a tensor's bytes, in the order of its elements.
fn values(layout: &Layout, memory: &Memory, name: &str) -> Vec<Option<u64>> {
    let t = layout.find(name).unwrap();
    let block = &memory.get(&layout.storage_of(t.storage()).id).map_or(&[][..], Vec::as_slice);
    positions(t.view()).into_iter().map(|p| block[at(p)]).collect()
}

/// A model of a map: every tensor by the bytes of its block, and on which device it is.
struct Model {
    rng: Rng,
    blocks: Vec<Block>,
    map: MemoryMap,
    memory: Memory,
    /// Name, block and view of each tensor, and what its bytes held last.
    tensors: Vec<(String, usize, View)>,
    home: BTreeMap<usize, String>,
    n_values: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut rng = Rng(seed);
        let blocks = (0..1 + rng.below(2))
            .map(|k| {
                Block::new(
                    &format!("b{k}"),
                    [cpu(), cpu(), cuda(1)][rng.index(3)],
                    Bytes(rng.below(300).unsigned_abs() + 48),
                )
            })
            .collect();
        let splitting = [Splitting::ALWAYS, Splitting::NEVER, Splitting::at_gaps_of(Bytes(24))][rng.index(3)];
        let map = MemoryMap::new().splitting(splitting);
        let (memory, tensors, home) = (Memory::new(), Vec::new(), BTreeMap::new());
        Model { rng, blocks, map, memory, tensors, home, n_values: 0 }
    }

    fn fresh(&mut self) -> u64 {
        self.n_values += 1;
        self.n_values
    }

    fn register(&mut self) {
        let b = self.rng.index(self.blocks.len());
        let bytes = self.blocks[b].bytes().0.cast_signed();
        let view = loop {
            let dtype = Dtype::ALL[self.rng.index(11)];
            let rank = self.rng.below(3);
            let shape: Vec<i64> = (0..rank).map(|_| [0, 1, 2, 3, 4, 6, 6, 9][self.rng.index(8)]).collect();
            let steps = [-7, -3, -1, 0, 1, 1, 2, 3, 4, 6, 12];
            let strides: Vec<i64> = (0..rank).map(|_| steps[self.rng.index(11)]).collect();
            let view = View { dtype, shape, strides, offset: self.rng.below(bytes / dtype.bytes() + 1) };
            match view.span().unwrap().bounds() {
                Some((lo, hi)) if lo < 0 || bytes < hi => {}
                _ => break view,
            }
        };
        let name = format!("t{}", self.tensors.len());
        let tensor = self.blocks[b].view(view.clone());
        self.map.register(&name, &tensor).unwrap();
        let layout = self.map.layout();
        let t = layout.find(&name).unwrap();
        // A new view is in its own block.
        let home = layout.storage_of(t.storage()).id.clone();
        assert_eq!((t.view(), layout.storage_of(t.storage()).bytes), (&view, self.blocks[b].bytes()));
        if let Some(known) = self.home.insert(b, home.clone()) {
            assert_eq!(known, home, "one block, one storage");
        }
        if !self.memory.contains_key(&home) {
            let values = (0..bytes).map(|_| Some(self.fresh())).collect();
            self.memory.insert(home, values);
        }
        self.tensors.push((name, b, view));
        let before = self.map.layout();
        self.map.register(&self.tensors.last().unwrap().0.clone(), &tensor).unwrap();
        assert_eq!(self.map.layout(), before, "registering again changes nothing");
    }

    /// Writes anew through one view where it is now, and looks at it through all others.
    fn write(&mut self) {
        if self.tensors.is_empty() {
            return;
        }
        let layout = self.map.layout();
        let (name, b, view) = self.tensors[self.rng.index(self.tensors.len())].clone();
        let before: Vec<_> = self.tensors.iter().map(|t| values(&layout, &self.memory, &t.0)).collect();
        let t = layout.find(&name).unwrap();
        let storage = layout.storage_of(t.storage()).id.clone();
        let device = layout.storage_of(t.storage()).device;
        let mut new: BTreeMap<i64, u64> = BTreeMap::new();
        for (now, then) in positions(t.view()).into_iter().zip(positions(&view)) {
            // Bytes of the block by their places there: an element may be met several times.
            let value = *new.entry(then).or_insert_with(|| {
                self.n_values += 1;
                self.n_values
            });
            self.memory.get_mut(&storage).unwrap()[at(now)] = Some(value);
        }
        for ((other, of, view), before) in self.tensors.iter().zip(before) {
            let home = layout.storage_of(layout.find(other).unwrap().storage());
            let sees = *of == b && home.device == device;
            let expected: Vec<_> = positions(view)
                .into_iter()
                .zip(before)
                .map(|(then, old)| if sees { new.get(&then).copied().or(old) } else { old })
                .collect();
            assert_eq!(
                values(&layout, &self.memory, other),
                expected,
                "{name} is written on {device}, {other} of block {of} on {} looks",
                home.device
            );
        }
    }

    fn move_some(&mut self) {
        let devices = [cpu(), cuda(0), cuda(1), mock(0)];
        let to = devices[self.rng.index(4)];
        let all = self.rng.below(2) == 0;
        let chosen: Vec<String> =
            self.tensors.iter().map(|t| t.0.clone()).filter(|_| all || self.rng.below(2) == 0).collect();
        let before = self.map.layout();
        let plan = if all { self.map.move_to(to) } else { self.map.move_only(&chosen, to) }.unwrap();
        assert_eq!(self.map.layout(), before, "planning changes nothing");
        self.check_copies(&plan, &chosen, to);
        let then: Vec<_> = self.tensors.iter().map(|t| values(&before, &self.memory, &t.0)).collect();
        let copied = carry_out(&plan, &mut self.memory);
        assert_eq!(plan.bytes_copied(), copied as u128);
        self.map.apply(&plan).unwrap();
        let after = self.map.layout();
        let by_name = |l: &Layout| -> BTreeMap<String, _> {
            let place = |t: &spanlift::memory::Tensor| (l.storage_of(t.storage()).clone(), t.view().clone());
            l.tensors().iter().map(|t| (t.name().to_owned(), place(t))).collect()
        };
        assert_eq!(by_name(&after), by_name(&plan.after().unwrap()), "map and plan agree on what is where");
        assert!(plan.copies.is_empty() || self.map.apply(&plan) == Err(MapError::Stale));
        for ((name, b, view), then) in self.tensors.iter().zip(then) {
            let device = self.map.device(name).unwrap();
            let was = before.storage_of(before.find(name).unwrap().storage()).device;
            assert_eq!(device, if chosen.contains(name) { to } else { was });
            let t = after.find(name).unwrap();
            assert_eq!(
                (t.view().dtype, &t.view().shape, &t.view().strides),
                (view.dtype, &view.shape, &view.strides)
            );
            let now = values(&after, &self.memory, name);
            if was == to {
                assert_eq!(now, then, "{name} is there and stays as it is");
            } else if chosen.contains(name) {
                // Bytes that a tensor there has already are as they are there; the others come along.
                let there = self.there(&before, *b, to);
                for ((place, then), now) in positions(view).into_iter().zip(then).zip(now) {
                    if !there.contains(&place) && self.only_source(&before, &chosen, *b, place, to) {
                        assert_eq!(now, then, "{name}: byte {place} of its block");
                    }
                    assert!(now.is_some(), "{name}: byte {place} holds nothing");
                }
            }
        }
        let again = if all { self.map.move_to(to) } else { self.map.move_only(&chosen, to) }.unwrap();
        assert!(again.copies.is_empty() && again.tensors.is_empty(), "a second move moves nothing");
        self.check_sharing(&after);
        // Blocks that nobody views are gone, but those that were registered stay.
        let names: BTreeSet<String> = after.storages().iter().map(|s| s.id.clone()).collect();
        let homes: BTreeSet<String> = self.home.values().cloned().collect();
        self.memory.retain(|name, _| names.contains(name) || homes.contains(name));
    }

    /// Bytes of a block that some tensor on a device has.
    fn there(&self, layout: &Layout, block: usize, device: Device) -> BTreeSet<i64> {
        let is_there = |t: &&(String, usize, View)| {
            t.1 == block && layout.storage_of(layout.find(&t.0).unwrap().storage()).device == device
        };
        self.tensors.iter().filter(is_there).flat_map(|t| positions(&t.2)).collect()
    }

    /// Whether all moving tensors that have this byte have it in one place.
    fn only_source(&self, layout: &Layout, chosen: &[String], block: usize, byte: i64, to: Device) -> bool {
        let mut sources = BTreeSet::new();
        for (name, b, view) in &self.tensors {
            let t = layout.find(name).unwrap();
            if *b == block && chosen.contains(name) && positions(view).contains(&byte) {
                let storage = layout.storage_of(t.storage());
                if storage.device != to {
                    sources.insert(storage.id.clone());
                }
            }
        }
        sources.len() == 1
    }

    /// To a device goes each byte once that is not there; within it only what a larger block takes along.
    fn check_copies(&self, plan: &MovePlan, chosen: &[String], to: Device) {
        let layout = &plan.before;
        let mut wanted = 0;
        for b in 0..self.blocks.len() {
            let there = self.there(layout, b, to);
            let needed: BTreeSet<i64> = self
                .tensors
                .iter()
                .filter(|t| t.1 == b && chosen.contains(&t.0))
                .flat_map(|t| positions(&t.2))
                .collect();
            wanted += needed.difference(&there).count() as u64;
        }
        let from_elsewhere = |c: &&spanlift::memory::MoveCopy| layout.storage_of(c.from).device != to;
        let crossing: u64 = plan.copies.iter().filter(from_elsewhere).map(|c| c.bytes.0).sum();
        assert_eq!(crossing, wanted, "bytes that cross to {to}");
        let grown = plan.copies.iter().any(|c| layout.storage_of(c.from).device == to);
        for a in plan.new_allocations() {
            assert!(a.device == to && a.bytes.0 >= 1);
        }
        if !grown {
            let moved =
                plan.tensors.iter().all(|p| chosen.contains(&layout.tensors()[p.tensor].name().to_owned()));
            assert!(moved, "what is there is not moved unless a block grows");
        }
    }

    /// Tensors of one block on one device share bytes exactly when their views do, and at the same places.
    fn check_sharing(&self, layout: &Layout) {
        for (a, of_a, view_a) in &self.tensors {
            for (b, of_b, view_b) in &self.tensors {
                let (ta, tb) = (layout.find(a).unwrap(), layout.find(b).unwrap());
                let (sa, sb) = (layout.storage_of(ta.storage()), layout.storage_of(tb.storage()));
                let then: Vec<bool> = {
                    let set: BTreeSet<i64> = positions(view_b).into_iter().collect();
                    positions(view_a)
                        .iter()
                        .map(|p| of_a == of_b && sa.device == sb.device && set.contains(p))
                        .collect()
                };
                let now: Vec<bool> = {
                    let set: BTreeSet<i64> = positions(tb.view()).into_iter().collect();
                    positions(ta.view()).iter().map(|p| sa.id == sb.id && set.contains(p)).collect()
                };
                assert_eq!(now, then, "{a} and {b}");
            }
        }
    }

    fn check_deepcopy(&self) {
        let layout = self.map.layout();
        let plan = self.map.deepcopy().unwrap();
        let mut memory = self.memory.clone();
        carry_out(&plan, &mut memory);
        let copy = plan.after().unwrap();
        assert_eq!(copy.report().unwrap().overlaps, layout.report().unwrap().overlaps);
        for (name, ..) in &self.tensors {
            let (was, is) = (layout.find(name).unwrap(), copy.find(name).unwrap());
            let (from, to) = (layout.storage_of(was.storage()), copy.storage_of(is.storage()));
            assert!(from.id != to.id && from.device == to.device && was.marks() == is.marks());
            assert_eq!(values(&copy, &memory, name), values(&layout, &self.memory, name));
        }
        let mut map = MemoryMap::from(copy.clone());
        assert_eq!(map.layout().tensors(), MemoryMap::from(copy).layout().tensors());
        assert_eq!(map.apply(&plan), Err(MapError::Stale));
    }
}

#[test]
fn random_maps_agree_with_a_model_of_bytes() {
    let seeds = std::env::var("SPANLIFT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut model = Model::new(seed);
            for _ in 0..14 {
                match model.rng.below(5) {
                    0 | 1 => model.register(),
                    2 => model.write(),
                    _ => model.move_some(),
                }
            }
            model.check_deepcopy();
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}

fn weight(rows: i64) -> (Block, TensorView) {
    let block = Block::new("w", cpu(), Bytes(rows.unsigned_abs() * 40));
    let all = block.tensor(Dtype::F32, &[rows, 10]).unwrap();
    (block, all)
}

/// Moves everything and gives bytes allocated and bytes copied.
#[track_caller]
fn moved(map: &mut MemoryMap, to: Device) -> (u128, u128) {
    let plan = map.move_to(to).unwrap();
    map.apply(&plan).unwrap();
    (plan.bytes_allocated(), plan.bytes_copied())
}

#[test]
fn round_trips_come_home() {
    let (_, all) = weight(10);
    let mut map = MemoryMap::new();
    map.register("all", &all).unwrap();
    map.register("column", &all.select(1, 3).unwrap()).unwrap();
    let at_home = map.layout();
    assert_eq!(moved(&mut map, cuda(0)), (400, 400));
    assert_eq!(map.layout().storages()[0].id, "w@cuda:0");
    assert_eq!(moved(&mut map, cuda(0)), (0, 0));
    assert_eq!(moved(&mut map, cuda(1)), (400, 400));
    assert_eq!(map.layout().storages()[0].id, "w@cuda:1");
    assert_eq!(moved(&mut map, cpu()), (0, 400), "home is there, its bytes may be old");
    assert_eq!(map.layout(), at_home);
}

#[test]
fn late_views_get_only_what_is_missing() {
    let (_, all) = weight(20);
    let mut map = MemoryMap::new();
    map.register("every second row", &all.step(0, 2).unwrap()).unwrap();
    assert_eq!(moved(&mut map, cuda(0)), (19 * 40, 400));
    // In a gap of the block that is there: nothing is allocated.
    map.register("row 3", &all.select(0, 3).unwrap()).unwrap();
    assert_eq!(moved(&mut map, cuda(0)), (0, 40));
    assert_eq!(map.layout().storages().len(), 1);
    // Apart from it: a second block.
    map.register("row 19", &all.select(0, 19).unwrap()).unwrap();
    assert_eq!(moved(&mut map, cuda(0)), (40, 40));
    assert_eq!(map.layout().storages().len(), 2);
    // Across the edge of both and sharing bytes with both: one larger block.
    map.register("last rows", &all.narrow(0, 17, 3).unwrap()).unwrap();
    let plan = map.move_to(cuda(0)).unwrap();
    let from = |device: Device| -> u64 {
        let is = |c: &&spanlift::memory::MoveCopy| plan.before.storage_of(c.from).device == device;
        plan.copies.iter().filter(is).map(|c| c.bytes.0).sum()
    };
    assert_eq!((from(cpu()), from(cuda(0)), plan.bytes_allocated()), (40, 480, 800));
    assert_eq!(plan.tensors.len(), 4, "the tensors of the old blocks are found in the new one");
    map.apply(&plan).unwrap();
    assert_eq!(map.layout().storages().len(), 1);
    assert_eq!(map.layout().report().unwrap().devices["cuda:0"].unique_bytes, 40 * 13);
}

#[test]
fn late_views_across_both_edges_of_a_block_make_one_larger_block() {
    let (_, all) = weight(30);
    let rows = |first, n| all.narrow(0, first, n).unwrap();
    let mut map = MemoryMap::new();
    map.register("middle", &rows(10, 10)).unwrap();
    assert_eq!(moved(&mut map, cuda(0)), (400, 400));
    // They share no byte with each other, but both share some with what is there.
    map.register("before", &rows(5, 6)).unwrap();
    map.register("behind", &rows(19, 6)).unwrap();
    let plan = map.move_to(cuda(0)).unwrap();
    assert_eq!((plan.bytes_allocated(), plan.bytes_copied()), (800, 200 + 200 + 400));
    map.apply(&plan).unwrap();
    let layout = map.layout();
    assert_eq!((layout.storages().len(), layout.report().unwrap().overlaps.len()), (1, 2));
}

#[test]
fn a_declared_copy_is_used_where_it_is() {
    let (_, all) = weight(10);
    let there = Block::new("mirror", cuda(0), Bytes(480));
    let mirror = there.tensor(Dtype::F32, &[10, 10]).unwrap().at(20);
    let mut map = MemoryMap::new();
    map.register_copy("all", &all, &mirror).unwrap();
    map.register_copy("all", &all, &mirror).unwrap();
    map.register("row", &all.select(0, 4).unwrap()).unwrap();
    let plan = map.move_to(cuda(0)).unwrap();
    assert_eq!((plan.bytes_allocated(), plan.bytes_copied(), plan.allocations.len()), (0, 0, 1));
    map.apply(&plan).unwrap();
    let layout = map.layout();
    assert_eq!((layout.storages()[0].id.as_str(), layout.find("all").unwrap().view().offset), ("mirror", 20));
    assert_eq!(layout.find("row").unwrap().view().offset, 60);
    // A view of the mirror is a view of the same bytes.
    map.register("first of the mirror", &mirror.select(0, 0).unwrap()).unwrap();
    assert_eq!(map.device("first of the mirror"), Some(cuda(0)));
    assert_eq!(map.layout().report().unwrap().overlaps.len(), 2);
    // On its way out and back it is a copy no longer.
    assert_eq!(moved(&mut map, cpu()), (0, 400));
    let back = map.move_to(cuda(0)).unwrap();
    assert_eq!((back.bytes_allocated(), back.bytes_copied()), (400, 400));
    let other = Block::new("o", cpu(), Bytes(400)).tensor(Dtype::F32, &[10, 10]).unwrap();
    let before = map.layout();
    let moved = mirror.at(16).narrow(0, 0, 9).unwrap();
    for (name, tensor, existing) in
        [("b", &other, &mirror), ("c", &all, &all), ("d", &all.narrow(0, 0, 9).unwrap(), &moved)]
    {
        let message = map.register_copy(name, tensor, existing).unwrap_err().to_string();
        assert!(message.contains("is known to hold other bytes"), "{message}");
        assert_eq!(map.layout(), before, "{name}");
    }
    let narrow = mirror.narrow(0, 0, 5).unwrap();
    let message = map.register_copy("e", &other, &narrow).unwrap_err().to_string();
    assert_eq!(message, r#"tensor "e": not a copy: the existing tensor has another dtype, shape or strides"#);
}

#[test]
fn what_moves_alone_says_what_it_no_longer_shares() {
    let (_, all) = weight(10);
    let mut map = MemoryMap::new();
    for (name, first) in [("low", 0), ("middle", 3), ("high", 6)] {
        map.register(name, &all.narrow(0, first, 4).unwrap()).unwrap();
    }
    let plan = map.move_only(["middle"], cuda(0)).unwrap();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(plan.severed, [pair("middle", "high"), pair("middle", "low")]);
    map.apply(&plan).unwrap();
    assert!(map.layout().report().unwrap().overlaps.is_empty());
    // Together again, on the device: the shared rows are there already.
    let plan = map.move_to(cuda(0)).unwrap();
    assert_eq!((plan.bytes_copied(), plan.severed.len()), (160 + 240, 0));
    map.apply(&plan).unwrap();
    assert_eq!(map.layout().report().unwrap().overlaps.len(), 2);
    assert_eq!(map.move_only(["nobody"], cpu()).unwrap_err(), MapError::Unknown("nobody".to_owned()));
}

struct Linear {
    weight: TensorView,
    mean: Vec<f32>,
}
spanlift::module!(Linear: parameter weight; buffer mean);

#[test]
fn modules_are_registered_once_and_whole_or_not_at_all() {
    let (_, all) = weight(10);
    let linear = |first| Linear { weight: all.narrow(0, first, 4).unwrap(), mean: vec![0.0; 4] };
    let mut layers = vec![linear(0), linear(2)];
    let mut map = MemoryMap::of(&layers).unwrap();
    assert_eq!(map.register_module(&layers).unwrap(), 0);
    let at_once = map.layout();
    assert_eq!((at_once.tensors().len(), at_once.storages().len(), at_once.modules().len()), (4, 3, 3));
    assert_eq!(moved(&mut map, cuda(0)), (6 * 40 + 32, 6 * 40 + 32));
    layers.push(linear(6));
    assert_eq!(map.register_module(&layers).unwrap(), 2);
    assert_eq!(map.layout().modules().len(), 4);
    let plan = map.move_only(["2"], cuda(0)).unwrap();
    assert_eq!(plan.bytes_copied(), 160 + 16);
    map.apply(&plan).unwrap();
    // Another view under a known name, and a view outside: all is as before.
    let before = map.layout();
    layers[0].weight = all.narrow(0, 1, 4).unwrap();
    layers.push(Linear { weight: all.at(1), mean: vec![] });
    let message = map.register_module(&layers).unwrap_err().to_string();
    assert_eq!(
        message.lines().collect::<Vec<_>>(),
        [
            r#"tensor "0.weight": duplicate name"#,
            r#"tensor "3.weight": outside storage: it needs bytes [4, 404) of "w", which has 400 bytes"#,
        ]
    );
    assert_eq!(map.layout(), before);
    assert_eq!(map.register_module_at("copy", &[linear(0)]).unwrap(), 2);
    assert!(map.layout().find("copy.0.weight").is_some());
}
