//! Kernels: what PTX computes, what is refused, and what the checker says of their memory.

use super::lab::{Handle, Lab};
use crate::code::Code;
use crate::config::{Config, Scheduler};
use crate::host;
use crate::kernel::Shape;
use crate::kernel::rust::{self, Launch};
use crate::report::ViolationKind;
use crate::{Stop, kernel};

use super::super::Way;

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// `y[i] = a * x[i] + y[i]` for `i < n`.
const SAXPY: &str = r"
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 .ptr .global x, .param .u64 y)
.maxntid 256, 1, 1
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r2, [n];
    ld.param.f32 %f1, [a]; // a comment
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra $L__BB0_2;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.nc.f32 %f2, [%rd5];
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f3, [%rd7+0];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
$L__BB0_2:
    ret;
}
";

/// Each block writes the sum of its 32 thread numbers, through shared memory and a barrier.
const SUM: &str = r"
.visible .entry sum(.param .u64 out)
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    .shared .align 4 .b8 part[128];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, part;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $end;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
$loop:
    ld.shared.u32 %r7, [%r3];
    add.u32 %r5, %r5, %r7;
    add.u32 %r3, %r3, 4;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, 32;
    @%p2 bra $loop;
    ld.param.u64 %rd1, [out];
    mov.u32 %r8, %ctaid.x;
    mul.wide.u32 %rd2, %r8, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r5;
$end:
    ret;
}
";

fn line(blocks: u32, threads: u32) -> Shape {
    Shape { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
}

fn function(lab: &Lab, text: &str, name: &str) -> Handle {
    let module = lab.engine.module_load(&format!("{HEAD}{text}")).expect("a module");
    lab.engine.module_function(module, name).expect("its entry")
}

fn up(lab: &Lab, values: &[f32]) -> Handle {
    let len = 4 * values.len() as u64;
    let (at, pinned) = (lab.engine.alloc(len).expect("room"), lab.engine.host_alloc(len, 0).expect("pinned"));
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    host::write(pinned, &bytes);
    lab.engine.copy_now("cuMemcpyHtoD_v2", Way::HostToDevice, at, pinned, len).expect("up");
    at
}

fn words(lab: &Lab, at: Handle, count: usize) -> Vec<[u8; 4]> {
    let len = 4 * count as u64;
    let pinned = lab.engine.host_alloc(len, 0).expect("pinned");
    lab.engine.copy_now("cuMemcpyDtoH_v2", Way::DeviceToHost, pinned, at, len).expect("home");
    let mut bytes = vec![0; 4 * count];
    host::read(pinned, &mut bytes);
    bytes.chunks_exact(4).map(|w| w.try_into().expect("four bytes")).collect()
}

fn saxpy_args(n: u32, a: f32, x: u64, y: u64) -> Vec<u8> {
    let mut args = n.to_le_bytes().to_vec();
    args.extend(a.to_le_bytes());
    args.extend(x.to_le_bytes());
    args.extend(y.to_le_bytes());
    args
}

#[test]
fn saxpy_rounds_once_and_stops_at_n() {
    for scheduler in [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(3)] {
        let lab = Lab::new(Config::under(scheduler));
        let f = function(&lab, SAXPY, "saxpy");
        let x: Vec<f32> = (0..100u8).map(|i| f32::from(i) / 3.0).collect();
        let y: Vec<f32> = (0..100u8).map(|i| f32::from(i) * 0.7).collect();
        let (dx, dy) = (up(&lab, &x), up(&lab, &y));
        let s = lab.blocking();
        lab.engine.launch(f, line(4, 32), saxpy_args(97, 1.1, dx, dy), s).expect("enqueued");
        let found = words(&lab, dy, 100);
        for (i, word) in found.iter().enumerate() {
            let expected = if i < 97 { x[i].mul_add(1.1, y[i]) } else { y[i] };
            assert_eq!(f32::from_le_bytes(*word), expected, "{i}");
        }
        assert_eq!(lab.end().violations, []);
    }
}

#[test]
fn blocks_share_memory_up_to_their_barrier() {
    let lab = Lab::new(Config::default());
    let f = function(&lab, SUM, "sum");
    let out = lab.device();
    lab.engine.launch(f, line(3, 32), out.to_le_bytes().to_vec(), 0).expect("enqueued");
    assert_eq!(words(&lab, out, 3), [496u32.to_le_bytes(); 3]);
}

#[test]
fn a_kernels_memory_takes_part_in_the_order() {
    for scheduler in super::schedulers() {
        for bug in [true, false] {
            let lab = Lab::new(Config::under(scheduler));
            let f = function(&lab, SAXPY, "saxpy");
            let (x, y) = (up(&lab, &[1.0; 64]), up(&lab, &[2.0; 64]));
            lab.engine.synchronize().expect("up");
            let (a, b) = (lab.stream(), lab.stream());
            lab.engine.launch(f, line(1, 16), saxpy_args(16, 1.0, x, y), a).expect("enqueued");
            // The kernel wrote 64 bytes: the first that it left alone is free to take.
            let at = y + 64 - u64::from(bug);
            lab.engine.fill_async(at, 0, 8, b).expect("enqueued");
            let report = lab.end();
            assert_eq!(report.found > 0, bug, "{scheduler}: {:?}", report.violations);
        }
    }
}

#[test]
fn a_bad_pointer_loses_the_device() {
    for scheduler in super::schedulers() {
        let lab = Lab::new(Config::under(scheduler));
        let f = function(&lab, SUM, "sum");
        let out = lab.device();
        // The launch itself succeeds; what comes later does not.
        assert_eq!(lab.engine.launch(f, line(1, 32), (out + 4096).to_le_bytes().to_vec(), 0), Ok(()));
        assert_eq!(lab.engine.synchronize(), Err(Code::ILLEGAL_ADDRESS));
        assert_eq!(lab.engine.alloc(8), Err(Code::ILLEGAL_ADDRESS));
        assert_eq!(lab.engine.stream_query(0), Err(Code::ILLEGAL_ADDRESS));
        assert!(lab.engine.get_current().is_ok() && lab.engine.device_attribute(75, 0).is_ok());
        assert_eq!(lab.end().count(ViolationKind::OutOfBounds), 1);
        assert_eq!(lab.on(1).engine.alloc(8).map(|_| ()), Ok(()), "the other device is well");
        // For as long as the process lives.
        lab.on(0).engine.release(0).expect("the last one");
        assert_eq!(lab.engine.retain(0), Err(Code::ILLEGAL_ADDRESS));
    }
}

#[test]
fn registered_memory_is_mapped_for_kernels_where_that_was_asked_for() {
    for (flags, expected) in [(0, Err(Code::ILLEGAL_ADDRESS)), (1, Err(Code::ILLEGAL_ADDRESS)), (3, Ok(()))] {
        let lab = Lab::new(Config::default());
        let memory = Box::leak(vec![0u8; 64].into_boxed_slice());
        let at = memory.as_ptr().expose_provenance() as u64;
        lab.engine.host_register(at, 64, flags).expect("registered");
        let f = function(&lab, SUM, "sum");
        lab.engine.launch(f, line(1, 32), at.to_le_bytes().to_vec(), 0).expect("enqueued");
        assert_eq!(lab.engine.synchronize(), expected, "{flags}");
        assert_eq!(lab.engine.report().count(ViolationKind::OutOfBounds), usize::from(expected.is_err()));
        // What the driver allocates is mapped without asking.
        if expected.is_ok() {
            let pinned = lab.engine.host_alloc(64, 0).expect("pinned");
            lab.engine.launch(f, line(1, 32), pinned.to_le_bytes().to_vec(), 0).expect("enqueued");
            assert_eq!(lab.engine.synchronize(), Ok(()));
        }
    }
}

#[test]
fn memory_of_another_device_needs_a_right() {
    for granted in [false, true] {
        let lab = Lab::new(Config::default());
        let far = lab.on(1).device();
        lab.on(0);
        let f = function(&lab, SUM, "sum");
        if granted {
            let peer = lab.on(1).engine.get_current().expect("its context");
            lab.on(0).engine.enable_peer(peer, 0).expect("a right");
        }
        lab.engine.launch(f, line(1, 32), far.to_le_bytes().to_vec(), 0).expect("enqueued");
        let expected = if granted { Ok(()) } else { Err(Code::ILLEGAL_ADDRESS) };
        assert_eq!(lab.engine.synchronize(), expected);
        assert_eq!(lab.end().count(ViolationKind::PeerRights), usize::from(!granted));
    }
}

#[test]
fn what_is_not_modelled_is_refused_when_it_is_loaded() {
    let with = |inst: &str| {
        let body = "{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>;";
        kernel::load(&format!("{HEAD}.visible .entry k(.param .u64 a) {body} {inst} ret; }}"), 12020, (8, 0))
    };
    for fine in [
        "",
        "add.u32 %r1, %r2, -1;",
        "fma.rn.f32 %f1, %f2, 0f3F800000, %f3;",
        "@!%p1 bra $x; $x:",
        ".pragma \"nounroll\";",
    ] {
        assert!(with(fine).is_ok(), "{fine}");
    }
    for refused in [
        "add.sat.s32 %r1, %r2, %r3;", // a modifier
        "add.cc.u32 %r1, %r2, %r3;",  // another
        "add.ftz.f32 %f1, %f2, %f3;",
        "fma.rz.f32 %f1, %f2, %f3, %f1;", // a rounding
        "cvt.rni.f32.f32 %f1, %f2;",
        "mul.f32 %f1, %f2;",    // too few operands
        "mov.u32 %r1, %clock;", // a special register
        "mov.u32 %r1, %tid.w;",
        "mov.u32 %r9, 0;", // one that was not declared
        "mov.f32 %f1, 1;", // an integer for a float
        "bra $nowhere;",
        "bra.uni.x $x; $x:",
        "atom.global.add.u32 %r1, [%rd1], 1;", // an opcode
        "call foo;",
        "ld.volatile.global.u32 %r1, [%rd1];",
        "ld.global.u32 %r1, [a];",
        "st.param.u32 [a], %r1;",
        "add.f16 %f1, %f2, %f3;",
        "bar.sync 1;",
        ".reg .b128 %q<2>;",
        "ret",
    ] {
        assert_eq!(with(refused).err(), Some(Code::INVALID_PTX), "{refused}");
    }
    let load = |text: &str| kernel::load(text, 12020, (8, 0)).err();
    // What does not begin as PTX does is no image that a driver knows.
    for image in ["garbage", "", "// .version 8.0\n", ".target sm_75"] {
        assert_eq!(load(image), Some(Code::INVALID_IMAGE), "{image:?}");
    }
    assert_eq!(load("/* a comment */ .version eight"), Some(Code::INVALID_PTX));
    assert_eq!(load(".version 8.3\n.target sm_75\n.address_size 64"), Some(Code::UNSUPPORTED_PTX_VERSION));
    assert_eq!(load(".version 8.0\n.target sm_90\n.address_size 64"), Some(Code::INVALID_PTX));
    let lab = Lab::new(Config::default());
    let module = lab.engine.module_load(&format!("{HEAD}{SUM}")).expect("a module");
    assert_eq!(lab.engine.module_function(module, "absent"), Err(Code::NOT_FOUND));
}

#[test]
fn every_prefix_of_a_module_is_refused_or_read_without_a_panic() {
    let text = format!("{HEAD}{SAXPY}{SUM}");
    for end in 0..text.len() {
        let _ = kernel::load(&text[..end], 12020, (8, 0));
    }
}

#[test]
fn shapes_beyond_the_limits_are_refused() {
    let lab = Lab::new(Config::default());
    let f = function(&lab, SUM, "sum");
    let args = lab.device().to_le_bytes().to_vec();
    for (grid, block) in [
        ([0, 1, 1], [1; 3]),
        ([1; 3], [0, 1, 1]),
        ([1; 3], [1025, 1, 1]),
        ([1; 3], [32, 64, 1]),
        ([1, 65536, 1], [1; 3]),
    ] {
        let shape = Shape { grid, block, shared: 0 };
        assert_eq!(lab.engine.launch(f, shape, args.clone(), 0), Err(Code::INVALID_VALUE), "{shape:?}");
    }
    let far = lab.on(1).stream();
    assert_eq!(lab.on(0).engine.launch(f, line(1, 32), args, far), Err(Code::INVALID_HANDLE));
}

#[test]
fn a_kernel_that_never_ends_times_out() {
    let lab = Lab::new(Config { steps: 10_000, ..Config::default() });
    let f = function(&lab, ".visible .entry spin() { $x: bra $x; }", "spin");
    lab.engine.launch(f, line(1, 1), Vec::new(), 0).expect("enqueued");
    assert_eq!(lab.engine.synchronize(), Err(Code::LAUNCH_TIMEOUT));
}

fn doubled(launch: &Launch<'_>) -> Result<(), Stop> {
    let (at, n) = (launch.arg::<u64>(0), launch.arg::<u32>(1));
    let values: Vec<f32> = launch.read(at, n as usize)?;
    launch.write(at, &values.iter().map(|v| 2.0 * v).collect::<Vec<f32>>())
}

#[test]
fn a_rust_function_stands_in_for_an_entry() {
    rust::add("doubled_by_rust", rust::registered(doubled));
    let lab = Lab::new(Config::default());
    // The body is never looked at.
    let f = function(
        &lab,
        ".visible .entry doubled_by_rust(.param .u64 a, .param .u32 n) { tex.2d; }",
        "doubled_by_rust",
    );
    let x = up(&lab, &[1.5; 8]);
    let args = |at: u64, n: u32| [at.to_le_bytes().to_vec(), n.to_le_bytes().to_vec()].concat();
    lab.engine.launch(f, line(1, 1), args(x, 8), 0).expect("enqueued");
    assert_eq!(words(&lab, x, 8), [3f32.to_le_bytes(); 8]);
    assert_eq!(lab.engine.report().violations, []);
    lab.engine.launch(f, line(1, 1), args(x, 4096), 0).expect("enqueued");
    assert_eq!(lab.engine.synchronize(), Err(Code::ILLEGAL_ADDRESS));
    assert_eq!(lab.end().count(ViolationKind::OutOfBounds), 1);
}
