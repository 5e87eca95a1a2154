//! What stands behind a dot: what is made of operators, and the choices of builders.

use super::eval::{Builder, DEEPEST, NO_SPACE, Scope, Value, WIDEST};
use super::functions::Args;
use super::measure::measured;
use super::tree::{Kind, Node};
use super::{MOST_PARTS, Place, ScriptError};
use crate::op::{Boundary, Edge, Kernel, Mode, Name, Operator};
use crate::ordered::CollectVec;
use crate::program::text::nearest;

impl<'t> Args<'_, 't> {
    /// What is made of a value.
    pub(super) fn method(mut self, of: &Node<'t>, value: Value) -> Result<Value, ScriptError> {
        match value {
            Value::Operator(a) => self.made_of(&a),
            Value::Space(space) if self.name == "on" => {
                let [device] = self.of("(DEVICE)")?;
                Ok(Value::Space(space.on(self.device(device)?)))
            }
            Value::Builder(builder) if self.name != "over" => Ok(Value::Builder(self.chosen(of, builder)?)),
            Value::Open(_) | Value::Builder(_) if self.name == "over" => {
                let [space] = self.of("(SPACE)")?;
                let space = self.scope.space(space)?;
                self.scope.over(of, value, space)
            }
            Value::Open(_) if METHODS.contains(&self.name) => Err(of.place.error(NO_SPACE)),
            other => Err(self.error(format!("{} has no `{}`", other.words(), self.name))),
        }
    }

    fn made_of(&mut self, a: &Operator) -> Result<Value, ScriptError> {
        let place = self.place;
        let plain: Option<fn(&Operator) -> Operator> = match self.name {
            "h" | "adjoint" => Some(Operator::h),
            "t" | "transpose" => Some(Operator::t),
            "conj" => Some(Operator::conj),
            "n" | "normal" | "gram" => Some(Operator::normal),
            "cogram" => Some(Operator::cogram),
            "simplify" => Some(Operator::simplify),
            _ => None,
        };
        if let Some(built) = plain {
            self.of::<0>("")?;
            if matches!(self.name, "n" | "normal" | "gram" | "cogram" | "simplify") {
                self.scope.products(place, a)?;
            }
            return self.scope.made(place, &[], Ok(built(a)));
        }
        match self.name {
            "inverse" => {
                self.of::<0>("")?;
                self.scope.made(place, &[], a.inverse())
            }
            "on" => {
                let [device] = self.of("(DEVICE)")?;
                self.scope.made(place, &[], Ok(a.on(self.device(device)?)))
            }
            "over" => Err(self.error("the operator knows its space")),
            "polynomial" => {
                let [coefficients] = self.of("([1, 0.5, …])")?;
                let list = self.scope.reals(coefficients)?;
                self.few(coefficients, list.len().saturating_sub(1), DEEPEST / 2)?;
                self.scope.made(place, &[], a.polynomial(&list))
            }
            "near_inverse" => {
                let [degree, least, most] = self.of("(DEGREE, LEAST, MOST)")?;
                let n = self.scope.count(degree)?;
                self.few(degree, n, DEEPEST / 2 - 1)?;
                let range = (self.scope.real(least)?, self.scope.real(most)?);
                self.scope.made(place, &[], a.near_inverse(n, range))
            }
            "split" | "split_fixed" => {
                let [dim, tiles, devices] = self.of("(DIM, TILES, [DEVICE, …])")?;
                let (dim, devices) = (self.dim(dim)?, self.devices(devices)?);
                let tiles = self.tiles(a, tiles)?;
                let split = if self.name == "split" { Operator::split } else { Operator::split_fixed };
                self.scope.made(place, &[], split(a, dim, tiles, &devices))
            }
            "split_with_halo" => {
                let [dim, tiles, halo, devices] = self.of("(DIM, TILES, HALO, [DEVICE, …])")?;
                let (dim, devices) = (self.dim(dim)?, self.devices(devices)?);
                let (tiles, halo) = (self.tiles(a, tiles)?, self.scope.size(halo)?);
                self.scope.made(place, &[], a.split_with_halo(dim, tiles, halo, &devices))
            }
            "tiles" => {
                let sizes = self.pairs(self.list, Scope::size)?;
                if sizes.is_empty() {
                    return Err(self.written("(DIM=SIZE, …)"));
                }
                self.few_tiles(a, &sizes)?;
                let tiles = a.tiles(sizes).and_then(|tiles| tiles.joined());
                self.scope.made(place, &[], tiles)
            }
            name => Err(self.error(match nearest(name, &mut METHODS.iter().copied()) {
                Some(close) => format!("an operator has no `{name}`; did you mean `{close}`?"),
                None => format!("an operator has no `{name}`"),
            })),
        }
    }

    /// A degree of a polynomial, each power of which lies two deeper than the one before.
    fn few(&self, node: &Node<'t>, degree: usize, most: usize) -> Result<(), ScriptError> {
        if degree <= most {
            return Ok(());
        }
        Err(node.place.error(format!(
            "a degree of {degree}: in a script, where operators lie at most {DEEPEST} deep inside each other, at most {most}"
        )))
    }

    /// A number of tiles that leaves few enough parts.
    fn tiles(&mut self, a: &Operator, node: &Node<'t>) -> Result<usize, ScriptError> {
        let tiles = self.scope.count(node)?;
        self.so_many(node.place, a, tiles)?;
        Ok(tiles)
    }

    fn so_many(&mut self, place: Place, a: &Operator, tiles: usize) -> Result<(), ScriptError> {
        let parts = measured(a).map_err(|e| place.error(e))?;
        if parts.saturating_mul(tiles) <= MOST_PARTS {
            return self.scope.tiles(place, a, tiles);
        }
        Err(place.error(format!("{tiles} tiles of {parts} parts are more than {MOST_PARTS} parts")))
    }

    /// Sizes of tiles that are few enough; what is no size is the builder's to refuse.
    fn few_tiles(&mut self, a: &Operator, sizes: &[(&str, i64)]) -> Result<(), ScriptError> {
        let all = sizes.iter().fold(1_usize, |all, (dim, size)| {
            let name: Result<Name, _> = dim.parse();
            let n = name.ok().and_then(|name| a.size(&name)).unwrap_or(1);
            let tiles = n.max(1).unsigned_abs().div_ceil(size.max(&1).unsigned_abs());
            all.saturating_mul(usize::try_from(tiles).unwrap_or(usize::MAX))
        });
        self.so_many(self.place, a, all)
    }

    /// A builder with one more choice.
    fn chosen(&mut self, of: &Node<'t>, builder: Builder) -> Result<Builder, ScriptError> {
        let choices = match &builder {
            Builder::Fft(_) => "`centered` and `named`",
            Builder::Movement(_) => "`named` and `at`",
            Builder::Convolution(_) => "`mode`, `periodic`, `stride`, `dilation` and `named`",
            Builder::Interpolate(..) => "`kernel`, `width`, `edge` and `onto`",
            Builder::Nufft(..) => "`oversampling` and `width`",
            Builder::Difference(_) => "`named`",
            Builder::Gradient(_) => "`boundary`",
            Builder::Sampling(_) => "no choices",
        };
        Ok(match (builder, self.name) {
            (Builder::Fft(b), "centered") => {
                self.of::<0>("")?;
                Builder::Fft(b.centered())
            }
            (Builder::Fft(b), "named") => Builder::Fft(b.named(self.dims(self.list)?)),
            (Builder::Movement(b), "named") => Builder::Movement(b.named(self.dims(self.list)?)),
            (Builder::Movement(b), "at") => {
                let [place] = self.of("(PLACE)")?;
                Builder::Movement(b.at(self.scope.count(place)?))
            }
            (Builder::Convolution(b), "mode") => {
                let [mode] = self.of("(MODE)")?;
                Builder::Convolution(b.mode(self.choice(mode, MODES)?))
            }
            (Builder::Convolution(b), "periodic") => {
                self.of::<0>("")?;
                Builder::Convolution(b.periodic())
            }
            (Builder::Convolution(b), "stride" | "dilation") => {
                let [n] = self.of("(INT)")?;
                let n = self.scope.size(n)?;
                Builder::Convolution(if self.name == "stride" { b.stride(n) } else { b.dilation(n) })
            }
            (Builder::Convolution(b), "named") => Builder::Convolution(b.named(self.dims(self.list)?)),
            (Builder::Interpolate(b, size), "kernel") => {
                let (kernel, width) = match self.list {
                    [Node { kind: Kind::Word("box"), .. }, width] => (Kernel::Box, width),
                    [Node { kind: Kind::Word("linear"), .. }, width] => (Kernel::Linear, width),
                    [Node { kind: Kind::Call { of: None, name: "kaiser_bessel", args }, .. }, width]
                        if args.len() == 1 =>
                    {
                        (Kernel::KaiserBessel { beta: self.scope.real(&args[0])? }, width)
                    }
                    _ => {
                        return Err(self.error(
                            "`kernel` is written `kernel(box, WIDTH)`, `kernel(linear, WIDTH)` or \
                             `kernel(kaiser_bessel(BETA), WIDTH)`",
                        ));
                    }
                };
                let wide = self.width(width)?;
                self.scope.near(width.place, size, wide)?;
                Builder::Interpolate(b.kernel(kernel, wide), size)
            }
            (Builder::Interpolate(b, size), "edge") => {
                let [edge] = self.of("(EDGE)")?;
                Builder::Interpolate(b.edge(self.choice(edge, EDGES)?), size)
            }
            (Builder::Interpolate(b, size), "onto") => {
                let sizes = self.list.iter().map(|node| self.scope.size(node)).try_collect_vec()?;
                Builder::Interpolate(b.onto(sizes), size)
            }
            (Builder::Nufft(b, size), "width") => {
                let [width] = self.of("(INT)")?;
                let wide = self.width(width)?;
                let whole = u32::try_from(self.scope.whole(width)?);
                let whole = whole.map_err(|_| width.place.error("expected a whole number from 1"))?;
                self.scope.near(width.place, size, wide)?;
                Builder::Nufft(b.width(whole), size)
            }
            (Builder::Nufft(b, size), "oversampling") => {
                let [factor] = self.of("(NUMBER)")?;
                Builder::Nufft(b.oversampling(self.scope.real(factor)?), size)
            }
            (Builder::Difference(b), "named") => {
                let [name] = self.of("(DIM)")?;
                Builder::Difference(b.named(self.dim(name)?))
            }
            (Builder::Gradient(b), "boundary") => {
                let [boundary] = self.of("(BOUNDARY)")?;
                Builder::Gradient(b.boundary(self.choice(boundary, BOUNDARIES)?))
            }
            (_, name) if METHODS.contains(&name) => {
                return Err(of.place.error(NO_SPACE));
            }
            (_, name) => return Err(self.error(format!("no `{name}` here; it has {choices}"))),
        })
    }

    /// How far a kernel reaches.
    fn width(&mut self, node: &Node<'t>) -> Result<f64, ScriptError> {
        let width = self.scope.real(node)?;
        if width <= WIDEST { Ok(width) } else { Err(node.place.error(format!("wider than {WIDEST}"))) }
    }
}

pub(super) const BOUNDARIES: &[(&str, Boundary)] = &[
    ("valid", Boundary::Valid),
    ("replicate", Boundary::Replicate),
    ("zero", Boundary::Zero),
    ("periodic", Boundary::Periodic),
];

const MODES: &[(&str, Mode)] = &[("same", Mode::Same), ("valid", Mode::Valid), ("full", Mode::Full)];

const EDGES: &[(&str, Edge)] = &[("zero", Edge::Zero), ("circular", Edge::Circular)];

/// What can be made of an operator.
pub(super) const METHODS: &[&str] = &[
    "h",
    "adjoint",
    "t",
    "transpose",
    "conj",
    "n",
    "normal",
    "gram",
    "cogram",
    "simplify",
    "inverse",
    "on",
    "over",
    "polynomial",
    "near_inverse",
    "split",
    "split_fixed",
    "split_with_halo",
    "tiles",
];
