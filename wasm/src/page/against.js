// Two memory snapshots, one below the other: one scale for both, the past of each, and what sets them apart.

/** A press, a drag or a key on the strip of a snapshot chooses one of its moments, the last of which is `n()`. */
const choosing = (view, strip, n) => {
  const at = (event) => {
    const box = strip.getBoundingClientRect();
    view.moment(Math.round(n() * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width))));
  };
  strip.addEventListener("pointerdown", (event) => {
    if (!n()) return;
    strip.setPointerCapture(event.pointerId);
    at(event);
  });
  strip.addEventListener("pointermove", (event) => n() && event.buttons && at(event));
  strip.addEventListener("keydown", (event) => {
    if (!n() || event.altKey) return;
    const key = { ArrowLeft: "[", ArrowRight: "]" }[event.key];
    if (key) view.key(key, event.shiftKey);
    else if (event.key === "Home" || event.key === "End") view.moment(event.key === "End" ? n() : 0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
};

/** What `view` shows in `place`, and below it others in `root`. */
const against = (view, place, root) => {
  const [part, card] = [place.querySelector(".sl-compared-part"), place.querySelector("[data-compared]")];
  let [before, n, timer, device] = ["", 0, 0];
  const at = make("small");
  const shown = () => [place, root].map((one) => one.querySelector(".sl-canvas")?.dataset ?? {});
  const say = (other) => {
    const told = JSON.parse(view.compared(other) ?? "null");
    part.hidden = !told;
    if (!told) return;
    const rows = told.rows.flatMap(([name, words]) => [make("dt", { textContent: name }), make("dd", { textContent: words })]);
    const list = (lines) => make("ul", { className: "sl-stack", tabIndex: 0 }, ...lines.map((line) => make("li", { textContent: line })));
    card.replaceChildren(make("dl", {}, ...rows), ...told.only.flatMap(([words, lines]) => [make("b", { textContent: words }), ...(lines.length ? [list(lines)] : [])]));
  };
  return {
    /** Which moment is shown below. */
    at,
    /** Below may be a snapshot: a strip chooses its moments. */
    mounted: (other) => choosing(other, root.querySelector(".sl-strip"), () => n),
    /** Either was drawn; says whether it was another moment or block than before. */
    drawn(other) {
      const are = view.level(other);
      const now = other.times().length ? "" : shown().map(({ told }) => told).join("|");
      if (!are) part.hidden = true;
      if (now === before) return false;
      before = now;
      clearTimeout(timer);
      const { past, ...of } = now ? JSON.parse(other.told()) : {};
      [n, device, at.textContent] = [of.moments ?? 0, of.device, of.at];
      if (past) timer = setTimeout(() => other.look_back(), 50);
      // All blocks of both are gone through: once a hand that moves through their pasts has come to rest.
      else if (are) timer = setTimeout(say, part.hidden ? 0 : 150, other);
      return true;
    },
    /** Nothing is below any more. */
    ended() {
      clearTimeout(timer);
      [before, n] = ["", 0];
      part.hidden = true;
      view.alone();
    },
    /** The moment that is shown below, where that is not the end. */
    moment: () => [shown()[1].moment].filter((moment) => moment && Number(moment) < n).flatMap((moment) => [moment, device ?? []].flat()),
    go(other, ...moment) {
      other.look_back();
      other.moment(...moment);
    },
  };
};
