//! What stands behind a dot: what is made of operators, and the choices of builders.

use super::eval::{Builder, NO_SPACE, Value, made, measured, part_of};
use super::functions::Args;
use super::tree::{Kind, Node};
use super::{MOST_PARTS, ScriptError};
use crate::op::{Boundary, Edge, Kernel, Mode, Operator, Part, chain};
use crate::ordered::CollectVec;

/// How far a kernel of an interpolation may reach.
const WIDEST: f64 = 32.0;

impl<'t> Args<'_, 't> {
    /// What is made of a value.
    pub(super) fn method(mut self, of: &Node<'t>, value: Value) -> Result<Value, ScriptError> {
        match value {
            Value::Operator(a) => self.made_of(&a),
            Value::Space(space) if self.name == "on" => {
                let [device] = self.of("on(DEVICE)")?;
                Ok(Value::Space(space.on(self.device(device)?)))
            }
            Value::Builder(builder) if self.name != "over" => Ok(Value::Builder(self.chosen(of, builder)?)),
            Value::Open(_) | Value::Builder(_) if self.name == "over" => {
                let [space] = self.of("over(SPACE)")?;
                let space = self.scope.space(space)?;
                let parts = match value {
                    Value::Open(parts) => parts,
                    other => vec![part_of(of.place, other)?],
                };
                let ends = std::iter::once(Part::Operator(Operator::identity(space)));
                made(self.place, chain(ends.chain(parts)))
            }
            Value::Open(_) if METHODS.contains(&self.name) => Err(of.place.error(NO_SPACE)),
            other => Err(self.error(format!("{} has no `{}`", other.words(), self.name))),
        }
    }

    fn made_of(&mut self, a: &Operator) -> Result<Value, ScriptError> {
        let place = self.place;
        let alone = |built: &dyn Fn(&Operator) -> Operator| {
            self.of::<0>(self.name)?;
            made(place, Ok(built(a)))
        };
        match self.name {
            "h" | "adjoint" => alone(&Operator::h),
            "t" | "transpose" => alone(&Operator::t),
            "conj" => alone(&Operator::conj),
            "n" | "normal" => alone(&Operator::normal),
            "gram" => alone(&Operator::gram),
            "cogram" => alone(&Operator::cogram),
            "simplify" => alone(&Operator::simplify),
            "inverse" => {
                self.of::<0>("inverse")?;
                made(place, a.inverse())
            }
            "on" => {
                let [device] = self.of("on(DEVICE)")?;
                made(place, Ok(a.on(self.device(device)?)))
            }
            "over" => Err(self.error("the operator knows its space")),
            "polynomial" => {
                let [coefficients] = self.of("polynomial([1, 0.5, …])")?;
                made(place, a.polynomial(&self.scope.reals(coefficients)?))
            }
            "near_inverse" => {
                let [degree, least, most] = self.of("near_inverse(DEGREE, LEAST, MOST)")?;
                let degree = self.scope.count(degree)?;
                made(place, a.near_inverse(degree, (self.scope.real(least)?, self.scope.real(most)?)))
            }
            "split" | "split_fixed" => {
                let [dim, tiles, devices] = self.of("split(DIM, TILES, [DEVICE, …])")?;
                let (dim, devices) = (self.dim(dim)?, self.devices(devices)?);
                let tiles = self.tiles(a, tiles)?;
                let fixed = self.name == "split_fixed";
                let split = if fixed { Operator::split_fixed } else { Operator::split };
                made(place, split(a, dim, tiles, &devices))
            }
            "split_with_halo" => {
                let [dim, tiles, halo, devices] =
                    self.of("split_with_halo(DIM, TILES, HALO, [DEVICE, …])")?;
                let (dim, devices) = (self.dim(dim)?, self.devices(devices)?);
                let (tiles, halo) = (self.tiles(a, tiles)?, self.scope.size(halo)?);
                made(place, a.split_with_halo(dim, tiles, halo, &devices))
            }
            _ => Err(self.error(format!("an operator has no `{}`", self.name))),
        }
    }

    /// A number of tiles that leaves few enough parts.
    fn tiles(&mut self, a: &Operator, node: &Node<'t>) -> Result<usize, ScriptError> {
        let tiles = self.scope.count(node)?;
        let mut parts = 0;
        measured(a, 0, &mut parts).map_err(|e| node.place.error(e))?;
        if parts.saturating_mul(tiles) <= MOST_PARTS {
            return Ok(tiles);
        }
        Err(node.place.error(format!("{tiles} tiles of {parts} parts are more than {MOST_PARTS} parts")))
    }

    /// A builder with one more choice.
    fn chosen(&mut self, of: &Node<'t>, builder: Builder) -> Result<Builder, ScriptError> {
        let choices = match &builder {
            Builder::Fft(_) => "`centered` and `named`",
            Builder::Movement(_) => "`named` and `at`",
            Builder::Convolution(_) => "`mode`, `periodic`, `stride`, `dilation` and `named`",
            Builder::Interpolate(_) => "`kernel`, `width`, `edge` and `onto`",
            Builder::Nufft(_) => "`oversampling` and `width`",
            Builder::Difference(_) => "`named`",
            Builder::Gradient(_) => "`boundary`",
            Builder::Sampling(_) => "no choices",
        };
        Ok(match (builder, self.name) {
            (Builder::Fft(b), "centered") => {
                self.of::<0>("centered")?;
                Builder::Fft(b.centered())
            }
            (Builder::Fft(b), "named") => Builder::Fft(b.named(self.dims(self.list)?)),
            (Builder::Movement(b), "named") => Builder::Movement(b.named(self.dims(self.list)?)),
            (Builder::Movement(b), "at") => {
                let [place] = self.of("at(PLACE)")?;
                Builder::Movement(b.at(self.scope.count(place)?))
            }
            (Builder::Convolution(b), "mode") => {
                let [mode] = self.of("mode(MODE)")?;
                Builder::Convolution(b.mode(self.choice(mode, MODES)?))
            }
            (Builder::Convolution(b), "periodic") => {
                self.of::<0>("periodic")?;
                Builder::Convolution(b.periodic())
            }
            (Builder::Convolution(b), "stride" | "dilation") => {
                let [n] = self.of("stride(INT)")?;
                let n = self.scope.size(n)?;
                Builder::Convolution(if self.name == "stride" { b.stride(n) } else { b.dilation(n) })
            }
            (Builder::Convolution(b), "named") => Builder::Convolution(b.named(self.dims(self.list)?)),
            (Builder::Interpolate(b), "kernel") => {
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
                Builder::Interpolate(b.kernel(kernel, self.width(width)?))
            }
            (Builder::Interpolate(b), "edge") => {
                let [edge] = self.of("edge(EDGE)")?;
                Builder::Interpolate(b.edge(self.choice(edge, EDGES)?))
            }
            (Builder::Interpolate(b), "onto") => {
                let sizes = self.list.iter().map(|node| self.scope.size(node)).try_collect_vec()?;
                Builder::Interpolate(b.onto(sizes))
            }
            (Builder::Nufft(b), "width") => {
                let [width] = self.of("width(INT)")?;
                let wide = self.width(width)?;
                let whole = u32::try_from(self.scope.whole(width)?);
                Builder::Nufft(b.width(whole.map_err(|_| width.place.error(format!("a width of {wide}")))?))
            }
            (Builder::Nufft(b), "oversampling") => {
                let [factor] = self.of("oversampling(NUMBER)")?;
                let factor_ = self.scope.real(factor)?;
                if factor_ > 8.0 {
                    return Err(factor.place.error("an oversampling of more than 8"));
                }
                Builder::Nufft(b.oversampling(factor_))
            }
            (Builder::Difference(b), "named") => {
                let [name] = self.of("named(DIM)")?;
                Builder::Difference(b.named(self.dim(name)?))
            }
            (Builder::Gradient(b), "boundary") => {
                let [boundary] = self.of("boundary(BOUNDARY)")?;
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
];
