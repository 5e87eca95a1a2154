//! Pages and pieces of pages: the viewer's glue, module, style and data as text that needs no other file.
//!
//! | function | gives |
//! |---|---|
//! | [`page`], [`page_with`] | a whole page with one viewer |
//! | [`served_page`] | the same with its data beside it |
//! | [`figure_html`] | a piece for a notebook's output: a picture first, a sandboxed frame with the viewer over it |
//! | [`sharing_html`], [`carrier_html`] | the same without a module, and the one output that carries it for all of a notebook |
//! | [`mount_html`] | a place for a viewer in a longer page; as many as it likes |
//! | [`viewer_assets_html`] | style, module and script of all places of that page, once, at its end |
//! | [`lesson_assets_html`] | the same for a page with cells of the course |
//!
//! To put a viewer into another page: [`mount_html`] where it is to be and [`viewer_assets_html`] once behind the last place
//! (`wasm/examples/embed.rs` is such a page); or, without Rust, the page that `spanlift view` writes in a frame:
//! `<iframe src="run.html" width="100%" height="600"></iframe>`. A place with `data-from="ADDRESS"` in place of
//! `data-spanlift` asks that address for the block of [`pack`], where the page's policy lets it connect.
//!
//! Nothing else is fetched. Data, script and style travel packed with gzip, which the browser unpacks, the module with LZMA, which the
//! script unpacks; all three are written with printed letters of ASCII. What users wrote is never part of markup or script.

mod shared;

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};

use crate::pack::{PageItem, pack};
use crate::slim::slim_script;
use crate::svg::escaped;

pub use shared::{carrier_html, sharing_html};

/// A module, packed, the script that calls it, and the one that starts the viewers with both.
struct Pair {
    glue: &'static str,
    page: &'static str,
    module: &'static [u8],
}

/// The page's own script, which `spanlift-viewer-build` makes of `page/`, style and elements within.
const PAGE: &str = include_str!("../dist/page.js");

const VIEWER: Pair = Pair {
    glue: include_str!("../dist/viewer.js"),
    page: PAGE,
    module: include_bytes!("../dist/viewer.wasm.lzma"),
};
/// The viewer with the cells of the course's page: no other page carries them.
const COURSE: Pair = Pair {
    glue: include_str!("../dist/course.js"),
    page: include_str!("../dist/lessons.js"),
    module: include_bytes!("../dist/course.wasm.lzma"),
};
/// The viewer with the algebra of operators, for the pages that hold one.
const OPERATORS: Pair = Pair {
    glue: include_str!("../dist/operators.js"),
    page: PAGE,
    module: include_bytes!("../dist/operators.wasm.lzma"),
};
/// The style of a place that no script has come to; the script puts all other style behind it.
const EARLY: &str = include_str!("page/early.css");
/// What turns digits into bytes, which the loader needs too.
const DIGITS: &str = include_str!("page/digits.js");
/// The one script that stands in the page as it is: it unpacks the other and starts it.
const LOADER: &str = include_str!("page/loader.js");

/// A page that shows `items`, as one file that works offline.
///
/// The first item is shown; the others are chosen in the page. Programs are simulated in the page. The page's policy
/// allows no connection and no script but its own.
///
/// ```
/// use spanlift_viewer::{PageItem, page};
/// let program = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
/// let html = page(&[PageItem::source("one copy", program, "h200-pcie5")]);
/// assert!(html.starts_with("<!doctype html>"));
/// ```
pub fn page(items: &[PageItem]) -> String {
    page_with(items, &[])
}

/// A page like [`page`] that also holds `examples`: programs in the text form, to choose from where a program is edited.
pub fn page_with(items: &[PageItem], examples: &[PageItem]) -> String {
    let title = match items {
        [one] => format!("{} · spanlift", one.name),
        _ => "spanlift".to_owned(),
    };
    let place = format!(
        "<main class=\"spanlift\" data-alone{} data-spanlift=\"{}\"></main>",
        all(items),
        data(items)
    );
    let examples =
        if examples.is_empty() { String::new() } else { format!(" data-examples=\"{}\"", data(examples)) };
    document(&title, "spanlift-page", &place, &examples, |nonce| assets(nonce, pair_of(items)))
}

/// Marks a place whose first item, which it shows, needs all of the module: then nothing waits for the second part.
fn all(items: &[PageItem]) -> &'static str {
    if items.first().is_some_and(PageItem::has_program) { " data-all" } else { "" }
}

/// What shows `items`: operators need more than the rest.
fn pair_of(items: &[PageItem]) -> &'static Pair {
    if items.iter().any(PageItem::is_operator) { &OPERATORS } else { &VIEWER }
}

/// A page called `title` like [`page_with`] whose items are not in it: it asks for `from`, an address beside its own, and gets the
/// block that [`pack`] makes. Its policy allows connections to where it came from and nowhere else. It shows operators, whatever it begins
/// with.
pub fn served_page(title: &str, from: &str, examples: &[PageItem]) -> String {
    let place = format!("<main class=\"spanlift\" data-alone data-from=\"{}\"></main>", escaped(from));
    let examples = format!(" data-examples=\"{}\"", data(examples));
    let page = document(&format!("{title} · spanlift"), "spanlift-page", &place, &examples, |nonce| {
        assets(nonce, &OPERATORS)
    });
    page.replacen("default-src 'none';", "default-src 'none'; connect-src 'self';", 1)
}

/// A figure for a notebook's output: `picture` (an SVG document), and over it the viewer where scripts may run.
///
/// `title` says what it shows. The frame has an origin of its own: it reaches neither the notebook nor the network. To figures made by
/// [`sharing_html`] it lends its module.
pub fn figure_html(items: &[PageItem], picture: &str, title: &str, height_px: u32) -> String {
    let place = format!("<main class=\"spanlift\"{} data-spanlift=\"{}\"></main>", all(items), data(items));
    let frame =
        document(title, "spanlift-frame", &place, "", |nonce| shared::lending_assets(nonce, pair_of(items)));
    framed(&frame, picture, title, height_px)
}

/// A picture, and over it a document that may run scripts and nothing else.
fn framed(document: &str, picture: &str, title: &str, height_px: u32) -> String {
    format!(
        "<div style=\"position:relative;width:100%;height:{height_px}px;overflow:hidden\">{}\
         <iframe sandbox=\"allow-scripts\" title=\"{}\" srcdoc=\"{}\" \
         style=\"position:absolute;inset:0;width:100%;height:100%;border:0\"></iframe></div>",
        img(picture, title, "style=\"display:block;max-width:100%;height:auto\""),
        escaped(title),
        quoted(document),
    )
}

/// A document as the value of an attribute: inside quotes nothing else has a meaning.
fn quoted(document: &str) -> String {
    document.replace('&', "&amp;").replace('"', "&quot;")
}

/// A place for a viewer of `items` in a longer page, `height_px` high.
///
/// `picture` (an SVG document, or nothing) is shown until the viewer has started, and where it cannot. The wheel belongs
/// to the viewer after a click on it. The page needs [`viewer_assets_html`] once, behind all places. That viewer is without the
/// algebra: an operator among the items says where operators are shown, which [`page`] and [`figure_html`] do.
pub fn mount_html(items: &[PageItem], picture: &str, title: &str, height_px: u32) -> String {
    let still =
        if picture.is_empty() { String::new() } else { img(picture, title, "class=\"spanlift-still\"") };
    let height = height_px.clamp(260, 4000);
    format!(
        "<div class=\"spanlift\" role=\"group\" aria-label=\"{}\" data-height=\"{height}\"{} data-spanlift=\"{}\">{still}</div>",
        escaped(title),
        all(items),
        data(items)
    )
}

/// Style, module and script for every [`mount_html`] of a page, to stand once behind the last of them. The page has to be UTF-8 and
/// to say so.
///
/// `nonce` is that of the page's policy ([`content_policy`]), or empty where the page has none.
pub fn viewer_assets_html(nonce: &str) -> String {
    assets(nonce, &VIEWER)
}

/// The same for a page of lessons: elements with `data-verb` are cells that do what [`crate::course::act`] says, with the text
/// of the `textarea` in them; the element `course-rows` holds the file of published rows.
pub fn lesson_assets_html(nonce: &str) -> String {
    assets(nonce, &COURSE)
}

fn assets(nonce: &str, pair: &Pair) -> String {
    let script = format!(" data-script=\"{}\"", packed(script(pair).as_bytes()));
    style(nonce, "")
        + &module(" data-sixes", &sixes(pair.module))
        + &loader(nonce, &script, &[DIGITS, LOADER])
}

/// The style of places before their script comes, with some more.
fn style(nonce: &str, more: &str) -> String {
    format!("<style{}>{}{more}</style>\n", with_nonce(nonce), slim_script(EARLY))
}

/// The element that holds a module's digits: as [`sixes`] writes them where it has `data-sixes`.
fn module(attribute: &str, digits: &str) -> String {
    format!("<script type=\"application/x-lzma\" id=\"spanlift-module\"{attribute}>{digits}</script>\n")
}

/// The element whose script brings the others, and has what they need as attributes.
fn loader(nonce: &str, attributes: &str, code: &[&str]) -> String {
    let code: String = code.iter().map(|text| joined(&slim_script(text))).collect();
    let nonce = with_nonce(nonce);
    format!("<script type=\"module\" id=\"spanlift-loader\"{attributes}{nonce}>\n{code}</script>\n")
}

fn with_nonce(nonce: &str) -> String {
    if nonce.is_empty() { String::new() } else { format!(" nonce=\"{}\"", escaped(nonce)) }
}

/// The glue and what starts the viewers, as one.
fn script(pair: &Pair) -> String {
    [pair.glue, pair.page].concat()
}

/// The digits of [`base91`], in their order: what is printed of ASCII and means nothing within quotes of markup or script.
fn digits() -> impl Iterator<Item = u8> {
    (b' '..=b'~').filter(|digit| !b"\"&<\\".contains(digit))
}

/// Bytes as text, two digits for thirteen bits (the highest first): a thirteenth shorter than base64. Zeros fill the last thirteen.
fn base91(bytes: &[u8]) -> String {
    let digits: Vec<char> = digits().map(char::from).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(13) * 16);
    let (mut bits, mut n) = (0_usize, 0_u32);
    let mut write = |thirteen: usize| text.extend([digits[thirteen / 91], digits[thirteen % 91]]);
    for &byte in bytes {
        (bits, n) = (bits << 8 | usize::from(byte), n + 8);
        if n >= 13 {
            n -= 13;
            write(bits >> n);
            bits &= (1 << n) - 1;
        }
    }
    if n > 0 {
        write(bits << (13 - n));
    }
    text
}

/// Bytes as text that stands in a script's element, where nothing but `<` has a meaning: six bytes of UTF-8 for five, a fortieth shorter
/// than [`base91`]. Zeros fill the last five.
///
/// Three bytes are a number of twenty bits: three of 94 digits, the highest first, and beyond 94³ one digit and one letter of two bytes,
/// of 188 numbers with a letter the first 94 with the digit in front.
fn sixes(bytes: &[u8]) -> String {
    let digits: Vec<char> = (b' '..=b'~').filter(|&digit| digit != b'<').map(char::from).collect();
    let digit = |n: u32| digits[n as usize];
    let letter =
        |n: u32| char::from_u32(0xa0 + n).unwrap_or_else(|| unreachable!("bug: letter {n} of 1,160"));
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 6);
    let mut write = |number: u32| match number.checked_sub(94 * 94 * 94) {
        None => text.extend([digit(number / 94 / 94), digit(number / 94 % 94), digit(number % 94)]),
        Some(beyond) if beyond % 188 < 94 => text.extend([digit(beyond % 188), letter(beyond / 188)]),
        Some(beyond) => text.extend([letter(beyond / 188), digit(beyond % 188 - 94)]),
    };
    for five in bytes.chunks(5) {
        let byte = |k: usize| u32::from(five.get(k).copied().unwrap_or(0));
        write(byte(0) << 12 | byte(1) << 4 | byte(2) >> 4);
        write((byte(2) & 15) << 16 | byte(3) << 8 | byte(4));
    }
    text
}

/// A slim script with fewer lines: no statement ends where one of these letters stands last.
fn joined(slim: &str) -> String {
    let line = |line| {
        let words: &str = str::trim_end(line);
        // Behind slashes may stand a comment, which would go on.
        let goes_on = words.ends_with([';', ',', '{', '(']) && !words.contains("//");
        if goes_on { words } else { line }
    };
    slim.split_inclusive('\n').map(line).collect()
}

/// The policy of a page that holds a viewer: no connection, pictures from the page itself, scripts and styles that carry
/// `nonce`. It is the content of `<meta http-equiv="Content-Security-Policy">`.
pub fn content_policy(nonce: &str) -> String {
    let nonce = escaped(nonce);
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'nonce-{nonce}'; img-src data:; worker-src blob:; \
         base-uri 'none'; form-action 'none'"
    )
}

/// What stands in a browser's tab: a copy below a kernel, in their colours. Without one, browsers ask a served page's place for it.
/// The name of what it is written in is escaped, so that no address stands in a page.
const ICON: &str = "<link rel=\"icon\" href=\"data:image/svg+xml,<svg xmlns='http:%2F%2Fwww.w3.org/2000/svg' viewBox='0 0 8 8'>\
    <path fill='%2356b4e9' d='M0 1h6v2H0z'/><path fill='%230072b2' d='M2 5h6v2H2z'/></svg>\">";

/// The beginning of a document that holds a viewer, within its `<head>`: its policy, its title and its icon.
///
/// What follows are styles and `</head>`. The policy is [`content_policy`] of `nonce`.
///
/// ```
/// use spanlift_viewer::page_head;
/// let page = page_head("copies & kernels", "n") + "<style nonce=\"n\">p{color:red}</style></head><body><p>One.</p></body></html>";
/// assert!(page.starts_with("<!doctype html>") && page.contains("<title>copies &amp; kernels</title>"));
/// ```
pub fn page_head(title: &str, nonce: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<title>{}</title>\n{ICON}\n",
        content_policy(nonce),
        escaped(title),
    )
}

/// A document whose policy lets run what `assets` makes for its nonce.
fn document(
    title: &str,
    class: &str,
    place: &str,
    more: &str,
    assets: impl FnOnce(&str) -> String,
) -> String {
    let nonce = word(&[place.as_bytes()]);
    format!(
        "{}</head>\n<body class=\"{class}\"{more}>\n{place}\n<noscript>This page draws its timeline with a script.</noscript>\n\
         {}</body>\n</html>\n",
        page_head(title, &nonce),
        assets(&nonce),
    )
}

/// A word that depends on the bytes alone, so that the same items give the same page (FNV-1a of 64 bits).
///
/// Nothing but the page's own script is inserted later, so it has to be unlike other pages', not secret.
fn word(texts: &[&[u8]]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", texts.iter().copied().flatten().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The block of the items, packed.
fn data(items: &[PageItem]) -> String {
    packed(&pack(items))
}

/// Bytes packed with gzip, as text.
fn packed(bytes: &[u8]) -> String {
    base91(&filled(gzip(bytes)))
}

/// Bytes packed with gzip, with a fixed level and no time.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let packed = packer.write_all(bytes).and_then(|()| packer.finish());
    packed.unwrap_or_else(|e| unreachable!("bug: writing to memory failed: {e}"))
}

/// The same packed bytes, as many as their digits stand for: where those have room for one more, the header, which had no fields, gets
/// an empty comment (RFC 1952), since browsers refuse what follows behind the end.
fn filled(mut packed: Vec<u8>) -> Vec<u8> {
    const COMMENT: u8 = 16;
    let bits = packed.len() * 8;
    if bits.next_multiple_of(13) - bits >= 8 {
        packed[3] |= COMMENT;
        packed.insert(10, 0);
    }
    packed
}

/// A picture that shows everywhere and whose scripts, if it had any, could not run.
pub(crate) fn img(svg: &str, alt: &str, attributes: &str) -> String {
    format!(
        "<img {attributes} alt=\"{}\" src=\"data:image/svg+xml;base64,{}\">",
        escaped(alt),
        STANDARD.encode(svg)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns;

    const HOSTILE: &str = "\"><script>alert(1)</script>&amp;'\u{0}";

    fn items() -> Vec<PageItem> {
        vec![
            PageItem::source(HOSTILE, "stream s\npinned x 4\n", "h200-pcie5"),
            PageItem::trace("t", &crate::testing::race()),
        ]
    }

    #[test]
    fn pages_are_whole_small_and_the_same_each_time() {
        let html = page(&items());
        assert_eq!(html, page(&items()));
        assert!(html.len() < 1_500_000, "{} bytes", html.len());
        assert!(html.ends_with("</html>\n"));
        assert!(
            ![DIGITS, LOADER, shared::LEND, shared::BORROW].concat().contains("</script"),
            "the script would end early"
        );
    }

    #[test]
    fn thirteen_bits_are_two_digits_that_mean_nothing_within_quotes() {
        let all: Vec<u8> = digits().collect();
        assert_eq!(all.len(), 91);
        assert!(all.iter().all(|digit| b" ~".contains(digit) || digit.is_ascii_graphic()));
        assert!(!all.iter().any(|digit| b"\"&<\\\r\n".contains(digit)));
        // 2^13 - 1 is 90 * 91 + 1, and the highest bit alone 45 * 91 + 1.
        assert_eq!(base91(&[0xff; 13]), "~!".repeat(8));
        assert_eq!(base91(&[0x80]), format!("{}!", char::from(all[45])));
        assert_eq!([base91(&[]), base91(&[0]), base91(&[0, 0])], ["", "  ", "    "]);
        // By a number of all bits.
        let bytes = *b"\x01 many bytes\xfe";
        let number = bytes.iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
        let worth = |digit: char| all.iter().position(|&d| char::from(d) == digit).unwrap() as u128;
        let text: Vec<u128> = base91(&bytes).chars().map(worth).collect();
        let read = text.chunks(2).fold(0_u128, |number, two| number << 13 | (two[0] * 91 + two[1]));
        assert_eq!((bytes.len(), text.len(), read), (13, 16, number));
    }

    #[test]
    fn five_bytes_are_six_that_end_no_element() {
        // By hand: 255 is 2 * 94 + 67; all bits but the last of twenty are 830,584 and 217,990 more, which is 1,159 * 188 + 98.
        assert_eq!(sixes(&[0, 0, 0, 0, 255]), "    \"d");
        assert_eq!(sixes(&[0xff, 0xff, 0xe0, 0, 0]), "\u{527}$   ");
        assert_eq!([sixes(&[]), sixes(&[0]), sixes(&[0; 6])], ["".to_owned(), " ".repeat(6), " ".repeat(12)]);
        // All numbers of twenty bits, read anew: which is which is told by the bytes alone.
        let mut seen = 0;
        let text = sixes(
            &(0..1_u32 << 20)
                .flat_map(|n| (u64::from(n) << 20 | u64::from(n)).to_be_bytes()[3..].to_vec())
                .collect::<Vec<u8>>(),
        );
        assert_eq!(text.len(), 6 << 20);
        let worth = |digit: u8| u32::from(digit - b' ') - u32::from(digit > b'<');
        let letter = |two: &[u8]| u32::from(two[0] & 31) * 64 + u32::from(two[1] & 63) - 0xa0;
        for (at, three) in text.as_bytes().chunks(3).enumerate() {
            let digits: Vec<&u8> = three.iter().filter(|byte| byte.is_ascii()).collect();
            assert!(digits.iter().all(|&&digit| (b' '..=b'~').contains(&digit) && digit != b'<'));
            let number = match three {
                [a, b, c] if digits.len() == 3 => (worth(*a) * 94 + worth(*b)) * 94 + worth(*c),
                [a, two @ ..] if a.is_ascii() => 830_584 + letter(two) * 188 + worth(*a),
                [two @ .., c] => 830_584 + letter(two) * 188 + 94 + worth(*c),
                [] => unreachable!(),
            };
            assert_eq!(number as usize, at / 2, "{three:?}");
            seen += 1;
        }
        assert_eq!(seen, 2 << 20);
    }

    #[test]
    fn packed_bytes_are_as_many_as_their_digits_stand_for() {
        let mut seen = [false; 2];
        for n in 0..60 {
            let script: String = (0..n).map(|k| char::from(b'a' + (k * k % 23) as u8)).collect();
            let packed = gzip(script.as_bytes());
            let whole = filled(packed.clone());
            seen[whole.len() - packed.len()] = true;
            assert_eq!(base91(&whole).len() * 13 / 16, whole.len());
            let mut reader = flate2::bufread::GzDecoder::new(&whole[..]);
            assert_eq!(std::io::read_to_string(&mut reader).unwrap(), script);
            assert!(reader.into_inner().is_empty(), "{n} letters: something is left behind the end");
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn scripts_lose_nothing_but_comments_and_indentation() {
        let script = "/** told\n * more\n */\nconst a = 1; // kept\n\n  b(`x`);\n  // gone\n    * 2;\n/* a */ c();\n/* b */\n";
        assert_eq!(slim_script(script), "const a = 1; // kept\nb(`x`);\n* 2;\n/* a */ c();\n");
        assert_eq!(joined("a({\nb,\nc: 1, // one,\n});\nd();\n}\n"), "a({b,c: 1, // one,\n});d();}\n");
        for script in [DIGITS, LOADER, shared::LEND, shared::BORROW] {
            // Of a text over several lines every second line would have an odd number of backticks before it.
            for line in script.lines().filter(|line| !line.trim_start().starts_with(['/', '*'])) {
                assert_eq!(line.matches('`').count() % 2, 0, "{line}");
            }
        }
    }

    #[test]
    fn served_pages_carry_no_data_and_connect_to_their_own_place() {
        let html = served_page(HOSTILE, "data", &[]);
        assert!(html.contains("data-from=\"data\"") && !html.contains("data-spanlift="));
        assert_eq!(html.matches("connect-src 'self';").count(), 1);
        assert!(!html.contains("<script>alert"));
        assert!(!page(&items()).contains("connect-src"));
    }

    #[test]
    fn what_users_wrote_is_never_markup() {
        let one = &items()[..1];
        for html in [page(one), mount_html(one, "", HOSTILE, 400), figure_html(one, "<svg/>", HOSTILE, 400)] {
            assert!(!html.contains("<script>alert"));
        }
    }

    #[test]
    fn nothing_is_fetched() {
        // Of a page what is no digits, which may spell anything.
        let (page, data) = (page(&items()), data(&items()));
        let [module, script] = [sixes(VIEWER.module), packed(self::script(&VIEWER).as_bytes())];
        let mut bare = page;
        for digits in [data, module, script] {
            assert_eq!(bare.matches(&digits).count(), 1);
            bare = bare.replace(&digits, "");
        }
        // The name of what an SVG is written in is no address, and a picture that is all there is none.
        let scripts = [&VIEWER, &COURSE, &OPERATORS].map(self::script).concat();
        let scripts = scripts.replace("http://www.w3.org/2000/svg", "").replace("src=`data:", "");
        for word in
            ["http://", "https://", "import(", "XMLHttpRequest", "WebSocket", "src=", "@import", "url("]
        {
            assert_eq!(bare.matches(word).count() + scripts.matches(word).count(), 0, "{word}");
        }
    }

    /// Writes pages to the folder that `SPANLIFT_GALLERY` names, for people to open.
    #[test]
    fn pages_to_look_at() {
        let Some(folder) = std::env::var_os("SPANLIFT_GALLERY").map(std::path::PathBuf::from) else { return };
        let programs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/programs");
        let program = |name: &str| {
            let source = std::fs::read_to_string(programs.join(format!("{name}.txt"))).unwrap();
            PageItem::source(name, source, "")
        };
        let all = [
            "strategy-b",
            "demo-h2d-pinned-overwritten",
            "run-streamed1-pinned1",
            "row05-h2d.1000x4KB.blocking",
        ];
        std::fs::write(folder.join("programs.html"), page(&all.map(program))).unwrap();
        std::fs::write(folder.join("one.html"), page(&[program("demo-d2h-read-before-sync")])).unwrap();
        std::fs::write(folder.join("race.html"), page(&[PageItem::trace("race", &crate::testing::race())]))
            .unwrap();
        let bad = PageItem::source("bad", "copy x <- y on s", "h200-pcie5");
        std::fs::write(folder.join("bad.html"), page(&[bad, program("strategy-a")])).unwrap();
        let svg = crate::timeline_svg(&crate::testing::race(), &crate::TimelineOptions::default());
        let places: String = all.iter().map(|name| mount_html(&[program(name)], &svg, name, 520)).collect();
        let frame = figure_html(&[program("strategy-a")], &svg, "in a frame", 480);
        let long =
            format!("<!doctype html><body><h1>many</h1>{places}{frame}{}</body>", viewer_assets_html(""));
        std::fs::write(folder.join("many.html"), long).unwrap();
    }

    /// Whose first item is a program, or a trace with one, waits for no part that comes later; whose is none loads no more than it shows.
    #[test]
    fn a_place_says_whether_it_needs_all_of_the_module() {
        let program = PageItem::source("p", "stream s\npinned x 4\nsync s\n", "h200-pcie5");
        let run = crate::model::Model::open(&program).unwrap().trace;
        let bare = spanlift::Trace { program: None, ..run.clone() };
        let layout =
            PageItem::layout("l", &spanlift::memory::Layout::new(), None, spanlift::memory::MoveKind::Aware);
        let file = |text: &str| PageItem::trace_file("f", text.into());
        for (item, needs) in [
            (program, true),
            (PageItem::trace("t", &run), true),
            (PageItem::trace("t", &bare), false),
            (layout, false),
            (file("[]"), false),
            (file(""), false),
            (PageItem::trace_file("cut", columns::write(&run)[..30].to_vec()), false),
        ] {
            let other = PageItem::trace("other", &crate::testing::race());
            let items = [item, other];
            for html in
                [page(&items), mount_html(&items, "", "", 400), figure_html(&items, "<svg/>", "", 400)]
            {
                assert_eq!(html.contains(" data-all data-spanlift="), needs, "{}", items[0].name);
            }
        }
    }

    #[test]
    fn many_viewers_share_one_module() {
        let place = mount_html(&items(), "<svg/>", "title", 400);
        assert!(place.len() < 4000, "{}", place.len());
        let assets = viewer_assets_html("");
        assert!(assets.len() < 1_400_000);
    }
}
