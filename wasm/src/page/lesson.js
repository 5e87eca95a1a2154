// Lessons in the page: cells with a text to edit, and what comes of it. The viewer's script starts them.
globalThis.startLessons = (module) => {
  const rows = document.getElementById("course-rows")?.textContent ?? "";
  const score = document.getElementById("course-score");
  const exercises = [...document.querySelectorAll(".cell.exercise")];
  const count = () => {
    const right = exercises.filter((cell) => cell.dataset.verdict === "right").length;
    if (score) score.textContent = `${right} of ${exercises.length} exercises right`;
  };
  const picture = (told, out, title) => {
    const svg = told.svg();
    if (!svg) return;
    const img = document.createElement("img");
    img.alt = title;
    img.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    out.append(img);
  };
  /** The picture with a viewer in its place where there is more to look at. */
  const show = (told, out, title, name) => {
    const block = told.block();
    if (!block.length) return picture(told, out, title);
    const place = document.createElement("div");
    place.className = "spanlift";
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", `${name}: ${title}`);
    // Below the picture stands what is selected, where the page is too narrow for both beside each other.
    place.style.setProperty("--sl-height", `${told.height() + (out.clientWidth < 1100 ? 260 : 0)}px`);
    out.append(place);
    try {
      const view = mounted(place, block, false);
      tools(view, place, false, { module, examples: null });
    } catch {
      place.remove();
      picture(told, out, title);
    }
  };
  const verdictOf = (words) => (words.startsWith("right") ? "right" : words.startsWith("not yet") ? "not-yet" : "");
  for (const cell of document.querySelectorAll(".cell[data-verb]")) {
    const [text, out] = [cell.querySelector("textarea"), cell.querySelector(".out")];
    const run = cell.querySelector(".run");
    const reset = Object.assign(document.createElement("button"), { className: "reset", hidden: true });
    reset.textContent = "As it was";
    run.after(reset);
    const first = text.value;
    const fit = () => (text.rows = text.value.split("\n").length);
    /** A band behind the line that a message begins with; it scrolls with the text. */
    const mark = (words) => {
      const [, line] = /^(?:not yet: )?(?:[^\n:]*: )?line (\d+)/.exec(words) ?? [];
      const { lineHeight, paddingTop } = getComputedStyle(text);
      text.style.background = line
        ? `linear-gradient(color-mix(in srgb,var(--red) 22%,transparent) 0 0) 0 ${(line - 1) * parseFloat(lineHeight) + parseFloat(paddingTop)}px / 100% ${lineHeight} no-repeat local var(--pale)`
        : "";
    };
    const act = () => {
      const told = lesson(cell.dataset.verb, text.value, rows);
      const words = told.plain();
      const said = document.createElement("pre");
      said.textContent = words;
      if (told.is_error()) said.setAttribute("role", "alert");
      cell.dataset.verdict = told.is_error() ? "error" : verdictOf(words);
      mark(words);
      out.replaceChildren(said);
      // What has to be scrolled is reached by key.
      if (said.clientHeight < said.scrollHeight) said.tabIndex = 0;
      show(told, out, words.split("\n")[0], text.getAttribute("aria-label").replace("text of ", ""));
      told.free();
      cell.dataset.ran = String(Number(cell.dataset.ran ?? 0) + 1);
      count();
    };
    run.addEventListener("click", act);
    reset.addEventListener("click", () => {
      text.value = first;
      reset.hidden = true;
      mark("");
      fit();
      text.focus();
    });
    text.addEventListener("input", () => {
      reset.hidden = text.value === first;
      mark("");
      fit();
    });
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        act();
      }
    });
    run.disabled = false;
  }
  count();
  document.body.dataset.ready = "1";
};
