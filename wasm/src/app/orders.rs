//! The orders of the chosen finding, and which of them is shown in place of the times.

use super::App;
use crate::orders::{self, Order};
use crate::rows::Rows;

/// What an [`App`] knows of orders.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    /// The finding that they belong to.
    of: Option<usize>,
    made: Vec<Order>,
    /// Why there are none that could be shown.
    why: Option<String>,
    shown: Option<usize>,
    /// The times and the marks in them, while an order is shown.
    times: Option<Box<(spanlift::Trace, Rows, Vec<i64>)>>,
}

impl App {
    /// The finding whose orders can be shown.
    pub fn orders_of(&self) -> Option<usize> {
        self.orders.of
    }

    /// The orders that show it: two for a race, none for what may be.
    pub fn orders(&self) -> &[Order] {
        &self.orders.made
    }

    /// Why the orders of the finding cannot be shown.
    pub fn no_orders(&self) -> Option<&str> {
        self.orders.why.as_deref()
    }

    /// The order that is shown; nothing while the times are.
    pub fn shown_order(&self) -> Option<usize> {
        self.orders.shown
    }

    /// Makes the orders of a finding, and shows the times.
    pub(super) fn make_orders(&mut self, of: usize) {
        if self.orders.of == Some(of) {
            return;
        }
        self.forget_orders();
        self.orders.of = Some(of);
        let Some(program) = &self.model.trace.program else { return };
        match orders::orders(program, self.mode, of) {
            Ok(made) => self.orders.made = made,
            Err(why) => self.orders.why = Some(why),
        }
    }

    pub(super) fn forget_orders(&mut self) {
        self.show_order(None);
        self.orders = Orders::default();
    }

    /// Shows an order of the chosen finding, or the times again; says whether there is such an order.
    pub fn show_order(&mut self, order: Option<usize>) -> bool {
        let Some(k) = order else {
            if let Some(times) = self.orders.times.take() {
                let marks;
                (self.model.trace, self.model.rows, marks) = *times;
                self.orders.shown = None;
                self.redrawn();
                self.tools.marks = marks;
            }
            return true;
        };
        let Some(wanted) = self.orders.made.get(k) else { return false };
        let rows = Rows::new(&wanted.trace, orders::lanes());
        let trace = std::mem::replace(&mut self.model.trace, wanted.trace.clone());
        let rows = std::mem::replace(&mut self.model.rows, rows);
        // From one order to the other the times stay kept.
        let marks = std::mem::take(&mut self.tools.marks);
        self.orders.times.get_or_insert_with(|| Box::new((trace, rows, marks)));
        self.orders.shown = Some(k);
        let (start, end) = wanted.around();
        let second = wanted.finding.slices.map(|(_, second)| second);
        self.redrawn();
        self.fit(start.0, end.0, 0.02);
        self.selected = second;
        if let Some(second) = second {
            self.scroll_to(second);
        }
        true
    }

    /// The times, the first order, the second, and the times again.
    pub(super) fn next_order(&mut self) {
        if self.orders.of.is_none() {
            self.next_finding(true);
        }
        let next = self.orders.shown.map_or(0, |k| k + 1);
        if !self.show_order(Some(next)) {
            self.show_order(None);
        }
    }

    /// Another trace is shown.
    fn redrawn(&mut self) {
        self.selected = None;
        self.forget_slices();
        self.drag = None;
        self.scroll = 0.0;
        let (width, height) = self.size;
        self.resize(width, height);
        self.fit_all();
    }
}

#[cfg(test)]
mod tests {
    use crate::app::App;
    use crate::model::Model;
    use crate::pack::PageItem;
    use crate::theme::Theme;

    const RACE: &str = "stream copy, compute\npinned x 4MiB\ndevice d 4MiB\nwrite x\ncopy d <- x on copy\n\
                        kernel scale on compute reads d writes d for 120us\nsync compute\n";

    fn app() -> App {
        let model = Model::open(&PageItem::source("race", RACE, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.resize(900.0, 320.0);
        app
    }

    /// The names of the slices of both accesses, from left to right.
    fn ends(app: &App) -> Vec<String> {
        let order = &app.orders()[app.shown_order().unwrap()];
        let (a, b) = order.finding.slices.unwrap();
        let slices = &app.model.trace.slices;
        let mut both = [a as usize, b as usize];
        both.sort_by_key(|&k| slices.start[k]);
        both.map(|k| app.model.trace.strings.get(slices.name[k]).to_owned()).to_vec()
    }

    #[test]
    fn what_was_read_in_the_timed_run_is_not_said_of_an_order() {
        let text = "stream copy, compute\npinned x 4MiB = f32 fill 1\ndevice d 4MiB\npinned y 4MiB = f32 fill 0\n\
                    copy d <- x on copy\ncopy y <- d on compute\nsync compute\nread y expect f32 fill 1\n";
        let model = Model::open(&PageItem::source("race", text, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.resize(900.0, 320.0);
        let of_times = |notes: &[crate::figure::Note]| {
            notes.iter().filter(|n| n.holds.is_some() || n.text.starts_with("clock")).count()
        };
        assert_eq!(of_times(&app.model.notes), 2, "{:?}", app.model.notes);
        assert!(app.select_finding(0) && app.show_order(Some(1)));
        let read = app.model.read();
        assert_eq!(of_times(&read), 0, "{read:?}");
        let n = format!("{} slices", app.model.trace.slices.len());
        assert!(read[0].text.ends_with(&n), "as many as the order has: {read:?}");
    }

    #[test]
    fn lanes_of_an_order_are_called_as_in_times() {
        let text = RACE.replace("stream copy, compute", "stream copy").replace("compute", "0");
        let model = Model::open(&PageItem::source("race", &text, "h200-pcie5")).unwrap();
        let mut app = App::new(model, Theme::LIGHT);
        app.select_finding(0);
        let names = |app: &App| app.model.rows.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        let times = names(&app);
        assert!(times.iter().any(|name| name == "default stream"), "{times:?}");
        app.show_order(Some(0));
        for name in names(&app) {
            assert!(times.contains(&name), "{name:?} is none of {times:?}");
        }
    }

    #[test]
    fn a_finding_is_seen_in_both_orders_and_then_in_times_again() {
        let mut app = app();
        let before = (app.model.trace.clone(), app.view());
        assert!(app.orders().is_empty() && !app.show_order(Some(0)));
        assert!(app.select_finding(0));
        assert_eq!(app.orders().len(), 2);
        assert!(app.show_order(Some(0)));
        assert_eq!(ends(&app), ["copy to d", "scale"]);
        assert!(app.show_order(Some(1)));
        assert_eq!(ends(&app), ["scale", "copy to d"]);
        assert!(!app.show_order(Some(2)));
        // Both accesses are outlined, and the line between them is there.
        let red = |app: &App| {
            let scene = app.scene();
            scene.rects().filter(|r| r.outline.is_some_and(|o| o.color == app.theme.hazard)).count()
        };
        assert_eq!(red(&app), 2);
        assert_eq!(app.model.clock(0), "step 1");
        app.key("Escape", false);
        assert_eq!((app.shown_order(), app.orders_of()), (None, Some(0)), "the finding stays chosen");
        assert_eq!(app.model.trace, before.0);
        assert_eq!(app.view(), before.1);
    }

    #[test]
    fn an_order_has_no_lengths_of_time_and_marks_of_its_own() {
        let mut app = app();
        app.set_at(Some(7));
        app.key("m", false);
        assert!(app.select_finding(0) && app.show_order(Some(0)));
        assert_eq!(app.marks(), [0; 0]);
        assert_eq!(app.between(7_000, 8_000, ": 1 µs"), "step 8 to step 9");
        app.set_at(Some(2_000));
        app.key("m", false);
        assert_eq!(app.marks(), [2_000]);
        assert!(app.show_order(Some(1)));
        assert_eq!(app.marks(), [0; 0]);
        app.show_order(None);
        assert_eq!(app.marks(), [7]);
        assert!(app.between(7_000, 8_000, ": 1 µs").ends_with(": 1 µs"));
    }

    #[test]
    fn a_key_goes_through_them_and_a_new_choice_leaves_them() {
        let mut app = app();
        let mut seen = Vec::new();
        for _ in 0..4 {
            app.key("o", false);
            seen.push(app.shown_order());
        }
        assert_eq!(seen, [Some(0), Some(1), None, Some(0)]);
        let finding = app.orders_of();
        app.key("ArrowRight", false);
        assert_eq!(
            (app.shown_order(), app.orders_of()),
            (Some(0), finding),
            "slices of an order can be chosen"
        );
        app.key("n", false);
        assert_eq!(app.shown_order(), None);
        app.key("o", false);
        app.key("y", false);
        assert_eq!((app.shown_order(), app.orders().len()), (None, 0), "the other relation has its own");
    }

    #[test]
    fn without_a_finding_there_is_nothing_to_show() {
        let item = PageItem::source("safe", "stream s\ndevice d 8\nkernel on s writes d\n", "h200-pcie5");
        let mut app = App::new(Model::open(&item).unwrap(), Theme::LIGHT);
        assert!(app.key("o", false));
        assert_eq!(app.shown_order(), None);
        assert!(app.show_order(None));
    }

    /// The time of a picture of an order: of few steps all but the declarations that stand first, of many those around both accesses.
    #[test]
    fn a_picture_of_an_order_has_the_steps_around_both_accesses() {
        let declares = |name: &str| ["stream", "event_create", "alloc"].contains(&name);
        let (mut n_few, mut n_many) = (0, 0);
        for (before, between) in [(0, 0), (3, 0), (20, 0), (0, 25), (40, 3), (60, 60)] {
            let fill = |n: usize| "write y\n".repeat(n);
            let text = format!(
                "stream copy, compute\npinned x 64\npinned y 64\ndevice d 64\n{}copy d <- x on copy\n{}kernel k on compute reads d for 1us\n{}sync compute\nsync copy\n",
                fill(before),
                fill(between),
                fill(7)
            );
            let mut app =
                App::new(Model::open(&PageItem::source("p", text, "h200-pcie5")).unwrap(), Theme::LIGHT);
            app.resize(900.0, 320.0);
            assert!(app.select_finding(0));
            for order in app.orders() {
                let n = order.trace.slices.len();
                let (a, b) = order.finding.slices.unwrap();
                let (first, last) = (a.min(b) as usize, a.max(b) as usize);
                let commands = order.trace.program.as_ref().unwrap().commands();
                let is_declared = |&k: &usize| {
                    let command = commands.get(order.trace.slices.command[k] as usize);
                    command.is_some_and(|command| declares(command.op.name()))
                };
                let expected = if n <= 48 {
                    n_few += 1;
                    ((0..n).take_while(is_declared).count().min(first), n)
                } else {
                    n_many += 1;
                    (first.max(8) - 8, n.min(last + 9))
                };
                let (from, to) = order.around();
                let step = spanlift::explore::STEP.0;
                assert_eq!(
                    (from.0, to.0),
                    (expected.0 as i64 * step, expected.1 as i64 * step),
                    "{before}, {between}"
                );
            }
        }
        assert!(n_few > 3 && n_many > 3, "{n_few}, {n_many}");
    }
}
