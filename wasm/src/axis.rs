//! Where the ticks of a time axis stand and what they say; a unit is always with the number.

use crate::text;
use crate::view::TimeView;
use spanlift::text::grouped;

/// The ticks of one view.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What the ticks count from, when they are differences: `from 1.234567 s`.
    pub base: Option<String>,
    /// The ticks from left to right.
    pub ticks: Vec<Tick>,
}

/// One tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Pixels from the left end of the view.
    pub x: f64,
    /// What it says: `40 µs`.
    pub label: String,
}

#[rustfmt::skip]
const UNITS: [(&str, i128, u32); 4] = [
    // name, nanoseconds, decimal digits below it down to the nanosecond
    ("ns", 1,             0),
    ("µs", 1_000,         3),
    ("ms", 1_000_000,     6),
    ("s",  1_000_000_000, 9),
];

/// Pixels between labels, at least.
const GAP: f64 = 24.0;

/// The ticks of `view` with `zero_ns` written as 0, labels `size` pixels high and never closer than a letter.
pub fn axis(view: &TimeView, zero_ns: i64, size: f64) -> Axis {
    let (first, last) = (i128::from(view.start_ns()), i128::from(view.end_ns()));
    let zero = i128::from(zero_ns);
    let pitch = |step: i128| step as f64 / view.ns_per_px();
    let mut step: i128 = 1;
    while pitch(step) < GAP && step <= i128::from(i64::MAX) {
        step = next(step);
    }
    loop {
        let (base, start, unit) = naming(first - zero, last - zero, step);
        let mut ticks = Vec::new();
        let mut room: f64 = 0.0;
        let mut at = (first - zero).div_euclid(step) * step;
        while at <= last - zero && ticks.len() < 1000 {
            let x = i64::try_from(at + zero).map_or(-1.0, |ns| view.x_from_time(ns));
            if 0.0 <= x && x <= view.width_px() {
                let label = written(at - start, step, unit, base.is_some());
                room = room.max(text::width(&label, size, false));
                ticks.push(Tick { x, label });
            }
            at += step;
        }
        if pitch(step) >= room + GAP || step > i128::from(i64::MAX) {
            return Axis { base, ticks };
        }
        step = next(step);
    }
}

/// The ticks of a view of steps that take `unit_ns` each: the number of a step, from 1, over its middle.
pub fn steps(view: &TimeView, unit_ns: i64, size: f64) -> Axis {
    let unit = unit_ns.max(1);
    let label = |step: i128| grouped(step.unsigned_abs().try_into().unwrap_or(u64::MAX));
    let last = i128::from(view.end_ns() / unit) + 1;
    let room = text::width(&label(last), size, false) + GAP / 2.0;
    let mut stride: i128 = 1;
    while (stride as f64) * (unit as f64) / view.ns_per_px() < room && stride < last {
        stride = next(stride);
    }
    let first = i128::from(view.start_ns().max(0) / unit) / stride;
    let places = (first..).map(|k| k * stride + 1).take_while(|&step| step <= last).take(1000);
    let ticks = places.filter_map(|step| {
        let middle = i64::try_from((step - 1) * i128::from(unit)).ok()?.checked_add(unit / 2)?;
        let x = view.x_from_time(middle);
        (0.0 <= x && x <= view.width_px()).then(|| Tick { x, label: label(step) })
    });
    Axis { base: None, ticks: ticks.collect() }
}

/// 1, 2, 5, 10, 20, 50, …
fn next(step: i128) -> i128 {
    let mut ten = 1;
    while ten * 10 <= step {
        ten *= 10;
    }
    match step / ten {
        1 => 2 * ten,
        2 => 5 * ten,
        _ => 10 * ten,
    }
}

/// The base in words (if ticks are differences), the time that it stands for, and the position of the unit.
fn naming(first: i128, last: i128, step: i128) -> (Option<String>, i128, usize) {
    let largest = first.abs().max(last.abs());
    let unit_of = |t: i128| UNITS.iter().rposition(|u| t >= u.1).unwrap_or(0);
    let unit = unit_of(largest);
    if digits(step, unit) <= 3 {
        return (None, 0, unit);
    }
    // So close that every label would repeat the same long head: name the head once.
    let length = (last - first).max(1);
    let mut grain = step;
    while grain < length {
        grain = next(grain);
    }
    let start = first.div_euclid(grain) * grain;
    (Some(format!("from {}", written(start, grain, unit, false))), start, unit_of(length))
}

/// A point in time to the nanosecond, without zeros at its end: `42.946 ms`.
pub fn exact(ns: i64) -> String {
    let ns = i128::from(ns);
    let unit = UNITS.iter().rposition(|u| ns.abs() >= u.1).unwrap_or(0);
    written(ns, ns, unit, false)
}

/// Decimal digits that multiples of `step` need in a unit.
fn digits(step: i128, unit: usize) -> u32 {
    let mut digits = UNITS[unit].2;
    let mut rest = step;
    while digits > 0 && rest % 10 == 0 {
        rest /= 10;
        digits -= 1;
    }
    digits
}

fn written(ns: i128, step: i128, unit: usize, signed: bool) -> String {
    let (name, scale, _) = UNITS[unit];
    let n_digits = digits(step, unit);
    let magnitude = ns.unsigned_abs();
    let scale = scale.unsigned_abs();
    let (whole, part) = (magnitude / scale, magnitude % scale);
    let sign = match ns {
        n if n < 0 => "-",
        _ if signed => "+",
        _ => "",
    };
    let fraction = if n_digits == 0 {
        String::new()
    } else {
        let all = format!("{part:0width$}", width = UNITS[unit].2 as usize);
        format!(".{}", &all[..n_digits as usize])
    };
    let whole = grouped(u64::try_from(whole).unwrap_or(u64::MAX));
    format!("{sign}{whole}{fraction} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[track_caller]
    fn check(start: i64, end: i64, width: f64, expected: &str) {
        let axis = axis(&TimeView::new(start, end, width), 0, 12.0);
        let labels: Vec<String> = axis.ticks.into_iter().map(|t| t.label).collect();
        let base = axis.base.map_or(String::new(), |b| format!("[{b}] "));
        assert_eq!(format!("{base}{}", labels.join(", ")), expected);
    }

    #[test]
    fn a_point_in_time_has_all_its_digits() {
        for (ns, words) in [
            (0, "0 ns"),
            (-1, "-1 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (42_946_100, "42.9461 ms"),
            (-1_000_001, "-1.000001 ms"),
            (12_000_000_340, "12.00000034 s"),
            (i64::MIN, "-9,223,372,036.854775808 s"),
        ] {
            assert_eq!(exact(ns), words);
        }
    }

    #[test]
    fn steps_are_round_and_units_stand_with_them() {
        check(0, 240_000, 584.0, "0 µs, 50 µs, 100 µs, 150 µs, 200 µs");
        check(0, 240_000, 400.0, "0 µs, 50 µs, 100 µs, 150 µs, 200 µs");
        check(0, 5_000_000, 600.0, "0 ms, 1 ms, 2 ms, 3 ms, 4 ms, 5 ms");
        check(0, 1_200_000, 700.0, "0.0 ms, 0.2 ms, 0.4 ms, 0.6 ms, 0.8 ms, 1.0 ms, 1.2 ms");
        check(-300, 300, 500.0, "-300 ns, -200 ns, -100 ns, 0 ns, 100 ns, 200 ns, 300 ns");
        check(0, 90_000_000_000, 500.0, "0 s, 10 s, 20 s, 30 s, 40 s, 50 s, 60 s, 70 s, 80 s, 90 s");
    }

    #[test]
    fn a_close_view_far_from_zero_names_its_head_once() {
        check(
            1_234_567_890,
            1_234_567_990,
            500.0,
            "[from 1.2345678 s] +100 ns, +120 ns, +140 ns, +160 ns, +180 ns",
        );
    }

    #[test]
    fn labels_never_touch_and_never_leave() {
        let mut random = Random(5);
        for _ in 0..3000 {
            let start = i64::try_from(random.next() >> (1 + random.below(60))).unwrap();
            let length = i64::try_from(random.next() >> (3 + random.below(60))).unwrap();
            let width = 60.0 + random.below(1500) as f64;
            let view = TimeView::new(start, start.saturating_add(length), width);
            let axis = axis(&view, 0, 12.0);
            let mut free = f64::NEG_INFINITY;
            for tick in &axis.ticks {
                let half = text::width(&tick.label, 12.0, false) / 2.0;
                assert!(tick.x - half > free, "{axis:?}");
                assert!(0.0 <= tick.x && tick.x <= width);
                free = tick.x + half;
            }
        }
    }

    #[test]
    fn steps_are_numbered_from_one_over_their_middles() {
        let told = |view: &TimeView| {
            let ticks = steps(view, 1_000, 11.0).ticks;
            ticks.into_iter().map(|t| (t.label, format!("{:.0}", t.x))).collect::<Vec<_>>()
        };
        let six = told(&TimeView::new(0, 6_000, 600.0));
        let expected: Vec<_> = (1..=6).map(|k| (k.to_string(), (100 * k - 50).to_string())).collect();
        assert_eq!(six, expected);
        for n in [30, 1_000, 123_456] {
            let ticks = steps(&TimeView::new(0, n * 1_000, 600.0), 1_000, 11.0).ticks;
            assert!(2 <= ticks.len() && ticks.len() < 40, "{n}: {}", ticks.len());
            assert_eq!(ticks[0].label, "1");
            for pair in ticks.windows(2) {
                let room = text::width(&pair[0].label, 11.0, false) / 2.0
                    + text::width(&pair[1].label, 11.0, false) / 2.0;
                assert!(pair[0].x + room <= pair[1].x, "{n}: {pair:?}");
            }
        }
        assert!(steps(&TimeView::new(-5_000, -1_000, 600.0), 1_000, 11.0).ticks.is_empty());
    }
}
