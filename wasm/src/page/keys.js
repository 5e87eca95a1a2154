// What keys and pointer do, as the page tells it: here, since the module that carries the page's elements is larger for every word.

/** Over a timeline, and over a map of memory; what does something else in the pane below comes third, or nothing where it does nothing. */
const KEYS = {
  time: [
    ["wheel", "scroll; with ctrl, or two fingers apart, zoom at the pointer; with shift pan"],
    ["drag", "an area of lanes with its totals; with shift a range of time, with alt zoom to it"],
    ["drag the ruler", "pan and scroll; anywhere by the middle button or with space"],
    ["drag the strip", "show that part of the whole", null],
    ["click, double click", "select, and fit; beside all slices select nothing"],
    ["W S", "zoom in, out"],
    ["A D", "pan; with shift five times as far"],
    ["F", "fit the selected slice"],
    ["0", "the whole trace; of two that are compared both"],
    ["← →", "previous, next slice on the lane"],
    ["↑ ↓", "lane above, below; with alt the lane moves", "lane above, below"],
    ["shift F10", "a menu, as by the right button", null],
    ["Enter", "from a call to its work and back"],
    ["G", "to the command that wrote what this one reads"],
    ["N", "next finding; with shift the one before"],
    ["O", "the orders that show the finding, then the times"],
    ["Y", "contract or typical order"],
    ["/", "search, as its field says; N: next hit, Esc ends it"],
    ["R", "a range of time with its totals: of the selected slice, once more on its lane; or of what is on screen"],
    ["M", "a mark; with shift the nearest one goes"],
    ["click in a buffer", "that moment, and who touches it then or wrote it last"],
    ["] [", "end of the next call, of the one before; of a recording marks and counters; a click on the ruler: any time"],
    ["E", "edit the program; Esc ends it", null],
    ["I", "what if: changes to program and machine"],
    ["alt ← →", "back to what was shown before, and forth"],
    ["Page Up, Page Down", "scroll"],
    ["C", "another item below this one, at the same time"],
    ["L, X, P", "open files, save as SVG (shift X: PNG), print", null],
    ["V", "save what is chosen as CSV; with shift for Perfetto", null],
    ["T", "light or dark"],
    ["Esc", "back to the times; no range, no point in time; select nothing"],
  ],
  memory: [
    ["wheel", "scroll; with ctrl, or two fingers apart, zoom at the pointer; with shift pan"],
    ["drag", "pan along the bytes and scroll"],
    ["click, double click", "select, and fit"],
    ["W S", "zoom in, out"],
    ["A D", "pan; with shift five times as far"],
    ["F", "fit the selected view"],
    ["0", "all bytes"],
    ["↑ ↓", "view above, below"],
    ["← →", "previous, next view that shares its bytes"],
    ["Enter", "more views, where not all are drawn; of a snapshot the blocks of a segment, or none"],
    ["Y", "views kept, or one by one"],
    ["] [", "of a snapshot: next event that moves memory, the one before; with shift a hundred"],
    ["Page Up, Page Down", "scroll"],
    ["alt ← →", "back to what was shown before, and forth"],
    ["C", "another item below this one; two snapshots to one scale"],
    ["L, X, P", "open files, save as SVG (shift X: PNG), print", null],
    ["T", "light or dark"],
    ["Esc", "select nothing"],
  ],
};

/** Fills the list of keys, that of the pane below where it is one; gives the box that says whether those of one letter are on. */
const tellKeys = (place, isBelow) => {
  // They get in the way of those who speak to their computer.
  const letters = make("input", { type: "checkbox", name: "letters", checked: true });
  const told = ([key, does, below = does]) => (isBelow && below === null ? [] : [make("dt", { textContent: key }), make("dd", { textContent: isBelow ? below : does })]);
  const list = (name) => make("dl", { className: `sl-keys-${name}` }, ...KEYS[name].flatMap(told));
  place.querySelector(".sl-keys").append(make("h2", { textContent: "Keys" }), make("label", {}, letters, " keys of one letter"), list("time"), list("memory"));
  return letters;
};
