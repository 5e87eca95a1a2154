//! Contents of random copies between strided bytes, against copies that move one byte after the other.

use std::collections::BTreeMap;

use super::*;
use crate::splitmix;

/// Bytes of every buffer, and of every copy.
const BYTES: i64 = 40;
const COPIED: i64 = 12;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(splitmix::next(&mut self.0) % n as u64).unwrap()
    }

    fn int(&mut self, n: i64) -> i64 {
        i64::try_from(self.below(usize::try_from(n).unwrap())).unwrap()
    }
}

/// [`COPIED`] bytes of a buffer: as the text form says them, and where each one lies, in the order in which they move.
struct Strided {
    text: String,
    places: Vec<usize>,
}

impl Strided {
    /// Along one dimension or two, up or down; apart, over each other or all in one place.
    fn draw(random: &mut Random) -> Strided {
        const FORMS: [(i64, &[i64]); 7] =
            [(12, &[]), (1, &[12]), (4, &[3]), (6, &[2]), (2, &[2, 3]), (1, &[3, 4]), (3, &[2, 2])];
        loop {
            let (elem, counts) = FORMS[random.below(FORMS.len())];
            let (mut dims, mut places, mut extent) = (String::new(), vec![0], elem);
            for &count in counts.iter().rev() {
                let stride = match random.below(4) {
                    0 => random.int(2 * extent + 1) - extent,
                    1 => -extent - random.int(3),
                    _ => extent + random.int(3),
                };
                dims = format!(", {count} every {stride}{dims}");
                places = (0..count).flat_map(|i| places.iter().map(move |p| p + i * stride)).collect();
                extent += stride.abs() * (count - 1);
            }
            let (lo, hi) = (places.iter().min().unwrap(), places.iter().max().unwrap() + elem);
            if hi - lo <= BYTES {
                let off = random.int(BYTES - (hi - lo) + 1) - lo;
                let bytes = places.iter().flat_map(|p| (0..elem).map(move |i| off + p + i));
                let places = bytes.map(|at| usize::try_from(at).unwrap()).collect();
                return Strided { text: format!("[{elem} at {off}{dims}]"), places };
            }
        }
    }
}

/// A copy from one buffer to another.
struct Copied {
    bufs: [usize; 2],
    dst: Strided,
    src: Strided,
}

impl Copied {
    fn draw(random: &mut Random, [to, from]: [usize; 2]) -> Copied {
        let (dst, src) = (Strided::draw(random), Strided::draw(random));
        Copied { bufs: [to, from], dst, src }
    }

    fn text(&self) -> String {
        let [to, from] = self.bufs;
        format!("copy b{to}{} <- b{from}{}", self.dst.text, self.src.text)
    }

    fn move_one(&self, k: usize, contents: &mut [Vec<u8>]) {
        let [to, from] = self.bufs;
        contents[to][self.dst.places[k]] = contents[from][self.src.places[k]];
    }

    fn move_all(&self, contents: &mut [Vec<u8>]) {
        (0..self.dst.places.len()).for_each(|k| self.move_one(k, contents));
    }
}

/// Declares buffers with bytes of their own.
fn declared(random: &mut Random, kinds: &[&str], text: &mut String) -> Vec<Vec<u8>> {
    let mut each = |(k, kind): (usize, &&str)| {
        let bytes: Vec<u8> = (0..BYTES).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        let (space, device) = kind.split_once(' ').unwrap_or((kind, ""));
        let values: Vec<String> = bytes.iter().map(u8::to_string).collect();
        *text += &format!("{space} b{k} {BYTES} {device} = u8 values {}\n", values.join(" "));
        bytes
    };
    kinds.iter().enumerate().map(&mut each).collect()
}

#[track_caller]
fn runs(text: &str, machine: &Machine) -> (Run, Vec<Vec<u8>>) {
    let program = Program::from_text(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut run = run(&program, machine).unwrap();
    let finals = std::mem::take(&mut run.finals);
    (run, finals.into_iter().map(|f| f.bytes).collect())
}

/// One after the other, by every way that there is and in pieces that end within elements.
#[test]
fn copies_of_strided_bytes_move_each_byte_to_its_place() {
    let machines = [
        Machine { stage_chunk: Bytes(5), inline_h2d_bytes: Bytes(2), ..round() },
        Machine { stage_chunk: Bytes(7), copy_engines: 3, p2p_bw: Rate(1_000_000_000), ..round() },
        Machine { pageable_direct: true, ..round() },
    ];
    const KINDS: [&str; 6] =
        ["device on cuda:0", "device on cuda:0", "device on cuda:1", "pinned", "pageable", "pageable"];
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut text = "stream s\nstream t on cuda:1\n".to_owned();
        let mut expected = declared(&mut random, &KINDS, &mut text);
        for _ in 0..6 {
            let bufs = [random.below(6), random.below(6)];
            if bufs[0] == bufs[1] {
                continue;
            }
            let copy = Copied::draw(&mut random, bufs);
            text += &match (random.below(3), copy.text()) {
                (0, copy) if bufs.iter().all(|&b| b > 2) => format!("host {copy}\n"),
                (1, copy) => format!("{copy} blocking\n"),
                (_, copy) if bufs.contains(&2) => format!("{copy} on t\nsync t\n"),
                (_, copy) => format!("{copy} on s\nsync s\n"),
            };
            copy.move_all(&mut expected);
        }
        for machine in &machines {
            assert_eq!(runs(&text, machine).1, expected, "seed {seed}\n{text}");
        }
    }
}

/// Four engines at once, on bytes that they share, against all of them looked at once a nanosecond.
#[test]
fn engines_that_meet_move_what_they_would_a_nanosecond_at_a_time() {
    const KINDS: [&str; 4] = ["device on cuda:0", "device on cuda:1", "pinned", "pinned"];
    let mut n_met = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        // A byte takes whole nanoseconds.
        let [h2d_bw, d2h_bw] =
            [(); 2].map(|()| Rate([1_000_000_000, 500_000_000, 200_000_000][random.below(3)]));
        let alone = Machine { bidir_factor_h2d: Ratio::ONE, bidir_factor_d2h: Ratio::ONE, ..round() };
        let machine = Machine { h2d_bw, d2h_bw, call_memcpy_async: Nanos(1), ..alone };
        let mut text = "stream s, u\nstream t, v on cuda:1\n".to_owned();
        let mut expected = declared(&mut random, &KINDS, &mut text);
        // By device and engine: to the device comes first.
        let mut copies = BTreeMap::new();
        let mut left = vec![0, 1, 2, 3];
        while !left.is_empty() {
            let engine = left.swap_remove(random.below(left.len()));
            let (dev, host) = (engine / 2, 2 + random.below(2));
            let is_in = engine % 2 == 0;
            let copy = Copied::draw(&mut random, if is_in { [dev, host] } else { [host, dev] });
            let stream = ["s", "u", "t", "v"][engine];
            text += &format!("{} on {stream}\nwork {}ns\n", copy.text(), random.below(12));
            let engine = if is_in { Engine::ToDevice } else { Engine::ToHost };
            copies.insert((i64::try_from(dev).unwrap(), engine), copy);
        }
        let (run, found) = runs(&text, &machine);
        let mut in_order = expected.clone();
        copies.values().for_each(|copy| copy.move_all(&mut in_order));
        // When the first byte of each engine begins to move, and how long each takes.
        let timed = copies.iter().map(|(&(dev, engine), copy)| {
            let is_its = |lane: u32| run.trace.lanes[lane as usize].kind == LaneKind::Engine { dev, engine };
            let slice = run.trace.slices.iter().find(|slice| is_its(slice.lane)).unwrap();
            let begin = slice.start.0 + machine.lat.0;
            (begin, (slice.end.0 - begin) / COPIED, copy)
        });
        let timed: Vec<(i64, i64, &Copied)> = timed.collect();
        for now in 0..=run.end.0 {
            for (begin, each, copy) in &timed {
                let n_moved = (now - begin) / each;
                if (now - begin) % each == 0 && 0 < n_moved && n_moved <= COPIED {
                    copy.move_one(usize::try_from(n_moved - 1).unwrap(), &mut expected);
                }
            }
        }
        n_met += u32::from(in_order != expected);
        assert_eq!(found, expected, "seed {seed} {h2d_bw:?} {d2h_bw:?}\n{text}");
    }
    assert!(n_met > 40, "{n_met} end otherwise than one engine after the other");
}
