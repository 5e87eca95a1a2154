//! Tests of spanlift that cross crates; what several of them share stands here.
