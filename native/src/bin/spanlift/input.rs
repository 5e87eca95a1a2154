//! Inputs: files and standard input, gzip undone, and the programs read from them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;
use spanlift::Program;
use spanlift::program::{Problems, ReadError};

use crate::say::{self, Fail};

/// Bytes read at most from a pipe or a device, which have no end of their own.
const MOST_FROM_PIPE: u64 = 2 << 30;
/// What gzip may always expand to.
const FREE_EXPANSION: usize = 64 << 20;
/// How many times its own size gzip may expand to beyond that.
const MOST_EXPANSION: usize = 200;

/// The bytes of a file, or of standard input for `-`; gzip is recognised by its first two bytes and undone.
///
/// # Errors
/// One line with the file's name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Fail> {
    let place = say::place(path);
    let bytes = raw(path).map_err(|e| Fail::at(&place, say::lower(&e)))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return gunzip(&bytes, FREE_EXPANSION).map_err(|e| Fail::at(&place, e));
    }
    Ok(bytes)
}

fn raw(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        bounded(io::stdin().lock(), &mut bytes)?;
        return Ok(bytes);
    }
    let mut file = File::open(path)?;
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_file() {
        file.read_to_end(&mut bytes)?;
    } else {
        bounded(file, &mut bytes)?;
    }
    Ok(bytes)
}

fn bounded(from: impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    from.take(MOST_FROM_PIPE + 1).read_to_end(bytes)?;
    if MOST_FROM_PIPE < bytes.len() as u64 {
        return Err(io::Error::other("more than 2 GiB from a pipe: give it as a file"));
    }
    Ok(())
}

/// Undoes gzip of one or several members; zeros after the last one are padding.
fn gunzip(compressed: &[u8], free: usize) -> Result<Vec<u8>, String> {
    let limit = free.max(compressed.len().saturating_mul(MOST_EXPANSION));
    let mut plain = Vec::new();
    let mut rest = compressed;
    while rest.iter().any(|&b| b != 0) {
        let member = compressed.len() - rest.len();
        let mut decoder = GzDecoder::new(rest);
        let room = (limit - plain.len()) as u64;
        let read = (&mut decoder).take(room + 1).read_to_end(&mut plain);
        let at = compressed.len() - decoder.get_ref().len();
        read.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => format!("byte {at}: the gzip data end too early"),
            _ => format!("byte {at}: bad gzip data, begun at byte {member}: {e}"),
        })?;
        if limit < plain.len() {
            let limit = say::grouped(limit as u64);
            return Err(format!(
                "byte {at}: expands past {limit} bytes, the larger of 64 MiB and {MOST_EXPANSION} times its size"
            ));
        }
        rest = decoder.into_inner();
    }
    Ok(plain)
}

/// Why a file gave no program.
pub(crate) enum NoProgram {
    /// It could not be read, or is no program file at all.
    Unreadable(Fail),
    /// It is a program file, and what is in it is wrong: at least one message.
    Wrong(Vec<String>),
}

/// Reads a program file of either form.
///
/// # Errors
/// [`NoProgram`], which tells a file that is no program from a program that is wrong.
pub(crate) fn program(path: &Path) -> Result<Program, NoProgram> {
    let bytes = read(path).map_err(NoProgram::Unreadable)?;
    parse(&bytes, &say::place(path))
}

/// The program in the bytes of the file `place`.
///
/// # Errors
/// As [`program`].
pub(crate) fn parse(bytes: &[u8], place: &str) -> Result<Program, NoProgram> {
    Program::read(bytes).map_err(|e| match e {
        ReadError::Problems(problems) => NoProgram::Wrong(messages(&problems)),
        // A list of commands in a file of a version that is not known, say.
        e if has_ops(bytes) => NoProgram::Wrong(e.messages()),
        e => NoProgram::Unreadable(Fail::all(place, &e.messages())),
    })
}

impl NoProgram {
    /// All problems of the file `place`.
    pub(crate) fn into_fail(self, place: &str) -> Fail {
        match self {
            NoProgram::Unreadable(fail) => fail,
            NoProgram::Wrong(messages) => Fail::all(place, &messages),
        }
    }
}

/// One message for each problem.
pub(crate) fn messages(problems: &Problems) -> Vec<String> {
    problems.0.iter().map(ToString::to_string).collect()
}

/// Whether the bytes are a JSON object whose `ops` is a list.
fn has_ops(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct File {
        #[expect(dead_code, reason = "only whether it can be read is asked")]
        ops: Vec<serde::de::IgnoredAny>,
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice::<File>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gz(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[track_caller]
    fn check(compressed: &[u8], expected: Result<&[u8], &str>) {
        match (gunzip(compressed, 4096), expected) {
            (Ok(plain), Ok(expected)) => assert!(plain == expected),
            (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
            (found, _) => panic!("{:?}", found.map(|plain| plain.len())),
        }
    }

    #[test]
    fn gzip_of_one_or_several_members_is_undone() {
        let (one, two) = (gz(b"one"), gz(b"two"));
        check(&one, Ok(b"one"));
        check(&[&one[..], &two].concat(), Ok(b"onetwo"));
        check(&[&one[..], &[0; 512]].concat(), Ok(b"one"));
        check(&gz(b""), Ok(b""));
        check(&one[..one.len() - 1], Err("the gzip data end too early"));
        check(&[&one[..], b"and then a tail"].concat(), Err(&format!("begun at byte {}", one.len())));
        check(&[0x1f, 0x8b], Err("byte 2: the gzip data end too early"));
        let mut flipped = gz(b"one and two and three");
        let in_checksum = flipped.len() - 6;
        flipped[in_checksum] ^= 1;
        check(&flipped, Err("bad gzip data, begun at byte 0"));
    }

    #[test]
    fn gzip_expands_to_a_bound_or_200_times() {
        check(&gz(&[7; 4096]), Ok(&[7; 4096]));
        let large = vec![7; 400_000];
        check(
            &gz(&large),
            Err(&format!("expands past {} bytes", say::grouped(gz(&large).len() as u64 * 200))),
        );
        // Noise in front does not compress, so that the whole expands less than 200 times.
        let mut state = 1u32;
        let noise = (0..10_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        let mixed: Vec<u8> = noise.chain(large).collect();
        check(&gz(&mixed), Ok(&mixed));
    }
}
