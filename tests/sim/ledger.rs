//! What the ledger says against sums over the slices of the trace, and over the commands of the program.

use std::collections::{BTreeMap, BTreeSet};

use spanlift::machine::Machine;
use spanlift::program::{Copy, Op, Program, Region, Space};
use spanlift::sim::{self, Ledger, Run};
use spanlift::trace::{Engine, Kind, LaneKind};
use spanlift::{Bytes, Nanos};
use spanlift_native::programs;

use crate::extension::random_program;

/// Bytes by hop as the lanes of hosts and engines show them.
fn on_lanes(run: &Run, machine: &Machine) -> Ledger {
    let program = run.trace.program.as_ref().expect("a simulated run has its program");
    let facts = program.check().expect("it ran");
    let is_host = |space| matches!(space, Space::Pinned | Space::Pageable);
    let mut sums = Ledger::default();
    let mut half_way = BTreeSet::new();
    for slice in run.trace.slices.iter() {
        let engine = match run.trace.lanes[slice.lane as usize].kind {
            LaneKind::Engine { engine, .. } => Some(engine),
            LaneKind::Host => None,
            LaneKind::Stream { .. } | LaneKind::Other => continue,
        };
        let place = match (slice.kind, engine) {
            (Kind::HostCopy, None) => match &program.commands()[slice.command as usize].op {
                Op::Copy(Copy { src, dst, .. })
                    if !is_host(facts.buffer(src.buffer).space)
                        || !is_host(facts.buffer(dst.buffer).space) =>
                {
                    &mut sums.staging
                }
                _ => &mut sums.within_host,
            },
            (Kind::ToDevice, Some(_)) => &mut sums.to_device,
            (Kind::ToHost, Some(_)) => &mut sums.to_host,
            (Kind::WithinDevice, Some(Engine::Compute)) => &mut sums.within_device,
            (Kind::Peer, Some(_)) if machine.p2p_bw.0 > 0 => &mut sums.peer,
            // The first hop of two ends at the host.
            (Kind::Peer, Some(_)) if half_way.insert(slice.correlation) => &mut sums.to_host,
            (Kind::Peer, Some(_)) => &mut sums.to_device,
            _ => continue,
        };
        place.0 += slice.bytes;
    }
    sums
}

/// Bytes that copies and kernels bring to another place, each once. Managed memory is followed in pieces of 1000 bytes,
/// of which every region of these programs consists.
fn payload(program: &Program) -> Bytes {
    let facts = program.check().expect("well formed");
    let space = |buffer| facts.buffer(buffer).space;
    let place = |buffer| {
        let is_device = matches!(space(buffer), Space::Device | Space::Managed);
        is_device.then_some(facts.buffer(buffer).dev)
    };
    // Pieces by block and number: whether they lie with the host or with a device, once anybody touched them.
    let mut with_host: BTreeMap<(usize, i64), bool> = BTreeMap::new();
    let mut sum = 0u64;
    let mut touch = |region: &Region, host: bool, moves: bool| {
        let (lo, hi) = region.span.bounds().unwrap_or((0, 0));
        let mut moved = 0;
        for piece in lo / 1000..hi / 1000 {
            let before = with_host.insert((facts.buffer(region.buffer).block.index(), piece), host);
            moved += if before == Some(!host) && moves { 1000 } else { 0 };
        }
        moved
    };
    for command in program.commands() {
        let (reads, writes) = command.op.regions();
        match &command.op {
            Op::Copy(copy) => {
                if place(copy.src.buffer) != place(copy.dst.buffer) {
                    sum += copy.src.span.iter_bytes().min(copy.dst.span.iter_bytes());
                }
                // Within a device managed memory is read as by a kernel.
                let is_within =
                    place(copy.src.buffer).is_some() && place(copy.src.buffer) == place(copy.dst.buffer);
                if is_within && space(copy.src.buffer) == Space::Managed {
                    sum += touch(&copy.src, false, true);
                }
                if space(copy.dst.buffer) == Space::Managed {
                    touch(&copy.dst, false, false);
                }
            }
            Op::Kernel(_) | Op::Memset { .. } => {
                for region in reads.iter().chain(writes) {
                    sum += match space(region.buffer) {
                        Space::Pinned | Space::Pageable => region.span.iter_bytes(),
                        Space::Managed => touch(region, false, true),
                        Space::Device => 0,
                    };
                }
            }
            Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => {
                for region in reads.iter().chain(writes).filter(|r| space(r.buffer) == Space::Managed) {
                    sum += touch(region, true, true);
                }
            }
            _ => {}
        }
    }
    Bytes(sum)
}

trait CountBytes {
    fn iter_bytes(&self) -> u64;
}

impl CountBytes for spanlift::memory::Span {
    /// By counting index tuples, not by a product.
    fn iter_bytes(&self) -> u64 {
        let mut n = self.elem();
        for d in self.dims() {
            n = (0..d.count).map(|_| n).sum();
        }
        n.unsigned_abs()
    }
}

#[track_caller]
fn check(program: &Program, machine: &Machine, what: &str) {
    let run = sim::run(program, machine).unwrap_or_else(|e| panic!("{what}: {e}"));
    let Ledger { payload: asked, .. } = run.ledger;
    assert_eq!(Ledger { payload: asked, ..on_lanes(&run, machine) }, run.ledger, "{what}");
    assert_eq!(asked, payload(program), "{what}: payload");
    assert_eq!(sim::ledger(program, machine).as_ref(), Ok(&run.ledger), "{what}: without a run");
}

#[test]
fn ledgers_of_random_programs_are_what_their_lanes_show() {
    for seed in 0..100u64 {
        let program = random_program(1_000 + seed, 40);
        let name = Machine::names().nth(usize::try_from(seed % 8).expect("below 8")).expect("eight profiles");
        let mut machine = Machine::builtin(name).expect(name);
        machine.copy_engines = 1 + u32::try_from(seed % 3).expect("small");
        check(&program, &machine, &format!("seed {seed} on {name}"));
    }
}

#[test]
fn ledgers_of_shipped_programs_are_what_their_lanes_show() {
    // Each on one of the machines in turn; runs of thousands of commands are slow enough without optimisation.
    for (shipped, name) in programs::all().zip(Machine::names().collect::<Vec<_>>().into_iter().cycle()) {
        let machine = Machine::builtin(name).expect(name);
        check(&shipped.program(), &machine, &format!("{} on {name}", shipped.name));
    }
}

/// A ledger that forgets a hop is noticed.
#[test]
fn a_missing_hop_is_noticed() {
    let program =
        Program::from_text("stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s").expect("read");
    let machine = Machine::default();
    let mut run = sim::run(&program, &machine).expect("it runs");
    let staged = (0..run.trace.slices.len()).find(|&k| run.trace.slices.kind[k] == Kind::HostCopy);
    run.trace.slices.bytes[staged.expect("it is staged")] = 0;
    assert_ne!(on_lanes(&run, &machine).staging, run.ledger.staging);
    assert!(Nanos::ZERO < run.end);
}
