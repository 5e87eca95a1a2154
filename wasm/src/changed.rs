//! What of a picture is to be painted anew because it differs from the one before: a step of the time cursor changes a few bars, and
//! words cost the most.

use crate::scene::{Scene, Shape};

/// Left, top, right and bottom.
pub(crate) type Area = (f64, f64, f64, f64);

/// Further than any line or letter reaches beyond what it says of itself.
const ROOM: f64 = 2.0;
/// Of more areas than this the whole picture is less work.
const MOST: usize = 100;
/// So many shapes of a row are looked at for one that stays: a bar has lost or gained some before it.
const AHEAD: usize = 24;

/// The areas outside which two pictures are the same; nothing where they have little in common, or do not say their rows.
pub(crate) fn areas(old: &Scene, new: &Scene) -> Option<Vec<Area>> {
    let looks = |s: &Scene| (s.width, s.height, s.ground);
    if looks(old) != looks(new) || old.rows.is_empty() || new.rows.is_empty() {
        return None;
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while found.len() <= MOST {
        let (a, b) = (top(old, i), top(new, j));
        if a.is_infinite() && b.is_infinite() {
            return Some(found);
        }
        let (mut was, mut is): (&[Shape], &[Shape]) = (&[], &[]);
        if a <= b {
            was = row(old, i);
            i += 1;
        }
        if b <= a {
            is = row(new, j);
            j += 1;
        }
        let first = found.len();
        let mut differs = |shape: &Shape| {
            let new = wider(shape);
            let mut of_row = found[first..].iter_mut();
            // Of one bar, or close enough: an area more is more work than what lies between.
            match of_row.find(|old| {
                (old.1, old.3) == (new.1, new.3)
                    || size(joined(**old, new)) <= 1.3 * (size(**old) + size(new))
            }) {
                Some(old) => *old = joined(*old, new),
                None => found.push(new),
            }
        };
        // What is in both stands in the same order in both; all else is painted anew.
        for shape in is {
            match was.iter().take(AHEAD).position(|old| old == shape) {
                Some(n) => {
                    was[..n].iter().for_each(&mut differs);
                    was = &was[n + 1..];
                }
                None => differs(shape),
            }
        }
        was.iter().for_each(&mut differs);
    }
    None
}

/// The shapes of a picture that an area meets, from back to front.
pub(crate) fn within(scene: &Scene, area: Area) -> Vec<&Shape> {
    let mut found = Vec::new();
    for k in 0..scene.rows.len() {
        if area.3 + ROOM <= top(scene, k) || top(scene, k + 1) <= area.1 - ROOM {
            continue;
        }
        for shape in row(scene, k) {
            let (l, t, r, b) = wider(shape);
            if l < area.2 && area.0 < r && t < area.3 && area.1 < b {
                found.push(shape);
            }
        }
    }
    found
}

fn joined(a: Area, b: Area) -> Area {
    (a.0.min(b.0), a.1.min(b.1), a.2.max(b.2), a.3.max(b.3))
}

fn size((l, t, r, b): Area) -> f64 {
    (r - l) * (b - t)
}

/// The room of a shape with all that reaches beyond what it says of itself: of a rectangle a part of a pixel.
fn wider(shape: &Shape) -> Area {
    let (l, t, r, b) = shape.bounds();
    let room = if let Shape::Rect(_) = shape { 1.0 } else { ROOM };
    (l - room, t - room, r + room, b + room)
}

fn top(scene: &Scene, k: usize) -> f64 {
    scene.rows.get(k).map_or(f64::INFINITY, |row| row.0)
}

fn row(scene: &Scene, k: usize) -> &[Shape] {
    let end = scene.rows.get(k + 1).map_or(scene.shapes.len(), |next| next.1);
    &scene.shapes[scene.rows[k].1..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryApp;
    use crate::memory::frame::{BAR, NAME, SMALL};
    use crate::scene::{Anchor, Rect, Text};
    use crate::testing::Random;
    use crate::theme::Theme;

    /// Shapes of one picture that the other has not.
    fn apart(one: &Scene, other: &Scene) -> Vec<Area> {
        let mut left: Vec<&Shape> = other.shapes.iter().collect();
        let is_new = |shape: &&Shape| match left.iter().position(|other| other == shape) {
            Some(k) => {
                left.swap_remove(k);
                false
            }
            None => true,
        };
        one.shapes.iter().filter(is_new).map(Shape::bounds).collect()
    }

    #[test]
    fn a_bar_that_changes_leaves_the_words_below_it() {
        let picture = |pieces: &[(f64, f64)], name: &str| {
            let mut scene = Scene::new(900.0, 60.0, Theme::LIGHT.ground);
            scene.rows.push((10.0, 0));
            for &(x, w) in pieces {
                scene.add(Rect::filled(x, 10.0, w, BAR, Theme::LIGHT.accent));
            }
            scene.add(Text::new(90.0, 10.0 + BAR / 2.0, NAME, Theme::LIGHT.ink, name).anchored(Anchor::End));
            // As a ruler has them.
            for k in 0..8 {
                let x = 100.0 + 100.0 * f64::from(k);
                scene.add(Rect::filled(x, 10.0 + BAR, 1.0, 3.0, Theme::LIGHT.dim));
                scene.add(Text::new(x, 10.0 + BAR + 9.0, SMALL - 0.5, Theme::LIGHT.dim, "8 MiB"));
            }
            scene
        };
        let old = picture(&[(100.0, 300.0), (420.0, 10.0), (450.0, 10.0)], "0x7f00");
        for (pieces, name, n_words) in [
            (&[(100.0, 300.0), (430.0, 10.0), (450.0, 10.0)][..], "0x7f00", 0),
            (&[(100.0, 300.0), (450.0, 10.0)], "0x7f00", 0),
            (&[(100.0, 200.0), (310.0, 20.0), (420.0, 10.0), (450.0, 10.0)], "0x7f20", 1),
        ] {
            let new = picture(pieces, name);
            let areas = areas(&old, &new).unwrap();
            let painted = areas.iter().flat_map(|&area| within(&new, area));
            let words = painted.filter(|shape| matches!(shape, Shape::Text(_))).count();
            assert!(!areas.is_empty() && words == n_words, "{words} words in {areas:?}");
        }
    }

    #[test]
    fn whatever_differs_lies_in_an_area_and_what_meets_one_is_painted() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
        let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else {
            eprintln!("skipped: no snapshot in {}", folder.display());
            return;
        };
        let mut app = MemoryApp::of_snapshot("s", &bytes, Theme::LIGHT).unwrap();
        app.resize(900.0, 500.0);
        assert!(app.look_back());
        let mut source = Random(5);
        let mut below = |n: usize| usize::try_from(source.below(n as u64)).unwrap();
        let (mut last, mut n_partly) = (app.scene(), 0);
        for _ in 0..400 {
            match below(8) {
                0 => app.go_to_moment(below(1200)),
                1 => assert!(app.key("[", false)),
                2 | 3 => assert!(app.key("]", false)),
                4 => app.pointer_moved(below(900) as f64, below(500) as f64),
                5 => assert!(app.key("ArrowDown", false)),
                6 => assert!(app.key("Enter", false)),
                _ => {
                    let _ =
                        app.wheel((400.0, 200.0), (0.0, below(90) as f64 - 45.0), crate::grip::Turn::Scroll);
                }
            }
            let now = app.scene();
            if let Some(areas) = areas(&last, &now) {
                n_partly += usize::from(!areas.is_empty());
                let holds =
                    |(l, t, r, b): Area| areas.iter().any(|a| a.0 <= l && a.1 <= t && r <= a.2 && b <= a.3);
                assert!(apart(&last, &now).into_iter().all(holds), "what was there stays");
                assert!(apart(&now, &last).into_iter().all(holds), "what is there is left out");
                for &(l, t, r, b) in &areas {
                    let meets = |shape: &&Shape| {
                        let s = shape.bounds();
                        s.0 < r && l < s.2 && s.1 < b && t < s.3
                    };
                    let painted = within(&now, (l, t, r, b));
                    assert!(now.shapes.iter().filter(meets).all(|s| painted.contains(&s)));
                }
            }
            last = now;
        }
        assert!(n_partly > 100, "{n_partly} of 400 steps were painted in parts");
    }
}
