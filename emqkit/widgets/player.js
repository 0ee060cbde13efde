// The player in the browser: it is handed whole films and steps through them here, so no click waits for the kernel.
//
// model: payload {films, labels, pairs}, index, shows, drawer, playing, twin_key. A film is emqkit/viz/film.py packed: each text
// once, frames that hold what changed. The board is built here, from the frames up to the one shown.
// Nothing on the page is found by an id: several players, and several views of one, live side by side.

const PACES = [
  [0.5, "½ ×"],
  [1, "1 ×"],
  [2, "2 ×"],
  [4, "4 ×"],
  [8, "8 ×"],
];
const SHOWS = [
  ["changes", "changes"],
  ["trips", "every call"],
  ["lines", "Lua lines"],
];
const LEVEL = { changes: 0, trips: 1, lines: 2 };
const LANES = ["held", "pending", "active", "schedule", "dead"];
const HASHES = ["processed", "unsuccessful", "failed"];
const COLUMNS = ["state", "attempts", "payload", "parent", "parent_queue", "parent_policy"];
const MARKS = { "+": ["+", "new"], "-": ["−", "gone"], "~": ["±", "changed"] };
const ROWS_SHOWN = 40;
const JOBS_LISTED = 400;
const CHIP_WIDEST = 320;
const MOST_CHIPS = 60;
const MOVE_MS = 240;

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
  node.title = keys ? `${label} (${keys.title})` : label;
  if (keys) node.setAttribute("aria-keyshortcuts", keys.aria);
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

function choice(label, options, act) {
  const field = make("label", "emqkit-choice");
  const select = make("select");
  for (const [value, words] of options) {
    const option = make("option", "", words);
    option.value = String(value);
    select.append(option);
  }
  select.addEventListener("change", () => act(select.value));
  field.append(make("span", "", label), select);
  return [field, select];
}

// Jupyter looks for its shortcuts at the focused element first: one above it that says no is not asked in time.
function keepKeys(root) {
  root.dataset.lmSuppressShortcuts = "true";
  root.addEventListener("focusin", (event) => {
    event.target.dataset.lmSuppressShortcuts = "true";
  });
}

function family() {
  return getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") || "system-ui, sans-serif";
}

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

// How wide a text is, without asking the page for it: that would lay it out anew for every chip.
function wide(text, font) {
  const key = `${font} ${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    ruler.font = font;
    found = ruler.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(key, found);
  }
  return found;
}

// --- one film: the facts at a frame, and which of them it changed --------------------------------------------------

class Scene {
  constructor(film) {
    this.film = film;
    this.at = -1;
    this.values = film.facts.map(() => -1);
    this.tree = new Map();
    this.undo = [];
    this.leaves = film.facts.map((path) => this.leaf(path));
    // which job a fact is of: what is followed from a chip
    this.jobOf = film.facts.map(([kind, , one, two]) =>
      kind === "set" ? Number(two) : kind === "fan" || kind === "row" || kind === "in" ? Number(one) : -1,
    );
  }

  // The map a fact's value stands in, and its name there: found once.
  leaf(path) {
    let map = this.tree;
    for (const part of path.slice(0, -1)) {
      if (!map.has(part)) map.set(part, new Map());
      map = map.get(part);
    }
    return [map, path[path.length - 1]];
  }

  text(number) {
    return this.film.texts[number];
  }

  put(fact, value) {
    const [map, name] = this.leaves[fact];
    if (value < 0) map.delete(name);
    else map.set(name, { value: this.text(value), fact });
    this.values[fact] = value;
  }

  forward() {
    this.at += 1;
    const ops = this.film.frames[this.at].f || [];
    const undo = [];
    for (let n = 0; n < ops.length; n += 2) {
      const old = this.values[ops[n]];
      undo.push(ops[n], old);
      this.put(ops[n], ops[n + 1]);
    }
    this.undo[this.at] = undo;
    return undo;
  }

  back() {
    const undo = this.undo[this.at];
    for (let n = undo.length - 2; n >= 0; n -= 2) this.put(undo[n], undo[n + 1]);
    this.at -= 1;
  }

  go(index) {
    while (this.at > index) this.back();
    while (this.at < index) this.forward();
  }

  // Go to a frame; its marks: fact → + new, - gone, ~ another text.
  arrive(index) {
    const frame = this.film.frames[index];
    const marks = new Map();
    if (index === 0) {
      this.go(0);
      return marks;
    }
    this.go(frame.n);
    const first = new Map();
    while (this.at < index) {
      const undo = this.forward();
      const meanwhile = 2 * (this.film.frames[this.at].b || 0);
      for (let n = meanwhile; n < undo.length; n += 2) if (!first.has(undo[n])) first.set(undo[n], undo[n + 1]);
    }
    for (const [fact, was] of first) {
      const now = this.values[fact];
      if (was !== now) marks.set(fact, { mark: was < 0 ? "+" : now < 0 ? "-" : "~", was: was < 0 ? "" : this.text(was) });
    }
    return marks;
  }

  get(...path) {
    let found = this.tree;
    for (const part of path) {
      if (!(found instanceof Map)) return undefined;
      found = found.get(String(part));
    }
    return found;
  }

  pairs(list) {
    const found = [];
    for (let n = 0; n < (list || []).length; n += 2) found.push([this.text(list[n]), this.text(list[n + 1])]);
    return found;
  }

  // The frames that touch a job: its own facts, its entries in a parent's hashes and in outboxes, and who holds it.
  touching(job) {
    const name = this.film.jobs[job][0];
    const named = this.film.facts.map((path, fact) => this.jobOf[fact] === job || path.slice(2).includes(name));
    const boxed = this.film.facts.map((path) => path[0] === "box");
    const found = [];
    this.film.frames.forEach((frame, index) => {
      const ops = frame.f || [];
      for (let n = 0; n < ops.length; n += 2) {
        const entry = boxed[ops[n]] && ops[n + 1] >= 0 && this.text(ops[n + 1]).split("\t").slice(1, 3).includes(name);
        if (index > 0 && (named[ops[n]] || entry)) {
          found.push(index);
          break;
        }
      }
    });
    return found;
  }
}

// --- one clock a model, however many views it has --------------------------------------------------------------------

const decks = new WeakMap();

function deckOf(model) {
  let deck = decks.get(model);
  if (deck) return deck;
  deck = { pace: 1, timer: null, views: new Set() };
  decks.set(model, deck);

  const tell = (name, value) => {
    model.set(name, value);
    try {
      model.save_changes();
    } catch {
      // an exported page has no kernel to tell
    }
  };
  deck.load = () => {
    const payload = model.get("payload") || {};
    const films = payload.films || [];
    deck.films = films;
    deck.labels = payload.labels || [];
    deck.pairs = payload.pairs || (films[0] ? films[0].frames.map((_, at) => [at]) : []);
    // of two films in step, a stop of either is a stop
    const of = (name) =>
      deck.pairs.map((pair) => Math.min(...pair.map((at, film) => films[film].frames[at][name] || 0)));
    deck.levels = of("l");
    deck.depths = of("d");
    deck.finest = Math.max(0, ...deck.levels);
  };
  deck.load();
  deck.last = () => Math.max(deck.pairs.length - 1, 0);
  deck.index = () => Math.min(Math.max(model.get("index") || 0, 0), deck.last());
  deck.level = () => LEVEL[model.get("shows")] || 0;
  deck.go = (index) => {
    const to = Math.min(Math.max(index, 0), deck.last());
    if (to !== model.get("index")) tell("index", to);
    for (const view of deck.views) view.paint();
  };
  deck.show = (shows) => {
    if (shows !== model.get("shows")) tell("shows", shows);
    for (const view of deck.views) view.rebuild();
  };
  const seek = (step, wanted) => {
    const here = deck.index();
    for (let at = here + step; at >= 0 && at <= deck.last(); at += step) if (wanted(at, here)) return at;
    return here;
  };
  // inside a loop the next line of it is the next step
  const fine = (at, here) => deck.levels[at] <= Math.max(deck.level(), deck.levels[here]);
  deck.ahead = () => seek(1, fine);
  deck.behind = () => seek(-1, fine);
  deck.over = () => seek(1, (at, here) => deck.depths[at] <= deck.depths[here]);
  deck.out = () => seek(1, (at, here) => deck.depths[at] < deck.depths[here]);
  deck.stops = () => deck.levels.flatMap((level, at) => (level <= deck.level() ? [at] : []));
  deck.play = (on) => {
    if (on && deck.index() === deck.last()) deck.go(0);
    if (Boolean(model.get("playing")) !== on) tell("playing", on);
    deck.run();
  };
  // a long sentence stays longer
  deck.pause = () => {
    const said = deck.pairs[deck.index()].map((at, film) => deck.films[film].texts[deck.films[film].frames[at].s]);
    return Math.min(5200, 900 + 26 * said.join("").length) / deck.pace;
  };
  deck.run = () => {
    clearTimeout(deck.timer);
    deck.timer = null;
    if (model.get("playing") && deck.views.size) {
      deck.timer = setTimeout(() => {
        if (deck.index() < deck.last()) deck.go(deck.ahead());
        if (deck.index() >= deck.last()) deck.play(false);
        else deck.run();
      }, deck.pause());
    }
    for (const view of deck.views) view.paintClock();
  };
  model.on("change:playing", () => deck.run());
  model.on("change:index", () => {
    for (const view of deck.views) view.paint();
  });
  model.on("change:shows", () => {
    for (const view of deck.views) view.rebuild();
  });
  model.on("change:payload", () => {
    deck.load();
    for (const view of deck.views) view.reload();
  });
  return deck;
}

// --- the board of one film ----------------------------------------------------------------------------------------------

class Board {
  constructor(film, label, follow, more) {
    this.scene = new Scene(film);
    this.film = film;
    this.follow = follow;
    this.more = more;
    this.root = make("section", "emqkit-film");
    this.root.setAttribute("aria-label", label || "The queues");
    this.label = label;
    this.said = make("p", "emqkit-own");
    this.who = make("ul", "emqkit-who");
    this.who.setAttribute("aria-label", "Who acts");
    this.queues = make("div", "emqkit-queues");
    if (label) this.root.append(make("h3", "", label), this.said);
    this.root.append(this.who, this.queues);
    this.counts = new Map();
    for (const [kind, of] of film.facts) {
      if (kind === "box" || kind === "other") this.counts.set(`${kind} ${of}`, this.ever(kind, of) + 1);
    }
    this.bold = `600 13px ${family()}`;
    this.small = `12px ${family()}`;
  }

  paint(index, lanes) {
    const before = this.rects(); // first, while the page is laid out
    this.marks = this.scene.arrive(index);
    this.index = index;
    this.frame = this.film.frames[index];
    if (this.label) this.said.textContent = this.scene.text(this.frame.s);
    this.paintWho();
    this.queues.replaceChildren(...this.film.queues.map((queue, number) => this.queue(queue, number, lanes)));
    const strays = this.strays(-1, "keys of no queue");
    if (strays) this.queues.append(strays);
    if (!this.film.queues.length) this.queues.append(make("p", "emqkit-none", "There is no key yet."));
    this.move(before);
  }

  mark(entry) {
    return entry && this.marks.get(entry.fact);
  }

  // How many facts of a kind a queue ever has.
  ever(kind, number) {
    return this.counts.get(`${kind} ${number}`) || 0;
  }

  // The facts under a path that are there, and those this frame took away.
  under(...path) {
    const found = new Map(this.scene.get(...path) || []);
    for (const [fact, mark] of this.marks) {
      const own = this.film.facts[fact];
      if (mark.mark !== "-" || own.length !== path.length + 1) continue;
      if (path.every((part, at) => String(part) === own[at])) {
        found.set(own[own.length - 1], { value: mark.was, fact, gone: true });
      }
    }
    return found;
  }

  paintWho() {
    const items = this.film.actors.map((name, number) => {
      const item = make("li", "emqkit-actor");
      const state = this.scene.get("who", number) || new Map();
      const crashed = state.get("state");
      const acts = this.frame.a === number;
      if (acts) item.classList.add("emqkit-acts");
      if (crashed) item.classList.add("emqkit-crashed");
      item.append(make("b", "", name));
      if (acts) item.append(make("span", "emqkit-said", crashed ? "crashes: " : "acts: "));
      const memory = make("span", "emqkit-memory");
      const claims = [];
      for (const [id, tokens] of state.get("holds") || []) {
        for (const [token, { value }] of tokens) claims.push([id, token, value]);
      }
      claims.sort(([one, first], [other, second]) => (one === other ? first - second : one < other ? -1 : 1));
      if (claims.length) {
        memory.append("holds ");
        claims.slice(0, 2).forEach(([id, token, lapsed], at) => {
          if (at) memory.append(", ");
          memory.append(make(lapsed ? "s" : "span", "", `${id}, token ${token}`));
          if (lapsed) memory.append(make("span", "emqkit-lapsed", " lapsed"));
        });
        if (claims.length > 2) memory.append(` and ${claims.length - 2} more`);
      } else {
        const does = state.get("does")?.value || "idle";
        memory.append(crashed ? make("s", "", does) : does);
      }
      item.append(memory);
      item.title = `${name}: ${memory.textContent}`;
      return item;
    });
    this.who.replaceChildren(...items);
    this.who.hidden = !items.length;
  }

  queue([name, slot, peaks], number, wanted) {
    const panel = make("section", "emqkit-queue");
    panel.setAttribute("aria-label", `queue ${name}`);
    const head = make("header");
    head.append(make("h4", "", name), make("span", "emqkit-soft emqkit-slot", `slot ${slot}`));
    const facts = this.under("queue", number);
    for (const [what, entry] of [...facts].toSorted()) {
      const mark = this.mark(entry);
      const words =
        what === "paused"
          ? entry.gone ? "no longer paused" : "paused"
          : `${what} ${mark ? `${mark.was || 0} → ` : ""}${entry.gone ? 0 : entry.value}`;
      const badge = make("span", `emqkit-badge emqkit-${what}`);
      this.sign(badge, mark);
      badge.append(words);
      head.append(badge);
    }
    panel.append(head);
    const used = LANES.filter((lane, at) => peaks[at] > 0 || (lane === "pending" && !peaks.some(Boolean)));
    const room = this.room();
    const crowded = LANES.filter((_, at) => peaks[at] * 150 > room).toSorted((one, other) => peaks[LANES.indexOf(other)] - peaks[LANES.indexOf(one)]);
    const doubled = new Set(crowded.slice(0, Math.max(0, 6 - used.length)));
    const alike = [];
    for (const lane of used) {
      if (wanted && !wanted.has(`${name} ${lane}`)) alike.push(lane);
      else panel.append(this.lane(number, name, lane, room, doubled.has(lane) ? 2 : 1));
    }
    if (wanted && alike.length) panel.append(make("p", "emqkit-soft", `the same in both: ${alike.join(", ")}`));
    const box = this.outbox(number, name, room, used.length < 4 ? 2 : 1);
    if (box) panel.append(box);
    const strays = this.strays(number, "other keys");
    if (strays) panel.append(strays);
    return panel;
  }

  // The pixels of a lane that are for chips, from the width of the whole and the grid of player.css.
  room() {
    const all = this.queues.clientWidth || 980;
    const count = Math.max(1, this.film.queues.length);
    const columns = Math.max(1, Math.min(count, Math.floor((all + 10) / (this.label ? 240 : 280))));
    return (all - 10 * (columns - 1)) / columns - 22 - 68;
  }

  lane(number, queue, lane, room, rows) {
    const line = make("div", `emqkit-lane emqkit-lane-${lane}`);
    line.style.setProperty("--rows", String(rows));
    const entries = [...this.under("set", number, lane)].toSorted(([one], [other]) => one - other);
    const here = entries.filter(([, entry]) => !entry.gone).length;
    const head = make("span", "emqkit-lane-name");
    head.append(make("i", `emqkit-dye emqkit-${lane}`), lane);
    if (here > 1) head.append(make("span", "emqkit-soft", String(here)));
    const list = make("ul", "emqkit-chips");
    list.setAttribute("aria-label", `${lane} of ${queue}: ${here}`);
    const fan = (job) => (lane === "held" ? this.mark(this.scene.get("fan", number, job)) : undefined);
    const worth = this.worth(entries, ([job, entry]) => this.mark(entry) || fan(job));
    const chips = worth.map(([job, entry]) => this.plan(number, lane, Number(job), entry));
    const shown = this.fitting(chips, room, rows, chips.length < entries.length);
    for (const chip of shown) list.append(this.chip(lane, chip));
    const hidden = here - shown.filter((chip) => !chip.entry.gone).length;
    if (hidden > 0) {
      const item = make("li");
      const open = make("button", "emqkit-more", `${hidden} more`);
      open.type = "button";
      open.tabIndex = -1;
      open.addEventListener("click", () => this.more());
      item.append(open);
      list.append(item);
    }
    if (!here) line.classList.add("emqkit-empty");
    line.append(head, list);
    return line;
  }

  plan(number, lane, job, entry) {
    const mark = this.mark(entry);
    const fan = this.scene.get("fan", number, job);
    const fanMark = this.mark(fan);
    const shown = entry.gone ? this.whither(number, lane, job) : entry.value;
    const warn = shown.startsWith("!");
    const chip = {
      job, entry, fan, warn,
      name: this.film.jobs[job][0],
      note: warn ? shown.slice(1) : shown,
      mark: mark || (lane === "held" && fanMark ? { mark: "~" } : undefined),
    };
    chip.width = Math.min(
      CHIP_WIDEST,
      24 + wide(chip.name, this.bold) + (chip.note ? 7 + wide(chip.note, this.small) : 0) +
        (chip.mark ? 16 : 0) + (fan && !entry.gone ? 14 + (lane === "held" ? 6 + this.dots(fan).length * 11 : 0) : 0),
    );
    return chip;
  }

  // Where a chip that left has gone.
  whither(number, lane, job) {
    const to = LANES.filter((other) => other !== lane && this.scene.get("set", number, other, job));
    if (to.length) return `to ${to.join(" and ")}`;
    return this.scene.get("row", number, job)?.size ? "to no set" : "deleted";
  }

  // Of many only as many as there can be room for: the changed ones, then the first, all in their order.
  worth(entries, changed) {
    if (entries.length <= MOST_CHIPS) return entries;
    const places = entries.map((_, at) => at);
    const marked = places.filter((at) => changed(entries[at]));
    const kept = new Set([...marked, ...places.slice(0, MOST_CHIPS)].slice(0, MOST_CHIPS));
    return entries.filter((_, at) => kept.has(at));
  }

  // The chips there is room for: the changed ones first to be kept, all in their order.
  fitting(chips, room, rows, more = false) {
    const fits = (some, left) => {
      let row = 1;
      let x = 0;
      for (const chip of some) {
        const w = Math.min(chip.width, room) + 6;
        if (x + w > room + 6 - (row === rows ? left : 0)) {
          row += 1;
          x = 0;
          if (row > rows || w > room + 6 - (row === rows ? left : 0)) return false;
        }
        x += w;
      }
      return true;
    };
    if (!more && fits(chips, 0)) return chips;
    const order = chips.map((_, at) => at).toSorted((one, other) => !chips[one].mark - !chips[other].mark || one - other);
    let shown = [];
    for (const at of order) {
      const wider = [...shown, at].toSorted((one, other) => one - other);
      if (!fits(wider.map((one) => chips[one]), 76)) break;
      shown = wider;
    }
    if (!shown.length && order.length) shown = [order[0]];
    return shown.map((at) => chips[at]);
  }

  dots(fan) {
    const [counter, done, ignored] = fan.value.split("\t");
    const left = /^\d+$/.test(counter) ? Number(counter) : 0;
    const all = [...Array(Number(done)).fill("done"), ...Array(Number(ignored)).fill("ignored")];
    if (all.length + left > 8) return [];
    return [...all, ...Array(left).fill("left")];
  }

  sign(node, mark) {
    if (!mark) return;
    const [sign, said] = MARKS[mark.mark];
    node.classList.add(`emqkit-is-${said}`);
    const shown = make("span", "emqkit-sign", sign);
    shown.setAttribute("aria-hidden", "true");
    node.append(shown, make("span", "emqkit-said", `${said}: `));
  }

  chip(lane, { job, entry, fan, warn, name, note, mark }) {
    const item = make("li");
    const chip = make("button", `emqkit-chip emqkit-in-${lane}`);
    chip.type = "button";
    chip.tabIndex = -1;
    if (entry.gone) chip.classList.add("emqkit-ghost");
    else chip.dataset.job = String(job);
    this.sign(chip, mark);
    if (fan) {
      const parent = make("i", "emqkit-parent");
      chip.append(parent, make("span", "emqkit-said", "parent "));
    }
    chip.append(make(entry.gone ? "s" : "b", "", name));
    if (note) chip.append(make("span", warn ? "emqkit-note emqkit-warn" : "emqkit-note", warn ? `⚠ ${note}` : note));
    if (fan && lane === "held" && !entry.gone) {
      const [counter, done, ignored] = fan.value.split("\t");
      const dots = make("span", "emqkit-dots");
      dots.setAttribute("aria-hidden", "true");
      dots.append(...this.dots(fan).map((kind) => make("i", `emqkit-${kind}`)));
      const all = Number(done) + Number(ignored);
      chip.append(dots, make("span", "emqkit-said", `, ${all} in, counter ${counter}`));
      if (!dots.childElementCount && all) chip.append(make("span", "emqkit-note", `${all} in`));
    }
    chip.title = `${this.film.jobs[job][1]} · ${name}${note ? ` · ${note}` : ""}`;
    chip.addEventListener("click", () => this.follow(job));
    item.append(chip);
    return item;
  }

  outbox(number, queue, room, most) {
    const ever = this.ever("box", number);
    if (!ever) return null;
    const rows = Math.min(most, ever);
    const line = make("div", "emqkit-lane emqkit-outbox");
    line.style.setProperty("--rows", String(rows));
    line.append(make("span", "emqkit-lane-name", "outbox"));
    const list = make("ul", "emqkit-chips");
    const entries = [...this.under("box", number)].toSorted(([one], [other]) => one - other);
    list.setAttribute("aria-label", `outbox of ${queue}: ${entries.filter(([, entry]) => !entry.gone).length}`);
    const worth = this.worth(entries, ([, entry]) => this.mark(entry));
    const plans = worth.map(([, entry]) => {
      const [kind, child, parent, where, rest] = entry.value.split("\t");
      const words = kind === "poison" ? `poison: ${child}` : `${kind}: ${child}`;
      const note = parent ? `for ${parent}${kind === "died" ? ` · ${rest}` : ""}` : "";
      const mark = this.mark(entry);
      const full = parent ? `${words}, for ${parent} in ${where} · ${rest}` : `${words} · ${rest}`;
      const width = 24 + wide(words, this.bold) + (note ? 7 + wide(note, this.small) : 0) + (mark ? 16 : 0);
      return { kind, words, note, full, mark, entry, width };
    });
    const shown = this.fitting(plans, room - 12, rows, plans.length < entries.length);
    for (const { kind, words, note, full, mark, entry } of shown) {
      const item = make("li");
      const chip = make("span", `emqkit-chip emqkit-signal emqkit-${kind}`);
      if (entry.gone) chip.classList.add("emqkit-ghost");
      this.sign(chip, mark);
      chip.append(make(entry.gone ? "s" : "b", "", words));
      if (note) chip.append(make("span", "emqkit-note", note));
      chip.title = full;
      item.append(chip);
      list.append(item);
    }
    if (entries.length > shown.length) list.append(make("li", "emqkit-soft", `${entries.length - shown.length} more`));
    if (!entries.length) line.classList.add("emqkit-empty");
    line.append(list);
    return line;
  }

  strays(number, title) {
    if (!this.ever("other", number)) return null;
    const line = make("div", "emqkit-lane emqkit-strays");
    line.append(make("span", "emqkit-lane-name", title));
    const list = make("ul", "emqkit-chips");
    list.setAttribute("aria-label", title);
    const entries = [...this.under("other", number)].toSorted();
    for (const [key, entry] of entries.slice(0, 2)) {
      const item = make("li");
      const chip = make("span", `emqkit-chip emqkit-stray${entry.gone ? " emqkit-ghost" : ""}`);
      this.sign(chip, this.mark(entry));
      chip.append(make("b", "", key), make("span", "emqkit-note", entry.value));
      chip.title = `${key} · ${entry.value}`;
      item.append(chip);
      list.append(item);
    }
    if (entries.length > 2) list.append(make("li", "emqkit-soft", `${entries.length - 2} more`));
    line.append(list);
    return line;
  }

  // --- motion: each chip glides from where it was ------------------------------------------------------------------

  rects() {
    const found = new Map();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return found;
    for (const chip of this.queues.querySelectorAll("[data-job]")) found.set(chip.dataset.job, chip.getBoundingClientRect());
    return found;
  }

  move(before) {
    if (!before.size) return;
    for (const chip of this.queues.querySelectorAll("[data-job]")) {
      const was = before.get(chip.dataset.job);
      const now = chip.getBoundingClientRect();
      if (!was) {
        chip.animate([{ opacity: 0 }, { opacity: 1 }], MOVE_MS);
      } else if (Math.abs(was.left - now.left) + Math.abs(was.top - now.top) > 2) {
        const from = `translate(${was.left - now.left}px, ${was.top - now.top}px)`;
        chip.animate([{ transform: from, zIndex: 2 }, { transform: "none", zIndex: 2 }], { duration: MOVE_MS, easing: "ease-out" });
      }
    }
  }

  // --- tables -------------------------------------------------------------------------------------------------------

  table(caption, heads, rows) {
    const table = make("table");
    table.append(make("caption", "", caption));
    const top = make("tr");
    for (const head of heads) {
      const cell = make("th", "", head);
      cell.scope = "col";
      top.append(cell);
    }
    const body = make("tbody");
    for (const [mark, cells] of rows) {
      const row = make("tr");
      const name = make("th");
      name.scope = "row";
      this.sign(name, mark);
      name.append(cells[0]);
      row.append(name, ...cells.slice(1).map((cell) => make("td", "", cell)));
      if (mark) row.classList.add("emqkit-marked");
      body.append(row);
    }
    const part = make("thead");
    part.append(top);
    table.append(part, body);
    return table;
  }

  rows() {
    const found = [];
    this.film.queues.forEach(([queue], number) => {
      const rows = [];
      const gone = new Map();
      for (const [fact, { mark }] of this.marks) {
        const [kind, of, job] = this.film.facts[fact];
        if (kind === "row" && of === String(number) && mark === "-" && !this.scene.get("row", number, job)?.size) gone.set(job, new Map());
      }
      const held = [...new Map([...(this.scene.get("row", number) || []), ...gone])].toSorted(([one], [other]) => one - other);
      for (const [job, kept] of held) {
        const fields = this.under("row", number, job);
        if (!fields.size) continue;
        const marks = [...fields.values()].map((entry) => this.mark(entry)?.mark);
        const mark = marks.every((one) => one === "+") ? "+" : !kept.size ? "-" : marks.some(Boolean) ? "~" : "";
        const cell = (name) => {
          const entry = fields.get(name);
          const change = this.mark(entry);
          if (!entry) return "";
          return change?.mark === "~" ? `${change.was} → ${entry.value}` : entry.gone ? `− ${entry.value}` : entry.value;
        };
        const more = [...fields.keys()].filter((name) => !COLUMNS.includes(name)).map((name) => `${name}: ${cell(name)}`);
        const [name, id] = this.film.jobs[job];
        rows.push([mark ? { mark } : undefined, [name, id, ...COLUMNS.map(cell), more.join(", ")]]);
      }
      if (rows.length) {
        const kept = rows.length > ROWS_SHOWN ? [...rows.filter(([mark]) => mark), ...rows.filter(([mark]) => !mark)].slice(0, ROWS_SHOWN) : rows;
        const more = rows.length > kept.length ? `, ${kept.length} of ${rows.length}` : "";
        found.push(this.table(`rows of ${queue}${more}`, ["job", "id", "state", "attempts", "payload", "parent", "in", "policy", "more"], kept));
      }
      for (const [job, hashes] of this.scene.get("in", number) || []) {
        const entries = [];
        for (const hash of HASHES) {
          if (!hashes.has(hash)) continue;
          for (const [child, entry] of this.under("in", number, job, hash)) entries.push([this.mark(entry), [child, hash, entry.value]]);
        }
        if (!entries.length) continue;
        const counter = this.scene.get("fan", number, job)?.value.split("\t")[0] ?? "none";
        const kept = [...entries.filter(([mark]) => mark), ...entries.filter(([mark]) => !mark)].slice(0, ROWS_SHOWN);
        const more = entries.length > kept.length ? `, ${kept.length} of ${entries.length}` : "";
        found.push(this.table(`fan-in of ${this.film.jobs[job][0]}, counter ${counter}${more}`, ["child", "hash", "value"], kept));
      }
    });
    return found.length ? found : [make("p", "emqkit-none", "There is no row yet.")];
  }

  keys() {
    const all = [...this.under("key")].toSorted(([one], [other]) => (one < other ? -1 : 1));
    const shown = all.length > 200 ? [...all.filter(([, entry]) => this.mark(entry)), ...all.filter(([, entry]) => !this.mark(entry))].slice(0, 200) : all;
    const rows = shown.map(([key, entry]) => {
      const mark = this.mark(entry);
      return [mark, [key, entry.gone ? `gone; was ${entry.value}` : mark?.was ? `${mark.was} → ${entry.value}` : entry.value]];
    });
    const more = all.length > shown.length ? `, ${shown.length} of ${all.length}` : "";
    return rows.length ? [this.table(`keys${more}`, ["key", "what it is"], rows)] : [make("p", "emqkit-none", "There is no key yet.")];
  }
}

// --- a view ----------------------------------------------------------------------------------------------------------

const DRAWERS = [
  ["rows", "rows and hashes"],
  ["lua", "the Lua that ran"],
  ["host", "the host's line"],
  ["keys", "keys"],
  ["words", "all changes"],
];

class View {
  constructor(model, el) {
    this.model = model;
    this.deck = deckOf(model);
    this.loud = `650 16px ${family()}`;
    this.drawer = model.get("drawer") || "";
    this.followed = -1;
    this.build(el);
    this.deck.views.add(this);
    this.reload();
    this.deck.run();
    this.watch = new ResizeObserver(() => {
      if (this.root.clientWidth === this.width) return;
      this.width = this.root.clientWidth;
      this.fit();
      this.boards.style.minHeight = "";
      this.paint(true);
    });
    this.watch.observe(this.root);
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
    this.back = button("back", "Back", { aria: "ArrowLeft", title: "←" }, () => deck.go(deck.behind()));
    this.play = button("play", "Play", { aria: "Space", title: "Space" }, () => deck.play(!this.model.get("playing")));
    this.play.setAttribute("aria-pressed", "false");
    this.forward = button("forward", "Forward", { aria: "ArrowRight", title: "→" }, () => deck.go(deck.ahead()));
    this.last = button("last", "Last", { aria: "End", title: "End" }, () => deck.go(deck.last()));
    steps.append(this.first, this.back, this.play, this.forward, this.last);

    this.depths = make("div", "emqkit-group");
    this.into = button("into", "Into", null, () => deck.go(deck.index() + 1));
    this.over = button("over", "Over", null, () => deck.go(deck.over()));
    this.out = button("out", "Out", null, () => deck.go(deck.out()));
    this.into.title = "Into what comes next: a round trip's calls, a script's lines, a loop's rounds";
    this.over.title = "Over what is inside, to the next step that is no deeper";
    this.out.title = "Out, to the end of the loop, the call or the round trip";
    this.depths.append(this.into, this.over, this.out);

    this.slider = make("input", "emqkit-slider");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.step = "1";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => deck.go(this.stops[Number(this.slider.value)]));
    this.ticks = make("div", "emqkit-ticks");
    this.ticks.setAttribute("aria-hidden", "true");
    const rail = make("div", "emqkit-rail");
    rail.append(this.slider, this.ticks);
    this.count = make("span", "emqkit-count");
    let field;
    [field, this.shows] = choice("Shows", SHOWS, (value) => deck.show(value));
    this.showsField = field;
    [field, this.pace] = choice("Pace", PACES, (value) => {
      deck.pace = Number(value);
      deck.run();
    });
    bar.append(steps, this.depths, rail, this.count, this.showsField, field);

    this.where = make("p", "emqkit-where");
    this.status = make("p", "emqkit-status");
    this.status.setAttribute("role", "status");
    this.status.setAttribute("aria-live", "polite");
    this.changes = make("p", "emqkit-changes");
    this.boards = make("div", "emqkit-films");
    this.stage = make("div", "emqkit-stage");
    this.stage.setAttribute("role", "group");
    this.stage.setAttribute("aria-label", "The stage");
    this.stage.append(this.boards);

    const drawers = make("div", "emqkit-drawers");
    this.handles = new Map();
    for (const [name, words] of DRAWERS) {
      const handle = make("button", "emqkit-handle", words);
      handle.type = "button";
      handle.addEventListener("click", () => this.open(this.drawer === name ? "" : name));
      this.handles.set(name, handle);
      drawers.append(handle);
    }
    [field, this.job] = choice("Follow", [], (value) => this.follow(Number(value)));
    this.earlier = button("back", "Earlier", null, () => this.along(-1));
    this.later = button("forward", "Later", null, () => this.along(1));
    this.earlier.title = "To the step before this one that touches it";
    this.later.title = "To the next step that touches it";
    const following = make("div", "emqkit-group emqkit-following");
    following.append(field, this.earlier, this.later);
    drawers.append(following);
    this.panel = make("section", "emqkit-panel");
    this.panel.tabIndex = 0;
    this.panel.hidden = true;

    root.append(bar, this.where, this.status, this.changes, this.stage, drawers, this.panel);
    root.addEventListener("keydown", (event) => this.key(event));
    el.append(root);
    this.root = root;
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const { target } = event;
    if (target.tagName === "SELECT") return;
    // a button has its own use for Space, a drawer its own for arrows and End
    const space = target === this.root || target === this.slider;
    if (target.closest && target.closest(".emqkit-panel")) return;
    const { deck } = this;
    const acts = {
      ArrowLeft: () => deck.go(deck.behind()),
      ArrowRight: () => deck.go(deck.ahead()),
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

  reload() {
    const { deck } = this;
    this.painted = {};
    this.films = deck.films.map((film, at) => new Board(film, deck.labels[at] || "", (job) => this.chose(at, job), () => this.open("rows")));
    this.root.classList.toggle("emqkit-two", this.films.length > 1);
    this.boards.style.minHeight = "";
    this.fit();
    this.boards.replaceChildren(...this.films.map((board) => board.root));
    this.differ = deck.films.length > 1 && new Set((this.model.get("payload") || {}).differ || []);
    const film = deck.films[0];
    const jobs = film ? film.jobs.slice(0, JOBS_LISTED) : [];
    this.job.replaceChildren(make("option", "", "a job …"), ...jobs.map(([name]) => make("option", "", name)));
    [...this.job.children].forEach((option, at) => (option.value = String(at - 1)));
    this.followed = -1;
    this.code = null;
    if (deck.finest >= 2 && !this.drawer) this.drawer = "lua";
    this.rebuild();
  }

  // One stage and its drawer are to be seen at once, and in a lab its controls too.
  fit() {
    const queues = Math.max(0, ...this.deck.films.map((film) => film.queues.length));
    const tallest = this.root.clientWidth < 860 ? 650 : queues < 3 && this.films.length < 2 ? 600 : 720;
    const lab = this.root.closest(".emqkit-lab");
    const above = lab ? this.root.getBoundingClientRect().top - lab.getBoundingClientRect().top : 0;
    const least = this.drawer ? 440 : tallest; // where the controls leave too little, it is better scrolled to than cut
    this.root.style.setProperty("--tallest", `${Math.max(tallest - above, least)}px`);
  }

  rebuild() {
    const { deck } = this;
    this.stops = deck.stops();
    this.painted = {};
    this.slider.max = String(Math.max(this.stops.length - 1, 0));
    // a tick a step, as long as they can be told apart; a thinner one where quiet calls lie between
    this.ticks.replaceChildren();
    const last = this.stops.length - 1;
    if (last > 0 && last <= 80) {
      this.stops.forEach((at, place) => {
        const event = this.event(place);
        const tick = make("i", event ? `emqkit-event emqkit-${event}` : place && this.quiet(place) ? "emqkit-quiet" : "");
        tick.style.setProperty("--at", String(place / last));
        this.ticks.append(tick);
      });
    }
    this.shows.value = this.model.get("shows") || "changes";
    for (const option of this.shows.options) option.hidden = LEVEL[option.value] > Math.max(1, deck.finest);
    this.depths.hidden = deck.finest < 2 && !(deck.level() && deck.depths.some(Boolean));
    this.root.classList.toggle("emqkit-deep", !this.depths.hidden);
    this.open(this.drawer);
    this.paint(true);
  }

  // What is to be found again of a step, and of what lies between it and the stop before: a crash, a lapse, a death.
  event(place) {
    const before = place ? this.stops[place - 1] : this.stops[place];
    for (let at = this.stops[place]; at > before; at -= 1) {
      const found = this.deck.pairs[at].map((frame, film) => this.deck.films[film].frames[frame].e).find(Boolean);
      if (found) return found;
    }
    return "";
  }

  // How many calls that changed nothing lie before a stop.
  quiet(place) {
    const { levels } = this.deck;
    let count = 0;
    for (let at = this.stops[place - 1] + 1; at < this.stops[place]; at += 1) count += levels[at] === 1 && this.whole(at);
    return count;
  }

  // The summary of a flush is no call.
  whole(at) {
    return !(this.deck.depths[at] === 0 && this.deck.depths[at - 1] === 1);
  }

  paint(again) {
    const { deck, painted } = this;
    const index = deck.index();
    if (!deck.films.length || (!again && painted.index === index)) return;
    painted.index = index;
    const pair = deck.pairs[index];
    const place = this.stops.findLastIndex((at) => at <= index);
    const last = this.stops.length - 1;
    const between = this.stops[place] !== index;

    enable(this.first, index > 0);
    enable(this.back, deck.behind() < index);
    enable(this.forward, deck.ahead() > index);
    enable(this.last, index < deck.last());
    enable(this.into, index < deck.last());
    enable(this.over, deck.over() > index);
    enable(this.out, deck.out() > index);
    const count = `step ${place}${between ? "+" : ""} of ${last}`;
    this.slider.value = String(place);
    this.slider.setAttribute("aria-valuetext", count);
    this.count.textContent = count;

    this.films.forEach((board, at) => board.paint(pair[at], this.differ));
    const [board] = this.films;
    const quiet = between ? 0 : place && this.quiet(place);
    const before = quiet ? ` · after ${quiet} quiet call${quiet > 1 ? "s" : ""}` : "";
    this.where.textContent = board.scene.text(board.frame.w) + before;
    const sentence = this.films.map((one) => (one.label ? `${one.label}: ` : "") + one.scene.text(one.frame.s)).join(" — ");
    if (this.status.textContent !== sentence) this.status.textContent = sentence;
    const lines = wide(sentence, this.loud) / (this.root.clientWidth - 40);
    this.root.classList.toggle("emqkit-long", lines > 1.9);
    this.paintChanges(index);
    this.paintPanel();
    this.paintFollow(pair[0]);
    // the stage keeps the height it once had; where that is too much for a screen it scrolls, by keyboard too
    const height = this.boards.offsetHeight;
    if (height > (parseFloat(this.boards.style.minHeight) || 0)) this.boards.style.minHeight = `${height}px`;
    this.stage.tabIndex = this.stage.scrollHeight > this.stage.clientHeight + 1 ? 0 : -1;
  }

  paintClock() {
    const playing = Boolean(this.model.get("playing"));
    this.play.setAttribute("aria-pressed", String(playing));
    this.play.replaceChildren(icon(playing ? "pause" : "play"), make("span", "", playing ? "Pause" : "Play"));
    this.play.title = `${playing ? "Pause" : "Play"} (Space)`;
    this.pace.value = String(this.deck.pace);
    // faster than anybody listens: say nothing until it stands again
    this.status.setAttribute("aria-live", playing && this.deck.pace > 1 ? "off" : "polite");
  }

  words(board) {
    return board.scene.pairs(board.frame.x);
  }

  line([mark, words], tag) {
    const [sign, said] = MARKS[mark] || [mark, mark];
    const item = make(tag, `emqkit-line emqkit-${said}`);
    const shown = make("span", "emqkit-sign", sign);
    shown.setAttribute("aria-hidden", "true");
    item.append(shown, make("span", "emqkit-said", `${said}: `), words);
    return item;
  }

  paintChanges(index) {
    const [board] = this.films;
    const all = this.words(board);
    this.changes.replaceChildren();
    if (!all.length) this.changes.append(index === 0 ? "Nothing has changed yet." : "Nothing changed.");
    all.slice(0, 3).forEach((line) => this.changes.append(this.line(line, "span")));
    const more = all.length - 3 + (board.frame.y || 0);
    if (more > 0) this.changes.append(make("span", "emqkit-soft", `and ${more} more`));
  }

  // --- drawers -------------------------------------------------------------------------------------------------------

  open(name) {
    this.drawer = name;
    for (const [one, handle] of this.handles) handle.setAttribute("aria-expanded", String(one === name));
    this.panel.hidden = !name;
    const words = DRAWERS.find(([one]) => one === name);
    if (words) this.panel.setAttribute("aria-label", words[1]);
    this.code = null;
    this.fit();
    this.panel.className = `emqkit-panel emqkit-panel-${name}`;
    this.panel.replaceChildren();
    if (this.painted.index !== undefined) this.paintPanel();
  }

  paintPanel() {
    const [board] = this.films;
    if (!board) return;
    if (this.drawer === "rows") this.panel.replaceChildren(...board.rows());
    else if (this.drawer === "keys") this.panel.replaceChildren(...board.keys());
    else if (this.drawer === "words") this.paintWords(board);
    else if (this.drawer === "lua") this.paintLua(board);
    else if (this.drawer === "host") this.paintHost(board);
  }

  paintWords(board) {
    const all = this.words(board);
    const list = make("ul");
    list.append(...all.map((line) => this.line(line, "li")));
    if (board.frame.y) list.append(make("li", "", `and ${board.frame.y} more`));
    this.panel.replaceChildren(all.length ? list : make("p", "emqkit-none", "Nothing changed."));
  }

  // Code with the lines that ran marked, and its first mark in sight.
  listing(name, numbers, lines) {
    const code = make("ol", "emqkit-code");
    code.setAttribute("aria-label", name);
    lines.forEach((line, at) => {
      const kind = /^\s*-- move:/.test(line) ? "emqkit-move" : /^\s*(--|#)/.test(line) ? "emqkit-comment" : "";
      const item = make("li", kind);
      item.value = numbers[at];
      const text = make("code", "", line.trimStart());
      text.style.setProperty("--in", `${line.length - line.trimStart().length}ch`);
      item.append(text);
      code.append(item);
    });
    return code;
  }

  paintLua(board) {
    const { frame, film, scene } = board;
    const source = frame.c === undefined ? null : film.sources[frame.c];
    if (!source) {
      const next = film.frames[this.deck.pairs[Math.min(this.deck.index() + 1, this.deck.last())][0]];
      const enters = next && next.i && next.c !== undefined && this.deck.index() === 0;
      this.panel.replaceChildren(make("p", "emqkit-none", enters ? `Nothing has run yet: press Into to enter ${film.sources[next.c].name}.` : this.deck.index() ? "A plain command: no script runs in this step." : "Nothing has run yet."));
      this.code = null;
      return;
    }
    if (this.code?.source !== source) {
      const listing = this.listing(`The Lua of ${source.name}`, source.lines.map((_, at) => at + 1), source.lines);
      const head = make("h5");
      const values = make("div", "emqkit-values");
      const left = make("div", "emqkit-pane");
      left.append(head, listing);
      this.panel.replaceChildren(left, values);
      this.code = { source, listing, head, values };
    }
    const { listing, head, values } = this.code;
    head.replaceChildren(make("b", "", `${source.name}.lua`));
    head.append(frame.i ? ` line ${frame.i}${frame.m === undefined ? "" : `, move ${scene.text(frame.m)}`}` : " the whole script, in one step");
    for (const item of listing.querySelectorAll("[aria-current], .emqkit-next")) {
      item.removeAttribute("aria-current");
      item.classList.remove("emqkit-next");
    }
    if (frame.i) {
      const current = listing.children[frame.i - 1];
      current.setAttribute("aria-current", "true");
      const next = film.frames[board.index + 1];
      if (next && next.i && next.c === frame.c && next.i !== frame.i) listing.children[next.i - 1].classList.add("emqkit-next");
      this.reveal(listing.parentElement, current);
    }
    values.replaceChildren(
      ...[["asked", "q"], ["locals", "o"], ["ARGV", "v"], ["KEYS", "k"]].flatMap(([title, name]) => {
        const pairs = scene.pairs(frame[name]);
        return pairs.length ? [this.pairTable(title, pairs)] : [];
      }),
    );
  }

  pairTable(title, pairs) {
    const table = make("table", `emqkit-${title.toLowerCase()}`);
    table.append(make("caption", "", title));
    for (const [name, value] of pairs) {
      const row = make("tr");
      const head = make("th", "", name);
      head.scope = "row";
      row.append(head, make("td", "", value));
      table.append(row);
    }
    return table;
  }

  paintHost(board) {
    const path = board.frame.h === undefined ? [] : board.film.paths[board.frame.h];
    if (this.code?.path === path && path.length) return;
    this.code = { path };
    if (!path.length) {
      this.panel.replaceChildren(make("p", "emqkit-none", "No line of the host sent this."));
      return;
    }
    const parts = path.map(({ name, numbers, lines, marked }) => {
      const part = make("div", "emqkit-pane");
      const head = make("h5");
      head.append(make("b", "", name), ` waits in line ${marked[0]}`);
      const listing = this.listing(`The code of ${name}`, numbers, lines);
      numbers.forEach((number, at) => {
        if (number >= marked[0] && number <= marked[1]) listing.children[at].setAttribute("aria-current", "true");
      });
      part.append(head, listing);
      return part;
    });
    this.panel.replaceChildren(...parts);
    const marks = this.panel.querySelectorAll("[aria-current]");
    if (marks.length) this.reveal(this.panel, marks[marks.length - 1]);
  }

  reveal(room, line) {
    const box = room.getBoundingClientRect();
    const own = line.getBoundingClientRect();
    if (own.top < box.top + 28 || own.bottom > box.bottom - 24) room.scrollTop += own.top - box.top - room.clientHeight / 2;
  }

  // --- one job through the trace -------------------------------------------------------------------------------------

  chose(film, job) {
    if (film === 0) this.follow(this.followed === job ? -1 : job);
  }

  follow(job) {
    this.followed = job;
    this.job.value = String(job);
    const [board] = this.films;
    const frames = job < 0 ? [] : board.scene.touching(job);
    const at = new Map(this.deck.pairs.map((pair, place) => [pair[0], place]));
    this.touched = frames.map((frame) => at.get(frame));
    this.paintFollow(this.deck.pairs[this.deck.index()][0]);
  }

  along(step) {
    const to = this.next(step);
    if (to !== undefined) this.deck.go(to);
  }

  // The nearest stop that touches the followed job.
  next(step) {
    const here = this.deck.index();
    const { levels } = this.deck;
    const fit = (this.touched || []).filter((at) => levels[at] <= this.deck.level() && (step > 0 ? at > here : at < here));
    return step > 0 ? fit[0] : fit[fit.length - 1];
  }

  paintFollow() {
    const on = this.followed >= 0;
    this.earlier.hidden = this.later.hidden = !on;
    enable(this.earlier, on && this.next(-1) !== undefined);
    enable(this.later, on && this.next(1) !== undefined);
    for (const chip of this.boards.querySelectorAll(".emqkit-followed")) chip.classList.remove("emqkit-followed");
    if (on) for (const chip of this.films[0].root.querySelectorAll(`[data-job="${this.followed}"]`)) chip.classList.add("emqkit-followed");
  }

  remove() {
    this.watch.disconnect();
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
