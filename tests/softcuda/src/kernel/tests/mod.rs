//! Functions and their calls: hand-written PTX beside the same in Rust, and hostile modules; `drawn` has modules drawn at random.

mod drawn;

use std::fmt::Write;

use super::{Alone, Body, Kernel, Shape, Stop, exec, load};
use crate::code::Code;

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// Where the memory of these tests begins.
const BASE: u64 = 0x1000;

fn loaded(text: &str) -> Result<Kernel, Code> {
    let kernels = load(&format!("{HEAD}{text}"), 12020, (8, 0))?;
    Ok(Kernel::clone(kernels.last().expect("an entry")))
}

fn ran(kernel: &Kernel, threads: u32, args: &[u64], memory: &mut [u8], steps: u64) -> Result<(), Stop> {
    let Body::Ptx(program) = &kernel.body else { panic!("{} has a stand-in", kernel.name) };
    let args: Vec<u8> = args.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(args.len(), kernel.param_bytes());
    exec::run(
        program,
        Shape { grid: [1; 3], block: [threads, 1, 1], shared: 0 },
        &args,
        &mut Alone { base: BASE, bytes: memory },
        steps,
    )
}

/// What an entry `k` writes for its arguments: it gets the address of the answer, then them.
fn answer(text: &str, args: &[u64]) -> Result<u64, Code> {
    let kernel = loaded(text)?;
    let mut memory = [0; 64];
    let args: Vec<u64> = std::iter::once(BASE).chain(args.iter().copied()).collect();
    ran(&kernel, 1, &args, &mut memory, 1_000_000).map_err(|stop| stop.0)?;
    Ok(u64::from_le_bytes(memory[..8].try_into().expect("eight bytes")))
}

/// An entry that answers what a function of so many words of 64 bits gives.
fn calls(name: &str, n: usize) -> String {
    let params: String = (0..n).map(|i| format!(", .param .u64 a{i}")).collect();
    let mut body = String::new();
    for i in 0..n {
        let _ = writeln!(body, "ld.param.u64 %rd{}, [a{i}];", i + 1);
    }
    body.push_str("{\n");
    for i in 0..n {
        let _ = writeln!(body, ".param .b64 param{i}; st.param.b64 [param{i}+0], %rd{};", i + 1);
    }
    let list: Vec<String> = (0..n).map(|i| format!("param{i}")).collect();
    format!(
        ".visible .entry k(.param .u64 out{params}) {{ .reg .b64 %rd<{}>; ld.param.u64 %rd0, [out];\n{body}.param .b64 retval0;\n\
         call.uni (retval0), {name}, ({});\nld.param.b64 %rd1, [retval0+0];\n}}\nst.global.u64 [%rd0], %rd1; ret; }}\n",
        n + 2,
        list.join(", "),
    )
}

const FACTORIAL: &str = "
.func (.param .b64 r) factorial(.param .b64 n) {
    .reg .pred %p; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [n];
    setp.lt.u64 %p, %rd1, 2;
    @%p bra $one;
    sub.s64 %rd2, %rd1, 1;
    { .reg .b32 temp_param_reg; .param .b64 param0; st.param.b64 [param0+0], %rd2; .param .b64 retval0;
      call.uni (retval0), factorial, (param0); ld.param.b64 %rd3, [retval0+0]; }
    mul.lo.s64 %rd3, %rd3, %rd1;
    st.param.b64 [r+0], %rd3;
    ret;
$one:
    st.param.b64 [r], 1;
}
";

const ACKERMANN: &str = "
.func (.reg .b64 r) ackermann(.reg .b64 m, .reg .b64 n) {
    .reg .pred %p<3>; .reg .b64 %t<3>;
    setp.eq.u64 %p0, m, 0;
    @!%p0 bra $more;
    add.u64 r, n, 1;
    ret;
$more:
    sub.u64 %t0, m, 1;
    setp.eq.u64 %p1, n, 0;
    @%p1 call (r), ackermann, (%t0, 1);
    @%p1 ret;
    sub.u64 %t1, n, 1;
    call (%t2), ackermann, (m, %t1);
    call (r), ackermann, (%t0, %t2);
}
";

/// Declared first, so that each can call the other.
const PARITY: &str = "
.func (.param .b64 r) is_odd(.param .b64 _);
.func (.param .b64 r) is_even(.param .b64 n) {
    .reg .pred %p; .reg .b64 %a, %b;
    ld.param.u64 %a, [n];
    mov.u64 %b, 1;
    setp.eq.u64 %p, %a, 0;
    @%p bra $done;
    sub.u64 %a, %a, 1;
    .param .b64 p; .param .b64 q;
    st.param.b64 [p], %a;
    call (q), is_odd, (p);
    ld.param.b64 %b, [q];
$done:
    st.param.b64 [r], %b;
}
.func (.param .b64 answer) is_odd(.param .b64 count) {
    .reg .pred %p; .reg .b64 %a, %b;
    ld.param.u64 %a, [count];
    mov.u64 %b, 0;
    setp.eq.u64 %p, %a, 0;
    @%p bra $done;
    sub.u64 %a, %a, 1;
    .param .b64 p; .param .b64 q;
    st.param.b64 [p], %a;
    call (q), is_even, (p);
    ld.param.b64 %b, [q];
$done:
    st.param.b64 [answer], %b;
}
";

/// A struct of three words in and out, and a word of 32 bits that is kept signed.
const ROTATE: &str = "
.func (.param .align 16 .b8 r[24]) rotate(.param .align 16 .b8 s[24], .param .b32 by) {
    .reg .b64 %a<3>; .reg .s64 %w; .reg .b32 %b;
    ld.param.v2.u64 {%a0, %a1}, [s];
    ld.param.u64 %a2, [s+16];
    ld.param.s32 %w, [by];
    add.s64 %a0, %a0, %w;
    st.param.b64 [r], %a1;
    st.param.b64 [r+8], %a2;
    st.param.b64 [r+16], %a0;
}
.func (.param .b64 r) f(.param .b64 x, .param .b64 y, .param .b64 z) {
    .reg .b64 %a<3>; .reg .b32 %b;
    ld.param.u64 %a0, [x]; ld.param.u64 %a1, [y]; ld.param.u64 %a2, [z];
    mov.u32 %b, -7;
    {
        .param .align 16 .b8 in[24]; .param .align 16 .b8 out[24];
        st.param.v2.u64 [in], {%a0, %a1}; st.param.b64 [in+16], %a2;
        call (out), rotate, (in, %b);
        call (in), rotate, (out, 5);
        ld.param.b64 %a0, [in]; ld.param.b64 %a1, [in+8]; ld.param.b64 %a2, [in+16];
    }
    mul.lo.u64 %a1, %a1, 3; mul.lo.u64 %a2, %a2, 5;
    add.u64 %a0, %a0, %a1; add.u64 %a0, %a0, %a2;
    st.param.b64 [r], %a0;
}
";

/// Fills an array of its own by a pointer that it gives away, deep below another one's.
const LOCAL: &str = "
.func put(.param .b64 at, .param .b64 value) {
    .local .align 8 .b8 noise[40]; .reg .b64 %a<3>;
    mov.u64 %a2, noise; st.local.u64 [%a2+32], -1; st.local.u64 [noise], -1;
    ld.param.u64 %a0, [at]; ld.param.u64 %a1, [value];
    st.u64 [%a0], %a1;
}
.func (.param .b64 r) f(.param .b64 n, .param .b64 start) {
    .local .align 16 .b8 depot[64];
    .reg .b64 %SP; .reg .b64 %SPL; .reg .b64 %rd<9>; .reg .pred %p;
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    ld.param.u64 %rd0, [n]; ld.param.u64 %rd1, [start]; mov.u64 %rd2, 0;
$fill:
    shl.b64 %rd3, %rd2, 3; add.u64 %rd4, %SP, %rd3; mul.lo.u64 %rd5, %rd1, %rd2;
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd4; st.param.b64 [b], %rd5; call put, (a, b); }
    add.u64 %rd2, %rd2, 1; setp.lt.u64 %p, %rd2, %rd0; @%p bra $fill;
    mov.u64 %rd6, 0; mov.u64 %rd2, 0;
$sum:
    shl.b64 %rd3, %rd2, 3; add.u64 %rd4, %SPL, %rd3; ld.local.u64 %rd5, [%rd4];
    cvta.to.local.u64 %rd7, %SP; add.u64 %rd7, %rd7, %rd3; ld.local.u64 %rd8, [%rd7];
    add.u64 %rd6, %rd6, %rd5; xor.b64 %rd6, %rd6, %rd8;
    add.u64 %rd2, %rd2, 1; setp.lt.u64 %p, %rd2, %rd0; @%p bra $sum;
    st.param.b64 [r], %rd6;
}
";

#[test]
fn functions_compute_what_the_same_computes_in_rust() {
    fn ackermann(m: u64, n: u64) -> u64 {
        match (m, n) {
            (0, n) => n + 1,
            (m, 0) => ackermann(m - 1, 1),
            (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
        }
    }
    for n in 0..20u64 {
        let text = format!("{FACTORIAL}{}", calls("factorial", 1));
        assert_eq!(answer(&text, &[n]), Ok((1..=n).product()), "{n}!");
        let text = format!("{PARITY}{}", calls("is_even", 1));
        assert_eq!(answer(&text, &[n]), Ok(u64::from(n % 2 == 0)), "{n}");
    }
    for (m, n) in [(0, 4), (1, 3), (2, 3), (3, 3)] {
        let text = format!("{ACKERMANN}{}", calls("ackermann", 2));
        assert_eq!(answer(&text, &[m, n]), Ok(ackermann(m, n)), "{m} {n}");
    }
    for [x, y, z] in [[1, 2, 3], [u64::MAX, 0, 1 << 63], [9, 8, 7]] {
        // Rotated twice: z, x - 7, y + 5.
        let rotated = [z, x.wrapping_sub(7), y.wrapping_add(5)];
        let sum =
            rotated.iter().zip([1, 3, 5]).fold(0u64, |sum, (a, by)| sum.wrapping_add(a.wrapping_mul(by)));
        assert_eq!(answer(&format!("{ROTATE}{}", calls("f", 3)), &[x, y, z]), Ok(sum));
    }
    for (n, start) in [(1, 3), (8, 11), (5, 1 << 60)] {
        let expected =
            (0..n).map(|i: u64| i.wrapping_mul(start)).fold(0u64, |sum, v| sum.wrapping_add(v) ^ v);
        assert_eq!(answer(&format!("{LOCAL}{}", calls("f", 2)), &[n, start]), Ok(expected));
    }
    // One more than there is room for lies outside of all that the thread has.
    assert_eq!(answer(&format!("{LOCAL}{}", calls("f", 2)), &[9, 1]), Err(Code::ILLEGAL_ADDRESS));
}

/// The threads of a block meet in a function, and its shared memory is seen through a generic address; one leaves from there.
#[test]
fn threads_meet_and_end_in_functions() {
    let text = "
.func (.param .b64 r) meet(.param .b64 part, .param .b32 i) {
    .reg .b64 %a<4>; .reg .b32 %i<3>; .reg .pred %p;
    ld.param.u64 %a0, [part]; ld.param.u32 %i0, [i];
    setp.eq.u32 %p, %i0, 3;
    @%p exit;
    mul.wide.u32 %a1, %i0, 4; add.u64 %a1, %a0, %a1;
    mul.lo.u32 %i1, %i0, 10;
    st.u32 [%a1], %i1;
    bar.sync 0;
    xor.b32 %i0, %i0, 1; mul.wide.u32 %a1, %i0, 4; add.u64 %a1, %a0, %a1;
    ld.u32 %a2, [%a1];
    st.param.b64 [r], %a2;
}
.visible .entry k(.param .u64 out) {
    .shared .align 4 .b8 part[32];
    .reg .b64 %a<5>; .reg .b32 %i;
    mov.u64 %a0, part; cvta.shared.u64 %a0, %a0; mov.u32 %i, %tid.x;
    { .param .b64 x; .param .b32 y; .param .b64 z; st.param.b64 [x], %a0; st.param.b32 [y], %i;
      call.uni (z), meet, (x, y); ld.param.b64 %a1, [z]; }
    ld.param.u64 %a2, [out]; mul.wide.u32 %a3, %i, 8; add.u64 %a2, %a2, %a3;
    st.global.u64 [%a2], %a1;
}
";
    let mut memory = [0xff; 48];
    ran(&loaded(text).expect("a module"), 6, &[BASE], &mut memory, 10_000).expect("runs");
    let words: Vec<u64> =
        memory.chunks(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes"))).collect();
    // The neighbour of the thread that left finds what nobody wrote.
    assert_eq!(words, [10, 0, 0xcdcd_cdcd, u64::MAX, 50, 40]);
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let with = |body: &str| {
        let f =
            ".func (.param .b64 r) f(.param .b64 x, .param .b32 y) { st.param.b64 [r], 1; }\n.func g() { }\n";
        let call = ".reg .pred %p<2>; .reg .b64 %a<3>; .reg .b32 %b<2>; .param .b64 s; .param .b32 t; .param .b64 u;";
        loaded(&format!("{f}.visible .entry k(.param .u64 out) {{ {call} {body} ret; }}\n")).map(|_| ())
    };
    for fine in [
        "call (u), f, (s, t);",
        "call.uni (%a0), f, (%a1, 5);",
        "@!%p0 call g;",
        "call g, ();",
        "call (), g, ();",
        "{ .param .b64 s; .param .b32 u; call (s), f, (s, u); }",
    ] {
        assert_eq!(with(fine), Ok(()), "{fine}");
    }
    for refused in [
        "call (u), f, (s);",       // too few
        "call f, (s, t);",         // no place for the result
        "call (u), f, (s, t, t);", // too many
        "call (u), f, (t, s);",    // other sizes
        "call (t), f, (s, t);",
        "call (5), f, (s, t);",    // a result that goes nowhere
        "call (u), h, (s, t);",    // no such function
        "call (u), k, (s);",       // an entry
        "call (u), f, (s, t), p;", // a prototype
        "call (u) f (s, t);",
        "call (u), f, (s t);",
        "call (u), f, (s, );",
        "call.uni.x g;",
        "call %a0, ();",          // by a pointer
        "call (u), f, (out, t);", // the entry's own
        "call (u), f, (s, %tid.x);",
        "st.param.b64 [s+8], %a0;", // outside
        "st.param.b64 [s+1], %a0;",
        "st.param.b64 [s+-8], %a0;",
        "ld.param.v2.u64 {%a0, %a1}, [s];",
        "st.param.b64 [out], %a0;", // what was given
        "st.param.b64 [%a0], %a0;",
        "{ .param .b64 v; } st.param.b64 [v], %a0;", // a scope that is over
        "mov.b64 %a0, s;",
        "{ .param .b64 v; .param .b64 v; }",
        ".reg .b64 %a<2>;",
        "$x: $x:",
        "{",
        "}",
        "mov.u64 { %a0, 1;",
        ".local .align 8 .b8 d[600000];",
        ".param .align 8 .b8 d[100000];",
        ".param .align 8 .b8 d[];",
        ".reg .b64 %z<65536>;",
        ".shared .b8 d[50000];",
        "ld.local.u64 %a0, [out];",
        "bfi.b64 %a0, %a0, %a1, 3;",
        "ld.param.nc.u64 %a0, [out];",
        "ld.global.v4.u64 {%a0, %a1, %a2, %a0}, [%a0];",
        "ld.v2.u64 %a0, [%a0];",
    ] {
        assert_eq!(with(refused), Err(Code::INVALID_PTX), "{refused}");
    }
    let module = |text: &str| loaded(&format!("{text}\n.visible .entry k() {{ }}\n")).map(|_| ());
    let ok = ".func (.param .b64 r) f(.param .b64 x)";
    for (text, fine) in [
        (format!("{ok};"), true), // and nobody calls it
        (format!("{ok}; {ok} {{ st.param.b64 [r], 1; }}"), true),
        (format!(".extern {ok}; .visible {ok};"), true),
        (format!("{ok} {{ }} {ok} {{ }}"), false),
        (format!("{ok}; .func (.param .b32 r) f(.param .b64 x) {{ }}"), false),
        (format!("{ok}; .func f(.param .b64 x) {{ }}"), false),
        (format!("{ok} {{ ld.param.b64 r, [x]; }}"), false),
        (format!("{ok} {{ .reg .b64 %a; ld.param.b64 %a, [r]; }}"), false),
        (format!("{ok} {{ .reg .b64 %a; st.param.b64 [x], %a; }}"), false),
        (format!("{ok} {{ .shared .b8 s[4]; }}"), false),
        (format!("{ok} {{ call g; }} .func g() {{ }}"), false), // not yet known
        (".func g(); .func h() { call g; }".to_owned(), false), // never defined
        (".func (.param .b64 r".to_owned(), false),
        (".func f(.param .b64 x, ) { }".to_owned(), false),
        (".func f(.local .b64 x) { }".to_owned(), false),
        (".func f(.reg .b64 x[2]) { }".to_owned(), false),
        (".func f(.param .b64 x, .param .b64 x) { }".to_owned(), false),
        (".func k() { }".to_owned(), false),
    ] {
        assert_eq!(module(&text).is_ok(), fine, "{text}");
    }
}

#[test]
fn a_launch_that_takes_too_much_ends() {
    let endless = ".func f() { .local .b8 d[2000]; .reg .b64 %a<50>; call f; }\n";
    let deep = ".func f() { call f; }\n";
    let other = ".func g(); .func f() { call g; } .func g() { call f; }\n";
    for text in [endless, deep, other] {
        let kernel = loaded(&format!("{text}.visible .entry k() {{ call f; }}")).expect("a module");
        let ran = ran(&kernel, 2, &[], &mut [], 1_000_000);
        assert_eq!(ran, Err(Stop(Code::HARDWARE_STACK_ERROR)), "{text}");
    }
    // What is called again and again takes its memory once.
    let counts = |local: u32, times: u64| {
        format!(
            ".func (.param .b64 r) f(.param .b64 x) {{ .local .b8 d[{local}]; .reg .b64 %r<9>; ld.param.b64 %r0, [x]; st.param.b64 [r], %r0; }}\n\
             .visible .entry k(.param .u64 out) {{ .reg .b64 %a, %i; .reg .pred %p; ld.param.u64 %a, [out]; mov.u64 %i, 0;\n\
             $x: add.u64 %i, %i, 1; {{ .param .b64 x; .param .b64 y; st.param.b64 [x], %i; call (y), f, (x); ld.param.b64 %i, [y]; }}\n\
             st.global.u64 [%a], %i; setp.lt.u64 %p, %i, {times}; @%p bra $x; }}"
        )
    };
    let ran_to = |text: &str| {
        let mut memory = [0; 8];
        let ran = ran(&loaded(text).expect("a module"), 1, &[BASE], &mut memory, 1_000_000);
        (ran, u64::from_le_bytes(memory))
    };
    assert_eq!(ran_to(&counts(8, 50_000)), (Ok(()), 50_000));
    // And counts what it takes: 6250 instructions for each call.
    let (ran, n) = ran_to(&counts(400_000, u64::MAX));
    assert_eq!(ran, Err(Stop(Code::LAUNCH_TIMEOUT)));
    assert!((150..160).contains(&n), "{n}");
    // So do blocks that do nothing.
    let nothing = ".visible .entry k() { }";
    let shared = ".shared .b8 s[40000]; .visible .entry k() { ret; }";
    for text in [nothing, shared] {
        let kernel = loaded(text).expect("a module");
        let Body::Ptx(program) = &kernel.body else { panic!("no stand-in") };
        let shape = Shape { grid: [0x7fff_ffff, 65535, 65535], block: [1024, 1, 1], shared: 0 };
        let ran = exec::run(program, shape, &[], &mut Alone { base: BASE, bytes: &mut [] }, 2_000_000);
        assert_eq!(ran, Err(Stop(Code::LAUNCH_TIMEOUT)), "{text}");
    }
}

/// Texts of many names, scopes or declarations are read or refused about as fast as they are long.
#[test]
fn long_texts_are_read_in_their_length() {
    let many = |n: usize, of: fn(usize) -> String| (0..n).map(of).collect::<String>();
    for (text, fine) in [
        (many(3000, |i| format!(".func f{i}() {{ .reg .b64 %r<65536>; }}\n")), true),
        (many(3000, |i| format!(".shared .b8 s{i}[]; .func f{i}() {{ }}\n")), true),
        (many(3000, |i| format!(".func f{i}(); \n")), true),
        (format!(".func f() {{ {} }}", many(3000, |i| format!(".reg .b64 %r{i}<20>; "))), true),
        (format!(".func f() {{ {} }}", many(3000, |i| format!(".reg .b64 %r{i}<30>; "))), false),
        // Scopes that are over give back what they took.
        (format!(".func f() {{ {} }}", "{ .reg .b64 %r<60000>; .param .b8 p[60000]; } ".repeat(9)), true),
        (format!(".func f() {{ {} {} }}", "{".repeat(20_000), "}".repeat(20_000)), false),
        (format!(".func f() {}", "{".repeat(20_000)), false),
        (format!(".func f({}) {{ }}", many(9000, |i| format!(".param .b64 p{i}, "))), false),
    ] {
        let loaded = loaded(&format!("{text}\n.visible .entry k() {{ }}\n"));
        assert_eq!(loaded.is_ok(), fine, "{}", &text[..60]);
    }
}

/// Without a token, with one twice, and with two that changed places: read or refused, and what is read runs to some end.
#[test]
fn damaged_modules_neither_panic_nor_hang() {
    let texts = [
        format!("{FACTORIAL}{}", calls("factorial", 1)),
        format!("{ACKERMANN}{}", calls("ackermann", 2)),
        format!("{PARITY}{}", calls("is_even", 1)),
        format!("{ROTATE}{}", calls("f", 3)),
        format!("{LOCAL}{}", calls("f", 2)),
    ];
    let (mut n_read, mut n_refused) = (0, 0);
    for text in &texts {
        for end in (0..text.len()).step_by(3) {
            let _ = loaded_any(&text[..end]);
        }
        let tokens = super::parse::tokens(text);
        for i in 0..tokens.len() {
            for change in 0..4 {
                let (mut tokens, n) = (tokens.clone(), tokens.len());
                match change {
                    0 => drop(tokens.remove(i)),
                    1 => tokens.insert(i, tokens[i].clone()),
                    2 => tokens.swap(i, (i * 7 + 3) % n),
                    _ => tokens[i] = tokens[(i * 13 + 5) % n].clone(),
                }
                let Some(kernel) = loaded_any(&tokens.join(" ")) else {
                    n_refused += 1;
                    continue;
                };
                n_read += 1;
                let args: Vec<u64> = std::iter::once(BASE).chain([3; 9]).collect();
                if kernel.param_bytes().is_multiple_of(8) && kernel.param_bytes() <= 80 {
                    let args = &args[..kernel.param_bytes() / 8];
                    let _ = ran(&kernel, 1, args, &mut [0; 64], 5_000);
                }
            }
        }
    }
    assert!(n_read > 100 && n_refused > 1000, "{n_read} read, {n_refused} refused");
}

fn loaded_any(text: &str) -> Option<Kernel> {
    let kernels = load(&format!("{HEAD}{text}"), 12020, (8, 0)).ok()?;
    kernels.last().map(|kernel| Kernel::clone(kernel))
}

#[test]
fn bits_are_put_in_and_numbers_told_from_none() {
    let one = |inst: &str, a: u64, b: u64| {
        let text = format!(
            ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b) {{ .reg .b64 %r<4>; .reg .f64 %f<2>; .reg .pred %p;\n\
             ld.param.u64 %r0, [out]; ld.param.u64 %r1, [a]; ld.param.u64 %r2, [b]; mov.b64 %f0, %r1; mov.b64 %f1, %r2;\n\
             {inst} st.global.u64 [%r0], %r3; }}"
        );
        answer(&text, &[a, b]).expect("runs")
    };
    let (a, b) = (0x1234_5678_9abc_def0, u64::MAX);
    for (from, count, expected) in [
        (0, 64, a),
        (0, 0, b),
        (8, 4, (b & !0xf00) | (a & 0xf) << 8),
        (60, 64, (b & !(0xf << 60)) | a << 60),
        (64, 8, b),
        (255, 255, b),
        (256 + 8, 256 + 4, (b & !0xf00) | (a & 0xf) << 8), // by their low bytes
    ] {
        assert_eq!(
            one(&format!("bfi.b64 %r3, %r1, %r2, {from}, {count};"), a, b),
            expected,
            "{from} {count}"
        );
    }
    let nan = f64::NAN.to_bits();
    for (a, b, is_nan) in [(0, 0, 0), (nan, 0, 1), (0, nan, 1), (nan, nan, 1)] {
        assert_eq!(one("setp.nan.f64 %p, %f0, %f1; selp.u64 %r3, 1, 0, %p;", a, b), is_nan);
        assert_eq!(one("setp.num.f64 %p, %f0, %f1; selp.u64 %r3, 1, 0, %p;", a, b), 1 - is_nan);
    }
}
