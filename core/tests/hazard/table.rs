//! The project's own table, and that every rule of order decides a case of it.

use std::collections::{BTreeMap, BTreeSet};

use spanlift::Program;
use spanlift::hazard::{self, Mode, Mutation, Report, Rule, Terms};

use crate::reference;

const TABLE: &str = include_str!("../data/hazards.txt");
const MODES: [Mode; 2] = [Mode::Contract, Mode::Typical];

/// One case: title, program, hazards by mode, rules that decide it.
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) program: Program,
    pub(crate) expected: BTreeMap<&'static str, String>,
    /// Whether copies keep CUDA's rules.
    pub(crate) ordered_copies: bool,
    without: Vec<String>,
}

impl Case {
    pub(crate) fn terms(&self, mode: Mode) -> Terms {
        Terms { mode, ordered_copies: self.ordered_copies }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |text: &str| {
        let (title, rest) = text.split_once('\n').unwrap();
        let program = Program::from_text(rest).unwrap_or_else(|e| panic!("{title}: {e}"));
        let (title, expected) = (title.trim().to_owned(), BTreeMap::new());
        let mut case = Case { title, program, expected, ordered_copies: true, without: vec![] };
        for (key, value) in rest.lines().filter_map(|l| l.strip_prefix("#! ")?.split_once(' ')) {
            match key {
                "copies" => case.ordered_copies = value != "unordered",
                "without" => case.without.extend(value.split(", ").map(str::to_owned)),
                _ => {
                    for mode in MODES.map(Mode::name) {
                        if key == "both" || key == mode {
                            case.expected.insert(mode, value.to_owned());
                        }
                    }
                }
            }
        }
        case
    };
    TABLE.split("\n#= ").skip(1).map(case).collect()
}

/// The hazards as the table writes them.
pub(crate) fn listed(program: &Program, report: &Report) -> String {
    let entry = |h: &hazard::Hazard| {
        let may = if h.certainty == hazard::Certainty::May { " may" } else { "" };
        format!("{} {} {} {}{may}", h.kind.name(), program.names().buffer(h.buffer), h.first, h.second)
    };
    let list: Vec<_> = report.hazards.iter().map(entry).collect();
    if list.is_empty() { "safe".to_owned() } else { list.join(", ") }
}

#[test]
fn every_case_is_as_it_says() {
    let mut wrong = String::new();
    for case in cases() {
        for mode in MODES {
            let report = hazard::check(&case.program, case.terms(mode))
                .unwrap_or_else(|e| panic!("{}: {e}", case.title));
            let (got, expected) = (listed(&case.program, &report), &case.expected[mode.name()]);
            if got != *expected {
                wrong += &format!("{} ({}): {got}, not {expected}\n", case.title, mode.name());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_closure_agrees_with_the_table() {
    for case in cases() {
        let json: serde_json::Value = serde_json::from_str(&case.program.to_json()).unwrap();
        for mode in MODES {
            let pairs = reference::hazards(json["ops"].as_array().unwrap(), case.terms(mode));
            let entry = |p: &reference::Pair| {
                let may = if p.4 == "may" { " may" } else { "" };
                format!("{} {} {} {}{may}", p.0, p.1, p.2, p.3)
            };
            let expected: BTreeSet<&str> =
                case.expected[mode.name()].split(", ").filter(|&x| x != "safe").collect();
            let got: Vec<_> = pairs.iter().map(entry).collect();
            assert_eq!(got.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{}", case.title);
        }
    }
}

/// A rule that could be lost unnoticed would be no rule: each is named by a case whose answer changes without it.
#[test]
fn every_rule_decides_a_case() {
    let mut undecided: BTreeSet<String> = Rule::ALL.iter().map(|rule| format!("{rule:?}")).collect();
    for case in cases() {
        for name in &case.without {
            let rule = *Rule::ALL.iter().find(|rule| format!("{rule:?}") == *name).unwrap();
            let changes = MODES.iter().any(|&mode| {
                let report =
                    hazard::check_mutant(&case.program, case.terms(mode), Mutation::Without(rule)).unwrap();
                listed(&case.program, &report) != case.expected[mode.name()]
            });
            assert!(changes, "{}: nothing changes without {name}", case.title);
            undecided.remove(name);
        }
    }
    assert!(undecided.is_empty(), "no case for {undecided:?}");
}

/// Every finding of the table in words: both sites are named, and the sentence ends.
#[test]
fn every_hazard_has_its_sentence() {
    for case in cases() {
        let report = hazard::check(&case.program, case.terms(Mode::Contract)).unwrap();
        for h in &report.hazards {
            let text = hazard::sentence(&case.program, h);
            for index in [h.first, h.second] {
                let line = case.program.line(index).unwrap();
                assert!(text.contains(&format!("(command {index}, line {line})")), "{}: {text}", case.title);
            }
            assert!(text.ends_with('.'), "{}: {text}", case.title);
        }
    }
}
