//! A plan as a graph: a lane for each device, work as boxes in the order in which it is issued, transfers as arrows between
//! lanes with their bytes.

use spanlift::memory::Device;
use spanlift::plan::Plan;

use crate::scene::{Anchor, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::{KERNEL, PEER, TO_DEVICE, TO_HOST, Theme};

const SIZE: f64 = 11.0;
const LANE: f64 = 46.0;
const COLUMN: f64 = 84.0;
const LEFT: f64 = 108.0;
const MARGIN: f64 = 12.0;

/// How often the lanes are drawn, one band of steps below the other.
const MOST_BANDS: usize = 8;

/// One column of the picture.
enum Step<'p> {
    Work { device: Device, label: &'p str },
    Transfer { from: Device, to: Device, bytes: u64 },
}

/// A plan on `width` pixels; a long one goes on below, and a very long one says how much is left out.
pub fn scene(plan: &Plan, width: f64, theme: &Theme) -> Scene {
    let mut devices: Vec<Device> = plan.peaks().keys().copied().collect();
    devices.sort_by_key(|device| !device.is_host());
    let steps = steps(plan);
    let room = ((width - LEFT - MARGIN) / COLUMN).floor().max(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
    let columns = room as usize;
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let title = text::fit(&plan.operator().to_string(), 13.0, true, width - 2.0 * MARGIN);
    scene.add(Text::new(MARGIN, 16.0, 13.0, theme.ink, title.unwrap_or_default()).bold());
    let bytes = plan.transfers().iter().map(|t| t.bytes.0).fold(0, u64::saturating_add);
    let counted = text::count(plan.transfers().len(), "transfer");
    let words = format!("{counted}, {} in all", text::bytes(bytes));
    scene.add(Text::new(MARGIN, 34.0, SIZE, theme.dim, words));
    let mut y = 50.0;
    let bands = steps.len().div_ceil(columns).max(1);
    for band in 0..bands.min(MOST_BANDS) {
        let here = &steps[band * columns..steps.len().min((band + 1) * columns)];
        lanes(&mut scene, plan, &devices, y, theme);
        for (k, step) in here.iter().enumerate() {
            let x = LEFT + COLUMN * k as f64;
            draw(&mut scene, step, &devices, (x, y), theme);
        }
        y += LANE * devices.len() as f64 + 12.0;
    }
    let left_out = steps.len().saturating_sub(MOST_BANDS * columns);
    if left_out > 0 {
        let words = format!("and {} more", text::count(left_out, "step"));
        scene.add(Text::new(LEFT, y + 2.0, SIZE, theme.dim, words));
        y += 16.0;
    }
    scene.height = y;
    scene
}

/// Work and transfers in the order in which they are issued.
fn steps(plan: &Plan) -> Vec<Step<'_>> {
    let commands = plan.program().commands();
    let work = plan.work().map(|(command, device)| {
        let label = commands[command].label.as_deref().unwrap_or("");
        (command, Step::Work { device, label })
    });
    let transfers = plan
        .transfers()
        .iter()
        .map(|t| (t.command, Step::Transfer { from: t.from, to: t.to, bytes: t.bytes.0 }));
    let mut steps: Vec<(usize, Step<'_>)> = work.chain(transfers).collect();
    steps.sort_by_key(|(command, _)| *command);
    steps.into_iter().map(|(_, step)| step).collect()
}

fn lanes(scene: &mut Scene, plan: &Plan, devices: &[Device], top: f64, theme: &Theme) {
    for (k, device) in devices.iter().enumerate() {
        let y = top + LANE * k as f64;
        let band = Rect::filled(MARGIN, y + 1.0, scene.width - 2.0 * MARGIN, LANE - 2.0, theme.lane);
        scene.add(band.rounded(3.0));
        let name = text::fit(&device.to_string(), SIZE, true, LEFT - 2.0 * MARGIN).unwrap_or_default();
        scene.add(Text::new(MARGIN + 8.0, y + LANE / 2.0 - 7.0, SIZE, theme.ink, name).bold());
        let peak = text::bytes(plan.peaks()[device].total().0);
        scene.add(Text::new(MARGIN + 8.0, y + LANE / 2.0 + 8.0, 10.0, theme.dim, format!("peak {peak}")));
    }
}

fn draw(scene: &mut Scene, step: &Step<'_>, devices: &[Device], (x, top): (f64, f64), theme: &Theme) {
    let middle = |device: &Device| {
        let lane = devices.iter().position(|d| d == device).unwrap_or(0);
        top + LANE * (lane as f64 + 0.5)
    };
    match step {
        Step::Work { device, label } => {
            let y = middle(device);
            scene.add(Rect::filled(x + 4.0, y - 12.0, COLUMN - 8.0, 24.0, KERNEL).rounded(4.0));
            let label = text::fit(label, SIZE, false, COLUMN - 14.0).unwrap_or_default();
            let words = Text::new(x + COLUMN / 2.0, y, SIZE, KERNEL.ink(), label);
            scene.add(words.anchored(Anchor::Middle));
        }
        Step::Transfer { from, to, bytes } => {
            let color = match (from.is_host(), to.is_host()) {
                (true, _) => TO_DEVICE,
                (_, true) => TO_HOST,
                _ => PEER,
            };
            let color = if theme.is_dark { color.toward(theme.ink, 25) } else { color };
            let (a, b) = (middle(from), middle(to));
            let way = (b - a).signum();
            let at = x + 12.0;
            scene.add(Rect::filled(at - 3.0, a - 3.0, 6.0, 6.0, color).rounded(3.0));
            scene.line((at, a), (at, b - way * 7.0), Stroke::solid(color, 2.0));
            let tip = vec![(at, b), (at - 5.0, b - way * 8.0), (at + 5.0, b - way * 8.0)];
            scene.add(Shape::Polygon { points: tip, fill: color });
            let words = text::fit(&text::bytes(*bytes), SIZE, false, COLUMN - 22.0).unwrap_or_default();
            // Beside the beginning of the arrow, where no lane's border crosses it.
            scene.add(Text::new(at + 8.0, a, SIZE, theme.ink, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use spanlift::chain;
    use spanlift::memory::{Dtype, cpu, mock};
    use spanlift::op::{Operator, Space, to};

    use super::*;

    fn plan(stages: usize) -> Plan {
        let line = Space::new([("x", 1 << 20)], Dtype::F32).unwrap();
        let there = line.on(mock(0));
        let half = Operator::scale(0.5, there).unwrap();
        let far = Operator::scale(2.0, line.on(mock(1))).unwrap();
        let a = chain![to(mock(0)), &half, to(mock(1)), &far, to(cpu())].unwrap();
        (0..stages).fold(a.clone(), |b, _| chain![b, &a].unwrap()).plan().unwrap()
    }

    #[test]
    fn every_step_is_in_the_picture_and_nothing_leaves_it() {
        for (stages, width) in [(0, 900.0), (0, 260.0), (5, 500.0), (200, 640.0)] {
            let plan = plan(stages);
            for theme in [Theme::LIGHT, Theme::DARK] {
                let scene = scene(&plan, width, &theme);
                for text in scene.texts() {
                    let (left, top, right, bottom) = text.bounds();
                    assert!(
                        left >= 0.0 && right <= width && top >= 0.0 && bottom <= scene.height,
                        "{text:?}"
                    );
                }
                let arrows = scene.shapes.iter().filter(|s| matches!(s, Shape::Polygon { .. })).count();
                let left_out = scene.texts().any(|t| t.text.starts_with("and "));
                assert!(left_out || arrows == plan.transfers().len(), "{arrows}");
                assert_eq!(left_out, stages == 200);
                assert!(
                    scene.texts().any(|t| t.text == "4 MiB" || t.text.starts_with("4.0")),
                    "{}",
                    scene.to_text()
                );
            }
        }
    }
}
