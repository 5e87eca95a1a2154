//! The course's page: what its cells do, as the page's script asks for it.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::course::act;
use crate::pack::pack;
use crate::show::Figure;

/// What a cell says, and what it shows.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Told(Figure);

/// Does with the text of a cell what its verb says; `data` is the file of published rows.
#[wasm_bindgen]
#[must_use]
pub fn lesson(verb: &str, source: &str, data: &str) -> Told {
    Told(act(verb, source, data))
}

#[wasm_bindgen]
impl Told {
    /// In words.
    #[must_use]
    pub fn plain(&self) -> String {
        self.0.plain().to_owned()
    }

    /// The picture as SVG; empty where there is none.
    #[must_use]
    pub fn svg(&self) -> String {
        self.0.svg().to_owned()
    }

    /// What a viewer shows, as a block for `mount`; empty where the picture is all there is.
    #[must_use]
    pub fn block(&self) -> Vec<u8> {
        match self.0.items().0 {
            [] => Vec::new(),
            items => pack(items),
        }
    }

    /// How high the viewer is, in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.0.items().1
    }

    /// Whether the text was not understood.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.0.is_error()
    }
}
