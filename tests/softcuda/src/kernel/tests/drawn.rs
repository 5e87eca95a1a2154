//! Modules of functions drawn at random compute what the list of their steps says.

use std::fmt::Write;

use super::{answer, calls};

/// Numbers from a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// What a function drawn at random does: each step makes a value of those before it, of 32 or of 64 bits.
enum Step {
    Constant(u64),
    Two(&'static str, bool, usize, usize),
    /// The first where the second is less than the third.
    Chosen(usize, usize, usize),
    /// Of a function before this one, only where the first value is odd: what it gives, or the value.
    Call(usize, usize, Vec<usize>),
    /// Through the function's own local memory: written at one place and read at another.
    Local(usize, u64, u64),
    /// To itself, with a counter one less, as long as that is not 0.
    Again(usize),
}

struct Drawn {
    /// Whether each parameter is a register; the first counts how often it may call itself.
    params: Vec<bool>,
    is_register: bool,
    steps: Vec<Step>,
}

const OPS: [&str; 8] = ["add", "sub", "mul.lo", "and", "or", "xor", "min", "max"];
const SLOTS: u64 = 4;

fn drawn(rng: &mut Rng, before: &[Drawn]) -> Drawn {
    let params: Vec<bool> = (0..2 + rng.below(3)).map(|_| rng.below(2) == 0).collect();
    let mut steps: Vec<Step> = vec![Step::Constant(rng.below(u64::MAX))];
    for _ in 0..3 + rng.below(8) {
        let n = (params.len() + steps.len()) as u64;
        let mut any = || usize::try_from(rng.below(n)).expect("few");
        let (a, b, c) = (any(), any(), any());
        let which = rng.below(8);
        steps.push(match which {
            0 => Step::Constant(rng.below(u64::MAX)),
            1 => Step::Chosen(a, b, c),
            2 => Step::Local(a, rng.below(SLOTS), rng.below(SLOTS)),
            3 if rng.below(2) == 0 => Step::Again(a),
            3 | 4 if !before.is_empty() => {
                let f = usize::try_from(rng.below(before.len() as u64)).expect("few");
                let args = (0..before[f].params.len()).map(|_| usize::try_from(rng.below(n)).expect("few"));
                Step::Call(f, a, args.collect())
            }
            _ => Step::Two(OPS[usize::try_from(rng.below(8)).expect("few")], rng.below(2) == 0, a, b),
        });
    }
    Drawn { params, is_register: rng.below(2) == 0, steps }
}

/// From the list of steps, without any PTX.
fn evaluated(all: &[Drawn], f: usize, args: &[u64]) -> u64 {
    let mut values = args.to_vec();
    values[0] %= 3;
    let mut local = [0xcdcd_cdcd_cdcd_cdcdu64; 4];
    for step in &all[f].steps {
        let value = match step {
            Step::Constant(bits) => *bits,
            Step::Two(op, is_wide, a, b) => {
                let cut = if *is_wide { u64::MAX } else { u64::from(u32::MAX) };
                let (a, b) = (values[*a] & cut, values[*b] & cut);
                let bits = match *op {
                    "add" => a.wrapping_add(b),
                    "sub" => a.wrapping_sub(b),
                    "mul.lo" => a.wrapping_mul(b),
                    "and" => a & b,
                    "or" => a | b,
                    "xor" => a ^ b,
                    "min" => a.min(b),
                    _ => a.max(b),
                };
                bits & cut
            }
            Step::Chosen(a, b, c) => values[if values[*b] < values[*c] { *a } else { *b }],
            Step::Call(g, a, _) if values[*a] & 1 == 0 => values[*a],
            Step::Call(g, _, args) => {
                let args: Vec<u64> = args.iter().map(|i| values[*i]).collect();
                evaluated(all, *g, &args)
            }
            Step::Local(a, to, from) => {
                local[usize::try_from(*to).expect("few")] = values[*a];
                local[usize::try_from(*from).expect("few")]
            }
            Step::Again(a) if values[0] == 0 => values[*a],
            Step::Again(a) => {
                let mut args = values[..all[f].params.len()].to_vec();
                (args[0], args[1]) = (values[0] - 1, values[*a]);
                evaluated(all, f, &args)
            }
        };
        values.push(value);
    }
    values.iter().fold(0, |sum, v| sum.wrapping_mul(31).wrapping_add(*v))
}

/// A call of `f` whose result goes to a register; arguments that are parameters there are parameters here, by turns with registers.
fn call_of(out: &mut String, f: usize, drawn: &Drawn, guard: &str, to: &str, args: &[String]) {
    out.push_str("{ ");
    let mut list = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if (i + f).is_multiple_of(3) {
            list.push(arg.clone());
        } else {
            let _ = write!(out, ".param .b64 x{i}; st.param.b64 [x{i}], {arg}; ");
            list.push(format!("x{i}"));
        }
    }
    let list = list.join(", ");
    if drawn.is_register {
        let _ = writeln!(out, "{guard} call ({to}), f{f}, ({list}); }}");
    } else {
        let _ = writeln!(
            out,
            ".param .b64 y; st.param.b64 [y], {to}; {guard} call.uni (y), f{f}, ({list}); ld.param.b64 {to}, [y]; }}"
        );
    }
}

fn written(all: &[Drawn]) -> String {
    let mut text = String::new();
    for (f, drawn) in all.iter().enumerate() {
        let space = |is_register: bool| if is_register { ".reg" } else { ".param" };
        let params: Vec<String> =
            drawn.params.iter().enumerate().map(|(i, r)| format!("{} .b64 p{i}", space(*r))).collect();
        let _ = writeln!(text, ".func ({} .b64 r) f{f}({}) {{", space(drawn.is_register), params.join(", "));
        let n = drawn.params.len() + drawn.steps.len();
        let _ = writeln!(text, ".local .align 8 .b8 own[{}];", 8 * SLOTS);
        let _ = writeln!(text, ".reg .b64 %v<{n}>, %s, %t; .reg .b32 %h<3>; .reg .pred %p;");
        for (i, is_register) in drawn.params.iter().enumerate() {
            let _ = if *is_register {
                writeln!(text, "mov.b64 %v{i}, p{i};")
            } else {
                writeln!(text, "ld.param.b64 %v{i}, [p{i}];")
            };
        }
        let _ = writeln!(text, "rem.u64 %v0, %v0, 3;");
        for (k, step) in drawn.steps.iter().enumerate() {
            let to = k + drawn.params.len();
            let _ = match step {
                Step::Constant(bits) => writeln!(text, "mov.b64 %v{to}, {bits};"),
                Step::Two(op, true, a, b) => {
                    let ty = if matches!(*op, "and" | "or" | "xor") { "b64" } else { "u64" };
                    writeln!(text, "{op}.{ty} %v{to}, %v{a}, %v{b};")
                }
                Step::Two(op, false, a, b) => {
                    let ty = if matches!(*op, "and" | "or" | "xor") { "b32" } else { "u32" };
                    writeln!(
                        text,
                        "cvt.u32.u64 %h0, %v{a}; cvt.u32.u64 %h1, %v{b}; {op}.{ty} %h2, %h0, %h1; cvt.u64.u32 %v{to}, %h2;"
                    )
                }
                Step::Chosen(a, b, c) => {
                    writeln!(text, "setp.lt.u64 %p, %v{b}, %v{c}; selp.b64 %v{to}, %v{a}, %v{b}, %p;")
                }
                Step::Local(a, slot, from) => {
                    writeln!(
                        text,
                        "mov.u64 %t, own; st.local.u64 [own+{}], %v{a}; cvta.local.u64 %t, %t; ld.u64 %v{to}, [%t+{}];",
                        8 * slot,
                        8 * from
                    )
                }
                Step::Call(g, a, args) => {
                    let args: Vec<String> = args.iter().map(|i| format!("%v{i}")).collect();
                    let _ =
                        writeln!(text, "and.b64 %t, %v{a}, 1; setp.ne.u64 %p, %t, 0; mov.b64 %v{to}, %v{a};");
                    call_of(&mut text, *g, &all[*g], "@%p", &format!("%v{to}"), &args);
                    Ok(())
                }
                Step::Again(a) => {
                    let mut args: Vec<String> = (0..drawn.params.len()).map(|i| format!("%v{i}")).collect();
                    (args[0], args[1]) = ("%s".to_owned(), format!("%v{a}"));
                    let _ = writeln!(
                        text,
                        "sub.u64 %s, %v0, 1; setp.eq.u64 %p, %v0, 0; mov.b64 %v{to}, %v{a}; @%p bra $over{k};"
                    );
                    call_of(&mut text, f, drawn, "", &format!("%v{to}"), &args);
                    writeln!(text, "$over{k}:")
                }
            };
        }
        let _ = writeln!(text, "mov.b64 %s, 0;");
        for i in 0..n {
            let _ = writeln!(text, "mul.lo.u64 %s, %s, 31; add.u64 %s, %s, %v{i};");
        }
        let _ = writeln!(
            text,
            "{} ret; }}",
            if drawn.is_register { "mov.b64 r, %s;" } else { "st.param.b64 [r], %s;" }
        );
    }
    text
}

#[test]
fn modules_drawn_at_random_compute_what_they_say() {
    let mut n_calls = 0;
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let mut all = Vec::new();
        for _ in 0..1 + rng.below(5) {
            let next = drawn(&mut rng, &all);
            all.push(next);
        }
        let last = all.len() - 1;
        n_calls += all
            .iter()
            .flat_map(|f| &f.steps)
            .filter(|s| matches!(s, Step::Call(..) | Step::Again(_)))
            .count();
        let args: Vec<u64> = all[last].params.iter().map(|_| rng.below(u64::MAX)).collect();
        let mut text = written(&all);
        if all[last].is_register {
            // `calls` takes what comes by a parameter.
            let params: Vec<String> = (0..args.len()).map(|i| format!(".param .b64 p{i}")).collect();
            let loads: String = (0..args.len()).map(|i| format!("ld.param.b64 %q{i}, [p{i}]; ")).collect();
            let list: Vec<String> = (0..args.len()).map(|i| format!("%q{i}")).collect();
            let _ = writeln!(
                text,
                ".func (.param .b64 r) outer({}) {{ .reg .b64 %q<{}>, %o; {loads} call (%o), f{last}, ({}); st.param.b64 [r], %o; }}",
                params.join(", "),
                args.len(),
                list.join(", ")
            );
            text.push_str(&calls("outer", args.len()));
        } else {
            // Registers as formals are given values from parameters too.
            text.push_str(&calls(&format!("f{last}"), args.len()));
        }
        let found = answer(&text, &args);
        assert_eq!(found, Ok(evaluated(&all, last, &args)), "seed {seed}:\n{text}");
    }
    assert!(n_calls > 500, "{n_calls}");
}
