//! The strategies' programs: safe for any request, every byte sent once, and predictions that hang together.

use std::collections::BTreeMap;

use spanlift::advise::{
    self, Decision, Depth, Origin, Request, Strategy, Tensors, factors, map, predict, rank,
};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::program::{Op, Space};
use spanlift::{Bytes, Nanos, Program, sim, us};

fn request(tensors: &str, from: Origin) -> Request {
    Request::new(tensors.split(',').map(|t| t.parse().unwrap()).collect(), from)
}

fn all(from: Origin) -> Vec<Strategy> {
    let mut all = vec![Strategy::Direct, Strategy::A { slots: 2 }, Strategy::B { slots: 3 }];
    for threads in [1, 2, 3, 8] {
        all.push(Strategy::Coalesced { threads });
        if from != Origin::Pinned {
            all.extend([Strategy::Pinned { threads }, Strategy::Ring { threads }]);
        }
    }
    if from == Origin::Pageable {
        all.push(Strategy::Register);
    }
    all
}

/// Bytes of device memory that copies from the host write, overlaps counted once.
fn arrived(program: &Program) -> (i64, i64) {
    let facts = program.check().unwrap();
    let mut spans = Vec::new();
    let mut listed = 0;
    for command in program.commands() {
        if let Op::Copy(copy) = &command.op
            && facts.buffer(copy.dst.buffer).space == Space::Device
        {
            let (lo, hi) = copy.dst.span.bounds().unwrap();
            listed += hi - lo;
            spans.push((copy.dst.buffer.index(), lo, hi));
        }
    }
    spans.sort_unstable();
    let mut unique = 0;
    let mut reached = (usize::MAX, 0);
    for (buffer, lo, hi) in spans {
        let from = if reached.0 == buffer { lo.max(reached.1) } else { lo };
        unique += (hi - from).max(0);
        reached = (buffer, if reached.0 == buffer { hi.max(reached.1) } else { hi });
    }
    (unique, listed)
}

#[test]
fn every_program_is_safe_and_sends_every_byte_once() {
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let sizes: [&[u64]; 5] =
        [&[1], &[4000; 9], &[700_000, 1, 300_000, 262_144, 5], &[9_000_000, 10, 3_000_000], &[1 << 22; 4]];
    let mut n = 0;
    for from in [Origin::Pageable, Origin::Pinned, Origin::File] {
        for (work, back, same_memory) in
            [(0, false, false), (50, false, true), (50, true, false), (0, true, true)]
        {
            let mut request = request("1x1B", from);
            (request.work, request.back, request.same_memory) = (us(work), back, same_memory);
            for sizes in sizes {
                request.tensors = sizes.iter().map(|&n| Tensors { count: 1, bytes: Bytes(n) }).collect();
                for strategy in all(from) {
                    let program = strategy.program(&request, &machine, sizes).unwrap();
                    let report = hazard::check(&program, Mode::Contract).unwrap();
                    assert_eq!(report.verdict(), Verdict::Safe, "{strategy} of {sizes:?}, {request:?}");
                    let total: u64 = sizes.iter().sum();
                    let (unique, listed) = arrived(&program);
                    assert_eq!(listed, total as i64, "{strategy} of {sizes:?}");
                    // Slots are written again and again; everything else has a place of its own.
                    if !matches!(strategy, Strategy::A { .. } | Strategy::B { .. }) {
                        assert_eq!(unique, listed, "{strategy} of {sizes:?}");
                    }
                    let found = predict(strategy, &request, &machine, Depth::FULL).unwrap();
                    let s = found.spent;
                    for busy in [s.calls, s.copies, s.locking, s.link, s.work] {
                        assert!(busy <= found.time, "{strategy}: {found:?}");
                    }
                    n += 1;
                }
            }
        }
    }
    assert!(n > 500, "{n}");
}

/// The bytes that each buffer holds in the end, where the sources `t` (or `x`) are written with bytes of their own.
fn carried(program: &Program, source: char) -> BTreeMap<String, Vec<u8>> {
    let mut text = String::new();
    for line in program.to_text().lines() {
        text += line;
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["write", name] = words[..]
            && let Some(Ok(k)) = name.strip_prefix(source).map(str::parse::<u64>)
        {
            text += &format!(" = seed {k}");
        }
        text.push('\n');
    }
    let program = Program::from_text(&text).unwrap();
    let finals = sim::run(&program, &Machine::default()).unwrap().finals;
    finals.into_iter().map(|f| (program.names().buffer(f.buffer).to_owned(), f.bytes)).collect()
}

/// Whatever a thread waits for of another one's events was told to it by a channel, since records and waits of threads that know
/// nothing of each other may come in any order.
fn threads_tell_of_their_events(program: &Program) -> bool {
    // For each thread, channel and event the commands that it knows of, as one more than the last of each thread.
    type Known = BTreeMap<usize, usize>;
    fn join(known: &mut Known, more: &Known) {
        more.iter().for_each(|(&of, &at)| {
            *known.entry(of).or_default() = at.max(known.get(&of).copied().unwrap_or(0))
        });
    }
    let (mut threads, mut channels) = (BTreeMap::<usize, Known>::new(), BTreeMap::<usize, Known>::new());
    let mut recorded: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    program.commands().iter().enumerate().all(|(at, command)| {
        let thread = command.thread.index();
        threads.entry(thread).or_default().insert(thread, at + 1);
        let mut known = threads[&thread].clone();
        match &command.op {
            Op::ThreadSpawn { thread: of } => join(threads.entry(of.index()).or_default(), &known),
            Op::ThreadJoin { thread: of } => join(&mut known, &threads[&of.index()]),
            Op::Signal { channel } => drop(channels.insert(channel.index(), known.clone())),
            Op::Await { channel } => join(&mut known, &channels[&channel.index()]),
            Op::Record { event, .. } => drop(recorded.insert(event.index(), (thread, at))),
            Op::Wait { event, .. } | Op::EventSync { event } => {
                let (by, when) = recorded[&event.index()];
                return known.get(&by).is_some_and(|&last| when < last);
            }
            _ => {}
        }
        threads.insert(thread, known);
        true
    })
}

/// On the device lies what was sent, byte for byte, and what comes back is what went there.
#[test]
fn every_program_sends_the_bytes_themselves() {
    let machine = Machine::default();
    for sizes in [&[1][..], &[4000; 9], &[700_000, 1, 300_000, 262_144, 5]] {
        for (work, back) in [(0, false), (50, false), (0, true), (50, true)] {
            let mut request = request("1x1B", Origin::Pageable);
            (request.work, request.back) = (us(work), back);
            request.tensors = sizes.iter().map(|&n| Tensors { count: 1, bytes: Bytes(n) }).collect();
            for strategy in all(Origin::Pageable) {
                let program = strategy.program(&request, &machine, sizes).unwrap();
                let of = || format!("{strategy} of {sizes:?}\n{}", program.to_text());
                assert!(threads_tell_of_their_events(&program), "{}", of());
                let found = carried(&program, 't');
                let mut start = 0;
                for (i, &n) in sizes.iter().enumerate() {
                    let n = usize::try_from(n).unwrap();
                    let sent = &found[&format!("t{i}")];
                    assert!(n < 8 || sent.iter().any(|&b| b != sent[0]), "{}", of());
                    let device = match strategy {
                        Strategy::Coalesced { .. } => &found["block"][start..start + n],
                        // A slot holds the last of its items.
                        Strategy::A { slots } | Strategy::B { slots } => {
                            let slots = sizes.len().min(slots as usize);
                            if i + slots < sizes.len() {
                                continue;
                            }
                            &found[&format!("x{}", i % slots)][..n]
                        }
                        _ => &found[&format!("d{i}")],
                    };
                    assert!(sent == device, "{i} of {}", of());
                    // Pipelines bring back what their work made.
                    if back && !matches!(strategy, Strategy::A { .. } | Strategy::B { .. }) {
                        assert!(*sent == found[&format!("y{i}")], "{i} back, of {}", of());
                    }
                    start += n;
                }
            }
        }
    }
}

/// The calls that published rows time, with bytes: what is copied was pinned before, by whichever thread.
#[test]
fn every_row_sends_the_bytes_themselves() {
    let flags = ["pinned", "pin_call", "copy", "non_blocking", "repeat_same", "tensordict"];
    let mut n = 0;
    for (set, threads) in
        (0..64).flat_map(|set| [None, Some(0), Some(2), Some(5)].map(|threads| (set, threads)))
    {
        let mut row = serde_json::json!({"tensors": 3, "bytes_each": 5000, "measured_ms": 1, "pin_threads": threads, "odd": 1});
        for (k, flag) in flags.into_iter().enumerate() {
            row[flag] = (set >> k & 1 == 1).into();
        }
        // Some are refused: what is pinned cannot be pinned.
        let Ok(rows) = advise::rows(serde_json::json!({"rows": [row]}).to_string().as_bytes()) else {
            continue;
        };
        assert_eq!(rows[0].ignored, ["odd"]);
        let program = rows[0].program();
        let verdict = hazard::check(&program, Mode::Typical).unwrap().verdict();
        assert_eq!(verdict, Verdict::Safe, "{row}\n{}", program.to_text());
        let found = carried(&program, 'x');
        for i in 0..3 {
            for name in ["d", "p"].map(|name| format!("{name}{i}")) {
                let of = found.get(&name).is_none_or(|bytes| *bytes == found[&format!("x{i}")]);
                assert!(of, "{name} of {row}\n{}", program.to_text());
            }
        }
        n += usize::from(found.contains_key("d2"));
    }
    assert_eq!(n, 48, "rows that copy");
}

/// Half of the tensors and a bit of arithmetic give what all of them give.
#[test]
fn what_is_carried_on_is_what_the_whole_would_be() {
    let machine = Machine::builtin("a100-pcie4").unwrap();
    // More sizes than are carried on each by itself.
    let sizes = (1..=12).map(|k| format!("{}x{}KB", 130 - 10 * k, k * k)).collect::<Vec<_>>().join(",");
    for (tensors, most) in [
        ("1500x4KB", 0.03),
        ("600x4MB", 0.03),
        ("300x100KB,100x2MB", 0.06),
        ("1x3GiB", 0.03),
        (&*sizes, 0.06),
    ] {
        let request = request(tensors, Origin::Pageable);
        for strategy in all(Origin::Pageable) {
            let quick = Depth { tensors: 100, bytes: 512 << 20 };
            let part = predict(strategy, &request, &machine, quick).unwrap();
            let whole = predict(strategy, &request, &machine, Depth::FULL).unwrap();
            // Gathered tensors cost their bytes, so that fewer of them are all.
            let is_gathered = strategy.name() == "coalesced";
            assert!(whole.is_whole && (is_gathered || !part.is_whole), "{strategy}, {tensors}");
            let off = part.time.0 as f64 / whole.time.0 as f64 - 1.0;
            assert!(off.abs() < most, "{strategy}, {tensors}: {off:+.4}");
            let pinned = |p: &spanlift::advise::Prediction| p.memory.pinned.0 as f64 + 1.0;
            assert!((pinned(&part) / pinned(&whole) - 1.0).abs() < most, "{strategy}, {tensors}");
        }
    }
}

/// Slots are as many and as large as they are, however few of the tensors are looked at.
#[test]
fn what_is_made_once_is_the_same_however_much_is_simulated() {
    let machine = Machine::builtin("gh200-c2c").unwrap();
    let all_of_it = Depth { tensors: 100_000, bytes: 1 << 40 };
    let few = Depth { tensors: 40, bytes: 1500 << 20 };
    let mut n = 0;
    for (tensors, from) in ["200x10240B", "5x1GiB", "3x10MB,2000x100B", "7x4GiB"]
        .into_iter()
        .flat_map(|t| [Origin::Pageable, Origin::Pinned, Origin::File].map(|from| (t, from)))
    {
        for (work, back) in [(0, false), (20_000, false), (0, true), (20_000, true)] {
            let request = Request { work: Nanos(work), back, ..request(tensors, from) };
            for strategy in all(from) {
                let part = predict(strategy, &request, &machine, few).unwrap();
                let whole = predict(strategy, &request, &machine, all_of_it).unwrap();
                assert!(whole.is_whole);
                n += usize::from(!part.is_whole);
                let told = |p: &spanlift::advise::Prediction| {
                    [p.setup.0 as f64, p.memory.pinned.0 as f64, p.memory.device.0 as f64]
                };
                for (part, whole) in told(&part).into_iter().zip(told(&whole)) {
                    let off = (part - whole).abs() / whole.max(1.0);
                    assert!(off < 0.01, "{strategy}, {tensors} from {from:?}, {work} {back}: {part} {whole}");
                }
            }
        }
    }
    assert!(n > 100, "{n}");
}

/// The published rows through the strategies: direct and pinned copies of pageable and pinned tensors.
#[test]
fn predictions_agree_with_the_published_rows() {
    let machine = Machine::default();
    for (tensors, from, strategy, published_ms) in [
        ("1000x4KB", Origin::Pageable, Strategy::Direct, 18.9648),
        ("1000x4MB", Origin::Pageable, Strategy::Direct, 518.5176),
        ("1000x4MB", Origin::Pinned, Strategy::Direct, 346.5747),
        ("1000x4MB", Origin::Pageable, Strategy::Pinned { threads: 1 }, 633.8286),
        // Through a dictionary of tensors, which adds 6.7 ms.
        ("1000x4MB", Origin::Pageable, Strategy::Pinned { threads: 4 }, 355.2753 - 6.74),
    ] {
        let quick = Depth { tensors: 200, bytes: 4 << 30 };
        let found = predict(strategy, &request(tensors, from), &machine, quick).unwrap();
        let off = found.time.as_millis() / published_ms - 1.0;
        assert!(off.abs() < 0.02, "{strategy} of {tensors}: {off:+.4}");
    }
}

#[test]
fn memory_is_what_stands_in_the_program() {
    let machine = Machine::default();
    let request = request("10x3MB", Origin::Pageable);
    let memory = |s: Strategy| predict(s, &request, &machine, Depth::FULL).unwrap().memory;
    let mb = |n: u64| Bytes(n * 1_000_000);
    assert_eq!((memory(Strategy::Direct).pinned, memory(Strategy::Direct).pageable), (Bytes(0), mb(30)));
    // Blocks of powers of two.
    assert_eq!(memory(Strategy::Pinned { threads: 1 }).pinned, Bytes(10 << 22));
    assert_eq!((memory(Strategy::Register).pinned, memory(Strategy::Register).pageable), (mb(30), Bytes(0)));
    assert_eq!(memory(Strategy::A { slots: 2 }).pinned, mb(6));
    assert_eq!(memory(Strategy::A { slots: 2 }).device, mb(6));
    assert_eq!(memory(Strategy::Direct).device, mb(30));
}

/// What is the same memory each time is locked once, before the clock starts, and stays locked.
#[test]
fn memory_is_locked_in_place_as_often_as_it_is_other_memory() {
    let machine = Machine { host_register_per_4k: Nanos(7), ..Machine::default() };
    for (same_memory, expected) in [
        (true, "setup, 7ns cudaHostRegister, 14ns cudaHostRegister, begin, end"),
        (
            false,
            "setup, begin, 7ns cudaHostRegister, 14ns cudaHostRegister, 7ns cudaHostUnregister, 14ns cudaHostUnregister, end",
        ),
    ] {
        let request = Request { same_memory, ..request("1x4096B,1x4097B", Origin::Pageable) };
        let program = Strategy::Register.program(&request, &machine, &[4096, 4097]).unwrap();
        let told = program.commands().iter().filter_map(|c| match &c.op {
            Op::Mark => c.label.as_deref().map(str::to_owned),
            Op::HostWork { time, .. } if time.0 > 0 => {
                Some(format!("{}ns {}", time.0, c.label.as_deref().unwrap_or("")))
            }
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>().join(", "), expected);
    }
}

#[test]
fn the_answer_follows_what_matters() {
    let h200 = Machine::builtin("h200-pcie5").unwrap();
    let gh200 = Machine::builtin("gh200-c2c").unwrap();
    let best = |tensors: &str, from, machine: &Machine| {
        let ranking = rank(&request(tensors, from), machine, Depth::QUICK).unwrap();
        (ranking.best().unwrap().strategy.name(), ranking.decision(100).0)
    };
    assert_eq!(best("1000x4KB", Origin::Pageable, &h200), ("coalesced", Decision::Calls));
    assert_eq!(best("100x64MiB", Origin::Pageable, &h200).0, "ring");
    assert_eq!(best("100x64MiB", Origin::Pinned, &h200).0, "direct");
    // Where the engine reads pageable memory itself, staging only costs.
    assert_eq!(best("100x64MiB", Origin::Pageable, &gh200).0, "direct");
    // With one core nobody can copy faster than the driver does.
    let mut alone = request("100x64MiB", Origin::Pageable);
    alone.cores = 1;
    let ranking = rank(&alone, &h200, Depth::QUICK).unwrap();
    assert!(ranking.strategies.iter().all(|p| p.strategy.threads() == 1));
    // Work that can overlap with copies is what the pipelines are for.
    let mut busy = request("50x32MiB", Origin::Pinned);
    (busy.work, busy.back) = (us(600), true);
    let ranking = rank(&busy, &h200, Depth::QUICK).unwrap();
    assert!(matches!(ranking.best().unwrap().strategy.name(), "A" | "B"), "{:?}", ranking.best());
    assert_eq!(ranking.decision(100).0, Decision::Overlap);
}

#[test]
fn what_does_not_fit_or_make_sense_is_excluded_with_a_reason() {
    let machine = Machine::default();
    let reasons = |request: &Request| {
        let ranking = rank(request, &machine, Depth::QUICK).unwrap();
        let names: Vec<String> =
            ranking.excluded.iter().map(|e| format!("{}: {}", e.strategy.name(), e.reason)).collect();
        (ranking.strategies.len(), names.join("; "))
    };
    let mut tight = request("100x64MiB", Origin::Pageable);
    tight.free_ram = Some(Bytes(1 << 20));
    let (n, why) = reasons(&tight);
    assert!(n >= 2 && why.contains("pinned: it takes 6.25 GiB") && why.contains("1.00 MiB is free"), "{why}");
    let (_, why) = reasons(&request("100x64MiB", Origin::Pinned));
    assert!(why.contains("ring: the tensors are in pinned memory already"), "{why}");
    let (_, why) = reasons(&request("100x64MiB", Origin::File));
    assert!(why.contains("register: the pages of a file"), "{why}");
    let (_, why) = reasons(&request("1x64MiB", Origin::Pageable));
    assert!(why.contains("coalesced: there is one tensor"), "{why}");
    assert!(rank(&request("1x1B", Origin::Pageable), &machine, Depth::QUICK).is_ok());
    let mut nothing = request("1x1B", Origin::Pageable);
    nothing.tensors.clear();
    assert!(rank(&nothing, &machine, Depth::QUICK).is_err());
}

#[test]
fn seven_factors_are_told_and_some_would_change_the_answer() {
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let depth = Depth { tensors: 32, bytes: 1 << 30 };
    let found = factors(&request("1000x4KB", Origin::Pageable), &machine, depth).unwrap();
    assert_eq!(found.len(), 7);
    let size = found.iter().find(|f| f.name.starts_with("Size")).unwrap();
    assert_eq!(size.value, "4KB each");
    for factor in &found {
        for change in &factor.changes {
            let strategy = change.best.unwrap();
            assert_eq!(change.differs, strategy.name() != "coalesced", "{change:?}");
        }
    }
    // What is told of another value is what is best of it.
    let with = |change: fn(&mut Request)| {
        let mut request = request("1000x4KB", Origin::Pageable);
        change(&mut request);
        rank(&request, &machine, depth).unwrap().best().map(|p| p.strategy.name())
    };
    for (to, expected) in [
        ("1 core", with(|r| r.cores = 1)),
        ("90 % busy", with(|r| r.load = 0.9)),
        ("10 tensors", with(|r| r.tensors[0].count = 10)),
        ("100,000 tensors", with(|r| r.tensors[0].count = 100_000)),
        ("40B each", with(|r| r.tensors[0].bytes = Bytes(40))),
        ("400KB each", with(|r| r.tensors[0].bytes = Bytes(400_000))),
    ] {
        let mut all = found.iter().flat_map(|f| &f.changes);
        let change = all.find(|c| c.to == to).unwrap_or_else(|| panic!("no {to} in {found:?}"));
        assert_eq!(change.best.map(Strategy::name), expected, "{to}");
    }
    assert!(found.iter().flat_map(|f| &f.changes).any(|c| c.differs), "{found:?}");
}

#[test]
fn the_maps_warnings_stand_where_they_hold() {
    let machine = Machine::default();
    let at = |count, bytes, threads| {
        let tensors = Tensors { count, bytes: Bytes(bytes) };
        map::cell(&request("1x1B", Origin::Pageable), &machine, tensors, threads).unwrap()
    };
    use map::Warning::{FewTensors, Shuttle, SmallTensors};
    assert!(at(1000, 4000, 4).warnings.contains(&SmallTensors));
    assert!(at(1, 4_000_000, 4).warnings.contains(&FewTensors));
    // The published rows: four threads that pin are faster for a thousand tensors of 4 MB ..
    assert_eq!(at(1000, 4_000_000, 4).warnings, []);
    // .. and one thread that shuttles is not.
    assert!(at(1000, 4_000_000, 1).warnings.contains(&Shuttle));
    assert_eq!((map::counts().len(), map::sizes().len()), (13, 12));
}

#[test]
fn tensors_are_read_or_refused() {
    let read = |word: &str| word.parse::<Tensors>().map_or_else(|e| e.to_string(), |t| t.to_string());
    assert_eq!(read("1000x4KB"), "1000x4KB");
    assert_eq!(read("7X1.5KiB"), "7x1536B");
    assert_eq!(read("4MiB"), "1x4MiB");
    // The unit that was given is the one that is told.
    for word in ["2x1TiB", "1x1TB", "3x1000GiB", "12x1GB", "5x8MiB", "9x8MB", "7x1KiB", "1x999B"] {
        assert_eq!(read(word), word);
    }
    for word in [
        "",
        "x",
        "0x4KB",
        "4x",
        "x4KB",
        "-1x4KB",
        "+1x4KB",
        "4x-1KB",
        "4x0",
        "4y4KB",
        "1x2000TiB",
        "1000000000x1GiB",
        "4x4kb",
        "99999999999999999999x1B",
    ] {
        assert!(read(word).starts_with(&format!("{word:?}: ")), "{word}: {}", read(word));
    }
}
