//! Bytes of buffers with declared contents, and what moves them when.
//!
//! Memory without declared contents holds zeros; only what declared bytes can reach is stored. Bytes change hands so:
//!
//! | what | reads | writes |
//! |---|---|---|
//! | a copy by an engine | in address order while it runs | the same: halfway through, the first half is new |
//! | staging of a chunk | when the thread has staged it | when the engine moves it, in address order |
//! | a chunk on its way out | when the engine moves it, in address order | when the thread has taken it out |
//! | a kernel with a formula, a copy within a device, a copy by a host thread | when it begins | when it ends |
//! | a memset | - | when it ends |
//! | a thread's read or write | when it begins | when it begins |
//!
//! A kernel without a formula leaves bytes as they are. Of two engines that move the same bytes at the same time each comes to
//! each byte when its rate says; within a nanosecond the order of devices and engines counts.

use std::borrow::Cow;

use super::element::{self, Element};
use super::lowered::{NodeId, bytes_of};
use super::{Final, Reading, SimError, Wrong};
use crate::id::Id;
use crate::memory::{Dtype, Span};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort, sort_by_key};
use crate::program::{BufferId, Compute, Computes, Contents, Copy, Facts, Func, Op, Program, Region};

/// What all carried bytes may come to.
const LIMIT: u64 = 1 << 30;
/// Bytes that memsets may add to those.
const SET_LIMIT: u64 = 64 << 20;
/// Bytes that all writes to those may come to.
const SET_WORK: u64 = 1 << 34;
/// Of the contents that were written or expected last so many are kept, and so many bytes if they are more than one.
const KEPT: (usize, usize) = (4, 64 << 20);

/// Declared contents and the bytes they are, the last ones last: a loop writes and expects the same again and again.
pub(super) type Known = Vec<(Contents, Vec<u8>)>;

/// Bytes of blocks, and those in flight.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The bytes of each block that carries any; empty tables where no block does.
    pub(super) blocks: Vec<Option<Vec<u8>>>,
    /// What each engine moves, by the engine's number.
    pub(super) moving: BTreeMap<u32, Moving>,
    /// The time up to which engines have moved what they move, while some of them meet.
    pub(super) settled: i64,
    pub(super) meet: bool,
    /// Pieces of time in which that was looked at.
    pub(super) pieces: u32,
    /// Bytes that lie in a staging slot or between two hops, by node and part.
    pub(super) staged: BTreeMap<(NodeId, u32), Vec<u8>>,
    /// What work that has begun will write, by node.
    pub(super) results: BTreeMap<NodeId, Vec<u8>>,
    /// What host threads are copying.
    pub(super) held: BTreeMap<u32, Vec<u8>>,
    /// Contents that were written or expected last, with their bytes.
    pub(super) known: Known,
    pub(super) reads: Vec<Reading>,
}

/// A copy that an engine is at.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) node: NodeId,
    pub(super) part: u32,
    /// Where in the whole copy its bytes begin, and how many there are.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Bytes that have been moved.
    pub(super) done: u64,
    pub(super) from: Place,
    pub(super) to: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The copy's own source or destination.
    Region,
    /// A staging slot.
    Staged,
}

impl Values {
    /// Gives declared contents to the blocks that carry bytes.
    pub(super) fn new(program: &Program, facts: &Facts, carried: &Carried) -> Values {
        if carried.blocks.is_empty() {
            return Values::default();
        }
        let zeros = |k: usize| carried.blocks[k].then(|| vec![0; length(block_bytes(facts, k))]);
        let mut values =
            Values { blocks: (0..carried.blocks.len()).map(zeros).collect_vec(), ..Values::default() };
        for command in program.commands() {
            if let Op::Alloc(alloc) = &command.op
                && let (Some(contents), None) = (&alloc.contents, alloc.reuse)
            {
                values.put(alloc.buffer.index(), &alloc.buffer.range(0, alloc.bytes).span, contents);
            }
        }
        values
    }

    pub(super) fn is_on(&self) -> bool {
        !self.blocks.is_empty()
    }

    pub(super) fn put(&mut self, block: usize, span: &Span, contents: &Contents) {
        let Some(out) = &mut self.blocks[block] else { return };
        write(out, span, 0, known(&mut self.known, contents, span, length(bytes_of(span))));
    }

    /// `n` bytes of a region from its byte `offset` on, counted in the order of its elements.
    pub(super) fn read<'v>(&'v self, block: usize, span: &Span, offset: u64, n: u64) -> Cow<'v, [u8]> {
        match &self.blocks[block] {
            None => Cow::Owned(vec![0; length(n)]),
            Some(bytes) if span.is_range() => {
                let mut piece = &bytes[..0];
                runs(span, offset, n, |at, len, _| piece = &bytes[at..at + len]);
                Cow::Borrowed(piece)
            }
            Some(bytes) => {
                let mut out = Vec::with_capacity(length(n));
                runs(span, offset, n, |at, len, _| out.extend_from_slice(&bytes[at..at + len]));
                Cow::Owned(out)
            }
        }
    }

    pub(super) fn write(&mut self, block: usize, span: &Span, offset: u64, new: &[u8]) {
        if let Some(bytes) = &mut self.blocks[block] {
            write(bytes, span, offset, new);
        }
    }

    /// Sets every byte of a region.
    pub(super) fn fill(&mut self, block: usize, span: &Span, value: u8) {
        if let Some(bytes) = &mut self.blocks[block] {
            runs(span, 0, bytes_of(span), |at, len, _| bytes[at..at + len].fill(value));
        }
    }

    /// Writes `n` bytes of a region of one block, from its byte `offset` on, to the same place of a region of another.
    pub(super) fn carry(&mut self, from: (usize, &Span), to: (usize, &Span), offset: u64, n: u64) {
        if from.0 == to.0 {
            let bytes = self.read(from.0, from.1, offset, n).into_owned();
            return self.write(to.0, to.1, offset, &bytes);
        }
        // Out of the list meanwhile, so that what lies in another one need not be copied first.
        let Some(mut out) = self.blocks[to.0].take() else { return };
        write(&mut out, to.1, offset, &self.read(from.0, from.1, offset, n));
        self.blocks[to.0] = Some(out);
    }

    /// The bytes at the end, of every buffer that still has its block.
    pub(super) fn finals(mut self, program: &Program, facts: &Facts) -> (Vec<Reading>, Vec<Final>) {
        if !self.is_on() {
            return (self.reads, Vec::new());
        }
        let mut owner = BTreeMap::new();
        for command in program.commands() {
            if let Op::Alloc(alloc) = &command.op {
                owner.insert(facts.buffer(alloc.buffer).block.index(), alloc.buffer);
            }
        }
        let mut finals = Vec::new();
        for (block, buffer) in owner {
            if let Some(bytes) = self.blocks.get_mut(block).and_then(Option::take) {
                finals.push(Final { buffer, bytes });
            }
        }
        sort_by_key(&mut finals, |f| f.buffer);
        (self.reads, finals)
    }
}

/// Writes bytes to a region of a block, from its byte `offset` on.
fn write(block: &mut [u8], span: &Span, offset: u64, new: &[u8]) {
    runs(span, offset, new.len() as u64, |at, len, done| {
        block[at..at + len].copy_from_slice(&new[done..done + len]);
    });
}

/// The whole elements in `n` bytes of contents declared for a region.
pub(super) fn known<'k>(known: &'k mut Known, contents: &Contents, span: &Span, n: usize) -> &'k [u8] {
    let n = element::whole(contents, n);
    // Bytes of a seed depend on where they lie.
    let is_seed = matches!(contents, Contents::Seed(_));
    match known.iter().position(|(of, bytes)| !is_seed && of == contents && bytes.len() == n) {
        Some(at) => known[at..].rotate_left(1),
        None => {
            let is_too_much = |known: &Known| {
                known.len() == KEPT.0
                    || KEPT.1 < known.iter().fold(n, |all, (_, bytes)| all.saturating_add(bytes.len()))
            };
            while !known.is_empty() && is_too_much(known) {
                known.remove(0);
            }
            let at = span.bounds().map_or(0, |(lo, _)| lo.max(0).unsigned_abs());
            known.push((contents.clone(), element::bytes_of(contents, at, n)));
        }
    }
    known.last().map_or(&[], |(_, bytes)| bytes)
}

/// Which blocks carry bytes: those that declared bytes can reach.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// By block; empty where none does.
    blocks: Vec<bool>,
}

impl Carried {
    pub(super) fn new(program: &Program, facts: &Facts, knows: &dyn Computes) -> Result<Carried, SimError> {
        let blocks = carried(program, facts, &[], knows);
        if !blocks.contains(&true) {
            return Ok(Carried::default());
        }
        let bytes = (0..blocks.len()).filter(|&k| blocks[k]).map(|k| block_bytes(facts, k));
        let total = bytes.fold(0u64, u64::saturating_add);
        if total > LIMIT {
            return Err(SimError::TooManyBytes { bytes: total, limit: LIMIT });
        }
        // A strided region may count the same bytes many times over.
        for (index, command) in program.commands().iter().enumerate() {
            let (reads, writes) = command.op.regions();
            for region in reads.iter().chain(writes) {
                let bytes = bytes_of(&region.span);
                if blocks[facts.buffer(region.buffer).block.index()] && bytes > LIMIT {
                    return Err(SimError::TooManyBytesAt {
                        index,
                        line: program.line(index),
                        bytes,
                        limit: LIMIT,
                    });
                }
            }
        }
        Ok(Carried { blocks })
    }
}

fn block_bytes(facts: &Facts, block: usize) -> u64 {
    facts.buffer(BufferId::try_from(block).unwrap_or(Id::FIRST)).block_bytes.unsigned_abs()
}

/// Calls `f` for every run of bytes that `[offset, offset + n)` of a span's bytes consists of: where it lies in its
/// block, how long it is, and how many bytes came before it. The last dimension runs fastest.
fn runs(span: &Span, offset: u64, n: u64, mut f: impl FnMut(usize, usize, usize)) {
    let elem = span.elem().unsigned_abs();
    if elem == 0 || n == 0 {
        return;
    }
    let mut index = offset / elem;
    let mut within = offset % elem;
    let mut done = 0;
    while done < n {
        let len = (elem - within).min(n - done);
        let at = element_at(span, index) + i128::from(within);
        let place = usize::try_from(at).unwrap_or_else(|_| unreachable!("bug: a span outside its block"));
        let (len_here, done_here) = (length(len), length(done));
        f(place, len_here, done_here);
        done += len;
        index += 1;
        within = 0;
    }
}

/// Where in its block an element of a span lies.
fn element_at(span: &Span, index: u64) -> i128 {
    let (mut rest, mut at) = (index, i128::from(span.off()));
    for d in span.dims().iter().rev() {
        let count = d.count.unsigned_abs();
        at += i128::from(rest % count) * i128::from(d.stride);
        rest /= count;
    }
    at
}

/// Where in its block a byte of a span lies that has any.
pub(super) fn byte_at(span: &Span, n: u64) -> i128 {
    let elem = span.elem().unsigned_abs();
    element_at(span, n / elem) + i128::from(n % elem)
}

/// The blocks that declared and given bytes can reach; small ones that memsets write, too.
pub(super) fn carried(
    program: &Program,
    facts: &Facts,
    given: &[BufferId],
    knows: &dyn Computes,
) -> Vec<bool> {
    let block = |r: &Region| facts.buffer(r.buffer).block.index();
    let declares = |op: &Op| match op {
        Op::Alloc(a) => a.contents.is_some().then(|| facts.buffer(a.buffer).block.index()),
        Op::HostWrite { region, contents: Some(_) } => Some(block(region)),
        op => match (formula(op)?.func, op.regions().1) {
            (Func::Fill(_), [first, ..]) => Some(block(first)),
            _ => None,
        },
    };
    let mut declared: Vec<usize> = program.commands().iter().filter_map(|c| declares(&c.op)).collect_vec();
    declared.extend(given.iter().map(|&b| facts.buffer(b).block.index()));
    let set = set_blocks(program, facts, knows);
    if declared.is_empty() && set.is_empty() {
        return Vec::new();
    }
    let flows = flows(program, facts, knows);
    let n_blocks = program.names().n_buffers();
    let carried = reached(declared.clone(), &flows, n_blocks);
    if set.is_empty() {
        return carried;
    }
    declared.extend(set);
    let with_set = reached(declared, &flows, n_blocks);
    let bytes = |blocks: &[bool]| {
        let each = (0..n_blocks).filter(|&k| blocks[k]).map(|k| block_bytes(facts, k));
        each.fold(0u64, u64::saturating_add)
    };
    let (few, all) = (bytes(&carried), bytes(&with_set));
    let is_set = |block: usize| with_set[block] && !carried[block];
    let is_small = all - few <= SET_LIMIT && all <= LIMIT && written(program, facts, &is_set) <= SET_WORK;
    match (is_small, few) {
        (true, _) => with_set,
        (false, 0) => Vec::new(),
        (false, _) => carried,
    }
}

/// Bytes that commands write to these blocks, as often as they run.
fn written(program: &Program, facts: &Facts, counts: &dyn Fn(usize) -> bool) -> u64 {
    let (mut sum, mut above) = (0u64, Vec::with_capacity(program.len()));
    for command in program.commands() {
        above.push(sum);
        sum = sum.saturating_add(match &command.op {
            Op::GraphLaunch { graph, .. } => {
                let graph = facts.graph(*graph);
                above[graph.ended_at] - above[graph.begun_at]
            }
            op => {
                let regions = op.regions().1.iter().filter(|r| counts(facts.buffer(r.buffer).block.index()));
                regions.map(|r| bytes_of(&r.span)).fold(0, u64::saturating_add)
            }
        });
    }
    sum
}

/// The blocks that memsets write, or formulas that make something of zeros, and no kernel of which nobody knows what it writes.
fn set_blocks(program: &Program, facts: &Facts, knows: &dyn Computes) -> BTreeSet<usize> {
    let block = |r: &Region| facts.buffer(r.buffer).block.index();
    let mut set = BTreeSet::new();
    for command in program.commands() {
        match &command.op {
            Op::Memset { dst, .. } => _ = set.insert(block(dst)),
            op => {
                let written = op.regions().1.first().filter(|_| formula(op).is_some_and(is_more_than_zeros));
                written.iter().for_each(|region| _ = set.insert(block(region)));
            }
        }
    }
    for (index, command) in program.commands().iter().enumerate() {
        let is_work = matches!(command.op, Op::Kernel(_) | Op::HostFn { .. });
        if !set.is_empty() && is_work && formula(&command.op).is_none() && !knows.computes(index) {
            command.op.regions().1.iter().for_each(|r| _ = set.remove(&block(r)));
        }
    }
    set
}

/// From which block to which other bytes go, in order.
fn flows(program: &Program, facts: &Facts, knows: &dyn Computes) -> Vec<(usize, usize)> {
    let block = |r: &Region| facts.buffer(r.buffer).block.index();
    let mut flows: Vec<(usize, usize)> = Vec::new();
    for (index, command) in program.commands().iter().enumerate() {
        match &command.op {
            Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } => {
                flows.push((block(src), block(dst)))
            }
            op => {
                let computes = formula(op).is_some() || knows.computes(index);
                if let (true, (reads, [first, ..])) = (computes, op.regions()) {
                    flows.extend(reads.iter().map(|r| (block(r), block(first))));
                }
            }
        }
    }
    sort(&mut flows);
    flows.dedup();
    flows
}

/// The blocks that bytes get to from those in `from`.
fn reached(mut from: Vec<usize>, flows: &[(usize, usize)], n_blocks: usize) -> Vec<bool> {
    let mut reached = vec![false; n_blocks];
    while let Some(block) = from.pop() {
        if !std::mem::replace(&mut reached[block], true) {
            let first = flows.partition_point(|&(from, _)| from < block);
            from.extend(flows[first..].iter().take_while(|f| f.0 == block).map(|f| f.1));
        }
    }
    reached
}

/// Whether a formula makes anything but zeros of zeros: `y = 3 a + 1` does.
fn is_more_than_zeros(compute: Compute) -> bool {
    // More than an element of any type.
    let zeros = vec![0; 64];
    let n = zeros.len() as u64;
    compute.apply(&[zeros.clone(), zeros.clone(), zeros], n).iter().any(|byte| *byte != 0)
}

pub(super) fn formula(op: &Op) -> Option<Compute> {
    match op {
        Op::Kernel(kernel) => kernel.compute,
        Op::HostFn { compute, .. } => *compute,
        _ => None,
    }
}

/// A number of carried bytes as a length; all of them together are far below the limit of any machine.
pub(super) fn length(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// How many elements there are, how many differ, and the first that does.
pub(super) fn differences(dtype: Dtype, read: &[u8], expected: &[u8]) -> (u64, u64, Option<Wrong>) {
    let size = usize::try_from(dtype.bytes()).unwrap_or(1);
    let n_elements = expected.len() / size;
    if read.starts_with(expected) {
        return (n_elements as u64, 0, None);
    }
    let (mut n_wrong, mut first_wrong) = (0, None);
    for (k, (is, should)) in read.chunks_exact(size).zip(expected.chunks_exact(size)).enumerate() {
        // Zeros of both signs are equal.
        if is == should || Element::decode(dtype, is) == Element::decode(dtype, should) {
            continue;
        }
        n_wrong += 1;
        if first_wrong.is_none() {
            let show = |bytes| Element::decode(dtype, bytes).to_string();
            first_wrong = Some(Wrong { index: k as u64, expected: show(should), read: show(is) });
        }
    }
    (n_elements as u64, n_wrong, first_wrong)
}

/// The bytes that a formula makes of its operands, at most `n`.
pub(super) fn compute_bytes(compute: Compute, operands: &[Vec<u8>], n: u64) -> Vec<u8> {
    let Compute { dtype, func } = compute;
    let size = usize::try_from(dtype.bytes()).unwrap_or(1);
    let wanted = match func {
        Func::Dot => return dot(dtype, operands, n),
        Func::Multiple { factor } => return multiple(dtype, factor, operands, n),
        Func::Fill(_) => 0,
        Func::Affine { .. } | Func::Sqrt | Func::Shrink { .. } => 1,
        Func::Mul { .. } | Func::Add | Func::Divide | Func::Where { .. } | Func::Guard { .. } => 2,
    };
    // Where `b` is not given it is `a`: a kernel that squares reads its operand once.
    let operand = |k: usize| operands.get(k).or(operands.first()).map_or(&[] as &[u8], Vec::as_slice);
    let longest = length(n) / size;
    let n_elements = (0..wanted).fold(longest, |n, k| n.min(operand(k).len() / size));
    let at = |k: usize, i: usize| match k < wanted {
        true => Element::decode(dtype, &operand(k)[i * size..(i + 1) * size]),
        false => Element::Float(0.0),
    };
    let mut out = Vec::with_capacity(n_elements * size);
    (0..n_elements).for_each(|i| element::apply(func, at(0, i), at(1, i)).encode(dtype, &mut out));
    out
}

/// Elements of an operand, as many as are whole.
fn elements(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = Element> {
    let size = usize::try_from(dtype.bytes()).unwrap_or(1);
    bytes.chunks_exact(size).map(move |element| Element::decode(dtype, element))
}

/// `Re sum conj(a_i) b_i` as one `f64`, where there is room for it.
fn dot(dtype: Dtype, operands: &[Vec<u8>], n: u64) -> Vec<u8> {
    let Some(a) = operands.first().filter(|_| 8 <= n) else { return Vec::new() };
    let b = operands.get(1).unwrap_or(a);
    let pairs = elements(dtype, a).zip(elements(dtype, b));
    let sum: f64 = pairs.fold(0.0, |sum, (a, b)| {
        let ((a, ai), (b, bi)) = (a.parts(), b.parts());
        sum + (a * b + ai * bi)
    });
    sum.to_le_bytes().to_vec()
}

/// `factor a b + c`, with one `f64` as `a`.
fn multiple(dtype: Dtype, factor: f64, operands: &[Vec<u8>], n: u64) -> Vec<u8> {
    let [a, b, rest @ ..] = operands else { return Vec::new() };
    let Some(Element::Float(a)) = elements(Dtype::F64, a).next() else { return Vec::new() };
    let by = if a.is_finite() { factor * a } else { 0.0 };
    let mut out = Vec::new();
    let wanted = length(n) / usize::try_from(dtype.bytes()).unwrap_or(1);
    let mut put = |b: Element, c: (f64, f64)| {
        let (re, im) = b.parts();
        let (re, im) = if by == 0.0 { c } else { (by * re + c.0, by * im + c.1) };
        Element::Complex(re, im).encode(dtype, &mut out);
    };
    match rest.first() {
        None => elements(dtype, b).take(wanted).for_each(|b| put(b, (0.0, 0.0))),
        Some(c) => {
            let pairs = elements(dtype, b).zip(elements(dtype, c));
            pairs.take(wanted).for_each(|(b, c)| put(b, c.parts()));
        }
    }
    out
}
