//! Text that many slices share, kept once.

use crate::ordered::BTreeMap;

/// A text's position in [`Strings`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrId(u32);

impl StrId {
    /// The empty text, which every table holds.
    pub const EMPTY: StrId = StrId(0);

    /// After every text, for ranges.
    pub(crate) const LAST: StrId = StrId(u32::MAX);

    /// The text at a position that was a number for a while.
    pub(crate) fn from_index(index: u32) -> StrId {
        StrId(index)
    }

    /// The position as a number below [`Strings::len`], for tables beside them.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Texts by position, one after the other in a single allocation: arguments of a million events cost their bytes and
/// eight more each.
#[derive(Debug, Clone)]
pub struct Strings {
    text: String,
    /// Where each text ends in `text`; it begins where the one before ends.
    ends: Vec<usize>,
    /// The texts that were interned. The order of the map is what keeps hostile input from slowing it down.
    ids: BTreeMap<Box<str>, StrId>,
    /// The last text seen per hash, so that names that come again and again are found at once.
    recent: Vec<StrId>,
}

/// Slots of `recent`; a power of two.
const RECENT: usize = 1024;

impl Default for Strings {
    fn default() -> Self {
        Strings {
            text: String::new(),
            ends: vec![0],
            ids: BTreeMap::new(),
            recent: vec![StrId::EMPTY; RECENT],
        }
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.ends == other.ends
    }
}

impl Strings {
    /// The position of `text`, which is added when it is new.
    ///
    /// # Panics
    /// Beyond four billion texts.
    pub fn intern(&mut self, text: &str) -> StrId {
        let slot = slot(text.as_bytes());
        let guess = self.recent[slot];
        if self.get(guess) == text {
            return guess;
        }
        let id = match self.ids.get(text) {
            Some(&id) => id,
            None => {
                let id = self.push(text);
                self.ids.insert(text.into(), id);
                id
            }
        };
        self.recent[slot] = id;
        id
    }

    /// The position of `text`, if it was ever interned.
    pub fn find(&self, text: &str) -> Option<StrId> {
        if text.is_empty() { Some(StrId::EMPTY) } else { self.ids.get(text).copied() }
    }

    /// Makes room for `n` texts of `bytes` bytes in all.
    pub fn reserve(&mut self, n: usize, bytes: usize) {
        self.ends.reserve_exact(n);
        self.text.reserve_exact(bytes);
    }

    /// Adds `text` without looking for it: for text that is hardly ever the same twice, such as arguments.
    ///
    /// # Panics
    /// Beyond four billion texts.
    pub fn push(&mut self, text: &str) -> StrId {
        if text.is_empty() {
            return StrId::EMPTY;
        }
        let id = StrId(u32::try_from(self.ends.len()).expect("bug: fewer than four billion texts"));
        self.text.push_str(text);
        self.ends.push(self.text.len());
        id
    }

    /// Adds `sign` and the digits of `number` after it, as [`Strings::push`] does.
    pub(crate) fn push_digits(&mut self, sign: char, number: u64) -> StrId {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text.push(sign);
        self.push(str::from_utf8(&digits[at..]).unwrap_or_default())
    }

    /// The text at a position.
    ///
    /// # Panics
    /// When the position comes from another table.
    pub fn get(&self, id: StrId) -> &str {
        match id.index() {
            0 => "",
            index => &self.text[self.ends[index - 1]..self.ends[index]],
        }
    }

    /// Bytes of all texts together.
    pub(crate) fn n_bytes(&self) -> usize {
        self.text.len()
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is nothing but the empty text.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }
}

/// Where a text would lie in `recent`: a multiplicative hash over eight bytes at a time.
fn slot(text: &[u8]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut hash = text.len() as u64;
    for word in words.iter().chain(std::iter::once(&last)) {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
    }
    usize::try_from(hash >> 54).unwrap_or(0) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_place_and_a_pushed_one_its_own() {
        let mut strings = Strings::default();
        assert!(strings.is_empty());
        let a = strings.intern("a");
        let pushed = strings.push("a");
        assert_ne!(a, pushed);
        assert_eq!(strings.intern("a"), a);
        assert_eq!((strings.get(a), strings.get(pushed), strings.get(StrId::EMPTY)), ("a", "a", ""));
        assert_eq!(strings.intern(""), StrId::EMPTY);
        // More texts than slots: every one is still found again.
        let ids: Vec<StrId> = (0..5000).map(|k| strings.intern(&format!("name {k}"))).collect();
        for (k, id) in ids.iter().enumerate() {
            assert_eq!(strings.intern(&format!("name {k}")), *id);
            assert_eq!(strings.get(*id), format!("name {k}"));
        }
    }
}
