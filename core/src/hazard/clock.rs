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
        let own = Epoch { chain, tick: 0 };
        Clock { own, via: own, is_closed: true, is_folded: true, past: Past::default() }
    }
}

/// What the last node of a chain knows: itself, one other node `via`, and a past.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    own: Epoch,
    /// The node heard of last; `own`'s chain at tick 0 for none.
    via: Epoch,
    /// Whether whoever knows `via` knows all of the past.
    is_closed: bool,
    /// Whether the past has `via` too.
    is_folded: bool,
    past: Past,
}

impl Clock {
    /// The chain's last node.
    pub(super) fn epoch(&self) -> Epoch {
        self.own
    }

    /// Whether `node` is this clock's last node or lies before it.
    pub(super) fn knows(&self, node: Epoch) -> bool {
        (node.chain == self.own.chain && node.tick <= self.own.tick)
            || (node.chain == self.via.chain && node.tick <= self.via.tick)
            || node.tick <= self.past.tick(node.chain)
    }

    /// Whether every node of `past` is this clock's last node or lies before it.
    ///
    /// As cheap as the two differ, since clocks that heard of the same node share what it knew.
    pub(super) fn knows_all(&self, past: &Past) -> bool {
        self.looks_for_all(past).is_some()
    }

    /// As [`Clock::knows_all`]: how many nodes of trees were looked at, `None` where something is not known.
    pub(super) fn looks_for_all(&self, past: &Past) -> Option<usize> {
        let Some(mut theirs) = past.root.as_ref() else { return Some(0) };
        let mut height = past.height;
        while self.past.height < height {
            let Node::Branch(children) = &**theirs else { unreachable!("bug: a leaf above the leaves") };
            match (&children[0], children[1..].iter().all(Option::is_none)) {
                (Some(first), true) => theirs = first,
                // Chains that this past has no room for: a few of them may be known all the same, which is left open.
                _ => return None,
            }
            height -= 1;
        }
        let mut mine = self.past.root.as_ref();
        for _ in height..self.past.height {
            mine = mine.and_then(|node| match &**node {
                Node::Branch(children) => children[0].as_ref(),
                Node::Leaf(_) => unreachable!("bug: a leaf above the leaves"),
            });
        }
        let mut n_looks = 0;
        lies_within(theirs, mine, height, 0, &|node| self.knows(node), &mut n_looks).then_some(n_looks)
    }

    /// What this clock heard of: surely before its last node, though not all that is.
    pub(super) fn past(&self) -> &Past {
        &self.past
    }

    /// Puts everything that `other` knows into the past; says whether that was news. Then [`Clock::tick`] is due.
    ///
    /// Constant where one side knew all that the other did, as usual; otherwise a join of two pasts.
    pub(super) fn hear(&mut self, other: &Clock) -> bool {
        if self.knows(other.own) {
            return false;
        }
        if self.is_closed && other.knows(self.via) {
            self.past = other.past.clone();
            if !other.is_folded {
                self.past.raise(other.via);
            }
            (self.via, self.is_folded) = (other.own, false);
            return true;
        }
        self.fold();
        if !(other.is_closed && self.knows(other.via)) {
            self.past.join(&other.past);
            self.past.raise(other.via);
        }
        self.past.raise(other.own);
        (self.via, self.is_closed, self.is_folded) = (other.own, false, true);
        true
    }

    /// Makes hearing of this clock cheaper, for one that many will hear of.
    pub(super) fn fold(&mut self) {
        if !self.is_folded {
            self.past.raise(self.via);
            self.is_folded = true;
        }
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
pub(super) struct Past {
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

    /// Whether `node` is one of these.
    pub(super) fn has(&self, node: Epoch) -> bool {
        node.tick <= self.tick(node.chain)
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

    /// Takes in a node and those before it in its chain.
    pub(super) fn raise(&mut self, to: Epoch) {
        if to.tick <= self.tick(to.chain) {
            return;
        }
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

    /// Takes in all nodes of another.
    pub(super) fn join(&mut self, other: &Past) {
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

/// Whether each tick of `theirs`, whose first chain is `base`, is one of `mine` or known otherwise.
fn lies_within(
    theirs: &Rc<Node>,
    mine: Option<&Rc<Node>>,
    level: u32,
    base: u64,
    knows: &impl Fn(Epoch) -> bool,
    n_looks: &mut usize,
) -> bool {
    if mine.is_some_and(|mine| Rc::ptr_eq(theirs, mine)) {
        return true;
    }
    *n_looks += 1;
    let chains = base..;
    match (&**theirs, mine.map(|node| &**node)) {
        (Node::Leaf(theirs), mine) => {
            let ticks = match mine {
                Some(Node::Leaf(ticks)) => ticks,
                _ => &[0; WIDTH],
            };
            let mut each = theirs.iter().zip(ticks).zip(chains);
            let knows = |chain, tick| u32::try_from(chain).is_ok_and(|chain| knows(Epoch { chain, tick }));
            each.all(|((&tick, &known), chain)| tick <= known || knows(chain, tick))
        }
        (Node::Branch(theirs), mine) => {
            let mine = |k: usize| match mine {
                Some(Node::Branch(children)) => children[k].as_ref(),
                _ => None,
            };
            let mut each = theirs.iter().enumerate().zip(chains.step_by(WIDTH.pow(level)));
            each.all(|((k, child), base)| {
                child
                    .as_ref()
                    .is_none_or(|child| lies_within(child, mine(k), level - 1, base, knows, n_looks))
            })
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

    /// Clocks that hear of each other at random against plain sets of nodes.
    #[test]
    fn a_clock_knows_what_it_heard_of_and_no_more() {
        let mut state = 0xfeed_5678_9abc_def1_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 11).unwrap() % below
        };
        let mut n_within = 0;
        for round in 0..60 {
            let n = [3, 6, 40][round % 3];
            let mut chains = Chains::default();
            let mut clocks: Vec<Clock> = (0..n).map(|_| chains.start()).collect();
            let mut known: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); n];
            // Snapshots, as events keep them.
            let mut held = vec![(clocks[0].clone(), known[0].clone())];
            for _ in 0..300 {
                let k = random(n);
                match random(6) {
                    0 => held.push((clocks[k].clone(), known[k].clone())),
                    1 => clocks[k].fold(),
                    2 => {
                        let own = clocks[k].tick();
                        known[k].insert(own.chain, own.tick);
                    }
                    _ => {
                        let (clock, nodes) = if random(2) == 0 {
                            held[random(held.len())].clone()
                        } else {
                            let j = random(n);
                            (clocks[j].clone(), known[j].clone())
                        };
                        let news = clocks[k].hear(&clock);
                        for (chain, tick) in nodes {
                            let mine = known[k].entry(chain).or_default();
                            *mine = tick.max(*mine);
                        }
                        if news {
                            let own = clocks[k].tick();
                            known[k].insert(own.chain, own.tick);
                        }
                    }
                }
                let past = held[random(held.len())].0.past().clone();
                let mut chains = 0..u32::try_from(n).unwrap();
                let all = chains.all(|chain| clocks[k].knows(Epoch { chain, tick: past.tick(chain) }));
                match clocks[k].knows_all(&past) {
                    true => {
                        n_within += 1;
                        assert!(all);
                    }
                    // Trees of one leaf are told apart exactly.
                    false => assert!(n > WIDTH || !all),
                }
                for chain in 0..u32::try_from(n).unwrap() {
                    let tick = known[k].get(&chain).copied().unwrap_or(0);
                    assert!(clocks[k].knows(Epoch { chain, tick }));
                    assert!(!clocks[k].knows(Epoch { chain, tick: tick + 1 }));
                }
            }
        }
        assert!(n_within > 1_000, "{n_within}");
    }
}
