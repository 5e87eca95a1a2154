//! What a checker found, as the pictures show it: two commands and words.

/// So many are listed with their sentences.
pub(crate) const LISTED: usize = 200;

/// Two commands that nothing orders; [`findings`](crate::model::findings) makes them of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finding {
    /// Index of the command that comes first in the program.
    pub first: usize,
    /// Index of the other one; the same for two nodes of one graph launch.
    pub second: usize,
    /// What it is, in a few words: `RAW on d`.
    pub title: String,
    /// The whole sentence; beyond those that are listed the short one, since the way out takes a look at the whole program.
    pub text: String,
    /// Whether it is certain; otherwise it may be.
    pub is_certain: bool,
    /// The slices of the two, where it is known which of several they are.
    pub slices: Option<(u32, u32)>,
}
