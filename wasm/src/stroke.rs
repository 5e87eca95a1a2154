//! Lines and dots that patterns and dashes are made of, the same for both painters.

use crate::scene::Rect;

/// Pixels from one diagonal to the next.
const HATCH: f64 = 6.0;
/// Pixels from one dot to the next.
const DOTS: f64 = 7.0;

/// All diagonals of a rectangle as one line that runs along its edges between them; they are `apart` times as far apart as usual.
pub fn hatch(r: &Rect, apart: f64) -> Vec<(f64, f64)> {
    let (left, right, top, bottom) = (r.x + 1.0, r.x + r.w - 1.0, r.y + 1.0, r.y + r.h - 1.0);
    let (w, h) = (right - left, bottom - top);
    if w <= 1.0 || h <= 1.0 {
        return Vec::new();
    }
    let mut points = Vec::new();
    let mut up = true;
    // From the lower left corner on; each diagonal meets the lower or left edge, then the upper or right edge.
    let mut at = HATCH;
    while at < w + h {
        let low = if at <= h { (left, top + at) } else { (left + at - h, bottom) };
        let high = if at <= w { (left + at, top) } else { (right, top + at - w) };
        let ends = if up { [low, high] } else { [high, low] };
        // Around the corner, not across it.
        if let Some(&last) = points.last() {
            let corner = if up { (left, bottom) } else { (right, top) };
            let turns = |a: (f64, f64), b: (f64, f64)| a.0 != b.0 && a.1 != b.1;
            if turns(last, ends[0]) {
                points.push(corner);
            }
        }
        points.extend(ends);
        up = !up;
        at += HATCH * apart;
    }
    points
}

/// Dots in staggered rows, fewer where there would be very many; they are `apart` times as far apart as usual.
pub fn dots(r: &Rect, apart: f64) -> Vec<(f64, f64)> {
    let pitch = DOTS.max(r.w * r.h / DOTS / 160.0);
    let mut points = Vec::new();
    let n_rows = ((r.h - 4.0) / DOTS).floor().max(1.0);
    let gap = r.h / (n_rows + 1.0);
    let mut row = 1.0;
    while row <= n_rows {
        let mut x = r.x + if row % 2.0 == 0.0 { pitch } else { pitch / 2.0 } + 1.0;
        while x < r.x + r.w - 2.0 {
            points.push((x, r.y + row * gap));
            x += pitch * apart;
        }
        row += 1.0;
    }
    points
}

/// A path in dashes of four pixels.
pub fn dashes(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    const DASH: f64 = 4.0;
    let mut pieces = Vec::new();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    let (mut left, mut on) = (DASH, true);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        if length == 0.0 {
            continue;
        }
        let mut at = 0.0;
        while at < length {
            let step = left.min(length - at);
            let point = |d: f64| (x0 + (x1 - x0) * d / length, y0 + (y1 - y0) * d / length);
            if on {
                if piece.is_empty() {
                    piece.push(point(at));
                }
                piece.push(point(at + step));
            }
            at += step;
            left -= step;
            if left <= 0.0 {
                if on {
                    pieces.push(std::mem::take(&mut piece));
                }
                (left, on) = (DASH, !on);
            }
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}
