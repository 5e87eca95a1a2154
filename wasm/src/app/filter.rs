//! The words of a search that ask for more than a name.
//!
//! | word | what it asks for |
//! |---|---|
//! | `cat:memcpy` | a category that contains this; of slices without one, what they are |
//! | `kind:h2d` | `h2d`, `d2h`, `d2d`, `p2p`, `copy`, `memset`, `kernel`, `comm`, `call`, `wait`, `sync`, `work`, `op` |
//! | `pinned:yes`, `pinned:no` | page-locked host memory, or pageable |
//! | `>1MB`, `<4KiB`, `>100us`, `<=2ms` | more or fewer bytes, longer or shorter; with `=` or as many |
//! | `stream:7` | on this stream |
//! | `name~copy` | a name that contains this, in any case |
//!
//! Several words are all to hold.

use spanlift::program::text::{size, time};
use spanlift::trace::{Kind, LaneKind, Slice, Trace};

/// Words that are all to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter(Vec<Word>);

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Cat(String),
    Kind(&'static [Kind]),
    Flag(u8),
    Stream(i64),
    Name(String),
    /// Whether more, and than what.
    Bytes(bool, u64),
    Time(bool, i64),
}

const KINDS: &[(&str, &[Kind])] = &[
    ("h2d", &[Kind::ToDevice]),
    ("d2h", &[Kind::ToHost]),
    ("d2d", &[Kind::WithinDevice]),
    ("p2p", &[Kind::Peer]),
    ("copy", &[Kind::ToDevice, Kind::ToHost, Kind::WithinDevice, Kind::Peer, Kind::OtherCopy]),
    ("memset", &[Kind::Memset]),
    ("kernel", &[Kind::Kernel, Kind::Communication]),
    ("comm", &[Kind::Communication]),
    ("call", &[Kind::Call, Kind::Wait]),
    ("wait", &[Kind::Wait]),
    ("sync", &[Kind::Wait, Kind::Sync, Kind::Record]),
    ("work", &[Kind::Work, Kind::HostCopy, Kind::HostFn]),
    ("op", &[Kind::Annotation]),
];

impl Filter {
    /// Reads words, apart by blanks.
    ///
    /// # Errors
    /// The first word that asks for nothing, with what it could ask for.
    pub fn read(words: &str) -> Result<Filter, String> {
        words.split_whitespace().map(word).collect::<Result<_, _>>().map(Filter)
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the slice at `k` is what all words ask for.
    pub fn holds(&self, trace: &Trace, k: usize) -> bool {
        let slices = &trace.slices;
        self.0.iter().all(|word| match word {
            Word::Cat(wanted) => match trace.strings.get(slices.cat[k]) {
                "" => kind_word(slices.kind[k]).contains(wanted.as_str()),
                cat => cat.to_ascii_lowercase().contains(wanted.as_str()),
            },
            Word::Kind(kinds) => kinds.contains(&slices.kind[k]),
            Word::Flag(flag) => slices.flags[k] & flag != 0,
            Word::Stream(wanted) => match trace.lanes[slices.lane[k] as usize].kind {
                LaneKind::Stream { stream, .. } => stream == *wanted,
                _ => false,
            },
            Word::Name(wanted) => {
                trace.strings.get(slices.name[k]).to_ascii_lowercase().contains(wanted.as_str())
            }
            // What moves no bytes is not small.
            Word::Bytes(more, n) => {
                let bytes = slices.bytes[k];
                if *more { *n < bytes } else { 0 < bytes && bytes < *n }
            }
            Word::Time(more, ns) => {
                let took = slices.end[k].saturating_sub(slices.start[k]);
                if *more { *ns < took } else { took < *ns }
            }
        })
    }
}

/// What stands for a category where a trace has none.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Memset => "gpu_memset",
        Kind::Kernel | Kind::Communication => "kernel",
        Kind::Call | Kind::Wait => "cuda_runtime",
        kind if kind.is_copy() => "gpu_memcpy",
        _ => "",
    }
}

fn word(text: &str) -> Result<Word, String> {
    let lower = text.to_ascii_lowercase();
    let more = text.starts_with('>');
    let found = match lower.split_once([':', '~']) {
        _ if text.starts_with(['<', '>']) => {
            let amount = text[1..].replace(['µ', 'μ'], "u");
            let (amount, or) = amount.strip_prefix('=').map_or((&*amount, 0), |amount| (amount, 1));
            let or = if more { -or } else { or };
            // A number without a unit could be of either.
            match (time(amount), size(amount).filter(|_| amount.ends_with('B'))) {
                (Some(length), _) => Some(Word::Time(more, length.0.saturating_add(or))),
                (None, Some(bytes)) => Some(Word::Bytes(more, bytes.0.saturating_add_signed(or))),
                (None, None) => return Err(format!("{text:?}: a size or a time, such as >1MB or <100us")),
            }
        }
        Some(("cat", wanted)) if !wanted.is_empty() => Some(Word::Cat(wanted.to_owned())),
        Some(("name", wanted)) if !wanted.is_empty() => Some(Word::Name(wanted.to_owned())),
        Some(("pinned", "yes")) => Some(Word::Flag(Slice::PINNED)),
        Some(("pinned", "no")) => Some(Word::Flag(Slice::PAGEABLE)),
        Some(("pinned", _)) => return Err(format!("{text:?}: yes or no")),
        Some(("stream", number)) => match number.parse() {
            Ok(number) => Some(Word::Stream(number)),
            Err(_) => return Err(format!("{text:?}: a stream's number")),
        },
        Some(("kind", wanted)) => match KINDS.iter().find(|(name, _)| *name == wanted) {
            Some((_, kinds)) => Some(Word::Kind(kinds)),
            None => {
                let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                return Err(format!("{text:?}: one of {}", names.join(" ")));
            }
        },
        _ => None,
    };
    found.ok_or_else(|| format!("{text:?} asks for nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legend::KINDS;
    use crate::testing::crowd;

    #[test]
    fn words_hold_where_a_look_at_the_slice_says_so() {
        for seed in 0..8 {
            let trace = crowd(seed, 200);
            let check = |words: &str, of: &dyn Fn(&Slice, u8) -> bool| {
                let filter = Filter::read(words).unwrap();
                for (k, slice) in trace.slices.iter().enumerate() {
                    let expected = of(&slice, trace.slices.flags[k]);
                    assert_eq!(filter.holds(&trace, k), expected, "seed {seed}: {words} of {slice:?}");
                }
            };
            let stream = |s: &Slice| match trace.lanes[s.lane as usize].kind {
                LaneKind::Stream { stream, .. } => Some(stream),
                _ => None,
            };
            check("", &|_, _| true);
            check("kind:h2d", &|s, _| s.kind == Kind::ToDevice);
            check("KIND:copy", &|s, _| s.kind.is_copy());
            check("pinned:no", &|_, flags| flags & Slice::PAGEABLE != 0);
            check("stream:7", &|s, _| stream(s) == Some(7));
            check("stream:1", &|_, _| false);
            // Whichever of the two signs a keyboard has.
            for long in [">1us", ">1µs", ">1\u{3bc}s"] {
                check(long, &|s, _| s.end.0 - s.start.0 > 1000);
            }
            check("<1us kind:kernel", &|s, _| {
                s.end.0 - s.start.0 < 1000 && matches!(s.kind, Kind::Kernel | Kind::Communication)
            });
            let length = trace.slices.end[0] - trace.slices.start[0];
            check(&format!(">={length}ns"), &|s, _| length <= s.end.0 - s.start.0);
            check(&format!("<={length}ns"), &|s, _| s.end.0 - s.start.0 <= length);
            let bytes = trace.slices.bytes[0];
            check(&format!(">={bytes}B"), &|s, _| bytes <= s.bytes && 0 < s.bytes);
            check(&format!("<={bytes}B"), &|s, _| 0 < s.bytes && s.bytes <= bytes);
            check(">4KiB", &|s, _| s.bytes > 4096);
            check(">4kB", &|s, _| s.bytes > 4000);
            check("<1MB", &|s, _| 0 < s.bytes && s.bytes < 1_000_000);
            check("name~A", &|s, _| trace.strings.get(s.name).to_ascii_lowercase().contains('a'));
            check("cat:memcpy", &|s, _| s.kind.is_copy());
        }
    }

    #[test]
    fn words_that_ask_for_nothing_say_so() {
        for (words, why) in [
            ("kind:fast", "one of h2d d2h"),
            ("pinned:perhaps", "yes or no"),
            ("stream:first", "a stream's number"),
            (">", "a size or a time"),
            (">12", "a size or a time"),
            (">1parsec", "a size or a time"),
            ("colour:red", "asks for nothing"),
            ("cat:", "asks for nothing"),
            ("kind:h2d word", "\"word\" asks for nothing"),
        ] {
            assert!(Filter::read(words).unwrap_err().contains(why), "{words}: {:?}", Filter::read(words));
        }
    }

    #[test]
    fn without_categories_kinds_have_those_that_profilers_give_them() {
        let mut trace = Trace::default();
        let lane = trace.lane(LaneKind::Host, "host", "main");
        for kind in KINDS {
            crate::testing::add(&mut trace, lane, "k", kind, (0, 1), (0, Slice::NONE, 0));
        }
        for (word, of) in [
            ("cat:cuda_runtime", &[Kind::Call, Kind::Wait][..]),
            ("cat:gpu_memset", &[Kind::Memset]),
            ("cat:kernel", &[Kind::Kernel, Kind::Communication]),
            ("cat:gpu_memcpy", &KINDS.into_iter().filter(|kind| kind.is_copy()).collect::<Vec<_>>()),
        ] {
            let filter = Filter::read(word).unwrap();
            let found: Vec<Kind> =
                (0..KINDS.len()).filter(|&k| filter.holds(&trace, k)).map(|k| KINDS[k]).collect();
            assert_eq!(found, of, "{word}");
        }
    }
}
