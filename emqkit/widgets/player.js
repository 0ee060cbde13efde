// The player in the browser: it is handed a whole trace and steps through it here, so no click waits for the kernel.
//
// model: payload {boards, sources, frames}, index, playing, twin_key. Frames stand finest first (emqkit/viz/frames.py).
// Nothing on the page is found by an id: several players, and several views of one, live side by side.

const STEP_MS = 1600;
const SPEEDS = [
  [0.5, "½ ×"],
  [1, "1 ×"],
  [2, "2 ×"],
  [4, "4 ×"],
  [8, "8 ×"],
];
const MARKS = { "+": ["+", "new"], "-": ["−", "gone"], "~": ["±", "changed"] };

const ICONS = {
  first: "M5 4v12M15 4l-7 6 7 6z",
  back: "M13 4l-8 6 8 6z",
  play: "M6 3.5l10 6.5-10 6.5z",
  pause: "M6 4v12M14 4v12",
  forward: "M7 4l8 6-8 6z",
  last: "M15 4v12M5 4l7 6-7 6z",
  into: "M10 3v9M6 8.5l4 4 4-4M5 17h10",
  over: "M3 12a7 7 0 0 1 13-2M17 5v5h-5M8.5 16h3",
  out: "M10 13V4M6 7.5l4-4 4 4M5 17h10",
};

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Icons are drawn, not typed: a glyph would become part of the button's name.
function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

function button(name, label, keys, act) {
  const node = make("button", `emqkit-button emqkit-${name}`);
  node.type = "button";
  node.append(icon(name), make("span", "", label));
  if (keys) {
    node.setAttribute("aria-keyshortcuts", keys.aria);
    node.title = `${label} (${keys.title})`;
  }
  node.addEventListener("click", () => {
    if (node.getAttribute("aria-disabled") !== "true") act();
  });
  return node;
}

// A button out of use keeps its place in the tab order, so a keyboard user is not thrown out of the player at the end.
function enable(node, on) {
  if (on) node.removeAttribute("aria-disabled");
  else node.setAttribute("aria-disabled", "true");
}

// Jupyter looks for its shortcuts at the focused element first: one above it that says no is not asked in time.
function keepKeys(root) {
  root.dataset.lmSuppressShortcuts = "true";
  root.addEventListener("focusin", (event) => {
    event.target.dataset.lmSuppressShortcuts = "true";
  });
}

// --- one clock a model, however many views it has --------------------------------------------------------------------

const decks = new WeakMap();

function deckOf(model) {
  let deck = decks.get(model);
  if (deck) return deck;
  deck = { speed: 1, timer: null, views: new Set() };
  decks.set(model, deck);

  const frames = () => (model.get("payload") || {}).frames || [];
  const tell = (name, value) => {
    model.set(name, value);
    try {
      model.save_changes();
    } catch {
      // an exported page has no kernel to tell
    }
  };
  deck.last = () => Math.max(frames().length - 1, 0);
  deck.index = () => Math.min(Math.max(model.get("index") || 0, 0), deck.last());
  deck.go = (index) => {
    const to = Math.min(Math.max(index, 0), deck.last());
    if (to !== model.get("index")) tell("index", to);
    for (const view of deck.views) view.paint();
  };
  deck.ahead = (wanted) => {
    const all = frames();
    const here = deck.index();
    for (let at = here + 1; at < all.length; at += 1) {
      if (wanted(all[at].depth, all[here].depth)) return at;
    }
    return here;
  };
  deck.over = () => deck.ahead((depth, here) => depth <= here);
  deck.out = () => deck.ahead((depth, here) => depth < here);
  deck.play = (on) => {
    if (on && deck.index() === deck.last()) deck.go(0);
    if (Boolean(model.get("playing")) !== on) tell("playing", on);
    deck.run();
  };
  deck.run = () => {
    clearTimeout(deck.timer);
    deck.timer = null;
    if (model.get("playing") && deck.views.size) {
      deck.timer = setTimeout(() => {
        if (deck.index() < deck.last()) deck.go(deck.index() + 1);
        if (deck.index() >= deck.last()) deck.play(false);
        else deck.run();
      }, STEP_MS / deck.speed);
    }
    for (const view of deck.views) view.paintClock();
  };
  model.on("change:playing", () => deck.run());
  model.on("change:index", () => {
    for (const view of deck.views) view.paint();
  });
  model.on("change:payload", () => {
    for (const view of deck.views) view.rebuild();
  });
  return deck;
}

// --- a view ----------------------------------------------------------------------------------------------------------

class View {
  constructor(model, el) {
    this.model = model;
    this.deck = deckOf(model);
    this.build(el);
    this.deck.views.add(this);
    this.rebuild();
    this.deck.run();
  }

  build(el) {
    const { deck } = this;
    const root = make("div", "emqkit-player");
    root.tabIndex = 0;
    keepKeys(root);
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Trace player: arrow keys step, Home and End jump, Space plays");

    const bar = make("div", "emqkit-bar");
    const steps = make("div", "emqkit-group");
    this.first = button("first", "First", { aria: "Home", title: "Home" }, () => deck.go(0));
    this.back = button("back", "Back", { aria: "ArrowLeft", title: "←" }, () => deck.go(deck.index() - 1));
    this.play = button("play", "Play", { aria: "Space", title: "Space" }, () => deck.play(!this.model.get("playing")));
    this.play.setAttribute("aria-pressed", "false");
    this.forward = button("forward", "Forward", { aria: "ArrowRight", title: "→" }, () => deck.go(deck.index() + 1));
    this.last = button("last", "Last", { aria: "End", title: "End" }, () => deck.go(deck.last()));
    steps.append(this.first, this.back, this.play, this.forward, this.last);

    const depths = make("div", "emqkit-group");
    this.into = button("into", "Into", null, () => deck.go(deck.index() + 1));
    this.over = button("over", "Over", null, () => deck.go(deck.over()));
    this.out = button("out", "Out", null, () => deck.go(deck.out()));
    this.into.title = "Into what comes next: a round trip's calls, a script's lines";
    this.over.title = "Over what is inside, to the next step that is no deeper";
    this.out.title = "Out, to the end of the call or the round trip";
    depths.append(this.into, this.over, this.out);

    const speed = make("label", "emqkit-speed");
    this.speed = make("select");
    for (const [value, words] of SPEEDS) {
      const option = make("option", "", words);
      option.value = String(value);
      this.speed.append(option);
    }
    this.speed.value = String(deck.speed);
    this.speed.addEventListener("change", () => {
      deck.speed = Number(this.speed.value);
      deck.run();
    });
    speed.append(make("span", "", "Speed"), this.speed);
    bar.append(steps, depths, speed);

    const track = make("div", "emqkit-track");
    this.slider = make("input", "emqkit-slider");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.step = "1";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => deck.go(Number(this.slider.value)));
    this.ticks = make("div", "emqkit-ticks");
    this.ticks.setAttribute("aria-hidden", "true");
    const rail = make("div", "emqkit-rail");
    rail.append(this.slider, this.ticks);
    this.count = make("span", "emqkit-count");
    track.append(rail, this.count);

    this.where = make("p", "emqkit-where");
    this.status = make("p", "emqkit-status");
    this.status.setAttribute("role", "status");
    this.status.setAttribute("aria-live", "polite");

    this.board = make("div", "emqkit-board");
    this.source = make("details", "emqkit-source");
    this.source.hidden = true;
    this.diff = make("section", "emqkit-diff");
    this.diff.setAttribute("aria-label", "What changed");

    root.append(bar, track, this.where, this.status, this.board, this.diff, this.source);
    root.addEventListener("keydown", (event) => this.key(event));
    el.append(root);
    this.root = root;
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const { target } = event;
    if (target === this.speed) return;
    // a button and the source's heading have their own use for Space, the code its own for arrows and End
    const space = target === this.root || target === this.slider;
    if (target !== this.slider && target.closest && target.closest(".emqkit-code")) return;
    const { deck } = this;
    const acts = {
      ArrowLeft: () => deck.go(deck.index() - 1),
      ArrowRight: () => deck.go(deck.index() + 1),
      Home: () => deck.go(0),
      End: () => deck.go(deck.last()),
    };
    if (space) acts[" "] = () => deck.play(!this.model.get("playing"));
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  rebuild() {
    this.payload = this.model.get("payload") || {};
    this.frames = this.payload.frames || [];
    this.painted = {};
    const last = this.deck.last();
    this.slider.max = String(last);
    // one tick a round trip, as long as they can be told apart
    const ends = this.frames.map((frame, at) => (frame.depth === 0 ? at : -1)).filter((at) => at >= 0);
    this.ticks.replaceChildren();
    if (last > 0 && ends.length <= 80) {
      for (const at of ends) {
        const tick = make("i");
        tick.style.setProperty("--at", String(at / last));
        this.ticks.append(tick);
      }
    }
    // where there are lines to step through, the Lua stands above the picture and keeps its place
    this.lined = this.frames.some((frame) => frame.line);
    this.root.classList.toggle("emqkit-lined", this.lined);
    if (this.lined) this.board.before(this.source);
    else this.diff.after(this.source);
    this.source.open = this.lined;
    const deep = this.frames.some((frame) => frame.depth > 0);
    for (const node of [this.into, this.over, this.out]) node.hidden = !deep;
    this.paint();
  }

  paint() {
    const { deck, painted } = this;
    const index = deck.index();
    const frame = this.frames[index];
    if (!frame || (painted.index === index && painted.frame === frame)) return;
    painted.index = index;
    painted.frame = frame;

    const last = deck.last();
    enable(this.first, index > 0);
    enable(this.back, index > 0);
    enable(this.forward, index < last);
    enable(this.last, index < last);
    enable(this.into, index < last);
    enable(this.over, deck.over() > index);
    enable(this.out, deck.out() > index);
    this.slider.value = String(index);
    this.slider.setAttribute("aria-valuetext", `step ${index} of ${last}`);
    this.count.textContent = `step ${index} of ${last}`;
    this.where.textContent = frame.where;
    if (this.status.textContent !== frame.sentence) this.status.textContent = frame.sentence;

    if (painted.board !== frame.board) {
      // written by emqkit/viz/boards.py, which escapes every text
      this.board.innerHTML = this.payload.boards[frame.board] || "";
      painted.board = frame.board;
    }
    this.paintDiff(frame, index);
    this.paintSource(frame);
  }

  paintClock() {
    const playing = Boolean(this.model.get("playing"));
    this.play.setAttribute("aria-pressed", String(playing));
    this.play.replaceChildren(icon(playing ? "pause" : "play"), make("span", "", playing ? "Pause" : "Play"));
    this.play.title = `${playing ? "Pause" : "Play"} (Space)`;
    this.speed.value = String(this.deck.speed);
    // faster than anybody listens: say nothing until it stands again
    this.status.setAttribute("aria-live", playing && STEP_MS / this.deck.speed < 1000 ? "off" : "polite");
  }

  paintDiff(frame, index) {
    this.diff.replaceChildren(make("h4", "", "What changed"));
    if (!frame.diff.length) {
      this.diff.append(make("p", "emqkit-none", index === 0 ? "Nothing yet." : "Nothing."));
      return;
    }
    const list = make("ul");
    for (const [mark, words] of frame.diff) {
      const [sign, said] = MARKS[mark] || [mark, mark];
      const item = make("li", `emqkit-line emqkit-${said}`);
      const shown = make("span", "emqkit-mark", sign);
      shown.setAttribute("aria-hidden", "true");
      item.append(shown, make("span", "emqkit-said", `${said}: `), make("span", "", words));
      list.append(item);
    }
    this.diff.append(list);
  }

  paintSource(frame) {
    const { painted, source } = this;
    const shown = frame.source === null || frame.source === undefined ? null : this.payload.sources[frame.source];
    source.hidden = !shown && !this.lined;
    if (!shown) {
      if (this.lined) source.replaceChildren(make("summary", "", this.withoutSource(frame)));
      painted.source = null;
      return;
    }
    if (painted.source !== frame.source) {
      painted.source = frame.source;
      source.replaceChildren();
      this.heading = make("summary");
      this.code = make("ol", "emqkit-code");
      this.code.tabIndex = 0;
      this.code.setAttribute("aria-label", `The Lua of ${shown.name}`);
      const moves = new Set(shown.moves.map((move) => move.line));
      shown.lines.forEach((line, at) => {
        const kind = moves.has(at + 1) ? "emqkit-move" : /^\s*--/.test(line) ? "emqkit-comment" : "";
        this.code.append(make("li", kind, line));
      });
      this.values = make("div", "emqkit-values");
      const pane = make("div", "emqkit-pane");
      pane.append(this.code, this.values);
      source.append(this.heading, pane);
    }
    this.heading.replaceChildren(make("b", "", `${shown.name}.lua`));
    const at = frame.line ? `line ${frame.line}${frame.move ? `, move ${frame.move}` : ""}` : "the whole script, one step";
    this.heading.append(` ${at}`);

    for (const item of this.code.querySelectorAll("[aria-current]")) item.removeAttribute("aria-current");
    const current = frame.line ? this.code.children[frame.line - 1] : null;
    if (current) {
      current.setAttribute("aria-current", "true");
      const room = this.code.clientHeight;
      const top = current.offsetTop - this.code.offsetTop;
      if (top < this.code.scrollTop + 24 || top > this.code.scrollTop + room - 48) this.code.scrollTop = top - room / 2;
    }
    this.values.replaceChildren();
    this.table("asked", frame.asked);
    this.table("locals", frame.locals);
    this.table("ARGV", frame.argv);
    this.table("KEYS", frame.keys);
  }

  // One slim line where a step has no Lua: what to press, or why there is none.
  withoutSource(frame) {
    if (frame !== this.frames[0]) return "A plain command: no script runs in this step";
    const next = this.frames[1];
    const script = next && next.line && this.payload.sources[next.source];
    return `Nothing has run yet${script ? `: press Into to enter ${script.name}` : ""}`;
  }

  table(title, pairs) {
    if (!pairs || !pairs.length) return;
    const table = make("table", `emqkit-${title.toLowerCase()}`);
    table.append(make("caption", "", title));
    for (const [name, value] of pairs) {
      const row = make("tr");
      const head = make("th", "", name);
      head.scope = "row";
      row.append(head, make("td", "", value));
      table.append(row);
    }
    this.values.append(table);
  }

  remove() {
    this.deck.views.delete(this);
    if (!this.deck.views.size) {
      clearTimeout(this.deck.timer);
      this.deck.timer = null;
    }
  }
}

// --- the twin --------------------------------------------------------------------------------------------------------

// The static copy stands in an output of its own just above. Of several with the same key, ours is the nearest before us.
// A lab's trace may have grown, and so have another key, before this view of it was drawn: there the cell decides.
function twinBefore(root, key) {
  const cell = root.closest(".emqkit-lab") ? root.closest(".jp-OutputArea") : null;
  let found = null;
  for (const twin of document.querySelectorAll(".emqkit-twin")) {
    if (twin.dataset.emqkitTwin !== key && !(cell && cell.contains(twin))) continue;
    if (twin.compareDocumentPosition(root) & Node.DOCUMENT_POSITION_FOLLOWING) found = twin;
  }
  return found;
}

function hideTwin(root, key) {
  let hidden = null;
  let tries = 0;
  let waiting = null;
  const look = () => {
    waiting = null;
    // a notebook attaches a view some time after it rendered it, and the outputs above it not always before
    const twin = root.isConnected ? twinBefore(root, key) : null;
    if (twin) {
      hidden = twin.closest(".jp-OutputArea-child") || twin.closest(".emqkit-lab-twin") || twin;
      hidden.style.display = "none";
    } else if (tries < 40) {
      tries += 1;
      waiting = setTimeout(look, tries < 10 ? 30 : 200);
    }
  };
  look();
  return () => {
    clearTimeout(waiting);
    if (hidden) hidden.style.removeProperty("display");
  };
}

// --- the lab around it -----------------------------------------------------------------------------------------------

// The widgets of a lab cannot say what they are; its player is the one part of it that can, so it says it for them.
function dressLab(root) {
  let tries = 0;
  let waiting = null;
  const look = () => {
    waiting = null;
    const lab = root.isConnected ? root.closest(".emqkit-lab") : null;
    const line = lab && lab.querySelector(".emqkit-lab-line .widget-html-content");
    const title = lab && lab.querySelector(".emqkit-lab-title");
    if (line && title) {
      keepKeys(lab);
      lab.setAttribute("role", "group");
      lab.setAttribute("aria-label", title.textContent);
      line.setAttribute("role", "status");
      line.setAttribute("aria-live", "polite");
    } else if ((lab || !root.isConnected) && tries < 40) {
      tries += 1;
      waiting = setTimeout(look, tries < 10 ? 30 : 200);
    }
  };
  look();
  return () => clearTimeout(waiting);
}

function render({ model, el }) {
  const view = new View(model, el);
  const key = model.get("twin_key");
  const showTwin = key ? hideTwin(view.root, key) : () => {};
  const undress = dressLab(view.root);
  return () => {
    view.remove();
    undress();
    showTwin();
  };
}

export default { render };
