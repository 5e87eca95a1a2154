//! Puts viewers into a page of one's own: `cargo run -p spanlift-viewer --example embed -- embed.html`.
//!
//! Three calls: [`mount_html`] where a viewer is to be, as often as one likes, [`viewer_assets_html`] once behind the last of
//! them, and [`content_policy`] for a page that has a policy. The picture that stands in a place is what people see
//! until the viewer runs, and where no script does.

use spanlift::Program;
use spanlift::machine::Machine;
use spanlift::sim;
use spanlift_viewer::{
    PageItem, TimelineOptions, content_policy, mount_html, timeline_svg, viewer_assets_html,
};

/// Belongs to this page's policy; a server makes a new one for each answer.
const NONCE: &str = "one-page";

const PAGEABLE: &str = "stream s\npageable x 64MiB\ndevice d 64MiB\ncopy d <- x on s\nkernel scale on s reads d writes d for 3ms\nsync s\n";
const PINNED: &str = "stream s\npinned x 64MiB\ndevice d 64MiB\ncopy d <- x on s\nkernel scale on s reads d writes d for 3ms\nsync s\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).unwrap_or_else(|| "embed.html".to_owned());
    let machine = Machine::builtin("h200-pcie5").ok_or("the profile ships")?;
    let mut places = String::new();
    for (name, text) in [("from pageable memory", PAGEABLE), ("from pinned memory", PINNED)] {
        let trace = sim::run(&Program::from_text(text)?, &machine)?.trace;
        let picture = timeline_svg(&trace, &TimelineOptions::default());
        let place = mount_html(&[PageItem::source(name, text, "h200-pcie5")], &picture, name, 420);
        places += &format!("<h2>A copy {name}</h2>\n{place}\n");
    }
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<title>A report with viewers in it</title>\n\
         <style nonce=\"{NONCE}\">:root {{ color-scheme: light dark }} body {{ max-width: 1100px; margin: 2em auto; padding: 0 1em; font: 16px/1.5 Georgia, serif }}</style>\n\
         </head>\n<body>\n<h1>A report with viewers in it</h1>\n<p>Each is alive: click it, then W, S, A, D and ?.</p>\n{places}\
         {}</body>\n</html>\n",
        content_policy(NONCE),
        viewer_assets_html(NONCE)
    );
    std::fs::write(out, page)?;
    Ok(())
}
