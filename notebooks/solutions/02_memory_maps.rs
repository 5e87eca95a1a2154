//! Lesson 2. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c07: right:
let fifth = matrix.step(1, 5)?;
let guess = (0, 255);
check_span(&fifth, guess)

// cell c21: right:
let map = MemoryMap::of(&model)?;
let some = map.move_only(["attention.key", "attention.value"], cuda(0))?;
let guess = (1, 32768);
check_allocations(&some, guess)

// cell c28: right:
let weight = Block::new("weight", cpu(), mib(1)).tensor(Dtype::F32, &[1024, 256])?;
let a = weight.narrow(0, 0, 600)?;
let b = weight.narrow(0, 600, 424)?;

let mut tiles = MemoryMap::new();
tiles.register("a", &a)?;
tiles.register("b", &b)?;
check_tiles(&tiles.layout())
