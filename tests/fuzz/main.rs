//! The readers of files against bytes that somebody damaged: an answer or an error with its place, never a panic, and the
//! same answer in whatever pieces a file comes. Driven by mutations of good files, from seeds; see [`kit`].
//!
//! What only the command reads, gzip and SQLite, is tried in the same way by its own tests. A rule of the house sees to it
//! that no public reader is left out.

mod kit;
mod layouts;
mod page;
mod plans;
mod programs;
mod scripts;
mod snapshots;
mod traces;
mod words;

/// A reader with a fault that one file in fifty meets: the seed and the file have to be named.
#[test]
#[should_panic(expected = "a faulty reader, seed ")]
fn a_faulty_reader_is_seen() {
    let corpus = [b"0123456789".to_vec()];
    let judge = |bytes: &[u8], _: &mut kit::Random| {
        assert!(bytes.len() < 12 || bytes[11] != b'x', "planted");
        Ok(bytes.len() == 10)
    };
    kit::fuzz("a faulty reader", 1000, |r| kit::mutated(r, &corpus, &[b"xxxx"], 64), judge);
}
