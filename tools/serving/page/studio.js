// The page of `ivm studio`. What it shows is in the hash of its address: #view=rows&name=edge&at=5&offset=100.
//
// Everything from the store becomes text of a node (`make`), never markup, and control characters are written out.

const $ = (id) => document.getElementById(id);
const state = { newest: null, version: null, counts: new Map(), writes: false, drawn: 0 };
const PAGE = 100;

// -- nodes

/** Write control and direction characters out, except line ends where they are wanted. */
function visible(text, lines = false) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (letter) => {
    if (letter === "\u200c" || letter === "\u200d" || (lines && letter === "\n")) return letter;
    const code = letter.codePointAt(0).toString(16);
    return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[letter] ?? (code.length < 3 ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`);
  });
}

/** Make an element. Attributes that are functions listen to events; children are nodes or texts. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (typeof value === "boolean") node.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) node.setAttribute(name, visible(String(value)));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    if (child instanceof Node) node.append(child);
    else node.append(...(tag === "code" || tag === "pre" ? pieces(String(child)) : [visible(String(child))]));
  }
  return node;
}

/** Return rules or SQL with each quoted text on its own, so that one from right to left leaves the rest as it is. */
function pieces(text) {
  const parts = visible(text, true).split(/("(?:[^"\\]|\\.)*")/);
  return parts.map((part, place) => (place % 2 ? make("bdi", {}, part) : part));
}

const number = (count) => count.toLocaleString("en");
const counted = (count, what) => `${number(count)} ${what}${count === 1 ? "" : "s"}`;
const short = (text, most = 100) =>
  text.length <= most ? text : `${text.slice(0, most)}… (${number(text.length)} characters)`;
const link = (route, ...children) => make("a", { href: `#${new URLSearchParams(route)}` }, ...children);
const named = (name, at) => link({ view: "rows", name, ...(at && { at }) }, short(name));

// -- the server

/** Ask the server; it stops working on what is asked when the `signal` says that nobody waits for the answer. */
async function call(what, given = {}, signal = undefined) {
  const answer = await fetch(`api/${what}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(given),
    signal,
  });
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

/** Ask for what the page is to show, until the user goes on. */
const ask = (what, given) => call(what, given, state.asked.signal);

/** Do something, and show its error, if there is one, in place of the last one; neither, if the user has gone on. */
async function attempt(action, goneOn = () => false) {
  $("problem").textContent = "";
  document.body.setAttribute("aria-busy", "true");
  try {
    return await action();
  } catch (error) {
    if (!goneOn()) $("problem").textContent = visible(short(String(error.message), 1000), true);
  } finally {
    if (!goneOn()) document.body.removeAttribute("aria-busy");
  }
}

// -- rows

const isNumber = (type) => /^(u?int|decimal|float|double)/.test(type);

function cell(value, column, tag = "td") {
  const text = value?.text ?? value ?? "null";
  const attributes = { class: isNumber(column.type) ? "right whole" : text.length > 24 ? "long" : "whole", dir: "auto" };
  if (value === null) return make(tag, attributes, make("span", { class: "null" }, "null"));
  if (typeof value === "string") return make(tag, attributes, value);
  return make(tag, attributes, value.text, make("span", { class: "cut" }, `… ${number(value.length)} characters`));
}

/** Return a column's type, and whether it is of the key, which is of interest if another one is not. */
const typed = (column, columns) =>
  `${column.type}${column.key && !columns.every((one) => one.key) ? ", key" : ""}`;

function head(columns, first) {
  const cells = columns.map((column) =>
    make("th", { scope: "col", class: isNumber(column.type) ? "right" : undefined }, short(column.name, 60),
      make("small", {}, typed(column, columns))));
  return make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "whole" }, first), cells));
}

/** Move among the buttons of rows by arrows; Tab enters and leaves the table. */
function moveAmongRows(event) {
  const buttons = [...event.currentTarget.querySelectorAll("tbody th button")];
  const place = buttons.indexOf(document.activeElement);
  const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (place < 0 || !buttons[to]) return;
  event.preventDefault();
  buttons[place].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}

function tableOf(page, name) {
  const body = page.rows.map((row, place) => {
    const at = page.offset + place;
    const cells = row.map((value, index) => cell(value, page.columns[index]));
    if (!name) return make("tr", {}, make("td", { class: "soft right" }, number(at + 1)), cells);
    const ask = () => why(name, page.version, at);
    const label = `Why row ${number(at + 1)} is there`;
    const button = make("button", { type: "button", tabindex: place ? -1 : 0, "aria-label": label, title: label }, number(at + 1));
    return make("tr", { click: ask }, make("th", { scope: "row" }, button), cells);
  });
  const table = make("table", {}, head(page.columns, ""), make("tbody", {}, body));
  const label = `Rows of ${name ? short(name) : "the answer"}`;
  return make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": label, keydown: moveAmongRows }, table);
}

function pager(page, route) {
  const last = Math.max(0, Math.floor((page.total - 1) / PAGE) * PAGE);
  const to = page.offset + page.rows.length;
  const step = (offset, text) =>
    make("button", { type: "button", disabled: offset === null, click: () => go({ ...route, offset }) }, text);
  if (page.total <= page.rows.length) return make("p", { class: "soft" }, counted(page.total, "row"));
  return make("div", { class: "bar" },
    step(page.offset > 0 ? 0 : null, "First"),
    step(page.offset > 0 ? Math.max(0, page.offset - PAGE) : null, "Previous"),
    step(to < page.total ? to : null, "Next"),
    step(to < page.total ? last : null, "Last"),
    make("span", { class: "soft" }, `rows ${number(page.offset + 1)} to ${number(to)} of ${number(page.total)}`));
}

// -- the picture of what reads what

const SVG = "http://www.w3.org/2000/svg";
const BOX = { width: 168, height: 30, across: 232, down: 44, edge: 4 };

function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, visible(String(value)));
  node.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return node;
}

/** Draw names as boxes, in a column for each level, and a line from each to those that read it. */
function picture(found, route) {
  if (!found.edges.length) return null;
  const linked = new Set(found.edges.flat());
  const nodes = found.nodes.filter((one) => linked.has(one.name));
  const heights = [];
  const places = new Map(nodes.map((one) => {
    heights[one.level] = (heights[one.level] ?? 0) + 1;
    return [one.name, { x: BOX.edge + one.level * BOX.across, y: BOX.edge + (heights[one.level] - 1) * BOX.down }];
  }));
  const lines = found.edges.filter(([from, to]) => from !== to).map(([from, to]) => {
    const [a, b] = [places.get(from), places.get(to)];
    const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
    const bend = Math.max(24, (x2 - x1) / 2);
    return shape("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  });
  const boxes = nodes.map((one) => {
    const { x, y } = places.get(one.name);
    const own = one.name === route.name;
    const recursive = found.edges.some(([from, to]) => from === to && from === one.name) ? " ↻" : "";
    const shown = shape("svg", { x: x + 8, y, width: BOX.width - 16, height: BOX.height },
      shape("text", { x: 0, y: 20 }, short(one.name, 60) + recursive));
    const box = shape("rect", { x, y, width: BOX.width, height: BOX.height, rx: one.kind === "view" ? 15 : 3 });
    const to = new URLSearchParams({ view: "rules", name: one.name, ...at(route) });
    const label = `${one.kind} ${short(one.name, 300)}`;
    return shape("a", { href: `#${to}`, class: own ? `${one.kind} own` : one.kind, "aria-label": label },
      shape("title", {}, label), box, shown);
  });
  const width = Math.max(...nodes.map((one) => one.level)) * BOX.across + BOX.width + 2 * BOX.edge;
  const height = Math.max(...heights.filter(Boolean)) * BOX.down - (BOX.down - BOX.height) + 2 * BOX.edge;
  return [
    make("h3", {}, "What reads what"),
    make("div", { class: "scroll picture", role: "region", tabindex: 0, "aria-label": "What reads what" },
      shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...lines, ...boxes)),
    found.more ? make("p", { class: "soft" }, `and ${number(found.more)} more`) : null,
  ];
}

// -- the picture of branches

const ROW = { height: 28, lane: 20, radius: 5, text: 480 };

/** Draw versions as dots, newest on top, in a lane for each branch, with lines to those they were made from. */
function graph(found) {
  const lanes = [...new Set(["main", ...found.versions.map((one) => one.branch)])];
  const places = new Map(found.versions.map((one, row) =>
    [one.version, { x: ROW.lane * (lanes.indexOf(one.branch) + 0.7), y: ROW.height * (row + 0.5) }]));
  const height = ROW.height * found.versions.length;
  const colour = (branch) => `hsl(${(210 + 137 * lanes.indexOf(branch)) % 360} 55% 50%)`;
  const line = (one, parent, bends) => {
    const from = places.get(one.version);
    const to = places.get(parent) ?? { x: from.x, y: height };
    const [high, low] = bends ? [from.y, from.y + ROW.height] : [to.y - ROW.height, to.y];
    const middle = (high + low) / 2;
    return shape("path", {
      d: `M${from.x} ${from.y}V${high}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${low}V${to.y}`,
      stroke: colour(bends ? found.versions.find((other) => other.version === parent)?.branch : one.branch) });
  };
  const lines = found.versions.filter((one) => one.version > 0).flatMap((one) =>
    [line(one, one.parent, false), ...(one.merged === null ? [] : [line(one, one.merged, true)])]);
  const left = ROW.lane * (lanes.length + 0.7);
  const rows = found.versions.map((one) => {
    const { x, y } = places.get(one.version);
    const names = found.branches.filter((branch) => branch.version === one.version).map((branch) => branch.name);
    const label = `version ${number(one.version)}${one.message ? `, ${short(one.message, 60)}` : ""}`;
    const to = one.version ? { view: "changes", old: one.parent, new: one.version } : { view: "start", at: 0 };
    return shape("a", { href: `#${new URLSearchParams(to)}`, "aria-label": label },
      shape("circle", { cx: x, cy: y, r: ROW.radius, stroke: colour(one.branch) }),
      shape("text", { x: left, y: y + 5 }, ...(names.length ? [shape("tspan", { class: "head" }, short(names.join(", "), 60)), "  "] : []), label));
  });
  const width = left + ROW.text;
  return make("div", { class: "scroll picture", role: "region", tabindex: 0, "aria-label": "Versions of all branches" },
    shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...lines, ...rows));
}

// -- views of the page

const views = {
  start: async (route) => [
    make("h2", { tabindex: -1 }, "What is in this store"),
    make("p", {}, "Choose a relation or a view, or ask above. Some beginnings:"),
    make("ul", {}, examples().map((text) =>
      make("li", {}, link({ view: "ask", text }, make("code", {}, short(text)))))),
    picture(await ask("dependencies", at(route)), route),
  ],

  rows: async (route) => {
    const page = await ask("rows", { name: route.name, ...at(route), offset: Number(route.offset ?? 0) });
    return [...titled(route, "rows", page), tableOf(page, route.name), pager(page, route)];
  },

  rules: async (route) => {
    const found = await ask("describe", { name: route.name, ...at(route) });
    const plan = found.kind === "view" ? await ask("explain", { text: route.name }) : null;
    const flow = (names, text) =>
      names.length ? make("p", {}, `${text} `, names.map((name, place) => [place ? ", " : "", named(name, route.at)])) : null;
    return [
      ...titled(route, "rules", found),
      make("dl", { class: "columns" }, found.columns.map((one) =>
        [make("dt", {}, short(one.name)), make("dd", {}, typed(one, found.columns))])),
      flow(found.reads, "reads"),
      flow(found.read_by, "is read by"),
      picture(await ask("dependencies", { name: route.name, ...at(route) }), route),
      found.text && [make("h3", {}, `Rules of the block ${short(found.block)}`), make("pre", { class: "box" }, found.text)],
      plan && [
        make("h3", {}, "How it is kept"),
        plan.sentences.map((line) => make("p", {}, line)),
        plan.plan.length
          ? make("div", { class: "scroll plan" }, make("table", {}, make("tbody", {}, plan.plan.map(([label, said]) =>
            make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, said))))))
          : null,
      ],
    ];
  },

  ask: async (route) => {
    $("statement").value = route.text;
    const asked = /^\s*why\s+(.*)/s.exec(route.text);
    if (asked) return [make("h2", { tabindex: -1 }, "Why"), ...proof(await ask("why", { fact: asked[1], ...at(route) }))];
    const found = await ask("statement", { text: route.text, ...at(route), offset: Number(route.offset ?? 0) });
    if (found.kind === "preview") return preview(found);
    return [make("h2", { tabindex: -1 }, "Answer"), tableOf(found, found.name), pager(found, route)];
  },

  history: async (route) => {
    const offset = Number(route.offset ?? 0);
    const found = await ask("history", { offset });
    const rows = found.versions.map((one) => make("tr", {},
      make("th", { scope: "row", class: "right" }, number(one.version)),
      make("td", { class: "plain" }, new Date(one.timestamp).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })),
      make("td", { class: "plain", dir: "auto" }, short(one.message), one.tags.map((tag) => [" ", make("span", { class: "chip" }, short(tag))]),
        one.branch === "main" ? null : [" ", make("span", { class: "chip" }, `branch ${short(one.branch)}`)]),
      make("td", { class: "plain" }, make("span", { class: "bar" },
        one.version ? link({ view: "changes", old: one.parent, new: one.version }, "Changes") : null,
        link({ view: "start", at: one.version }, "Look at it")))));
    const columns = ["time", "message", ""].map((name) => ({ name, type: "" }));
    const step = (text, to) => make("button", { type: "button", click: () => go({ view: "history", offset: to }) }, text);
    return [
      make("h2", { tabindex: -1 }, "History"),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Versions" },
        make("table", {}, head(columns, "version"), make("tbody", {}, rows))),
      make("div", { class: "bar" }, offset ? step("Newer", Math.max(0, offset - PAGE)) : null,
        found.more ? step("Older", offset + PAGE) : null),
    ];
  },

  branches: async () => {
    const found = await ask("branches");
    const rows = found.branches.map(({ name, version }) => make("tr", {},
      make("td", { class: "plain", dir: "auto" }, short(name)),
      make("td", { class: "right" }, number(version)),
      make("td", { class: "plain" }, make("span", { class: "bar" },
        link({ view: "start", at: version }, "Look at it"),
        name === "main" ? null : [link({ view: "merge", branch: name, into: "main" }, "Merge into main"),
          link({ view: "merge", branch: "main", into: name }, "Bring main into it")]))));
    return [
      make("h2", { tabindex: -1 }, "Branches"),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Branches" },
        make("table", {}, make("thead", {}, make("tr", {}, ["branch", "version", ""].map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, rows))),
      found.branches.length > 1 ? null
        : make("p", { class: "soft" }, "There is only main. ", make("code", {}, "CREATE BRANCH trial"), " in ", make("code", {}, "ivm sql"), " begins another."),
      graph(found),
      found.more ? make("p", { class: "soft" }, "Older versions are in the history.") : null,
    ];
  },

  merge: async ({ branch, into, on_conflict = "" }) => {
    const found = await ask("merge", { branch, into, on_conflict });
    const { total, rows } = found.conflicts;
    const rules = [["ours", `Keep ${short(into, 30)}'s`], ["theirs", `Take ${short(branch, 30)}'s`],
      ["larger", "Take the larger"], ["sum", "Add both changes"]].map(([rule, text]) =>
      make("a", { class: "tab", href: `#${new URLSearchParams({ view: "merge", branch, into, on_conflict: rule })}`,
        "aria-current": rule === on_conflict ? "true" : undefined }, text));
    const conflicts = total ? [
      make("h3", {}, `${counted(total, "row")} that both changed`),
      tableOf(found.conflicts),
      total > rows.length ? make("p", { class: "soft" }, `and ${number(total - rows.length)} more`) : null,
      make("div", { class: "bar" }, rules),
    ] : [];
    if (total && !on_conflict) return [
      make("h2", { tabindex: -1 }, `${short(branch)} and ${short(into)} conflict`), conflicts,
      make("p", { class: "soft" }, "Choose what is done about these rows, to see what the merge would change."),
    ];
    return preview(found, "Merge", `What merging ${short(branch)} into ${short(into)} would change`,
      `Merging ${short(branch)} into ${short(into)} changes nothing`, conflicts);
  },

  changes: async (route) => {
    const found = await ask("differences", { old: Number(route.old), new: Number(route.new) });
    return [
      make("h2", { tabindex: -1 }, `From version ${number(found.old)} to ${number(found.new)}`),
      found.changes.map(change),
      found.changes.length ? null : make("p", {}, "No row of a relation or view differs."),
    ];
  },
};

const at = (route) => (route.at ? { at: Number(route.at) } : {});

function examples() {
  const [name] = state.counts.keys();
  const plain = [...state.counts.keys()].find((one) => /^[a-z]\w*$/.test(one)) ?? name;
  return plain ? [`SELECT * FROM ${plain} LIMIT 10`, `SELECT count(*) FROM ${plain}`] : [];
}

function titled(route, tab, found) {
  const shown = { name: route.name, ...(route.at && { at: route.at }) };
  const tabs = [["rows", "Rows"], ["rules", "Rules and plan"]].map(([view, text]) =>
    make("a", { class: "tab", href: `#${new URLSearchParams({ view, ...shown })}`, "aria-current": view === tab ? "page" : undefined }, text));
  const kind = state.kinds?.get(route.name) ?? found.kind;
  return [
    make("h2", { tabindex: -1, dir: "auto" }, short(route.name)),
    make("div", { class: "bar" }, tabs, kind ? make("span", { class: "chip" }, kind) : null),
  ];
}

function change(one) {
  const amount = one.note
    ? make("span", { class: "soft" }, one.note)
    : [make("span", { class: "plus" }, `+${number(one.inserted)}`), make("span", { class: "minus" }, `−${number(one.deleted)}`)];
  const title = make("h3", { class: "bar" }, make("span", { class: "name" }, short(one.name)),
    make("span", { class: "chip" }, one.kind), amount);
  if (one.note) return make("div", { class: "part" }, title);
  const rows = one.rows.map(([sign, row]) => make("tr", {},
    make("td", { class: `mono ${sign === "+" ? "plus" : "minus"}`, "aria-label": sign === "+" ? "comes" : "goes" }, sign === "+" ? "+" : "−"),
    row.map((value, index) => cell(value, one.columns[index]))));
  const more = one.inserted + one.deleted - one.rows.length;
  return make("div", { class: "part" }, title,
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Changes of ${short(one.name)}` },
      make("table", {}, head(one.columns, ""), make("tbody", {}, rows))),
    more > 0 ? make("p", { class: "soft" }, `and ${number(more)}${one.counted ? "" : " or"} more`) : null);
}

function preview(found, act = "Commit", title = "What these edits would change", none = "These edits change nothing", first = []) {
  const commit = async () => {
    $("view").inert = true;
    const made = await attempt(() => call("commit", { token: found.token }));
    $("view").inert = false;
    if (!made) return $("view").replaceChildren(); // the token is spent
    $("statement").value = "";
    await go({ view: "changes", old: found.version, new: made.version });
  };
  const nothing = !found.changes.length;
  return [
    make("h2", { tabindex: -1 }, nothing ? none : title),
    first,
    nothing ? null : make("p", { class: "soft" }, `Tried on version ${number(found.version)}; nothing is stored yet.`),
    found.changes.map(change),
    nothing ? null : make("div", { class: "bar" },
      make("button", { class: "main", type: "button", disabled: !found.writes, click: commit }, act),
      make("button", { type: "button", click: () => go({ view: "start" }) }, "Throw away"),
      found.writes ? null : make("span", { class: "soft" }, "This was started to read only.")),
  ];
}

// -- why

function proof(found) {
  const steps = (found.proofs ?? []).map((one) => [
    make("p", {}, "by ", make("code", {}, one.rule)),
    make("ul", { class: "tree" }, branches(one)),
  ]);
  if (found.holds && steps.length) {
    const others = found.derivations - found.proofs.length;
    return [make("p", {}, make("code", {}, found.fact), since(found)), ...steps,
      others > 0 ? make("p", { class: "soft" }, `and by ${counted(others, "other derivation")}`) : null];
  }
  return [make("pre", { class: "box" }, found.text)];
}

function branches(step) {
  const items = step.from.map((fact) => make("li", {}, make("code", {}, fact.fact), since(fact),
    fact.rule ? make("span", { class: "soft" }, " by ", make("code", {}, fact.rule)) : null,
    fact.above ? make("span", { class: "soft" }, " (see above)") : null,
    fact.deeper ? make("span", { class: "soft" }, " (ask for it, as its proof goes deeper)") : null,
    fact.from ? make("ul", {}, branches(fact)) : null));
  if (step.more) items.push(make("li", { class: "soft" }, `and ${number(step.more)} more`));
  for (const text of step.absent ?? []) items.push(make("li", {}, make("code", {}, text)));
  return items;
}

function since(fact) {
  if (fact.since === undefined) return null;
  const text = fact.since === null ? " since before the oldest version kept" : ` since version ${number(fact.since)}`;
  return make("span", { class: "soft" }, text);
}

async function why(name, version, place) {
  const found = await attempt(() => call("why_row", { name, at: version, place }));
  if (!found) return;
  const [row] = found.rows;
  const close = make("button", { type: "button", click: () => $("dialog").close() }, "Close");
  $("dialog").replaceChildren(make("div", { class: "part" },
    make("div", { class: "top" }, make("h2", { id: "dialog-title", dir: "auto" }, `Why this row of ${short(name)} is there`), close),
    make("dl", {}, found.columns.map((column, index) =>
      [make("dt", {}, short(column.name)), cell(row[index], { type: "" }, "dd")])),
    found.why ? proof(found.why) : make("p", {}, found.error)));
  $("dialog").showModal();
  close.focus();
}

// -- the list of names, and the status

async function overview(route) {
  const found = await call("overview", at(route));
  const before = state.counts;
  state.counts = new Map(found.predicates.map((one) => [one.name, one.rows]));
  state.kinds = new Map(found.predicates.map((one) => [one.name, one.kind]));
  Object.assign(state, { newest: found.newest, version: found.version, writes: found.writes });
  const isLive = before.size > 0 && !route.at;
  const file = found.file.split("/").at(-1);
  $("file").textContent = visible(short(file));
  $("file").title = visible(found.file);
  document.title = visible(`${short(file)} – ivm studio`);
  const groups = [["relation", "Relations"], ["view", "Views"]].map(([kind, title]) => {
    const own = found.predicates.filter((one) => one.kind === kind);
    const items = own.map((one) => make("li",
      { class: isLive && before.get(one.name) !== one.rows ? "changed" : undefined },
      make("a", {
        href: `#${new URLSearchParams({ view: "rows", name: one.name, ...(route.at && { at: route.at }) })}`,
        "aria-current": one.name === route.name ? "true" : undefined, title: short(one.name, 300),
      }, make("span", { class: "name", dir: "auto" }, short(one.name, 60)), make("span", { class: "count" }, number(one.rows)))));
    return own.length ? [make("h2", {}, title), make("ul", {}, items)] : [];
  });
  $("names").replaceChildren(...groups.flat());
  filter();
  status(route);
}

function status(route, text) {
  const node = $("status");
  node.classList.toggle("old", Boolean(route.at));
  if (route.at) {
    node.replaceChildren(`version ${number(Number(route.at))} of ${number(state.newest)}, `,
      link({ ...route, at: "" }, "return to the newest"));
  } else {
    node.replaceChildren(text ?? `version ${number(state.version)}${state.writes ? "" : ", to read only"}`);
  }
}

function filter() {
  const wanted = $("filter").value.toLowerCase();
  for (const item of $("names").querySelectorAll("li")) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

// -- where the page is

function current() {
  const route = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!route.at) delete route.at;
  return { ...route, view: Object.hasOwn(views, route.view) ? route.view : "start" };
}

async function go(route) {
  const hash = `#${new URLSearchParams(route)}`;
  if (location.hash === hash) await draw();
  else location.hash = hash; // which draws
}

/** Draw what the address says; a user who went there is taken to its heading. */
async function draw(moved = true) {
  const route = current();
  const turn = ++state.drawn;
  const goneOn = () => turn !== state.drawn;
  state.asked?.abort();
  state.asked = new AbortController();
  if (moved) $("view").inert = true; // what it shows is another route's, such as a preview that could be committed
  const nodes = await attempt(async () => {
    await overview(route);
    return (await views[route.view](route)).flat(Infinity).filter(Boolean);
  }, goneOn);
  if (goneOn()) return;
  $("view").replaceChildren(...(nodes ?? []));
  $("view").inert = false;
  if (moved) $("view").querySelector("h2")?.focus();
}

/** Follow commits of any process: the list, and the rows that are shown. */
function follow() {
  const events = new EventSource("api/events");
  events.onmessage = (event) => {
    if (Number(event.data) === state.newest) return status(current());
    const route = current();
    if (route.view === "rows" && !route.at && !$("dialog").open) draw(false);
    else overview(route).catch(() => null);
  };
  events.onerror = () => status(current(), "not connected: `ivm studio` has ended, or is not reached");
}

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("statement").focus();
});
$("filter").addEventListener("input", filter);
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("statement").value.trim();
  const { at: version } = current();
  if (text) go({ view: "ask", text, ...(version && { at: version }) });
});
$("statement").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("ask").requestSubmit();
});
addEventListener("hashchange", () => draw());
draw(false).then(follow);
