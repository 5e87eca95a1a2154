//! The observations. A host function that waits for a gate keeps a stream busy, so no kernel is needed for that.

use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crate::table::{Handle, Table, ask};

/// How long a stream is held where a call may wait for it: longer than a busy machine keeps a thread from a call that does not.
const HELD: Duration = Duration::from_secs(1);

/// What is said of that which this machine's devices cannot show.
const NOT_SEEN: &str = "not-seen";

/// Takes a name and what was seen.
type Say<'s> = &'s mut dyn FnMut(&str, String);

/// A host function and what it owns: run once.
struct Task(Box<dyn FnOnce() + Send>);

unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: the box that `later` gave, taken back once.
    let task = unsafe { Box::from_raw(data.cast::<Task>()) };
    (task.0)();
}

/// Enqueues a closure.
fn later(d: &Table, stream: Handle, task: impl FnOnce() + Send + 'static) -> u32 {
    let data = Box::into_raw(Box::new(Task(Box::new(task))));
    ask!(d.cuLaunchHostFunc(stream, Some(run), data.cast()))
}

/// Keeps a stream busy until the sender speaks or goes.
fn hold(d: &Table, stream: Handle) -> Sender<()> {
    let (open, gate) = channel::<()>();
    later(d, stream, move || {
        let _ = gate.recv();
    });
    open
}

/// Keeps a stream busy until the sender speaks, or for as long as a call may wait for it; then it says that nobody spoke.
fn hold_for(d: &Table, stream: Handle) -> (Sender<()>, JoinHandle<bool>) {
    let (gate, (done, heard)) = (hold(d, stream), channel());
    let opener = thread::spawn(move || {
        let was_told = heard.recv_timeout(HELD).is_ok();
        drop(gate);
        !was_told
    });
    (done, opener)
}

/// Whether a call returns while a stream is held, or only when it is released.
fn while_held(d: &Table, stream: Handle, call: impl FnOnce() -> u32) -> String {
    let (done, opener) = hold_for(d, stream);
    let code = call();
    // Nobody hears it where the call came back too late.
    let _ = done.send(());
    let waited = opener.join().expect("it only waits");
    ask!(d.cuStreamSynchronize(stream));
    let how = if waited { "waits" } else { "at-once" };
    if code == 0 { how.to_owned() } else { format!("{how}-{code}") }
}

fn stream(d: &Table, flags: u32) -> Handle {
    let mut s = 0;
    ask!(d.cuStreamCreate(&raw mut s, flags));
    s
}

fn event(d: &Table, flags: u32) -> Handle {
    let mut e = 0;
    ask!(d.cuEventCreate(&raw mut e, flags));
    e
}

fn device(d: &Table, len: usize) -> Handle {
    let mut p = 0;
    ask!(d.cuMemAlloc_v2(&raw mut p, len));
    p
}

fn pinned(d: &Table, len: usize) -> *mut c_void {
    let mut p = null_mut();
    ask!(d.cuMemHostAlloc(&raw mut p, len, 0));
    p
}

/// Writes every byte of a range that an observation owns.
fn set(p: *mut c_void, byte: u8, len: usize) {
    // SAFETY: `p` is pinned memory of `len` bytes (`pinned`), or a vector's of the same length.
    unsafe { p.cast::<u8>().write_bytes(byte, len) }
}

fn get(p: *const c_void) -> u8 {
    // SAFETY: as in `set`; the length is not 0.
    unsafe { p.cast::<u8>().read_volatile() }
}

/// What lies in device memory, by its first byte.
fn first(d: &Table, at: Handle) -> u8 {
    let p = pinned(d, 64);
    ask!(d.cuMemcpyDtoHAsync_v2(p, at, 64, 0));
    ask!(d.cuCtxSynchronize());
    let byte = get(p);
    ask!(d.cuMemFreeHost(p));
    byte
}

/// Everything, in an order in which nothing disturbs what comes after it.
pub(crate) fn all(d: &'static Table, say: Say<'_>) {
    before_init(d, say);
    if ask!(d.cuInit(0)) != 0 {
        return;
    }
    let mut context = 0;
    contexts(d, say, &mut context);
    memory(d, say);
    registration(d, say);
    pointers_and_copies(d, say);
    streams_and_events(d, say);
    held(d, say);
    snapshots(d, say);
    default_stream(d, say);
    callbacks(d, say);
    modules(d, say);
    peers(d, say, context);
    chain(d, say);
    lost(d, say);
}

fn before_init(d: &Table, say: Say<'_>) {
    let (mut number, mut handle, mut text) = (0, 0, null());
    say("before-init.version", ask!(d.cuDriverGetVersion(&raw mut number)).to_string());
    say("before-init.error-name", ask!(d.cuGetErrorName(1, &raw mut text)).to_string());
    say("before-init.count", ask!(d.cuDeviceGetCount(&raw mut number)).to_string());
    say("before-init.current", ask!(d.cuCtxGetCurrent(&raw mut handle)).to_string());
    say("before-init.retain", ask!(d.cuDevicePrimaryCtxRetain(&raw mut handle, 0)).to_string());
    say("before-init.alloc", ask!(d.cuMemAlloc_v2(&raw mut handle, 64)).to_string());
    let code = ask!(d.cuGetErrorString(123_456, &raw mut text));
    say("unknown-code.string", format!("{code}-{}", if text.is_null() { "null" } else { "text" }));
    text = null();
    let code = ask!(d.cuGetErrorName(123_456, &raw mut text));
    say("unknown-code.name", format!("{code}-{}", if text.is_null() { "null" } else { "text" }));
    say("init.once", ask!(d.cuInit(0)).to_string());
    say("init.twice", ask!(d.cuInit(0)).to_string());
}

fn contexts(d: &Table, say: Say<'_>, context: &mut Handle) {
    let (mut count, mut number, mut handle) = (0, 0, 7);
    ask!(d.cuDeviceGetCount(&raw mut count));
    say("ordinal.negative", ask!(d.cuDeviceGet(&raw mut number, -1)).to_string());
    say("ordinal.too-big", ask!(d.cuDeviceGet(&raw mut number, count)).to_string());
    let code = ask!(d.cuCtxGetCurrent(&raw mut handle));
    say("no-context.current", format!("{code}-{handle}"));
    say("no-context.alloc", ask!(d.cuMemAlloc_v2(&raw mut handle, 64)).to_string());
    say("no-context.synchronize", ask!(d.cuCtxSynchronize()).to_string());
    say("context.retain", ask!(d.cuDevicePrimaryCtxRetain(context, 0)).to_string());
    ask!(d.cuCtxGetCurrent(&raw mut handle));
    say("context.retain-makes-current", (handle != 0).to_string());
    say("context.set-current", ask!(d.cuCtxSetCurrent(*context)).to_string());
}

fn memory(d: &Table, say: Say<'_>) {
    let mut p = 0;
    say("alloc.zero", ask!(d.cuMemAlloc_v2(&raw mut p, 0)).to_string());
    say("alloc.too-big", ask!(d.cuMemAlloc_v2(&raw mut p, 1 << 50)).to_string());
    let s = stream(d, 1);
    say("alloc.too-big-async", ask!(d.cuMemAllocAsync(&raw mut p, 1 << 50, s)).to_string());
    say("alloc.works-after", ask!(d.cuMemAlloc_v2(&raw mut p, 100)).to_string());
    say("alloc.aligned-256", p.is_multiple_of(256).to_string());
    say("free.interior", ask!(d.cuMemFree_v2(p + 1)).to_string());
    say("free.once", ask!(d.cuMemFree_v2(p)).to_string());
    say("free.twice", ask!(d.cuMemFree_v2(p)).to_string());
    say("free.null", ask!(d.cuMemFree_v2(0)).to_string());
    say("free-host.null", ask!(d.cuMemFreeHost(null_mut())).to_string());
    say("unregister.null", ask!(d.cuMemHostUnregister(null_mut())).to_string());
    ask!(d.cuStreamDestroy_v2(s));
}

fn registration(d: &Table, say: Say<'_>) {
    // Whole pages, so that neighbours are not pinned with them.
    let mut memory = vec![0u8; 5 * 4096];
    let at = memory.as_mut_ptr().wrapping_add(memory.as_ptr().align_offset(4096)).cast::<c_void>();
    let inside = at.cast::<u8>().wrapping_add(4096).cast::<c_void>();
    say("register.once", ask!(d.cuMemHostRegister_v2(at, 2 * 4096, 0)).to_string());
    say("register.twice", ask!(d.cuMemHostRegister_v2(at, 2 * 4096, 0)).to_string());
    say("register.overlap", ask!(d.cuMemHostRegister_v2(inside, 2 * 4096, 0)).to_string());
    say("unregister.interior", ask!(d.cuMemHostUnregister(inside)).to_string());
    say("free-host.registered", ask!(d.cuMemFreeHost(at)).to_string());
    say("unregister.once", ask!(d.cuMemHostUnregister(at)).to_string());
    say("unregister.twice", ask!(d.cuMemHostUnregister(at)).to_string());
    say("free-host.unknown", ask!(d.cuMemFreeHost(at)).to_string());
    // Two ranges of one page.
    let beside = at.cast::<u8>().wrapping_add(128).cast::<c_void>();
    ask!(d.cuMemHostRegister_v2(at, 64, 0));
    let code = ask!(d.cuMemHostRegister_v2(beside, 64, 0));
    say("register.same-page", code.to_string());
    if code == 0 {
        ask!(d.cuMemHostUnregister(beside));
    }
    ask!(d.cuMemHostUnregister(at));
    drop(memory);
    let (allocated, mut none) = (pinned(d, 64), null_mut());
    say("unregister.allocated", ask!(d.cuMemHostUnregister(allocated)).to_string());
    ask!(d.cuMemFreeHost(allocated));
    say("alloc-host.zero", ask!(d.cuMemHostAlloc(&raw mut none, 0, 0)).to_string());
    ask!(d.cuMemFreeHost(none));
}

fn pointers_and_copies(d: &Table, say: Say<'_>) {
    let (x, p, mut page) = (device(d, 64), pinned(d, 64), vec![0u8; 64]);
    let kind = |at: Handle| {
        let mut kind = 0u32;
        let code = ask!(d.cuPointerGetAttribute((&raw mut kind).cast(), 2, at));
        format!("{code}-{kind}")
    };
    say("pointer.device", kind(x));
    say("pointer.pinned", kind(p.expose_provenance() as Handle));
    say("pointer.pageable", kind(page.as_mut_ptr().expose_provenance() as Handle));
    say("copy.zero-bytes", ask!(d.cuMemcpyHtoDAsync_v2(x, p, 0, 0)).to_string());
    say("copy.null-zero-bytes", ask!(d.cuMemcpyHtoDAsync_v2(x, null(), 0, 0)).to_string());
    say("copy.null", ask!(d.cuMemcpyHtoDAsync_v2(x, null(), 4, 0)).to_string());
    ask!(d.cuMemFree_v2(x));
    ask!(d.cuMemFreeHost(p));
}

fn streams_and_events(d: &Table, say: Say<'_>) {
    let mut s = 0;
    say("stream.bad-flags", ask!(d.cuStreamCreate(&raw mut s, 0x80)).to_string());
    let (s, other, x) = (stream(d, 1), stream(d, 1), device(d, 64));
    say("stream.query-idle", ask!(d.cuStreamQuery(s)).to_string());
    let gate = hold(d, s);
    say("stream.query-busy", ask!(d.cuStreamQuery(s)).to_string());
    drop(gate);
    ask!(d.cuStreamSynchronize(s));
    say("stream.query-after-sync", ask!(d.cuStreamQuery(s)).to_string());
    let (e, start, untimed) = (event(d, 0), event(d, 0), event(d, 2));
    say("event.unrecorded-query", ask!(d.cuEventQuery(e)).to_string());
    say("event.unrecorded-sync", ask!(d.cuEventSynchronize(e)).to_string());
    say("event.unrecorded-wait", ask!(d.cuStreamWaitEvent(s, e, 0)).to_string());
    let mut ms = 0f32;
    say("event.time-unrecorded", ask!(d.cuEventElapsedTime(&raw mut ms, start, e)).to_string());
    ask!(d.cuEventRecord(start, s));
    ask!(d.cuEventRecord(untimed, s));
    ask!(d.cuStreamSynchronize(s));
    say("event.time-untimed", ask!(d.cuEventElapsedTime(&raw mut ms, start, untimed)).to_string());
    let gate = hold(d, s);
    ask!(d.cuEventRecord(e, s));
    say("event.query-busy", ask!(d.cuEventQuery(e)).to_string());
    say("event.time-busy", ask!(d.cuEventElapsedTime(&raw mut ms, start, e)).to_string());
    // `other` waits for the record behind the gate; recording anew where nothing is busy does not let it go.
    ask!(d.cuStreamWaitEvent(other, e, 0));
    ask!(d.cuMemsetD8Async(x, 1, 64, other));
    let idle = stream(d, 1);
    ask!(d.cuEventRecord(e, idle));
    ask!(d.cuStreamSynchronize(idle));
    say("event.re-record-is-complete", ask!(d.cuEventQuery(e)).to_string());
    say("event.wait-keeps-its-record", ask!(d.cuStreamQuery(other)).to_string());
    drop(gate);
    say("event.wait-ends", ask!(d.cuStreamSynchronize(other)).to_string());
    say("event.time", ask!(d.cuEventElapsedTime(&raw mut ms, start, e)).to_string());
    let (dying, p) = (stream(d, 1), pinned(d, 64));
    let gate = hold(d, dying);
    ask!(d.cuMemsetD8Async(x, 9, 64, dying));
    ask!(d.cuMemcpyDtoHAsync_v2(p, x, 64, dying));
    ask!(d.cuEventRecord(e, dying));
    say("stream.destroy-busy", ask!(d.cuStreamDestroy_v2(dying)).to_string());
    drop(gate);
    ask!(d.cuEventSynchronize(e));
    say("stream.destroyed-work-completes", (get(p) == 9).to_string());
    for event in [e, start, untimed] {
        ask!(d.cuEventDestroy_v2(event));
    }
    ask!(d.cuMemFreeHost(p));
    ask!(d.cuMemFree_v2(x));
}

fn held(d: &Table, say: Say<'_>) {
    let (s, x, y, p) = (stream(d, 1), device(d, 1 << 20), device(d, 1 << 20), pinned(d, 1 << 20));
    say("held.pinned-up", while_held(d, s, || ask!(d.cuMemcpyHtoDAsync_v2(x, p, 1 << 20, s))));
    say("held.pinned-down", while_held(d, s, || ask!(d.cuMemcpyDtoHAsync_v2(p, x, 1 << 20, s))));
    say("held.device-to-device", while_held(d, s, || ask!(d.cuMemcpyDtoDAsync_v2(y, x, 1 << 20, s))));
    say("held.memset", while_held(d, s, || ask!(d.cuMemsetD8Async(x, 1, 1 << 20, s))));
    let mut q = 0;
    say("held.alloc-async", while_held(d, s, || ask!(d.cuMemAllocAsync(&raw mut q, 64, s))));
    ask!(d.cuMemFreeAsync(q, s));
    let mut z = 0;
    say("held.alloc", while_held(d, s, || ask!(d.cuMemAlloc_v2(&raw mut z, 64))));
    let mut memory = vec![0u8; 3 * 4096];
    let at = memory.as_mut_ptr().wrapping_add(memory.as_ptr().align_offset(4096)).cast::<c_void>();
    say("held.register", while_held(d, s, || ask!(d.cuMemHostRegister_v2(at, 4096, 0))));
    say("held.unregister", while_held(d, s, || ask!(d.cuMemHostUnregister(at))));
    let mut other = 0;
    say("held.stream-create", while_held(d, s, || ask!(d.cuStreamCreate(&raw mut other, 1))));
    for len in [64, 1 << 20] {
        let mut page = vec![0u8; len];
        let to = page.as_mut_ptr().cast::<c_void>();
        say(
            &format!("held.pageable-down-{len}"),
            while_held(d, s, || ask!(d.cuMemcpyDtoHAsync_v2(to, x, len, s))),
        );
    }
    say("held.free-of-idle", while_held(d, s, || ask!(d.cuMemFree_v2(z))));
    let mut module = 0;
    let text = CString::new(STORE).expect("no zero inside");
    say(
        "held.module-load",
        while_held(d, s, || ask!(d.cuModuleLoadData(&raw mut module, text.as_ptr().cast()))),
    );
    let idle = pinned(d, 64);
    say("held.free-host", while_held(d, s, || ask!(d.cuMemFreeHost(idle))));
    for at in [x, y] {
        ask!(d.cuMemFree_v2(at));
    }
    ask!(d.cuMemFreeHost(p));
}

/// Whether a source was read when the call returned: it is overwritten while the copy is held.
fn snapshots(d: &Table, say: Say<'_>) {
    let s = stream(d, 1);
    for (name, len, pin) in
        [("pageable-64", 64, false), ("pageable-1048576", 1 << 20, false), ("pinned", 64, true)]
    {
        let mut page = vec![1u8; len];
        let x = device(d, len);
        let from = if pin { pinned(d, len) } else { page.as_mut_ptr().cast() };
        set(from, 1, len);
        // A driver may wait here for what is before the copy: then nothing is held any more, and the source was read.
        let (done, opener) = hold_for(d, s);
        ask!(d.cuMemcpyHtoDAsync_v2(x, from, len, s));
        set(from, 2, len);
        let _ = done.send(());
        opener.join().expect("it only waits");
        ask!(d.cuStreamSynchronize(s));
        say(&format!("snapshot.{name}"), (first(d, x) == 1).to_string());
        ask!(d.cuMemFree_v2(x));
        if pin {
            ask!(d.cuMemFreeHost(from));
        }
    }
}

/// What a stream says of itself with a little work on it, polled for a while: work that nothing holds is soon done.
fn idle_or_busy(d: &Table, asked: Handle, x: Handle) -> String {
    ask!(d.cuMemsetD8Async(x, 1, 64, asked));
    let until = Instant::now() + HELD;
    let mut code = ask!(d.cuStreamQuery(asked));
    while code == 600 && Instant::now() < until {
        code = ask!(d.cuStreamQuery(asked));
    }
    code.to_string()
}

fn default_stream(d: &Table, say: Say<'_>) {
    let (blocking, free, x) = (stream(d, 0), stream(d, 1), device(d, 64));
    let busy = |held: Handle, asked: Handle| {
        let gate = hold(d, held);
        let code = idle_or_busy(d, asked, x);
        drop(gate);
        ask!(d.cuCtxSynchronize());
        code
    };
    say("legacy.waits-for-blocking", busy(blocking, 0));
    say("legacy.waits-for-non-blocking", busy(free, 0));
    say("blocking.waits-for-legacy", busy(0, blocking));
    say("non-blocking.waits-for-legacy", busy(0, free));
    // Whether what is done on the default stream stands between two blocking ones.
    let other = stream(d, 0);
    let (never, e) = (event(d, 2), event(d, 2));
    let fenced = |action: &dyn Fn() -> u32| {
        let gate = hold(d, blocking);
        action();
        let code = idle_or_busy(d, other, x);
        drop(gate);
        ask!(d.cuCtxSynchronize());
        code
    };
    say("legacy.record-fences", fenced(&|| ask!(d.cuEventRecord(e, 0))));
    say("legacy.wait-unrecorded-fences", fenced(&|| ask!(d.cuStreamWaitEvent(0, never, 0))));
    ask!(d.cuEventRecord(e, free));
    ask!(d.cuStreamSynchronize(free));
    say("legacy.wait-complete-fences", fenced(&|| ask!(d.cuStreamWaitEvent(0, e, 0))));
    ask!(d.cuMemFree_v2(x));
}

/// What a host function's calls answered, and where it ran.
type Told = ([u32; 2], ThreadId);

fn callbacks(d: &'static Table, say: Say<'_>) {
    let (s, idle) = (stream(d, 1), stream(d, 1));
    let seen: Arc<Mutex<Option<Told>>> = Arc::default();
    let told = Arc::clone(&seen);
    later(d, s, move || {
        let mut p = 0;
        let codes = [ask!(d.cuMemAlloc_v2(&raw mut p, 64)), ask!(d.cuStreamQuery(idle))];
        *told.lock().expect("alone") = Some((codes, thread::current().id()));
    });
    ask!(d.cuStreamSynchronize(s));
    let ([alloc, query], thread) = seen.lock().expect("over").take().expect("it ran");
    say("callback.driver-call", alloc.to_string());
    say("callback.query", query.to_string());
    say("callback.other-thread", (thread != thread::current().id()).to_string());
    ask!(d.cuStreamDestroy_v2(s));
}

fn modules(d: &Table, say: Say<'_>) {
    let load = |text: &str| {
        let (mut module, text) = (0, CString::new(text).expect("no zero inside"));
        (ask!(d.cuModuleLoadData(&raw mut module, text.as_ptr().cast())), module)
    };
    let text = |version: &str| {
        format!(".version {version}\n.target sm_75\n.address_size 64\n.visible .entry nothing() {{ ret; }}\n")
    };
    say("module.garbage", load("no module").0.to_string());
    say("module.wrong-text", load(&text("8.0").replace("ret", "no instruction")).0.to_string());
    say("module.newer-version", load(&text("99.0")).0.to_string());
    let (code, module) = load(&text("8.0"));
    say("module.load", code.to_string());
    let (mut f, absent, nothing) = (0, c"absent", c"nothing");
    say(
        "module.missing-function",
        ask!(d.cuModuleGetFunction(&raw mut f, module, absent.as_ptr())).to_string(),
    );
    ask!(d.cuModuleGetFunction(&raw mut f, module, nothing.as_ptr()));
    let launch =
        |grid, block| ask!(d.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, 0, null_mut(), null_mut()));
    say("launch.grid-0", launch(0, 1).to_string());
    say("launch.block-0", launch(1, 0).to_string());
    say("launch.block-1025", launch(1, 1025).to_string());
    say("launch.fine", launch(1, 1).to_string());
    ask!(d.cuCtxSynchronize());
    say("module.unload", ask!(d.cuModuleUnload(module)).to_string());
}

/// What only two devices show, and of these what only such show that reach each other's memory.
const OF_TWO: [&str; 6] = [
    "peer.can-access-self",
    "peer.can-access",
    "peer.copy-without-enable",
    "peer.copy-arrives",
    "event.record-on-other-device",
    "event.wait-on-other-device",
];
const OF_NEIGHBOURS: [&str; 5] =
    ["peer.enable", "peer.enable-twice", "peer.enable-self", "peer.disable", "peer.disable-twice"];

fn peers(d: &Table, say: Say<'_>, near: Handle) {
    let mut count = 0;
    ask!(d.cuDeviceGetCount(&raw mut count));
    if count < 2 {
        // Said, so that a machine with one device is told from a program that ended early.
        OF_TWO.iter().chain(&OF_NEIGHBOURS).for_each(|name| say(name, NOT_SEEN.to_owned()));
        return;
    }
    let (mut can, mut itself, mut far) = (0, 1, 0);
    ask!(d.cuDeviceCanAccessPeer(&raw mut itself, 0, 0));
    say("peer.can-access-self", itself.to_string());
    ask!(d.cuDeviceCanAccessPeer(&raw mut can, 0, 1));
    say("peer.can-access", can.to_string());
    ask!(d.cuDevicePrimaryCtxRetain(&raw mut far, 1));
    ask!(d.cuCtxSetCurrent(far));
    let (y, there) = (device(d, 64), stream(d, 1));
    ask!(d.cuCtxSetCurrent(near));
    let (x, here, e) = (device(d, 64), stream(d, 1), event(d, 2));
    ask!(d.cuMemsetD8Async(x, 5, 64, here));
    say("peer.copy-without-enable", ask!(d.cuMemcpyPeerAsync(y, far, x, near, 64, here)).to_string());
    ask!(d.cuStreamSynchronize(here));
    ask!(d.cuCtxSetCurrent(far));
    say("peer.copy-arrives", (first(d, y) == 5).to_string());
    ask!(d.cuCtxSetCurrent(near));
    say("event.record-on-other-device", ask!(d.cuEventRecord(e, there)).to_string());
    ask!(d.cuEventRecord(e, here));
    ask!(d.cuCtxSetCurrent(far));
    say("event.wait-on-other-device", ask!(d.cuStreamWaitEvent(there, e, 0)).to_string());
    ask!(d.cuStreamSynchronize(there));
    ask!(d.cuMemFree_v2(y));
    ask!(d.cuCtxSetCurrent(near));
    if can == 1 {
        say("peer.enable", ask!(d.cuCtxEnablePeerAccess(far, 0)).to_string());
        say("peer.enable-twice", ask!(d.cuCtxEnablePeerAccess(far, 0)).to_string());
        say("peer.enable-self", ask!(d.cuCtxEnablePeerAccess(near, 0)).to_string());
        say("peer.disable", ask!(d.cuCtxDisablePeerAccess(far)).to_string());
        say("peer.disable-twice", ask!(d.cuCtxDisablePeerAccess(far)).to_string());
    } else {
        OF_NEIGHBOURS.iter().for_each(|name| say(name, NOT_SEEN.to_owned()));
    }
    ask!(d.cuMemFree_v2(x));
    ask!(d.cuDevicePrimaryCtxRelease_v2(1));
}

/// Down, up and down again through one pinned buffer, on one stream.
fn chain(d: &Table, say: Say<'_>) {
    let (s, p, q) = (stream(d, 1), pinned(d, 64), pinned(d, 64));
    let (x, y, z) = (device(d, 64), device(d, 64), device(d, 64));
    ask!(d.cuMemsetD8Async(x, 1, 64, s));
    ask!(d.cuMemsetD8Async(y, 2, 64, s));
    ask!(d.cuMemcpyDtoHAsync_v2(p, x, 64, s));
    ask!(d.cuMemcpyHtoDAsync_v2(z, p, 64, s));
    ask!(d.cuMemcpyDtoHAsync_v2(p, y, 64, s));
    ask!(d.cuMemcpyDtoHAsync_v2(q, z, 64, s));
    ask!(d.cuStreamSynchronize(s));
    say("chain.bytes", format!("{}-{}", get(p), get(q)));
    for at in [x, y, z] {
        ask!(d.cuMemFree_v2(at));
    }
    for at in [p, q] {
        ask!(d.cuMemFreeHost(at));
    }
}

const STORE: &str = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry store(.param .u64 to) {\n\
    .reg .b64 %rd<3>; .reg .b32 %r<2>;\nld.param.u64 %rd1, [to];\ncvta.to.global.u64 %rd2, %rd1;\n\
    mov.u32 %r1, 1;\nst.global.u32 [%rd2], %r1;\nret;\n}\n";

/// A kernel that stores where nothing is, last of all: the device is lost by it.
fn lost(d: &Table, say: Say<'_>) {
    let text = CString::new(STORE).expect("no zero inside");
    let (mut module, mut f, mut p, mut value) = (0, 0, 0, 0);
    ask!(d.cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    ask!(d.cuModuleGetFunction(&raw mut f, module, c"store".as_ptr()));
    let e = event(d, 2);
    let mut to: Handle = 0x10;
    let mut args = [(&raw mut to).cast::<c_void>()];
    let code = ask!(d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, args.as_mut_ptr(), null_mut()));
    say("lost.launch", code.to_string());
    say("lost.synchronize", ask!(d.cuCtxSynchronize()).to_string());
    say("lost.alloc", ask!(d.cuMemAlloc_v2(&raw mut p, 64)).to_string());
    say("lost.query", ask!(d.cuStreamQuery(0)).to_string());
    say("lost.event", ask!(d.cuEventRecord(e, 0)).to_string());
    say("lost.current", ask!(d.cuCtxGetCurrent(&raw mut p)).to_string());
    say("lost.attribute", ask!(d.cuDeviceGetAttribute(&raw mut value, 75, 0)).to_string());
    say("lost.release", ask!(d.cuDevicePrimaryCtxRelease_v2(0)).to_string());
    let (mut context, mut again) = (0, 0);
    say("lost.retain", ask!(d.cuDevicePrimaryCtxRetain(&raw mut context, 0)).to_string());
    ask!(d.cuCtxSetCurrent(context));
    say("lost.recovers", ask!(d.cuMemAlloc_v2(&raw mut again, 64)).to_string());
}
