// What could be better in a recorded trace, by what it would win, and the slices that show it; of a memory snapshot by its bytes, and
// the events that show it.

/** With up to so many slices or events a page of its own looks by itself; else when somebody asks. */
const SOON = 100_000;

const advice = (view, place, alone) => {
  const panel = place.querySelector(".sl-advice");
  const [summary, card] = panel.children;
  const badge = summary.querySelector(".sl-badge");
  /** Counts what was shown, so that nothing is told of what is shown no more. */
  let [looked, shown] = [false, 0];

  const told = ({ title, wins, why, change, places, slices, events }) => {
    let k = 0;
    const shows = slices ?? events;
    const where = make("span", { role: "status" });
    const go = (by) => {
      if (!shows.length) return;
      k = (k + by + shows.length) % shows.length;
      where.textContent = `${k + 1} of ${shows.length}`;
      view.look(...[shows[k]].flat());
    };
    const what = slices ? "slice" : "event";
    const button = (textContent, ariaLabel, by) => make("button", { type: "button", className: "sl-small", textContent, ariaLabel, onclick: () => go(by) });
    const row = make("div", { className: "sl-row" }, button("<", `${what} before`, -1), button(">", `next ${what}`, 1), where);
    row.hidden = !shows.length;
    const one = make("details", { name: "sl-advice" }, make("summary", {}, make("b", { textContent: wins }), title), row, ...(why ? [make("p", { textContent: why })] : []), make("p", { textContent: `do: ${change}` }), ...(places.length > 1 ? [rows(["asked for by", "n", slices ? "cost" : "bytes"], places)] : []));
    one.addEventListener("toggle", () => one.open && go(0));
    return make("li", {}, one);
  };
  const look = () => {
    looked = true;
    try {
      const { error, findings, missing = [] } = JSON.parse(view.advice());
      badge.textContent = findings.length;
      badge.hidden = !findings.length;
      const of = error === undefined ? "Nothing about this memory stands out." : "Nothing holds the host or the device for long.";
      const lines = !findings.length ? [of] : error ? [`The model behind the predictions repeats the recorded time with an error of ${error}.`] : [];
      card.replaceChildren(make("ol", {}, ...findings.map(told)), ...[...lines, ...missing].map((textContent) => make("p", { textContent })));
    } catch (error) {
      card.replaceChildren(make("p", { className: "sl-bad", textContent: error?.message ?? error }));
    }
  };
  panel.addEventListener("toggle", () => {
    if (!panel.open || looked) return;
    card.replaceChildren(make("p", { textContent: "looking …" }));
    const now = shown;
    // Behind the next picture, which has that line.
    setTimeout(async () => {
      await soon();
      if (now === shown && !looked) look();
    }, 30);
  });
  return {
    /** Another item is shown. */
    opened({ recorded, slices, events }) {
      const many = recorded ? slices : events;
      looked = false;
      const now = (shown += 1);
      badge.hidden = true;
      card.replaceChildren();
      panel.hidden = (many ?? null) === null;
      panel.open = false;
      if (!panel.hidden && alone && many <= SOON) (globalThis.requestIdleCallback ?? setTimeout)(() => now === shown && (panel.open = true), { timeout: 2000 });
    },
    /** Opens the next finding, or the one before; false where there is none. */
    step(back) {
      if (panel.hidden) return false;
      if (!looked) look();
      panel.open = true;
      const all = [...card.querySelectorAll("details")];
      const at = all.findIndex((one) => one.open);
      const next = all.at(at < 0 ? -back : (at + 1 - 2 * back) % all.length);
      if (!next) return false;
      next.open = true;
      next.parentElement.scrollIntoView({ block: "nearest" });
    },
  };
};
