//! The one visual language of all pictures: what each kind of work looks like, on light and on dark ground.
//!
//! | what | hue | and |
//! |---|---|---|
//! | host to device, device to host, within a device, between devices | blue, vermilion, green, purple | a letter: D, H, W, B |
//! | memset, kernel, communication | grey, sky, orange | - |
//! | an event's record | yellow | dark outline |
//! | a stream waits | pale yellow | dots, dark outline |
//! | pageable host memory takes part | as the copy | diagonal hatch |
//! | a host thread waits | none | dots, outline |
//! | a hazard | red | outline of 2 px, zigzag |
//!
//! The hues are those of Okabe and Ito with a lighter grey, which people of every colour vision tell apart (tested below).

use spanlift::trace::{Kind, Slice};

use crate::color::Color;

/// The colours of ground, text and lines, and whether the ground is dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Whether text is light on a dark ground.
    pub is_dark: bool,
    /// The ground.
    pub ground: Color,
    /// Cards and bars above the ground.
    pub panel: Color,
    /// Text.
    pub ink: Color,
    /// Text of second rank.
    pub dim: Color,
    /// Hairlines and frames.
    pub line: Color,
    /// The band behind a lane.
    pub lane: Color,
    /// What is selected or can be pressed.
    pub accent: Color,
    /// Hazards and the time cursor.
    pub hazard: Color,
    /// What is well.
    pub good: Color,
}

/// Host to device.
pub const TO_DEVICE: Color = Color::hex(0x00_72_B2);
/// Device to host.
pub const TO_HOST: Color = Color::hex(0xD5_5E_00);
/// Within one device.
pub const WITHIN: Color = Color::hex(0x00_9E_73);
/// Between two devices.
pub const PEER: Color = Color::hex(0xCC_79_A7);
/// Memsets.
pub const MEMSET: Color = Color::hex(0xBB_BB_BB);
/// Kernels.
pub const KERNEL: Color = Color::hex(0x56_B4_E9);
/// Communication.
pub const COMMUNICATION: Color = Color::hex(0xE6_9F_00);
/// Synchronisation.
pub const SYNC: Color = Color::hex(0xF0_E4_42);

/// What fills a shape besides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Diagonal lines of this colour.
    Hatch(Color),
    /// Dots of this colour.
    Dots(Color),
}

/// How a kind of work is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The colour inside.
    pub fill: Color,
    /// Lines or dots over it.
    pub pattern: Option<Pattern>,
    /// A hairline around it.
    pub outline: Option<Color>,
}

impl Look {
    /// The colour where there is no room for the line around it, which sets what is pale apart from its ground.
    pub fn thin(&self) -> Color {
        match (self.pattern, self.outline) {
            // The line around a hatch is there for the hatch.
            (None | Some(Pattern::Dots(_)), Some(outline)) => self.fill.toward(outline, 60),
            _ => self.fill,
        }
    }
}

impl Theme {
    /// Dark text on a light ground.
    pub const LIGHT: Theme = Theme {
        is_dark: false,
        ground: Color::hex(0xFB_FB_F9),
        panel: Color::hex(0xFF_FF_FF),
        ink: Color::hex(0x1C_1F_23),
        dim: Color::hex(0x5C_64_6D),
        line: Color::hex(0xE3_E3_DE),
        lane: Color::hex(0xF2_F2_EE),
        accent: Color::hex(0x00_72_B2),
        hazard: Color::hex(0xC8_10_2E),
        good: Color::hex(0x00_7A_58),
    };

    /// Light text on a dark ground.
    pub const DARK: Theme = Theme {
        is_dark: true,
        ground: Color::hex(0x14_17_1A),
        panel: Color::hex(0x1B_1F_23),
        ink: Color::hex(0xE8_E8_E4),
        dim: Color::hex(0x9A_A3_AB),
        line: Color::hex(0x2C_32_38),
        lane: Color::hex(0x20_25_2A),
        accent: Color::hex(0x56_B4_E9),
        hazard: Color::hex(0xFF_5C_6E),
        good: Color::hex(0x2F_C4_96),
    };

    /// How a slice of this kind is drawn; `flags` are those of [`Slice`].
    pub fn look(&self, kind: Kind, flags: u8) -> Look {
        let plain = |fill: Color| Look { fill, pattern: None, outline: None };
        let look = match kind {
            Kind::ToDevice => plain(TO_DEVICE),
            Kind::ToHost => plain(TO_HOST),
            Kind::WithinDevice => plain(WITHIN),
            Kind::Peer => plain(PEER),
            Kind::OtherCopy => plain(self.dim.toward(self.lane, 20)),
            Kind::Memset => plain(MEMSET),
            Kind::Kernel => plain(KERNEL),
            Kind::Communication => plain(COMMUNICATION),
            Kind::HostFn => plain(self.host().toward(WITHIN, 20)),
            Kind::Record => Look { outline: Some(self.around_sync()), ..plain(SYNC) },
            Kind::Sync => Look {
                fill: self.lane.toward(SYNC, if self.is_dark { 22 } else { 40 }),
                pattern: Some(Pattern::Dots(self.around_sync())),
                outline: Some(self.around_sync()),
            },
            Kind::Wait => Look {
                fill: self.lane,
                pattern: Some(Pattern::Dots(self.dim.toward(self.lane, 25))),
                outline: Some(self.dim.toward(self.lane, 40)),
            },
            Kind::Call => plain(self.host()),
            Kind::Work => plain(self.host().toward(self.ink, 14)),
            Kind::HostCopy => plain(self.host().toward(TO_DEVICE, 30)),
            Kind::Annotation | Kind::Other => Look {
                outline: Some(self.line.toward(self.dim, 40)),
                ..plain(self.lane.toward(self.accent, if self.is_dark { 16 } else { 10 }))
            },
        };
        if flags & Slice::PAGEABLE == 0 || look.pattern.is_some() {
            return look;
        }
        let stripe = if look.fill.luminance() > 0.3 {
            look.fill.toward(Color::hex(0), 38)
        } else {
            look.fill.toward(Color::hex(0xFF_FF_FF), 50)
        };
        Look { pattern: Some(Pattern::Hatch(stripe)), outline: Some(stripe), ..look }
    }

    /// Bytes that are not what the reader wants.
    pub fn stale(&self) -> Look {
        let fill = self.panel.toward(self.hazard, 18);
        Look { fill, pattern: Some(Pattern::Hatch(self.hazard)), outline: Some(self.hazard) }
    }

    /// The line around yellow, which is too light to stand alone.
    fn around_sync(&self) -> Color {
        if self.is_dark { SYNC.toward(self.ground, 35) } else { Color::hex(0x6B_62_00) }
    }

    /// Time of a host thread.
    fn host(&self) -> Color {
        if self.is_dark { Color::hex(0x6C_74_7C) } else { Color::hex(0xC3_C7_CB) }
    }
}

/// What a kind is called in a legend.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "host call",
        Kind::Wait => "host waits",
        Kind::Work => "host work",
        Kind::HostCopy => "host copies",
        Kind::ToDevice => "copy to device",
        Kind::ToHost => "copy to host",
        Kind::WithinDevice => "copy within device",
        Kind::Peer => "copy between devices",
        Kind::OtherCopy => "other copy",
        Kind::Memset => "memset",
        Kind::Kernel => "kernel",
        Kind::Communication => "communication",
        Kind::HostFn => "host function",
        Kind::Record => "event record",
        Kind::Sync => "synchronisation",
        Kind::Annotation => "annotation",
        Kind::Other => "other",
    }
}

/// The letter of a copy's direction, for those who cannot go by its hue.
pub fn kind_letter(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::ToDevice => Some("D"),
        Kind::ToHost => Some("H"),
        Kind::WithinDevice => Some("W"),
        Kind::Peer => Some("B"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::color::linear;

    /// CIE L*a*b* under D65 of linear RGB.
    fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let xyz = [
            (0.412_456 * r + 0.357_576 * g + 0.180_437 * b) / 0.950_47,
            0.212_673 * r + 0.715_152 * g + 0.072_175 * b,
            (0.019_334 * r + 0.119_192 * g + 0.950_304 * b) / 1.088_83,
        ];
        let [x, y, z] =
            xyz.map(|t| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The CIEDE2000 colour difference (CIE 142-2001).
    fn ciede2000([l1, a1, b1]: [f64; 3], [l2, a2, b2]: [f64; 3]) -> f64 {
        let deg = |b: f64, a: f64| {
            if a == 0.0 && b == 0.0 { 0.0 } else { b.atan2(a).to_degrees().rem_euclid(360.0) }
        };
        let cos = |x: f64| x.to_radians().cos();
        let pull = |c: f64| (c.powi(7) / (c.powi(7) + 25f64.powi(7))).sqrt();
        let g = 0.5 * (1.0 - pull((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
        let (a1, a2) = ((1.0 + g) * a1, (1.0 + g) * a2);
        let (c1, c2, h1, h2) = (a1.hypot(b1), a2.hypot(b2), deg(b1, a1), deg(b2, a2));
        let dh = match h2 - h1 {
            _ if c1 * c2 == 0.0 => 0.0,
            d if d > 180.0 => d - 360.0,
            d if d < -180.0 => d + 360.0,
            d => d,
        };
        let dh = 2.0 * (c1 * c2).sqrt() * (dh / 2.0).to_radians().sin();
        let (dl, dc, l, c) = (l2 - l1, c2 - c1, (l1 + l2) / 2.0, (c1 + c2) / 2.0);
        let h = match (h1 - h2).abs() {
            _ if c1 * c2 == 0.0 => h1 + h2,
            d if d <= 180.0 => (h1 + h2) / 2.0,
            _ if h1 + h2 < 360.0 => (h1 + h2 + 360.0) / 2.0,
            _ => (h1 + h2 - 360.0) / 2.0,
        };
        let t = 1.0 - 0.17 * cos(h - 30.0) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0)
            - 0.20 * cos(4.0 * h - 63.0);
        let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
        let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
        let turn = (60.0 * (-((h - 275.0) / 25.0).powi(2)).exp()).to_radians().sin();
        let (x, y, z) = (dl / sl, dc / sc, dh / sh);
        (x * x + y * y + z * z - 2.0 * pull(c) * turn * y * z).sqrt()
    }

    /// Full colour blindness of three kinds on linear RGB (Machado, Oliveira and Fernandes 2009, severity 1.0).
    #[rustfmt::skip]
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("usual",        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("protanopia",   [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("deuteranopia", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
        ("tritanopia",   [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
    ];

    #[test]
    fn ciede2000_gives_published_differences() {
        // Sharma, Wu and Dalal 2005, table 1: pairs 1, 7 and 17.
        for (a, b, expected) in [
            ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
            ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
            ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ] {
            assert!((ciede2000(a, b) - expected).abs() < 1e-4, "{}", ciede2000(a, b));
        }
    }

    #[test]
    fn every_colour_vision_tells_the_hues_apart() {
        let hues = [TO_DEVICE, TO_HOST, WITHIN, PEER, MEMSET, KERNEL, COMMUNICATION, SYNC];
        for (name, m) in VISIONS {
            let seen = hues.map(|c| {
                let rgb = c.rgb.map(linear);
                lab(m.map(|row| (0..3).map(|k| row[k] * rgb[k]).sum::<f64>().clamp(0.0, 1.0)))
            });
            for (i, j) in (0..8).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let difference = ciede2000(seen[i], seen[j]);
                assert!(difference >= 10.0, "{name}: {:?} and {:?}: {difference:.1}", hues[i], hues[j]);
            }
        }
    }

    #[test]
    fn what_is_a_pixel_wide_is_seen_on_its_lane() {
        for theme in [Theme::LIGHT, Theme::DARK] {
            for kind in crate::legend::KINDS {
                let flags = if kind.is_copy() { Slice::PAGEABLE } else { 0 };
                let contrast = theme.look(kind, flags).thin().contrast(theme.lane);
                assert!(contrast >= 1.4, "{kind:?}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn text_reads_in_both_themes() {
        for theme in [Theme::LIGHT, Theme::DARK] {
            for ground in [theme.ground, theme.panel, theme.lane] {
                for ink in [theme.ink, theme.dim, theme.hazard, theme.good] {
                    assert!(
                        ink.contrast(ground) >= 4.5,
                        "{ink:?} on {ground:?}: {:.2}",
                        ink.contrast(ground)
                    );
                }
            }
            for kind in crate::legend::KINDS {
                let fill = theme.look(kind, 0).fill;
                assert!(fill.ink().contrast(fill) >= 4.5, "{kind:?}: {:.2}", fill.ink().contrast(fill));
            }
        }
    }
}
