//! The table of rules.

use super::batched::{equal_blocks, equal_matrices};
use super::fourier::{half_shift, scaled_back};
use super::kron::{kron, kron_matrices};
use super::nodes::{
    factor_left, factor_right, one, power_of_diagonal, power_of_transfers, scalars, scale_through,
    sum_of_diagonals, trivial_movement, zero_terms,
};
use super::pairs::{
    block_products, diagonals, fast_normal, idempotent, movements, outer_diagonals, powers, premultiplied,
    restricted, scale_into, scale_smaller, signs, undone, unitary, unitary_movement, zeros,
};
use super::transfers::{group, hoist, shorter, slid, smaller_after, smaller_before, zero_moved};
use super::{Known, Level};
use crate::op::operator::Operator;

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Number of the identity in the published list of rules.
    pub number: &'static str,
    /// Name in the log.
    pub name: &'static str,
    /// What it may change.
    pub level: Level,
    /// The identity; what is applied first stands last.
    pub identity: &'static str,
    /// When it holds.
    pub guard: &'static str,
    /// Libraries that have it; `new` where none was found.
    pub source: &'static str,
    pub(super) apply: Apply,
}

/// What two neighbours become.
type Pair = fn(&Operator, &Operator, &Known) -> Option<Vec<Operator>>;

/// How a rule is used.
#[derive(Debug, Clone, Copy)]
pub(super) enum Apply {
    /// Done whenever an expression is built.
    Built,
    /// On one operator.
    Node(fn(&Operator, &Known) -> Option<Operator>),
    /// The same, before neighbours are looked at too.
    First(fn(&Operator, &Known) -> Option<Operator>),
    /// On two neighbours of a chain, the first applied first.
    Pair(Pair),
    /// On three neighbours of a chain.
    Triple(fn(&Operator, &Operator, &Operator) -> Option<Vec<Operator>>),
}

use Apply::{Built, First, Node, Pair as Two, Triple as Three};
use Level::{Approximate as A, Bitwise as B, Rounding as R};

const fn rule(
    number: &'static str,
    name: &'static str,
    level: Level,
    identity: &'static str,
    guard: &'static str,
    source: &'static str,
    apply: Apply,
) -> Rule {
    Rule { number, name, level, identity, guard, source, apply }
}

/// Every rule, in the order in which they are tried.
///
/// Numbers are those of the identity; some rules stand for several: `movements` (17) also selects after it embeds and crops
/// after it pads (16), `hoist` (T7) also takes transfers out of sums (T6). What needs no rewriting stands elsewhere: the normal of
/// a sum keeps its cross terms (22) in [`Operator::normal`], and transfers that depend on nothing start early (T12) in plans.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("1",  "double",         B, "(A^H)^H = A, conj conj A = A",            "",                                  "PyOperators, LinearMaps.jl",          Built),
    rule("2",  "turns",          B, "conj(A^H) = A^T and the like",            "",                                  "PyOperators, LinearOperators.jl",     Built),
    rule("3",  "real",           B, "conj A = A, A^T = A^H",                   "real entries, proven by tag",       "LinearMaps.jl, PyOperators",          Built),
    rule("4",  "distribute",     B, "(AB)^H = B^H A^H, (A+B)^H = A^H + B^H",   "",                                  "most",                                Built),
    rule("5",  "flatten",        B, "(AB)C = ABC, (A+B)+C = A+B+C",            "same axis and mode, no fixed tree", "most",                                Built),
    rule("6",  "identity",       B, "I A = A = A I",                           "",                                  "PyOperators, CoLA, furax, mrpro",     Built),
    rule("T1", "no transfer",    B, "T(a->a) = I",                             "",                                  "new",                                 Built),
    rule("T3", "round trip",     B, "T(b->a) T(a->b) = I",                     "",                                  "new",                                 Built),
    rule("T4", "back",           B, "T(a->b)^H = T(b->a), T^H T = I",          "",                                  "ODL, torch-named-linops",             Built),
    rule("23", "gram",           B, "gram(A^H) = A A^H",                       "",                                  "mrpro",                               Built),
    rule("7",  "zero",           B, "0 A = 0, A 0 = 0",                        "finite data",                       "PyOperators, mrpro",                  Two(zeros)),
    rule("T11","zero moved",     B, "T 0 = 0, 0 T = 0",                        "",                                  "new",                                 Two(zero_moved)),
    rule("7",  "zero term",      B, "A + 0 = A",                               "no fixed tree",                     "PyOperators, mrpro",                  Node(zero_terms)),
    rule("8",  "one",            B, "1 A = A",                                 "",                                  "mrpro, AbstractOperators.jl",         Node(one)),
    rule("8",  "signs",          B, "(-1)(-1) A = A",                          "factors 1, -1, i, -i",              "mrpro, AbstractOperators.jl",         Two(signs)),
    rule("13", "reordered back", B, "A^H A = I",                               "a reordering of elements",          "PyOperators, furax, CoLA",            Two(unitary_movement)),
    rule("13", "unitary",        R, "A^H A = I",                               "orthonormal, proven by tag",        "PyOperators, furax, CoLA",            Two(unitary)),
    rule("13", "undone",         R, "A^-1 A = I",                              "one was made as the other's inverse","PyOperators, furax, CoLA",           Two(undone)),
    rule("14", "scaled back",    R, "A^H a A = a",                             "unitary, linear over the factor",   "AbstractOperators.jl",                Three(scaled_back)),
    rule("14", "half shift",     R, "S F S = centred F, F S = signs F",        "even sizes, a diagonal beside it",  "AbstractOperators.jl",                Three(half_shift)),
    rule("15", "tags",           B, "P P = P, A A = I",                        "tag, proven by test",               "PyOperators, furax",                  Two(idempotent)),
    rule("17", "trivial",        B, "permute, roll, slice of all = I",         "same names",                        "furax, PyOperators",                  Node(trivial_movement)),
    rule("17", "movements",      B, "two movements = one, a mask or I",        "nothing is added, finite for a mask","furax, PyOperators",                  Two(movements)),
    rule("18", "restricted",     B, "S D = D' S, D P = P D'",                  "fewer elements",                    "AbstractOperators.jl",                Two(restricted)),
    rule("T2", "shorter",        B, "T(b->c) T(a->b) = T(a->c)",               "a direct route",                    "new",                                 Two(shorter)),
    rule("T5", "smaller before", B, "S T = T S",                               "a movement, fewer bytes",           "new",                                 Two(smaller_before)),
    rule("T5", "smaller after",  B, "T P = P T",                               "a movement, fewer bytes",           "new",                                 Two(smaller_after)),
    rule("T7", "hoist",          B, "[A T; B T] = [A; B] T, and at the end",   "same pair in all parts",            "new",                                 Node(hoist)),
    rule("T8", "power",          R, "(T^H B T)^k = T^H B^k T",                 "",                                  "new",                                 Node(power_of_transfers)),
    rule("T9", "group",          R, "parts of one device behind one transfer", "no fixed tree, less to do",         "new",                                 Node(group)),
    rule("19", "blocks",         B, "diag(A, B) diag(C, D) = diag(AC, BD)",    "equal partitions",                  "furax, PyOperators",                  Two(block_products)),
    rule("20", "equal blocks",   B, "diag(A, .., A) = A with a batch",         "a new dimension on both sides, or I", "CoLA, AbstractOperators.jl",        Node(equal_blocks)),
    rule("20", "equal matrices", R, "diag(W, .., W) = W with a batch",         "a new dimension on both sides",     "CoLA, AbstractOperators.jl",          Node(equal_matrices)),
    rule("9",  "scalars",        R, "a A b = A (ab)",                          "linear over the factor",            "PyOperators, furax",                  First(scalars)),
    rule("10", "scale into",     R, "a D = diag(a d)",                         "same device",                       "furax, AbstractOperators.jl",         Two(scale_into)),
    rule("10", "scale through",  R, "a A D = A diag(a d), a beyond A or D",    "linear over a between the two",     "furax, AbstractOperators.jl",         Node(scale_through)),
    rule("10", "scale smaller",  R, "a A = A a",                               "fewer elements, linear over a",     "furax, AbstractOperators.jl",         Two(scale_smaller)),
    rule("11", "diagonals",      R, "D E = diag(d e)",                         "same device, no more weights",                        "PyOperators, AbstractOperators.jl",   Two(diagonals)),
    rule("11", "diagonal power", R, "D^k = diag(d^k)",                         "",                                  "new",                                 Node(power_of_diagonal)),
    rule("12", "diagonal sum",   R, "D + E = diag(d + e), a I + D",            "no fixed tree, no more weights",    "PyOperators, scico, furax",           Node(sum_of_diagonals)),
    rule("26", "powers",         B, "A^a A^b = A^(a+b)",                       "",                                  "new",                                 Two(powers)),
    rule("20", "kron",           R, "(A x B) (C x D) = A C x B D",             "names apart, A C is one",           "CoLA, AbstractOperators.jl",          Node(kron)),
    rule("T10","slide",          R, "D T E = D E T, and movements",            "the two make one",                  "new",                                 Three(slid)),
    rule("25", "factor left",    R, "A B + A C = A (B + C)",                   "identical factor, no fixed tree",   "new",                                 Node(factor_left)),
    rule("25", "factor right",   R, "B A + C A = (B + C) A",                   "identical factor, no fixed tree",   "new",                                 Node(factor_right)),
    rule("21", "fast normal",    A, "A^H A = the leaf's own normal",           "fast normal has its test",          "torch-named-linops, mrpro",           Two(fast_normal)),
    rule("24", "premultiply",    A, "W V = one matrix",                        "flops and bytes fall",              "AbstractOperators.jl",                Two(premultiplied)),
    rule("20", "outer product",  A, "D x E = diag(d e^T)",                     "",                                  "CoLA",                                Two(outer_diagonals)),
    rule("20", "kron matrices",  A, "(W x B) (V x D) = W V x B D",             "as `premultiply`, names apart",     "CoLA, AbstractOperators.jl",          Node(kron_matrices)),
];
