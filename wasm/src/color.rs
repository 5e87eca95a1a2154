//! Colours as four bytes, and the two questions asked of them: how light, and which ink reads on it.

/// Red, green, blue and opacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color {
    /// Red, green and blue.
    pub rgb: [u8; 3],
    /// 255 is opaque.
    pub alpha: u8,
}

impl Color {
    /// An opaque colour from `0xRRGGBB`.
    pub const fn hex(rgb: u32) -> Color {
        let [_, r, g, b] = rgb.to_be_bytes();
        Color { rgb: [r, g, b], alpha: 255 }
    }

    /// The same colour with another opacity.
    pub const fn with_alpha(self, alpha: u8) -> Color {
        Color { alpha, ..self }
    }

    /// The colour `percent` of the way to `other`, opacity kept.
    pub fn toward(self, other: Color, percent: u16) -> Color {
        let percent = percent.min(100);
        let mix = |a: u8, b: u8| {
            let sum = u16::from(a) * (100 - percent) + u16::from(b) * percent;
            u8::try_from((sum + 50) / 100).unwrap_or(u8::MAX)
        };
        let [r, g, b] = self.rgb;
        let [x, y, z] = other.rgb;
        Color { rgb: [mix(r, x), mix(g, y), mix(b, z)], alpha: self.alpha }
    }

    /// Relative luminance, 0 for black to 1 for white (WCAG 2.2, "relative luminance").
    pub fn luminance(self) -> f64 {
        let [r, g, b] = self.rgb.map(linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// How well text of one colour reads on the other, 1 to 21 (WCAG 2.2, "contrast ratio").
    pub fn contrast(self, other: Color) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Near-black or white, whichever reads better on this colour.
    pub fn ink(self) -> Color {
        const DARK: Color = Color::hex(0x0A_14_1B);
        const LIGHT: Color = Color::hex(0xFF_FF_FF);
        if self.contrast(DARK) >= self.contrast(LIGHT) { DARK } else { LIGHT }
    }

    /// The colour for style sheets and canvases: `#rrggbb`, or `#rrggbbaa` when not opaque.
    pub fn css(self) -> String {
        let mut css = String::with_capacity(9);
        css.push('#');
        let opacity = (self.alpha < 255).then_some(self.alpha);
        for channel in self.rgb.into_iter().chain(opacity) {
            css.extend(
                [channel >> 4, channel & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
            );
        }
        css
    }
}

/// One sRGB channel as light.
pub(crate) fn linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.040_45 {
        return c / 12.92;
    }
    // To the power of 2.4 is the twelfth power of the fifth root, found by Newton's method: a power of any exponent is two thousand bytes of
    // the module, and nothing else wants one.
    let base = (c + 0.055) / 1.055;
    let mut root: f64 = 1.0;
    for _ in 0..12 {
        root -= (root - base / (root * root * root * root)) / 5.0;
    }
    let cube = root * root * root;
    cube * cube * cube * cube
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_what_the_standard_says() {
        for channel in 11..=255u8 {
            let wanted = ((f64::from(channel) / 255.0 + 0.055) / 1.055).powf(2.4);
            assert!((linear(channel) - wanted).abs() < 1e-14, "{channel}");
        }
    }

    #[test]
    fn colours_are_written_as_style_sheets_have_them() {
        assert_eq!(Color::hex(0x0A_1F_F0).css(), "#0a1ff0");
        assert_eq!(Color::hex(0xFF_00_9C).with_alpha(7).css(), "#ff009c07");
    }
}
