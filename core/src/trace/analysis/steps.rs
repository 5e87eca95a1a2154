//! Traces folded by training step, and two of them compared by the medians of their steps.

use super::calls::is_sync;
use super::copies::is_copy_call;
use super::devices::{Group, Groups};
use super::{Union, rounded};
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec, sort, sort_by, sort_by_key};
use crate::trace::table::{CatRole, Table, Work};

/// Figures of each step of a trace: of every figure one value a step, in nanoseconds.
///
/// Steps are the profiler's marks `ProfilerStep#N`; a trace without them is one step. Work belongs to the step in which
/// its host call began, and without a call to that in which it began itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// How many steps there are.
    pub n_steps: usize,
    /// The step's length, and the time that some kernel, copy or host call took of it.
    pub figures: BTreeMap<&'static str, Vec<i128>>,
    /// The time of kernels, copies and memsets by name: for each step that has any, its number and the time.
    pub work: BTreeMap<String, Vec<(usize, i128)>>,
    /// The time of host calls by name, in the same way.
    pub calls: BTreeMap<String, Vec<(usize, i128)>>,
}

written!(Steps: n_steps, figures, work, calls);

/// The figures that every trace has, of zeros where nothing of the kind ran.
const FIGURES: [&str; 9] = [
    "device_busy_ns",
    "kernel_busy_ns",
    "comm_busy_ns",
    "copy_busy_ns",
    "h2d_busy_ns",
    "d2h_busy_ns",
    "step_ns",
    "host_in_copy_calls_ns",
    "host_in_syncs_ns",
];

/// One figure of two traces: medians over their steps, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What is compared: `step_ns`, or the name of a kernel or call.
    pub name: String,
    /// The median of the first trace.
    pub a_ns: i128,
    /// The median of the second trace.
    pub b_ns: i128,
    /// `b_ns - a_ns`.
    pub more_ns: i128,
    /// `b_ns / a_ns - 1`, to six places; `None` from 0.
    pub relative: Option<f64>,
}

written!(Change: name, a_ns, b_ns, more_ns, relative);

/// Two traces compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Steps of both.
    pub n_steps: [usize; 2],
    /// The figures of [`Steps::figures`].
    pub figures: Vec<Change>,
    /// Work by name, the greatest difference first.
    pub work: Vec<Change>,
    /// Host calls by name, the greatest difference first.
    pub calls: Vec<Change>,
}

/// Compares the medians of two traces' steps.
/// # Examples
/// ```
/// use spanlift::trace::analysis::{Steps, compare};
/// use spanlift::trace::{ReadError, table::Scan};
///
/// let steps = |dur: u32| {
///     let event = |k: u32| format!(r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{k}","pid":1,"tid":1,"ts":{},"dur":{dur}}}"#, 100 * k);
///     let file = format!(r#"{{"traceEvents":[{},{},{}]}}"#, event(1), event(2), event(3));
///     let mut scan = Scan::new();
///     scan.feed(file.as_bytes())?;
///     Ok::<_, ReadError>(Steps::of(&scan.finish()?))
/// };
/// let compared = compare(&steps(50)?, &steps(60)?);
/// let step = compared.figures.iter().find(|f| f.name == "step_ns").ok_or("absent")?;
/// assert_eq!((step.a_ns, step.b_ns, step.relative), (50_000, 60_000, Some(0.2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(a: &Steps, b: &Steps) -> Comparison {
    let median_of = |steps: &Steps, name: &str| {
        let list = steps.figures.get(name).map_or(&[][..], Vec::as_slice);
        median(list.iter().copied(), steps.n_steps)
    };
    let mut figures: Vec<Change> = FIGURES
        .into_iter()
        .map(|name| change(name.to_owned(), median_of(a, name), median_of(b, name)))
        .collect_vec();
    sort_by(&mut figures, |x, y| x.name.cmp(&y.name));
    Comparison {
        n_steps: [a.n_steps, b.n_steps],
        figures,
        work: changes([(&a.work, a.n_steps), (&b.work, b.n_steps)]),
        calls: changes([(&a.calls, a.n_steps), (&b.calls, b.n_steps)]),
    }
}

fn change(name: String, a_ns: i128, b_ns: i128) -> Change {
    let relative = (a_ns != 0).then(|| rounded(b_ns as f64 / a_ns as f64 - 1.0));
    Change { name, a_ns, b_ns, more_ns: b_ns - a_ns, relative }
}

/// Times by name, as [`Steps`] has them.
type ByName = BTreeMap<String, Vec<(usize, i128)>>;

/// The changes of all names that one of both has, the greatest first; each with its number of steps.
fn changes(both: [(&ByName, usize); 2]) -> Vec<Change> {
    let mut names: Vec<&String> = both.iter().flat_map(|(of, _)| of.keys()).collect_vec();
    sort(&mut names);
    names.dedup();
    let compared = |name: &String| {
        let [a, b] = both.map(|(of, n_steps)| {
            let list = of.get(name).map_or(&[][..], Vec::as_slice);
            median(list.iter().map(|(_, ns)| *ns), n_steps)
        });
        change(name.clone(), a, b)
    };
    let mut changes: Vec<Change> = names.into_iter().map(compared).collect_vec();
    sort_by_key(&mut changes, |change| std::cmp::Reverse(change.more_ns.abs()));
    changes
}

/// The middle of `n` times, of which those that are not listed are zero; of an even number, the lower one of both.
fn median(listed: impl Iterator<Item = i128>, n: usize) -> i128 {
    let mut list: Vec<i128> = listed.collect();
    list.sort_unstable();
    let n_zeros = n.saturating_sub(list.len());
    let middle = (n_zeros + list.len()).saturating_sub(1) / 2;
    middle.checked_sub(n_zeros).and_then(|at| list.get(at).copied()).unwrap_or(0)
}

impl Steps {
    /// Folds a trace.
    ///
    /// # Cost
    /// `n log n` in operations and host calls, and one walk over the slices.
    pub fn of(table: &Table) -> Steps {
        let marks = marks(table);
        let is_marked = !marks.is_empty();
        let marks = if is_marked { marks } else { extent(table).into_iter().collect_vec() };
        let n = marks.len();
        let at = |span: u32| table.spans.interval(span);
        // The last step that began at or before a time, if that has not ended.
        let step_at = |time: i64| {
            if !is_marked {
                return Some(0);
            }
            let before = marks.partition_point(|mark| mark.0 <= time).checked_sub(1)?;
            (time < marks[before].1).then_some(before)
        };
        let mut steps = Steps { n_steps: n, ..Steps::default() };
        let mut groups = Groups::default();
        let mut busy: BTreeMap<(&'static str, usize), Vec<(i64, i64)>> = BTreeMap::new();
        let mut in_copy_calls = vec![0; n];
        let mut seen = vec![false; table.calls.len()];
        for op in &table.ops {
            let (start, end) = at(op.span);
            let call = op.call().map(|call| (call, table.calls[call].span));
            let Some(step) = step_at(call.map_or(start, |(_, call)| at(call).0)) else { continue };
            add(&mut steps.work, table.name(op.span), step, i128::from(end) - i128::from(start));
            let names: &[&str] = match groups.of(table, op) {
                Group::Compute => &["device_busy_ns", "kernel_busy_ns"],
                Group::Comm => &["device_busy_ns", "kernel_busy_ns", "comm_busy_ns"],
                Group::ToDevice => &["device_busy_ns", "copy_busy_ns", "h2d_busy_ns"],
                Group::ToHost => &["device_busy_ns", "copy_busy_ns", "d2h_busy_ns"],
                Group::Memset => &["device_busy_ns"],
                _ => &["device_busy_ns", "copy_busy_ns"],
            };
            for name in names {
                busy.entry((*name, step)).or_default().push((start, end));
            }
            // Once, however many copies it made.
            if let Some((k, call)) = call
                && op.work == Work::Memcpy
                && is_copy_call(table.name(call))
                && !std::mem::replace(&mut seen[k], true)
            {
                let (start, end) = at(call);
                in_copy_calls[step] += i128::from(end) - i128::from(start);
            }
        }
        let mut in_syncs = vec![0; n];
        for call in &table.calls {
            let (start, end) = at(call.span);
            let Some(step) = step_at(start) else { continue };
            let ns = i128::from(end) - i128::from(start);
            add(&mut steps.calls, table.name(call.span), step, ns);
            if is_sync(table.name(call.span)) {
                in_syncs[step] += ns;
            }
        }
        for ((name, step), intervals) in busy {
            steps.figures.entry(name).or_insert_with(|| vec![0; n])[step] = Union::of(intervals).len();
        }
        let lengths = marks.iter().map(|mark| i128::from(mark.1) - i128::from(mark.0)).collect_vec();
        steps.figures.insert("step_ns", lengths);
        steps.figures.insert("host_in_copy_calls_ns", in_copy_calls);
        steps.figures.insert("host_in_syncs_ns", in_syncs);
        for name in FIGURES {
            steps.figures.entry(name).or_insert_with(|| vec![0; n]);
        }
        steps.work.values_mut().chain(steps.calls.values_mut()).for_each(summed);
        steps
    }
}

/// Adds a time to those of a name; the last one of a step takes what belongs to the same.
fn add(list: &mut ByName, name: &str, step: usize, ns: i128) {
    match list.get_mut(name) {
        Some(values) => match values.last_mut() {
            Some(last) if last.0 == step => last.1 += ns,
            _ => values.push((step, ns)),
        },
        None => {
            list.insert(name.to_owned(), vec![(step, ns)]);
        }
    }
}

/// One time for each step, in order.
fn summed(list: &mut Vec<(usize, i128)>) {
    list.sort_unstable();
    list.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
}

/// The steps of a trace, in order; those that overlap the one before are left out.
fn marks(table: &Table) -> Vec<(i64, i64)> {
    let mut marks: Vec<(i64, i64)> = Vec::new();
    for span in 0..u32::try_from(table.spans.len()).unwrap_or(u32::MAX) {
        let role = table.cat(span).role;
        if matches!(role, CatRole::Note | CatRole::Operator) && table.name(span).starts_with("ProfilerStep#")
        {
            marks.push(table.spans.interval(span));
        }
    }
    marks.sort();
    let mut end = i64::MIN;
    marks.retain(|mark| {
        let after = end <= mark.0;
        end = if after { mark.1 } else { end };
        after
    });
    marks
}

/// From the first beginning to the last end.
fn extent(table: &Table) -> Option<(i64, i64)> {
    let first = table.spans.start.iter().min().copied();
    first.zip(table.spans.end.iter().max().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::table::Scan;

    fn steps(lengths: &[i64]) -> Steps {
        let mut text = String::from("[");
        let mut at = 0;
        for (k, length) in lengths.iter().enumerate() {
            text += &format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{k}","pid":1,"tid":1,"ts":{at},"dur":1000}},
                   {{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":{},"dur":4,"args":{{"correlation":{k}}}}},
                   {{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{},"dur":{length},"args":{{"correlation":{k}}}}},"#,
                at + 10,
                // The copy itself may run when the next step has begun.
                at + 995
            );
            at += 1000;
        }
        let mut scan = Scan::new();
        scan.feed(format!("{}]", text.trim_end_matches(',')).as_bytes()).unwrap();
        Steps::of(&scan.finish().unwrap())
    }

    #[test]
    fn work_belongs_to_the_step_that_launched_it() {
        let a = steps(&[50, 70, 900]);
        assert_eq!(a.n_steps, 3);
        assert_eq!(a.figures["h2d_busy_ns"], [50_000, 70_000, 900_000]);
        assert_eq!(a.figures["step_ns"], [1_000_000; 3]);
        assert_eq!(a.figures["host_in_copy_calls_ns"], [4000; 3]);
        assert_eq!(a.calls["cudaMemcpyAsync"], [(0, 4000), (1, 4000), (2, 4000)]);
    }

    /// What begins at the very end belongs to it, and adds nothing to its length.
    #[test]
    fn without_marks_the_trace_is_one_step() {
        let mut scan = Scan::new();
        scan.feed(
            br#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":-3.001,"dur":10},
                 {"ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":1,"tid":1,"ts":6.999,"dur":0}]"#,
        )
        .unwrap();
        let steps = Steps::of(&scan.finish().unwrap());
        assert_eq!((steps.n_steps, &steps.figures["step_ns"][..]), (1, &[10_000][..]));
        assert_eq!(steps.calls["cudaStreamSynchronize"], [(0, 0)]);
        assert_eq!(steps.figures["kernel_busy_ns"], [10_000]);
    }

    /// Of times that are told for some steps the middle is that of all steps, the others being zero.
    #[test]
    fn the_middle_counts_steps_in_which_nothing_ran() {
        for n in 1..9_usize {
            for ran in 0..1_usize << n {
                let at = |k: usize| if ran >> k & 1 == 1 { 7 * k as i128 % 5 } else { 0 };
                let mut all: Vec<i128> = (0..n).map(at).collect();
                let listed = (0..n).filter(|k| ran >> k & 1 == 1).map(at);
                let found = median(listed, n);
                all.sort();
                assert_eq!(found, all[(n - 1) / 2], "{n} steps, {ran:b}");
            }
        }
        let mut list = vec![(3, 1), (0, 5), (3, 2), (1, 0)];
        summed(&mut list);
        assert_eq!(list, [(0, 5), (1, 0), (3, 3)]);
    }

    /// A call that makes ten copies holds the host once.
    #[test]
    fn a_call_is_counted_once_however_many_copies_it_makes() {
        let mut text =
            r#"[{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyBatchAsync","pid":1,"tid":1,"ts":0,"dur":90,"args":{"correlation":1}}"#
                .to_owned();
        for k in 0..10 {
            text += &format!(
                r#",{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{},"dur":5,"args":{{"correlation":1}}}}"#,
                10 + 5 * k
            );
        }
        let mut scan = Scan::new();
        scan.feed(format!("{text}]").as_bytes()).unwrap();
        let steps = Steps::of(&scan.finish().unwrap());
        assert_eq!(steps.figures["host_in_copy_calls_ns"], [90_000]);
        assert_eq!(steps.figures["comm_busy_ns"], [0], "what no step has is there as nothing");
    }

    #[test]
    fn medians_are_compared() {
        let found = compare(&steps(&[50, 70, 900]), &steps(&[60, 84, 84, 1]));
        assert_eq!(found.n_steps, [3, 4]);
        let copies = &found.work[0];
        assert_eq!(
            (copies.name.as_str(), copies.a_ns, copies.b_ns),
            ("Memcpy HtoD (Pinned -> Device)", 70_000, 60_000)
        );
        assert_eq!(copies.relative, Some(-0.142857));
        let same = compare(&steps(&[50]), &steps(&[50]));
        assert!(same.figures.iter().chain(&same.work).all(|change| change.more_ns == 0));
        let gone = compare(&steps(&[50]), &Steps::default());
        assert_eq!((gone.work[0].b_ns, gone.work[0].relative), (0, Some(-1.0)));
    }
}
