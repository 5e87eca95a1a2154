//! Formulas for people: LaTeX and MathML, with the spaces and their sizes.

use super::leaf::{Leaf, Side};
use super::operator::{Number, Operator, is_compound, is_enclosed, stands_alone};
use super::space::Space;
use crate::memory::Device;
use crate::ordered::CollectVec;

/// How a formula is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ink {
    Latex,
    MathMl,
}

impl Operator {
    /// The formula with both spaces as LaTeX, without dollar signs.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Space, to};
    /// let line = Space::new([("x", 2)], Dtype::F32)?;
    /// let w = Diagonal::new(line.on(cuda(0)), [1.0, 2.0])?;
    /// let a = chain![to(cuda(0)), w, to(cpu())]?;
    /// assert!(a.to_latex().starts_with(r"T_{\mathrm{cuda:0} \to \mathrm{cpu}} \, \mathrm{D} \, T_{"));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn to_latex(&self) -> String {
        let ink = Ink::Latex;
        let spaces = [self.domain(), self.codomain()].map(|space| ink.space(space));
        format!("{} : {} \\to {}", ink.formula(self), spaces[0], spaces[1])
    }

    /// The formula with both spaces as a `<math>` element, which pages and notebooks show without anything else.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Space, fft};
    /// let f = fft(["x"]).over(Space::new([("x", 4)], Dtype::C64)?)?;
    /// assert!(f.h().to_mathml().contains("<msup><mi>F(x)</mi><mi>H</mi></msup>"));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn to_mathml(&self) -> String {
        let ink = Ink::MathMl;
        let spaces = [self.domain(), self.codomain()].map(|space| ink.space(space));
        format!(
            "<math xmlns=\"http://www.w3.org/1998/Math/MathML\" display=\"block\"><mrow>{}<mo lspace=\"0.4em\" rspace=\"0.4em\">:</mo>{}<mo>\u{2192}</mo>{}</mrow></math>",
            ink.formula(self),
            spaces[0],
            spaces[1]
        )
    }
}

impl Ink {
    fn formula(self, a: &Operator) -> String {
        match a {
            Operator::Leaf(leaf) => self.leaf(leaf),
            Operator::Identity(_) => self.symbol("I"),
            Operator::Zero(_) => self.symbol("0"),
            Operator::Scale(scale) => self.number(scale.number()),
            Operator::ToDevice(t) => self.transfer(t.ispec().device, t.ospec().device),
            Operator::Chain(chain) => {
                let parts = chain.parts().iter().rev().enumerate().map(|(k, part)| {
                    let inner = self.formula(part);
                    if is_enclosed(part, k == 0) { self.enclosed(&inner) } else { inner }
                });
                parts.collect_vec().join(self.pick(" \\, ", "<mo>\u{b7}</mo>"))
            }
            Operator::Sum(sum) => self.sum(sum.parts()),
            Operator::Concat(concat) => {
                self.grid(concat.parts(), concat.odim().is_some(), concat.idim().is_some())
            }
            Operator::Stack(stack) => {
                self.grid(stack.parts(), stack.odim().is_some(), stack.idim().is_some())
            }
            Operator::BlockDiag(blocks) => self.grid(blocks.parts(), true, true),
            Operator::Power(power) => {
                let base = self.formula(power.base());
                let base = if stands_alone(power.base()) { base } else { self.enclosed(&base) };
                self.raised(&base, &self.numeral(&power.exponent().to_string()))
            }
        }
    }

    fn pick(self, latex: &'static str, mathml: &'static str) -> &'static str {
        if self == Ink::Latex { latex } else { mathml }
    }

    /// Terms; what has a sign of its own is subtracted.
    fn sum(self, terms: &[Operator]) -> String {
        let mut all = String::new();
        for (k, term) in terms.iter().enumerate() {
            let term = self.formula(term);
            let minus = term.strip_prefix(self.pick("-", "<mn>-"));
            match minus.filter(|_| k > 0) {
                Some(rest) => all.extend([self.pick(" - ", "<mo>-</mo><mn>"), rest]),
                None => all.extend([if k > 0 { self.pick(" + ", "<mo>+</mo>") } else { "" }, &term]),
            }
        }
        all
    }

    /// Parts below each other, beside each other, or along the diagonal.
    fn grid(self, parts: &[Operator], rows: bool, columns: bool) -> String {
        let diagonal = rows && columns;
        let cell = |inner: String| if self == Ink::Latex { inner } else { format!("<mtd>{inner}</mtd>") };
        let line = |cells: Vec<String>| match self {
            Ink::Latex => cells.join(" & "),
            Ink::MathMl => format!("<mtr>{}</mtr>", cells.concat()),
        };
        let all: Vec<String> = parts.iter().map(|part| self.formula(part)).collect_vec();
        let lines: Vec<String> = if diagonal {
            let n = all.len();
            let at = |i: usize, j: usize| if i == j { all[i].clone() } else { String::new() };
            (0..n).map(|i| line((0..n).map(|j| cell(at(i, j))).collect_vec())).collect_vec()
        } else if rows {
            all.into_iter().map(|part| line(vec![cell(part)])).collect_vec()
        } else {
            vec![line(all.into_iter().map(cell).collect_vec())]
        };
        match self {
            Ink::Latex => format!("\\begin{{bmatrix}} {} \\end{{bmatrix}}", lines.join(" \\\\ ")),
            Ink::MathMl => {
                format!("<mrow><mo>[</mo><mtable>{}</mtable><mo>]</mo></mrow>", lines.concat())
            }
        }
    }

    fn leaf(self, leaf: &Leaf) -> String {
        let facts = leaf.op.facts();
        let own = facts.adjoint_name.as_ref().filter(|_| leaf.side == Side::Adjoint);
        let name = self.name(own.unwrap_or(&facts.name));
        match (leaf.side == Side::Adjoint && own.is_none(), leaf.conj) {
            (false, false) => name,
            (true, conj) => {
                let base = if is_compound(&facts.name) { self.enclosed(&name) } else { name };
                self.raised(&base, &self.letter(if conj { "T" } else { "H" }))
            }
            (false, true) => match self {
                Ink::Latex => format!("\\overline{{{name}}}"),
                Ink::MathMl => format!("<mover accent=\"true\">{name}<mo>\u{af}</mo></mover>"),
            },
        }
    }

    /// A name; a power at its end, such as that of `|D|^2`, stands above the line.
    fn name(self, name: &str) -> String {
        match name.rsplit_once('^') {
            Some((base, power)) if !base.is_empty() && power.parse::<i64>().is_ok() => {
                self.raised(&self.symbol(base), &self.numeral(power))
            }
            _ => self.symbol(name),
        }
    }

    fn symbol(self, text: &str) -> String {
        match self {
            Ink::Latex => format!("\\mathrm{{{}}}", latex_escaped(text)),
            Ink::MathMl => format!("<mi>{}</mi>", html_escaped(text)),
        }
    }

    fn letter(self, text: &str) -> String {
        if self == Ink::Latex { text.to_owned() } else { format!("<mi>{text}</mi>") }
    }

    fn numeral(self, text: &str) -> String {
        if self == Ink::Latex { text.to_owned() } else { format!("<mn>{text}</mn>") }
    }

    fn number(self, z: Number) -> String {
        let number = z.to_string();
        let Some((head, tail)) = number.split_once('e').filter(|_| self == Ink::Latex && z.0.im == 0.0)
        else {
            return self.numeral(&number);
        };
        format!("{head} \\cdot 10^{{{tail}}}")
    }

    fn raised(self, base: &str, power: &str) -> String {
        match self {
            Ink::Latex => format!("{{{base}}}^{{{power}}}"),
            Ink::MathMl => format!("<msup>{base}{power}</msup>"),
        }
    }

    fn enclosed(self, inner: &str) -> String {
        match self {
            Ink::Latex => format!("\\left({inner}\\right)"),
            Ink::MathMl => format!("<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"),
        }
    }

    fn transfer(self, from: Device, to: Device) -> String {
        match self {
            Ink::Latex => format!("T_{{\\mathrm{{{from}}} \\to \\mathrm{{{to}}}}}"),
            Ink::MathMl => format!(
                "<msub><mi>T</mi><mrow><mtext>{from}</mtext><mo>\u{2192}</mo><mtext>{to}</mtext></mrow></msub>"
            ),
        }
    }

    /// The type over the sizes by name, and the device: `c32^{y=4, x=5}_{cuda:0}`.
    fn space(self, space: &Space) -> String {
        if let Some(members) = space.members() {
            let members: Vec<String> = members.iter().map(|member| self.space(member)).collect_vec();
            return self.enclosed(&members.join(self.pick(", ", "<mo>,</mo>")));
        }
        let (dtype, device) = (space.dtype().to_string(), space.device().to_string());
        let dims: Vec<String> =
            space.dims().iter().map(|(name, size)| format!("{name}={size}")).collect_vec();
        let dims = dims.join(", ");
        match self {
            Ink::Latex => format!("\\mathrm{{{dtype}}}^{{{dims}}}_{{\\mathrm{{{device}}}}}"),
            Ink::MathMl => {
                format!("<msubsup><mi>{dtype}</mi><mtext>{device}</mtext><mtext>{dims}</mtext></msubsup>")
            }
        }
    }
}

fn latex_escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\backslash "),
            '^' => out.push_str("\\wedge "),
            '~' => out.push_str("\\sim "),
            '{' | '}' | '_' | '%' | '$' | '#' | '&' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn html_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use super::*;
    use crate::memory::{Dtype, cpu, mock};
    use crate::op::{Diagonal, chain, fft, stack, sum, to};

    fn expressions() -> Vec<Operator> {
        let line = Space::new([("x", 4)], Dtype::C64).unwrap();
        let named = |name: &str| {
            let weights = [1.0, 2.0, 3.0, 4.0].map(|re| Complex64::new(re, 1.0));
            Operator::from(Diagonal::new(line.clone(), weights).unwrap().named(name))
        };
        let f = fft(["x"]).over(&line).unwrap();
        let (a, b) = (named("a_1 & <b>"), named("{%}^"));
        let up = chain([to(mock(0)).into(), a.on(mock(0)).into(), to(cpu()).into()]).unwrap();
        let all = sum([a.clone(), b.conj(), b.t(), up]).unwrap();
        let joined = stack(Some(("k", 0)), None, [a.clone(), b.clone()]).unwrap();
        let both = stack(Some(("k", 0)), Some(("k", 0)), [a.clone(), b]).unwrap();
        vec![f.h(), a.normal(), all.pow(3).unwrap(), joined.h(), joined, both]
    }

    /// Every brace and every tag that is opened is closed, and names cannot break out of their place.
    #[test]
    fn formulas_are_well_formed() {
        for a in expressions() {
            let latex = a.to_latex().replace("\\{", "").replace("\\}", "");
            let mut depth = 0i64;
            for c in latex.chars() {
                depth += i64::from(c == '{') - i64::from(c == '}');
                assert!(depth >= 0, "{latex}");
            }
            assert_eq!(depth, 0, "{latex}");
            let mathml = a.to_mathml();
            let mut open: Vec<&str> = Vec::new();
            for tag in mathml.split('<').skip(1).map(|t| t.split('>').next().unwrap()) {
                match tag.strip_prefix('/') {
                    Some(name) => assert_eq!(open.pop(), Some(name), "{mathml}"),
                    None => open.push(tag.split(' ').next().unwrap()),
                }
            }
            assert!(open.is_empty() && !mathml.contains("<b>"), "{mathml}");
        }
    }

    #[test]
    fn a_formula_reads_as_its_text_does() {
        let all = expressions();
        assert_eq!(
            all[0].to_latex(),
            "{\\mathrm{F(x)}}^{H} : \\mathrm{c64}^{kx=4}_{\\mathrm{cpu}} \\to \\mathrm{c64}^{x=4}_{\\mathrm{cpu}}"
        );
        assert!(all[1].to_latex().starts_with("{\\mathrm{|a\\_1 \\& <b>|}}^{2} : "), "{}", all[1].to_latex());
        assert!(all[4].to_latex().contains("\\begin{bmatrix}"), "{}", all[4].to_latex());
    }
}
