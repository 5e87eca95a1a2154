//! Faults that a text could have.

/// What stands instead of the line at a place; nothing where such a fault has no place.
type Fault = fn(&[&str], usize) -> Option<Vec<String>>;

/// Each kind of fault once where the text has a place for it, `k` choosing the place.
pub(crate) fn planted(k: usize, body: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = body.lines().collect();
    let faults: [(&str, Fault); 5] = [
        ("dropped", |lines, at| is_call(lines[at]).then(Vec::new)),
        ("no turn", |lines, at| lines[at].contains(".wait();  // after: ").then(Vec::new)),
        ("swapped", |lines, at| {
            let next = lines.get(at + 1).filter(|next| is_call(next) && is_call(lines[at]))?;
            let name = |line: &str| line.split('(').next().map(str::to_owned);
            (name(next) != name(lines[at])).then(|| vec![next.to_string(), lines[at].to_owned()])
        }),
        ("other stream", |lines, at| {
            let declared = lines.iter().find_map(|line| line.strip_prefix("cudaStream_t "))?;
            let streams: Vec<&str> = declared.trim_end_matches(';').split(", ").collect();
            let call = lines[at].split("  //").next().filter(|call| is_call(call) && !call.contains('&'))?;
            let mine = streams.iter().position(|s| call.contains(&format!("{s})")))?;
            let other = streams[(mine + 1) % streams.len()];
            (other != streams[mine])
                .then(|| vec![call.replace(&format!("{})", streams[mine]), &format!("{other})"))])
        }),
        ("other size", |lines, at| {
            let (head, rest) =
                lines[at].split_once(", cudaMemcpy").filter(|(head, _)| !head.contains("2D"))?;
            let (head, n) = head.rsplit_once(", ")?;
            Some(vec![format!("{head}, {}, cudaMemcpy{rest}", n.parse::<u64>().ok()? + 1)])
        }),
    ];
    faults.into_iter().filter_map(|(kind, fault)| at_any(k, &lines, kind, fault)).collect()
}

/// A text with a fault at one of the places that it could have, `k` choosing it.
fn at_any(
    k: usize,
    lines: &[&str],
    kind: &'static str,
    fault: impl Fn(&[&str], usize) -> Option<Vec<String>>,
) -> Option<(&'static str, String)> {
    let places: Vec<usize> = (0..lines.len()).filter(|&at| fault(lines, at).is_some()).collect();
    let at = *places.get(k % places.len().max(1))?;
    let mut text: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
    let instead = fault(lines, at)?;
    text.splice(at..at + instead.len().max(1), instead);
    Some((kind, text.join("\n") + "\n"))
}

/// The same of a text in Python: a call is dropped, or on the default stream.
pub(crate) fn planted_in_python(k: usize, text: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let calls = [".copy_(", ".fill_(", ".record(", ".wait_event(", "  kernel(", ".synchronize(", ".replay("];
    let is_call =
        |line: &str| calls.iter().any(|call| line.contains(call)) && !line.contains("# no PyTorch form");
    let with = "with torch.cuda.stream(";
    let dropped = |lines: &[&str], at: usize| {
        let line = lines[at];
        let blanks = &line[..line.len() - line.trim_start().len()];
        is_call(line).then(|| vec![format!("{blanks}pass")])
    };
    let on_default = |lines: &[&str], at: usize| {
        // The default stream that is meant where nobody says otherwise is of device 0.
        let (before, rest) = lines[at].split_once(with)?;
        let (stream, rest) =
            rest.split_once("): kernel(").filter(|(stream, _)| !stream.contains("default"))?;
        Some(vec![format!("{before}kernel({rest}")]).filter(|_| !stream.is_empty())
    };
    let faults = [at_any(k, &lines, "dropped", dropped), at_any(k, &lines, "other stream", on_default)];
    faults.into_iter().flatten().collect()
}

/// Whether a line calls CUDA; which device is current it may say in vain.
fn is_call(line: &str) -> bool {
    line.starts_with("cuda") && line.contains('(') && !line.starts_with("cudaSetDevice")
        || line.starts_with("launched(")
}
