//! Text that many slices share, kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A text's position in [`Strings`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrId(u32);

impl StrId {
    /// The empty text, which every table holds.
    pub const EMPTY: StrId = StrId(0);
}

/// Each text once, by position.
#[derive(Debug, Clone)]
pub struct Strings {
    texts: Vec<Arc<str>>,
    ids: BTreeMap<Arc<str>, StrId>,
}

impl Default for Strings {
    fn default() -> Self {
        let empty: Arc<str> = "".into();
        Strings { texts: vec![empty.clone()], ids: BTreeMap::from([(empty, StrId::EMPTY)]) }
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Strings {
    /// The position of `text`, which is added when it is new.
    ///
    /// # Panics
    /// Beyond four billion texts.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.push(text);
        self.ids.insert(self.texts[id.0 as usize].clone(), id);
        id
    }

    /// Adds `text` without looking for it: for text that is hardly ever the same twice, such as arguments.
    ///
    /// # Panics
    /// Beyond four billion texts.
    pub fn push(&mut self, text: &str) -> StrId {
        if text.is_empty() {
            return StrId::EMPTY;
        }
        let id = StrId(u32::try_from(self.texts.len()).expect("fewer than four billion texts"));
        self.texts.push(text.into());
        id
    }

    /// The text at a position.
    ///
    /// # Panics
    /// When the position comes from another table.
    pub fn get(&self, id: StrId) -> &str {
        &self.texts[id.0 as usize]
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is nothing but the empty text.
    pub fn is_empty(&self) -> bool {
        self.texts.len() == 1
    }
}
