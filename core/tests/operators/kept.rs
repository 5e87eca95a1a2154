//! The laws that a user's operator is held to: kept by every operator that ships, and each broken by one that promises too much.

use spanlift::memory::Dtype;
use spanlift::op::{
    Along, LeafFacts, LeafOp, Name, Operator, Side, Space, Tags, Tile, block_diag, broken_laws,
};

use crate::drawn::Wild;
use crate::oracle::C;
use crate::table::{Entry, FIELDS, table};

#[test]
fn what_ships_keeps_its_laws() {
    let mut held = 0;
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            for a in [op.clone(), op.h(), op.conj(), op.n(), block_diag([&op, &op]).unwrap()] {
                for seed in 1..=2 {
                    let broken = broken_laws(&a, seed);
                    assert!(broken.is_empty(), "{name}: {a}, seed {seed}: {}", broken[0]);
                    held += 1;
                }
            }
        }
    }
    assert!(held > 1000, "only {held}");
    for seed in 1..=200 {
        let a = Wild::new(seed).expression(u32::try_from(seed % 3).unwrap());
        let broken = broken_laws(&a, seed);
        assert!(broken.is_empty(), "seed {seed}: {a:#}\n{}", broken[0]);
    }
}

type Function = fn(Side, &[C], &mut [C]);

/// An operator that does one thing and promises another.
#[derive(Debug)]
struct Wrong {
    facts: LeafFacts,
    does: Function,
    normal: Option<f64>,
    inverse: Option<f64>,
    along: Along,
    /// What is done in tiles.
    tiles: Option<Function>,
}

impl LeafOp for Wrong {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[C], y: &mut [C]) {
        (self.does)(side, x, y);
    }

    fn normal(&self, _: Side) -> Option<Operator> {
        self.normal.map(|by| Operator::scale(by, self.facts.domain.clone()).unwrap())
    }

    fn inverse(&self) -> Option<Operator> {
        self.inverse.map(|by| Operator::scale(by, self.facts.domain.clone()).unwrap())
    }

    fn along(&self, _: &Name) -> Along {
        self.along
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let does = self.tiles?;
        let [domain, codomain] = [&self.facts.domain, &self.facts.codomain].map(|space| tile.space(space));
        let facts = LeafFacts { domain, codomain, ..self.facts.clone() };
        Some(Operator::leaf(Wrong {
            facts,
            does,
            normal: None,
            inverse: None,
            along: self.along,
            tiles: None,
        }))
    }
}

fn twice(_: Side, x: &[C], y: &mut [C]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
}

fn copy(_: Side, x: &[C], y: &mut [C]) {
    y.copy_from_slice(x);
}

/// `y_i = x_{i + 1}` around the end.
fn turn(side: Side, x: &[C], y: &mut [C]) {
    let n = x.len();
    (0..n).for_each(|i| match side {
        Side::Forward => y[i] = x[(i + 1) % n],
        Side::Adjoint => y[(i + 1) % n] = x[i],
    });
}

/// `i x`
fn quarter(side: Side, x: &[C], y: &mut [C]) {
    let i = if side == Side::Forward { C::I } else { -C::I };
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x * i);
}

fn negative(_: Side, x: &[C], y: &mut [C]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
}

fn square(_: Side, x: &[C], y: &mut [C]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x);
}

#[test]
fn every_promise_that_is_not_kept_is_named() {
    let line = Space::new([("x", 5)], Dtype::C64).unwrap();
    let right = |does: Function| Wrong {
        facts: LeafFacts::new("A", line.clone(), line.clone()),
        does,
        normal: None,
        inverse: None,
        along: Along::Mixed,
        tiles: None,
    };
    let tagged = |does, tags: Tags| Wrong { facts: LeafFacts { tags, ..right(does).facts }, ..right(does) };
    let none = Tags::default();
    let cases = [
        (right(square), "A (c x + z) = c A x + A z"),
        (tagged(quarter, Tags { hermitian: true, ..none }), "<A x, y> = <x, A^H y>"),
        (Wrong { normal: Some(2.0), ..right(twice) }, "the normal of `A` is A^H A"),
        (tagged(twice, Tags { isometry: true, ..none }), "the normal of `A` is A^H A"),
        (tagged(twice, Tags { coisometry: true, ..none }), "the normal of the adjoint of `A` is A A^H"),
        (Wrong { inverse: Some(2.0), ..right(twice) }, "A^-1 A = I"),
        (tagged(quarter, Tags { real: true, ..none }), "real: conj(A) = A"),
        (tagged(twice, Tags { idempotent: true, ..none }), "idempotent: A A = A"),
        (tagged(turn, Tags { involution: true, ..none }), "involution: A A = I"),
        (tagged(negative, Tags { psd: true, ..none }), "psd: <x, A x> >= 0"),
        (tagged(quarter, Tags { psd: true, ..none }), "psd: <x, A x> >= 0"),
        (tagged(turn, Tags { diagonal: true, ..none }), "diagonal: y_i = a_i x_i"),
        // Tiles that turn within themselves, and that do something else.
        (
            Wrong { along: Along::Pointwise, tiles: Some(turn), ..right(turn) },
            "the tiles along `x` are the whole",
        ),
        (
            Wrong { along: Along::Pointwise, tiles: Some(copy), ..right(twice) },
            "the tiles along `x` are the whole",
        ),
    ];
    for (wrong, law) in cases {
        let a = Operator::leaf(wrong);
        for seed in 1..=8 {
            let laws: Vec<String> = broken_laws(&a, seed).into_iter().map(|broken| broken.law).collect();
            assert!(laws.iter().any(|broken| broken == law), "{law}, seed {seed}: {laws:?}");
        }
    }
    // The same without the promise, and with ones that are kept.
    let good = Tags { real: true, ..none };
    let kept = [
        right(turn),
        right(quarter),
        Wrong { normal: Some(4.0), inverse: Some(0.5), ..right(twice) },
        tagged(turn, Tags { isometry: true, coisometry: true, ..good }),
        tagged(twice, Tags { hermitian: true, psd: true, diagonal: true, ..good }),
        tagged(copy, Tags { idempotent: true, involution: true, ..good }),
        tagged(negative, Tags { hermitian: true, involution: true, diagonal: true, ..good }),
        Wrong { along: Along::Pointwise, tiles: Some(twice), ..right(twice) },
    ];
    for wrong in kept {
        let a = Operator::leaf(wrong);
        assert_eq!(broken_laws(&a, 3), [], "{a:?}");
    }
    // Squares of these are numbers, and squares of what their normals make are none.
    for by in [1e100, 1e-100] {
        assert_eq!(broken_laws(&Operator::scale(by, line.clone()).unwrap(), 3), [], "{by}");
    }
    let broken = &broken_laws(&Operator::leaf(Wrong { normal: Some(2.0), ..right(twice) }), 1)[0];
    assert!(broken.to_string().starts_with("the normal of `A` is A^H A: 2.0e-1 off"), "{broken}");
}
