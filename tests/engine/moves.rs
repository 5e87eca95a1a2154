//! Move plans of random layouts, carried out on the software driver: every tensor's elements are where the layout after the
//! move has them, one by one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spanlift::advise::transfer::{Route, Way};
use spanlift::memory::{
    Device, Dim, Dtype, Layout, MemoryMap, MoveKind, MovePlan, Span, Splitting, View, cpu, cuda, mock,
};
use spanlift::{Bytes, memory};
use spanlift_native::cpu::Memory;
use spanlift_native::engine::{DeviceSlice, Engine, EngineError, Moved, Store, Watch};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, engine, schedules};

struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).expect("31 bits") % n
    }
}

/// A few storages on the host and the device, with views that overlap, interleave, repeat elements and are empty.
fn layout(random: &mut Random) -> Layout {
    let mut layout = Layout::new();
    for s in 0..1 + random.below(4) {
        let device = if random.below(2) == 0 { cpu() } else { cuda(0) };
        // Now and then larger than a slot.
        let size =
            if random.below(8) == 0 { 300_000 + random.below(300_000) } else { 16 + random.below(4000) };
        let storage =
            layout.storage(&format!("s{s}"), device, Bytes(size.unsigned_abs())).expect("a new name");
        for t in 0..random.below(5) {
            let dtype = [Dtype::U8, Dtype::I16, Dtype::F32, Dtype::C64]
                [usize::try_from(random.below(4)).expect("small")];
            let n = size / dtype.bytes();
            let shape: Vec<i64> = (0..random.below(4)).map(|_| random.below(7)).collect();
            let strides = shape.iter().map(|_| random.below(1 + n / 7)).collect();
            let offset = random.below(n.max(1));
            // Views that leave their storage are refused, and left out.
            _ = layout.tensor(&format!("s{s}.t{t}"), storage, View { dtype, shape, strides, offset });
        }
    }
    layout
}

/// The bytes of a tensor's elements in order, from the storages' bytes.
fn elements(layout: &Layout, tensor: usize, storages: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let tensor = &layout.tensors()[tensor];
    let view = tensor.view();
    let mut at = vec![view.offset];
    for (n, stride) in view.shape.iter().zip(&view.strides) {
        at = at.iter().flat_map(|at| (0..*n).map(move |i| at + i * stride)).collect();
    }
    let storage = &layout.storage_of(tensor.storage()).id;
    if at.is_empty() {
        return Vec::new();
    }
    let item = usize::try_from(view.dtype.bytes()).expect("small");
    let starts = at.iter().map(|at| usize::try_from(*at).expect("inside") * item);
    starts.flat_map(|start| storages[storage][start..start + item].to_vec()).collect()
}

fn download(engine: &Engine, slice: &DeviceSlice<u8>) -> Vec<u8> {
    let mut bytes = vec![0x55; slice.len()];
    engine.download(engine.stream(), slice, &mut bytes).expect("down");
    bytes
}

/// The bytes of every storage of a layout, without pattern.
fn contents(layout: &Layout, seed: u64) -> BTreeMap<String, Vec<u8>> {
    let storages = layout.storages().iter().zip(seed..);
    let bytes =
        storages.map(|(s, seed)| (s.id.clone(), bytes(usize::try_from(s.bytes.0).expect("small"), seed)));
    bytes.collect()
}

/// Carries out a plan; gives the bytes of all storages afterwards by name, of those that were there and of those that are new.
fn carried_out(
    engine: &Engine,
    plan: &MovePlan,
    before: &BTreeMap<String, Vec<u8>>,
) -> BTreeMap<String, Vec<u8>> {
    // Blocks that are there may be viewed by nothing at the moment, and are no storages of the layout then.
    let storages = plan.before.storages().iter().map(|s| (&s.id, s.device, s.bytes));
    let there = plan.allocations.iter().filter(|a| a.is_there).map(|a| (&a.name, a.device, a.bytes));
    let mut after = before.clone();
    let mut host: BTreeMap<String, (Device, Vec<u8>)> = storages
        .chain(there)
        // Blocks of no bytes, for empty tensors, are nowhere.
        .filter(|(_, _, bytes)| bytes.0 > 0)
        .map(|(name, device, _)| (name.clone(), (device, before[name].clone())))
        .collect();
    let mut stores: BTreeMap<String, Store<'_>> = host
        .iter_mut()
        .map(|(name, (device, bytes))| {
            let store = match device {
                Device::Cpu => Store::Host(bytes),
                _ => Store::Device(engine.upload(engine.stream(), bytes).expect("up").share()),
            };
            (name.clone(), store)
        })
        .collect();
    let told = Mutex::new((0, None));
    let progress = |done: usize, all: usize| {
        let mut told = told.lock().expect("no panic");
        *told = (told.0.max(done), Some(all));
    };
    let watch = Watch { progress: Some(&progress), cancel: None };
    let moved = engine.carry_out_watched(engine.stream(), plan, &mut stores, watch).expect("carried out");
    assert_eq!(moved.len(), plan.allocations.len());
    // All of one plan is one to whoever watches, whatever it took.
    let (done, all) = told.into_inner().expect("no panic");
    assert_eq!((all.unwrap_or(0), all.is_some()), (done, !plan.copies.is_empty()));
    for (name, store) in stores {
        let bytes = match store {
            Store::Host(bytes) => bytes.to_vec(),
            Store::Device(slice) => download(engine, &slice),
        };
        after.insert(name, bytes);
    }
    for (allocation, moved) in plan.allocations.iter().zip(moved) {
        let bytes = match moved {
            Moved::Host(bytes) => bytes,
            Moved::Device(slice) => download(engine, &slice),
            Moved::There => continue,
        };
        assert_eq!(bytes.len() as u64, allocation.bytes.0);
        after.insert(allocation.name.clone(), bytes);
    }
    after
}

/// Every tensor has its elements afterwards, and what the plan did not write is as it was.
#[track_caller]
fn is_right(
    engine: &Engine,
    plan: &MovePlan,
    before: &BTreeMap<String, Vec<u8>>,
    what: &str,
) -> BTreeMap<String, Vec<u8>> {
    let found = carried_out(engine, plan, before);
    let after = plan.after().expect("unchanged");
    for (k, tensor) in plan.before.tensors().iter().enumerate() {
        let expected = elements(&plan.before, k, before);
        assert!(elements(&after, k, &found) == expected, "{what}: {}", tensor.name());
    }
    let is_new = |name: &String| plan.allocations.iter().any(|a| !a.is_there && a.name == *name);
    for (name, bytes) in before.iter().filter(|(name, _)| !is_new(name)) {
        let written = plan.allocations.iter().enumerate().filter(|(_, a)| a.is_there && a.name == *name);
        let written: Vec<usize> = written.map(|(k, _)| k).collect();
        let mut expected = bytes.clone();
        for copy in plan.copies.iter().filter(|copy| written.contains(&copy.allocation)) {
            let from = &before[&plan.before.storage_of(copy.from).id];
            for at in byte_positions(&copy.span) {
                let to = usize::try_from(at + copy.shift).expect("inside");
                expected[to] = from[usize::try_from(at).expect("inside")];
            }
        }
        assert!(found[name] == expected, "{what}: storage {name}");
    }
    is_what_it_is_lowered_to(plan, before, &found, what);
    found
}

/// The same plan as a program, one strided copy for each of its copies: every byte that a copy writes is the same.
#[track_caller]
fn is_what_it_is_lowered_to(
    plan: &MovePlan,
    before: &BTreeMap<String, Vec<u8>>,
    found: &BTreeMap<String, Vec<u8>>,
    what: &str,
) {
    let mut lowered = Memory::of(&plan.before).expect("small");
    let there = plan.allocations.iter().filter(|a| a.is_there).map(|a| &a.name);
    for name in plan.before.storages().iter().map(|s| &s.id).chain(there) {
        lowered.put(name, before.get(name).cloned().unwrap_or_default());
    }
    lowered.carry_out(plan).expect("a program that runs");
    for copy in &plan.copies {
        let name = &plan.allocations[copy.allocation].name;
        let (ours, theirs) = (&found[name], lowered.block(name).expect("it was written"));
        let at = byte_positions(&copy.target()).into_iter().map(|at| usize::try_from(at).expect("inside"));
        assert!(at.into_iter().all(|at| ours[at] == theirs[at]), "{what}: {name}");
    }
}

fn byte_positions(span: &memory::Span) -> Vec<i64> {
    let mut starts = vec![span.off()];
    for dim in span.dims() {
        starts = starts.iter().flat_map(|at| (0..dim.count).map(move |i| at + i * dim.stride)).collect();
    }
    starts.iter().flat_map(|at| (0..span.elem()).map(move |j| at + j)).collect()
}

#[test]
fn random_layouts_move_there_and_back_and_are_copied() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let (mut n_copies, mut n_strided) = (0, 0);
        for seed in 0..60 {
            let mut random = Random(seed);
            let layout = layout(&mut random);
            let before = contents(&layout, seed);
            let splitting = match random.below(3) {
                0 => Splitting::NEVER,
                1 => Splitting::at_gaps_of(Bytes(512)),
                _ => Splitting::ALWAYS,
            };
            let there = layout.move_with(cuda(0), splitting).expect("few runs");
            let found = is_right(&engine, &there, &before, &format!("seed {seed}, there"));
            let back = there.after().expect("unchanged").move_with(cpu(), splitting).expect("few runs");
            is_right(&engine, &back, &found, &format!("seed {seed}, back"));
            is_right(&engine, &layout.move_naively(cuda(0)), &before, &format!("seed {seed}, naively"));
            let copy = layout.deepcopy().expect("few runs");
            assert_eq!(copy.kind, MoveKind::DeepCopy);
            is_right(&engine, &copy, &before, &format!("seed {seed}, copied"));
            n_copies += there.copies.len() + back.copies.len();
            n_strided += there.copies.iter().filter(|copy| !copy.span.is_range()).count();
        }
        assert!(n_copies > 100 && n_strided > 20, "{n_copies} copies, {n_strided} strided");
    });
}

/// Stopped behind anything that it tells: what it takes bytes from is as it was, and carried out again all is right.
#[test]
fn a_plan_is_stopped_behind_any_part() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let (mut n_stopped, mut n_over) = (0, 0);
        for seed in 200..220 {
            let layout = layout(&mut Random(seed));
            let before = contents(&layout, seed);
            for plan in [layout.move_to(cuda(0)), layout.deepcopy(), layout.move_to(cpu())] {
                let plan = plan.expect("few runs");
                for part in 0..4 {
                    let mut now = before.clone();
                    let mut stores: BTreeMap<String, Store<'_>> = now
                        .iter_mut()
                        .map(|(name, bytes)| {
                            let device =
                                plan.before.storages().iter().find(|s| s.id == *name).map(|s| s.device);
                            let store = match device {
                                Some(Device::Cuda(_)) => {
                                    Store::Device(engine.upload(engine.stream(), bytes).expect("up").share())
                                }
                                _ => Store::Host(bytes),
                            };
                            (name.clone(), store)
                        })
                        .collect();
                    let (n_told, cancel) = (AtomicUsize::new(0), AtomicBool::new(part == 0));
                    let progress = |_: usize, _: usize| {
                        if n_told.fetch_add(1, Ordering::Relaxed) + 1 == part {
                            cancel.store(true, Ordering::Relaxed);
                        }
                    };
                    let watch = Watch { progress: Some(&progress), cancel: Some(&cancel) };
                    match engine.carry_out_watched(engine.stream(), &plan, &mut stores, watch) {
                        Err(EngineError::Cancelled) => n_stopped += 1,
                        done => {
                            assert!(done.is_ok() && n_told.into_inner() <= part, "{seed}, {part}: {done:?}");
                            n_over += 1;
                        }
                    }
                    for (name, store) in stores {
                        let bytes = match store {
                            Store::Host(bytes) => bytes.to_vec(),
                            Store::Device(slice) => download(&engine, &slice),
                        };
                        assert!(bytes == before[&name], "{seed}, {part}: {name}");
                    }
                }
                is_right(&engine, &plan, &before, &format!("seed {seed}, after it was stopped"));
            }
        }
        assert!(n_stopped > 60 && n_over > 60, "{n_stopped} stopped, {n_over} not");
    });
}

/// Tensors that follow one after the other into a block that is there already.
#[test]
fn what_is_there_gets_what_it_lacks_and_nothing_else() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let mut n_there = 0;
        for seed in 100..140 {
            let mut random = Random(seed);
            let mut map = MemoryMap::from(layout(&mut random));
            let mut now = contents(&map.layout(), seed);
            for step in 0..4 {
                let names: Vec<String> = map.layout().tensors().iter().map(|t| t.name().to_owned()).collect();
                let some: Vec<&String> = names.iter().filter(|_| random.below(2) == 0).collect();
                let to = if random.below(3) == 0 { cpu() } else { cuda(0) };
                let plan = map.move_only(some, to).expect("names that are there");
                n_there += plan.allocations.iter().filter(|a| a.is_there).count();
                now = is_right(&engine, &plan, &now, &format!("seed {seed}, step {step}"));
                map.apply(&plan).expect("made from this map");
            }
        }
        assert!(n_there > 10, "{n_there}");
    });
}

/// Every other element of a block that is there: a transfer for them all and a list, not one for each; where there is no room
/// beside the block, one for each.
#[test]
fn what_a_block_lacks_in_many_places_goes_there_together() {
    let refused = Fault {
        at: "cuMemAllocFromPoolAsync".into(),
        device: None,
        after: 1,
        code: Code(2),
        times: 2,
        sticky: false,
    };
    let no_room = Config { faults: vec![refused], ..Config::default() };
    kit::alone(&[Config::default(), Config::under(Scheduler::Lazy), no_room], |driver| {
        const N: i64 = 3000;
        let engine = engine();
        let mut layout = Layout::new();
        let storage = layout.storage("w", cpu(), Bytes(8 * N as u64 + 8)).expect("a new name");
        for (name, offset) in [("even", 0), ("odd", 1)] {
            let n = N - offset;
            let view = View { dtype: Dtype::F32, shape: vec![n], strides: vec![2], offset };
            layout.tensor(name, storage, view).expect("inside");
        }
        let before = contents(&layout, 5);
        let mut map = MemoryMap::from(layout);
        map.apply(&map.move_only(["even"], cuda(0)).expect("known")).expect("of this map");
        let plan = map.move_only(["odd"], cuda(0)).expect("known");
        assert!(plan.allocations.len() == 1 && plan.allocations[0].is_there);
        let there: Vec<u8> = (0..plan.allocations[0].bytes.0).map(|k| (k % 251) as u8).collect();
        let mut host = before["w"].clone();
        let block = engine.upload(engine.stream(), &there).expect("up").share();
        let mut stores = BTreeMap::from([
            ("w".to_owned(), Store::Host(&mut host)),
            (plan.allocations[0].name.clone(), Store::Device(block.clone())),
        ]);
        let n_calls = || driver.report().calls.values().sum::<u64>();
        let start = n_calls();
        engine.carry_out(engine.stream(), &plan, &mut stores).expect("carried out");
        let n_calls = n_calls() - start;
        let has_room = !driver.report().calls.contains_key("cuMemPoolTrimTo");
        assert!(if has_room { n_calls < 40 } else { n_calls > 2 * N as u64 }, "{n_calls} calls");
        let (found, from) = (download(&engine, &block), &before["w"]);
        for (at, &byte) in found.iter().enumerate() {
            let is_odd = at / 4 % 2 == 1;
            assert_eq!(byte, if is_odd { from[at] } else { there[at] }, "byte {at}");
        }
    });
}

/// Views that repeat elements without end cost what their bytes do, wherever they go.
#[test]
fn views_that_repeat_elements_cost_their_bytes() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let mut layout = Layout::new();
        let storage = layout.storage("w", cpu(), Bytes(64)).expect("a new name");
        for (k, (shape, strides)) in [
            (vec![1 << 40], vec![0]),
            (vec![1 << 20, 3, 1 << 20], vec![0, 5, 0]),
            (vec![3, 1 << 40, 2], vec![2, 0, 1]),
        ]
        .into_iter()
        .enumerate()
        {
            let view = View { dtype: Dtype::F32, shape, strides, offset: 1 };
            layout.tensor(&format!("t{k}"), storage, view).expect("inside");
        }
        let mut map = MemoryMap::from(layout);
        let mut now = contents(&map.layout(), 3);
        for to in [cuda(0), cpu()] {
            for tensor in ["t0", "t1", "t2"] {
                let plan = map.move_only([tensor], to).expect("names that are there");
                assert!(plan.bytes_copied() <= 64);
                let names: Vec<String> = plan.allocations.iter().map(|a| a.name.clone()).collect();
                now = carried_out(&engine, &plan, &now);
                assert!(names.iter().all(|name| now.contains_key(name)), "{names:?}");
                map.apply(&plan).expect("made from this map");
            }
        }
    });
}

/// A thousand small storages, of each the fourth column of a matrix of 10 x 10.
fn columns(device: Device) -> Layout {
    let mut layout = Layout::new();
    for k in 0..1000 {
        let storage = layout.storage(&format!("w{k}"), device, Bytes(400)).expect("a new name");
        let view = View { dtype: Dtype::F32, shape: vec![10], strides: vec![10], offset: 3 };
        layout.tensor(&format!("column{k}"), storage, view).expect("inside");
    }
    layout
}

/// A thousand small storages are one block and a few calls.
#[test]
fn many_storages_go_as_one() {
    kit::alone(&[Config::under(Scheduler::Lazy)], |driver| {
        let engine = engine();
        let layout = columns(cpu());
        let plan = layout.move_to(cuda(0)).expect("few runs");
        let before = contents(&layout, 1);
        let mut host = before.clone();
        let stores = host.iter_mut().map(|(name, bytes)| (name.clone(), Store::Host(bytes)));
        let mut stores: BTreeMap<String, Store<'_>> = stores.collect();
        let n_calls = || driver.report().calls.values().sum::<u64>();
        let start = n_calls();
        let moved = engine.carry_out(engine.stream(), &plan, &mut stores).expect("carried out");
        let n_calls = n_calls() - start;
        assert!(n_calls < 60, "{n_calls} calls");
        // All of them are one transfer, and its bytes are what crossed the link.
        let each = engine.explain_each();
        let Moved::Device(first) = &moved[0] else { panic!("{:?}", moved[0]) };
        assert_eq!((each.len(), each[0].request.bytes.0), (1, 999 * 512 + first.len() as u64));
        assert_eq!(engine.explain_last().as_ref(), each.first());
        let Moved::Device(last) = &moved[999] else { panic!("{:?}", moved[999]) };
        assert_eq!(last.address() % 512, 0);
        let found = download(&engine, last);
        assert!((0..10).all(|i| found[40 * i..40 * i + 4] == before["w999"][12 + 40 * i..16 + 40 * i]));
    });
}

/// And a thousand that lie apart on the device are one list there and one transfer.
#[test]
fn many_storages_come_home_as_one() {
    kit::alone(&[Config::under(Scheduler::Lazy)], |driver| {
        let engine = engine();
        let mut layout = columns(cuda(0));
        let large = layout.storage("large", cuda(0), Bytes(5 << 20)).expect("a new name");
        let view = View { dtype: Dtype::U8, shape: vec![5 << 20], strides: vec![1], offset: 0 };
        layout.tensor("large", large, view).expect("inside");
        let plan = layout.move_to(cpu()).expect("few runs");
        let before = contents(&layout, 1);
        let up = |bytes| Store::Device(engine.upload(engine.stream(), bytes).expect("up").share());
        let mut stores: BTreeMap<String, Store<'_>> =
            before.iter().map(|(name, bytes)| (name.clone(), up(bytes))).collect();
        let n_calls = || driver.report().calls.values().sum::<u64>();
        let start = n_calls();
        let moved = engine.carry_out(engine.stream(), &plan, &mut stores).expect("carried out");
        let n_calls = n_calls() - start;
        // Most of them for the chunks of the large one.
        assert!(n_calls < 200, "{n_calls} calls");
        let routes: Vec<Route> = engine.explain_each().iter().map(|each| each.request.route).collect();
        assert_eq!(routes, [Route::Down, Route::Within, Route::Down], "the large one by itself");
        drop((stores, moved));
        is_right(&engine, &plan, &before, "home");
        assert!(driver.report().violations.is_empty());
    });
}

/// Tensors that share an element each with the next, whose copies no one span has: within the device they go as a list, and within the
/// host as one part of the plan.
#[test]
fn many_copies_into_one_allocation_go_together() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        for device in [cuda(0), cpu()] {
            let mut layout = Layout::new();
            let storage = layout.storage("s", device, Bytes(100_000)).expect("a new name");
            let mut offset = 0;
            for k in 0..1000 {
                let stride = 2 + k * 7919 % 41;
                let view = View { dtype: Dtype::U8, shape: vec![3], strides: vec![stride], offset };
                layout.tensor(&format!("t{k}"), storage, view).expect("inside");
                offset += 2 * stride;
            }
            let plan = layout.deepcopy().expect("few runs");
            assert!(plan.allocations.len() == 1 && plan.copies.len() > 100, "{} copies", plan.copies.len());
            let mut host = contents(&layout, 1);
            let mut stores: BTreeMap<String, Store<'_>> = BTreeMap::new();
            for (name, bytes) in &mut host {
                let store = match device {
                    Device::Cpu => Store::Host(bytes),
                    _ => Store::Device(engine.upload(engine.stream(), bytes).expect("up").share()),
                };
                stores.insert(name.clone(), store);
            }
            let called = || {
                let calls = driver.report().calls;
                ["cuMemcpyDtoDAsync_v2", "cuLaunchKernel"].map(|call| calls.get(call).copied().unwrap_or(0))
            };
            let (before, n_told) = (called(), AtomicUsize::new(0));
            let progress = |_: usize, _: usize| _ = n_told.fetch_add(1, Ordering::Relaxed);
            let watch = Watch { progress: Some(&progress), cancel: None };
            engine.carry_out_watched(engine.stream(), &plan, &mut stores, watch).expect("carried out");
            let after = called();
            let n_lists = u64::from(device != cpu());
            assert_eq!([after[0] - before[0], after[1] - before[1]], [0, n_lists]);
            assert_eq!(n_told.into_inner(), 1);
            drop(stores);
            is_right(&engine, &plan, &contents(&layout, 1), &format!("{device}"));
            // And from one to the other, window by window.
            let to = if device == cpu() { cuda(0) } else { cpu() };
            let across = layout.move_to(to).expect("few runs");
            is_right(&engine, &across, &contents(&layout, 1), &format!("{device}, across"));
        }
    });
}

/// Of a plan each transfer is explained: its own bytes, its own way, its own time; as many as the driver was asked for.
#[test]
fn every_stretch_of_a_plan_is_explained() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        assert!(engine.explain_each().is_empty(), "nothing is done yet");
        let mut layout = Layout::new();
        // Ten elements so far apart that none is worth the way between them, and a large range.
        let sparse = layout.storage("sparse", cpu(), Bytes(10 * 400_000)).expect("a new name");
        let view = View { dtype: Dtype::F32, shape: vec![10], strides: vec![100_000], offset: 0 };
        layout.tensor("sparse", sparse, view).expect("inside");
        let large = layout.storage("large", cpu(), Bytes(3 << 20)).expect("a new name");
        let view = View { dtype: Dtype::U8, shape: vec![3 << 20], strides: vec![1], offset: 0 };
        layout.tensor("large", large, view).expect("inside");
        let plan = layout.move_to(cuda(0)).expect("few runs");
        let mut host = contents(&layout, 1);
        let stores = host.iter_mut().map(|(name, bytes)| (name.clone(), Store::Host(bytes)));
        let mut stores: BTreeMap<String, Store<'_>> = stores.collect();
        engine.carry_out(engine.stream(), &plan, &mut stores).expect("carried out");
        let each = engine.explain_each();
        // In the order of their bytes; the first element lies beside the large range.
        let bytes: Vec<u64> = each.iter().map(|explain| explain.request.bytes.0).collect();
        assert_eq!(bytes, [&[(3 << 20) + 4][..], &[4; 9]].concat());
        assert!(each[1..].iter().all(|explain| explain.plan.chosen.way == Way::Inline), "{each:?}");
        assert_ne!(each[0].plan.chosen.way, Way::Inline);
        assert!(each.iter().all(|explain| explain.measured.is_some() && explain.request.route == Route::Up));
        let last = engine.explain_last().expect("done");
        let longest = each.iter().max_by_key(|explain| explain.measured).expect("ten");
        assert_eq!((&last.request, last.measured), (&longest.request, longest.measured));
        assert!(last.to_string().ends_with("the longest of 10 transfers of a move plan"), "{last}");
        // A transfer alone is explained alone.
        engine.upload(engine.stream(), &[1u8; 77]).expect("up");
        assert_eq!(
            (engine.explain_each().len(), engine.explain_each().first()),
            (1, engine.explain_last().as_ref())
        );
        // What stays in the host is no transfer.
        let before = engine.explain_last();
        let plan = layout.move_to(cpu()).expect("few runs");
        engine.carry_out(engine.stream(), &plan, &mut stores).expect("carried out");
        assert_eq!(engine.explain_last(), before);
        drop(stores);
        assert!(driver.report().violations.is_empty());
    });
}

#[test]
fn what_does_not_fit_the_layout_is_refused_by_its_name() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let plan_to = |device, to| {
            let mut layout = Layout::new();
            let storage = layout.storage("w", device, Bytes(8)).expect("a new name");
            layout.tensor("w", storage, View::contiguous(Dtype::U8, &[8]).expect("small")).expect("inside");
            layout.move_to(to).expect("few runs")
        };
        let refused = |plan: &MovePlan, store: Option<Store<'_>>| {
            let mut stores: BTreeMap<String, Store<'_>> =
                store.into_iter().map(|store| ("w".to_owned(), store)).collect();
            engine.carry_out(engine.stream(), plan, &mut stores).expect_err("refused")
        };
        let up = plan_to(cpu(), cuda(0));
        let (mut right, mut short) = ([1u8; 8], [1u8; 7]);
        let there = engine.upload(engine.stream(), &right).expect("up").share();
        let before = driver.report().ops;
        for (given, found) in [
            (None, "nothing of that name was given"),
            (Some(Store::Device(there)), "what was given for it is on the device"),
            (Some(Store::Host(&mut short)), "what was given for it has 7"),
        ] {
            let told = refused(&up, given).to_string();
            assert_eq!(told, format!("the plan has \"w\" with 8 bytes on cpu: {found}"));
        }
        let other = refused(&plan_to(cpu(), cuda(1)), Some(Store::Host(&mut right)));
        assert!(matches!(other, EngineError::OtherDevice { expected: 0, found: 1 }), "{other:?}");
        let mock = refused(&plan_to(cpu(), mock(0)), Some(Store::Host(&mut right)));
        assert_eq!(mock.to_string(), "a plan that names a pretended device");
        let mut outside = up.clone();
        outside.copies[0].shift = 1;
        let outside = refused(&outside, Some(Store::Host(&mut right)));
        assert_eq!(outside.to_string(), "a plan whose copy leaves its block");
        let mut nowhere = up.clone();
        nowhere.copies[0].allocation = 1;
        let nowhere = refused(&nowhere, Some(Store::Host(&mut right)));
        assert_eq!(nowhere.to_string(), "a plan whose copy goes nowhere");
        let mut larger = Layout::new();
        let [_, foreign] = ["a", "b"].map(|name| larger.storage(name, cpu(), Bytes(8)).expect("a new name"));
        let mut from_nothing = up.clone();
        from_nothing.copies[0].from = foreign;
        let from_nothing = refused(&from_nothing, Some(Store::Host(&mut right)));
        assert_eq!(from_nothing.to_string(), "a plan whose copy comes from no block of its layout");
        // What came from somewhere else may say what it likes of sizes.
        let mut vast = plan_to(cuda(0), cpu());
        vast.copies.clear();
        for bytes in [u64::MAX, i64::MAX.unsigned_abs(), 1 << 60] {
            vast.allocations[0].bytes = Bytes(bytes);
            let told = refused(&vast, None);
            let needed = usize::try_from(bytes).expect("64 bits");
            assert!(matches!(told, EngineError::OutOfHostMemory { needed: n } if n == needed), "{told:?}");
        }
        let mut itself = up.clone();
        let to = &mut itself.allocations[0];
        (to.name, to.device, to.is_there) = ("w".to_owned(), cpu(), true);
        let itself = refused(&itself, Some(Store::Host(&mut right)));
        assert_eq!(itself.to_string(), "a plan that copies a storage to itself");
        assert_eq!(driver.report().ops, before, "something was done before it was refused");
        // A copy of nothing may say what it likes of where it goes.
        let mut nothing = up.clone();
        let dims = vec![Dim { count: 0, stride: 1 }];
        nothing.copies[0].span = Span::strided(i64::MAX / 2, 1, dims).expect("no bytes");
        nothing.copies[0].shift = i64::MAX;
        let mut stores = BTreeMap::from([("w".to_owned(), Store::Host(&mut right))]);
        let moved = engine.carry_out(engine.stream(), &nothing, &mut stores).expect("nothing to do");
        assert!(matches!(&moved[..], [Moved::Device(slice)] if slice.len() == 8));
    });
}

/// Two storages that lie over each other, one of them copied to the other.
#[test]
fn bytes_are_not_copied_over_themselves() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let mut layout = Layout::new();
        let w = layout.storage("w", cuda(0), Bytes(8)).expect("a new name");
        layout.tensor("w", w, View::contiguous(Dtype::U8, &[8]).expect("small")).expect("inside");
        let mut plan = layout.deepcopy().expect("few runs");
        (plan.allocations[0].name, plan.allocations[0].is_there) = ("v".to_owned(), true);
        let block = engine.upload(engine.stream(), &bytes(32, 1)).expect("up").share();
        let part = |at: usize| Store::Device(block.part(at..at + 8).expect("inside"));
        for to in 0..=24 {
            let mut stores = BTreeMap::from([("w".to_owned(), part(12)), ("v".to_owned(), part(to))]);
            let done = engine.carry_out(engine.stream(), &plan, &mut stores);
            assert_eq!(done.is_err(), to.abs_diff(12) < 8, "{to}: {done:?}");
        }
    });
}
