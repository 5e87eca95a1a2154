//! Views of blocks in a text, for the page's lesson on memory: what the notebook's cells say, a line each.
//!
//! ```text
//! block  = block 1KiB                        # bytes of memory on the host
//! matrix = block.tensor(f32, [16, 16])
//! column = matrix.select(1, 3)
//! odd    = matrix.narrow(1, 1, 15).step(1, 2)
//! map matrix, column                         # those that are in the picture; without it all
//! ```
//!
//! Also `flip(DIM)`, `transpose(A, B)`, `expand(N)`, `at(OFFSET)` and, of a block, `scalar(TYPE)`.

use std::collections::BTreeSet;
use std::fmt;

use spanlift::Bytes;
use spanlift::memory::{Block, Dtype, Layout, MemoryMap, MovePlan, Overlap, TensorView, View, cpu, cuda};
use spanlift::program::text as quantity;

use super::{guessed, told};
use crate::show::{Figure, Show};
use crate::text;

/// Names with what they stand for, and those that are shown.
#[derive(Debug, Default)]
struct Views {
    named: Vec<(String, Named)>,
    shown: Vec<String>,
    /// Lines that begin with another word: `guess 0 255`.
    asked: Vec<(String, Vec<String>)>,
}

#[derive(Debug, Clone)]
enum Named {
    Block(Block),
    View(TensorView),
}

/// What the page does with views.
pub(super) fn act(what: &str, source: &str) -> Result<Figure, String> {
    let views = Views::read(source)?;
    match what {
        "show" => Ok(views.layout()?.show()),
        "report" => views.layout()?.report().map(|r| r.show()).map_err(words),
        "spans" => views.each("spans", |name, view| {
            let View { strides, offset, shape, .. } = view.view();
            let span = told_span(view.memory_span().map_err(words)?);
            Ok(format!("{name:<12} shape {shape:?}, strides {strides:?}, offset {offset}: elements {span}"))
        }),
        "overlaps" => views.overlaps(),
        "guess one by one" => views.copied_guessed(),
        "move one by one" => Ok(views.layout()?.move_naively(cuda(0)).show()),
        "move" => views.layout()?.move_to(cuda(0)).map(|plan| plan.show()).map_err(words),
        "moves" => views.moves(),
        "late" => views.late(),
        "deep copy" => views.layout()?.deepcopy().map(|plan| plan.show()).map_err(words),
        "blocks" => views.blocks(),
        "check span" => views.asked_about(FIFTH, |views| views.span_guessed()),
        "check move" => views.asked_about(MODEL, |views| views.move_guessed()),
        "check tiles" => views.tiles(),
        _ => Err(format!("views cannot {what:?}")),
    }
}

/// What the first exercise of lesson 2 asks about.
const FIFTH: &str = "weights = block 1KiB
matrix = weights.tensor(f32, [16, 16])
fifth = matrix.step(1, 5)";

/// What the second one does.
const MODEL: &str = "buffer = block 256KiB
embed = buffer.tensor(f32, [512, 64])
attention.qkv = buffer.tensor(f32, [192, 64]).at(36864)
attention.query = attention.qkv.narrow(0, 0, 64)
attention.key = attention.qkv.narrow(0, 64, 64)
attention.value = attention.qkv.narrow(0, 128, 64)
head = embed.transpose(0, 1)
only attention.key, attention.value";

fn words(why: impl fmt::Display) -> String {
    why.to_string()
}

fn told_span(span: Option<(i64, i64)>) -> String {
    span.map_or_else(|| "none".to_owned(), |(lo, hi)| format!("{lo} to {hi}"))
}

impl Views {
    fn read(source: &str) -> Result<Views, String> {
        let mut views = Views::default();
        for (n, line) in (1..).zip(source.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                views.line(line).map_err(|why| format!("line {n}: {why}"))?;
            }
        }
        Ok(views)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some((name, made)) = line.split_once('=') {
            let name = name.trim().to_owned();
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(format!("{name:?} is no name"));
            }
            if self.find(&name).is_some() {
                return Err(format!("{name} stands there twice"));
            }
            let made = self.made(&name, made.trim())?;
            self.named.push((name, made));
            return Ok(());
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let list: Vec<String> =
            rest.split([',', ' ']).map(str::trim).filter(|w| !w.is_empty()).map(str::to_owned).collect();
        match word {
            "map" => {
                if let Some(unknown) = list.iter().find(|name| self.find(name).is_none()) {
                    return Err(format!("no view {unknown:?}"));
                }
                self.shown = list;
            }
            _ => self.asked.push((word.to_owned(), list)),
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Named> {
        self.named.iter().find(|(n, _)| n == name).map(|(_, named)| named)
    }

    /// `block SIZE`, or a name and calls behind it.
    fn made(&self, name: &str, made: &str) -> Result<Named, String> {
        if let Some(size) = made.strip_prefix("block ") {
            let bytes =
                quantity::size(size.trim()).ok_or_else(|| format!("{size:?} is no size such as 1KiB"))?;
            return Ok(Named::Block(Block::new(name, cpu(), bytes)));
        }
        // Names may have dots in them: the longest that fits.
        let heads = self.named.iter().filter(|(head, _)| {
            made.strip_prefix(head.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let (head, named) = heads
            .max_by_key(|(head, _)| head.len())
            .ok_or_else(|| format!("{made:?} begins with no name"))?;
        let mut made_of = named.clone();
        let mut rest = &made[head.len()..];
        while let Some(call) = rest.strip_prefix('.') {
            let end = call.find(')').ok_or_else(|| format!("{call:?} has no )"))?;
            let (method, args) = call[..end].split_once('(').ok_or_else(|| format!("{call:?} is no call"))?;
            made_of = Named::View(called(&made_of, method.trim(), args)?);
            rest = call[end + 1..].trim_start();
        }
        if rest.is_empty() { Ok(made_of) } else { Err(format!("{rest:?} is not understood")) }
    }

    fn shown(&self) -> impl Iterator<Item = (&str, &TensorView)> {
        let is_shown = |name: &String| self.shown.is_empty() || self.shown.contains(name);
        self.named.iter().filter(move |(name, _)| is_shown(name)).filter_map(|(name, named)| match named {
            Named::View(view) => Some((name.as_str(), view)),
            Named::Block(_) => None,
        })
    }

    fn view(&self, name: &str) -> Result<&TensorView, String> {
        match self.find(name) {
            Some(Named::View(view)) => Ok(view),
            _ => Err(format!("no view {name:?}")),
        }
    }

    fn asked(&self, word: &str) -> impl Iterator<Item = &[String]> {
        self.asked.iter().filter(move |(w, _)| w == word).map(|(_, list)| list.as_slice())
    }

    fn map(&self) -> Result<MemoryMap, String> {
        let mut map = MemoryMap::new();
        for (name, view) in self.shown() {
            map.register(name, view).map_err(words)?;
        }
        Ok(map)
    }

    fn layout(&self) -> Result<Layout, String> {
        let map = self.map()?;
        let layout = map.layout();
        if layout.tensors().is_empty() { Err("there is no view".to_owned()) } else { Ok(layout.clone()) }
    }

    fn each(
        &self,
        word: &str,
        line: impl Fn(&str, &TensorView) -> Result<String, String>,
    ) -> Result<Figure, String> {
        let lists = self.asked(word).flatten();
        let lines = lists.map(|name| line(name, self.view(name)?)).collect::<Result<Vec<_>, String>>()?;
        if lines.is_empty() {
            return Err(format!("a line is missing: {word} NAME, NAME"));
        }
        Ok(Figure::words(lines.join("\n")))
    }

    fn overlaps(&self) -> Result<Figure, String> {
        let lines = self.asked("overlap").map(|pair| {
            let [a, b] = pair else { return Err("overlap takes two names".to_owned()) };
            let found = self.view(a)?.overlaps(self.view(b)?).map_err(words)?;
            let found = match found {
                Overlap::Yes => "share bytes",
                Overlap::No => "share no byte",
                Overlap::May => "may share bytes",
            };
            Ok(format!("{a} and {b} {found}"))
        });
        let lines = lines.collect::<Result<Vec<_>, String>>()?;
        let spans = self.shown().map(|(name, view)| {
            Ok(format!("{name}: elements {}", told_span(view.memory_span().map_err(words)?)))
        });
        let spans = spans.collect::<Result<Vec<_>, String>>()?;
        let all = [spans, lines].concat();
        if all.is_empty() { Err("there is no view".to_owned()) } else { Ok(Figure::words(all.join("\n"))) }
    }

    fn moves(&self) -> Result<Figure, String> {
        let layout = self.layout()?;
        let (naive, aware) = (layout.move_naively(cuda(0)), layout.move_to(cuda(0)).map_err(words)?);
        let pairs = |layout: &Layout| layout.report().map(|r| r.overlaps.len()).map_err(words);
        let mut lines = Vec::new();
        for (name, plan) in [("one by one", &naive), ("views kept", &aware)] {
            lines.push(format!(
                "{name}: {:>6} bytes copied into {} allocations, {} pairs share bytes",
                plan.bytes_copied(),
                plan.allocations.len(),
                pairs(&plan.after().map_err(words)?)?
            ));
        }
        lines.push(format!("before: {} pairs share bytes", pairs(&layout)?));
        Ok(Figure::words(lines.join("\n")))
    }

    /// Views that are registered one after the other, `late NAME` each: what every move copies.
    fn late(&self) -> Result<Figure, String> {
        let mut map = MemoryMap::new();
        let mut lines = Vec::new();
        for name in self.asked("late").flatten() {
            map.register(name, self.view(name)?).map_err(words)?;
            for what in [name.as_str(), "the same again"] {
                let plan = map.move_to(cuda(0)).map_err(words)?;
                lines.push(format!("{what:<16} {:>5} bytes", plan.bytes_copied()));
                map.apply(&plan).map_err(words)?;
            }
        }
        Ok(Figure::words(lines.join("\n")))
    }

    fn blocks(&self) -> Result<Figure, String> {
        let layout = self.layout()?;
        let after = layout.deepcopy().map_err(words)?.after().map_err(words)?;
        let ids = |layout: &Layout| layout.storages().iter().map(|s| s.id.clone()).collect::<Vec<_>>();
        let pairs = |layout: &Layout| layout.report().map(|r| r.overlaps.len()).map_err(words);
        Ok(Figure::words(format!(
            "the original is in {:?}, the copy in {:?}\npairs that share bytes: {} and {}",
            ids(&layout),
            ids(&after),
            pairs(&layout)?,
            pairs(&after)?
        )))
    }

    /// `guess A, B`, also as the notebook has it, `(0, 32)`, and as figures have it, `32 KiB` and `32,768`.
    fn guess(&self) -> Result<[String; 2], String> {
        let list = self.asked("guess").next().ok_or("a line is missing: guess A, B")?;
        // What goes on with a number: its unit, or three digits more.
        let goes_on = |word: &String| {
            let word = word.trim_end_matches(')');
            word.bytes().all(|b| b.is_ascii_alphabetic())
                || word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit())
        };
        match list {
            [a, b, rest @ ..] if rest.iter().all(goes_on) => {
                let bare = |words: &[&str]| words.concat().replace(['(', ')'], "");
                let b: Vec<&str> = [b].into_iter().chain(rest).map(String::as_str).collect();
                Ok([bare(&[a]), bare(&b)])
            }
            _ => Err("guess takes two numbers: guess A, B".to_owned()),
        }
    }

    /// `guess SIZE`: what is copied when each view is moved by itself.
    fn copied_guessed(&self) -> Result<Figure, String> {
        let list = self.asked("guess").next().ok_or("a line is missing: guess SIZE")?;
        let word = list.concat();
        let guess = quantity::size(&word).ok_or_else(|| format!("{word:?} is no size such as 1KiB"))?;
        let copied = self.layout()?.move_naively(cuda(0)).bytes_copied();
        let copied = Bytes(u64::try_from(copied).map_err(words)?);
        Ok(guessed("bytes copied, one by one", guess, copied))
    }

    /// Judges a guess where it is one about the views that are asked about.
    fn asked_about(
        &self,
        asked: &str,
        judge: impl Fn(&Views) -> Result<Figure, String>,
    ) -> Result<Figure, String> {
        let asked = Views::read(asked)?;
        let only = |views: &Views| views.asked("only").flatten().cloned().collect::<BTreeSet<_>>();
        match self.layout()? == asked.layout()? && only(self) == only(&asked) {
            true => judge(self),
            false => Ok(told(Err("another question: only `guess` may change".to_owned()))),
        }
    }

    fn span_guessed(&self) -> Result<Figure, String> {
        let (_, view) = self.shown().last().ok_or("there is no view")?;
        let [first, last] = self.guess()?;
        let elements = first.parse().ok().zip(last.parse().ok());
        Ok(check_span(view, elements.ok_or_else(|| format!("{first}, {last} are no numbers"))?))
    }

    fn move_guessed(&self) -> Result<Figure, String> {
        let names: Vec<&str> = self.asked("only").flatten().map(String::as_str).collect();
        let plan = self.map()?.move_only(names, cuda(0)).map_err(words)?;
        let [allocations, bytes] = self.guess()?;
        // Bytes as the other guesses take them: `32KiB`, or `32768`.
        let counts = allocations.parse().ok().zip(quantity::size(&bytes).map(|bytes| u128::from(bytes.0)));
        let counts =
            counts.ok_or_else(|| format!("{allocations}, {bytes} are no number and no size such as 1KiB"))?;
        Ok(check_allocations(&plan, counts))
    }

    fn tiles(&self) -> Result<Figure, String> {
        let layout = self.layout()?;
        let (answer, figure) = (check_tiles(&layout), layout.show());
        let plain = format!("{}\n{}", answer.plain(), figure.plain());
        Ok(figure.saying(plain))
    }
}

/// Lesson 2, exercise 1: the lowest and the highest element of a view.
pub fn check_span(view: &TensorView, guess: (i64, i64)) -> Figure {
    let View { shape, strides, offset, .. } = view.view();
    let facts = format!("shape {shape:?}, strides {strides:?}, offset {offset}");
    told(view.memory_span().map_err(words).and_then(|found| match found == Some(guess) {
        true => Ok(format!("elements {} to {}, from {facts}", guess.0, guess.1)),
        false => Err(format!("elements {} to {} are not those of {facts}", guess.0, guess.1)),
    }))
}

/// Lesson 2, exercise 2: how many allocations a move takes, and how many bytes it copies.
pub fn check_allocations(plan: &MovePlan, guess: (usize, u128)) -> Figure {
    let (allocations, bytes) = (plan.allocations.len(), plan.bytes_copied());
    told(match (guess.0 == allocations, guess.1 == bytes) {
        (true, true) => Ok(format!("{}, {bytes} bytes copied", text::count(allocations, "allocation"))),
        (true, false) => Err(format!("as many allocations; the bytes copied are not {}", guess.1)),
        (false, true) => Err(format!("as many bytes; the allocations are not {}", guess.0)),
        (false, false) => Err(format!("neither {} allocations nor {} bytes", guess.0, guess.1)),
    })
}

/// Lesson 2, exercise 3: two tiles have every byte of a weight of 1 MiB, and none twice.
pub fn check_tiles(tiles: &Layout) -> Figure {
    let found = || -> Result<String, String> {
        let n = tiles.tensors().iter().filter(|tile| !tile.view().shape.contains(&0)).count();
        if n != 2 {
            return Err(format!("{} with something in them, for two devices", text::count(n, "tile")));
        }
        let report = tiles.report().map_err(words)?;
        let devices = report.devices.values();
        let (listed, unique) = devices.fold((0, 0), |n, d| (n.0 + d.listed_bytes, n.1 + d.unique_bytes));
        let whole: u128 = tiles.storages().iter().map(|s| u128::from(s.bytes.0)).sum();
        if whole != 1 << 20 {
            return Err(format!("another weight: it has {whole} bytes, not 1 MiB"));
        }
        match (unique == whole, listed == unique) {
            (true, true) => {
                Ok(format!("{} have every byte once", text::count(tiles.tensors().len(), "tile")))
            }
            (false, _) => Err(format!("{} bytes belong to no tile", whole - unique)),
            (true, false) => Err(format!("{} bytes would be copied twice", listed - unique)),
        }
    };
    told(found())
}

/// One call on a block or a view.
fn called(on: &Named, method: &str, args: &str) -> Result<TensorView, String> {
    let number = |k: usize| -> Result<i64, String> {
        let word = args.split(',').nth(k).map(str::trim).unwrap_or_default();
        word.parse().map_err(|_| format!("{method}: {word:?} is no number"))
    };
    let dim = |k: usize| usize::try_from(number(k)?).map_err(|_| format!("{method}: no dimension {}", args));
    let dtype = |word: &str| {
        word.trim().parse::<Dtype>().map_err(|_| format!("{:?} is no type such as f32", word.trim()))
    };
    let found = match (on, method) {
        (Named::Block(block), "tensor") => {
            let (kind, shape) =
                args.split_once(',').ok_or("tensor takes a type and a shape: tensor(f32, [16, 16])")?;
            let shape = shape.trim().trim_start_matches('[').trim_end_matches(']').split(',').map(str::trim);
            let shape: Result<Vec<i64>, _> = shape.filter(|w| !w.is_empty()).map(str::parse).collect();
            block.tensor(dtype(kind)?, &shape.map_err(|_| format!("{args:?} has no shape such as [16, 16]"))?)
        }
        (Named::Block(block), "scalar") => {
            return Ok(block.view(View { dtype: dtype(args)?, shape: vec![], strides: vec![], offset: 0 }));
        }
        (Named::View(view), "narrow") => view.narrow(dim(0)?, number(1)?, number(2)?),
        (Named::View(view), "select") => view.select(dim(0)?, number(1)?),
        (Named::View(view), "step") => view.step(dim(0)?, number(1)?),
        (Named::View(view), "flip") => view.flip(dim(0)?),
        (Named::View(view), "transpose") => view.transpose(dim(0)?, dim(1)?),
        (Named::View(view), "expand") => view.expand(number(0)?),
        (Named::View(view), "at") => return Ok(view.at(number(0)?)),
        (Named::Block(_), _) => return Err(format!("a block has no {method:?}; it has tensor and scalar")),
        (Named::View(_), _) => {
            return Err(format!(
                "a view has no {method:?}; it has narrow, select, step, flip, transpose, expand, at"
            ));
        }
    };
    found.map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: &str = "block = block 1KiB\nmatrix = block.tensor(f32, [16, 16])\n";

    #[track_caller]
    fn check(what: &str, lines: &str, expected: &str) {
        let told = act(what, &format!("{MATRIX}{lines}")).unwrap_or_else(|why| Figure::error(&why));
        assert!(told.plain().contains(expected), "{expected:?} is not in {}", told.plain());
    }

    #[test]
    fn lines_are_what_the_cells_say() {
        check("spans", "up = matrix.flip(0)\nspans up", "strides [-16, 1], offset 240: elements 0 to 255");
        check("spans", "no = matrix.narrow(0, 5, 0)\nspans no", "elements none");
        check("spans", "odd = matrix.narrow(1, 1, 15).step(1, 2)\nspans odd", "elements 1 to 255");
        let pair = "even = matrix.step(1, 2)\nodd = matrix.narrow(1, 1, 15).step(1, 2)\noverlap even, odd";
        check("overlaps", pair, "even and odd share no byte");
        check("check tiles", "map a\n", "no view \"a\"");
        check(
            "check tiles",
            "a = matrix.narrow(0, 0, 8)\nb = matrix.narrow(0, 8, 8)\nmap a, b",
            "another weight",
        );
    }

    #[track_caller]
    fn judge(what: &str, text: &str, expected: &str) {
        let told = act(what, text).unwrap_or_else(|why| Figure::error(&why));
        assert!(told.plain().starts_with(expected), "{expected:?} does not begin {}", told.plain());
    }

    #[test]
    fn spans_and_tiles_are_judged() {
        let span = |guess: &str| format!("{FIFTH}\nguess {guess}");
        judge("check span", &span("0, 255"), "right: elements 0 to 255, from shape [16, 4], strides [16, 5]");
        judge("check span", &span("(0, 255)"), "right: ");
        judge("check span", &span("0, 25, 5"), "guess takes two numbers: guess A, B");
        judge("check span", &span("0, 0"), "not yet: elements 0 to 0 are not those of shape");
        // An answer to another question.
        let other = span("0, 240").replace("step(1, 5)", "step(1, 16)");
        judge("check span", &other, "not yet: another question");
        let tiles = |a: &str, b: &str, map: &str| {
            format!("block = block 1MiB\nw = block.tensor(f32, [1024, 256])\na = w.{a}\nb = w.{b}\nmap {map}")
        };
        for (a, b, map, expected) in [
            ("narrow(0, 0, 9)", "narrow(0, 8, 1016)", "a, b", "not yet: 1024 bytes would be copied twice"),
            ("narrow(0, 0, 8)", "narrow(0, 9, 1015)", "a, b", "not yet: 1024 bytes belong to no tile"),
            ("narrow(0, 0, 8)", "narrow(0, 8, 1016)", "a, b", "right: 2 tiles have every byte once"),
            ("step(0, 2)", "narrow(0, 1, 1023).step(0, 2)", "a, b", "right: "),
            ("narrow(1, 0, 100)", "narrow(1, 100, 156)", "a, b", "right: "),
            ("narrow(0, 0, 8)", "narrow(0, 8, 1016)", "w", "not yet: 1 tile with something"),
            ("narrow(0, 0, 1024)", "narrow(0, 0, 0)", "a, b", "not yet: 1 tile with something"),
        ] {
            judge("check tiles", &tiles(a, b, map), expected);
        }
    }

    #[test]
    fn guesses_about_moves_are_judged_part_by_part() {
        for (guess, expected) in [
            ("1, 32768", "right: 1 allocation, 32768 bytes copied"),
            ("2, 32768", "not yet: as many bytes; the allocations are not 2"),
            ("1, 128", "not yet: as many allocations; the bytes copied are not 128"),
            ("0, 0", "not yet: neither 0 allocations nor 0 bytes"),
            ("1, 32KiB", "right: 1 allocation, 32768 bytes copied"),
            ("1, 32 KiB", "right: "),
            ("1, 32,768", "right: "),
            ("(1, 32768)", "right: "),
            ("-1, 0", "-1, 0 are no number and no size"),
            ("1, many", "1, many are no number and no size such as 1KiB"),
        ] {
            judge("check move", &format!("{MODEL}\nguess {guess}"), expected);
        }
        let turned =
            MODEL.replace("only attention.key, attention.value", "only attention.value attention.key");
        judge("check move", &format!("{turned}\nguess 1, 32768"), "right: ");
        let one = MODEL.replace(", attention.value", "");
        judge("check move", &format!("{one}\nguess 1, 16384"), "not yet: another question");
        // The whole block, once for each of two views of 1 KiB.
        check(
            "guess one by one",
            "again = matrix.flip(0)\nguess 1KiB",
            "guessed: bytes 1024 B\ncounted: bytes 2048 B",
        );
        check("guess one by one", "guess many", "\"many\" is no size such as 1KiB");
        check("guess one by one", "guess 1 KiB", "guessed: bytes 1024 B");
        check("guess one by one", "", "a line is missing: guess SIZE");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        check("show", "x = nothing.step(1, 5)", "line 3: \"nothing.step(1, 5)\" begins with no name");
        check("show", "x = matrix.step(1", "line 3: ");
        check("show", "x = matrix.turn(1)", "line 3: a view has no \"turn\"");
        check("show", "x = block.step(1)", "line 3: a block has no \"step\"");
        check("show", "x = matrix.step(7, 2)", "line 3: ");
        check("show", "x = matrix.step(one, 2)", "line 3: step: \"one\" is no number");
        check("show", "matrix = matrix", "line 3: matrix stands there twice");
        check("show", "x = matrix.flip(0) and more", "line 3: \"and more\" is not understood");
        judge("check span", &format!("{FIFTH}\nguess 1"), "guess takes two numbers");
        check("sing", "", "views cannot \"sing\"");
    }
}
