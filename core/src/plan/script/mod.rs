//! Operators as text: what is computed where, as a person would write it.
//!
//! ```text
//! operator  weights, a transform and a mask     # the first line; what follows is the title
//! machine   h200-pcie5
//! input     random(7)
//!
//! W = diagonal(c64[x=8]@cuda:0, ramp(1, 1))
//! A = to(cuda:0) -> W -> fft(x) -> select(kx, [0, 1, 3, 4, 6]) -> to(cpu)
//! show normal(A)
//! ```
//!
//! Data goes from left to right through `->`. `#` starts a comment; an expression goes on behind an operator sign and inside
//! brackets, and on a line that begins with `->`, `+`, `-`, `*`, `/` or `.`. `*` and `/` bind tighter than `+` and `-`, and these
//! tighter than `->`: `A -> B + C` is `A -> (B + C)`. A number of bytes has its unit without a gap, `64KiB`.
//!
//! | line | what it says |
//! |---|---|
//! | `operator` any text | the first line; the title |
//! | NAME `=` EXPRESSION | a name for an operator, a space or a number, once each; diagonals and matrices bear it in formulas |
//! | `show` EXPRESSION | the operator that is meant; without it, the last that was defined |
//! | `input` VALUES | what it is applied to; without it, `random(1)` |
//! | `machine` NAME | the profile that its author had in mind |
//! | `cap` DEVICE SIZE | as [`Planning::cap`]: `cap cuda:0 4MiB` |
//! | `ahead` INT | as [`Planning::ahead`] |
//!
//! | expression | written |
//! |---|---|
//! | one after the other, in the order in which they are applied | `A -> B` |
//! | sums, multiples, powers | `A + 0.5 * B - C`, `(1+2i) * A`, `A / 3`, `A^3`; a number in a chain or sum is that multiple of the identity |
//! | adjoint, transpose | `A^H`, `A^T`, or as below |
//! | of an operator | `A.h`, `.t`, `.conj`, `.normal`, `.gram`, `.cogram`, `.inverse`, `.simplify`, `.on(DEVICE)`, `.split(DIM, TILES, [DEVICE, …])`, `.split_fixed(…)`, `.split_with_halo(DIM, TILES, HALO, [DEVICE, …])`, `.tiles(DIM=SIZE, …)`, `.polynomial([…])`, `.near_inverse(DEGREE, LEAST, MOST)`; `normal(A)` is `A.normal` |
//! | of one that takes its space from its neighbours | `.over(SPACE)`, and its choices: `fft(x).centered.named(u)`. A chain that begins with it has the space there: `fft(x).over(SPACE) -> W`. In a sum and in a list of parts it is that of the first that has one: `A + 0.1 * identity` |
//! | leaves | `diagonal(SPACE, VALUES)`, `diagonal(SPACE, [DIM, …], VALUES)`, `dense(SPACE, [DIM=SIZE, …], VALUES)`, `zero(SPACE, SPACE)`, `identity`, `to(DEVICE)` |
//! | transforms | `fft(DIM, …)`, `rfft(DIM, …)` (`.centered`, `.named(DIM, …)`), `nufft(POINTS, DIM=[…], …)` (`.width`, `.oversampling`) |
//! | neighbours | `convolution([DIM=SIZE, …], VALUES)` (`.mode(same\|valid\|full)`, `.periodic`, `.stride`, `.dilation`, `.named`), `finite_difference(DIM, valid\|replicate\|zero\|periodic)` (`.named`), `gradient(NAME, DIM, …)` (`.boundary`), `interpolate(POINTS, DIM=[…], …)` (`.kernel(linear, 2)`, `.edge(zero\|circular)`, `.onto(SIZE, …)`), `sampling(POINTS, DIM=[…], …)` |
//! | movements | `rename(x=y)`, `permute(y, x)`, `merge_dims([y, x], p)`, `split_dim(p, y=2, x=4)`, `slice(x, 0..8, 2)`, `select(x, [0, 2, 4..8])`, `embed(x, [0, 2], 8)`, `pad(x, 8)`, `end_pad(x, 1, 2)`, `crop(x, 4)`, `roll(x, 1)`, `flip(x)`, `repeat(r, 4)`, `sum_reduce(x)`, `blocks(x=[3, 2])`, `unblocks(x=[5, 3, 2])`, with `.named` and `.at` |
//! | containers | `vstack(DIM, [A, B])`, `hstack(DIM, [A, B])`, `block(DIM, DIM, [A, B])`, `stack([A, B], out=DIM)`, `stack([A, B], into=DIM)`, `block_diag([A, B])`, `sum([A, B])`, `tree_sum([A, B])` |
//! | SPACE | `c64[y=4, x=8]@cuda:0`: an element type, dimensions with sizes, a device (without one the host); `f32`, `f64`, `c32` or `c64`. With a name, `image.on(cuda:0)` is the same elsewhere |
//! | VALUES | `[1, 2.5, 1-2i]` in row-major order, `ones`, `fill(2)`, `ramp(FIRST, STEP)`, `random(SEED)` in `[-1, 1)`; what whoever reads the script brings along ([`Script::read_with`]) |
//!
//! The functions are those of [`op`](crate::op), which says what each computes. The weights of `dense` lie in the order of the
//! dimensions of the result that have a size there, then of those of the input that the result lacks.
//!
//! Nothing in a script can ask for more than it says: at most 2^22 words, numbers and signs, 2^20 values in all, 2^22 elements
//! along a dimension, 10,000 parts of an operator (a power has as many as it would take one after the other), which lie at most 32
//! deep inside each other, as expressions do 40 deep, 10^6 parts of all that is built on the way, 1,000 names, 1,000 dimensions of
//! a space.
//! In all, operators list at most 2^23 rows along dimensions and 2^22 weights of interpolating kernels, and normals of matrices
//! and of samplings, and tiles of long dimensions, take at most 2^28 steps.
//!
//! There is no way back: an operator in a file is JSON ([`Operator::to_json`]).

mod eval;
mod functions;
mod lex;
mod measure;
mod methods;
mod tree;

use std::fmt;

use self::eval::{NO_SPACE, Scope, Value, device_of};
use self::lex::lex;
use self::tree::{Node, Tokens};
use super::{Plan, PlanError, Planning};
use crate::memory::Device;
use crate::op::{Array, Complex64, OpError, Operator, Random, Space};
use crate::ordered::BTreeMap;
use crate::program::text::size;

/// Values in a script, and of its rules, in all.
const MOST_VALUES: usize = 1 << 20;

/// Elements along a dimension.
const MOST_SIZE: i64 = 1 << 22;

/// Words, numbers and signs of the text.
const MOST_TOKENS: usize = 1 << 22;

/// Parts of an operator.
const MOST_PARTS: usize = 10_000;

/// Names that a script may define.
const MOST_NAMES: usize = 1_000;

/// Parts of all operators that a script makes on its way.
const MOST_BUILT: usize = 1_000_000;

/// Rows that operators keep for each place along a dimension, as those of differences.
const MOST_ROWS: usize = 1 << 23;

/// Weights of kernels, one for each point and each place of the grid near it.
const MOST_NEAR: usize = 1 << 22;

/// Steps that normals of matrices and of samplings take, and tiles.
const MOST_PRODUCTS: usize = 1 << 28;

/// Characters in a message.
const LONGEST_MESSAGE: usize = 600;

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn error(self, message: impl Into<String>) -> ScriptError {
        ScriptError { line: self.line, column: self.column, message: shortened(as_written(message.into())) }
    }
}

/// A message that writes as scripts do: `cuda:0`, where the library's advice says `cuda(0)`, `.over(SPACE)`, and a transfer that says
/// where it begins by the space that it is over.
fn as_written(message: String) -> String {
    let mut text = message.replace("cpu()", "cpu").replace("`over(space)`", "`.over(SPACE)`");
    for family in ["cuda", "mock"] {
        let call = format!("{family}(");
        let mut from = 0;
        while let Some(found) = text[from..].find(&call) {
            let digits = from + found + call.len();
            let n = text[digits..].bytes().take_while(u8::is_ascii_digit).count();
            if n > 0 && text[digits + n..].starts_with(')') {
                text.replace_range(digits + n..=digits + n, "");
                text.replace_range(digits - 1..digits, ":");
            }
            from = digits;
        }
    }
    let begins = "`ToDevice::from(";
    while let Some((before, rest)) = text.split_once(begins)
        && let Some((from, rest)) = rest.split_once(").to(")
        && let Some((to, rest)) = rest.split_once(")`")
    {
        text = format!("{before}`to({to}).over(SPACE@{from})`{rest}");
    }
    text
}

/// A message without its middle, if that is longer than anybody reads: formulas and names may be of any length.
fn shortened(message: String) -> String {
    let n = message.chars().count();
    if n <= LONGEST_MESSAGE {
        return message;
    }
    let half = LONGEST_MESSAGE / 2;
    let (first, last) = (message.chars().take(half), message.chars().skip(n - half));
    first.chain(" … ".chars()).chain(last).collect()
}

/// What is wrong with a script, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// What was expected and what was found, or why the operator cannot be built.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

crate::error::told!(ScriptError);

/// Values of a host's own for a space, as many as it has elements, or why there are none; see [`Script::read_with`].
pub type Rule = fn(&Space) -> Result<Vec<Complex64>, String>;

/// An operator that was written as text, with its input, and how it is to be planned; see [`script`](self).
///
/// ```
/// use spanlift::plan::Script;
///
/// let script = Script::read("operator three\nW = diagonal(f64[x=3]@cuda:0, [1, 2, 3])\ninput ones\nto(cuda:0) -> W -> to(cpu)");
/// assert_eq!(script.unwrap_err().to_string(), "line 4, column 1: expected `show`, or a name and `=`, found `to`");
///
/// let script = Script::read("operator three\nW = diagonal(f64[x=3]@cuda:0, [1, 2, 3])\ninput ones\nshow to(cuda:0) -> W -> to(cpu)")?;
/// assert_eq!(script.operator().formula(), "T(cuda:0->cpu) · W · T(cpu->cuda:0)");
/// assert_eq!(script.plan()?.transfers().len(), 2);
/// assert_eq!(script.operator().apply(script.input().unwrap())?.reals(), [1.0, 2.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    title: String,
    /// Its name and where it stands.
    machine: Option<(Place, String)>,
    operator: Operator,
    input: Option<Array>,
    planning: Planning,
    /// Where the operator stands.
    place: Place,
    /// Where each limit stands.
    caps: BTreeMap<Device, Place>,
}

impl Script {
    /// Whether a text is a script, by its first word.
    ///
    /// ```
    /// use spanlift::plan::Script;
    /// assert!(Script::is_one("# of mine\n\noperator scanner"));
    /// assert!(!Script::is_one("stream copy"));
    /// ```
    pub fn is_one(text: &str) -> bool {
        let mut lines =
            unmarked(text).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = lines.next().unwrap_or_default();
        first.split(|c: char| c.is_whitespace() || c == '#').next() == Some(FIRST)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`ScriptError`] with the first place that is wrong.
    ///
    /// # Cost
    /// What building the operator takes; values that follow from a rule are made.
    pub fn read(text: &str) -> Result<Script, ScriptError> {
        Script::read_with(text, &[])
    }

    /// The same for a text that names rules for values besides `ones` and `random(1)`: measurements, or an image. What the text
    /// defines by such a name comes first.
    ///
    /// # Errors
    /// As [`Script::read`]; what a rule says, where its name stands.
    ///
    /// # Cost
    /// As [`Script::read`], and what the rules take: each is asked for the space where its name stands, of at most 2^20 elements.
    ///
    /// ```
    /// use spanlift::op::{Complex64, Space};
    /// use spanlift::plan::Script;
    /// let squares = |space: &Space| Ok((0..space.elements()).map(|k| Complex64::from((k * k) as f64)).collect());
    /// let text = "operator\ninput squares\nA = roll(x, 1).over(f64[x=4])";
    /// let script = Script::read_with(text, &[("squares", squares)])?;
    /// assert_eq!(script.input().unwrap().reals(), [0.0, 1.0, 4.0, 9.0]);
    /// assert!(Script::read(text).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_with(text: &str, rules: &[(&str, Rule)]) -> Result<Script, ScriptError> {
        let (title, rest) = headed(unmarked(text))?;
        let tokens = lex(&rest)?;
        let mut tokens = Tokens::new(&tokens);
        let mut scope = Scope::new(rules);
        let mut said = Said::default();
        while !tokens.is_over() {
            statement(&mut tokens, &mut scope, &mut said)?;
        }
        let (place, operator) = match said.shown.or(said.last) {
            Some(shown) => shown,
            None => return Err(said.open.unwrap_or_else(|| tokens.place().error(NO_OPERATOR))),
        };
        let domain = operator.domain();
        let input = match said.input {
            Some(node) => {
                let values = scope.values(&node, domain)?;
                if !domain.is_complex()
                    && let Some(index) = values.iter().position(|value| value.im != 0.0)
                {
                    let space = Box::new(domain.clone());
                    let error = OpError::MixedFields { of: "input".to_owned(), index, space };
                    return Err(Scope::fault(&node, &error));
                }
                Some(Array::new(domain.clone(), values).map_err(|e| node.place.error(e.to_string()))?)
            }
            None if usize::try_from(domain.elements()).is_ok_and(|n| n <= MOST_VALUES) => {
                Some(Random(1).array(domain))
            }
            None => None,
        };
        Ok(Script {
            title,
            machine: said.machine,
            operator,
            input,
            planning: said.planning,
            place,
            caps: said.caps,
        })
    }

    /// What the first line says.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The machine that its author had in mind.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_ref().map(|(_, name)| name.as_str())
    }

    /// The operator.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Line and column, counted from 1, where the operator stands.
    pub fn place(&self) -> (usize, usize) {
        (self.place.line, self.place.column)
    }

    /// What it is applied to; nothing where the script says nothing and the domain has more than 2^20 elements.
    pub fn input(&self) -> Option<&Array> {
        self.input.as_ref()
    }

    /// How it is planned.
    pub fn planning(&self) -> &Planning {
        &self.planning
    }

    /// The program that applies it.
    ///
    /// # Errors
    /// Those of [`Planning::plan`], where the limit stands that is not met, else where the operator does.
    pub fn plan(&self) -> Result<Plan, ScriptError> {
        let mut plan = self.planning.plan(&self.operator).map_err(|e| {
            let cap = if let PlanError::Cap { device, .. } = &e { self.caps.get(device) } else { None };
            cap.unwrap_or(&self.place).error(e.to_string())
        })?;
        if !self.title.is_empty() {
            plan.program.title.clone_from(&self.title);
        }
        plan.program.machine = self.machine().map(str::to_owned);
        if let Some((place, _)) = &self.machine {
            plan.program.note_machine_line(u32::try_from(place.line).unwrap_or(u32::MAX));
        }
        Ok(plan)
    }
}

/// The text without a byte order mark.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The first word of a script.
const FIRST: &str = "operator";

/// The title in the first line, and the text without it.
fn headed(text: &str) -> Result<(String, String), ScriptError> {
    let mut rest = String::with_capacity(text.len());
    let mut title = None;
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.trim();
        if title.is_none() && !said.is_empty() && !said.starts_with('#') {
            let word = said.split(|c: char| c.is_whitespace() || c == '#').next().unwrap_or_default();
            if word != FIRST {
                let place = Place {
                    line: number,
                    column: line.chars().take_while(|c| c.is_whitespace()).count() + 1,
                };
                let word = word.escape_debug();
                return Err(place.error(format!("expected `{FIRST}` and a title, found `{word}`")));
            }
            let said = said[FIRST.len()..].split('#').next().unwrap_or_default().trim();
            title = Some(said.to_owned());
        } else {
            rest.push_str(line);
        }
        rest.push('\n');
    }
    match title {
        Some(title) => Ok((title, rest)),
        None => {
            Err(Place { line: 1, column: 1 }.error(format!("expected `{FIRST}` and a title, found no text")))
        }
    }
}

const NO_OPERATOR: &str = "no operator: `A = …` or `show …` says one";

/// What the statements said so far.
#[derive(Default)]
struct Said<'t> {
    shown: Option<(Place, Operator)>,
    /// The operator that was defined last.
    last: Option<(Place, Operator)>,
    /// Why what was defined last is none yet.
    open: Option<ScriptError>,
    input: Option<Node<'t>>,
    machine: Option<(Place, String)>,
    planning: Planning,
    caps: BTreeMap<Device, Place>,
    names: usize,
}

fn statement<'t>(
    tokens: &mut Tokens<'_, 't>,
    scope: &mut Scope<'t>,
    said: &mut Said<'t>,
) -> Result<(), ScriptError> {
    let place = tokens.place();
    if let Some(name) = tokens.defined() {
        said.names += 1;
        if said.names > MOST_NAMES {
            return Err(place.error(format!("more than {MOST_NAMES} names")));
        }
        let node = tokens.expression()?;
        match scope.define(place, name, &node)? {
            Value::Operator(operator) => said.last = Some((node.start(), operator.clone())),
            // The last definition is the one that is meant, which no earlier one stands in for.
            Value::Open(_) | Value::Builder(_) => {
                (said.last, said.open) = (None, Some(node.place.error(NO_SPACE)));
            }
            _ => {}
        }
        return tokens.end();
    }
    let expected = tokens.expected("`show`, or a name and `=`");
    let once = |is_first: bool, word: &str| {
        if is_first { Ok(()) } else { Err(place.error(format!("`{word}` stands there twice"))) }
    };
    match tokens.word("a statement").map_err(|_| expected.clone())? {
        "show" => {
            once(said.shown.is_none(), "show")?;
            let node = tokens.expression()?;
            said.shown = Some((node.start(), scope.operator(&node)?));
        }
        "input" => {
            once(said.input.is_none(), "input")?;
            said.input = Some(tokens.expression()?);
        }
        "machine" => {
            once(said.machine.is_none(), "machine")?;
            said.machine = Some((place, tokens.rest("the name of a machine profile")?));
        }
        "cap" => {
            let at = tokens.place();
            let word = tokens.word("a device, as `cuda:0`")?;
            let device = device_of(at, word)?;
            if said.planning.caps().contains_key(&device) {
                return Err(at.error(format!("`{word}` has a cap above")));
            }
            let (at, word) = (tokens.place(), tokens.rest("a size, as `4MiB`")?);
            let bytes = size(&word).ok_or_else(|| at.error(format!("`{word}` is no size, as `4MiB`")))?;
            said.planning = said.planning.clone().cap(device, bytes);
            said.caps.insert(device, at);
        }
        "ahead" => {
            once(said.planning.ahead_of().is_none(), "ahead")?;
            let (at, word) = (tokens.place(), tokens.rest("a number of tiles")?);
            let n = word.parse().map_err(|_| at.error(format!("`{word}` is no number of tiles")))?;
            said.planning = said.planning.clone().ahead(n);
        }
        _ => return Err(expected),
    }
    tokens.end()
}
