//! What somebody who wrote another word may have meant.

use crate::ordered::CollectVec;

/// The known word that is at most two letters, and not most of them, away from what was written.
pub(crate) fn nearest<'a>(word: &str, known: &mut dyn Iterator<Item = &'a str>) -> Option<&'a str> {
    let (letters, close) = known.map(|known| (distance(word, known), known)).min()?;
    (letters <= 2 && 2 * letters <= word.len()).then_some(close)
}

/// How many letters have to be put in, left out or changed to get from one word to the other; 9 for long words.
fn distance(a: &str, b: &str) -> usize {
    if 24 < a.len() {
        return 9;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect_vec();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let best = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
