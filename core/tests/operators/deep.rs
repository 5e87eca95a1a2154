//! Parts that lie deep in each other: whatever is asked of the whole, each part is asked a bounded number of times. Asked twice by each
//! level, none of these would ever come back.

use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{
    Along, Diagonal, OpError, Operator, Space, Tile, block_diag, broken_laws, identity, stack, sum,
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
