//! Whose bytes each kernel and each look of the host gets: what an answer may rename, merge and move, and not leave out.
//!
//! Every byte that is read has a root: the command that made it. A copy makes nothing, it hands on; so it does not matter
//! over how many buffers, and through which, a batch comes to the device. What came from where follows from the order of the
//! commands: a program without a race does nothing else in any other order.

use std::collections::BTreeMap;

use spanlift::program::{BufferId, Command, Copy, Op, Region, Space};
use spanlift::{Nanos, Program};

use crate::text;

/// Bytes of a buffer that one command made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    /// The command, and the first of its bytes that is meant.
    root: usize,
    at: i64,
    lo: i64,
    hi: i64,
}

impl Piece {
    /// The part of it between two places.
    fn within(self, lo: i64, hi: i64) -> Option<Piece> {
        let (from, to) = (self.lo.max(lo), self.hi.min(hi));
        (from < to).then_some(Piece { at: self.at + from - self.lo, lo: from, hi: to, ..self })
    }
}

/// Bytes by their roots, each once, in order.
#[derive(Debug, Clone, Default)]
struct Bytes(Vec<(usize, i64, i64)>);

impl Bytes {
    fn of(pieces: impl IntoIterator<Item = Piece>) -> Bytes {
        Bytes::joined(pieces.into_iter().map(|p| (p.root, p.at, p.at + p.hi - p.lo)).collect())
    }

    fn joined(mut list: Vec<(usize, i64, i64)>) -> Bytes {
        list.sort_unstable();
        let mut joined: Vec<(usize, i64, i64)> = Vec::new();
        for (root, lo, hi) in list {
            match joined.last_mut() {
                Some(last) if last.0 == root && lo <= last.2 => last.2 = last.2.max(hi),
                _ => joined.push((root, lo, hi)),
            }
        }
        Bytes(joined)
    }

    fn count(&self) -> i64 {
        self.0.iter().map(|(_, lo, hi)| hi - lo).sum()
    }

    fn with(&self, other: &Bytes) -> Bytes {
        Bytes::joined(self.0.iter().chain(&other.0).copied().collect())
    }

    fn of_roots(&self, is: impl Fn(usize) -> bool) -> Bytes {
        Bytes(self.0.iter().copied().filter(|(root, ..)| is(*root)).collect())
    }
}

/// A kernel by its name, and which of that name it is.
type Name = (String, usize);

/// What a kernel is given.
struct Work {
    takes: Option<Nanos>,
    /// Bytes that the host had.
    brought: Bytes,
    /// How many bytes it reads that other kernels wrote.
    made: BTreeMap<Name, i64>,
}

struct Flow {
    kernels: BTreeMap<Name, Work>,
    /// How many bytes of each kernel the host looks at.
    looked: BTreeMap<Name, i64>,
}

impl Flow {
    fn of(program: &Program) -> Flow {
        let commands = program.commands();
        let mut held: BTreeMap<BufferId, Vec<Piece>> = BTreeMap::new();
        let mut names: BTreeMap<usize, Name> = BTreeMap::new();
        let mut kernels = BTreeMap::new();
        let mut looked = Bytes::default();
        for (index, command) in commands.iter().enumerate() {
            let (reads, writes) = command.op.regions();
            let read = || Bytes::of(reads.iter().flat_map(|r| pieces(&held, r)));
            match &command.op {
                Op::Alloc(alloc) => {
                    _ = held.insert(alloc.buffer, vec![Piece { root: index, at: 0, lo: 0, hi: alloc.bytes }]);
                    continue;
                }
                Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } => {
                    let moved = moved(&pieces(&held, src), src, dst);
                    put(&mut held, dst, moved);
                    continue;
                }
                Op::HostRead { .. } => looked = looked.with(&read()),
                Op::Kernel(kernel) => {
                    let label = command.label.as_deref().unwrap_or("a kernel").to_owned();
                    let before = names.values().filter(|(other, _)| *other == label).count();
                    let name = (label, before + 1);
                    let read = read();
                    let brought = read.of_roots(|root| is_of_the_host(&commands[root]));
                    let made = made(&read, &names);
                    kernels.insert(name.clone(), Work { takes: kernel.takes, brought, made });
                    names.insert(index, name);
                }
                _ => {}
            }
            for region in writes {
                let all = region.span.bounds().map(|(lo, hi)| Piece { root: index, at: lo, lo, hi });
                put(&mut held, region, all.into_iter().collect());
            }
        }
        Flow { looked: made(&looked, &names), kernels }
    }
}

/// What of these bytes is whose, of the kernels so far.
fn made(bytes: &Bytes, names: &BTreeMap<usize, Name>) -> BTreeMap<Name, i64> {
    let of = |(index, name): (&usize, &Name)| (name.clone(), bytes.of_roots(|root| root == *index).count());
    names.iter().map(of).filter(|(_, n)| *n > 0).collect()
}

/// What lies in memory of a device from its beginning was brought by nobody.
fn is_of_the_host(command: &Command) -> bool {
    match &command.op {
        Op::Alloc(alloc) => matches!(alloc.space, Space::Pinned | Space::Pageable),
        op => matches!(op, Op::HostWrite { .. }),
    }
}

fn pieces(held: &BTreeMap<BufferId, Vec<Piece>>, region: &Region) -> Vec<Piece> {
    let (Some(pieces), Some((lo, hi))) = (held.get(&region.buffer), region.span.bounds()) else {
        return Vec::new();
    };
    pieces.iter().filter_map(|p| p.within(lo, hi)).collect()
}

/// The pieces of a copy's source at the places where they arrive.
fn moved(pieces: &[Piece], src: &Region, dst: &Region) -> Vec<Piece> {
    let (Some((from, _)), Some((to, end))) = (src.span.bounds(), dst.span.bounds()) else {
        return Vec::new();
    };
    let there = |p: &Piece| Piece { lo: p.lo - from + to, hi: p.hi - from + to, ..*p }.within(to, end);
    pieces.iter().filter_map(there).collect()
}

fn put(held: &mut BTreeMap<BufferId, Vec<Piece>>, region: &Region, new: Vec<Piece>) {
    let Some((lo, hi)) = region.span.bounds() else { return };
    let pieces = held.entry(region.buffer).or_default();
    let kept = pieces.iter().flat_map(|p| [p.within(i64::MIN, lo), p.within(hi, i64::MAX)]).flatten();
    *pieces = kept.chain(new).collect();
}

/// Refuses an answer whose kernels get less than they got, or whose host looks at less of what they made.
///
/// More is no fault: a kernel may be given a buffer into which several were merged.
pub(super) fn same_flow(asked: &Program, answer: &Program) -> Result<(), String> {
    let (asked, here) = (Flow::of(asked), Flow::of(answer));
    let told = |(name, k): &Name| match asked.kernels.contains_key(&(name.clone(), 2)) {
        true => format!("`{name}` (number {k})"),
        false => format!("`{name}`"),
    };
    let bytes = |n: i64| text::bytes(n.try_into().unwrap_or(0));
    let found = |name: &Name| {
        here.kernels.get(name).ok_or_else(|| format!("the steps run {}, here it is missing", told(name)))
    };
    for (name, work) in &asked.kernels {
        let now = found(name)?;
        if now.takes != work.takes {
            let time = |takes: Option<Nanos>| {
                takes.map_or("as long as its bytes do".to_owned(), |t| text::time(t.0))
            };
            return Err(format!("{} takes {}, here {}", told(name), time(work.takes), time(now.takes)));
        }
        let (was, is) = (work.brought.count(), now.brought.count());
        if is < was {
            return Err(format!(
                "{} reads {} that come from the host, here {}: it has to say what it reads, and somebody has to bring it",
                told(name),
                bytes(was),
                bytes(is)
            ));
        }
        for (by, was) in &work.made {
            let is = now.made.get(by).copied().unwrap_or(0);
            if is < *was {
                return Err(format!(
                    "{} reads {} that {} writes, here {}",
                    told(name),
                    bytes(*was),
                    told(by),
                    bytes(is)
                ));
            }
        }
    }
    for (k, (name, work)) in asked.kernels.iter().enumerate() {
        for (other, beside) in asked.kernels.iter().skip(k + 1) {
            let together = |a: &Work, b: &Work| {
                let all = a.brought.with(&b.brought).count();
                (all, a.brought.count() + b.brought.count() - all)
            };
            let (all, common) = together(work, beside);
            let (all_here, common_here) = together(found(name)?, found(other)?);
            if all_here < all || common_here < common {
                let which = if common_here < common {
                    "the host's bytes that"
                } else {
                    "other bytes of the host's than"
                };
                return Err(format!("{} reads {which} {} reads, here it does not", told(name), told(other)));
            }
        }
    }
    for (by, was) in &asked.looked {
        let is = here.looked.get(by).copied().unwrap_or(0);
        if is < *was {
            return Err(format!(
                "the host looks at {} that {} writes, here at {}",
                bytes(*was),
                told(by),
                bytes(is)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "\
stream s
pinned x 64
pinned y 64
pinned seen 8
device d 64
device e 64
device l 8
copy d <- x on s
copy e <- y on s
kernel forward on s reads d, e writes l for 1us
copy seen <- l on s
sync s
read seen
kernel backward on s reads d, l for 2us
sync s
";

    #[track_caller]
    fn check(answer: &str, expected: &str) {
        let read = |text: &str| Program::from_text(text).unwrap();
        let told = same_flow(&read(ASKED), &read(answer)).map_or_else(|why| why, |()| "the same".to_owned());
        assert!(told.contains(expected), "{expected:?} is not in {told}");
    }

    fn without(line: &str) -> String {
        assert!(ASKED.contains(line), "{line}");
        ASKED.replacen(line, "", 1)
    }

    #[test]
    fn what_is_renamed_merged_moved_or_handed_on_is_the_same() {
        check(ASKED, "the same");
        check(&without("sync s\nread seen\n").replace("sync s\n", "sync s\nread seen\n"), "the same");
        let merged = "stream s\npinned all 128\npinned loss 8\ndevice b 128\ndevice l 8\n\
                      copy b[0..64] <- all[0..64] on s\ncopy b[64..128] <- all[64..128] on s\n\
                      kernel forward on s reads b writes l for 1us\nkernel backward on s reads b, l for 2us\n\
                      copy loss <- l on s\nsync s\nread loss";
        check(merged, "the same");
        let by_hand = ASKED
            .replace("pinned x 64", "pageable x 64\npinned p 64")
            .replace("copy d <- x", "host copy p <- x\ncopy d <- p");
        check(&by_hand, "the same");
        check(
            &ASKED.replace(
                "copy d <- x on s",
                "copy d[32..64] <- x[32..64] on s\ncopy d[0..32] <- x[0..32] on s",
            ),
            "the same",
        );
    }

    #[test]
    fn what_is_left_out_is_told() {
        check(&ASKED.replace("reads d, e ", ""), "`forward` reads 128 B that come from the host, here 0 B");
        check(
            &ASKED.replace("reads d, e", "reads d"),
            "`forward` reads 128 B that come from the host, here 64 B",
        );
        check(&without("copy e <- y on s\n"), "`forward` reads 128 B that come from the host, here 64 B");
        check(
            &ASKED.replace("copy e <- y", "copy e <- x"),
            "`forward` reads 128 B that come from the host, here 64 B",
        );
        check(
            &ASKED.replace("reads d, l for 2us", "reads l for 2us"),
            "`backward` reads 64 B that come from the host",
        );
        check(
            &ASKED.replace("reads d, l for 2us", "reads d for 2us"),
            "`backward` reads 8 B that `forward` writes, here 0 B",
        );
        check(&ASKED.replace("writes l ", ""), "`backward` reads 8 B that `forward` writes, here 0 B");
        check(&without("read seen\n"), "the host looks at 8 B that `forward` writes, here at 0 B");
        check(&without("copy seen <- l on s\n"), "the host looks at 8 B that `forward` writes, here at 0 B");
        let early = without("read seen\n").replace("copy seen <- l", "read seen\ncopy seen <- l");
        check(&early, "the host looks at 8 B that `forward` writes, here at 0 B");
        check(&ASKED.replace("for 2us", "for 1us"), "`backward` takes 2 µs, here 1 µs");
        check(
            &ASKED.replace("kernel backward", "kernel other"),
            "the steps run `backward`, here it is missing",
        );
        let other = ASKED
            .replace("device l 8", "device l 8\npinned z 64\ndevice f 64")
            .replace("kernel backward on s reads d, l", "copy f <- z on s\nkernel backward on s reads f, l");
        check(&other, "`backward` reads the host's bytes that `forward` reads, here it does not");
    }
}
