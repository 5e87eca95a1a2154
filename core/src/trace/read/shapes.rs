//! Guesses what stands between two values of an event from what stood there in the events before.
//!
//! A profiler writes its events from a few templates: behind a value comes the same comma, line break, name and colon as
//! in an earlier event. To compare them as a whole takes a fraction of the time to walk over them. A guess that holds is
//! text that was walked over before at the same place of the grammar, so it lets nothing through that a walk would not.

use super::event::Part;

/// Texts are compared a word at a time, which every target does in a register.
const WORD: usize = 8;
const WORDS: usize = 6;
/// Longer texts are walked over each time.
const MOST_BYTES: usize = WORD * WORDS;
/// Texts that are remembered; real files have some hundred.
const MOST_NODES: usize = 4096;
/// Different texts that are tried at one place.
const MOST_NEXT: usize = 6;

/// Where an event begins.
const ROOT: u16 = 0;
/// Nothing is known.
const NOWHERE: u16 = u16::MAX;

/// What came after what: a tree whose paths are the templates.
#[derive(Debug)]
pub(super) struct Shapes {
    nodes: Vec<Node>,
    at: u16,
}

#[derive(Debug)]
struct Node {
    text: [u64; WORDS],
    /// All ones where `text` counts.
    mask: [u64; WORDS],
    len: u8,
    part: Part,
    next: [u16; MOST_NEXT],
}

impl Node {
    fn new(text: &[u8], part: Part) -> Node {
        let (mut bytes, mut mask) = ([0; MOST_BYTES], [0; MOST_BYTES]);
        bytes[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(0xff);
        Node {
            text: words(&bytes),
            mask: words(&mask),
            len: u8::try_from(text.len()).unwrap_or(0),
            part,
            next: [NOWHERE; MOST_NEXT],
        }
    }

    /// Whether the text is what `words` begin with: all of them at once, without a branch.
    #[inline(always)]
    fn begins(&self, words: &[u64; WORDS]) -> bool {
        // Written out: where code is to be small, loops of six stay loops, which take twice as long.
        let differs = |k: usize| (words[k] ^ self.text[k]) & self.mask[k];
        differs(0) | differs(1) | differs(2) | differs(3) | differs(4) | differs(5) == 0
    }
}

#[inline(always)]
fn words(bytes: &[u8; MOST_BYTES]) -> [u64; WORDS] {
    let (chunks, _) = bytes.as_chunks::<WORD>();
    let word = |k: usize| u64::from_le_bytes(chunks[k]);
    [word(0), word(1), word(2), word(3), word(4), word(5)]
}

impl Shapes {
    pub(super) fn new() -> Shapes {
        Shapes { nodes: vec![Node::new(&[], Part::Close)], at: ROOT }
    }

    /// An event begins.
    pub(super) fn begin(&mut self) {
        self.at = ROOT;
    }

    /// What comes next, and how many bytes of `rest` stand before its value.
    #[inline(always)]
    pub(super) fn guess(&mut self, rest: &[u8]) -> Option<(Part, usize)> {
        let rest = words(rest.first_chunk()?);
        for &next in &self.nodes.get(usize::from(self.at))?.next {
            let node = self.nodes.get(usize::from(next))?;
            if node.begins(&rest) {
                self.at = next;
                return Some((node.part, usize::from(node.len)));
            }
        }
        None
    }

    /// Remembers what came where nothing that was known did.
    pub(super) fn learn(&mut self, text: &[u8], part: Part) {
        let before = std::mem::replace(&mut self.at, NOWHERE);
        let n = self.nodes.len();
        let Some(node) = self.nodes.get_mut(usize::from(before)) else { return };
        let free = node.next.iter_mut().find(|next| **next == NOWHERE);
        if let (Some(free), Ok(index), true) =
            (free, u16::try_from(n), n < MOST_NODES && text.len() <= MOST_BYTES)
        {
            *free = index;
            self.nodes.push(Node::new(text, part));
            self.at = index;
        }
    }

    /// What comes now is not to be guessed.
    pub(super) fn lose(&mut self) {
        self.at = NOWHERE;
    }
}
