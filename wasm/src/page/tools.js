// The tools around the canvas: files, search, ranges, marks, the strip. What they show is asked of the viewer.

const make = (tag, props = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...children);
  return made;
};
/** Makes the children of an element say these lines, one each; those that are there say another. */
const say = (parent, tag, lines) => {
  for (const [k, line] of lines.entries()) {
    const child = parent.children[k] ?? parent.appendChild(make(tag, {}, ""));
    if (child.firstChild.data !== line) child.firstChild.data = line;
  }
  while (parent.childElementCount > lines.length) parent.lastElementChild.remove();
};
const rows = (head, lines) => {
  const cell = (tag) => (text) => make(tag, { textContent: text, ...(tag === "th" ? { scope: "col" } : {}) });
  return make("table", {}, make("thead", {}, make("tr", {}, ...head.map(cell("th")))), make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map(cell("td"))))));
};

let places = 0;
/** A viewer of a block in a place. Its parts bear the name of a place that has one, since a page may have several. */
const mounted = (place, block, alone) => {
  place.append(make("div", { className: "sl-view", innerHTML: BODY }));
  if (place.hasAttribute("aria-label")) {
    place.id ||= `sl-${(places += 1)}`;
    for (const [k, part] of place.querySelectorAll("section, nav, [role=region]").entries()) {
      part.id = `${place.id}-${k}`;
      part.setAttribute("aria-labelledby", `${part.id} ${place.id}`);
    }
  }
  const [view, plot] = [mount(place, block, alone), place.querySelector(".sl-plot")];
  // On another screen, or with another zoom, the same size has other pixels.
  const sizes = new ResizeObserver(() => view.key("", false));
  try {
    sizes.observe(plot, { box: "device-pixel-content-box" });
  } catch {
    sizes.observe(plot);
  }
  return view;
};

/** Where keys are for what is written or chosen there. */
const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

/** A word of a search that is no part of its regular expression. */
const WORD = /(?<=^|\s)(?:(?:cat|kind|pinned|stream):\S*|name~\S*|[<>]=?\d\S*)(?=\s|$)/gi;
/** What a label says behind a name: kind and memory. */
const BEHIND = /, [^,]+(, pinned|, pageable)?$/;

const tools = (view, place, alone, { module, examples }) => {
  const part = (selector) => place.querySelector(selector);
  const shown = (element, is) => (element.hidden = !is);
  let told = {};

  // Files: several at once, one after the other, so that what can be shown is shown.
  const [refused, progress] = [part(".sl-refused"), part(".sl-progress")];
  let cancelled = false;
  /** The files that items were read from, unpacked. */
  const wholes = new Map();
  const refuse = (lines) => {
    refused.firstElementChild.textContent = lines.join("\n");
    shown(refused, lines.length);
  };
  // Files that come while others are read wait for them, and what was refused of those is still told.
  let [reading, waiting, wrong] = [Promise.resolve(), 0, []];
  const open = (files) => {
    if (!waiting) refuse((wrong = []));
    waiting += 1;
    reading = reading.then(() => readAll(files)).finally(() => shown(progress, (waiting -= 1)));
  };
  const readAll = async (files) => {
    cancelled = false;
    if (files.some((file) => file.size > LARGE)) prepare(module);
    shown(progress, true);
    const tell = (words, of) => {
      if (cancelled) throw new DOMException("cancelled", "AbortError");
      const [line, bar] = progress.children;
      if (of === undefined) return;
      line.textContent = words;
      if (of === null) bar.removeAttribute("value");
      else bar.value = of;
    };
    for (const file of files) {
      try {
        const events = (words, part) => tell(`${words} of ${file.name}`, part);
        // A large trace that is not packed is never held as a whole.
        const head = new Uint8Array(await file.slice(0, LARGE + 1).arrayBuffer());
        let [bytes, whole] = [head.length > LARGE && isTrace(head) ? await inColumns(file, module, events) : null, file];
        if (!bytes) {
          bytes = await opened(file, tell);
          if (bytes.length > LARGE && isTrace(bytes)) {
            whole = new Blob([bytes]);
            bytes = (await inColumns(whole, module, events)) ?? bytes;
          }
        }
        tell(`showing ${file.name}`, null);
        // Enough is read in no time; else the line is drawn first.
        if (bytes.length > 8 * LARGE) await new Promise((next) => setTimeout(next, 20));
        view.add(file.name, bytes);
        wholes.set(view.item(), whole);
      } catch (error) {
        if (error.name === "AbortError") break;
        const [first, second, third, ...more] = `${file.name}: ${error?.message ?? error}`.split("\n");
        wrong.push(...[first, second, third, more.length && `and ${more.length} more`].filter(Boolean));
      }
    }
    refuse(wrong);
  };
  /** Reads arguments that were left in the file. */
  const read = async ({ slice, left }) => {
    const shows = view.item();
    const bytes = new Uint8Array(await wholes.get(shows).slice(left, left + LARGE).arrayBuffer());
    if (view.item() === shows) view.give(slice, bytes);
  };
  const chooser = part(".sl-files");
  chooser.addEventListener("click", () => prepare(module));
  chooser.addEventListener("change", () => {
    open([...chooser.files]);
    chooser.value = "";
  });
  const target = alone ? document : place;
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    target.addEventListener(kind, (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      place.classList.toggle("is-over", kind === "dragenter" || kind === "dragover");
      if (kind === "dragenter") prepare(module);
      if (kind === "drop") open([...event.dataTransfer.files]);
    });
  }

  // Search: the browser's own regular expressions, tried on every different label once.
  const [search, hits] = [part(".sl-search"), part(".sl-hits")];
  const find = () => {
    hits.classList.remove("is-bad");
    hits.textContent = "";
    search.removeAttribute("aria-invalid");
    try {
      // Words that ask for more than a name; the rest is one expression, its blanks as they are.
      const words = [];
      const rest = search.value.replace(WORD, (word) => (words.push(word), "")).trim();
      // Between slashes with flags of its own, as the field says; else in any case.
      const [, written, flags] = /^\/(.+)\/([imsuv]*)$/.exec(rest) ?? [rest, rest, "i"];
      const pattern = rest && new RegExp(written, flags);
      // An end is that of a name, too.
      const isFound = (label) => pattern.test(label) || pattern.test(label.replace(BEHIND, ""));
      view.find(pattern ? Uint8Array.from(view.labels().split("\n"), isFound) : new Uint8Array(), words.join(" "));
    } catch (error) {
      view.find(new Uint8Array(), "");
      hits.textContent = error.message ?? error;
      hits.classList.add("is-bad");
      search.setAttribute("aria-invalid", "true");
    }
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") view.key("n", event.shiftKey);
    else if (event.key === "Escape") {
      search.value = "";
      find();
      part(".sl-plot").focus();
    } else return;
    event.preventDefault();
  });

  // The strip: a click or a drag inside the window moves it, a drag elsewhere chooses what is shown.
  const [strip, chosen] = [part(".sl-strip"), part(".sl-chosen")];
  let drag = null;
  const timeAt = (event) => {
    const box = strip.getBoundingClientRect();
    const [, , first, last] = view.times();
    return first + (last - first) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const centre = (at, [from, to]) => view.show(at - (to - from) / 2, at + (to - from) / 2);
  choosing(view, strip, () => told.moments);
  strip.addEventListener("pointerdown", (event) => {
    if (told.moments) return;
    strip.setPointerCapture(event.pointerId);
    const [from, to, first, last] = view.times();
    const at = timeAt(event);
    // Of all that is on screen no part lies elsewhere.
    const isPart = to - from < 0.98 * (last - first);
    drag = { x: event.clientX, at, isPart, moves: from <= at && at <= to && isPart, from, to };
  });
  strip.addEventListener("pointermove", (event) => {
    if (!drag || Math.abs(event.clientX - drag.x) < 4) return;
    const [at, width, box] = [timeAt(event), strip.clientWidth, strip.getBoundingClientRect()];
    if (drag.moves) view.show(drag.from + at - drag.at, drag.to + at - drag.at);
    else {
      drag.until = at;
      const [a, b] = [drag.x, event.clientX].map((x) => Math.min(width, Math.max(0, x - box.left))).sort((a, b) => a - b);
      chosen.style.left = `${a}px`;
      chosen.style.width = `${b - a}px`;
      shown(chosen, true);
    }
  });
  strip.addEventListener("pointerup", (event) => {
    if (drag?.until !== undefined) view.show(Math.min(drag.at, drag.until), Math.max(drag.at, drag.until));
    else if (drag && drag.isPart && Math.abs(event.clientX - drag.x) < 4) centre(drag.at, view.times());
    drag = null;
    shown(chosen, false);
  });
  strip.addEventListener("pointercancel", () => shown(chosen, (drag = null)));
  strip.addEventListener("keydown", (event) => {
    const key = { ArrowLeft: "a", ArrowRight: "d", "+": "w", "-": "s", Home: "0" }[event.key];
    if (told.moments || !key || event.altKey) return;
    view.key(key, event.shiftKey);
    event.preventDefault();
    event.stopPropagation();
  });

  const second = beside(view, place);
  const text = program(view, place, second, examples);
  const { save, png, hand } = carried(view, place, second, text);
  const csv = () => "marks" in told && hand(new Blob([view.csv()], { type: "text/csv" }), "csv");
  const packets = () => "marks" in told && hand(perfetto(view.csv(), view.values()), "pftrace");
  const arranged = lanes(view);
  const advised = advice(view, place, alone);
  const past = steps(view, whole(view, place, { arranged, search, find, second, text, refuse }), alone);

  // What the cards say. That of a moment stays as it is made: a hand goes through a thousand of them.
  const moments = [make("div"), make("ol", { className: "sl-stack", tabIndex: 0 }), make("b"), make("ol", { className: "sl-stack", tabIndex: 0 })];
  const cards = () => {
    const { range, marks = [], at, state } = told;
    shown(part(".sl-range-part"), range);
    if (range) {
      // Figures stand below each other: a column for each has no room in a narrow card.
      const tables = [rows(["kind", "n", "time, bytes, rate"], range.kinds), rows(["lane", "n", "in use"], range.lanes)];
      const act = (name, title, words) => make("button", { type: "button", className: "sl-small", textContent: words, title, onclick: acts[name] });
      const row = make("div", { className: "sl-row" }, act("csv", "save these slices (V)", "CSV"), act("packets", "save these slices for Perfetto (shift V)", "Perfetto"));
      if (told.recorded) row.append(act("skeleton", "to edit and simulate", "as a program"));
      part("[data-totals]").replaceChildren(make("b", { textContent: range.words }), ...tables, row);
    }
    shown(part(".sl-marks-part"), marks.length);
    const mark = ([name, at, ns, after]) => {
      const button = make("button", { type: "button" }, make("b", { textContent: name }), at, make("span", { textContent: after ? `${after} later` : "" }));
      button.addEventListener("click", () => centre(ns, view.times()));
      return make("li", {}, button);
    };
    part(".sl-marks").replaceChildren(...marks.map(mark));
    part(".sl-at").textContent = at ?? (state ? "the end of what is selected" : "");
    shown(part(".sl-state-part"), state || told.moments);
    if (state) text.state(part("[data-state]"), state);
    if (told.moments) {
      const card = part("[data-state]");
      if (!moments[0].isConnected) card.replaceChildren(...moments);
      const [lines, stack, name, asked] = moments;
      const [words, frames] = told.block ?? ["", []];
      say(lines, "p", told.lines);
      say(stack, "li", told.stack);
      shown(stack, told.stack.length);
      name.textContent = words;
      shown(name, words);
      say(asked, "li", frames.length || !words ? frames : ["not in the file"]);
      shown(asked, words);
    }
    if (told.hits === null || told.hits === undefined) {
      if (!hits.classList.contains("is-bad")) hits.textContent = "";
    } else hits.textContent = told.hit === null ? `${told.hits.toLocaleString("en")} found` : `${told.hit + 1} of ${told.hits.toLocaleString("en")}`;
  };
  let [before, item, isMade, slow, resting, shows] = ["", -1, false, 0, 0];
  const canvas = part(".sl-canvas");
  const update = (isDue) => {
    clearTimeout(resting);
    const { told: other, range, lanes, at, slice, order } = canvas.dataset;
    const now = [other, range, lanes, at, slice, order].join("|");
    // The totals of a million slices take longer than a frame: while a hand drags they wait until it rests.
    if (slow > 30 && isDue !== true && part(".sl-plot").matches(":active")) resting = setTimeout(update, 150, true);
    else if (now !== before) {
      before = now;
      const isOther = view.item() !== item;
      if (isOther) {
        // Of many names two lines are in sight.
        if (item >= 0) part(".sl-items [aria-current=true]")?.scrollIntoView({ block: "nearest" });
        item = view.item();
        text.opened();
      }
      // The search goes on in what is shown now: another item, the program as it was edited, an order.
      if (shows !== (shows = other?.split(" ")[0] + order) && search.value) find();
      slow = performance.now();
      told = JSON.parse(view.told());
      slow = performance.now() - slow;
      arranged.shown(other?.split(" ")[0]);
      shown(part(".sl-find"), "marks" in told);
      shown(part("[data-do=beside]"), view.names().includes("\n"));
      cards();
      // The past of a snapshot is found once its last state is on screen.
      if (told.past) setTimeout(() => view.look_back(), 50);
      if (typeof told.left === "number" && wholes.has(item)) read(told).catch((error) => refuse([`${error?.message ?? error}`]));
      text.told(told);
      if (isOther) advised.opened(told);
      // Where the list of findings scrolls by itself the current one comes into sight, with its orders.
      const [list, current] = [".sl-findings", "[data-finding][aria-current=true]"].map(part);
      if (list.scrollHeight > list.clientHeight) current?.parentElement.scrollIntoView({ block: "nearest" });
      // A program that was just made is there to be edited.
      if (isMade) {
        isMade = false;
        text.edit();
      }
    }
    second.follow();
    past.note();
  };
  place.addEventListener("sl-drawn", () => queueMicrotask(update));
  // What had the focus and is gone leaves it to the picture.
  place.addEventListener("focusout", ({ target }) => setTimeout(() => document.activeElement === document.body && !target.checkVisibility() && part(".sl-plot").focus({ preventScroll: true })));

  const acts = {
    open: () => chooser.click(),
    dismiss: () => refuse([]),
    cancel: () => (cancelled = true),
    svg: save,
    png,
    csv,
    packets,
    skeleton() {
      try {
        view.skeleton();
        isMade = true;
      } catch (error) {
        refuse([String(error?.message ?? error)]);
      }
    },
    beside: second.toggle,
    edit: text.edit,
    // It is the last part of the page, and longer than a low window: keys scroll it from the first on.
    keys: () => part(".sl-keys").focus(),
  };
  place.addEventListener("click", (event) => {
    const what = event.target.closest?.("[data-do]")?.dataset.do;
    acts[what]?.();
    // In a narrow page the picture of what was chosen stands above the list.
    if (event.target.closest?.("[data-finding], [data-order]")) [part(".sl-body").scrollTop, shows] = [0, null];
  });
  const keys = { n: ({ shiftKey }) => (told.hits ?? null) === null && advised.step(shiftKey), l: acts.open, x: (event) => (event.shiftKey ? png() : save()), v: (event) => (event.shiftKey ? packets() : csv()), p: () => print(), c: second.toggle, e: text.edit, i: text.ask, "?": acts.keys, "/": () => search.select() ?? search.focus() };
  target.addEventListener("keydown", (event) => {
    // Back from a control that was changed: the browser would leave the page, and nothing is written there.
    const goes = event.altKey && /^Arrow[LR]/.test(event.key);
    if (event.ctrlKey || event.metaKey || event.target.closest?.(FIELDS)?.matches(goes ? ":not(select, [type=range])" : "*")) return;
    const lane = (way) => () => arranged.shift(view.row_at(), way);
    const act = event.altKey ? { ArrowLeft: past.back, ArrowRight: past.forth, ArrowUp: lane("u"), ArrowDown: lane("d") }[event.key] : keys[event.key.toLowerCase()];
    if (!act || act(event) === false) return;
    event.preventDefault();
  });
  menu(place, (y) => {
    const key = (name, shift = false) => () => view.key(name, shift);
    const all = ["show the whole", "0", key("0")];
    const saved = [["save as SVG", "X", save], ["save as PNG", "shift X", png]];
    if (!("marks" in told)) return [all, null, ...saved];
    const [slice, row, title] = [view.times().length > 4, view.row_at(y), part("[data-selection] b")?.textContent];
    const alike = () => {
      search.value = `^${title.replace(/[^\w ]/g, "\\$&")}, `;
      find();
    };
    const isName = title && view.labels().split("\n").some((label) => label.startsWith(`${title}, `));
    return [
      ...(slice ? [["fit", "F", key("f")], ["from call to work and back", "Enter", key("Enter")]] : [all]),
      ...(slice && told.program ? [["who wrote what it reads", "G", key("g")]] : []),
      ...(slice && isName ? [["find all of this name", "/", alike]] : []),
      ["a range with its totals", "R", key("r")],
      ["mark", "M", key("m")],
      ...(row === undefined ? [] : [null, ["lane up", "alt ↑", () => arranged.shift(row, "u")], ["lane down", "alt ↓", () => arranged.shift(row, "d")], ["lane to the top", "", () => arranged.shift(row, "t")]]),
      ...(told.order ? [] : [null, ...[["stream", ""], ["engine", "engine"], ["kind", "kind"]].map(([words, by]) => [`lanes by ${words}`, arranged.by() === by ? "✓" : "", () => arranged.group(by), arranged.by() === by])]),
      null,
      ["save as CSV", "V", csv],
      ["save for Perfetto", "shift V", packets],
      ...saved,
    ];
  });
  zooming(view, part(".sl-plot"));
  const letters = tellKeys(place);
  target.addEventListener("keydown", (event) => {
    const types = event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(FIELDS);
    // Where another script is written a key of one letter is the one in its place.
    const letter = /^Key(.)/.exec(event.code)?.[1];
    if (letter && !types && event.key > "~" && !event.getModifierState("AltGraph")) {
      event.stopImmediatePropagation();
      if (!event.target.dispatchEvent(new KeyboardEvent("keydown", { key: letter, shiftKey: event.shiftKey, bubbles: true, cancelable: true }))) event.preventDefault();
      return;
    }
    // What scrolls by itself does so by keys while it has the focus.
    const scrolls = /^(Page|Arrow(Up|Down)$)/.test(event.key) && event.target.matches?.(`.sl-keys, .sl-code, .sl-right, .sl-stack${event.key[0] === "P" ? ", .sl-program" : ""}`) && event.target.scrollHeight > event.target.clientHeight;
    if (scrolls || (!letters.checked && !types && event.key.length === 1 && event.key !== " ")) event.stopImmediatePropagation();
  }, true);
  update();
};

const missing = (item) => `${item >= 0 && item < 1e9 ? `item ${Math.floor(item) + 1}` : "what the address names"} is not in the page: open its file first`;

/** Everything that is chosen and shown, as the words of an address; and that shown again. */
const whole = (view, place, { arranged, search, find, second, text, refuse }) => {
  const part = (selector) => place.querySelector(selector);
  const canvas = part(".sl-canvas");
  const told = () => JSON.parse(view.told());
  // And the tools know of it.
  const drawn = () => new Promise((done) => place.addEventListener("sl-drawn", () => setTimeout(done), { once: true }));
  let first = view.times().join();
  const show = async (words) => {
    refuse([]);
    const wanted = new URLSearchParams(words);
    const number = (name) => Number(wanted.get(name) || NaN);
    const numbers = (name) => (wanted.get(name) ?? "").split(",").filter(Boolean).map(Number);
    const [item, from, to, slice, at, finding] = ["item", "from", "to", "slice", "at", "finding"].map(number);
    if (item >= view.names().split("\n").length) {
      // What else the address says is of what is not here: dropped files are not in the page.
      refuse([missing(item)]);
      return;
    }
    const chosen = item > 0 ? item : 0;
    const isOpened = chosen !== view.item();
    if (isOpened) view.open(chosen);
    if (!text.becomes(wanted.get("program") ?? "")) {
      refuse(["the edited program is not in the page"]);
      return;
    }
    if (isOpened) first = view.times().join();
    if (told().order) view.key("Escape", false);
    const isTime = view.times().length > 0;
    if (isTime) arranged.again(wanted.get("group") ?? "", wanted.get("lanes") ?? "", isOpened);
    for (const [name, usual, other] of [["mode", "contract", "typical"], ["kind", "aware", "naive"]]) {
      const button = part(`[data-${name}=${wanted.get(name) === other ? other : usual}]`);
      if (button.ariaPressed !== "true") button.click();
    }
    view.choose(0, 0);
    let isFound = false;
    if (finding >= 0) {
      const find = `[data-finding="${finding}"]`;
      // A finding and its orders can be chosen once they are there to be pressed.
      for (const what of ["", find, ...(wanted.has("order") ? [`[data-order="${number("order")}"]`] : [])]) {
        if (what) part(what)?.click();
        view.key("", false);
        await drawn();
      }
      // Each chooses a slice of its own; of an order another one may be chosen, and the finding stays.
      isFound = part(`${find}[aria-current=true]`) && (!wanted.has("order") || canvas.dataset.slice === (wanted.get("slice") ?? ""));
    }
    // Marks are made at the chosen point in time, and those of an order in it.
    for (const _ of told().marks ?? []) view.key("M", true);
    for (const mark of numbers("marks")) {
      view.go(mark);
      view.key("m", false);
    }
    view.go(at);
    if (numbers("range").length > 1) view.choose(...numbers("range"));
    if (!isTime && (["moment", "view", "bytes", "top"].some((name) => wanted.has(name)) || told().moments)) {
      view.look_back();
      view.moment(...(wanted.has("moment") ? numbers("moment") : [1e9, told().usual]));
    }
    if (!isFound) view.select(slice >= 0 ? slice : undefined);
    if (from < to) view.show(from, to);
    else if (isTime) view.key("0", false);
    view.look_at(wanted.get("bytes") ?? "", wanted.get("view") ?? "");
    search.value = wanted.get("q") ?? "";
    find();
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const dark = wanted.has("theme") ? wanted.get("theme") === "dark" : isDark;
    if (dark !== (place.dataset.theme === "dark")) view.dark(dark);
    const [changed, below] = [wanted.get("if") ?? "", wanted.get("beside") ?? ""];
    if (changed || below) {
      // What can be changed is known once the item is drawn.
      view.key("", false);
      await drawn();
    }
    text.again(changed);
    try {
      second.again(below);
    } catch (error) {
      refuse([error.message]);
    }
    // Beside the first trace too, where another is compared.
    if ((changed || below) && from < to) view.follow(from, to);
    // How far there is to scroll is known once all of that is drawn, and again in the room that what stands above left it.
    for (let n = number("top") ? 2 : 0; n > 0; n -= 1) {
      view.key("", false);
      await drawn();
    }
    view.scroll(number("top") || 0);
  };
  return {
    show,
    edits: text.edits,
    size: () => `${canvas.width} ${canvas.height} ${canvas.dataset.plotWidth}`,
    words() {
      const [now, [start, end], { slice, at, range, lanes, zeroNs, order, moment, scroll }] = [new URLSearchParams(), view.times(), canvas.dataset];
      const set = (name, value) => (value ?? "") !== "" && now.set(name, value);
      const after = (times) => times?.split(" ").filter(Boolean).map((ns) => BigInt(ns) - BigInt(zeroNs)).join();
      if (view.item() > 0) now.set("item", view.item());
      set("program", text.called());
      // Beside another trace the whole of the first alone is a choice too.
      if (start !== undefined && (second.views().length || view.times().slice(0, 4).join() !== first)) {
        now.set("from", start);
        now.set("to", end);
      }
      const { marks, moments, device, usual, bytes, view: chosen } = told();
      if (marks) {
        set("slice", slice);
        set("at", after(at));
        set("range", [after(range), ...lanes.split(" ")].filter(Boolean).join());
        set("marks", marks.map(([, , ns]) => ns).join());
      } else {
        set("view", chosen);
        set("bytes", bytes);
        if (Number(moment) !== moments || (device ?? usual) !== usual) set("moment", [moment, device ?? []].flat().join());
        if (part("[data-kind=naive]").ariaPressed === "true") now.set("kind", "naive");
      }
      if (Number(scroll)) set("top", Math.round(scroll));
      if (part("[data-mode=typical]").ariaPressed === "true") now.set("mode", "typical");
      set("finding", part("[data-finding][aria-current=true]")?.dataset.finding);
      set("order", order);
      set("group", arranged.by());
      set("lanes", arranged.moves());
      set("q", search.value);
      set("beside", second.words());
      set("if", text.words());
      const { theme } = place.dataset;
      if ((theme === "dark") !== matchMedia("(prefers-color-scheme: dark)").matches) now.set("theme", theme);
      return `${now}`;
    },
  };
};

/** What was shown and chosen before, to go back to: a step is noted once the view has come to rest. A page of its own has it in its address. */
const steps = (view, state, alone) => {
  const [before, after] = [[], []];
  let [now, timer, isShowing, edits, told] = [null, 0, false, 0];
  const show = async (words) => {
    isShowing = true;
    await state.show(words).catch(() => {});
    isShowing = false;
    now = null;
  };
  const settle = () => {
    clearTimeout(timer);
    if (isShowing) return;
    const words = state.words();
    // Slices and times of another program are none of this one.
    const n = state.edits();
    if (n !== edits) [before.length, after.length, now, edits] = [0, 0, null, n];
    // In another room other slices are told as one.
    const shown = `${state.size()} ${words}`;
    if (now === null || shown !== told) view.tell();
    told = shown;
    if (now !== null && words !== now) {
      before.push(now);
      if (before.length > 200) before.shift();
      after.length = 0;
    }
    now = words;
    if (alone && `#${words}` !== (location.hash || "#")) history.replaceState(null, "", `#${words}`);
  };
  const go = (from, to) => {
    if (isShowing) return;
    settle();
    const step = from.pop();
    if (step === undefined) return false;
    to.push(now);
    show(step);
  };
  if (alone) {
    if (location.hash) show(location.hash.slice(1));
    addEventListener("hashchange", () => show(location.hash.slice(1)));
  }
  return {
    note() {
      clearTimeout(timer);
      timer = setTimeout(settle, 300);
    },
    back: () => go(before, after),
    forth: () => go(after, before),
  };
};
