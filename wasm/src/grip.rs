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

/// How much closer `dy` pixels of the wheel bring a picture: a notch of 100 is a quarter, and small steps add up to the same.
///
/// `e` to the power of `-dy / 400`, to eight digits, of at most four notches: the exponential function itself is five hundred bytes of
/// the module.
pub(crate) fn closer(dy: f64) -> f64 {
    let small = dy.clamp(-400.0, 400.0) / 400.0 / 2048.0;
    let mut factor = (1.0 - small) / (1.0 + small);
    for _ in 0..10 {
        factor *= factor;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::closer;

    #[test]
    fn the_wheel_brings_a_picture_closer_by_the_exponential_function() {
        for dy in [-1000.0, -400.0, -100.0, -3.0, 0.0, 0.5, 53.0, 400.0] {
            let wanted = f64::exp(-f64::clamp(dy, -400.0, 400.0) / 400.0);
            assert!((closer(dy) / wanted - 1.0).abs() < 1e-7, "{dy}");
            assert!((closer(dy) * closer(-dy) - 1.0).abs() < 1e-12, "back again");
        }
    }
}
