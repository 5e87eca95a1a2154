//! Outputs of one notebook that share a module: one carries it, the others ask for it.
//!
//! Frames of a notebook's outputs have an origin each and reach nothing, but they may send messages to each other. What is asked for is
//! named by a word that depends on every byte of it, so that two versions in one notebook do not mix. Whoever has the module gives it
//! on. What is given runs where it arrives, in a frame that reaches neither the notebook nor the network: an output of somebody else's
//! in the same notebook could draw there what it likes, and no more.

use super::{
    DIGITS, LOADER, OPERATORS, Pair, VIEWER, all, base91, data, document, framed, loader, module, packed,
    quoted, script, style, word,
};
use crate::pack::PageItem;
use crate::svg::escaped;

/// What gives module and script to the frames beside.
pub(super) const LEND: &str = include_str!("../page/lend.js");
/// What asks the frames beside for both, in front of what starts them.
pub(super) const BORROW: &str = include_str!("../page/borrow.js");

/// The line of a figure that nobody has given a module.
const WAITING: &str = "Run the cell that shows notebook() for the interactive view.";
/// Over the picture's foot, on a ground of its own: the notebook around it is light or dark.
const WAITING_STYLE: &str = ".spanlift-waiting{position:fixed;left:0;bottom:0;margin:0;padding:3px 9px;background:#fff;\
     color:#1c1f23;border:1px solid #c9c9c2;border-radius:4px;font:12.5px/1.45 system-ui,sans-serif}";

/// A figure like [`figure_html`](super::figure_html) without the module, some kilobytes in all: it asks the other outputs of its
/// notebook for one, which [`carrier_html`] has, and any figure that is alive.
///
/// Until one answers the picture is there, and after ten seconds a line that says what to do.
pub fn sharing_html(items: &[PageItem], picture: &str, title: &str, height_px: u32) -> String {
    let place = format!(
        "<main class=\"spanlift\"{} data-spanlift=\"{}\"></main>\n<p class=\"spanlift-waiting\" role=\"status\" hidden>{WAITING}</p>",
        all(items),
        data(items)
    );
    // The algebra's module shows all that the other does.
    let fits = if items.iter().any(PageItem::is_operator) { &[OPERATORS][..] } else { &[OPERATORS, VIEWER] };
    let keys: Vec<String> = fits.iter().map(key).collect();
    let keys = format!(" data-keys=\"{}\"", keys.join(" "));
    let frame = document(title, "spanlift-frame", &place, "", |nonce| {
        style(nonce, WAITING_STYLE) + &loader(nonce, &keys, &[DIGITS, BORROW, LEND, LOADER])
    });
    framed(&frame, picture, title, height_px)
}

/// The output of a notebook that carries the module for every figure made by [`sharing_html`], wherever it stands; less than a megabyte.
///
/// It shows `words`, which stand beside a frame that nobody sees.
pub fn carrier_html(words: &str) -> String {
    let frame = document("spanlift", "spanlift-frame", "", "", |nonce| {
        module("", &base91(OPERATORS.module)) + &loader(nonce, &lent(&OPERATORS), &[LEND])
    });
    format!(
        "<p style=\"margin:0\">{}</p><iframe sandbox=\"allow-scripts\" title=\"\" aria-hidden=\"true\" tabindex=\"-1\" srcdoc=\"{}\" \
         style=\"position:absolute;width:1px;height:1px;border:0;opacity:0\"></iframe>",
        escaped(words),
        quoted(&frame)
    )
}

/// What a frame that has a module needs: it lends it, too.
pub(super) fn lending_assets(nonce: &str, pair: &Pair) -> String {
    style(nonce, "")
        + &module("", &base91(pair.module))
        + &loader(nonce, &lent(pair), &[DIGITS, LEND, LOADER])
}

/// The script as an attribute, and the word by which both are asked for.
fn lent(pair: &Pair) -> String {
    format!(" data-key=\"{}\" data-script=\"{}\"", key(pair), packed(script(pair).as_bytes()))
}

fn key(pair: &Pair) -> String {
    word(&[pair.module, script(pair).as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::figure_html;

    fn keys(html: &str, attribute: &str) -> Vec<String> {
        let (_, rest) = html.split_once(attribute).unwrap_or_else(|| panic!("no {attribute}"));
        let (value, _) = rest.strip_prefix("=&quot;").unwrap().split_once("&quot;").unwrap();
        value.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_asked_for_is_what_the_carrier_and_whole_figures_have() {
        let trace = [PageItem::trace("t", &crate::testing::race())];
        let asked = keys(&sharing_html(&trace, "<svg/>", "t", 400), "data-keys");
        let carried = keys(&carrier_html("words"), "data-key");
        let whole = keys(&figure_html(&trace, "<svg/>", "t", 400), "data-key");
        assert_eq!((carried.len(), whole.len(), asked.len()), (1, 1, 2));
        assert_ne!(carried, whole);
        assert!(asked.contains(&carried[0]) && asked.contains(&whole[0]), "{asked:?}");
        assert!(asked.iter().all(|key| key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit())));
    }

    /// The viewer without the algebra is no help to an operator.
    #[test]
    fn an_operator_asks_for_the_algebra_alone() {
        let operator = [PageItem::source("a", "operator\nshow fft(x).over(c64[x=8])\n", "")];
        assert!(operator[0].is_operator());
        let asked = keys(&sharing_html(&operator, "<svg/>", "a", 400), "data-keys");
        assert_eq!(asked, keys(&carrier_html("words"), "data-key"));
    }

    #[test]
    fn neither_words_nor_titles_become_markup() {
        const HOSTILE: &str = "\"><script>alert(1)</script>";
        let trace = [PageItem::trace("t", &crate::testing::race())];
        for html in [carrier_html(HOSTILE), sharing_html(&trace, "<svg/>", HOSTILE, 400)] {
            assert!(!html.contains("<script>alert"), "{}", &html[..400]);
        }
    }
}
