//! Parts that lie deep in each other: whatever is asked of the whole, each part is asked a bounded number of times. Asked twice by each
//! level, none of these would ever come back.

use spanlift::chain;
use spanlift::memory::{Dtype, cuda};
use spanlift::op::{
    Along, Diagonal, OpError, Operator, Space, Tile, block_diag, broken_laws, identity, stack, sum, tree_sum,
};

/// How deep: `2^48` questions take longer than anybody waits.
const LEVELS: usize = 48;

fn weights() -> Result<Operator, OpError> {
    Ok(Diagonal::new(Space::new([("x", 3)], Dtype::F64)?, [1.0, 2.0, 3.0])?.into())
}

type Level = fn(usize, Operator) -> Result<Operator, OpError>;

/// One level more of each kind of container; a sum within a sum would be one sum, hence the chain in between.
const KINDS: [Level; 3] = [
    |_, a| sum([identity(), chain![weights()?, a]?.into()]),
    |_, a| block_diag([a, weights()?]),
    |k, a| stack(Some((&format!("s{k}"), 0)), None, [a]),
];

#[test]
fn no_question_takes_twice_as_long_a_level() {
    for level in KINDS {
        let deep = (0..LEVELS).try_fold(weights().unwrap(), |a, k| level(k, a)).unwrap();
        assert_eq!(deep.along(&"x".parse().unwrap()), Along::Pointwise);
        assert_eq!(deep.along(&"nowhere".parse().unwrap()), Along::Absent);

        let tile = Tile::new([("x", 0..1)]).unwrap();
        assert_eq!(deep.cut(&tile).unwrap().size(&"x".parse().unwrap()), Some(1));
        assert!(matches!(
            deep.cut(&Tile::new([("nowhere", 0..1)]).unwrap()),
            Err(OpError::UnknownDim { .. })
        ));
        assert_eq!(deep.simplify().domain(), deep.domain());
        assert_eq!(deep.plan().unwrap().transfers().len(), 0);
        assert_eq!(broken_laws(&deep, 1), []);
    }
}

/// Kinds that go on for ever where nothing ends them.
const ENDLESS: [Level; 5] =
    [KINDS[0], KINDS[1], KINDS[2], |_, a| tree_sum([a, weights()?]), |_, a| chain![a.pow(2)?, weights()?]];

#[test]
fn what_lies_too_deep_is_refused_and_not_a_stack_that_ends() {
    for level in ENDLESS {
        let mut deepest = weights().unwrap();
        let refused = (0..10_000).find_map(|k| match level(k, deepest.clone()) {
            Ok(deeper) => {
                deepest = deeper;
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(refused, Some(OpError::TooDeep));
        // Whatever is built can be asked.
        let said = deepest.formula();
        assert!(said.len() > 100 && format!("{deepest:#}").lines().count() > 99, "{said}");
        assert_eq!(deepest.h().h().formula(), said);
        assert_eq!(deepest.normal().domain(), deepest.domain());
        assert_eq!(deepest.simplify().domain(), deepest.domain());
        assert!(!said.contains('^') || deepest.plan().is_err()); // 2^64 kernels
        assert!(said.contains('^') || deepest.plan().is_ok());
    }
    let coefficients = vec![0.5; 10_000];
    assert_eq!(weights().unwrap().polynomial(&coefficients), Err(OpError::TooDeep));
    assert_eq!(
        OpError::TooDeep.to_string(),
        "operators lie more than 128 deep inside each other; multiply sums and chains out, or make a leaf of a part"
    );
    // What is flat is of any length.
    let long = (0..10_000).try_fold(weights().unwrap(), |a, _| a + weights()?).unwrap();
    assert_eq!(long.children().len(), 10_001);
}

#[test]
fn tuples_that_lie_too_deep_are_refused() {
    let member = || Space::new([("x", 3)], Dtype::F64).unwrap();
    let mut deepest = member();
    let refused = (0..100_000).find_map(|k| match Space::tuple([deepest.clone(), member()]) {
        Ok(deeper) => {
            deepest = deeper;
            None
        }
        Err(error) => Some((k, error.to_string())),
    });
    assert_eq!(refused, Some((256, "tuples of spaces lie more than 256 deep in each other".to_owned())));
    // What is left is a space like any other: asked, moved, written and dropped.
    let there = deepest.on(cuda(0));
    assert_eq!((there.elements(), there.to_string().matches("@cuda:0").count()), (3 * 257, 257));
    assert!(there != deepest && deepest.sized().len() > 256);
    // A part that works on it makes its tuple one deeper.
    assert_eq!(
        block_diag([Operator::identity(deepest)]).unwrap_err().to_string(),
        "tuples of spaces lie more than 256 deep in each other"
    );
}
