//! What stands around the canvas: names, program, findings, details, and the table for those who cannot see it.
//!
//! Everything that a file says is set as text, never as markup.

use spanlift::hazard::Mode;
use spanlift::text::grouped;
use spanlift::trace::Source;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Document, Element, Event, HtmlElement, HtmlSelectElement};

use crate::app::{App, Grid};
use crate::details::Details;
use crate::finding::LISTED;
use crate::legend;
use crate::listing::Listing;
use crate::overview;
use crate::paint::Canvas;
use crate::scene::Scene;
use crate::screen::Screen;
use crate::text;
use crate::theme::Theme;
use crate::timeline;

/// Height of a line of the program, as the style sheet has it.
const LINE: f64 = 20.0;
/// More items than this are chosen from a list.
const BUTTONS: usize = 8;
/// The elements that change.
pub(crate) struct Panels {
    pub(crate) root: HtmlElement,
    pub(crate) plot: HtmlElement,
    pub(crate) program: HtmlElement,
    document: Document,
    lines: HtmlElement,
    pub(super) tip: HtmlElement,
    shown: Option<Shown>,
    /// The strip above the timeline, as it was painted last, with its pixel ratio.
    strip: Option<(overview::Key, f64)>,
    pub(super) memory: Option<super::memory_panels::Shown>,
}

/// What the panels show, to see whether it changed.
#[derive(Clone, Copy, PartialEq)]
struct Shown {
    item: usize,
    is_dark: bool,
    mode: Mode,
    selected: Option<u32>,
    finding: Option<usize>,
    /// Whose orders can be shown, and which of them is.
    order: (Option<usize>, Option<usize>),
    picked: Option<usize>,
}

impl Panels {
    /// The elements in `root`, where the page's script has put the empty viewer.
    pub(crate) fn new(root: HtmlElement) -> Result<Panels, JsValue> {
        let document = root.owner_document().ok_or("the viewer's place is in no document")?;
        let find = |selector: &str| -> Result<HtmlElement, JsValue> {
            Ok(root.query_selector(selector)?.ok_or("the viewer's place is empty")?.unchecked_into())
        };
        Ok(Panels {
            plot: find(".sl-plot")?,
            program: find(".sl-program")?,
            lines: find(".sl-lines")?,
            tip: find(".sl-tip")?,
            root,
            document,
            shown: None,
            strip: None,
            memory: None,
        })
    }

    /// The element of the template that `selector` names.
    pub(crate) fn part(&self, selector: &str) -> HtmlElement {
        let found = self.root.query_selector(selector).ok().flatten();
        found.unwrap_or_else(|| unreachable!("bug: the template has no {selector}")).unchecked_into()
    }

    pub(super) fn element(&self, tag: &str, class: &str, text: &str) -> Element {
        let made = self.document.create_element(tag);
        let made = made.unwrap_or_else(|_| unreachable!("bug: {tag} is no element"));
        if !class.is_empty() {
            made.set_class_name(class);
        }
        match tag {
            _ if text.is_empty() => {}
            // What may be copied into a program stays as it is.
            "p" | "li" | "small" | "span" | "dd" if class != "is-code" => {
                made.set_text_content(Some(&text::unbroken(text)));
            }
            _ => made.set_text_content(Some(text)),
        }
        made
    }

    /// The buttons that choose an item, when there are several.
    pub(crate) fn items<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) {
        let nav = self.part(".sl-items");
        nav.set_text_content(None);
        if names.len() < 2 {
            return;
        }
        if names.len() > BUTTONS {
            let list = self.element("select", "", "");
            set(&list, "aria-label", "what is shown");
            for name in names {
                append(&list, &self.element("option", "", &text::clean(name)));
            }
            append(&nav, &list);
            return;
        }
        for (k, name) in names.enumerate() {
            let button = self.element("button", "", &text::clean(name));
            set(&button, "type", "button");
            set(&button, "data-item", &k.to_string());
            append(&nav, &button);
        }
    }

    /// Says why an item cannot be shown, or that it can.
    pub(crate) fn error(&self, why: Option<&str>) {
        let line = self.part(".sl-error");
        line.set_text_content(why);
        line.set_hidden(why.is_none());
        match why {
            Some(why) => set(&line, "data-error", why),
            None => drop(line.remove_attribute("data-error")),
        }
        for part in [".sl-body", ".sl-mirror"] {
            self.part(part).set_hidden(why.is_some());
        }
    }

    /// Width and height of the picture, and the pixel ratio.
    pub(crate) fn room(&self, ratio: f64) -> (f64, f64, f64) {
        (f64::from(self.plot.client_width()), f64::from(self.plot.client_height()), ratio)
    }

    /// Paints what stands beside the picture on canvases of its own and changes with it.
    pub(crate) fn pictures(&mut self, screen: &Screen, ratio: f64) {
        match screen {
            Screen::Time(app) => self.overview(app, ratio),
            Screen::Memory(app) => self.past(app, ratio),
        }
    }

    /// Brings everything up to date that differs from what is shown.
    pub(crate) fn update(&mut self, screen: &Screen, item: usize, picked: Option<usize>, ratio: f64) {
        match screen {
            Screen::Time(app) => self.update_time(app, item, picked, ratio),
            Screen::Memory(app) => self.update_memory(app, item),
        }
    }

    fn update_time(&mut self, app: &App, item: usize, picked: Option<usize>, ratio: f64) {
        let now = Shown {
            item,
            is_dark: app.theme.is_dark,
            mode: app.mode,
            selected: app.selected(),
            finding: app.finding(),
            order: (app.orders_of(), app.shown_order()),
            picked,
        };
        self.memory = None;
        let before = self.shown.replace(now);
        if before == Some(now) {
            return;
        }
        let is_new = |of: fn(&Shown) -> usize| before.is_none_or(|b| of(&b) != of(&now));
        let item_is_new = is_new(|s| s.item);
        if before.is_none_or(|b| b.is_dark != now.is_dark) || item_is_new {
            self.colors(&app.theme);
            self.legend(app, ratio);
        }
        if item_is_new {
            self.strip = None;
            self.names(app, item);
            self.is_about(false);
        }
        let about = |s: Shown| (s.mode, s.finding, s.item, s.order);
        if before.is_none_or(|b| about(b) != about(now)) {
            self.findings(app);
        }
        if before.is_some_and(|b| b.order.1 != now.order.1) {
            self.legend(app, ratio);
            self.part(".sl-origin").set_text_content(Some(&text::clean(&timeline::origin(&app.model.trace))));
            let what = if now.order.1.is_some() { "Order" } else { "Timeline" };
            self.part(".sl-what").set_text_content(Some(what));
            self.notes(app);
        }
        self.details(app, picked);
        self.scroll_to_line(app, picked);
        self.draw_lines(app, picked);
        if before.is_some_and(|b| b.selected != now.selected) {
            let words =
                app.selected().map_or_else(|| "nothing selected".to_owned(), |k| app.model.sentence(k));
            self.part("[aria-live]").set_text_content(Some(&words));
        }
        self.table(app);
    }

    pub(super) fn colors(&self, theme: &Theme) {
        let style = self.root.style();
        let on_accent = theme.accent.ink();
        for (name, color) in [
            ("--ground", theme.ground),
            ("--panel", theme.panel),
            ("--ink", theme.ink),
            ("--dim", theme.dim),
            ("--line", theme.line),
            ("--lane", theme.lane),
            ("--accent", theme.accent),
            ("--on-accent", on_accent),
            ("--hazard", theme.hazard),
            ("--good", theme.good),
            ("color-scheme", theme.ground),
        ] {
            let value = match name {
                "color-scheme" => if theme.is_dark { "dark" } else { "light" }.to_owned(),
                _ => color.css(),
            };
            // A name and value without special letters are never refused.
            let _ = style.set_property(name, &value);
        }
        set(&self.root, "data-theme", if theme.is_dark { "dark" } else { "light" });
        let other = if theme.is_dark { "light" } else { "dark" };
        self.part("[data-do=theme]").set_text_content(Some(other));
    }

    /// The meaning of the colours, below the timeline.
    pub(crate) fn legend(&self, app: &App, ratio: f64) {
        self.paint_legend(legend::scene(&app.legend(&app.theme), self.legend_width(), &app.theme), ratio);
    }

    pub(super) fn legend_width(&self) -> f64 {
        f64::from(self.part(".sl-legend").client_width()).max(120.0)
    }

    pub(super) fn paint_legend(&self, mut scene: Scene, ratio: f64) {
        let Ok(canvas) = Canvas::new(self.part(".sl-legend canvas").unchecked_into()) else { return };
        scene.height = scene.height.max(1.0);
        canvas.paint(&scene, ratio);
    }

    fn names(&self, app: &App, item: usize) {
        let model = &app.model;
        // What a recorder calls its trace is the file that it wrote once: `trace.json` for every other one.
        let recorded = matches!(model.trace.source, Source::Imported { .. }) && !model.name.is_empty();
        let title = if recorded || model.trace.title.is_empty() { &model.name } else { &model.trace.title };
        self.title(&text::clean(title), &model.origin, item);
        self.notes(app);
        let _ = self.root.class_list().toggle_with_force("has-no-program", model.listing.is_none());
        self.part(".sl-orders").set_hidden(model.listing.is_none());
        let n_lines = model.listing.as_ref().map_or(0, |l| l.lines.len());
        let _ = self.lines.style().set_property("height", &format!("{}px", n_lines as f64 * LINE));
        self.program.set_scroll_top(0);
    }

    fn notes(&self, app: &App) {
        let (model, read) = (&app.model, app.shown_order().map(|_| app.model.read()));
        self.part(".sl-told-part").set_hidden(model.told.is_empty());
        // Clock and values are those of the times.
        let read = read.as_ref().unwrap_or(&model.notes);
        for (list, notes) in [(".sl-notes", read), (".sl-told", &model.told)] {
            let list = self.part(list);
            list.set_text_content(None);
            for note in notes {
                let class = match note.holds {
                    Some(true) => "sl-well",
                    Some(false) => "sl-bad",
                    None => "",
                };
                // An arrow stays one where a line ends: a word joiner holds it together.
                let text = text::clean(&note.text).replace("->", "-\u{2060}>");
                append(&list, &self.element("li", class, &text));
            }
        }
    }

    /// Everything is to be shown anew.
    pub(crate) fn forget(&mut self) {
        (self.shown, self.memory, self.strip) = (None, None, None);
    }

    /// Paints the strip above the timeline where it changed, and frames what of it is on screen.
    fn overview(&mut self, app: &App, ratio: f64) {
        let strip = self.part(".sl-strip");
        let width = f64::from(strip.client_width()).max(40.0);
        let key = overview::Key::of(app, width);
        if self.strip.as_ref().is_none_or(|(old, at)| *old != key || *at != ratio) {
            let Ok(canvas) = Canvas::new(self.part(".sl-strip canvas").unchecked_into()) else { return };
            canvas.paint(&overview::scene(app, width), ratio);
            self.strip = Some((key, ratio));
        }
        let (first, last) = app.model.extent();
        let whole = (i128::from(last) - i128::from(first)).max(1) as f64;
        let part = |at: i64| ((i128::from(at) - i128::from(first)) as f64 / whole).clamp(0.0, 1.0);
        let (a, b) = (part(app.view().start_ns()), part(app.view().end_ns()));
        let style = self.part(".sl-window").style();
        let _ = style.set_property("left", &format!("{}%", 100.0 * a));
        let _ = style.set_property("width", &format!("{}%", 100.0 * (b - a)));
        set(&strip, "aria-valuenow", &format!("{:.1}", 50.0 * (a + b)));
        let words = app.on_screen();
        set(&strip, "aria-valuetext", &words);
        self.part(".sl-range").set_text_content(Some(&words));
    }

    /// Tells the page's script that something may have changed.
    pub(crate) fn tell_drawn(&self) {
        if let Ok(event) = Event::new("sl-drawn") {
            let _ = self.root.dispatch_event(&event);
        }
    }

    /// Another kind of picture is shown: what the timeline's panels showed is to be shown anew.
    pub(super) fn forget_timeline(&mut self) {
        self.shown = None;
    }

    /// Name and origin of what is shown, and which of the items it is.
    pub(super) fn title(&self, name: &str, origin: &str, item: usize) {
        self.part(".sl-name").set_text_content(Some(name));
        self.part(".sl-origin").set_text_content(Some(origin));
        let buttons = self.part(".sl-items").children();
        if let Some(list) = buttons.item(0).and_then(|first| first.dyn_into::<HtmlSelectElement>().ok()) {
            list.set_selected_index(i32::try_from(item).unwrap_or(-1));
            return;
        }
        for k in 0..buttons.length() {
            if let Some(button) = buttons.item(k) {
                let is_current = usize::try_from(k).is_ok_and(|k| k == item);
                set(&button, "aria-current", if is_current { "true" } else { "false" });
            }
        }
    }

    /// Puts what belongs to a memory map, or to a timeline, in its place.
    pub(super) fn is_about(&self, memory: bool) {
        let (what, label) = match memory {
            true => ("Memory", "memory map: W S zoom, A D pan, arrows choose a view, ? lists all keys"),
            false => ("Timeline", "timeline: W S zoom, A D pan, arrows choose a slice, ? lists all keys"),
        };
        self.part(".sl-what").set_text_content(Some(what));
        set(&self.part(".sl-middle"), "aria-label", &what.to_ascii_lowercase());
        set(&self.plot, "aria-label", label);
        let strip = self.part(".sl-strip");
        strip.set_hidden(memory);
        let label = match memory {
            true => "moment of the snapshot; arrows step through its events",
            false => "part of the trace on screen; arrows move it, plus and minus zoom",
        };
        set(&strip, "aria-label", label);
        let _ = self.root.class_list().toggle_with_force("is-memory", memory);
        if memory {
            self.part(".sl-orders").set_hidden(true);
        } else {
            self.part(".sl-kinds").set_hidden(true);
        }
    }

    fn findings(&self, app: &App) {
        for (mode, name) in [(Mode::Contract, "contract"), (Mode::Typical, "typical")] {
            let button = self.part(&format!("[data-mode={name}]"));
            set(&button, "aria-pressed", if app.mode == mode { "true" } else { "false" });
        }
        let findings = app.findings();
        let badge = self.part(".sl-badge");
        badge.set_hidden(findings.is_empty());
        let is_cut = app.model.is_cut[usize::from(app.mode == Mode::Typical)];
        let words = |n| format!("{}{}", if is_cut { "at least " } else { "" }, grouped(n));
        badge.set_text_content(Some(&words(findings.len())));
        let list = self.element("ul", "", "");
        if findings.is_empty() {
            let (words, is_well) = app.model.nothing_found(app.mode);
            append(&list, &self.element("li", if is_well { "sl-well" } else { "" }, &words));
        }
        for (k, finding) in findings.iter().enumerate().take(LISTED) {
            let item = self.element("li", "", "");
            let button = self.element("button", "", "");
            set(&button, "type", "button");
            set(&button, "data-finding", &k.to_string());
            // Of an order that is shown the finding stays the chosen one, whatever is selected in it.
            let is_ordered = app.shown_order().is_some() && app.orders_of() == Some(k);
            let is_current = is_ordered || app.finding() == Some(k);
            set(&button, "aria-current", if is_current { "true" } else { "false" });
            let title = if finding.is_certain {
                finding.title.clone()
            } else {
                format!("{} (may be)", finding.title)
            };
            append(&button, &self.element("b", "", &text::clean(&title)));
            append(&button, &self.element("small", "", &text::clean(&finding.text)));
            append(&item, &button);
            if app.orders_of() == Some(k) {
                self.orders(app, &item);
            }
            append(&list, &item);
        }
        if findings.len() > LISTED {
            append(&list, &self.element("li", "", &format!("and {} more", words(findings.len() - LISTED))));
        }
        renew(&self.part(".sl-findings"), &list);
    }

    /// The switch between the times and the orders that show a finding, and what is seen in the shown one.
    fn orders(&self, app: &App, item: &Element) {
        if let Some(why) = app.no_orders() {
            append(item, &self.element("p", "sl-seen", why));
        }
        if app.orders().is_empty() {
            return;
        }
        let switch = self.element("div", "sl-switch", "");
        set(&switch, "role", "group");
        set(&switch, "aria-label", "times, or an order that shows the finding");
        let orders = app.orders().iter().enumerate();
        let choices = orders.map(|(k, order)| (Some(k), text::clean(&order.title)));
        for (order, name) in std::iter::once((None, "times".to_owned())).chain(choices) {
            let button = self.element("button", "", &name);
            set(&button, "type", "button");
            set(&button, "data-order", &order.map_or_else(|| "times".to_owned(), |k| k.to_string()));
            set(&button, "aria-pressed", if app.shown_order() == order { "true" } else { "false" });
            append(&switch, &button);
        }
        append(item, &switch);
        if let Some(order) = app.shown_order().and_then(|k| app.orders().get(k)) {
            append(item, &self.element("p", "sl-seen", &text::clean(&order.seen)));
        }
    }

    fn details(&self, app: &App, picked: Option<usize>) {
        let card = self.part("[data-selection]");
        card.set_text_content(None);
        let details = match (app.selected(), picked) {
            (Some(k), _) => app.model.details(k),
            (None, Some(command)) => picked_command(app, command),
            (None, None) => {
                let words = match app.model.listing {
                    Some(_) => "Click a slice, a line of the program or a finding.",
                    None if app.model.trace.slices.is_empty() => "No slices.",
                    None => "Click a slice.",
                };
                append(&card, &self.element("p", "", words));
                return;
            }
        };
        self.card(&card, &details);
    }

    /// Fills the card of details.
    pub(super) fn card(&self, card: &Element, details: &Details) {
        append(card, &self.element("b", "", &details.title));
        append(card, &self.element("p", "", &details.place));
        let list = self.element("dl", "", "");
        for (name, value) in &details.rows {
            // In a narrow card a word for which a column has no room has a line of its own.
            let is_long = |text: &String| text.split(' ').any(|word| word.len() > 11);
            let class = if is_long(name) || is_long(value) { "is-long" } else { "" };
            append(&list, &self.element("dt", class, name));
            append(&list, &self.element("dd", if name == "text" { "is-code" } else { class }, value));
        }
        append(card, &list);
        for why in &details.why {
            append(card, &self.element("p", "", why));
        }
    }

    /// The commands whose lines are marked: the selected one, and the other one of a finding.
    fn marked(app: &App, picked: Option<usize>) -> (Option<usize>, Option<usize>) {
        match app.finding().and_then(|k| app.findings().get(k)) {
            Some(finding) => (Some(finding.first), Some(finding.second)),
            None => (app.selected_command().or(picked), None),
        }
    }

    fn scroll_to_line(&self, app: &App, picked: Option<usize>) {
        let Some(listing) = &app.model.listing else { return };
        let (first, second) = Panels::marked(app, picked);
        let room = f64::from(self.program.client_height());
        for command in [second, first].into_iter().flatten() {
            let Some(line) = listing.line_of(command) else { continue };
            let top = line as f64 * LINE;
            let at = f64::from(self.program.scroll_top());
            if top < at || top + LINE > at + room {
                let to = (top - room / 3.0).max(0.0);
                #[expect(clippy::cast_possible_truncation, reason = "a place in the listing")]
                self.program.set_scroll_top(to as i32);
            }
        }
    }

    /// The lines of the program that are in sight.
    pub(crate) fn draw_lines(&self, app: &App, picked: Option<usize>) {
        let Some(listing) = &app.model.listing else { return };
        let (first, second) = Panels::marked(app, picked);
        let line_of = |command: Option<usize>| command.and_then(|c| listing.line_of(c));
        let (selected, other) = (line_of(first), line_of(second));
        // Asked before the lines are gone: without them there is nothing to scroll to the right, and the place there is lost.
        let (top, height) = (self.program.scroll_top(), self.program.client_height());
        self.lines.set_text_content(None);
        for line in in_sight(listing, f64::from(top), f64::from(height)) {
            let class = match line {
                _ if Some(line) == selected => "sl-line is-selected",
                _ if Some(line) == other => "sl-line is-second",
                _ => "sl-line",
            };
            let element: HtmlElement = self.element("div", class, "").unchecked_into();
            set(&element, "data-line", &line.to_string());
            append(&element, &self.element("span", "", &(line + 1).to_string()));
            append(&element, &self.document.create_text_node(&listing.lines[line]));
            let _ = element.style().set_property("top", &format!("{}px", line as f64 * LINE));
            append(&self.lines, &element);
        }
    }

    /// The lanes on screen and the slices of one of them, for screen readers.
    pub(crate) fn table(&self, app: &App) {
        let Grid { caption, lanes } = app.grid();
        self.part(".sl-mirror caption").set_text_content(Some(&caption));
        let body = self.part(".sl-mirror tbody");
        body.set_text_content(None);
        for lane in lanes {
            let line = self.element("tr", "", "");
            let name = self.element("th", "", &lane.name);
            set(&name, "scope", "row");
            append(&line, &name);
            for (words, is_selected) in lane.cells {
                let cell = self.element("td", "", &words);
                set(&cell, "aria-selected", if is_selected { "true" } else { "false" });
                append(&line, &cell);
            }
            append(&body, &line);
        }
    }

    /// A few words beside the pointer.
    pub(crate) fn tip(&self, app: &App) {
        let (k, (x, y)) = match (app.hovered(), app.hovered_buffer(), app.pointer()) {
            (Some(k), _, Some(at)) => (k, at),
            (None, Some((name, told)), Some((x, y))) => return self.say_tip(&name, &told, x, y),
            _ => return self.tip.set_hidden(true),
        };
        let Details { title, place, rows, .. } = app.model.details(k);
        self.tip.set_text_content(None);
        append(&self.tip, &self.element("b", "", &title));
        append(&self.tip, &self.element("span", "", &place));
        let wanted = ["memory", "bytes", "took", "rate"];
        let told: Vec<String> = rows
            .into_iter()
            .filter(|(name, _)| wanted.contains(&name.as_str()))
            .map(|(name, value)| if name == "bytes" { format!("{value} B") } else { value })
            .collect();
        append(&self.tip, &self.element("span", "", &told.join(" · ")));
        self.place_tip(x, y);
    }

    /// A name and a line beside the pointer.
    pub(super) fn say_tip(&self, name: &str, told: &str, x: f64, y: f64) {
        self.tip.set_text_content(None);
        append(&self.tip, &self.element("b", "", name));
        append(&self.tip, &self.element("span", "", told));
        self.place_tip(x, y);
    }

    /// Shows the tip beside the pointer, on the side where there is room.
    pub(super) fn place_tip(&self, x: f64, y: f64) {
        self.tip.set_hidden(false);
        let (w, h) = (f64::from(self.tip.offset_width()), f64::from(self.tip.offset_height()));
        let (width, height) = (f64::from(self.plot.client_width()), f64::from(self.plot.client_height()));
        let left = if x + 14.0 + w <= width { x + 14.0 } else { (x - w - 10.0).max(0.0) };
        let top = if y + 16.0 + h <= height { y + 16.0 } else { (y - h - 10.0).max(0.0) };
        let style = self.tip.style();
        let _ = style.set_property("left", &format!("{left}px"));
        let _ = style.set_property("top", &format!("{top}px"));
    }

    /// Shows or hides the list of keys; says whether it is shown now.
    pub(crate) fn toggle_keys(&self, show: Option<bool>) {
        let keys = self.part(".sl-keys");
        let show = show.unwrap_or(keys.hidden());
        keys.set_hidden(!show);
        set(&self.part("[data-do=keys]"), "aria-expanded", if show { "true" } else { "false" });
    }
}

/// A command without a slice of its own, such as a declaration.
fn picked_command(app: &App, command: usize) -> Details {
    let listing = app.model.listing.as_ref();
    let line = listing.and_then(|l| l.line_of(command));
    let text = listing.and_then(|l| l.text_of(command)).unwrap_or_default();
    Details {
        title: text.to_owned(),
        place: match line {
            Some(line) => format!("command {command}, line {}", line + 1),
            None => format!("command {command}"),
        },
        rows: Vec::new(),
        why: vec!["It takes no time of its own on any lane.".to_owned()],
    }
}

/// Positions of the lines that a listing scrolled to `top` shows in `height` pixels, and a few around them.
fn in_sight(listing: &Listing, top: f64, height: f64) -> std::ops::Range<usize> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to int casts saturate"
    )]
    let at = |y: f64| (y / LINE).floor().max(0.0) as usize;
    at(top).saturating_sub(4)..(at(top + height.max(400.0)) + 4).min(listing.lines.len())
}

/// Sets an attribute whose name is known to be one.
pub(super) fn set(element: &Element, name: &str, value: &str) {
    let _ = element.set_attribute(name, value);
}

/// Appends a node that is nowhere yet.
pub(super) fn append(parent: &Element, child: &web_sys::Node) {
    let _ = parent.append_child(child);
}

/// Makes of `old`'s elements those of `new`. Those at the beginning that are of a kind stay, with other words: what has the focus keeps it.
fn renew(old: &Element, new: &Element) {
    for name in ["data-finding", "data-order", "aria-current", "aria-pressed"] {
        if let Some(value) = new.get_attribute(name) {
            set(old, name, &value);
        }
    }
    let mut pair = (old.first_element_child(), new.first_element_child());
    let words = new.text_content().filter(|_| pair.1.is_none());
    if pair.0.is_none() || pair.1.is_none() {
        old.set_text_content(words.as_deref());
    }
    while let (Some(there), Some(element)) = &pair
        && there.class_name() == element.class_name()
    {
        let next = (there.next_element_sibling(), element.next_element_sibling());
        renew(there, element);
        pair = next;
    }
    let (mut kept, mut fresh) = pair;
    while let Some(there) = kept {
        kept = there.next_element_sibling();
        there.remove();
    }
    while let Some(element) = fresh {
        fresh = element.next_element_sibling();
        append(old, &element);
    }
}
