//! `spanlift view --serve`: hands a page and its data to a browser on this machine, and to nobody else.
//!
//! One thread for each of at most [`MOST`] connections; each answers one request and ends. The listener is bound to
//! 127.0.0.1. A request is answered only when its path begins with a word that nobody else knows, and when it asks for
//! the name that the listener has: another site whose name is made to lead here is refused.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections that are answered at a time.
const MOST: usize = 16;
/// Bytes of a request's head.
const HEAD: usize = 16 << 10;
/// Who says nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is handed out.
pub(crate) struct Served {
    listener: TcpListener,
    port: u16,
    token: String,
    page: Vec<u8>,
    data: Vec<u8>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Page,
    Data,
}

/// Why a request is refused: the answer's code and words.
type Refused = (u16, &'static str);

impl Served {
    /// Listens on this machine alone; port 0 is any that is free.
    ///
    /// # Errors
    /// What the system says, where the port is taken.
    pub(crate) fn new(port: u16, page: String, data: Vec<u8>) -> io::Result<Served> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        Ok(Served { listener, port, token: token(), page: page.into_bytes(), data })
    }

    /// Where a browser finds it.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers until the process ends.
    pub(crate) fn run(self) -> ! {
        let served = Arc::new(self);
        let busy = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((stream, from)) = served.listener.accept() else {
                // Out of descriptors, or a connection that was gone already.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            if !is_here(from) || MOST <= busy.fetch_add(1, Ordering::SeqCst) {
                busy.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (served, done) = (Arc::clone(&served), Arc::clone(&busy));
            let answer = move || {
                // Who hangs up gets no answer.
                let _ = served.answer(stream);
                done.fetch_sub(1, Ordering::SeqCst);
            };
            if std::thread::Builder::new().spawn(answer).is_err() {
                busy.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = head(&mut stream)?;
        let wanted = head.as_deref().map_or(Err((431, "Request Header Fields Too Large")), |head| {
            wanted(head, self.port, &self.token)
        });
        let (status, kind, body, is_head) = match wanted {
            Ok((Wanted::Page, is_head)) => {
                ("200 OK".to_owned(), "text/html; charset=utf-8", &self.page[..], is_head)
            }
            Ok((Wanted::Data, is_head)) => {
                ("200 OK".to_owned(), "application/octet-stream", &self.data[..], is_head)
            }
            Err((code, words)) => {
                (format!("{code} {words}"), "text/plain; charset=utf-8", words.as_bytes(), false)
            }
        };
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: frame-ancestors 'none'\r\n\r\n",
            body.len()
        );
        stream.write_all(answer.as_bytes())?;
        if !is_head {
            stream.write_all(body)?;
        }
        stream.shutdown(Shutdown::Write)
    }
}

/// 128 bits in hexadecimal digits, from the keys that the system gives for hashing.
fn token() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

fn is_here(from: SocketAddr) -> bool {
    from.ip().is_loopback()
}

/// The head of a request up to its empty line; `None` where it is longer than any that is answered.
fn head(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let n = stream.read(&mut part)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // An end may lie across two parts.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&part[..n]);
        if let Some(end) = head[from..].windows(4).position(|w| w == b"\r\n\r\n") {
            head.truncate(from + end);
            return Ok(Some(head));
        }
        if HEAD < head.len() {
            return Ok(None);
        }
    }
}

/// What the head of a request asks for, and whether the answer's head is enough.
fn wanted(head: &[u8], port: u16, token: &str) -> Result<(Wanted, bool), Refused> {
    const BAD: Refused = (400, "Bad Request");
    let text = std::str::from_utf8(head).map_err(|_| BAD)?;
    if text.contains(|c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\t')) {
        return Err(BAD);
    }
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let [method, path, version] = first.split(' ').collect::<Vec<_>>()[..] else { return Err(BAD) };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !path.starts_with('/') {
        return Err(BAD);
    }
    let mut hosts = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(BAD)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_word) || value.contains(['\r', '\n']) {
            return Err(BAD);
        }
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts.push(value.trim()),
            "content-length" if value.trim() == "0" => {}
            // A request with a body means something else than to read.
            "content-length" | "transfer-encoding" => return Err(BAD),
            _ => {}
        }
    }
    let [host] = hosts[..] else { return Err(BAD) };
    if host != format!("127.0.0.1:{port}") && host != format!("localhost:{port}") {
        return Err((403, "Forbidden"));
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err((405, "Method Not Allowed")),
    };
    let given = path[1..].split('/').next().unwrap_or_default();
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return Err((404, "Not Found"));
    }
    match &path[1 + given.len()..] {
        "/" => Ok((Wanted::Page, is_head)),
        "/data" => Ok((Wanted::Data, is_head)),
        _ => Err((404, "Not Found")),
    }
}

/// Whether two words are the same, in a time that does not tell where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    #[track_caller]
    fn check(head: &str, expected: Result<(Wanted, bool), u16>) {
        let found = wanted(head.replace("TOKEN", TOKEN).as_bytes(), 8080, TOKEN);
        assert_eq!(found.map_err(|(code, _)| code), expected, "{head:?}");
    }

    #[test]
    fn only_whole_requests_of_this_host_with_the_token_are_answered() {
        let page = Ok((Wanted::Page, false));
        check("GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080", page);
        check("GET /TOKEN/ HTTP/1.0\r\nAccept: */*\r\nhost:localhost:8080 ", page);
        check("HEAD /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080", Ok((Wanted::Page, true)));
        check(
            "GET /TOKEN/data HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0",
            Ok((Wanted::Data, false)),
        );
        // Another name that leads here, no name, two names.
        check("GET /TOKEN/ HTTP/1.1\r\nHost: evil.example:8080", Err(403));
        check("GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1", Err(403));
        check("GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080.evil.example", Err(403));
        check("GET /TOKEN/ HTTP/1.1", Err(400));
        check("GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nHost: 127.0.0.1:8080", Err(400));
        // Without the token there is nothing, whatever the path.
        for path in [
            "/",
            "/x/",
            "/TOKE/",
            "/TOKEN",
            "/TOKENx/",
            "/TOKEN/../data",
            "/TOKEN/data/",
            "/TOKEN/data?x",
            "//TOKEN/",
        ] {
            check(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8080"), Err(404));
        }
        check("POST /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080", Err(405));
        check("OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:8080", Err(400));
        check("POST /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 5", Err(400));
        check("GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nTransfer-Encoding: chunked", Err(400));
        for broken in [
            "",
            "GET",
            "GET  /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080",
            "GET /TOKEN/ HTTP/2\r\nHost: 127.0.0.1:8080",
            "GET http://127.0.0.1:8080/TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080",
            "GET /TOKEN/ HTTP/1.1\nHost: 127.0.0.1:8080",
            "GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n folded: yes",
            "GET /TOKEN/ HTTP/1.1\r\nHost : 127.0.0.1:8080",
            "GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nno colon",
            "GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX: a\nb",
            "GET /TOKEN/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX: \u{1}",
        ] {
            check(broken, Err(400));
        }
        assert!(wanted(b"GET /\xff HTTP/1.1", 8080, TOKEN).is_err());
    }

    #[test]
    fn a_head_ends_at_its_empty_line_or_not_at_all() {
        let text = b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest".as_slice();
        assert_eq!(head(&mut { text }).unwrap().unwrap(), b"GET / HTTP/1.1\r\nA: b");
        assert!(head(&mut &text[..20]).is_err());
        let endless = vec![b'a'; 2 * HEAD];
        assert_eq!(head(&mut &endless[..]).unwrap(), None);
        // One byte at a time, an end lies across parts.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                let n = usize::from(!self.0.is_empty());
                to[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        assert_eq!(head(&mut Slow(text)).unwrap().unwrap().len(), 20);
    }

    #[test]
    fn no_request_ends_the_process_that_serves_others() {
        // A release build aborts where it panics, so nothing that is sent may lead there.
        let whole =
            format!("GET /{TOKEN}/data HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n\r\n");
        let mut state = 7_u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            usize::try_from((state >> 33) % n as u64).unwrap()
        };
        let mut n_answered = [0; 2];
        for _ in 0..50_000 {
            let mut sent = whole.clone().into_bytes();
            for _ in 0..below(4) {
                let at = below(sent.len());
                match below(4) {
                    0 => drop(sent.drain(at..(at + 1 + below(48)).min(sent.len()))),
                    1 => sent.insert(at, [b'\r', b'\n', b'/', b':', b' ', 0, 0x80, 0xc3][below(8)]),
                    2 => sent[at] = u8::try_from(below(256)).unwrap(),
                    _ => sent.truncate(at + 1),
                }
                if sent.is_empty() {
                    break;
                }
            }
            let Ok(Some(head)) = head(&mut &sent[..]) else { continue };
            n_answered[usize::from(wanted(&head, 8080, TOKEN).is_ok())] += 1;
        }
        assert!(n_answered.iter().all(|&n| n > 5_000), "{n_answered:?} were refused and answered");
    }

    #[test]
    fn tokens_differ() {
        let (a, b) = (token(), token());
        assert!(a.len() == 32 && b.len() == 32 && a != b && a.bytes().all(|c| c.is_ascii_hexdigit()));
        assert!(is_same(a.as_bytes(), a.as_bytes()) && !is_same(a.as_bytes(), b.as_bytes()));
    }
}
