//! What buttons and the wheel take hold of over a picture.

/// A button that goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grip {
    /// The main one: a click selects, a drag over lanes chooses an area, one anywhere else pans.
    Main,
    /// The main one with shift: a drag chooses a range of time on all lanes.
    Range,
    /// The middle one, or the main one with the space bar: a drag pans, and a click means nothing.
    Pan,
    /// A finger: a drag pans, and a click selects.
    Touch,
}

/// What turning the wheel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It scrolls; what is turned sideways pans.
    Scroll,
    /// It pans.
    Pan,
    /// It zooms at the pointer.
    Zoom,
}
