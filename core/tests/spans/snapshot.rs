//! Memory snapshots: figures equal to the reference and to a forward simulation, and pickles that ask for more than values
//! are refused with their place.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;

use serde_json::Value;
use spanlift::advise::trace::memory_findings;
use spanlift::trace::snapshot::{Figures, Snapshot};

use crate::shared::shared;

/// SplitMix64: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }
}

#[test]
fn figures_of_every_file_are_those_of_the_reference() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    let table = std::fs::read_to_string(folder.join("snapshot_reference.json")).unwrap();
    let table: BTreeMap<String, Value> = serde_json::from_str(&table).unwrap();
    for (name, mut expected) in table {
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        let figures = Figures::of(&Snapshot::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}")));
        let mut found: Value = serde_json::from_str(&figures.to_json()).unwrap();
        found.as_object_mut().unwrap().remove("import");
        // Depends on how empty lists are shared: no figure to compare.
        for value in [&mut found, &mut expected] {
            for trace in value["traces"].as_object_mut().unwrap().values_mut() {
                trace.as_object_mut().unwrap().remove("unique_stacks_by_identity");
            }
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_cut_and_every_changed_byte_gives_a_snapshot_or_a_place() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    let bytes = std::fs::read(folder.join("snapshot_small_p5.pickle")).unwrap();
    for cut in (97..bytes.len()).step_by(97).chain(1..200) {
        let error = Snapshot::read(&bytes[..cut]).map(|_| cut).unwrap_err().to_string();
        assert!(error.starts_with(&format!("byte {cut}: the pickle ends here")), "cut at {cut}: {error}");
    }
    let mut random = Random(11);
    for _ in 0..300 {
        let mut changed = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len());
            changed[at] = u8::try_from(random.below(256)).unwrap();
        }
        if let Ok(snapshot) = Snapshot::read(&changed) {
            Figures::of(&snapshot).to_json();
        }
    }
}

#[track_caller]
fn refused(pickle: &[u8], expected: &str) {
    let found = Snapshot::read(pickle).map_or_else(|e| e.to_string(), |_| "read".to_owned());
    // Of values that are no snapshot the byte depends on what the writer put in front of them.
    let (byte, told) = found.split_once(": ").unwrap_or_default();
    let matches = found == expected || byte.starts_with("byte ") && told == expected;
    assert!(matches, "{found}, expected {expected}: {:?}", pickle.escape_ascii().to_string());
}

#[test]
fn nothing_is_ever_run() {
    // Each is what would run `os.system("true")` or fetch something, in the words of one protocol or another.
    refused(
        b"\x80\x02cos\nsystem\n",
        "byte 2: opcode GLOBAL is refused: a snapshot is plain values and needs no code",
    );
    let refusals: &[(&[u8], &str)] = &[
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"))R", "REDUCE"),
        (b"}}b", "BUILD"),
        (b"(ios\nsystem\n", "INST"),
        (b"(}o", "OBJ"),
        (b"))\x81", "NEWOBJ"),
        (b")))\x92", "NEWOBJ_EX"),
        (b"Pid\n", "PERSID"),
        (b"NQ", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"\x97", "NEXT_BUFFER"),
    ];
    for (opcodes, name) in refusals {
        let pickle = [b"\x80\x04", *opcodes].concat();
        let error = Snapshot::read(&pickle).unwrap_err().to_string();
        assert!(error.contains(&format!("opcode {name} is refused")), "{name}: {error}");
    }
    for opcode in 0..=255_u8 {
        // Whatever it is, it gives a value or an error.
        let _ = Snapshot::read(&[0x80, 4, opcode]);
        let _ = Snapshot::read(&[0x80, 4, b'N', b'N', b'(', opcode, 1, 0, 0, 0, 0, 0, 0, 0, 0, b'.']);
    }
}

#[test]
fn broken_pickles_are_refused_with_their_place() {
    for text in [&b"hello"[..], b"{\"traceEvents\": []}", b"PK\x03\x04"] {
        refused(text, "byte 0: this is no pickle of protocol 2 or later, which begins with the byte 0x80");
    }
    refused(b"\x1f\x8b\x08", "byte 0: this is gzip data, which has to be unpacked first");
    refused(b"", "byte 0: the file is empty");
    refused(b"\x80\x06.", "byte 0: protocol 6, only those up to 5 are known");
    refused(b"\x80\x04.", "byte 2: the opcode takes more from the stack than is on it");
    refused(b"\x80\x04]s.", "byte 3: the opcode takes more from the stack than is on it");
    refused(b"\x80\x04}NNa.", "byte 5: items for what is not a list");
    refused(b"\x80\x04u.", "byte 2: there is no mark on the stack");
    refused(b"\x80\x04}(Nu.", "byte 5: a key without a value");
    refused(b"\x80\x04h\x05.", "byte 2: memo 5 was never put");
    refused(b"\x80\x04}r\xff\xff\xff\xff.", "byte 3: memo 4294967295 when there are 0");
    refused(b"\x80\x04S'x'\n.", "byte 2: opcode 0x53, which no memory snapshot has");
    let huge = b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff";
    refused(
        huge,
        "byte 11: the pickle ends here; the opcode at byte 2 needs 18446744073709551615 bytes more, 0 are left",
    );
    refused(
        b"\x80\x04X\xff\xff\xff\xff",
        "byte 7: the pickle ends here; the opcode at byte 2 needs 4294967295 bytes more, 0 are left",
    );
    refused(
        b"\x80\x04\x95\x09\0\0\0\0\0\0\0N.",
        "byte 13: the pickle ends here; the opcode at byte 2 needs 9 bytes more, 2 are left",
    );
    refused(b"\x80\x04].", "byte 0: no memory snapshot: a dict with segments and device_traces is needed");
    refused(b"\x80\x04}.", "byte 0: no memory snapshot: a dict with segments and device_traces is needed");
}

/// Figures of a device look at all segments and stacks: there are as many devices as anywhere else.
#[test]
fn a_device_is_one_of_4096() {
    let of = |n_empty: usize| {
        let mut file = Writer::default();
        file.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](");
        file.op(&b"]".repeat(n_empty)).op(b"]Naeu.");
        file.0
    };
    refused(&of(4096), "byte 4134: device_traces[4096]: a device is 0 to 4095");
    let told = Snapshot::read(&of(4095)).unwrap_err().to_string();
    assert!(told.contains("device_traces[4095] event 0"), "{told}");
    let mut empty = Writer::default();
    empty.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](");
    empty.op(&b"]".repeat(9999)).op(b"eu.");
    assert_eq!(Figures::of(&Snapshot::read(&empty.0).unwrap()).traces.len(), 0);
}

/// What is odd in a file and harms nothing is counted.
#[test]
fn bytes_behind_the_end_and_broken_text_are_told() {
    let told = |name: &[u8], behind: &[u8]| {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
        writer.op(b"}(").text("addr").int(1).text("size").int(2).text("action").op(b"X\x01\0\0\0").op(name);
        writer.op(b"ueeu.").op(behind);
        let figures = Figures::of(&Snapshot::read(&writer.0).unwrap());
        let import = serde_json::to_value(&figures.import).unwrap();
        ["trailing_bytes", "invalid_utf8"].map(|name| import["problems"][name].as_u64())
    };
    assert_eq!(told(b"a", b""), [None, None]);
    assert_eq!(told(b"a", b"left"), [Some(4), None]);
    assert_eq!(told(b"\xff", b"."), [Some(1), Some(1)]);
}

/// Writes pickles, opcode by opcode.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn text(&mut self, text: &str) -> &mut Writer {
        self.0.push(b'X');
        self.0.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        self.0.extend(text.as_bytes());
        self
    }

    fn int(&mut self, number: i64) -> &mut Writer {
        self.0.extend([0x8a, 8]);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn op(&mut self, opcodes: &[u8]) -> &mut Writer {
        self.0.extend(opcodes);
        self
    }

    fn dict(&mut self, ints: &[(&str, i64)], texts: &[(&str, &str)]) -> &mut Writer {
        self.op(b"}(");
        for (key, value) in ints {
            self.text(key).int(*value);
        }
        for (key, value) in texts {
            self.text(key).text(value);
        }
        self.op(b"u")
    }
}

#[test]
fn structures_that_double_stay_linear() {
    // Every list holds the one before twice: 2^200 frames, if anybody expanded them.
    let mut writer = Writer::default();
    writer.op(b"\x80\x04]q\x00");
    for level in 1..200_u8 {
        writer.op(&[b']', b'q', level, b'(', b'h', level - 1, b'h', level - 1, b'e']);
    }
    writer.op(b"0");
    let error = Snapshot::read(&writer.0).unwrap_err().to_string();
    assert!(error.contains("opcode 0x30"), "{error}");
    // A list that holds itself, as the snapshot's segments.
    let mut writer = Writer::default();
    writer.op(b"\x80\x04}(").text("segments").op(b"]q\x00h\x00a").op(b"u.");
    refused(&writer.0, "segments[0]: a dict is needed");
    // A dict that is its own frame.
    let mut writer = Writer::default();
    writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](}q\x01(");
    writer.text("action").text("alloc").text("addr").int(1).text("frames").op(b"]h\x01a").op(b"ueeu.");
    refused(&writer.0, "device_traces[0] event 0: a frame's filename is missing");
    // A million events that share a stack of a thousand frames are a million events and a thousand frames.
    let n = 20_000;
    let mut writer = Writer::default();
    writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
    writer.op(b"}(").text("action").text("oom").text("addr").int(1).text("frames").op(b"](");
    writer.dict(&[("line", 1)], &[("filename", "a.py"), ("name", "f")]).op(b"q\x07");
    for _ in 0..999 {
        writer.op(b"h\x07");
    }
    writer.op(b"euq\x08");
    for _ in 1..n {
        writer.op(b"h\x08");
    }
    writer.op(b"eeu.");
    let figures = Figures::of(&Snapshot::read(&writer.0).unwrap());
    assert_eq!(figures.traces["0"].frame_refs, n * 1000);
    assert_eq!(figures.traces["0"].unique_frames, 1);
}

#[test]
fn what_was_filled_item_by_item_is_not_looked_through_for_ever() {
    // A dict of 50,000 single items that stands for 50,000 events: billions of looks, were there no bound.
    let n = 50_000;
    let mut writer = Writer::default();
    writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
    writer.dict(&[("addr", 1)], &[("action", "alloc")]).op(b"q\x00");
    for _ in 0..n {
        writer.op(b"K\x01Ns");
    }
    for _ in 1..n {
        writer.op(b"h\x00");
    }
    writer.op(b"eeu.");
    let error = Snapshot::read(&writer.0).unwrap_err().to_string();
    assert!(error.ends_with("too many items were put one by one into what many refer to"), "{error}");
}

#[test]
fn wrong_fields_are_told_with_their_event() {
    let event = |write: &dyn for<'w> Fn(&'w mut Writer) -> &'w mut Writer| {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
        writer.dict(&[("addr", 1), ("size", 2)], &[("action", "alloc")]);
        write(&mut writer);
        writer.op(b"eeu.");
        let told = match Snapshot::read(&writer.0) {
            Ok(snapshot) => return snapshot.traces[0].len().to_string(),
            Err(e) => e.to_string(),
        };
        // The byte is that of a container.
        let (byte, told) = told.strip_prefix("byte ").and_then(|told| told.split_once(": ")).unwrap();
        assert!(matches!(writer.0[byte.parse::<usize>().unwrap()], b'}' | b']'), "{told}");
        told.to_owned()
    };
    assert_eq!(event(&|w| w.dict(&[("addr", 5)], &[("action", "snapshot")])), "2");
    assert_eq!(event(&|w| w.op(b"N")), "device_traces[0] event 1: a dict is needed");
    assert_eq!(event(&|w| w.op(b"}")), "device_traces[0] event 1: action is missing");
    let text = event(&|w| w.dict(&[], &[("action", "alloc"), ("addr", "x")]));
    assert_eq!(text, "device_traces[0] event 1: addr is no whole number");
    let wide =
        event(&|w| w.op(b"}(").text("action").text("a").text("addr").op(b"\x8a\x09\0\0\0\0\0\0\0\x80\0u"));
    assert_eq!(wide, "device_traces[0] event 1: addr is beyond signed 64 bits");
    // A frame on no line has line -1, without a sign where a compiled part of PyTorch wrote it.
    let line = |digits: &[u8]| {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
        writer.op(b"}(").text("action").text("alloc").text("addr").op(b"K\x01").text("size").op(b"K\x01");
        writer.text("frames").op(b"](}(");
        writer.text("filename").text("a.py").text("name").text("f").text("line").op(digits).op(b"ueueeu.");
        Snapshot::read(&writer.0).unwrap().stacks.frames[0].line
    };
    assert_eq!(line(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"), -1);
    assert_eq!(line(b"\x8a\x01\xff"), -1);
    assert_eq!(line(b"K\x07"), 7);
    // What comes last counts, also across opcodes.
    let again = event(&|w| w.dict(&[("addr", 1)], &[("action", "a")]).text("addr").text("x").op(b"s"));
    assert_eq!(again, "device_traces[0] event 1: addr is no whole number");
}

#[test]
fn where_memory_ran_out_what_was_free_has_a_name_of_its_own() {
    let mut writer = Writer::default();
    writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
    writer.dict(&[("addr", 1), ("size", 2)], &[("action", "alloc")]);
    writer.dict(&[("device_free", 5), ("size", 9)], &[("action", "oom")]).op(b"eeu.");
    let events = &Snapshot::read(&writer.0).unwrap().traces[0];
    assert_eq!(events.iter().map(|event| event.addr).collect::<Vec<_>>(), [1, 5]);
}

/// A failure is put down to pieces only where no single one would have done.
#[test]
fn why_an_allocation_failed_is_told_by_what_was_left() {
    let told = |left: i64, size: i64| {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
        writer.dict(&[("addr", 4096), ("size", 100)], &[("action", "segment_alloc")]);
        writer.dict(&[("addr", 4096), ("size", 60)], &[("action", "alloc")]);
        writer.dict(&[("device_free", left), ("size", size)], &[("action", "oom")]);
        // Nothing is left at the end, from where the history is gone through.
        writer.dict(&[("addr", 4096), ("size", 60)], &[("action", "free_completed")]);
        writer.dict(&[("addr", 4096), ("size", 100)], &[("action", "segment_free")]).op(b"eeu.");
        let snapshot = Snapshot::read(&writer.0).unwrap();
        let found = memory_findings(&snapshot);
        found.into_iter().find(|finding| finding.rule == "out-of-memory").unwrap().title
    };
    assert!(told(20, 70).ends_with("there was not enough free memory for any of them"), "{}", told(20, 70));
    let pieces = told(20, 30);
    assert!(pieces.ends_with("for 1 of them there was enough free memory, in pieces"), "{pieces}");
    let limited = told(80, 70);
    assert!(limited.ends_with("for 1 of them the device had as much left, in one piece"), "{limited}");
}

/// A segment's bytes and stream, and where its blocks lie.
type Made<'a> = (i64, i64, &'a [(i64, i64)]);

/// Beside every block taken out by itself: free pieces of a segment with the block between them, and another piece for the block.
#[test]
fn a_block_in_the_way_of_a_failed_allocation_is_named() {
    // Segments of these sizes and streams, in which blocks lie at these places; what is asked for, on stream 0.
    let told = |segments: &[Made<'_>], size: i64| {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"]").text("device_traces").op(b"](](");
        let base = |n: usize| (i64::try_from(n).unwrap() + 1) << 24;
        for (n, (bytes, stream, _)) in segments.iter().enumerate() {
            writer.dict(
                &[("addr", base(n)), ("size", *bytes), ("stream", *stream)],
                &[("action", "segment_alloc")],
            );
        }
        let blocks = || {
            segments
                .iter()
                .enumerate()
                .flat_map(|(n, (_, _, blocks))| blocks.iter().map(move |b| (base(n) + b.0, b.1)))
        };
        for (addr, size) in blocks() {
            writer.dict(&[("addr", addr), ("size", size)], &[("action", "alloc")]);
        }
        writer.dict(&[("device_free", 0), ("size", size)], &[("action", "oom")]);
        for (addr, size) in blocks() {
            writer.dict(&[("addr", addr), ("size", size)], &[("action", "free_completed")]);
        }
        for (n, (bytes, stream, _)) in segments.iter().enumerate() {
            writer.dict(
                &[("addr", base(n)), ("size", *bytes), ("stream", *stream)],
                &[("action", "segment_free")],
            );
        }
        let snapshot = Snapshot::read(&writer.op(b"eeu.").0).unwrap();
        let found = memory_findings(&snapshot);
        let title = found.into_iter().find(|finding| finding.rule == "out-of-memory").unwrap().title;
        title.split_once("in pieces").unwrap().1.to_owned()
    };
    let named_of = |bytes: i64| format!("; it would fit if the block of {bytes} B were elsewhere");
    let named = &*named_of(100);
    // 300 and 300 beside 100, and 200 elsewhere: 700 fit, and 701 don't.
    let two: &[Made<'_>] = &[(700, 0, &[(300, 100)]), (500, 0, &[(0, 300)])];
    assert_eq!(told(two, 700), named);
    assert_eq!(told(two, 701), "");
    // Nowhere to go to: what is beside it would be taken.
    assert_eq!(told(&[(700, 0, &[(300, 100)]), (300, 0, &[(0, 250)])], 601), "");
    // Another stream has its segments for itself, though a block may go there.
    assert_eq!(told(&[(700, 1, &[(300, 100)]), (500, 0, &[(0, 300)])], 600), "");
    assert_eq!(told(&[(700, 0, &[(300, 100)]), (500, 1, &[(0, 300)])], 650), named);
    // The smallest of several.
    assert_eq!(told(&[(900, 0, &[(300, 100), (700, 150)]), (900, 0, &[(500, 400)])], 650), named);
    // Segments of 2 MiB are for what asks for 1 MiB at most.
    const MIB: i64 = 1 << 20;
    let small = |bytes: i64, size: i64| {
        told(&[(bytes, 0, &[(MIB - 512, 512), (2 * MIB - 1024, 512)]), (4096, 0, &[(0, 512)])], size)
    };
    assert_eq!(small(2 * MIB, MIB), named_of(512));
    assert_eq!(small(2 * MIB, MIB + 512), "");
    assert_eq!(small(2 * MIB + 512, MIB + 512), named_of(512));
}

/// An allocator that only hands out and takes back, and what it should look like at every moment.
#[test]
fn going_backwards_finds_what_went_forwards() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let n_events = random.below(200);
        let drop_first = random.below(n_events + 1);
        let mut live: Vec<(i64, i64)> = Vec::new();
        let (mut reserved, mut segments) = (0_i64, 0_i64);
        let (mut events, mut states) = (Vec::new(), Vec::new());
        let (mut next, mut freed) = (4096_i64, Vec::new());
        for _ in 0..n_events {
            states.push((live.iter().map(|b| b.1).sum::<i64>(), reserved));
            match random.below(5) {
                0 | 1 => {
                    // Addresses come again after they were freed.
                    let at = if random.below(2) == 0 { freed.pop() } else { None }.unwrap_or_else(|| {
                        next += 512;
                        next
                    });
                    let size = i64::try_from(random.below(9) * 512).unwrap();
                    live.push((at, size));
                    events.push(("alloc", at, size));
                }
                2 if !live.is_empty() => {
                    let (at, size) = live.swap_remove(random.below(live.len()));
                    freed.push(at);
                    events.push(("free_completed", at, size));
                }
                3 => {
                    reserved += 1 << 20;
                    segments += 1;
                    events.push(("segment_map", 1 << 40, 1 << 20));
                }
                _ => events.push(("free_requested", 1, 1)),
            }
        }
        states.push((live.iter().map(|b| b.1).sum(), reserved));
        // The last state as one segment a block, and one that makes up for what is reserved.
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"](");
        let in_blocks: i64 = live.iter().map(|b| b.1).sum();
        for &(at, size) in live.iter().chain([&(1 << 50, segments * (1 << 20) - in_blocks)]) {
            let state = if at == 1 << 50 { "inactive" } else { "active_allocated" };
            writer.op(b"}(").text("blocks").op(b"]");
            writer.dict(&[("size", size.max(0)), ("address", at)], &[("state", state)]).op(b"a");
            for (key, value) in
                [("address", at), ("total_size", size.max(0)), ("allocated_size", 0), ("active_size", 0)]
            {
                writer.text(key).int(value);
            }
            writer.text("segment_type").text("small").op(b"u");
        }
        writer.op(b"e").text("device_traces").op(b"](](");
        for (action, addr, size) in &events[drop_first..] {
            writer.dict(&[("addr", *addr), ("size", *size)], &[("action", action)]);
        }
        writer.op(b"eeu.");
        let snapshot = Snapshot::read(&writer.0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut found = Vec::new();
        let history = snapshot.history(0, |_, alive| found.push(alive.allocated));
        found.reverse();
        found.push(history.end.allocated);
        let expected: Vec<i128> = states[drop_first..].iter().map(|s| i128::from(s.0)).collect();
        assert_eq!(found, expected, "seed {seed}");
        assert_eq!(history.inconsistencies, 0, "seed {seed}");
        let peak = expected.iter().max().unwrap();
        assert_eq!(history.peak.allocated, *peak, "seed {seed}");
        // The last moment at which it was that high.
        let last = expected.iter().rposition(|allocated| allocated == peak).unwrap();
        assert_eq!(history.peak_before_event, last, "seed {seed}");
        if segments * (1 << 20) >= in_blocks {
            assert_eq!(history.start.reserved, i128::from(states[drop_first].1), "seed {seed}");
        }
    }
}

/// Bytes of a block of [`Model`].
const SLOT: i64 = 512;
/// Where its segments that grow and shrink begin.
const GROWS: i64 = 1 << 40;

/// An allocator of blocks of one size, in segments that come and go and in some that grow and shrink anywhere.
#[derive(Clone, Default)]
struct Model {
    /// Address and slots of each segment, by address.
    segments: BTreeMap<i64, i64>,
    /// Addresses of blocks that are taken.
    taken: std::collections::BTreeSet<i64>,
}

impl Model {
    fn slots(&self) -> Vec<i64> {
        self.segments.iter().flat_map(|(&at, &n)| (0..n).map(move |k| at + k * SLOT)).collect()
    }

    /// What it does next, as an event.
    fn step(&mut self, random: &mut Random) -> (&'static str, i64, i64) {
        let slots = self.slots();
        let free: Vec<i64> = slots.iter().copied().filter(|at| !self.taken.contains(at)).collect();
        let is_empty = |model: &Model, at: i64, n: i64| model.taken.range(at..at + n * SLOT).next().is_none();
        match random.below(9) {
            0..=3 if !free.is_empty() => {
                let at = free[random.below(free.len())];
                self.taken.insert(at);
                ("alloc", at, SLOT)
            }
            4 | 5 if !self.taken.is_empty() => {
                let nth = random.below(self.taken.len());
                let at = *self.taken.iter().nth(nth).unwrap();
                self.taken.remove(&at);
                ("free_completed", at, SLOT)
            }
            6 if self.segments.range(..GROWS).count() < 9 => {
                // Addresses come again.
                let at = (1 << 30) + i64::try_from(random.below(12)).unwrap() * (1 << 20);
                if self.segments.contains_key(&at) {
                    return ("free_requested", 1, 1);
                }
                self.segments.insert(at, 8);
                ("segment_alloc", at, 8 * SLOT)
            }
            7 => match self.segments.range(..GROWS).find(|&(&at, &n)| is_empty(self, at, n)) {
                Some((&at, _)) => {
                    let n = self.segments.remove(&at).unwrap();
                    ("segment_free", at, n * SLOT)
                }
                None => ("oom", 5, 5),
            },
            8 => {
                let [slot, n] = [24, 6].map(|below| i64::try_from(random.below(below)).unwrap());
                let (at, n) = (GROWS + slot * SLOT, n + 1);
                let until = |end: i64| n.min((end - at) / SLOT);
                let before =
                    self.segments.range(..=at).next_back().map(|(&first, &m)| (first, first + m * SLOT));
                let next = self.segments.range(at + 1..).next().map(|(&next, _)| next);
                if let Some((first, end)) = before.filter(|(_, end)| at < *end) {
                    let n = until(end);
                    if !is_empty(self, at, n) {
                        return ("free_requested", 1, 1);
                    }
                    self.segments.remove(&first);
                    let rest = at + n * SLOT;
                    let parts = [(first, at - first), (rest, end - rest)];
                    self.segments.extend(parts.map(|(at, bytes)| (at, bytes / SLOT)));
                    self.segments.retain(|_, n| 0 < *n);
                    return ("segment_unmap", at, n * SLOT);
                }
                let n = next.map_or(n, until);
                let right = self.segments.remove(&(at + n * SLOT)).unwrap_or(0);
                let first = before.filter(|(_, end)| *end == at).map_or(at, |(first, _)| first);
                self.segments.insert(first, (at - first) / SLOT + n + right);
                ("segment_map", at, n * SLOT)
            }
            _ => ("free_requested", 1, 1),
        }
    }

    /// Reserved, allocated, free and largest free bytes, slot by slot.
    fn held(&self) -> [i128; 4] {
        let (mut free, mut largest) = (0, 0);
        for (&at, &n) in &self.segments {
            let mut run = 0;
            for k in 0..n {
                run = if self.taken.contains(&(at + k * SLOT)) { 0 } else { run + 1 };
                free += i128::from(run > 0);
                largest = largest.max(run);
            }
        }
        let slot = i128::from(SLOT);
        let reserved: i64 = self.segments.values().sum();
        [
            i128::from(reserved) * slot,
            self.taken.len() as i128 * slot,
            free * slot,
            i128::from(largest) * slot,
        ]
    }

    /// A file with this as its last state.
    fn snapshot(&self, events: &[(&str, i64, i64)]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.op(b"\x80\x04}(").text("segments").op(b"](");
        for (&address, &n) in &self.segments {
            writer.op(b"}(").text("blocks").op(b"](");
            for k in 0..n {
                let at = address + k * SLOT;
                let state = if self.taken.contains(&at) { "active_allocated" } else { "inactive" };
                writer.dict(&[("size", SLOT), ("address", at)], &[("state", state)]);
            }
            writer.op(b"e");
            for (key, value) in
                [("address", address), ("total_size", n * SLOT), ("allocated_size", 0), ("active_size", 0)]
            {
                writer.text(key).int(value);
            }
            writer.text("segment_type").text("small").op(b"u");
        }
        writer.op(b"e").text("device_traces").op(b"](](");
        for (action, addr, size) in events {
            writer.dict(&[("addr", *addr), ("size", *size)], &[("action", action)]);
        }
        writer.op(b"eeu.");
        writer.0
    }
}

#[test]
fn any_moment_is_what_was_there_then() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut model = Model::default();
        // More events than lie between two lists of what was there.
        let n_events = [40, 400, 2500, 5000][random.below(4)];
        let drop_first = random.below(n_events / 2);
        let (mut events, mut states) = (Vec::new(), Vec::new());
        for _ in 0..n_events {
            states.push(model.clone());
            events.push(model.step(&mut random));
        }
        states.push(model.clone());
        let snapshot = Snapshot::read(&model.snapshot(&events[drop_first..])).unwrap();
        let past = snapshot.past(0);
        assert_eq!(past.n_events(), n_events - drop_first);
        for (m, expected) in states[drop_first..].iter().enumerate() {
            let found = past.at(m);
            let blocks: Vec<i64> = found.blocks().map(|block| block.addr).collect();
            assert!(
                blocks.iter().eq(&expected.taken),
                "seed {seed}, moment {m}: {blocks:?}, {:?}",
                expected.taken
            );
            let segments: Vec<(i64, i64)> = found.segments.iter().map(|s| (s.addr, s.size / SLOT)).collect();
            let wanted: Vec<(i64, i64)> = expected.segments.iter().map(|(&at, &n)| (at, n)).collect();
            assert_eq!(segments, wanted, "seed {seed}, moment {m}");
            let held = found.held();
            let held = [held.reserved, held.allocated, held.free, held.largest_free];
            assert_eq!(held, expected.held(), "seed {seed}, moment {m}");
            // Each says itself when it was there.
            assert!(found.blocks().all(|b| b.from as usize <= m && m <= b.to as usize));
        }
    }
}

#[test]
fn moments_of_the_shared_files_sum_up_to_their_history() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    for name in ["snapshot_small_p4.pickle", "snapshot_small_p5.pickle"] {
        let snapshot = Snapshot::read(&std::fs::read(folder.join(name)).unwrap()).unwrap();
        for device in 0..snapshot.traces.len() {
            let mut states = Vec::new();
            let history = snapshot.history(device, |index, alive| states.push((index, alive)));
            states.push((snapshot.traces[device].len(), history.end));
            let past = snapshot.past(device);
            for (m, alive) in states {
                let held = past.at(m).held();
                assert_eq!((held.allocated, held.reserved), (alive.allocated, alive.reserved), "{name}: {m}");
                assert_eq!(held.free, held.reserved - held.allocated, "{name}: {m}");
            }
            // What was allocated while it was recorded says who asked for it.
            let told = past.blocks().iter().filter(|block| 0 < block.from).all(|block| block.stack != 0);
            assert!(told || history.inconsistencies > 0, "{name}");
        }
    }
}
