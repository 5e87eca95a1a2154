//! The C interface itself: values that no enumeration has, entry points by name, what is exported.
#![expect(unsafe_code, reason = "C functions of the driver")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use cudarc::driver::{CudaContext, DevicePtr, sys};
use spanlift_softcuda::{Config, Launch, Scheduler, Stop, kit};

/// A function of the loaded driver; `F` is its type with integers for enumerations.
fn function<F: Copy>(name: &str) -> F {
    // SAFETY: the software driver is loaded (`kit::alone`), so there is a library.
    let library = unsafe { sys::culib() };
    // SAFETY: `F` is the function's documented type.
    *unsafe { library.get::<F>(name.as_bytes()) }.unwrap_or_else(|e| panic!("{e}"))
}

type Attribute = unsafe extern "C" fn(*mut c_int, u32, c_int) -> u32;
type Text = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
type Address = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut u32) -> u32;

#[test]
fn values_that_no_enumeration_has_are_errors() {
    kit::alone(&[Config::default()], |_| {
        let init = function::<unsafe extern "C" fn(u32) -> u32>("cuInit");
        // SAFETY: a plain integer.
        assert_eq!(unsafe { init(0) }, 0);
        let attribute = function::<Attribute>("cuDeviceGetAttribute");
        let mut value = 0;
        for (number, expected) in [
            (75, 0),
            (0, 1),
            (9999, 1),
            (u32::MAX, 1),
            (77, 801),
            (120, 801),
            (121, 801),
            (134, 801),
            (135, 1),
        ] {
            // SAFETY: a live int.
            assert_eq!(unsafe { attribute(&raw mut value, number, 0) }, expected, "{number}");
        }
        // SAFETY: a null pointer is an error, not followed.
        assert_eq!(unsafe { attribute(null_mut(), 75, 0) }, 1);
        let name = function::<Text>("cuGetErrorName");
        let mut text = c"old".as_ptr();
        // SAFETY: a live pointer.
        assert_eq!((unsafe { name(u32::MAX, &raw mut text) }, text.is_null()), (1, true));
        let peers =
            function::<unsafe extern "C" fn(*mut c_int, u32, c_int, c_int) -> u32>("cuDeviceGetP2PAttribute");
        // SAFETY: a live int.
        assert_eq!(unsafe { peers(&raw mut value, 4000, 0, 1) }, 1);
    });
}

/// Every call but those that need no driver is refused before `cuInit`, whatever its arguments are; afterwards for those.
#[test]
fn before_init_arguments_are_not_looked_at() {
    type Zeros = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
    let needs = [
        "cuDeviceGetCount",
        "cuDeviceGetAttribute",
        "cuCtxGetCurrent",
        "cuDevicePrimaryCtxRetain",
        "cuMemAlloc_v2",
        "cuMemAllocAsync",
        "cuMemHostAlloc",
        "cuMemGetInfo_v2",
        "cuMemPoolCreate",
        "cuStreamCreate",
        "cuEventCreate",
        "cuEventElapsedTime",
        "cuLaunchHostFunc",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuPointerGetAttribute",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetProcAddress_v2",
    ];
    kit::alone(&[Config::default()], |_| {
        // SAFETY: functions of at most eleven integers and pointers, which are null: that is refused and not followed.
        let ask = |name: &str| unsafe { function::<Zeros>(name)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) };
        for name in needs {
            let is_early = name.contains("Version") || name.contains("Error") || name.contains("Address");
            assert_eq!(ask(name), if is_early { 1 } else { 3 }, "{name}");
        }
        assert_eq!(ask("cuInit"), 0);
        for name in needs {
            assert_eq!(ask(name), 1, "{name}");
        }
    });
}

#[test]
fn entry_points_are_found_by_name() {
    kit::alone(&[Config::default()], |_| {
        let find = function::<Address>("cuGetProcAddress_v2");
        let alloc = function::<*mut c_void>("cuMemAlloc_v2");
        let (mut found, mut status) = (null_mut(), 9);
        // SAFETY: live pointers and a string that a zero ends.
        let code = unsafe { find(c"cuMemAlloc".as_ptr(), &raw mut found, 12020, 0, &raw mut status) };
        assert_eq!((code, found, status), (0, alloc, 0));
        // SAFETY: as above.
        let code = unsafe { find(c"cuMemcpyBatchAsync".as_ptr(), &raw mut found, 12020, 0, &raw mut status) };
        assert_eq!((code, found, status), (0, null_mut(), 1));
    });
}

/// The newer entry for elapsed times is there where both the driver and whoever asks are of 12.8 or later.
#[test]
fn a_newer_entry_point_is_found_by_newer_versions_alone() {
    let reports = [12020, 12080, 13000];
    kit::alone(&reports.map(|version| Config { version, ..Config::default() }), |_| {
        let reported = Config::from_environment().expect("a configuration").version;
        let find = function::<Address>("cuGetProcAddress_v2");
        for asked in reports {
            let (mut found, mut status) = (null_mut(), 9);
            let name = c"cuEventElapsedTime_v2".as_ptr();
            // SAFETY: live pointers and a string that a zero ends.
            let code = unsafe { find(name, &raw mut found, asked, 0, &raw mut status) };
            let is_there = reported >= 12080 && asked >= 12080;
            assert_eq!((code, found.is_null(), status), (0, !is_there, u32::from(!is_there)), "{asked}");
        }
    });
}

#[test]
fn what_is_not_modelled_is_absent() {
    kit::alone(&[Config::default()], |_| {
        // SAFETY: the software driver is loaded.
        let library = unsafe { sys::culib() };
        for name in ["cuGraphLaunch", "cuStreamBeginCapture_v2", "cuMemAllocManaged", "cuEventElapsedTime_v2"]
        {
            // SAFETY: the symbol is looked for, not called.
            let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            assert!(found.is_err(), "{name}");
        }
    });
}

fn twice(launch: &Launch<'_>) -> Result<(), Stop> {
    let (at, n) = (launch.arg::<u64>(0), launch.arg::<u32>(1));
    let values: Vec<u32> = launch.read(at, n as usize)?;
    launch.write(at, &values.iter().map(|v| 2 * v).collect::<Vec<u32>>())
}

const TWICE: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .visible .entry twice(.param .u64 a, .param .u32 n)\n{\nret;\n}\n\0";

#[test]
fn a_kernel_of_the_test_runs_in_the_driver() {
    kit::alone(&[Config::default(), Config::under(Scheduler::Seeded(1))], |driver| {
        driver.kernel("twice", twice);
        let context = CudaContext::new(0).expect("device 0");
        let stream = context.default_stream();
        let data = stream.clone_htod(&[1u32, 2, 3, 4]).expect("up");
        let (mut module, mut f) = (null_mut::<c_void>(), null_mut::<c_void>());
        let load =
            function::<unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> u32>("cuModuleLoadData");
        // SAFETY: a live pointer, and a string that a zero ends.
        assert_eq!(unsafe { load(&raw mut module, TWICE.as_ptr().cast()) }, 0);
        let get = function::<unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> u32>(
            "cuModuleGetFunction",
        );
        // SAFETY: as above, and a module that is loaded.
        assert_eq!(unsafe { get(&raw mut f, module, c"twice".as_ptr()) }, 0);
        {
            let (mut at, _order) = data.device_ptr(&stream);
            let mut n = 4u32;
            let mut args = [(&raw mut at).cast::<c_void>(), (&raw mut n).cast()];
            // SAFETY: a function of a loaded module, and as many live arguments as it has.
            let launched = unsafe {
                sys::cuLaunchKernel(f.cast(), 1, 1, 1, 1, 1, 1, 0, null_mut(), args.as_mut_ptr(), null_mut())
            };
            assert_eq!(launched, sys::CUresult::CUDA_SUCCESS);
        }
        assert_eq!(stream.clone_dtoh(&data), Ok(vec![2, 4, 6, 8]));
        assert_eq!(driver.report().ops["kernel"], 1);
    });
}

type Gemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    u64,
    c_int,
    i64,
    u64,
    c_int,
    i64,
    *const c_void,
    u64,
    c_int,
    i64,
    c_int,
) -> c_int;

/// What a library keeps is of one context, and elements lie at multiples of their size.
#[test]
fn libraries_refuse_another_device_and_elements_across_their_alignment() {
    kit::alone(&[Config::default()], |_| {
        let (near, far) = (CudaContext::new(0).expect("device 0"), CudaContext::new(1).expect("device 1"));
        near.bind_to_thread().expect("current");
        let stream = near.default_stream();
        let data = stream.clone_htod(&[1f32; 12]).expect("up");
        let (create, destroy) = (
            function::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>("cublasCreate_v2"),
            function::<unsafe extern "C" fn(*mut c_void) -> c_int>("cublasDestroy_v2"),
        );
        let mut handle = null_mut();
        // SAFETY: a live pointer.
        assert_eq!(unsafe { create(&raw mut handle) }, 0);
        let gemm = function::<Gemm>("cublasSgemmStridedBatched");
        let (at, order) = data.device_ptr(&stream);
        let ask = |a: u64| {
            let (one, zero) = (1f32, 0f32);
            let (b, c) = (at + 16, at + 32);
            // SAFETY: live factors, and three matrices of 2 x 2 in one block, or across its elements, which is refused.
            unsafe {
                let (one, zero) = ((&raw const one).cast(), (&raw const zero).cast());
                gemm(handle, 0, 0, 2, 2, 2, one, a, 2, 4, b, 2, 4, zero, c, 2, 4, 1)
            }
        };
        assert_eq!((ask(at), ask(at + 2)), (0, 13));
        far.bind_to_thread().expect("current");
        assert_eq!(ask(at), 13);
        near.bind_to_thread().expect("current");
        drop(order);
        near.synchronize().expect("done");
        // SAFETY: made above, and nothing runs.
        assert_eq!(unsafe { destroy(handle) }, 0);
    });
}

/// A real cuBLAS reads a factor at once: across its alignment the process ends.
#[test]
fn factors_lie_at_multiples_of_their_size() {
    /// Zeros that begin as far apart as any factor is wide.
    #[repr(align(16))]
    struct Factors([u8; 64]);
    kit::alone(&[Config::default()], |_| {
        let context = CudaContext::new(0).expect("device 0");
        let stream = context.default_stream();
        let data = stream.clone_htod(&[0u8; 48]).expect("up");
        let (create, destroy) = (
            function::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>("cublasCreate_v2"),
            function::<unsafe extern "C" fn(*mut c_void) -> c_int>("cublasDestroy_v2"),
        );
        let mut handle = null_mut();
        // SAFETY: a live pointer.
        assert_eq!(unsafe { create(&raw mut handle) }, 0);
        let (at, order) = data.device_ptr(&stream);
        let factors = Factors([0; 64]);
        for (letter, size) in [("S", 4), ("D", 8), ("C", 8), ("Z", 16)] {
            let gemm = function::<Gemm>(&format!("cublas{letter}gemmStridedBatched"));
            let ask = |alpha: usize, beta: usize| {
                let [alpha, beta] = [alpha, beta].map(|off| factors.0[off..].as_ptr().cast::<c_void>());
                let (b, c) = (at + 16, at + 32);
                // SAFETY: three matrices of one element in one block; of each factor 16 bytes are live where it begins.
                unsafe { gemm(handle, 0, 0, 1, 1, 1, alpha, at, 1, 1, b, 1, 1, beta, c, 1, 1, 1) }
            };
            for off in 0..=32 {
                let expected = if off % size == 0 { 0 } else { 7 };
                assert_eq!((ask(off, 0), ask(0, off)), (expected, expected), "{letter} at {off}");
            }
        }
        drop(order);
        context.synchronize().expect("done");
        // SAFETY: made above, and nothing runs.
        assert_eq!(unsafe { destroy(handle) }, 0);
    });
}

#[test]
fn misuse_fails_the_test_and_says_how_to_repeat_it() {
    let run = || {
        kit::alone(&[Config::default()], |_| {
            let context = CudaContext::new(0).expect("device 0");
            // SAFETY: what follows is wrong, on purpose.
            unsafe { context.disable_event_tracking() };
            let (a, b) = (context.new_stream().expect("a stream"), context.new_stream().expect("a stream"));
            let mut x = a.alloc_zeros::<u8>(64).expect("room");
            b.memset_zeros(&mut x).expect("enqueued");
            std::mem::forget(a.alloc_zeros::<u8>(100).expect("room"));
        });
    };
    if std::env::var_os("SPANLIFT_SOFTCUDA_ALONE").is_some() {
        return run();
    }
    let panic = std::panic::catch_unwind(run).expect_err("misuse fails");
    let words = panic.downcast_ref::<String>().expect("words");
    for part in
        ["under lazy", "use-before-alloc", "never freed: 100 bytes", "repeat: SPANLIFT_SOFTCUDA_ALONE=1"]
    {
        assert!(words.contains(part), "{part} in {words}");
    }
}
