//! Programs in other languages, where a call would do something else than its command, or no compiler take it.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::Program;
use spanlift::program::code::Language;

fn code(program: &str, language: Language) -> String {
    Program::from_text(program).unwrap().to_code(language)
}

/// The text has these lines, in this order.
#[track_caller]
fn says(program: &str, language: Language, lines: &[&str]) {
    let code = code(program, language);
    let mut told = code.lines().map(str::trim_start);
    for line in lines {
        assert!(told.any(|l| l == *line), "{line}\n{code}");
    }
}

#[test]
fn names_of_headers_are_no_names() {
    // Macros, functions that the text calls, and what cannot be overloaded.
    says(
        "pinned EOF 8\ndevice cudaMemcpyAsync 8\npinned errno 8\nstream NULL\nkernel llabs on 0\nkernel float4 on 0\nkernel size_t on 0\n\
         kernel NAN on 0\nkernel threadIdx on 0\nkernel A on 0\nkernel weights4 on 0\n",
        Language::Cuda,
        &[
            "__global__ void llabs_2(long long ns) { spin(ns); }",
            "__global__ void k_float4(long long ns) { spin(ns); }",
            "__global__ void k_size_t(long long ns) { spin(ns); }",
            "__global__ void k_NAN(long long ns) { spin(ns); }",
            "__global__ void threadIdx_2(long long ns) { spin(ns); }",
            "__global__ void A(long long ns) { spin(ns); }",
            "__global__ void weights4(long long ns) { spin(ns); }",
            "cudaStream_t NULL_;",
            "char *EOF_, *cudaMemcpyAsync_, *errno_2;",
        ],
    );
    // What a pattern would match instead of naming it.
    says(
        "pinned None 8\npinned abstract 8\npinned Bytes 8\nstream Self\n",
        Language::Rust,
        &[
            "let None_2 = p.pinned(\"None\", Bytes(8));",
            "let abstract_2 = p.pinned(\"abstract\", Bytes(8));",
            "let Bytes_2 = p.pinned(\"Bytes\", Bytes(8));",
            "let Self_2 = p.stream(\"Self\");",
        ],
    );
    says(
        "spawn w\npinned w_calls 8\nw: write w_calls\njoin w\n",
        Language::PyTorch,
        &["def w_calls_2():", "w_calls.fill_(1)", "w = threading.Thread(target=w_calls_2)"],
    );
}

#[test]
fn every_kernel_has_a_name_in_little_time() {
    let many = "stream s\nrepeat i 30000\nkernel \"k {i}\" on s\nend\n";
    let code = code(many, Language::Cuda);
    assert_eq!(code.matches("__global__").count(), 30_000);
    assert!(code.contains("    k_29999<<<1, 1, 0, s>>>(0);  // kernel \"k 29999\" on s\n"));
}

#[test]
fn a_label_makes_no_function_and_no_encoding() {
    let told = "title coding: utf-7 +AAo-import os\nstream s\npinned x 8\nmemset x on s \"busy(1) host_fn \u{202e}}\u{2066}\u{2028}\"\n";
    for language in Language::ALL {
        let code = code(told, language);
        assert!(!code.contains(['\u{202e}', '\u{2066}', '\u{2028}']), "{code}");
        assert!(!code.contains("static void"), "{code}");
    }
    // Python takes the first encoding that it finds in the first two lines.
    assert!(code(told, Language::PyTorch).starts_with("# coding: utf-8\n"));
    assert!(!code("title no such word\nmark\n", Language::PyTorch).contains("utf-8"));
}

#[test]
fn priorities_are_within_their_type() {
    // PyTorch refuses those below the usual one, which are numbers above 0.
    says(
        "stream a priority 3\nstream b priority -5000000000\n",
        Language::PyTorch,
        &[
            "a = torch.cuda.Stream(device=0)  # stream a priority 3",
            "b = torch.cuda.Stream(device=0, priority=-2147483648)  # stream b priority -5000000000",
        ],
    );
    says(
        "stream a priority 3\nstream b priority -5000000000\n",
        Language::Cuda,
        &[
            "cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, 3);",
            "cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -2147483648);",
        ],
    );
}

#[test]
fn what_pytorch_refuses_has_no_form() {
    // A byte that is written twice, one that is read and written, and a name that is gone.
    says(
        "device d 64\npinned x 64\ncopy d[4 at 0, 3 every 0] <- x[0..12] on 0\ncopy d[4 at 0, 1 every 0] <- x[0..4] on 0\n\
         copy d[0..8] <- d[4..12] on 0\ncopy d[0..8] <- d[8..16] on 0\ncopy d[0..8] <- d[0..8] on 0\nhost copy x[0..8] <- x[4..12]\n\
         free d\nmemset d on 0\nkernel k on 0 writes d\nfree x via unregister\nread x\n",
        Language::PyTorch,
        &[
            "# no PyTorch form: copy d[4 at 0, 3 every 0] <- x[0..12] on 0",
            "d.as_strided((1, 4), (0, 1), 0).copy_(x[0:4].reshape(1, 4), non_blocking=True)",
            "# no PyTorch form: copy d[0..8] <- d[4..12] on 0",
            "d[0:8].copy_(d[8:16], non_blocking=True)",
            "d[0:8].copy_(d[0:8], non_blocking=True)",
            "# no PyTorch form: host copy x[0..8] <- x[4..12]",
            "del d",
            "# no PyTorch form: memset d 0 on 0",
            "kernel(0)  # kernel k on 0 writes d",
            "x.sum()  # read x",
        ],
    );
    // Sides that differ, a stride of 0 over and over.
    let all = i64::MAX;
    let far = format!(
        "device d 64\npinned x 64\ncopy d[0..1] <- x[1 at 0, {all} every 0, {all} every 0, {all} every 0] on 0\n"
    );
    assert!(code(&far, Language::PyTorch).contains("# no PyTorch form: copy d[0..1]"));
}

#[test]
fn where_pytorch_takes_another_stream_the_program_stands_beside_it() {
    // A tensor's device has a current stream of its own; and rows of host memory are made one piece by the thread.
    says(
        "stream s\ndevice d 64 on cuda:1\ndevice e 64\npinned x 64\ncopy d <- x on s\nmemset d on s\ncopy e <- x on s\n\
         copy e[0..8] <- x[4 at 0, 2 every 8] on s\ncopy e[4 at 0, 2 every 8] <- x[0..8] on s\ncopy e[0..8] <- e[4 at 32, 2 every 8] on s\nread e\nhost copy x <- e\n",
        Language::PyTorch,
        &[
            "with torch.cuda.stream(s): d.copy_(x, non_blocking=True)  # copy d <- x on s",
            "with torch.cuda.stream(s): d.fill_(0)  # memset d 0 on s",
            "with torch.cuda.stream(s): e.copy_(x, non_blocking=True)",
            "with torch.cuda.stream(s): e[0:8].copy_(x.as_strided((2, 4), (8, 1), 0).reshape(8), non_blocking=True)  # copy e[0..8] <- \
             x[4 at 0, 2 every 8] on s",
            "with torch.cuda.stream(s): e.as_strided((2, 4), (8, 1), 0).copy_(x[0:8].reshape(2, 4), non_blocking=True)",
            "with torch.cuda.stream(s): e[0:8].copy_(e.as_strided((2, 4), (8, 1), 32).reshape(8), non_blocking=True)",
            "x.copy_(e)  # host copy x <- e",
        ],
    );
}

#[test]
fn the_host_touches_what_it_reaches() {
    says(
        "device d 64\npinned x 64\nread d\nwrite d\nhost copy x <- d\nread x[64..64]\nread x[8..9]\nhost copy x[0..8] <- x[4..12]\n",
        Language::Cuda,
        &[
            "// no CUDA form: read d",
            "// no CUDA form: write d",
            "// no CUDA form: host copy x <- d",
            "(void)(x + 64);  // read x[64..64]",
            "(void)*(volatile char *)(x + 8);  // read x[8..9]",
            "memmove(x, x + 4, 8);",
        ],
    );
}

#[test]
fn a_pool_gets_its_memory_back_on_its_own_device() {
    says(
        "device d 64 on cuda:1 via pool home 0@1\nmemset d on 0\nfree d\n",
        Language::Cuda,
        &[
            "cudaSetDevice(0);",
            "cudaMemsetAsync(d, 0, 64, 0);",
            "cudaSetDevice(1);",
            "cudaFreeAsync(d, 0);  // free d",
        ],
    );
}

#[test]
fn an_event_that_changes_its_device_is_made_anew() {
    // An event is of one device, and only that device's streams record it.
    let moves = "stream a\nstream b on cuda:1\nspawn w\nrecord e on a\nrecord e on a\nw: record e on b\nevent e\nrecord e on a\njoin w\n";
    says(
        moves,
        Language::Cuda,
        &[
            "cudaEventDestroy(e); cudaEventCreateWithFlags(&e, cudaEventDisableTiming); cudaEventRecord(e, b);  // record e on b",
            "cudaEventRecord(e, a);",
            "cudaEventRecord(e, a);",
            "cudaEventCreateWithFlags(&e, cudaEventDisableTiming);",
            "cudaEventRecord(e, a);",
        ],
    );
    says(
        moves,
        Language::PyTorch,
        &[
            "def w_calls():",
            "global e",
            "e = torch.cuda.Event(); e.record(b)  # record e on b",
            "e.record(a)",
            "e.record(a)",
        ],
    );
}

#[test]
fn a_capture_allows_what_stands_within_it() {
    let asks = "stream s\nstream r\ncapture s\nquery r ready\nend capture s as g\n";
    says(asks, Language::Cuda, &["cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);"]);
    says(
        asks,
        Language::PyTorch,
        &["with torch.cuda.stream(s): g.capture_begin(capture_error_mode=\"relaxed\")"],
    );
    // PyTorch's allocator sees to that itself.
    let makes = "stream s\ncapture s\ndevice d 8\nend capture s as g\n";
    says(makes, Language::Cuda, &["cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);"]);
    says(makes, Language::PyTorch, &["with torch.cuda.stream(s): g.capture_begin()"]);
    let plain = "stream s\ncapture s\nkernel on s\nend capture s as g\nsync s\n";
    says(plain, Language::Cuda, &["cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);"]);
    // A stream that was drawn in is captured too: nobody waits for it.
    let drawn = "stream s\nstream r\npinned x 8\ndevice d 8\ncapture s\nrecord e on s\nwait e on r\ncopy d <- x blocking on r\nrecord f on r\n\
                 wait f on s\nend capture s as g\ncopy d <- x blocking on r\n";
    says(
        drawn,
        Language::Cuda,
        &[
            "cudaMemcpyAsync(d, x, 8, cudaMemcpyHostToDevice, r);",
            "cudaMemcpyAsync(d, x, 8, cudaMemcpyHostToDevice, r); cudaStreamSynchronize(r);  // copy d <- x blocking on r",
        ],
    );
}

/// What stands before a line: the calls that its thread waits for.
#[track_caller]
fn waits(program: &str, line: &str, after: &[&str]) {
    let code = code(program, Language::Cuda);
    let lines: Vec<&str> = code.lines().map(str::trim_start).collect();
    let at = lines.iter().position(|l| *l == line).unwrap_or_else(|| panic!("{line}\n{code}"));
    let turns = |l: &&&str| l.contains(".wait();  // after: ") || l.starts_with("cudaSetDevice");
    let mut told: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .take_while(turns)
        .filter_map(|l| l.split_once("// after: "))
        .map(|(_, of)| of)
        .collect();
    told.reverse();
    assert_eq!(told, after, "{code}");
}

#[test]
fn stream_0_and_copies_between_devices_wait_for_their_turn() {
    // A sync of stream 0 is one of the blocking streams too.
    waits(
        "stream b blocking\ndevice d 8\nspawn w\nmemset d on b\nw: sync 0\njoin w\n",
        "cudaStreamSynchronize(0);",
        &["memset d 0 on b"],
    );
    // A blocking peer copy comes after the work of all devices' streams that are no non-blocking ones, and before what comes later.
    let peer = "stream b blocking\nstream c blocking on cuda:1\ndevice d 8\ndevice o 8 on cuda:1\nspawn w\nmemset d on b\n\
                w: copy o <- d blocking on 0@1 peer\nmemset o on c\njoin w\n";
    waits(peer, "cudaMemcpyPeer(o, 1, d, 0, 8);", &["memset d 0 on b"]);
    waits(peer, "cudaMemsetAsync(o, 0, 8, c);", &["copy o <- d blocking peer"]);
    // Stream 0 waits for a new blocking stream, which comes after what was before it.
    waits(
        "device d 8\nspawn w\nstream b blocking\nw: memset d on 0\njoin w\n",
        "cudaMemsetAsync(d, 0, 8, 0);",
        &["stream b blocking"],
    );
}

#[test]
fn launches_of_a_graph_and_syncs_of_a_device_keep_their_order() {
    waits(
        "stream s\nstream r\nspawn w\ncapture s\nkernel on s\nend capture s as g\nlaunch g on s\nw: launch g on r\njoin w\n",
        "cudaGraphLaunch(g, r);",
        &["launch g on s"],
    );
    // What was before a stream was made is before what waits for the stream.
    waits("spawn w\nstream s\nw: sync cuda:0\njoin w\n", "cudaDeviceSynchronize();", &["stream s"]);
}

#[test]
fn memory_that_is_had_again_is_freed_before() {
    waits(
        "device a 8 via pool home 0\nspawn w\nw: free a\ndevice b 8 via pool home 0 reuse a\njoin w\n",
        "cudaMallocAsync(&b, 8, 0);  // device b 8 on cuda:0 via pool home 0 reuse a",
        &["free a"],
    );
}

#[test]
fn who_was_drawn_into_a_capture_waits_for_its_end() {
    // Else the kernel, and what waits for the event, would be captured.
    let drawn = "stream s\nstream r\nspawn w\ncapture s\nrecord e on s\nwait e on r\nrecord f on r\nwait f on s\nend capture s as g\n\
                 w: kernel k on r for 1ns\njoin w\n";
    waits(drawn, "k<<<1, 1, 0, r>>>(1);  // kernel k on r for 1ns", &["end capture s as g"]);
    let asked =
        "stream s\nstream r\nspawn w\ncapture s\nrecord e on s\nend capture s as g\nw: wait e on r\njoin w\n";
    waits(asked, "cudaStreamWaitEvent(r, e, 0);", &["end capture s as g"]);
}

#[test]
fn a_thread_that_calls_on_is_not_joined() {
    // Its later calls may wait for ours.
    let on =
        "stream s\nspawn w\nw: event e\nw: record e on s\njoin w\nevent f\nw: sync event f\njoin w\njoin w\n";
    says(
        on,
        Language::Cuda,
        &[
            "cudaEventRecord(e, s);",
            "turn.count_down();",
            "turn.wait();  // after: record e on s",
            ";  // join w",
            "cudaEventCreateWithFlags(&f, cudaEventDisableTiming);",
            "w.join();",
            ";  // join w",
        ],
    );
    says(
        on,
        Language::PyTorch,
        &[
            "turn.wait()  # after: record e on s",
            "pass  # join w",
            "f = torch.cuda.Event()",
            "w.join()",
            "pass  # join w",
        ],
    );
}

#[test]
fn what_asks_for_a_streams_end_waits_for_what_was_called_on_it() {
    // A blocking peer copy stands among the work of every device: their ends and streams 0 are waited for with it.
    let peer = "stream s\npinned x 8\npinned y 8\nspawn w\ncopy x <- y blocking on 0 peer\n";
    waits(&format!("{peer}w: sync cuda:1\n"), "cudaDeviceSynchronize();", &["copy x <- y blocking peer"]);
    waits(&format!("{peer}w: sync 0@1\n"), "cudaStreamSynchronize(0);", &["copy x <- y blocking peer"]);
    // A pool asks the streams that were noted when it gets its memory back.
    let noted =
        "stream s\npinned x 8 via pinned_pool\ndevice d 8\nspawn w\ncopy d <- x on s\nw: kernel k on s\n";
    waits(
        &format!("{noted}free x\npinned y 8 via pinned_pool reuse x\n"),
        "cudaFreeHost(x);  // free x",
        &["kernel k on s"],
    );
    let marked =
        "stream s\ndevice d 8 via pool home s\nstream r\nspawn w\nrecord_stream d on r\nw: kernel k on r\n";
    waits(&format!("{marked}free d\n"), "cudaFreeAsync(d, s);  // free d", &["kernel k on r"]);
}

#[test]
fn no_other_thread_breaks_a_capture() {
    // Who waits for the stream, for one that is drawn in, or for the device does so before or after.
    let captured = "capture s\nrecord e on s\nwait e on r\nrecord f on r\nwait f on s\nend capture s as g\n";
    let streams = "stream s blocking\nstream r\nstream q on cuda:1\nspawn w\n";
    let begin = "cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);";
    for asks in ["sync s", "query s ready", "sync cuda:0"] {
        waits(&format!("{streams}w: {asks}\n{captured}"), begin, &[asks]);
    }
    waits(&format!("{streams}w: sync r\n{captured}"), "cudaStreamWaitEvent(r, e, 0);", &["sync r"]);
    waits(&format!("{streams}w: wait x on 0@1\n{captured}"), begin, &["wait x on 0@1"]);
    waits(
        &format!("{streams}{captured}w: wait x on 0@1\n"),
        "cudaStreamWaitEvent(0, x, 0);",
        &["end capture s as g"],
    );
    // Only a relaxed capture is ended by another thread than began it.
    says(&format!("{streams}capture s\nkernel on s\nw: end capture s as g\n"), Language::Cuda, &[begin]);
}
