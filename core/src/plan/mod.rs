//! Expressions and moves as programs.
