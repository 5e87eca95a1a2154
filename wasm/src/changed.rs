//! What of a picture is to be painted anew because it differs from the one before: a step of the time cursor changes a few bars, and
//! words cost the most.

use crate::scene::{Scene, Shape};

/// Left, top, right and bottom.
pub(crate) type Area = (f64, f64, f64, f64);

/// Further than any line or letter reaches beyond what it says of itself.
const ROOM: f64 = 2.0;
/// Of more areas than this the whole picture is less work.
const MOST: usize = 60;

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
            let all: f64 = found.iter().map(|(l, t, r, b)| (r - l) * (b - t)).sum();
            return (2.0 * all < new.width * new.height).then_some(found);
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
        // What a row begins and ends with is mostly the same.
        let same = was.iter().zip(is).take_while(|(a, b)| a == b).count();
        (was, is) = (&was[same..], &is[same..]);
        let same = was.iter().rev().zip(is.iter().rev()).take_while(|(a, b)| a == b).count();
        (was, is) = (&was[..was.len() - same], &is[..is.len() - same]);
        let mut all = (f64::INFINITY, f64::INFINITY, 0.0_f64, 0.0_f64);
        for shape in was.iter().chain(is) {
            let (l, t, r, b) = wider(shape.bounds());
            all = (all.0.min(l), all.1.min(t), all.2.max(r), all.3.max(b));
        }
        if all.0 < all.2 {
            found.push(all);
        }
    }
    None
}

/// Hands over the shapes of a picture that an area meets, from back to front.
pub(crate) fn each_within(scene: &Scene, area: Area, act: &mut dyn FnMut(&Shape)) {
    for k in 0..scene.rows.len() {
        if area.3 + ROOM <= top(scene, k) || top(scene, k + 1) <= area.1 - ROOM {
            continue;
        }
        for shape in row(scene, k) {
            let (l, t, r, b) = wider(shape.bounds());
            if l < area.2 && area.0 < r && t < area.3 && area.1 < b {
                act(shape);
            }
        }
    }
}

fn wider((l, t, r, b): Area) -> Area {
    (l - ROOM, t - ROOM, r + ROOM, b + ROOM)
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
                    let mut painted = Vec::new();
                    each_within(&now, (l, t, r, b), &mut |shape| painted.push(shape.clone()));
                    assert!(now.shapes.iter().filter(meets).all(|s| painted.contains(s)));
                }
            }
            last = now;
        }
        assert!(n_partly > 100, "{n_partly} of 400 steps were painted in parts");
    }
}
