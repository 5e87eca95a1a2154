//! Lesson 2. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c07: right
let fifth = matrix.step(1, 5)?;
let guess = (0, 255);
println!("shape {:?}, strides {:?}", fifth.view().shape, fifth.view().strides);
println!("{}", if fifth.memory_span()? == Some(guess) { "right" } else { "not yet" });

// cell c21: right
let map = MemoryMap::of(&model)?;
let some = map.move_only(["attention.key", "attention.value"], cuda(0))?;
let guess = (1, 32768);
println!("{}", if guess == (some.allocations.len(), some.bytes_copied()) { "right" } else { "not yet" });

// cell c28: right
let weight = Block::new("weight", cpu(), mib(1)).tensor(Dtype::F32, &[1024, 256])?;
let a = weight.narrow(0, 0, 600)?;
let b = weight.narrow(0, 600, 424)?;

let mut tiles = MemoryMap::new();
tiles.register("a", &a)?;
tiles.register("b", &b)?;
let report = tiles.layout().report()?;
let (listed, unique) = report.devices.values().fold((0, 0), |n, d| (n.0 + d.listed_bytes, n.1 + d.unique_bytes));
println!("{}", match (unique == 1 << 20, listed == unique) {
    (true, true) => "right".to_owned(),
    (false, _) => format!("not yet: {} bytes of the weight belong to no tile", (1 << 20) - unique),
    (true, false) => format!("not yet: {} bytes would be copied twice", listed - unique),
});
