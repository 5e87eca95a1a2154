// What can be done with the slice or lane under the pointer, as a menu, and its lanes in another order.

/** Ways that a lane goes, by the letter that stands for them in an address: up, down, to the top of all. */
const WAYS = { u: -1, d: 1, t: -(2 ** 31) };

/** Lanes in another order. */
const lanes = (view) => {
  let [moved, shows, isNew] = [[], null, false];
  let by = "";
  const shift = (row, way) => {
    if (row === undefined || !WAYS[way]) return;
    view.shift(row, WAYS[way]);
    moved.push(`${row}${way}`);
  };
  /** Rows by stream, engine or kind, none of them moved. */
  const group = (wanted) => {
    [moved, by] = [[], wanted];
    view.group(by);
  };
  return {
    shift,
    group,
    by: () => by,
    /** The moves so far, to do them again. */
    moves: () => moved.join(),
    /** Groups and moves as these words say, of what is shown or was just opened. */
    again(wanted, moves, isOpened) {
      if (isOpened) [moved, by, isNew] = [[], "", true];
      if (wanted === by && moves === moved.join()) return;
      if (wanted !== by || moved.length) group(wanted);
      for (const move of moves.split(",")) shift(Number.parseInt(move, 10), move.at(-1));
    },
    /** What was opened anew has its lanes as the file has them. */
    shown(opened) {
      if (shows !== null && opened !== shows && !isNew) [moved, by] = [[], ""];
      [shows, isNew] = [opened, false];
    },
  };
};

/** The menu over the picture; `entries(row)` are words, keys, acts and, of what is one of several, whether it is chosen; nothing for a line between them. */
const menu = (place, entries) => {
  const plot = place.querySelector(".sl-plot");
  let list = null;
  const close = (returns) => {
    const was = list;
    // Taking it away takes the focus from it, which closes it.
    list = null;
    was?.remove();
    if (returns) plot.focus({ preventScroll: true });
  };
  const open = (x, y, found) => {
    close();
    if (!found.length) return;
    const entry = ([words, key, act, isChosen]) => {
      const role = isChosen === undefined ? { role: "menuitem" } : { role: "menuitemradio", ariaChecked: String(isChosen) };
      const button = make("button", { type: "button", ...role, tabIndex: -1 }, words, make("kbd", { textContent: key }));
      button.addEventListener("click", () => {
        close(true);
        act();
      });
      return button;
    };
    list = make("div", { className: "sl-menu", role: "menu", ariaLabel: "what can be done here" }, ...found.map((one) => (one ? entry(one) : make("hr"))));
    place.querySelector(".sl-view").append(list);
    const box = place.getBoundingClientRect();
    list.style.left = `${Math.max(0, Math.min(x - box.left, box.width - list.offsetWidth - 4))}px`;
    list.style.top = `${Math.max(0, Math.min(y - box.top, box.height - list.offsetHeight - 4))}px`;
    list.querySelector("button").focus({ preventScroll: true });
    // Where a press takes the focus away from a button instead of giving it, the menu would be gone before the click.
    list.addEventListener("mousedown", (event) => event.preventDefault());
    list.addEventListener("focusout", (event) => list && !list.contains(event.relatedTarget) && close());
    list.addEventListener("keydown", (event) => {
      event.stopPropagation();
      const buttons = [...list.querySelectorAll("button")];
      const at = buttons.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at + buttons.length - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (to !== undefined) buttons[to % buttons.length].focus();
      else if (event.key === "Escape" || event.key === "Tab") close(true);
      else return;
      event.preventDefault();
    });
  };
  plot.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    const [box, { plotX }] = [plot.getBoundingClientRect(), plot.querySelector(".sl-canvas").dataset];
    const { clientX, clientY } = event;
    // Over the plot what is pressed is chosen first, as everywhere.
    if (clientX - box.left >= Number(plotX)) {
      for (const kind of ["pointerdown", "pointerup"]) plot.dispatchEvent(new PointerEvent(kind, { clientX, clientY, button: 0, shiftKey: true }));
    }
    // What can be done depends on it: behind the frame that shows it.
    requestAnimationFrame(() => open(clientX, clientY, entries(clientY - box.top)));
  });
  plot.addEventListener("pointerdown", () => close());
  plot.addEventListener("keydown", (event) => {
    if (event.key !== "ContextMenu" && !(event.key === "F10" && event.shiftKey)) return;
    event.preventDefault();
    const box = plot.getBoundingClientRect();
    open(box.left + box.width / 3, box.top + 40, entries());
  });
};

/** A drag with alt over the picture shows what it went over; two fingers zoom as far as they go apart. */
const zooming = (view, plot) => {
  const [fingers, chosen] = [new Map(), make("div", { className: "sl-chosen", hidden: true })];
  plot.append(chosen);
  const spread = (event) => {
    if (event.pointerType !== "touch") return false;
    const across = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    };
    const before = fingers.size === 2 && across();
    if (event.type === "pointerup" || event.type === "pointercancel") fingers.delete(event.pointerId);
    else if (event.type === "pointerdown" || fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size !== 2) return false;
    const [a, b] = [...fingers.values()];
    if (event.type === "pointerdown") plot.dispatchEvent(new PointerEvent("pointercancel"));
    else if (before > 1) plot.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, cancelable: true, deltaY: 100 * Math.log(before / across()), clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 }));
    return true;
  };
  let from = null;
  const at = (event) => {
    const { plotX, plotWidth } = plot.querySelector(".sl-canvas").dataset;
    return Math.min(1, Math.max(0, (event.clientX - plot.getBoundingClientRect().left - plotX) / plotWidth));
  };
  // Before those who pan hear of it.
  const on = (kind, act) => plot.addEventListener(kind, (event) => act(event) && event.stopImmediatePropagation(), true);
  for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) on(kind, spread);
  on("pointerdown", (event) => {
    if (!event.altKey || event.button || !view.times().length) return false;
    plot.setPointerCapture(event.pointerId);
    from = at(event);
    return true;
  });
  on("pointermove", (event) => {
    if (from === null) return false;
    const [{ plotX, plotWidth }, [a, b]] = [plot.querySelector(".sl-canvas").dataset, [from, at(event)].sort((a, b) => a - b)];
    chosen.style.left = `${Number(plotX) + a * plotWidth}px`;
    chosen.style.width = `${(b - a) * plotWidth}px`;
    chosen.hidden = false;
    return true;
  });
  const end = (event) => {
    if (from === null) return false;
    const [[a, b], [start, end]] = [[from, at(event)].sort((a, b) => a - b), view.times()];
    if (event.type === "pointerup" && b > a) view.show(start + a * (end - start), start + b * (end - start));
    from = null;
    return (chosen.hidden = true);
  };
  on("pointerup", end);
  on("pointercancel", end);
};
