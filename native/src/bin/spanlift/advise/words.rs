//! Advice at the terminal.

use spanlift::advise::{Decision, Prediction, Varies};
use spanlift::text::grouped;
use spanlift::{Bytes, Nanos, Size};

use super::Advice;
use crate::say::{self, Out, Style};

pub(super) fn tell(advice: &Advice, out: &mut Out) {
    head(advice, out);
    ranking(advice, out);
    out.line(&format!("\n{}", decided(advice)));
    if let Some(best) = advice.ranking.best() {
        out.line(&format!("In PyTorch: {}.", best.strategy.in_pytorch(advice.request.from)));
    }
    factors(advice, out);
    if !advice.compared.is_empty() {
        pipelines(advice, out);
    }
}

/// The machine's name, and the link that stands in place of its own.
pub(super) fn machine(advice: &Advice) -> String {
    let name = &advice.machine.name;
    advice.link.map_or_else(|| name.clone(), |rate| format!("{name} with a link of {rate} GB/s"))
}

fn heading(out: &mut Out, text: &str) {
    let text = out.paint(Style::Strong, text);
    out.line(&format!("\n{text}"));
}

fn head(advice: &Advice, out: &mut Out) {
    let r = &advice.request;
    let tensors: Vec<String> = r.tensors.iter().map(ToString::to_string).collect();
    let mut parts = vec![format!("{} in {} memory", tensors.join(", "), r.from.name())];
    if r.from == spanlift::advise::Origin::File {
        parts[0] = format!("{} in a mapped file", tensors.join(", "));
    }
    parts.push(format!("{} in all", r.total()));
    if r.work > Nanos::ZERO {
        parts.push(format!("{} of work on each", r.work));
    }
    if r.back {
        parts.push("results come back".to_owned());
    }
    out.line(
        &out.paint(Style::Strong, &format!("{}, on {}", parts.join(", "), say::one_line(&machine(advice)))),
    );
    out.line("Times are simulated; no GPU is used.");
    if !advice.read_here.is_empty() {
        out.line(&format!("Of this computer: {}.", advice.read_here.join(", ")));
    }
}

fn ranking(advice: &Advice, out: &mut Out) {
    let ranking = &advice.ranking;
    let repeat = advice.request.repeat;
    let ranked = ranking.strategies.iter().map(|p| p.strategy.to_string());
    let names = ranked.chain(ranking.excluded.iter().map(|e| e.strategy.to_string()));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max(28);
    let rows: Vec<[String; 4]> = ranking
        .strategies
        .iter()
        .map(|p| {
            let made = if p.setup == Nanos::ZERO { "-".to_owned() } else { p.setup.to_string() };
            [p.time.to_string(), made, memory(p.memory.pinned), memory(p.memory.pageable)]
        })
        .collect();
    let heads = [["one", "transfer"], ["made", "once"], ["memory:", "pinned"], ["", "pageable"]];
    // A longer name takes from the columns what they do not need.
    let spare = if width > 28 { 0 } else { 9 };
    let widths: Vec<usize> = (0..4)
        .map(|c| {
            let cells = rows.iter().map(|row| row[c].as_str()).chain(heads[c]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(spare)
        })
        .collect();
    let across = |cells: [&str; 4]| -> String {
        cells.into_iter().zip(&widths).map(|(cell, w)| format!(" {cell:>w$}")).collect()
    };
    heading(out, &format!("    {:width$}{} bound", "", across(heads.map(|head| head[0]))));
    let head = format!("    {:<width$}{} by", "strategy", across(heads.map(|head| head[1])));
    out.line(&out.paint(Style::Strong, &head));
    for (k, (p, row)) in ranking.strategies.iter().zip(&rows).enumerate() {
        let line = format!(
            "{:>2}{} {:<width$}{} {}",
            k + 1,
            if p.is_whole { " " } else { "*" },
            p.strategy.to_string(),
            across([&row[0], &row[1], &row[2], &row[3]]),
            bound(p),
        );
        out.line(&if k == 0 { out.paint(Style::Good, &line) } else { line });
    }
    if ranking.strategies.is_empty() {
        out.line("    none fits into the memory that is free");
    }
    out.line(&format!("    Ranked by one transfer and 1/{} of what is made once.", grouped(repeat)));
    let costs = || ranking.strategies.iter().map(|p| p.cost(repeat));
    if costs().next() != costs().min() {
        out.line("    Of those within 3 % of the fastest the one that keeps the processors less busy comes first, then that with less host memory.");
    }
    if ranking.strategies.iter().any(|p| !p.is_whole) {
        out.line("  * a part was simulated and carried on: such transfers are periodic");
    }
    for e in &ranking.excluded {
        out.line(&format!(" -  {:<width$}  {}", e.strategy.to_string(), e.reason));
    }
}

fn memory(bytes: Bytes) -> String {
    if bytes.0 == 0 { "-".to_owned() } else { format!("{:.1}", Size::binary(bytes.0.into())) }
}

/// What most of the time goes to, in a word.
fn bound(p: &Prediction) -> &'static str {
    p.bound().trim_start_matches("the ").rsplit([' ', '-']).next().unwrap_or_default()
}

/// What decided, in one sentence.
pub(super) fn decided(advice: &Advice) -> String {
    let repeat = advice.request.repeat;
    let (decision, against) = advice.ranking.decision(repeat);
    let (Some(best), Some(other)) = (advice.ranking.best(), against) else {
        return match advice.ranking.best() {
            Some(best) => format!("Decided by: no alternative to {}.", best.strategy),
            None => "Nothing fits.".to_owned(),
        };
    };
    let both = |what: &str, of: fn(&Prediction) -> Nanos| {
        format!("{what} {} with {}, {} with {}", of(best), best.strategy, of(other), other.strategy)
    };
    let why = match decision {
        Decision::Calls => both("calls take", |p| p.spent.calls),
        Decision::Copies => both("the busiest thread copies host memory for", |p| p.spent.copies),
        Decision::Locking => both("page-locking takes", |p| p.spent.locking),
        Decision::Setup => both("what is made once takes", |p| p.setup),
        Decision::Overlap => {
            let cost = |p: &Prediction| p.cost(repeat);
            format!(
                "the same parts overlap more: {} with {}, {} with {}",
                cost(best),
                best.strategy,
                cost(other),
                other.strategy
            )
        }
        Decision::Alone => String::new(),
    };
    format!("Decided by {}: {why}.", decision.name())
}

fn factors(advice: &Advice, out: &mut Out) {
    heading(out, "The tutorial's seven factors, here and otherwise");
    for f in &advice.factors {
        out.line(&format!("  {:<30} {}", f.name, f.value));
        let (mut same, mut others) = (Vec::new(), Vec::new());
        for c in &f.changes {
            match c.best {
                Some(best) if c.differs => {
                    others.push(format!("{}: {}", c.to, out.paint(Style::May, &best.to_string())))
                }
                None => others.push(format!("{}: {}", c.to, out.paint(Style::May, "nothing fits"))),
                Some(_) => same.push(c.to.clone()),
            }
        }
        for line in others {
            out.line(&format!("      {line}"));
        }
        if !same.is_empty() {
            out.line(&format!("      the same with {}", same.join(", with ")));
        }
    }
    out.line("  (PyTorch tutorial pinmem_nonblock, \"Additional considerations\")");
}

fn pipelines(advice: &Advice, out: &mut Out) {
    let first = &advice.compared[0].pipeline;
    let items = u64::from(first.items);
    heading(out, "A stream for each item (A), or for each stage (B)?");
    let all = advice.request.count();
    out.line(&format!(
        "  {}{} items of {} there{}, {} of work that fills the device, at most {} under way, one thread issues all.",
        if items < all { "The first " } else { "" },
        if items < all { format!("{} of {}", grouped(items), grouped(all)) } else { grouped(items) },
        first.bytes_in,
        if first.bytes_out.0 > 0 { " and back" } else { "" },
        first.work,
        first.slots(),
    ));
    let largest = if advice.request.tensors.len() > 1 { ", all of the largest size" } else { "" };
    out.line(&format!(
        "  Items lie in their slots on an idle host{largest}, and no framework is called: less time than ranked above.\n"
    ));
    out.line("  engines  strategy              time      device      pinned    pageable");
    for c in &advice.compared {
        let strategy = match c.order() {
            Some(order) => format!("{}, {order}", c.name()),
            None => c.name().to_owned(),
        };
        out.line(&format!(
            "  {:>7}  {strategy:<18} {:>7}  {:>10}  {:>10}  {:>10}",
            c.engines,
            c.time.to_string(),
            memory(c.memory.device),
            memory(c.memory.pinned),
            memory(c.memory.pageable),
        ));
    }
    out.line("");
    for varies in [Varies::Work, Varies::Size, Varies::Items] {
        let found: Vec<String> = advice
            .crossings
            .iter()
            .filter(|c| c.varies == varies)
            .map(|c| {
                let at = match varies {
                    Varies::Work => Nanos(i64::try_from(c.at).unwrap_or(i64::MAX)).to_string(),
                    Varies::Size => Bytes(c.at).to_string(),
                    Varies::Items => grouped(c.at),
                };
                format!("{} below {at}, {} from there on", c.below, c.above)
            })
            .collect();
        let what = match varies {
            Varies::Work => "work on an item that leaves room for others",
            Varies::Size => "size of an item, with such work",
            Varies::Items => "number of items, with such work",
        };
        let found =
            if found.is_empty() { "neither overtakes the other".to_owned() } else { found.join("; ") };
        out.line(&format!("  {what}: {found}"));
    }
}
