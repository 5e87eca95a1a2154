//! Listens to pointer, wheel, keys and colour scheme, and hands what they mean to the viewer.

use std::cell::RefCell;
use std::rc::Rc;

use spanlift::hazard::Mode;
use spanlift::memory::MoveKind;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{
    AddEventListenerOptions, Element, Event, EventTarget, HtmlElement, HtmlSelectElement, KeyboardEvent,
    MouseEvent, PointerEvent, WheelEvent,
};

use crate::entry::Viewer;
use crate::grip::{Grip, Turn};

/// A viewer as its listeners share it.
pub(crate) type Shared = Rc<RefCell<Viewer>>;

/// Starts listening; lasts as long as the page.
pub(crate) fn listen(shared: &Shared, alone: bool) -> Result<(), JsValue> {
    let (root, plot, program) = {
        let viewer = shared.borrow();
        (viewer.panels.root.clone(), viewer.panels.plot.clone(), viewer.panels.program.clone())
    };
    pointer(shared, &plot)?;
    let canvas = shared.borrow().panels.part(".sl-canvas");
    on(shared, &canvas, "contextrestored", |viewer, _: Event| {
        viewer.forget_picture();
        true
    })?;
    wheel(shared, &root, &plot, alone)?;
    let target: EventTarget = match root.owner_document() {
        Some(document) if alone => document.into(),
        _ => root.clone().into(),
    };
    on(shared, &target, "keydown", |viewer, event: KeyboardEvent| keyed(viewer, &event))?;
    on(shared, &target, "keyup", |viewer, event: KeyboardEvent| {
        viewer.holds_space &= event.key() != " ";
        false
    })?;
    // A key that is let go elsewhere is told to nobody here.
    let window: Option<EventTarget> = web_sys::window().map(Into::into);
    on(shared, &window.unwrap_or(target), "blur", |viewer, _: Event| {
        viewer.holds_space = false;
        false
    })?;
    on(shared, &root, "click", |viewer, event: MouseEvent| {
        event.target().is_some_and(|t| clicked(viewer, t.unchecked_ref()))
    })?;
    on(shared, &root, "change", |viewer, event: Event| {
        let list: Option<HtmlSelectElement> = event.target().and_then(|t| t.dyn_into().ok());
        match list
            .filter(|list| list.closest(".sl-items").is_ok_and(|nav| nav.is_some()))
            .and_then(|list| usize::try_from(list.selected_index()).ok())
        {
            Some(item) => viewer.open(item),
            None => return false,
        }
        true
    })?;
    on(shared, &program, "scroll", |viewer, _: Event| {
        viewer.draw_lines();
        false
    })?;
    let window = web_sys::window().ok_or("no window")?;
    if let Some(query) = window.match_media("(prefers-color-scheme: dark)")? {
        let list = query.clone();
        on(shared, &query, "change", move |viewer, _: Event| {
            viewer.system_is(list.matches());
            true
        })?;
    }
    Ok(())
}

/// Calls `handle` at each event of a kind; it says whether the picture changed.
fn on<E: JsCast>(
    shared: &Shared,
    target: &EventTarget,
    kind: &str,
    mut handle: impl FnMut(&mut Viewer, E) -> bool + 'static,
) -> Result<(), JsValue> {
    let shared = Rc::clone(shared);
    let heard = Closure::<dyn FnMut(Event)>::new(move |event: Event| {
        // An event that the viewer's own changes cause while it works is none of a person.
        let changed = match shared.try_borrow_mut() {
            Ok(mut viewer) => handle(&mut viewer, event.unchecked_into()),
            Err(_) => false,
        };
        if changed {
            schedule(&shared);
        }
    });
    let options = AddEventListenerOptions::new();
    options.set_passive(false);
    let heard_by = heard.as_ref().unchecked_ref();
    target.add_event_listener_with_callback_and_add_event_listener_options(kind, heard_by, &options)?;
    heard.forget();
    Ok(())
}

/// Draws before the next frame, once however often it is asked.
pub(crate) fn schedule(shared: &Shared) {
    let Ok(mut viewer) = shared.try_borrow_mut() else { return };
    if std::mem::replace(&mut viewer.is_scheduled, true) {
        return;
    }
    drop(viewer);
    let drawn = Rc::clone(shared);
    let draw = Closure::once_into_js(move || {
        if let Ok(mut viewer) = drawn.try_borrow_mut() {
            viewer.is_scheduled = false;
            viewer.draw();
        }
    });
    if let Some(window) = web_sys::window() {
        // Refused only by windows that are gone.
        let _ = window.request_animation_frame(draw.unchecked_ref());
    }
}

fn pointer(shared: &Shared, plot: &HtmlElement) -> Result<(), JsValue> {
    fn at(plot: &Element, event: &MouseEvent) -> (f64, f64) {
        let corner = plot.get_bounding_client_rect();
        (f64::from(event.client_x()) - corner.left(), f64::from(event.client_y()) - corner.top())
    }
    let place = plot.clone();
    on(shared, plot, "pointerdown", move |viewer, event: PointerEvent| {
        let grip = match event.button() {
            0 if viewer.holds_space => Grip::Pan,
            0 if event.shift_key() => Grip::Range,
            0 if event.pointer_type() == "touch" => Grip::Touch,
            0 => Grip::Main,
            1 => Grip::Pan,
            _ => return false,
        };
        // Without capture a drag ends at the edge, which is no harm.
        let _ = place.set_pointer_capture(event.pointer_id());
        let (x, y) = at(&place, &event);
        viewer.with(|app| app.pressed(x, y, grip));
        true
    })?;
    let place = plot.clone();
    on(shared, plot, "pointermove", move |viewer, event: PointerEvent| {
        let (x, y) = at(&place, &event);
        viewer.with(|app| app.pointer_moved(x, y));
        let _ = place.class_list().toggle_with_force("is-dragging", viewer.is_panning());
        true
    })?;
    let place = plot.clone();
    on(shared, plot, "pointerup", move |viewer, event: PointerEvent| {
        let (x, y) = at(&place, &event);
        viewer.with(|screen| screen.released(x, y));
        viewer.pick(None);
        let _ = place.class_list().remove_1("is-dragging");
        true
    })?;
    on(shared, plot, "pointercancel", |viewer, _: PointerEvent| {
        viewer.with(crate::screen::Screen::let_go);
        true
    })?;
    on(shared, plot, "pointerleave", |viewer, _: PointerEvent| {
        viewer.with(crate::screen::Screen::pointer_left);
        true
    })?;
    // The browser scrolls by the middle button of its own accord.
    on(shared, plot, "mousedown", |_, event: MouseEvent| {
        if event.button() == 1 {
            event.prevent_default();
        }
        false
    })?;
    on(shared, plot, "dblclick", |viewer, _: MouseEvent| {
        viewer.with(crate::screen::Screen::fit_selected);
        true
    })
}

fn wheel(shared: &Shared, root: &HtmlElement, plot: &HtmlElement, alone: bool) -> Result<(), JsValue> {
    let (root, place) = (root.clone(), plot.clone());
    on(shared, plot, "wheel", move |viewer, event: WheelEvent| {
        // Inside a longer page the wheel scrolls that page until the viewer has been clicked.
        let has_focus = root.matches(":focus-within").unwrap_or(false);
        let turn = match (event.ctrl_key(), event.shift_key()) {
            (true, _) => Turn::Zoom,
            _ if !(alone || has_focus) => return false,
            (false, true) => Turn::Pan,
            (false, false) => Turn::Scroll,
        };
        let scale = match event.delta_mode() {
            WheelEvent::DOM_DELTA_LINE => 33.0,
            WheelEvent::DOM_DELTA_PAGE => 400.0,
            _ => 1.0,
        };
        // Two fingers that spread send small steps.
        let scale = if event.ctrl_key() && event.delta_y().abs() < 50.0 { scale * 4.0 } else { scale };
        let corner = place.get_bounding_client_rect();
        let at = (f64::from(event.client_x()) - corner.left(), f64::from(event.client_y()) - corner.top());
        let by = (event.delta_x() * scale, event.delta_y() * scale);
        let moved = viewer.with(|app| app.wheel(at, by, turn)).unwrap_or(false);
        // At the end of what can be scrolled the wheel is the page's around it; sideways that would be its history.
        let is_sideways = turn == Turn::Pan || by.0.abs() > by.1.abs();
        if moved || turn == Turn::Zoom || alone && is_sideways {
            event.prevent_default();
        }
        moved
    })
}

fn keyed(viewer: &mut Viewer, event: &KeyboardEvent) -> bool {
    if event.ctrl_key() || event.alt_key() || event.meta_key() {
        return false;
    }
    let key = event.key();
    let target: Option<Element> = event.target().and_then(|t| t.dyn_into().ok());
    let is = |selector: &str| target.as_ref().is_some_and(|t| t.closest(selector).ok().flatten().is_some());
    if is("input:not([type=checkbox]), textarea, select, [contenteditable]") {
        return false;
    }
    let means = match key.as_str() {
        "Enter" | " " if is("button, a, summary, input") => false,
        // Held down it makes every drag pan; the page around is not to scroll by it.
        " " => {
            viewer.holds_space = true;
            event.prevent_default();
            false
        }
        "?" => {
            viewer.panels.toggle_keys(None);
            true
        }
        "Escape" if viewer.has_keys_shown() => {
            viewer.panels.toggle_keys(Some(false));
            true
        }
        "t" | "T" => {
            viewer.toggle_theme();
            true
        }
        "ArrowUp" | "ArrowDown" if is(".sl-program") => {
            viewer.step_line(if key == "ArrowDown" { 1 } else { -1 });
            true
        }
        _ => {
            let means = viewer.with(|app| app.key(&key, event.shift_key())).unwrap_or(false);
            if means {
                viewer.pick(None);
            }
            means
        }
    };
    if means {
        event.prevent_default();
    }
    means
}

/// A click on something that names what it does.
fn clicked(viewer: &mut Viewer, target: &Element) -> bool {
    let named = |name: &str| -> Option<String> {
        target.closest(&format!("[{name}]")).ok().flatten()?.get_attribute(name)
    };
    let number = |name: &str| named(name).and_then(|n| n.parse::<usize>().ok());
    if let Some(what) = named("data-do") {
        match what.as_str() {
            "theme" => viewer.toggle_theme(),
            "keys" => viewer.panels.toggle_keys(None),
            // The page's own script does the rest.
            _ => return false,
        }
    } else if let Some(mode) = named("data-mode") {
        viewer.with_time(|app| app.set_mode(if mode == "typical" { Mode::Typical } else { Mode::Contract }));
    } else if let Some(kind) = named("data-kind") {
        viewer
            .with_memory(|app| app.set_kind(if kind == "naive" { MoveKind::Naive } else { MoveKind::Aware }));
    } else if let Some(item) = number("data-item") {
        viewer.open(item);
    } else if let Some(order) = named("data-order") {
        viewer.pick(None);
        viewer.with_time(|app| app.show_order(order.parse().ok()));
    } else if let Some(finding) = number("data-finding") {
        viewer.pick(None);
        viewer.with_time(|app| app.select_finding(finding));
    } else if let Some(line) = number("data-line") {
        viewer.pick_line(line);
    } else {
        return false;
    }
    true
}
