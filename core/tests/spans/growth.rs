//! Memory maps of many tensors: what is asked of each against all others never ends.

use spanlift::Bytes;
use spanlift::memory::{
    Block, Dtype, Layout, MapError, MemoryMap, Module, TensorRef, TensorView, View, Visitor, cpu, cuda,
};

const N: i64 = 100_000;

struct One(TensorView);

impl Module for One {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        visitor.buffer("t", &self.0);
    }
}

#[test]
fn blocks_that_are_called_alike_are_numbered_one_after_the_other() {
    let block = || Block::new("w", cpu(), Bytes(4)).tensor(Dtype::F32, &[1]).unwrap();
    let all: Vec<One> = (0..N).map(|_| One(block())).collect();
    let layout = Layout::of(&all).unwrap();
    let ids = |layout: &Layout| [0, 1, 99_999].map(|k: usize| layout.storages()[k].id.clone());
    assert_eq!(ids(&layout), ["w", "w#2", "w#100000"]);
    let mut map = MemoryMap::new();
    map.register("first", &Block::new("w#2", cpu(), Bytes(4)).tensor(Dtype::F32, &[1]).unwrap()).unwrap();
    assert_eq!(map.register_module(&all).unwrap(), all.len());
    // One of the names is taken.
    assert_eq!(ids(&map.layout()), ["w#2", "w", "w#100000"]);
}

/// Eight of every sixteen elements of one block, and later four of them with the four behind.
#[test]
fn tensors_of_one_storage_are_found_by_their_bytes_and_names() {
    let block = Block::new("w", cpu(), Bytes(64 * N.unsigned_abs()));
    let view = |k: i64, first| {
        let offset = 16 * k + first;
        block.view(View { dtype: Dtype::F32, shape: vec![8], strides: vec![1], offset })
    };
    let mut map = MemoryMap::new();
    for k in 0..N {
        map.register(&format!("m{k}.t"), &view(k, 0)).unwrap();
    }
    let moves = |map: &mut MemoryMap, some: Option<&[String]>, to| {
        let plan = match some {
            Some(some) => map.move_only(some, to).unwrap(),
            None => map.move_to(to).unwrap(),
        };
        map.apply(&plan).unwrap();
        (plan.allocations.len(), plan.bytes_copied())
    };
    let half: Vec<String> = (0..N).step_by(2).map(|k| format!("m{k}")).collect();
    assert_eq!(moves(&mut map, Some(&half), cuda(0)), (50_000, 50_000 * 32));
    assert_eq!(moves(&mut map, None, cuda(0)), (50_000, 50_000 * 32));
    for k in 0..N {
        map.register(&format!("late{k}"), &view(k, 4)).unwrap();
    }
    // Each makes its old block of 32 bytes one of 48.
    assert_eq!(moves(&mut map, None, cuda(0)), (100_000, 100_000 * (32 + 16)));
    assert_eq!(moves(&mut map, None, cpu()), (1, 100_000 * 48));
    assert_eq!(map.move_only(["m"], cuda(0)).unwrap_err(), MapError::Unknown("m".to_owned()));
    assert_eq!(map.move_only(["m1.t"], cuda(0)).unwrap().tensors.len(), 1);
}

#[test]
fn copies_that_are_there_are_found_by_their_bytes() {
    let block = |device| Block::new("", device, Bytes(64 * N.unsigned_abs()));
    let (here, there) = (block(cpu()), block(cuda(0)));
    let mut map = MemoryMap::new();
    for k in 0..2 * N {
        // Each of them twice.
        let view = View { dtype: Dtype::F32, shape: vec![8], strides: vec![1], offset: 16 * (k % N) };
        let name = format!("t{}", k % N);
        map.register_copy(&name, &here.view(view.clone()), &there.view(view)).unwrap();
    }
    let plan = map.move_to(cuda(0)).unwrap();
    assert_eq!((plan.allocations.len(), plan.copies.len(), plan.tensors.len()), (1, 0, 100_000));
}

/// A name that is known, with a view that lies as far away as numbers go.
#[test]
fn a_view_at_the_end_of_numbers_is_refused() {
    let data = [0.0f64; 4];
    let mut map = MemoryMap::new();
    map.register("x", &data).unwrap();
    for offset in [i64::MAX, i64::MIN, i64::MAX / 8] {
        let view = View { dtype: Dtype::F64, shape: vec![1], strides: vec![1], offset };
        let told = map.register("x", &TensorRef::within(&data, view)).unwrap_err().to_string();
        assert!(told.contains("duplicate name"), "{told}");
    }
    assert_eq!(map.layout().tensors().len(), 1);
}
