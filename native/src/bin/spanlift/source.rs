//! A file or standard input as a stream of plain bytes: gzip undone on the way, with a limit on what it may expand to.
//!
//! It never holds more than a piece, except where [`Source::rest`] is asked for all of it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;
use spanlift::text::grouped;
use spanlift_viewer::kind;

use crate::output;
use crate::say::{self, Fail};

/// What gzip may always expand to.
const FREE_EXPANSION: u64 = 64 << 20;
/// How many times its own size gzip may expand to beyond that.
const MOST_EXPANSION: u64 = 200;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Whether standard input was opened, which is there once.
static STDIN_IS_READ: AtomicBool = AtomicBool::new(false);

/// An open file or standard input.
pub(crate) struct Source {
    place: String,
    bytes: Bytes,
    /// The first bytes, and how many of them were handed out.
    head: Vec<u8>,
    taken: usize,
}

enum Bytes {
    Plain(Box<dyn BufRead + Send>),
    Gzip(Box<Gunzip>),
}

impl Source {
    /// Opens a file, or standard input for `-`; gzip is recognised by its first two bytes.
    ///
    /// # Errors
    /// One line with the file's name.
    pub(crate) fn open(path: &Path) -> Result<Source, Fail> {
        let place = say::place(path);
        let fault = |e: io::Error| Fail::at(&place, say::lower(&e));
        let mut plain: Box<dyn BufRead + Send> = if path.as_os_str() == "-" {
            if STDIN_IS_READ.swap(true, Ordering::Relaxed) {
                return Err(Fail::at(&place, "was read already: only one input can be `-`"));
            }
            // The shell may have opened a file for it.
            output::keep(Path::new("/dev/stdin"));
            Box::new(BufReader::with_capacity(PIECE, io::stdin()))
        } else {
            let file = File::open(path).map_err(fault)?;
            if file.metadata().map_err(fault)?.is_dir() {
                return Err(fault(io::ErrorKind::IsADirectory.into()));
            }
            output::keep(path);
            Box::new(BufReader::with_capacity(PIECE, file))
        };
        let mut head = head(&mut plain, 2).map_err(fault)?;
        let bytes = if head == GZIP {
            let again = Box::new(BufReader::with_capacity(PIECE, io::Cursor::new(head).chain(plain)));
            let mut gunzip = Box::new(Gunzip::new(again, FREE_EXPANSION));
            head = vec![0; 16];
            let n = gunzip.fill(&mut head).map_err(|e| Fail::at(&place, e))?;
            head.truncate(n);
            Bytes::Gzip(gunzip)
        } else {
            Bytes::Plain(plain)
        };
        let mut source = Source { place, bytes, head, taken: 0 };
        while source.head.len() < 16 {
            let mut byte = [0];
            if source.read_behind(&mut byte)? == 0 {
                break;
            }
            source.head.extend(byte);
        }
        match foreign(path, &source.head) {
            Some(what) => Err(Fail::at(&source.place, format!("byte 0: {what}"))),
            None => Ok(source),
        }
    }

    /// How it is called in messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The first bytes, sixteen where there are as many.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The next bytes, as many as there are room for or come at once; 0 at the end.
    ///
    /// # Errors
    /// One line with the file's name; for gzip with the byte of the file.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> Result<usize, Fail> {
        if self.taken < self.head.len() {
            let n = room.len().min(self.head.len() - self.taken);
            room[..n].copy_from_slice(&self.head[self.taken..self.taken + n]);
            self.taken += n;
            return Ok(n);
        }
        self.read_behind(room)
    }

    fn read_behind(&mut self, room: &mut [u8]) -> Result<usize, Fail> {
        match &mut self.bytes {
            Bytes::Plain(plain) => loop {
                match plain.read(room) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    read => return read.map_err(|e| Fail::at(&self.place, say::lower(&e))),
                }
            },
            Bytes::Gzip(gunzip) => gunzip.fill(room).map_err(|e| Fail::at(&self.place, e)),
        }
    }

    /// All that is left, at most `most` bytes.
    ///
    /// # Errors
    /// As [`Source::read`], or that there are more.
    pub(crate) fn rest(&mut self, most: usize) -> Result<Vec<u8>, Fail> {
        let mut all = Vec::new();
        let mut piece = vec![0; PIECE];
        loop {
            let n = self.read(&mut piece)?;
            if n == 0 {
                return Ok(all);
            }
            if most < all.len() + n {
                return Err(Fail::at(
                    &self.place,
                    format!("byte {most}: more than {} bytes, the limit for such files", grouped(most)),
                ));
            }
            all.extend_from_slice(&piece[..n]);
        }
    }
}

/// What no command reads: told by its first bytes, or by its name where those could be anything but JSON.
fn foreign(path: &Path, head: &[u8]) -> Option<Cow<'static, str>> {
    if let Some(packer) = kind::packer(head) {
        return Some(format!("packed with {packer}, which has to be undone first: `{packer} -d`").into());
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match (head, extension) {
        ([b'{' | b'[', ..], _) => None,
        (_, "nsys-rep" | "qdrep") => Some(
            "a report of Nsight Systems; `nsys export --type sqlite` makes of it what `spanlift view` reads"
                .into(),
        ),
        (_, "pftrace" | "perfetto-trace") => {
            Some("a trace in Perfetto's own format; traces are read as Chrome Trace JSON".into())
        }
        _ => None,
    }
}

/// Whether what is read is gone, as of standard input and other pipes.
pub(crate) fn is_once(path: &Path) -> bool {
    path.as_os_str() == "-" || std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Bytes read at once.
pub(crate) const PIECE: usize = spanlift::trace::table::Scan::PIECE;

/// The first `n` bytes, fewer where there are fewer; they are taken.
fn head(from: &mut impl Read, n: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    from.take(n as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Counts what is taken.
struct Counted {
    from: Box<dyn BufRead + Send>,
    taken: u64,
}

impl Read for Counted {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(room)?;
        self.taken += n as u64;
        Ok(n)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.from.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.taken += n as u64;
        self.from.consume(n);
    }
}

/// Undoes gzip of one or several members; zeros behind the last one are padding.
struct Gunzip {
    /// `None` once the last member has ended.
    member: Option<GzDecoder<Counted>>,
    /// Where in the file the member begins.
    begun: u64,
    given: u64,
    free: u64,
}

impl Gunzip {
    fn new(from: Box<dyn BufRead + Send>, free: u64) -> Gunzip {
        Gunzip { member: Some(GzDecoder::new(Counted { from, taken: 0 })), begun: 0, given: 0, free }
    }

    fn fill(&mut self, room: &mut [u8]) -> Result<usize, String> {
        while let Some(member) = &mut self.member {
            let read = member.read(room);
            let at = member.get_ref().taken;
            let n = match read {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(format!("byte {at}: the gzip data end too early"));
                }
                Err(e) => return Err(format!("byte {at}: bad gzip data, begun at byte {}: {e}", self.begun)),
            };
            self.given += n as u64;
            if self.free.max(at.saturating_mul(MOST_EXPANSION)) < self.given {
                return Err(format!(
                    "byte {at}: expands past {} bytes and {MOST_EXPANSION} times what was read of it",
                    grouped(self.free)
                ));
            }
            if n != 0 || room.is_empty() {
                return Ok(n);
            }
            let Some(mut behind) = self.member.take().map(GzDecoder::into_inner) else { break };
            if padding_only(&mut behind).map_err(|e| format!("byte {}: {e}", behind.taken))? {
                break;
            }
            let at = behind.taken;
            let next = behind.fill_buf().map_err(|e| format!("byte {at}: {e}"))?;
            if !GZIP.starts_with(&next[..next.len().min(2)]) {
                return Err(format!("byte {at}: what stands behind the gzip data is no gzip member"));
            }
            self.begun = behind.taken;
            self.member = Some(GzDecoder::new(behind));
        }
        Ok(0)
    }
}

/// Whether nothing but zeros is left; they are taken.
fn padding_only(from: &mut Counted) -> io::Result<bool> {
    loop {
        let bytes = match from.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        match (bytes.is_empty(), zeros == bytes.len()) {
            (true, _) => return Ok(true),
            (_, all) => {
                from.consume(zeros);
                if !all {
                    return Ok(false);
                }
            }
        }
    }
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

    /// Undone in pieces of `room` bytes.
    fn gunzip(compressed: &[u8], room: usize) -> Result<Vec<u8>, String> {
        let mut gunzip = Gunzip::new(Box::new(io::Cursor::new(compressed.to_vec())), 4096);
        let (mut plain, mut piece) = (Vec::new(), vec![0; room]);
        loop {
            match gunzip.fill(&mut piece)? {
                0 => return Ok(plain),
                n => plain.extend_from_slice(&piece[..n]),
            }
        }
    }

    #[track_caller]
    fn check(compressed: &[u8], expected: Result<&[u8], &str>) {
        for room in [1, 3, 4096] {
            match (gunzip(compressed, room), expected) {
                (Ok(plain), Ok(expected)) => assert!(plain == expected),
                (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
                (found, _) => panic!("{:?}", found.map(|plain| plain.len())),
            }
        }
    }

    #[test]
    fn gzip_of_one_or_several_members_is_undone_in_pieces() {
        let (one, two) = (gz(b"one"), gz(b"two"));
        check(&one, Ok(b"one"));
        check(&[&one[..], &two].concat(), Ok(b"onetwo"));
        check(&[&one[..], &[0; 512]].concat(), Ok(b"one"));
        check(&gz(b""), Ok(b""));
        check(&one[..one.len() - 1], Err("the gzip data end too early"));
        let behind = format!("byte {}: what stands behind the gzip data is no gzip member", one.len());
        for tail in [&b"and then a tail"[..], b"junk", b"\x1e", b"\0\0\x1fjunk"] {
            let zeros = tail.iter().take_while(|b| **b == 0).count();
            let behind = behind.replace(&one.len().to_string(), &(one.len() + zeros).to_string());
            check(&[&one[..], tail].concat(), Err(&behind));
        }
        check(&[&one[..], &two[..8]].concat(), Err("the gzip data end too early"));
        check(&[&one[..], b"\x1f\x8bjunk, and more"].concat(), Err(&format!("begun at byte {}", one.len())));
        check(&[0x1f, 0x8b], Err("the gzip data end too early"));
        let mut flipped = gz(b"one and two and three");
        let in_checksum = flipped.len() - 6;
        flipped[in_checksum] ^= 1;
        check(&flipped, Err("bad gzip data, begun at byte 0"));
        check(&gz(&[7; 400_000]), Err("expands past 4,096 bytes and 200 times"));
        check(&gz(&[7; 4096]), Ok(&[7; 4096]));
    }

    #[test]
    fn gzip_may_expand_past_the_free_bytes_as_long_as_it_stays_below_200_times() {
        // Noise in front does not compress, so that the whole expands less than 200 times.
        let mut state = 1u32;
        let noise = (0..10_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        let mixed: Vec<u8> = noise.chain(vec![7; 400_000]).collect();
        check(&gz(&mixed), Ok(&mixed));
    }
}
