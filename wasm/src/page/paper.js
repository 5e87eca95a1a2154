// What is on screen as a file or on paper: the scene painted once more, on something that writes it down; what lies below it too, each
// under what it is.

const quoted = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
/** Ways to lay a sheet of paper, and the pixels between its margins: so words are as large on it as on screen. */
const PAPER = [["upright", 718, 960], ["across", 1045, 620]];

/** Pixels above a picture for what it is, and around all of it. */
const [CAPTION, MARGIN] = [26, 12];

/** Ground and ink of what is dark or light. */
const inks = (dark) => colors(dark).split(" ");

/** Records what is painted as SVG: enough of a canvas' context for the scenes of this page. */
const recorder = () => {
  const [out, number] = [[], (x) => Math.round(x * 100) / 100];
  let [path, at] = ["", [0, 0]];
  const to = (letter, x, y) => {
    path += `${letter}${number(x)} ${number(y)}`;
    at = [x, y];
  };
  return {
    out,
    beginPath: () => (path = ""),
    moveTo: (x, y) => to("M", x, y),
    lineTo: (x, y) => to("L", x, y),
    closePath: () => (path += "Z"),
    arcTo(x1, y1, x2, y2, r) {
      const step = (a, b) => (a === b ? 0 : Math.sign(b - a) * Math.min(r, Math.abs(b - a)));
      to("L", x1 - step(at[0], x1), y1 - step(at[1], y1));
      to(`Q${number(x1)} ${number(y1)} `, x1 + step(x1, x2), y1 + step(y1, y2));
    },
    fillRect(x, y, w, h) {
      out.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}" fill="${this.fillStyle}"/>`);
    },
    strokeRect(x, y, w, h) {
      out.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`);
    },
    fill() {
      out.push(`<path d="${path}" fill="${this.fillStyle}"/>`);
    },
    stroke() {
      out.push(`<path d="${path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`);
    },
    fillText(text, x, y) {
      const [, bold, size, family] = /^(600 )?([\d.]+)px (.*)$/.exec(this.font);
      const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
      out.push(
        `<text x="${number(x)}" y="${number(y)}" font-family="${quoted(family)}" font-size="${size}"${bold ? ' font-weight="600"' : ""} text-anchor="${anchor}" fill="${this.fillStyle}">${quoted(text)}</text>`,
      );
    },
    /** What was painted, as a piece of a picture that ends at its edges. */
    text: (x, y, width, height) => `<svg x="${x}" y="${y}" width="${width}" height="${height}">${out.join("")}</svg>`,
  };
};

/** Saves and prints what a place shows: what `second` has below it too, and the program's `text` on paper. */
const carried = (view, place, second, text) => {
  const part = (selector) => place.querySelector(selector);
  const title = () => [".sl-name", ".sl-origin", ".sl-range"].map((one) => part(one).textContent).filter(Boolean).join(" · ");
  /** All that is on screen, piece by piece: `at` gives what paints one that begins so many pixels below; their width and height. */
  const pieces = (dark, wide, at) => {
    let [width, height] = [0, 0];
    for (const each of [view, ...second.views()]) {
      const [w, h] = each.paint_on(recorder(), dark, wide);
      if (!w) continue;
      const top = at(height, w, CAPTION);
      const [ground, ink] = inks(dark);
      top.fillStyle = ground;
      top.fillRect(0, 0, w, CAPTION);
      Object.assign(top, { fillStyle: ink, font: '600 12.5px Inter,"DejaVu Sans",sans-serif', textAlign: "left" });
      top.fillText(each === view ? title() : second.title(), 4, CAPTION - 10);
      each.paint_on(at(height + CAPTION, w, Math.ceil(h)), dark, wide);
      [width, height] = [Math.max(width, w), height + CAPTION + Math.ceil(h)];
    }
    return [width, height];
  };
  const picture = (dark, wide) => {
    const made = [];
    const [w, h] = pieces(dark, wide, (...box) => {
      const pen = recorder();
      made.push([pen, box]);
      return pen;
    });
    const [width, height] = [w + 2 * MARGIN, h + 2 * MARGIN];
    const inner = made.map(([pen, [y, ...size]]) => pen.text(MARGIN, MARGIN + y, ...size)).join("");
    const ground = `<rect width="${width}" height="${height}" fill="${inks(dark)[0]}"/>`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><title>${quoted(title())}</title>${ground}${inner}</svg>`;
    return { svg, width: w && width, height };
  };
  const save = () => {
    const { svg, width } = picture(place.dataset.theme === "dark");
    if (width) hand(new Blob([svg], { type: "image/svg+xml" }), "svg");
  };
  /** Saves what is there, or will be, under the name of what is shown now. */
  const hand = async (blob, ending) => {
    const download = `${part(".sl-name").textContent.replace(/[^\p{L}\p{M}\p{N}_.-]+/gu, "_") || "spanlift"}.${ending}`;
    const link = make("a", { download, href: URL.createObjectURL(await blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const png = () => {
    const dark = place.dataset.theme === "dark";
    const [width, height] = pieces(dark, undefined, recorder);
    if (!width) return;
    const ratio = Math.max(2, devicePixelRatio);
    const sheet = make("canvas", { width: (width + 2 * MARGIN) * ratio, height: (height + 2 * MARGIN) * ratio });
    const pen = sheet.getContext("2d");
    pen.fillStyle = inks(dark)[0];
    pen.fillRect(0, 0, sheet.width, sheet.height);
    pieces(dark, undefined, (y, ...size) => {
      pen.restore();
      pen.save();
      pen.setTransform(ratio, 0, 0, ratio, ratio * MARGIN, ratio * (MARGIN + y));
      pen.beginPath();
      pen.rect(0, 0, ...size);
      pen.clip();
      return pen;
    });
    sheet.toBlob((blob) => blob && hand(blob, "png"), "image/png");
  };
  addEventListener("beforeprint", () => {
    const images = PAPER.map(([name, wide, high]) => {
      const fits = picture(false, wide - 2 * MARGIN);
      // What is too high for a sheet is painted wider, so that it fills one when it is made to fit.
      const { svg, height } = fits.height > high ? picture(false, (wide * fits.height) / high) : fits;
      return height && make("img", { className: `sl-${name}`, alt: title(), src: `data:image/svg+xml,${encodeURIComponent(svg.replaceAll(inks(false)[0], "#fff"))}` });
    });
    if (!images[0]) return;
    const paper = make("div", { className: "sl-print" }, ...images);
    // Findings and lines of an item that is shown no more are there still.
    for (const finding of place.querySelectorAll("[data-finding]")) if (finding.checkVisibility()) paper.append(make("p", { textContent: [...finding.children].map((words) => words.textContent).join(": ") }));
    for (const card of [".sl-advice .sl-card", ".sl-told", "[data-totals]", "[data-selection]", "[data-state]", "[data-compared]"]) {
      // One that nothing is chosen for any more keeps what it said.
      if (part(card).closest("[hidden]")) continue;
      const filled = part(card).cloneNode(true);
      if (filled.childElementCount > 1) paper.append(make("b", { textContent: part(card).previousElementSibling.textContent }), filled);
    }
    const lines = text.lines();
    if (lines) paper.append(make("b", { textContent: "Program" }), make("pre", { textContent: lines }));
    place.prepend(paper);
  });
  addEventListener("afterprint", () => part(".sl-print")?.remove());
  return { save, png, hand };
};
