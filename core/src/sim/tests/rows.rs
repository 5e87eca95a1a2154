//! The sixteen rows against the model column of the fit.

use super::*;

const MB4: Bytes = Bytes(4_000_000);

fn row(k: usize) -> Program {
    let mut p = Program::new();
    let (n, bytes) = match k {
        1..=4 => (1, MB4),
        5 | 6 => (1000, Bytes(4000)),
        _ => (1000, MB4),
    };
    let pinned_source = matches!(k, 2 | 9 | 10);
    let pin_call = matches!(k, 3 | 4 | 11 | 12 | 15 | 16);
    let copies = k != 3;
    let dict = k >= 13;
    let each_sync = matches!(k, 5 | 7 | 9 | 11 | 13);
    let s = p.legacy(0);
    let mut src = Vec::new();
    for i in 0..n {
        let x = if pinned_source {
            p.pinned(&format!("x{i}"), bytes)
        } else {
            p.pageable(&format!("x{i}"), bytes)
        };
        let pin = if pin_call { Some(p.pinned(&format!("p{i}"), bytes)) } else { None };
        let d = p.device(0, &format!("d{i}"), bytes);
        src.push((x, pin, d));
    }
    src.iter().for_each(|(x, ..)| {
        p.host_write(*x, None);
    });
    let to = |p: &mut Program, d: BufferId, x: BufferId, s: StreamId| {
        p.host_cost(HostCost::FrameworkTo);
        p.copy(d, x).on(s);
    };
    if k <= 4 {
        for round in 0..2 {
            let (x, pin, d) = src[0];
            if round == 1 {
                p.mark("begin");
            }
            if let Some(pin) = pin {
                p.host_cost(HostCost::PinOverhead);
                p.host_copy(pin, x);
            }
            if copies {
                to(&mut p, d, pin.unwrap_or(x), s);
                p.sync(s);
            }
        }
        p.mark("end");
        return p;
    }
    p.mark("begin");
    if k == 16 {
        for _ in 0..n {
            p.host_cost(HostCost::DictLeaf);
        }
        let threads: Vec<_> =
            (0..4).map(|t| (p.spawn(&format!("pin{t}")), p.channel(&format!("c{t}")))).collect();
        for (i, (x, pin, d)) in src.iter().enumerate() {
            let (thread, channel) = threads[i % 4];
            p.by(thread, |p| {
                p.host_cost(HostCost::PinOverhead);
                p.host_copy(pin.unwrap(), *x);
                p.push(crate::program::Op::Signal { channel });
            });
            p.push(crate::program::Op::Await { channel });
            to(&mut p, *d, pin.unwrap(), s);
        }
        p.device_sync(0);
        p.mark("end");
        return p;
    }
    for (x, pin, d) in &src {
        if let Some(pin) = pin {
            p.host_cost(HostCost::PinOverhead);
            p.host_copy(*pin, *x);
        }
        if dict {
            p.host_cost(HostCost::DictLeaf);
        }
        to(&mut p, *d, pin.unwrap_or(*x), s);
        if each_sync {
            p.sync(s);
        }
    }
    if !each_sync {
        p.device_sync(0);
    }
    p.mark("end");
    p
}

/// The model column of the fit; it was computed in floating point with unrounded costs, so a microsecond is left.
#[test]
fn rows_are_the_model_column() {
    #[rustfmt::skip]
    let model_ns = [
        463_300, 369_900, 350_600, 720_600, 25_220_500, 18_962_800, 594_157_500, 519_431_800, 369_927_200, 346_902_000,
        952_993_100, 631_735_000, 600_895_200, 525_589_400, 638_472_700, 354_368_900,
    ];
    for (k, model) in (1..=16).zip(model_ns) {
        let run = run(&row(k), &Machine::default()).unwrap();
        let simulated = run.between("begin", "end").unwrap().0;
        assert!((simulated - model).abs() <= 1_100, "row {k}: {simulated} ns, the model says {model} ns");
    }
}
