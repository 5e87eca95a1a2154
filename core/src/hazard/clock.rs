//! Vector clocks: what one chain of nodes knows of all the others.
//!
//! Every stream and every host thread is a *chain*; its nodes have the ticks 1, 2, 3 ... A clock says of each chain up to
//! which tick its nodes lie in the past. Nothing here knows why.
//!
//! **Invariant:** a clock changes only together with its own tick. So whoever knows a clock's last tick knows everything
//! that this clock knew, and joining is usually one comparison.

use std::rc::Rc;

/// One node: a chain and a tick of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) chain: u32,
    pub(super) tick: u32,
}

/// Hands out the numbers of chains.
#[derive(Debug, Default)]
pub(super) struct Chains(u32);

impl Chains {
    /// A clock of a new chain that knows nothing.
    pub(super) fn start(&mut self) -> Clock {
        let chain = self.0;
        self.0 = self.0.checked_add(1).unwrap_or_else(|| unreachable!("bug: more chains than names"));
        Clock { own: Epoch { chain, tick: 0 }, past: Past::default() }
    }
}

/// What the last node of a chain knows.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    own: Epoch,
    past: Past,
}

impl Clock {
    /// The chain's last node.
    pub(super) fn epoch(&self) -> Epoch {
        self.own
    }

    /// Whether `node` is this clock's last node or lies before it.
    pub(super) fn knows(&self, node: Epoch) -> bool {
        let known = if node.chain == self.own.chain { self.own.tick } else { self.past.tick(node.chain) };
        node.tick <= known
    }

    /// Puts everything that `other` knows into the past; says whether that was news. Then [`Clock::tick`] is due.
    pub(super) fn hear(&mut self, other: &Clock) -> bool {
        let news = !self.knows(other.own);
        if news {
            self.past.join(&other.past);
            self.past.raise(other.own);
        }
        news
    }

    /// A new node of the chain.
    pub(super) fn tick(&mut self) -> Epoch {
        self.own.tick = self.own.tick.checked_add(1).unwrap_or_else(|| unreachable!("bug: 2^32 nodes"));
        self.own
    }
}

/// Ticks of all chains, dense in leaves of 32 that clocks share until one changes.
///
/// A program with up to 32 chains has one leaf. With a million streams that never meet, each clock still costs next to
/// nothing, since all of them share their creator's past.
#[derive(Debug, Clone, Default)]
struct Past {
    root: Option<Rc<Node>>,
    /// Levels of branches above the leaves.
    height: u32,
}

const WIDTH: usize = 32;
const BITS: u32 = WIDTH.trailing_zeros();

#[derive(Debug, Clone)]
enum Node {
    Leaf([u32; WIDTH]),
    Branch([Option<Rc<Node>>; WIDTH]),
}

impl Node {
    fn empty(level: u32) -> Rc<Node> {
        Rc::new(if level == 0 { Node::Leaf([0; WIDTH]) } else { Node::Branch(Default::default()) })
    }
}

/// Which child of a node at `level` holds `chain`.
fn digit(chain: u32, level: u32) -> usize {
    (chain >> (BITS * level)) as usize % WIDTH
}

impl Past {
    fn holds(&self, chain: u32) -> bool {
        self.root.is_some() && u64::from(chain) >> (BITS * (self.height + 1)) == 0
    }

    fn tick(&self, chain: u32) -> u32 {
        if !self.holds(chain) {
            return 0;
        }
        let (mut node, mut level) = (self.root.as_deref(), self.height);
        loop {
            match node {
                None => return 0,
                Some(Node::Leaf(ticks)) => return ticks[digit(chain, 0)],
                Some(Node::Branch(children)) => node = children[digit(chain, level)].as_deref(),
            }
            level = level.saturating_sub(1);
        }
    }

    /// Makes room for chains of trees of this height.
    fn grow(&mut self, height: u32) {
        if self.root.is_none() {
            (self.root, self.height) = (Some(Node::empty(height)), height);
        }
        while self.height < height {
            let mut children: [Option<Rc<Node>>; WIDTH] = Default::default();
            children[0] = self.root.take();
            self.root = Some(Rc::new(Node::Branch(children)));
            self.height += 1;
        }
    }

    fn raise(&mut self, to: Epoch) {
        let mut height = 0;
        while u64::from(to.chain) >> (BITS * (height + 1)) != 0 {
            height += 1;
        }
        self.grow(height);
        let mut level = self.height;
        let mut node = self.root.get_or_insert_with(|| unreachable!("bug: grown above"));
        loop {
            match Rc::make_mut(node) {
                Node::Leaf(ticks) => {
                    let tick = &mut ticks[digit(to.chain, 0)];
                    *tick = to.tick.max(*tick);
                    return;
                }
                Node::Branch(children) => {
                    let child = &mut children[digit(to.chain, level)];
                    level -= 1;
                    node = child.get_or_insert_with(|| Node::empty(level));
                }
            }
        }
    }

    fn join(&mut self, other: &Past) {
        let Some(theirs) = &other.root else { return };
        if self.root.is_none() {
            self.clone_from(other);
            return;
        }
        self.grow(other.height);
        let mut mine = self.root.get_or_insert_with(|| unreachable!("bug: looked at above"));
        for _ in other.height..self.height {
            // Their chains are the first ones of a taller tree.
            let Node::Branch(children) = Rc::make_mut(mine) else {
                unreachable!("bug: a leaf above the leaves")
            };
            match &mut children[0] {
                Some(child) => mine = child,
                none => {
                    *none = Some(Rc::clone(theirs));
                    return;
                }
            }
        }
        if brings_news(theirs, mine) {
            merge(mine, theirs);
        }
    }
}

/// Whether `theirs` has a tick above that of `mine`.
fn brings_news(theirs: &Rc<Node>, mine: &Rc<Node>) -> bool {
    if Rc::ptr_eq(theirs, mine) {
        return false;
    }
    match (&**theirs, &**mine) {
        (Node::Leaf(theirs), Node::Leaf(mine)) => theirs.iter().zip(mine).any(|(t, m)| m < t),
        (Node::Branch(theirs), Node::Branch(mine)) => theirs.iter().zip(mine).any(|pair| match pair {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(theirs), Some(mine)) => brings_news(theirs, mine),
        }),
        _ => unreachable!("bug: trees of different heights"),
    }
}

/// Takes the later of both ticks of each chain.
fn merge(mine: &mut Rc<Node>, theirs: &Rc<Node>) {
    match (Rc::make_mut(mine), &**theirs) {
        (Node::Leaf(mine), Node::Leaf(theirs)) => {
            for (m, t) in mine.iter_mut().zip(theirs) {
                *m = (*m).max(*t);
            }
        }
        (Node::Branch(mine), Node::Branch(theirs)) => {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                match (mine, theirs) {
                    (_, None) => {}
                    (mine @ None, Some(theirs)) => *mine = Some(Rc::clone(theirs)),
                    (Some(mine), Some(theirs)) => {
                        if brings_news(theirs, mine) {
                            merge(mine, theirs);
                        }
                    }
                }
            }
        }
        _ => unreachable!("bug: trees of different heights"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Joins and raises of trees against plain maps, with chains far apart so that trees of all heights meet.
    #[test]
    fn a_past_is_a_map_of_the_latest_ticks() {
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from(state % below).unwrap()
        };
        let mut pasts: Vec<(Past, BTreeMap<u32, u32>)> = vec![Default::default(); 12];
        for _ in 0..1_500 {
            let (k, j) = (random(12) as usize, random(12) as usize);
            if random(3) == 0 {
                let (past, map) = pasts[j].clone();
                pasts[k].0.join(&past);
                for (chain, tick) in map {
                    let mine = pasts[k].1.entry(chain).or_default();
                    *mine = tick.max(*mine);
                }
            } else if random(40) == 0 {
                pasts[k] = Default::default();
            } else {
                let size = random(5) as usize;
                let chain = random([20, 40, 1_200, 40_000, 4_000_000_000][size]);
                let tick = random(1000);
                pasts[k].0.raise(Epoch { chain, tick });
                let mine = pasts[k].1.entry(chain).or_default();
                *mine = tick.max(*mine);
            }
            let (past, map) = &pasts[k];
            for (&chain, &tick) in map {
                assert_eq!(past.tick(chain), tick);
            }
            for chain in [0, 31, 32, 1023, 1024, u32::MAX] {
                assert_eq!(past.tick(chain), map.get(&chain).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn whoever_knows_a_tick_knows_what_its_clock_knew() {
        let mut chains = Chains::default();
        let [mut a, mut b, mut c] = [(); 3].map(|()| chains.start());
        let first = a.tick();
        assert!(!b.knows(first));
        assert!(b.hear(&a));
        let second = b.tick();
        assert!(c.hear(&b) && c.knows(first) && c.knows(second));
        c.tick();
        assert!(!c.hear(&a), "no news");
        a.tick();
        assert!(c.hear(&a));
    }
}
