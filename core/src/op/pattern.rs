//! Matching of patterns, and shapes of named dimensions on both sides of an operator.
//!
//! Whether two patterns match is a question about languages: they do when some list of dimensions belongs to both. `...`
//! may stand for nothing wherever it is. Matching does not depend on the order of the two.

use crate::ordered::{BTreeMap, CollectVec};

use super::name::{Dim, Name, collapsed};
use super::space::SpaceError;

/// What the entries of two patterns stand for when both describe one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    /// What each entry of the first pattern stands for, in terms of the second: one entry, or any number for `...`.
    pub left: Vec<Vec<Dim>>,
    /// What each entry of the second pattern stands for, in terms of the first.
    pub right: Vec<Vec<Dim>>,
    /// What both stand for: names where one of the two says them, equal numbers for dimensions that are known to be equal,
    /// counted from 1.
    pub joined: Vec<Dim>,
}

/// How many alternatives a match looks at before it is called undecided; only patterns with numbered entries come near.
const ALTERNATIVES: usize = 100_000;

/// Matches two patterns, with the shortest `...` from the left where several fit.
///
/// Numbers belong to their own pattern: `(1)` of one is not `(1)` of the other. What is found does not depend on which of the
/// two is the first.
///
/// # Errors
/// [`SpaceError::NoMatch`] when no list belongs to both; [`SpaceError::AmbiguousEllipsis`] when numbered entries leave more
/// alternatives than are looked at.
///
/// # Cost
/// The product of both lengths; more with numbered entries.
///
/// ```
/// use spanlift::op::{dims, matching};
/// let found = matching(&dims("...Nx")?, &dims("CoilNyNx")?)?;
/// assert_eq!(found.left[0], dims("CoilNy")?);
/// assert_eq!(matching(&dims("(1)(1)")?, &dims("()Nx")?)?.joined, dims("NxNx")?);
/// assert!(matching(&dims("A...A")?, &dims("A")?).is_err());
/// # Ok::<(), spanlift::op::SpaceError>(())
/// ```
pub fn matching(left: &[Dim], right: &[Dim]) -> Result<Matching, SpaceError> {
    let (left, right) = (&collapsed(left.to_vec())[..], &collapsed(right.to_vec())[..]);
    let swapped = left > right;
    let found = if swapped { searched(right, left) } else { searched(left, right) };
    match found {
        Ok(Matching { left, right, joined }) if swapped => Ok(Matching { left: right, right: left, joined }),
        Ok(found) => Ok(found),
        Err(gave_up) => {
            let (left, right) = (joined(left), joined(right));
            Err(if gave_up {
                SpaceError::AmbiguousEllipsis { left, right }
            } else {
                SpaceError::NoMatch { left, right }
            })
        }
    }
}

/// The first match in the order of the search, or whether it gave up.
fn searched(left: &[Dim], right: &[Dim]) -> Result<Matching, bool> {
    let mut search = Search {
        left,
        right,
        possible: possible(left, right),
        path: Vec::new(),
        bound: BTreeMap::new(),
        order: Vec::new(),
        budget: ALTERNATIVES,
    };
    if !search.finds() {
        return Err(search.budget == 0);
    }
    let mut found = Matching {
        left: vec![Vec::new(); left.len()],
        right: vec![Vec::new(); right.len()],
        joined: Vec::new(),
    };
    let mut numbers: Vec<Single> = Vec::new();
    for &(i, j, step) in &search.path {
        if !matches!(step, Step::RightTakes) {
            found.left[i].push(right[j].clone());
        }
        if !matches!(step, Step::LeftTakes) {
            found.right[j].push(left[i].clone());
        }
        let entries = match step {
            Step::Both => [single(&left[i], true), single(&right[j], false)],
            Step::LeftTakes => [None, single(&right[j], false)],
            Step::RightTakes => [single(&left[i], true), None],
        };
        // Both were made one, so either says what they are.
        found.joined.push(match entries.into_iter().flatten().map(|entry| search.root(entry)).next() {
            Some(Single::Name(name)) => Dim::Named(name),
            Some(number) => {
                let known = numbers.iter().position(|n| *n == number);
                let at = known.unwrap_or_else(|| {
                    numbers.push(number);
                    numbers.len() - 1
                });
                Dim::Numbered(at as u64 + 1)
            }
            None => Dim::One,
        });
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Two single entries stand for one dimension.
    Both,
    /// `...` of the left stands for an entry of the right.
    LeftTakes,
    RightTakes,
}

/// An entry that stands for one dimension, in a namespace of its own per pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Single {
    Name(Name),
    Numbered(bool, u64),
}

fn single(dim: &Dim, of_left: bool) -> Option<Single> {
    match dim {
        Dim::Named(name) => Some(Single::Name(name.clone())),
        Dim::Numbered(n) => Some(Single::Numbered(of_left, *n)),
        Dim::One | Dim::Rest => None,
    }
}

struct Search<'a> {
    left: &'a [Dim],
    right: &'a [Dim],
    /// Whether the rests of both from `(i, j)` match when numbers are ignored.
    possible: Vec<Vec<bool>>,
    path: Vec<(usize, usize, Step)>,
    /// What numbered entries have been found equal to.
    bound: BTreeMap<Single, Single>,
    /// Those entries, in the order in which it was found.
    order: Vec<Single>,
    budget: usize,
}

/// A way on that is left to try: where it leads, its step, and how much was known before it.
struct Try {
    at: (usize, usize),
    step: Option<(usize, usize, Step)>,
    path: usize,
    bound: usize,
}

fn possible(left: &[Dim], right: &[Dim]) -> Vec<Vec<bool>> {
    let (m, n) = (left.len(), right.len());
    let mut table = vec![vec![false; n + 1]; m + 1];
    for i in (0..=m).rev() {
        for j in (0..=n).rev() {
            let (a, b) = (left.get(i), right.get(j));
            let rest = Some(&Dim::Rest);
            table[i][j] = (a.is_none() && b.is_none())
                || (a == rest && (table[i + 1][j] || (j < n && table[i][j + 1])))
                || (b == rest && (table[i][j + 1] || (i < m && table[i + 1][j])))
                || match (a, b) {
                    (Some(Dim::Rest) | None, _) | (_, Some(Dim::Rest) | None) => false,
                    (Some(Dim::Named(a)), Some(Dim::Named(b))) => a == b && table[i + 1][j + 1],
                    _ => table[i + 1][j + 1],
                };
        }
    }
    table
}

impl Search<'_> {
    /// Whether there is a match, which `path` is then. A loop: patterns may be longer than calls lie in each other.
    fn finds(&mut self) -> bool {
        // What is left to try, the next one last.
        let mut left = vec![Try { at: (0, 0), step: None, path: 0, bound: 0 }];
        while let Some(Try { at: (i, j), step, path, bound }) = left.pop() {
            self.path.truncate(path);
            for entry in self.order.drain(bound..) {
                self.bound.remove(&entry);
            }
            if let Some((i, j, Step::Both)) = step
                && !self.unify(&self.left[i], &self.right[j])
            {
                continue;
            }
            self.path.extend(step);
            if !self.possible[i][j] || self.budget == 0 {
                continue;
            }
            self.budget -= 1;
            let (a, b) = (self.left.get(i), self.right.get(j));
            if a.is_none() && b.is_none() {
                return true;
            }
            let [a_rest, b_rest] = [a, b].map(|of| of == Some(&Dim::Rest));
            // The shorter `...` first: nothing more for the left, nothing more for the right, then one entry more.
            let more = match (a_rest, b_rest) {
                (true, true) => None,
                (true, false) => b.map(|_| (Step::LeftTakes, (i, j + 1))),
                (false, true) => a.map(|_| (Step::RightTakes, (i + 1, j))),
                (false, false) => a.and(b).map(|_| (Step::Both, (i + 1, j + 1))),
            };
            let mut next =
                |step, at| left.push(Try { at, step, path: self.path.len(), bound: self.order.len() });
            if let Some((step, at)) = more {
                next(Some((i, j, step)), at);
            }
            if b_rest {
                next(None, (i, j + 1));
            }
            if a_rest {
                next(None, (i + 1, j));
            }
        }
        false
    }

    fn root(&self, mut single: Single) -> Single {
        while let Some(next) = self.bound.get(&single) {
            single = next.clone();
        }
        single
    }

    /// Makes both entries stand for one dimension, if they can.
    fn unify(&mut self, a: &Dim, b: &Dim) -> bool {
        let (Some(a), Some(b)) = (single(a, true), single(b, false)) else { return true };
        let (a, b) = (self.root(a), self.root(b));
        let (from, to) = match (&a, &b) {
            _ if a == b => return true,
            (Single::Name(_), Single::Name(_)) => return false,
            (Single::Numbered(..), _) => (a, b),
            _ => (b, a),
        };
        self.order.push(from.clone());
        self.bound.insert(from, to);
        true
    }
}

/// The dimensions of both sides of an operator, over one pool of names: a name on both sides is one thing.
///
/// ```
/// use spanlift::op::{NamedShape, dims};
/// let shape = NamedShape::new(dims("MN")?, dims("MP")?);
/// let renamed = shape.rename(&[("M".parse()?, "X".parse()?)])?;
/// assert_eq!(renamed.to_string(), "[X,N] -> [X,P]");
/// assert_eq!(shape.normal().to_string(), "[M,N] -> [M,N1]");
/// # Ok::<(), spanlift::op::SpaceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedShape {
    domain: Vec<Dim>,
    codomain: Vec<Dim>,
}

impl NamedShape {
    /// Both sides.
    pub fn new(domain: Vec<Dim>, codomain: Vec<Dim>) -> NamedShape {
        NamedShape { domain: collapsed(domain), codomain: collapsed(codomain) }
    }

    /// What is read.
    pub fn domain(&self) -> &[Dim] {
        &self.domain
    }

    /// What is written.
    pub fn codomain(&self) -> &[Dim] {
        &self.codomain
    }

    /// The sides swapped.
    #[must_use]
    pub fn h(&self) -> NamedShape {
        NamedShape { domain: self.codomain.clone(), codomain: self.domain.clone() }
    }

    /// The shape of the normal operator: names on both sides stay, all others get fresh names in what is written.
    #[must_use]
    pub fn normal(&self) -> NamedShape {
        let mut avoid: Vec<Name> = self.domain.iter().filter_map(name).cloned().collect_vec();
        let fresh = self.domain.iter().map(|dim| match dim {
            Dim::Named(name) if !self.codomain.contains(dim) => {
                let fresh = name.next_unused(&avoid);
                avoid.push(fresh.clone());
                Dim::Named(fresh)
            }
            dim => dim.clone(),
        });
        let codomain = fresh.collect_vec();
        NamedShape { domain: self.domain.clone(), codomain }
    }

    /// All pairs of old and new name at once, on both sides, so that a swap is a swap.
    ///
    /// # Errors
    /// [`SpaceError::Unknown`] for an old name that is not there, [`SpaceError::TwoNames`] for one that should get two, and
    /// [`SpaceError::DuplicateDim`] for a new name that something else has and keeps.
    pub fn rename(&self, pairs: &[(Name, Name)]) -> Result<NamedShape, SpaceError> {
        let mut map: BTreeMap<&Name, &Name> = BTreeMap::new();
        let pool: Vec<&Name> = self.domain.iter().chain(&self.codomain).filter_map(name).collect_vec();
        for (old, new) in pairs {
            if !pool.contains(&old) {
                return Err(SpaceError::Unknown(old.clone()));
            }
            if let Some(first) = map.insert(old, new)
                && first != new
            {
                return Err(SpaceError::TwoNames {
                    old: old.clone(),
                    first: first.clone(),
                    second: new.clone(),
                });
            }
        }
        for (old, new) in &map {
            let kept = pool.contains(new) && !map.contains_key(new);
            let twice = map.iter().any(|(other, n)| other != old && n == new);
            if kept || twice {
                return Err(SpaceError::DuplicateDim((*new).clone()));
            }
        }
        let side = |dims: &[Dim]| {
            dims.iter()
                .map(|d| match d {
                    Dim::Named(n) => Dim::Named((*map.get(n).unwrap_or(&n)).clone()),
                    d => d.clone(),
                })
                .collect_vec()
        };
        Ok(NamedShape { domain: side(&self.domain), codomain: side(&self.codomain) })
    }

    /// What is read under other names: names change on both sides, open entries on this side alone.
    ///
    /// # Errors
    /// As [`NamedShape::rename`]; [`SpaceError::NoMatch`] when there are not as many names as entries, or a `...` where only one
    /// dimension was; [`SpaceError::AmbiguousEllipsis`] when several `...` leave open what becomes what.
    ///
    /// ```
    /// use spanlift::op::{NamedShape, dims};
    /// let shape = NamedShape::new(dims("...N")?, dims("...M")?);
    /// assert_eq!(shape.with_domain(&dims("...CoilX")?)?.to_string(), "[...,Coil,X] -> [...,M]");
    /// # Ok::<(), spanlift::op::SpaceError>(())
    /// ```
    pub fn with_domain(&self, new: &[Dim]) -> Result<NamedShape, SpaceError> {
        let new = &collapsed(new.to_vec())[..];
        // Names that stay say what `...` stands for; one `...` stands for what is left.
        let by_place = aligned(&self.domain, new, false);
        let one = self.domain.iter().filter(|d| **d == Dim::Rest).count() < 2;
        let counts = aligned(&self.domain, new, true).or_else(|| by_place.clone().filter(|_| one));
        let Some(counts) = counts else {
            let (left, right) = (joined(&self.domain), joined(new));
            return Err(if by_place.is_some() {
                SpaceError::AmbiguousEllipsis { left, right }
            } else {
                SpaceError::NoMatch { left, right }
            });
        };
        let mut rest = new;
        let mut pairs = Vec::new();
        for (old, n) in self.domain.iter().zip(counts) {
            let taken;
            (taken, rest) = rest.split_at(n);
            if let (Dim::Named(old), [Dim::Named(new)]) = (old, taken) {
                pairs.push((old.clone(), new.clone()));
            }
        }
        let renamed = self.rename(&pairs)?;
        let shape = NamedShape::new(new.to_vec(), renamed.codomain);
        let twice = shape.domain.iter().enumerate().find_map(|(k, d)| match d {
            Dim::Named(n) if shape.domain[..k].contains(d) => Some(n.clone()),
            _ => None,
        });
        twice.map_or(Ok(shape), |n| Err(SpaceError::DuplicateDim(n)))
    }

    /// What is written under other names; see [`NamedShape::with_domain`].
    ///
    /// # Errors
    /// As [`NamedShape::with_domain`].
    pub fn with_codomain(&self, new: &[Dim]) -> Result<NamedShape, SpaceError> {
        self.h().with_domain(new).map(|shape| shape.h())
    }
}

/// How many entries of `new` each of `old` becomes, the fewest from the left: `...` any number, all others one that is no `...`.
fn aligned(old: &[Dim], new: &[Dim], names_stay: bool) -> Option<Vec<usize>> {
    let becomes = |a: &Dim, b: &Dim| *b != Dim::Rest && !(names_stay && name(a).is_some() && a != b);
    // Whether what is left of `old` can become what is left of `new`, from the end on: `...` without trying each length.
    let mut fits = vec![vec![false; new.len() + 1]; old.len() + 1];
    fits[old.len()][new.len()] = true;
    for i in (0..old.len()).rev() {
        for j in (0..=new.len()).rev() {
            fits[i][j] = if old[i] == Dim::Rest {
                fits[i + 1][j] || j < new.len() && fits[i][j + 1]
            } else {
                j < new.len() && fits[i + 1][j + 1] && becomes(&old[i], &new[j])
            };
        }
    }
    let mut at = 0;
    let counts = old.iter().enumerate().map(|(i, dim)| {
        let n =
            if *dim == Dim::Rest { fits[i + 1][at..].iter().take_while(|fits| !**fits).count() } else { 1 };
        at += n;
        n
    });
    fits[0][0].then(|| counts.collect_vec())
}

fn name(dim: &Dim) -> Option<&Name> {
    if let Dim::Named(name) = dim { Some(name) } else { None }
}

fn joined(dims: &[Dim]) -> String {
    dims.iter().map(ToString::to_string).collect_vec().join(",")
}

/// `[M,N] -> [M,P]`
impl std::fmt::Display for NamedShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] -> [{}]", joined(&self.domain), joined(&self.codomain))
    }
}
