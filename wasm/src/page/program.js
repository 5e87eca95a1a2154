// A program in the page: its text to edit, examples, one call at a time, what if. And a second timeline below the first.

/** A second viewer below the first, at the same time on screen. */
const beside = (view, place) => {
  const [room, plot] = [place.querySelector(".sl-room"), place.querySelector(".sl-plot")];
  const title = make("b");
  const choice = make("select", { ariaLabel: "what is compared" });
  const button = (textContent, title = "") => make("button", { type: "button", textContent, title });
  const [all, near] = [button("fit both", "all of both (0)"), button("")];
  const align = button("align", "starts of the selected slices below each other");
  const close = button("close");
  const root = make("div", { className: "spanlift" });
  const pair = against(view, place, root);
  const pane = make("section", { className: "sl-beside", hidden: true, ariaLabel: "second timeline" }, make("div", { className: "sl-beside-head" }, title, pair.at, near, all, choice, align, close), root);
  place.append(pane);
  let [other, shift, from, walls, leveled, narrowest] = [null, 0, null, [], "", []];
  const fit = () => {
    const [outer, inner] = [place.getBoundingClientRect(), room.getBoundingClientRect()];
    pane.style.left = `${inner.left - outer.left}px`;
    pane.style.top = `${inner.top - outer.top}px`;
    pane.style.width = `${inner.width}px`;
    pane.style.height = `${inner.height}px`;
  };
  /** The time on screen of `a` is that of `b`, `by` later. */
  const same = (a, b, by) => {
    const [now, then] = [a.times(), b.times()];
    if (now.length < 4 || then.length < 4) return;
    const near = Math.max(1, (now[1] - now[0]) / 2000);
    if (Math.abs(now[0] + by - then[0]) > near || Math.abs(now[1] + by - then[1]) > near) b.follow(now[0] + by, now[1] + by);
  };
  /** The same room for names in both, so that what is at the same time lies below each other. */
  const level = (all) => {
    const room = Math.max(...all.map((each) => each.widen(0) ?? 0));
    if (all.length > 1) for (const each of all) each.widen(room);
  };
  /** Another item, a program that was edited, lanes by something else, another window: names may take other room in either. */
  const leveling = () => {
    const now = [place, root].map((one) => one.querySelector(".sl-canvas").dataset.plotX).join();
    if (leveled !== now) level([view, other]);
    leveled = now;
  };
  /** One point in time for both: who moved it since it was looked at last leads. */
  const together = (a, b, k) => {
    const at = a.wall();
    if (at === undefined || at === walls[k]) return;
    // Where a timeline leads, a snapshot shows its beginning before its first event; two snapshots may be of two runs.
    b.go_wall(at, a.times().length > 0);
    walls = [view.wall(), other.wall()];
  };
  /** The first may have nothing to draw, but what lies below it is part of what is shown. */
  const note = () => place.dispatchEvent(new Event("sl-drawn"));
  const pressed = () => (place.querySelector("[data-do=beside]").ariaPressed = String(from === "item"));
  const hide = () => {
    if (pane.contains(document.activeElement)) plot.focus({ preventScroll: true });
    pane.hidden = room.hidden = true;
    from = null;
    pressed();
    level([view]);
    use(false);
    pair.ended();
    view.reach(0, 0);
    // What made the time on screen longer than the first lasts is gone.
    const [start, end, first, last] = view.times();
    const usual = (last - first) / 40 + 2;
    if (start < first - usual || end > last + usual) view.key("0", false);
    note();
  };
  /** From when to when each of the two lasts, in the time of the first; nothing where one is no timeline. */
  const lasting = () => {
    const [now, then] = [view.times(), other.times()];
    return now.length < 4 || then.length < 4 ? [] : [[now[2], now[3]], [then[2] - shift, then[3] - shift]];
  };
  /** Each can be left as far as the other lasts. */
  const bind = () => {
    const [above, below] = lasting();
    view.reach(...(below ?? [0, 0]));
    other.reach(...(above ?? [0, 0]).map((at) => at + shift));
  };
  /** The whole of both. */
  const both = () => {
    bind();
    view.key("0", false);
    same(view, other, shift);
    note();
  };
  /** Where nothing of the second lies within the time on screen, or the whole of the first does, there is that of both. */
  const reach = () => {
    const [[start, end], [above, below]] = [view.times(), lasting()];
    if (above && ((start <= above[0] && above[1] <= end) || below[0] > end || below[1] < start)) both();
  };
  /** A length of time in words. */
  const long = (ns) => {
    const told = Number(Math.abs(ns).toPrecision(4));
    const unit = Math.min(3, Math.floor(Math.log10(told || 1) / 3));
    return `${told / 1000 ** unit} ${["ns", "µs", "ms", "s"][unit]}`;
  };
  /** What brings both into sight, and what makes the one readable that has no width; slices are put below each other where both have any. */
  const offer = () => {
    bind();
    const [lengths, [start, end]] = [lasting(), view.times()];
    align.hidden = from !== "item" || !lengths.length;
    all.hidden = lengths.every(([a, b]) => start <= a && b <= end);
    const pixels = place.querySelector(".sl-canvas").dataset.plotWidth / (end - start);
    const k = lengths.findIndex(([a, b]) => a <= end && start <= b && (b - a) * pixels < 40);
    near.hidden = k < 0;
    if (k < 0) return;
    narrowest = lengths[k];
    near.textContent = `fit the one ${["above", "below"][k]}, ${long(lengths[k][1] - lengths[k][0])}`;
  };
  const show = (block, words, source) => {
    pane.hidden = room.hidden = false;
    choice.hidden = source !== "item";
    title.textContent = words;
    if (from !== source) shift = 0;
    from = source;
    pressed();
    fit();
    if (other) other.replace(block);
    else {
      // Names that differ from the first viewer's, for those who go from part to part.
      const named = () => root.querySelector(".sl-middle")?.setAttribute("aria-label", `${root.classList.contains("is-memory") ? "memory map" : "timeline"} below`);
      other = mounted(root, block, false);
      tellKeys(root, true);
      zooming(other, root.querySelector(".sl-plot"));
      // Both are dark or light.
      root.addEventListener("keydown", (event) => {
        const types = event.ctrlKey || event.metaKey || event.altKey;
        if (event.key.toLowerCase() === "t" && !types) view.dark(place.dataset.theme !== "dark");
      });
      pair.mounted(other);
      named();
      let resting = 0;
      root.addEventListener("sl-drawn", () =>
        queueMicrotask(() => {
          named();
          clearTimeout(resting);
          resting = setTimeout(() => {
            other.tell();
            if (!below.hidden) use(true);
          }, 300);
          // The address has the moment of a snapshot.
          if (pane.hidden) return;
          if (pair.drawn(other)) note();
          leveling();
          // Who is pointed at leads.
          if (!pane.matches(":hover, :focus-within")) return;
          same(other, view, -shift);
          together(other, view, 1);
        }),
      );
    }
    level([view, other]);
    // Where the first keeps its size nothing is drawn that would bring the second to its time.
    same(view, other, shift);
    reach();
    offer();
    note();
  };
  // What is selected is told of the one that was used last.
  const card = place.querySelector("[data-selection]");
  const below = make("div", { className: "sl-card" });
  const use = (is) => {
    below.hidden = !is;
    card.hidden = is;
    if (!is) return;
    const { range } = JSON.parse(other.told());
    below.replaceChildren(make("small", { textContent: "below" }), ...root.querySelector("[data-selection]").cloneNode(true).children);
    if (range) below.append(make("b", { textContent: range.words }), rows(["kind", "n", "time, bytes, rate"], range.kinds));
  };
  card.after(below);
  below.hidden = true;
  // These keys are about the page, whichever of the two has the focus.
  const goes = ({ key, altKey }) => /^(Tab|[ci/])$/i.test(key) || (altKey && /^Arrow[LR]/.test(key));
  for (const kind of ["click", "keydown"]) {
    pane.addEventListener(kind, (event) => {
      if (root.contains(event.target)) use(true);
      if (!goes(event)) event.stopPropagation();
    });
    place.addEventListener(kind, (event) => pane.contains(event.target) || use(false));
  }
  new ResizeObserver(() => room.hidden || fit()).observe(place);
  // In a narrow page everything between the bars scrolls.
  place.querySelector(".sl-body").addEventListener("scroll", () => room.hidden || fit());
  const compare = () => show(view.block(choice.selectedIndex), "below:", "item");
  const compareWith = (item, names = view.names().split("\n")) => {
    choice.replaceChildren(...names.map((name) => make("option", { textContent: name })));
    choice.selectedIndex = item;
    compare();
  };
  const alignBy = (by, where = "") => {
    shift = by;
    title.textContent = `aligned${where}${by ? `, ${long(by)} ${by > 0 ? "later" : "earlier"}` : ""}:`;
    same(view, other, shift);
    reach();
  };
  choice.addEventListener("change", compare);
  // The controls that it came from are as they were, which closes it.
  close.addEventListener("click", () => (from === "item" ? hide() : place.querySelector(".sl-if form").reset()));
  align.addEventListener("click", () => {
    const [now, then] = [view.times(), other.times()];
    const are = now.length > 4 && then.length > 4;
    alignBy(are ? then[4] - now[4] : then[2] - now[2], are ? " at the selected slices" : " at their beginnings");
    note();
  });
  all.addEventListener("click", both);
  near.addEventListener("click", () => {
    const [first, last] = narrowest;
    const room = Math.max(1, (last - first) / 50);
    view.follow(first - room, last + room);
    same(view, other, shift);
    note();
  });
  return {
    show,
    hide,
    is: (source) => from === source,
    /** What is to be seen below the first. */
    views: () => (pane.hidden ? [] : [other]),
    title: () => `${title.textContent} ${from === "item" ? choice.value : ""}`.trim(),
    follow() {
      if (pane.hidden || !other) return;
      fit();
      offer();
      pair.drawn(other);
      leveling();
      other.dark(place.dataset.theme === "dark");
      if (pane.matches(":hover, :focus-within")) return;
      same(view, other, shift);
      together(view, other, 0);
    },
    toggle() {
      const n = view.names().split("\n").length;
      if (from === "item") return hide();
      if (n > 1) compareWith((view.item() + 1) % n);
    },
    /** What is compared, and by how much later where that was aligned, or of a snapshot its moment; and that once more. */
    words: () => (from === "item" ? [choice.selectedIndex, ...(shift ? [shift] : pair.moment())].join() : ""),
    again(words) {
      const [[item, by, ...on], n] = [words.split(",").map(Number), view.names().split("\n").length];
      if (words && item >= 0 && item < n) {
        compareWith(item);
        if (!other.times().length) {
          // A snapshot has a moment of its own, which nobody leads to.
          if (by >= 0) pair.go(other, by, ...on);
          walls = [view.wall(), other.wall()];
        } else if (by) alignBy(by);
        return;
      }
      if (from === "item") hide();
      if (words) throw new Error(missing(item));
    },
  };
};

/** Items of a block of examples: their names and texts. */
const listed = (block) => {
  const length = new DataView(block.buffer, block.byteOffset).getUint32(0, true);
  const text = new TextDecoder();
  let at = 4 + length;
  return JSON.parse(text.decode(block.subarray(4, at))).items.map(({ name, bytes }) => ({ name, source: text.decode(block.subarray(at, (at += bytes))) }));
};

const program = (view, place, second, packed) => {
  const part = (selector) => place.querySelector(selector);
  const [area, wrong, examples, steps, ask, as, coded] = [".sl-source", ".sl-wrong", ".sl-examples", ".sl-steps", ".sl-if", ".sl-as", ".sl-code"].map(part);
  const form = ask.querySelector("form");
  const then = form.querySelector(".sl-then");
  const shipped = packed ? listed(packed) : [];
  examples.append(make("option", { textContent: "an example …" }));
  for (const { name, source } of shipped) {
    // Those whose names begin alike stand together, each under what it says of itself.
    const label = name.split(/[-\d]/)[0];
    if (examples.lastElementChild.label !== label) examples.append(make("optgroup", { label }));
    const title = /^(?:title|operator)\s+(.*)$/m.exec(source)?.[1] ?? name;
    // Of an operator that is an expression, which says less than the name to those who look for one.
    const words = label === "operator" ? `${name.slice(label.length + 1).replaceAll("-", " ")}: ${title}` : title;
    examples.lastElementChild.append(make("option", { value: name, textContent: words }));
  }
  for (const name of machines().split("\n")) form.elements.machine.append(make("option", { textContent: name }));
  let [now, timer, isNew, kept] = [{}, 0, false, null];
  const isEditing = () => !area.hidden;
  /** What the texts of items are called that are not as they came: as an example, or "edited". */
  const names = new Map();
  let edits = 0;
  const called = () => names.get(view.item()) ?? "";
  const take = (text) => {
    const source = view.source();
    view.edit(text);
    // A field has lines without carriage returns.
    if (source.replaceAll("\r", "") === text) return;
    edits += 1;
    names.set(view.item(), shipped.find((each) => each.source === text)?.name ?? "edited");
  };
  addEventListener("beforeunload", (event) => (wrong.textContent || [...names.values()].includes("edited")) && event.preventDefault());

  /** The line that a message is about, where it names one. */
  const lineOf = (message) => Number(/line (\d+)/.exec(message)?.[1] ?? 0);
  const run = () => {
    timer = 0;
    let message = "";
    try {
      take(area.value);
    } catch (error) {
      message = String(error?.message ?? error);
    }
    wrong.textContent = message && `${message}\nAll else shows the program as it was.`;
    wrong.hidden = !message;
    area.setAttribute("aria-invalid", String(message !== ""));
    coded.classList.toggle("is-old", message !== "");
    const line = lineOf(message);
    // A band behind the line that is wrong; it scrolls with the text.
    area.style.background = line ? `linear-gradient(color-mix(in srgb,var(--hazard) 22%,transparent) 0 0) 0 ${(line - 1) * 20}px / 100% 20px no-repeat local var(--panel)` : "";
    if (!message) {
      guess();
      code();
    }
  };
  /** The program in another language, below its text where that is edited. */
  const code = () => {
    const text = as.selectedIndex ? view.code(as.selectedIndex - 1) : undefined;
    coded.hidden = text === undefined;
    coded.textContent = text ?? "";
    place.classList.toggle("is-coded", !coded.hidden);
  };
  as.addEventListener("change", code);
  const edit = (on = !isEditing()) => {
    const source = view.source();
    if (on && (source === undefined || now.order)) return;
    clearTimeout(timer);
    const isSame = kept?.item === view.item();
    if (on) {
      // What had an error, or was typed right before another item was opened, was not taken over: it is there again.
      area.value = (isSame && kept.text) || source;
      kept = { item: view.item() };
    } else {
      if (isSame) run();
      kept.text = (wrong.textContent || timer) && area.value;
    }
    area.hidden = !on;
    examples.hidden = !on || !shipped.length;
    wrong.hidden = !on || !wrong.textContent;
    place.classList.toggle("is-editing", on);
    if (!on) coded.classList.remove("is-old");
    part("[data-do=edit]").setAttribute("aria-pressed", String(on));
    part("[data-do=edit]").textContent = on ? "done" : "edit";
    if (on) {
      run();
      // At its beginning, as it is read: a text that was put there has its end in sight.
      area.setSelectionRange(0, 0);
      area.focus();
      area.scrollTop = 0;
    } else part(".sl-program").focus();
  };
  area.addEventListener("input", () => {
    clearTimeout(timer);
    // Undoing goes on in a field that is hidden, and another item may be shown by then.
    timer = setTimeout(() => isEditing() && kept.item === view.item() && run(), 120);
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") edit(false);
  });
  examples.addEventListener("change", () => {
    const example = shipped[examples.selectedIndex - 1];
    if (!example) return;
    area.value = example.source;
    area.scrollTop = 0;
    run();
    view.key("0", false);
  });

  // One call at a time.
  steps.addEventListener("click", (event) => {
    const step = event.target.dataset?.step;
    if (!step) return;
    const [, , first, last] = view.times();
    if (step === "first" || step === "last") {
      view.go(step === "first" ? first : last);
      view.select(undefined, undefined);
    }
    view.key({ first: "]", last: "[" }[step] ?? step, false);
  });
  // The bytes of a buffer that the selected command touches, as parts of a bar and in words.
  const bytes = (lit) => {
    const bar = make("div", { className: "sl-bytes" });
    for (const [from, length, isWrite] of lit) {
      const part = make("i", { className: isWrite ? "is-write" : "is-read" });
      part.style.left = `min(${from / 1000}%, 100% - 3px)`;
      part.style.width = `max(3px, ${length / 1000}%)`;
      bar.append(part);
    }
    return make("div", {}, bar, make("small", { textContent: lit.map((access) => access[3]).join(", ") }));
  };
  const state = (card, { queues, engines, staged, buffers, more }) => {
    const streams = queues.map(([name, running, n, waiting]) => [name, running ?? "nothing", n ? `${n}: ${waiting}` : "nothing"]);
    const wordy = (table, ...columns) => columns.forEach((k) => [...table.rows].forEach((line) => line.cells[k].classList.add("is-words")));
    const memory = rows(["buffer", "size", "its bytes"], buffers.map(([name, place, bytes, words]) => [`${name}, ${place}`, bytes, words]));
    for (const [k, line] of [...memory.tBodies[0].rows].entries()) {
      const [, , , words, written, command, selected, lit] = buffers[k];
      if (lit.length) line.cells[0].append(bytes(lit));
      if (selected) line.className = `is-${selected}`;
      if (written !== null) line.cells[2].append(make("meter", { value: written / 1000, ariaLabel: "part that has passed" }));
      if (command === null) continue;
      const button = make("button", { type: "button", className: "sl-small", textContent: "show", ariaLabel: `show: ${words}` });
      button.addEventListener("click", () => view.select(undefined, command));
      line.cells[2].append(" ", button);
    }
    const table = rows(["stream", "does", "waits in its queue"], streams);
    wordy(table, 1, 2);
    wordy(memory, 2);
    const busy = rows(["engine", "does"], engines.map(([name, does]) => [name, does ?? "nothing"]).concat(staged === null ? [] : [["staging of pageable memory", `${staged === 1 ? "1 piece" : `${staged} pieces`} held`]]));
    wordy(busy, 1);
    card.replaceChildren(table, ...(engines.length ? [busy] : []), memory);
    if (more) card.append(make("p", { textContent: `and ${more.toLocaleString("en")} more buffers` }));
  };

  // What if: each control is one line of change.
  const changes = () => {
    const { pin, link, streams, engines, machine, other, own, waits } = form.elements;
    const factor = 2 ** Number(link.value);
    const rounded = Number(factor.toPrecision(3));
    link.previousElementSibling.querySelector("output").textContent = `${rounded} ×`;
    streams.previousElementSibling.querySelector("output").textContent = streams.value;
    const lines = machine.value && !now.recorded ? [`machine=${machine.value}`] : [];
    if (pin.checked) lines.push("pin:*");
    if (Number(link.value)) lines.push(`link*${rounded}`);
    if (now.recorded) return [...lines, ...(own.checked ? ["copy_stream"] : []), ...(waits.checked ? ["no_waits"] : [])];
    if (Number(streams.value) > 1) lines.push(`streams=${streams.value}`);
    if (engines.value) lines.push(`copy_engines=${engines.value}`);
    return [...lines, ...other.value.split(";").map((line) => line.trim()).filter(Boolean)];
  };
  /** The same as their controls say it. */
  const inWords = (lines) => {
    const { pin, own, waits } = form.elements;
    const asked = new Map([["pin:*", pin], ["copy_stream", own], ["no_waits", waits]]);
    const words = lines.map((line) => asked.get(line)?.previousElementSibling.textContent ?? line).join(", ");
    return words.replace(/link\*([\d.]+)/, "rate of the link $1 ×").replace("machine=", "on ").replace("copy_engines=", "copy engines: ").replace("streams=", "streams for each: ");
  };
  const guess = () => {
    const lines = changes();
    if (!lines.length && second.is("what-if")) second.hide();
    if (!ask.open || ask.hidden || !(lines.length || now.recorded)) {
      then.textContent = "";
      if (second.is("what-if")) second.hide();
      return;
    }
    try {
      const { recorded, error, before, after, saved, sooner, same, doubtful, factor, verdicts = [] } = JSON.parse(view.what_if(lines.join("\n")));
      const times = factor.toFixed(2);
      const words = same ? "the same" : `${saved} ${sooner ? "saved" : "lost"}${times === "1.00" ? "" : `, ${times} times as fast`}${doubtful ? ", less than the model is off" : ""}`;
      // How far the model is from the recorded time comes before anything that follows from it.
      const first = recorded ? [make("i", { textContent: `recorded ${recorded}; run again without a change ${before}: the error of the model is ${error}` })] : [];
      if (!lines.length) return then.replaceChildren(...first);
      then.replaceChildren(...first, `now ${before}, then `, make("b", { textContent: after }), ": ", make("span", { className: same || doubtful ? "" : sooner ? "is-good" : "is-bad", textContent: words }));
      // What the copies read and write is not in a recording, so nothing holds them back.
      if (recorded && form.elements.own.checked) then.append(make("i", { textContent: "at most: such copies wait for no kernel, even where they have to" }));
      if (verdicts[0] !== verdicts[1]) then.append(make("br"), make("span", { className: verdicts[1] === "safe" ? "is-good" : "is-bad", textContent: `by contract: ${verdicts[0]} now, ${verdicts[1]} then` }));
      second.show(view.changed(), `what if: ${inWords(lines)}`, "what-if");
    } catch (error) {
      then.replaceChildren(make("span", { className: "is-bad", textContent: String(error?.message ?? error) }));
    }
  };
  let isAsked = false;
  form.addEventListener("input", () => {
    if (isAsked) return;
    isAsked = true;
    // A recording may be large: its run waits until a control has come to rest.
    const soon = now.recorded ? (act) => setTimeout(act, 120) : requestAnimationFrame;
    soon(() => {
      isAsked = false;
      guess();
    });
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  let reset = 0;
  form.addEventListener("reset", () => (reset = setTimeout(guess)));
  // Opened to ask what an address does, it has asked.
  ask.addEventListener("toggle", () => ask.open !== second.is("what-if") && guess());

  const isSet = (control) => control.name && (control.type === "checkbox" ? control.checked : control.value !== (control.options?.[0].value ?? control.defaultValue));

  return {
    edit: () => edit(),
    called,
    edits: () => edits,
    /** The example of this name in place of what is shown, unless it is that; says whether that is what is shown then. */
    becomes(name) {
      const source = shipped.find((each) => each.name === name)?.source;
      if (source && name !== called()) take(source);
      return !name || name === called();
    },
    /** The program as it stands on screen: the lines in sight, its text while it is edited, or the other language. */
    lines() {
      if (isEditing()) return area.value;
      if (!coded.hidden) return coded.textContent;
      return [...place.querySelectorAll(".sl-line")].filter((line) => line.checkVisibility()).map((line) => `${line.firstChild.textContent.padStart(5)}  ${line.textContent.slice(line.firstChild.textContent.length)}`).join("\n");
    },
    state,
    /** The controls that ask what if, and their values; and those asked once more. */
    words: () => (second.is("what-if") ? `${new URLSearchParams([...form.elements].filter(isSet).map(({ name, value }) => [name, value]))}` : ""),
    again(words) {
      if (!words && !second.is("what-if")) return;
      form.reset();
      // Asked at once below: later it would move what an address shows.
      clearTimeout(reset);
      for (const [name, value] of new URLSearchParams(words)) {
        const control = form.elements.namedItem(name);
        if (control?.type === "checkbox") control.checked = true;
        else if (control) control.value = value;
      }
      ask.open ||= words !== "";
      guess();
    },
    ask() {
      if (ask.hidden) return;
      ask.open = !ask.open;
      (ask.open ? [...form.elements].find((control) => control.name && control.offsetWidth) : ask.firstElementChild).focus();
    },
    /** Another item is shown. */
    opened() {
      if (isEditing()) edit(false);
      as.selectedIndex = 0;
      code();
      isNew = true;
    },
    told(next) {
      now = next;
      const has = Boolean(next.program);
      ask.hidden = !(has || next.recorded) || Boolean(next.order);
      ask.classList.toggle("is-recorded", Boolean(next.recorded));
      as.hidden = !has || Boolean(next.order);
      if (isNew) {
        isNew = false;
        // As many streams as the program has something for; a control that would change nothing is not there.
        const { streams, pin } = form.elements;
        streams.max = String(Math.min(8, has && !next.recorded ? view.most_streams() : 1));
        streams.closest("label").hidden = Number(streams.max) < 2;
        const cannotPin = has && !next.recorded && !view.has_pageable();
        pin.closest("label").hidden = cannotPin;
        if (cannotPin) pin.checked = false;
        guess();
      }
      part("[data-do=edit]").hidden = !has || Boolean(next.order);
      // An order is stepped through too.
      steps.hidden = !has;
      steps.lastElementChild.textContent = next.state ? `${next.state.calls.map((n) => n.toLocaleString("en")).join(" of ")} ${next.order ? "host steps" : "calls"}` : "";
    },
  };
};
