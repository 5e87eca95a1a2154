//! Names, patterns and shapes, against lists of dimensions that are written out.

use spanlift::op::{Dim, Name, NamedShape, dims, matching};

fn names(text: &str) -> Vec<Dim> {
    dims(text).unwrap()
}

/// Every list of at most `n` letters A, B, C.
fn lists(n: usize) -> Vec<Vec<Dim>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..n {
        last = last.iter().flat_map(|l| ["A", "B", "C"].map(|x| [&l[..], &names(x)].concat())).collect();
        all.extend(last.clone());
    }
    all
}

/// Whether a list belongs to a pattern, tried out.
fn belongs(pattern: &[Dim], list: &[Dim], bound: &mut Vec<(u64, Dim)>) -> bool {
    match (pattern.split_first(), list.split_first()) {
        (None, None) => true,
        (Some((Dim::Rest, rest)), _) => {
            (0..=list.len()).any(|k| belongs(rest, &list[k..], &mut bound.clone()))
        }
        (Some((first, rest)), Some((dim, others))) => {
            let fits = match first {
                Dim::One => true,
                Dim::Numbered(n) => match bound.iter().find(|(m, _)| m == n) {
                    Some((_, known)) => known == dim,
                    None => {
                        bound.push((*n, dim.clone()));
                        true
                    }
                },
                named => named == dim,
            };
            fits && belongs(rest, others, bound)
        }
        _ => false,
    }
}

/// Patterns of up to `n` entries.
fn patterns(n: usize) -> Vec<Vec<Dim>> {
    let entries = ["A", "B", "()", "(1)", "..."].map(|e| names(e).remove(0));
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<Dim>> = all.clone();
    for _ in 0..n {
        last = last
            .iter()
            .flat_map(|p| entries.iter().map(move |e| [&p[..], std::slice::from_ref(e)].concat()))
            .collect();
        all.extend(last.clone());
    }
    all
}

#[test]
fn patterns_match_exactly_when_a_list_belongs_to_both() {
    // Two patterns of at most three entries that have a common list have one of at most six letters; C stands for any
    // other name.
    let full = crate::soak::asked();
    let (patterns, lists) = (patterns(if full { 3 } else { 2 }), lists(if full { 6 } else { 4 }));
    let languages: Vec<Vec<bool>> =
        patterns.iter().map(|p| lists.iter().map(|l| belongs(p, l, &mut Vec::new())).collect()).collect();
    let mut matched = 0;
    for (p, in_p) in patterns.iter().zip(&languages) {
        for (q, in_q) in patterns.iter().zip(&languages) {
            let expected = in_p.iter().zip(in_q).any(|(a, b)| *a && *b);
            let found = matching(p, q);
            assert_eq!(found.is_ok(), expected, "{p:?} and {q:?}");
            if let Ok(found) = found {
                matched += 1;
                // What is joined describes nothing that one of the two does not.
                for (k, list) in lists.iter().enumerate() {
                    let both = in_p[k] && in_q[k];
                    assert!(
                        both || !belongs(&found.joined, list, &mut Vec::new()),
                        "{p:?} and {q:?}: {found:?}"
                    );
                }
                let other = matching(q, p).unwrap();
                assert_eq!((other.right, other.left, other.joined), (found.left, found.right, found.joined));
            }
        }
    }
    assert!(matched > 200, "only {matched} pairs matched");
    let pairs = patterns.len() * patterns.len();
    crate::soak::record("patterns", serde_json::json!({"pairs": pairs, "matched": matched}));
}

#[test]
fn ellipses_stand_for_nothing_anywhere() {
    for (pattern, list) in [("...A", "A"), ("A...", "A"), ("A...B", "AB"), ("...A...B...", "AB"), ("...", "")]
    {
        let found = matching(&names(pattern), &names(list)).unwrap();
        assert!(found.left.iter().zip(names(pattern)).all(|(s, d)| s.is_empty() == (d == Dim::Rest)));
    }
    assert_eq!(names("......A"), names("...A"), "two beside each other are one");
    let shortest = matching(&names("...A..."), &names("ABA")).unwrap();
    assert_eq!(shortest.left, [names(""), names("A"), names("BA")]);
}

#[test]
fn patterns_may_be_longer_than_calls_lie_in_each_other() {
    let list: Vec<Dim> = (0..3_000).map(|k| Dim::Named(format!("X{k}").parse().unwrap())).collect();
    let numbered: Vec<Dim> = (0..3_000).map(Dim::Numbered).collect();
    let found = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
        assert_eq!(matching(&list, &list).unwrap().joined, list);
        assert_eq!(matching(&[Dim::Rest], &list).unwrap().left[0], list);
        assert_eq!(matching(&numbered, &list).unwrap().joined, list);
        assert!(matching(&list[1..], &list).is_err());
    });
    found.unwrap().join().expect("no stack that ends");
}

#[test]
fn what_is_joined_says_what_is_known() {
    let joined = |p: &str, q: &str| matching(&names(p), &names(q)).unwrap().joined;
    assert_eq!(joined("(1)(1)", "A()"), names("AA"), "a number is what it was found to be");
    assert_eq!(joined("(1)A(1)", "(2)...(1)"), names("(1)A(1)"), "numbers of both count in one row");
    assert_eq!(joined("(7)()", "()(7)"), names("(1)(2)"));
    assert_eq!(joined("...A...", "...B..."), joined("...B...", "...A..."));
}

#[test]
fn errors_name_the_position() {
    let error = |text: &str| dims(text).unwrap_err().to_string();
    for (text, at) in [("1A", 0), ("A B", 1), ("aB", 0), ("A1b", 2), ("A(x)", 2), ("A..", 1), ("A(1", 3)] {
        assert!(error(text).contains(&format!("position {at}")), "{text}: {}", error(text));
    }
}

#[test]
fn shapes_share_one_pool() {
    let shape = NamedShape::new(names("MN"), names("MP"));
    let show = |s: Result<NamedShape, _>| {
        s.map_or_else(|e: spanlift::op::SpaceError| e.to_string(), |s| s.to_string())
    };
    assert_eq!(show(shape.with_domain(&names("XN"))), "[X,N] -> [X,P]");
    assert_eq!(show(shape.with_domain(&names("NM"))), "[N,M] -> [N,P]", "a swap is a swap");
    assert_eq!(
        show(shape.with_codomain(&names("MN"))),
        "dimension `N` is named twice; give one of the two another name"
    );
    assert_eq!(show(shape.with_domain(&names("M"))), "[M,N] and [M] describe no common list of dimensions");
    let twice = NamedShape::new(names("MM"), names("P"));
    assert_eq!(show(twice.with_domain(&names("XY"))), "dimension `M` cannot become `X` and `Y`");
    let open = NamedShape::new(names("...A"), names("...B"));
    assert_eq!(show(open.with_domain(&names("CoilNyA"))), "[Coil,Ny,A] -> [...,B]", "one side alone");
    // `...` stays where one stood, and what stood beside it keeps its place.
    assert_eq!(show(open.with_domain(&names("...X"))), "[...,X] -> [...,B]");
    assert_eq!(show(open.with_domain(&names("Coil...X"))), "[Coil,...,X] -> [...,B]");
    assert_eq!(
        show(shape.with_domain(&names("...N"))),
        "[M,N] and [...,N] describe no common list of dimensions"
    );
    let several = NamedShape::new(names("...A...B"), names("A"));
    assert_eq!(show(several.with_domain(&names("XAYZB"))), "[X,A,Y,Z,B] -> [A]", "names that stay say which");
    assert!(show(several.with_domain(&names("XCYD"))).contains("leave too many alternatives"));
    // No more work than the product of both lengths, where each length of each `...` would take for ever.
    let many = NamedShape::new(names(&"...A".repeat(40)), names("B"));
    let renamed = |n: usize, last: &str| show(many.with_domain(&names(&format!("{}{last}", "A".repeat(n)))));
    assert!(renamed(79, "C").contains("leave too many alternatives"));
    assert!(renamed(38, "C").contains("describe no common list"));
    let wild = NamedShape::new(names("()A"), names("()A"));
    assert_eq!(show(wild.with_codomain(&names("XA"))), "[(),A] -> [X,A]");
    assert_eq!(shape.h().h(), shape);
    let name = |text: &str| text.parse::<Name>().unwrap();
    assert_eq!(name("Kx9").next_unused(&[name("Kx9")]).to_string(), "Kx10", "numbers count");
    let crowded = NamedShape::new(names("NN1"), names("P"));
    assert_eq!(crowded.normal().to_string(), "[N,N1] -> [N2,N3]");
}
