//! The kernel that copies a list: its source and its PTX move the bytes that a loop over them moves, and touch no others.

use spanlift_softcuda::Interpreted;

use crate::kernel::{built, kernels, ran};
use crate::programs::Rng;

/// Bytes of an entry of the list: destination, source, bytes, and a word that nothing is in.
const ENTRY: usize = 32;

/// A list over a block of bytes, with places that count from the block's begin.
struct Case {
    label: String,
    /// Where the block begins within 16 bytes.
    at: usize,
    /// Destination, source, bytes.
    pieces: Vec<[usize; 3]>,
    block: Vec<u8>,
}

impl Case {
    /// The block as a loop over bytes leaves it.
    fn expected(&self) -> Vec<u8> {
        let mut block = self.block.clone();
        for [to, from, n] in &self.pieces {
            (0..*n).for_each(|k| block[to + k] = self.block[from + k]);
        }
        block
    }

    #[track_caller]
    fn holds(&self, found: &[u8]) {
        let expected = self.expected();
        let wrong = expected.iter().zip(found).position(|(a, b)| a != b);
        assert_eq!((wrong, found.len()), (None, expected.len()), "{}, of {:?}", self.label, self.pieces);
    }

    /// Entries with addresses in a block at `base`.
    fn entries(&self, base: u64) -> Vec<u8> {
        let entry = |[to, from, n]: &[usize; 3]| [base + *to as u64, base + *from as u64, *n as u64, 0];
        self.pieces.iter().flat_map(entry).flat_map(u64::to_le_bytes).collect()
    }
}

/// The first place from `at` on that lies so far within 16 bytes.
fn aligned(at: usize, within: usize) -> usize {
    at + (within + 16 - at % 16) % 16
}

fn noise(rng: &mut Rng, n: usize) -> Vec<u8> {
    (0..n).map(|_| rng.next().to_le_bytes()[0]).collect()
}

/// Pieces of these sizes, destinations and sources each so far within 16 bytes; a byte between them at least.
fn alike(sizes: &[usize], to: usize, from: usize, rng: &mut Rng) -> Case {
    let (mut end, mut pieces) = (0, Vec::new());
    for &n in sizes {
        let at = aligned(end + 1, to);
        let source = aligned(at + n + 1, from);
        pieces.push([at, source, n]);
        end = source + n;
    }
    let label = format!("to {to}, from {from} within 16");
    Case { label, at: 0, pieces, block: noise(rng, end + 1) }
}

/// Pieces of any size at any place: sources in the first half of the block, where they meet one another; destinations apart in
/// the other, in any order.
fn drawn(rng: &mut Rng, round: usize) -> Case {
    let draw = |rng: &mut Rng, n: i64| usize::try_from(rng.below(n)).unwrap();
    let at = draw(rng, 16);
    let n_pieces = draw(rng, 40);
    let most = rng.of(&[2, 20, 200, 6000]);
    let sizes: Vec<usize> = (0..n_pieces).map(|_| draw(rng, most)).collect();
    let half = 1 + draw(rng, 7000) + sizes.iter().max().copied().unwrap_or(0);
    let (mut end, mut pieces) = (half, Vec::new());
    for n in sizes {
        end += rng.of(&[0, 0, 1, 3, 16]);
        pieces.push([end, draw(rng, (half - n) as i64 + 1), n]);
        end += n;
    }
    for k in (1..pieces.len()).rev() {
        pieces.swap(k, draw(rng, k as i64 + 1));
    }
    Case { label: format!("round {round}"), at, pieces, block: noise(rng, end + 5) }
}

/// Every alignment of both ends with each of these sizes, and so many drawn lists.
fn cases(seed: u64, sizes: &[usize], n_drawn: usize) -> Vec<Case> {
    let mut rng = Rng(seed);
    let mut all = Vec::new();
    for to in 0..16 {
        (0..16).for_each(|from| all.push(alike(sizes, to, from, &mut rng)));
    }
    (0..n_drawn).for_each(|round| all.push(drawn(&mut rng, round)));
    all
}

#[test]
fn the_source_copies_as_a_loop_does() {
    let Some(program) = built("list") else { return };
    let sizes: Vec<usize> = (0..=200).chain([511, 512, 2047, 2048, 2049, 4000, 4096, 5003]).collect();
    let cases = cases(1, &sizes, 500);
    let mut input = Vec::new();
    for case in &cases {
        let head = [case.pieces.len(), case.block.len(), case.at].map(|n| n as u64);
        input.extend(head.into_iter().flat_map(u64::to_le_bytes));
        input.extend(case.entries(0));
        input.extend(&case.block);
    }
    let output = ran(&program, input);
    let mut rest = &output[..];
    for case in &cases {
        let (block, after) = rest.split_at(case.block.len());
        case.holds(block);
        rest = after;
    }
    assert!(rest.is_empty());
}

/// The PTX that ships, with more warps than pieces and with fewer.
#[test]
fn the_ptx_copies_as_a_loop_does() {
    const BASE: u64 = 0x7_0000;
    let ptx = std::fs::read_to_string(kernels().join("list.ptx")).unwrap();
    let ptx = Interpreted::read(&ptx).unwrap();
    let sizes: Vec<usize> = (0..=200).chain([511, 2049, 5003]).collect();
    for (k, case) in cases(2, &sizes, 60).into_iter().enumerate() {
        // The list lies in front of the block.
        let room = (case.pieces.len() * ENTRY).next_multiple_of(16) + case.at;
        let mut memory = case.entries(BASE + room as u64);
        memory.resize(room, 0);
        memory.extend(&case.block);
        let args: Vec<u8> = [BASE, case.pieces.len() as u64].into_iter().flat_map(u64::to_le_bytes).collect();
        let shape = [[1, 32], [3, 64], [2, 256]][k % 3];
        ptx.run("spanlift_list", shape, &args, (BASE, &mut memory)).unwrap();
        case.holds(&memory[room..]);
    }
}
