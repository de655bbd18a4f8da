// The page: what is chosen, and what is drawn of it. Charts are Vega-Lite's; a choice draws everything anew.

const T = DATA.steps.length, N = DATA.train.ids.length, Q = DATA.query.ids.length;
const SDI = unpack(DATA.sdi), STDERR = unpack(DATA.stderr), TRACIN = unpack(DATA.tracin), WHOLE = unpack(DATA.tracin_stderr);
const ENERGY = Object.entries(DATA.energy).map(([group, text]) => [group, unpack(text)]);
const SIDE = DATA.mode === "train" ? "loop step of the training example" : "loop step of the query";
const Z95 = 1.96, MULTIPLES = 6, ROWS = 30, LISTED = 4, ROW = 15;
const state = { query: 0, beside: -1, train: 0, first: 1, last: T, chosen: false, theme: "light", same: false };
const drawn = [];
const at = (k, j, t) => (k * Q + j) * T + t;
const pick = (id) => document.getElementById(id);
const span = (f) => DATA.steps.slice(state.first - 1, state.last).map((_, t) => f(t + state.first - 1));
const total = (values) => values.reduce((a, b) => a + b, 0);

// Of one training example and query, over the chosen steps. Errors of steps may all point one way: they are summed.
function facts(k, j) {
  const all = state.first === 1 && state.last === T;
  const scores = DATA.steps.map((_, t) => SDI[at(k, j, t)]);
  const mass = total(span((t) => Math.abs(scores[t])));
  const sum = total(span((t) => scores[t]));
  const half = DATA.half[DATA.mode === "train" ? k : j]; // the first step of the later half of its own loop
  const late = total(scores.map((s, t) => (DATA.steps[t] >= half ? Math.abs(s) : 0)));
  const every = total(scores.map(Math.abs));
  return {
    k, name: DATA.train.names[k], text: textOf("train", k), mass, whole: TRACIN[k * Q + j],
    score: all ? TRACIN[k * Q + j] : sum,
    error: Z95 * (all ? WHOLE[k * Q + j] : total(span((t) => STDERR[at(k, j, t)]))),
    peak: DATA.steps[scores.reduce((best, s, t) => (Math.abs(s) > Math.abs(scores[best]) ? t : best), 0)],
    late: every ? late / every : null,
    cancelled: mass ? 1 - Math.abs(sum) / mass : null,
  };
}

const factsOf = (j) => DATA.train.ids.map((_, k) => facts(k, j));
const strongest = (j) => factsOf(j).sort((a, b) => b.mass - a.mass || a.k - b.k);

const INKS = {
  light: { ink: "#1c2128", soft: "#57606a", line: "#d0d7de", low: "#b35806", middle: "#f7f7f7", high: "#08519c", mark: "#1f6fb2" },
  dark: { ink: "#e6e9ed", soft: "#9aa4af", line: "#38424d", low: "#f0a14a", middle: "#1c2229", high: "#6cb6ff", mark: "#6cb6ff" },
};
const CATEGORY = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442"]; // Okabe and Ito

function config() {
  const c = INKS[state.theme];
  return {
    background: "transparent", view: { stroke: "transparent" }, font: "system-ui, sans-serif",
    axis: { labelColor: c.soft, titleColor: c.soft, domainColor: c.line, tickColor: c.line, gridColor: c.line, gridOpacity: 0.5,
      titleFontWeight: "normal" },
    legend: { labelColor: c.soft, titleColor: c.soft, titleFontWeight: "normal", titleLimit: 300 },
    area: { color: c.mark }, line: { color: c.mark }, point: { color: c.mark }, rule: { color: c.soft }, bar: { color: c.mark },
    range: { diverging: [c.low, c.middle, c.high], category: CATEGORY },
  };
}

function filled(spec, values) {
  if (typeof spec === "string" && spec.startsWith("$")) return values[spec.slice(1)];
  if (Array.isArray(spec)) return spec.map((part) => filled(part, values));
  if (spec && typeof spec === "object") {
    return Object.fromEntries(Object.entries(spec).map(([key, part]) => [key, filled(part, values)]));
  }
  return spec;
}

// Draw a chart into a box. words: what a reader who does not see it is told. choose: called with a clicked row's `k`.
async function chart(box, name, rows, values, words, choose) {
  const spec = { ...filled(CHARTS[name], { side: SIDE, ...values }), data: { values: rows } };
  spec.description = words;
  const actions = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };
  const found = await window.vegaEmbed(box, spec, { actions, config: config(), renderer: "svg", downloadFileName: `sdi-${name}` });
  if (choose) found.view.addEventListener("click", (event, item) => item && item.datum && item.datum.k !== undefined && choose(item.datum.k));
  drawn.push(found);
}

const largest = (values) => Math.max(...values.map(Math.abs), 0) || 1;

function section(title, caption, ...children) {
  return make("section", {}, make("h3", {}, title), make("p", { class: "caption" }, caption), ...children);
}

function exampleBox(row, j) {
  const sign = row.score < 0 ? "harms" : "helps";
  const name = make("button", { type: "button", class: "id", onclick: () => choose({ train: row.k }) }, row.name);
  const score = make("span", { class: sign }, `${format(row.score)} ± ${plain(row.error)}`);
  const shown = drawShown("train", row.k, (k) => facts(k, j).score, (k) => choose({ train: k }));
  return make("article", { class: "example" }, make("header", {}, name, score), shown);
}

// One query: everything about it, in one column. scale: of its charts, as `scaleOf` gives it.
function drawPanel(j, scale, jobs) {
  const rows = strongest(j), panel = make("div", { class: "panel", "data-query": DATA.query.ids[j] });
  const words = state.first === 1 && state.last === T ? "all steps" : `steps ${state.first} to ${state.last}`;
  const box = (parent) => { const node = make("div", { class: "chart" }); parent.append(node); return node; };
  const loss = DATA.loss ? `loss ${plain(DATA.loss[DATA.loss.length - 1][j])} at the last checkpoint; ` : "";
  const late = DATA.summary.late_mass[j], horizon = DATA.summary.horizon[j], centre = DATA.summary.centre_of_mass[j];
  const timing = horizon === null ? "no training example acts on it" :
    `${percent(late)} of the energy acts in the later half of the loop, 90% by step ${horizon}, on average at step ${centre.toFixed(1)}`;
  const shown = drawShown("query", j, (q) => facts(state.train, q).score, (q) => choose({ query: q }));
  panel.append(make("h2", {}, `Query ${DATA.query.names[j]}`), make("p", { class: "soft" }, loss + timing + "."), shown);
  if (shown.querySelector(".tokens button")) {
    panel.append(make("p", { class: "caption" }, `Tokens are coloured by the influence of ${DATA.train.names[state.train]} on each of them; choose one.`));
  }

  const grid = make("div", { class: "grid" });
  for (const row of rows.slice(0, MULTIPLES)) {
    const button = make("button", { type: "button", onclick: () => choose({ train: row.k }) }, row.name);
    const cell = make("div", { class: row.k === state.train ? "multiple chosen" : "multiple" }, button);
    grid.append(cell);
    const points = DATA.steps.map((step, t) => {
      const score = SDI[at(row.k, j, t)], error = Z95 * STDERR[at(row.k, j, t)];
      return { step, score, low: score - error, high: score + error };
    });
    const title = grid.children.length > MULTIPLES - 1 ? SIDE : null;
    jobs.push(() => chart(box(cell), "trajectory", points, { low: scale.low, high: scale.high, title }, `influence of ${row.name} on each step`));
  }
  panel.append(section("Trajectories", `The ${Math.min(MULTIPLES, rows.length)} training examples with the most influence over ${words}: influence on each loop step, with 95% bands. All on one scale, in the unit of the loss${state.beside < 0 ? "" : state.same ? "; both queries have the same" : "; each query has its own"}.`, grid));

  const many = rows.slice(0, ROWS);
  const cells = many.flatMap((row) => DATA.steps.map((step, t) => ({ k: row.k, name: row.name, step, score: SDI[at(row.k, j, t)], error: Z95 * STDERR[at(row.k, j, t)] })));
  const heat = section("Training examples × steps", `The ${many.length} strongest, by the sum of |influence| over ${words}. Blue: lowers the loss; orange: raises it. Colour grows with the square root, so that one large cell hides no other.`);
  jobs.push(() => chart(box(heat), "heatmap", cells, { least: -scale.most, most: scale.most, height: ROW * many.length }, "heatmap of influence, training examples by steps", (k) => choose({ train: k })));
  panel.append(heat);

  const both = make("div", { class: "wide" });
  const energyRows = ENERGY.flatMap(([group, values]) => DATA.steps.map((step, t) => ({ group, step, energy: values[j * T + t] })));
  const groups = ENERGY.map(([group]) => group);
  const named = groups.length === 2 && groups[0] === "helps" && groups[1] === "harms";
  const energy = section(named ? "Energy: what helps and what harms" : "Energy by group", `How much acts on each step, whatever its sign: the sum of |influence| over all ${DATA.train.all} training examples${named ? ", of those that lower the loss there and those that raise it" : ", by their group"}.`);
  jobs.push(() => chart(box(energy), "energy", energyRows, { groups, most: scale.energy }, "energy by step"));
  const sums = DATA.steps.map((_, t) => total(ENERGY.map(([, values]) => values[j * T + t])));
  const whole = total(sums) || 1;
  let so = 0;
  const shares = DATA.steps.map((step, t) => ({ step, share: (so += sums[t]) / whole }));
  const reach = section("Horizon", `The share of the energy that has acted by each step${horizon === null ? "" : `; 90% (dashed) is reached at step ${horizon}`}.`);
  jobs.push(() => chart(box(reach), "horizon", shares, {}, "share of the energy by step"));
  const cancel = section("Cancellation", `1 − |sum| / sum of |influence| over ${words}: 0% if all steps have one sign, 100% if they cancel entirely. What cancels is lost in TracIn's single number.`);
  jobs.push(() => chart(box(cancel), "cancellation", rows.filter((r) => r.mass > 0), {}, "cancellation of each training example", (k) => choose({ train: k })));
  both.append(energy, reach, cancel);
  panel.append(both);

  const signed = factsOf(j).sort((a, b) => b.score - a.score);
  const lists = make("div", { class: "wide" });
  const list = (title, caption, some) => lists.append(section(title, caption, ...some.map((row) => exampleBox(row, j))));
  list("Proponents", `Training on them lowers this query's loss most, over ${words}.`, signed.filter((r) => r.score > 0).slice(0, LISTED));
  list("Opponents", `Training on them raises it most, over ${words}.`, signed.filter((r) => r.score < 0).reverse().slice(0, LISTED));
  panel.append(lists);

  const pair = make("div", { class: "wide" }), name = DATA.train.names[state.train];
  const parts = DATA.parts && (DATA.parts.of[j] || {})[state.train];
  if (parts) drawParts(pair, unpack(parts), name, box, jobs);
  else if (DATA.parts) pair.append(section("By parameter and step", `Not kept for ${name}: a page holds this of each query's strongest training examples only. Choose one of the six above.`));
  const matrix = DATA.matrix && (DATA.matrix.of[j] || {})[state.train];
  if (matrix) {
    const values = unpack(matrix), both = DATA.matrix.train_steps;
    const cells = both.flatMap((train_step, s) => DATA.steps.map((step, t) => ({ train_step, step, score: values[s * T + t] })));
    const most = largest(cells.map((c) => c.score));
    const here = section("Step × step", `From which of its own loop steps ${name} teaches, and which of the query's it acts on. Columns sum to its trajectory.`);
    jobs.push(() => chart(box(here), "matrix", cells, { least: -most, most, height: ROW * both.length }, "influence of each training step on each query step"));
    pair.append(here);
  } else if (DATA.matrix) pair.append(section("Step × step", `Not kept for ${name}: choose one of the six above.`));
  panel.append(pair);
  return panel;
}

function drawParts(pair, values, name, box, jobs) {
  const mass = DATA.parts.parameters.map((_, p) => total(DATA.steps.map((_, t) => Math.abs(values[p * T + t]))));
  const order = mass.map((_, p) => p).sort((a, b) => mass[b] - mass[a] || a - b);
  const cells = order.flatMap((p) => DATA.steps.map((step, t) => ({ parameter: DATA.parts.parameters[p], step, score: values[p * T + t] })));
  const most = largest(cells.map((c) => c.score));
  const here = section("By parameter and step", `Through which parameters ${name} acts, the strongest first. Columns sum to its trajectory.`);
  jobs.push(() => chart(box(here), "parts", cells, { least: -most, most, height: ROW * order.length }, "influence by parameter and step"));
  pair.append(here);
}

// The range of scores of the charts of some queries, for all of them.
function scaleOf(queries) {
  const rows = queries.flatMap((j) => strongest(j).slice(0, ROWS).map((row, place) => [row.k, j, place]));
  const steps = rows.flatMap(([k, j, place]) => DATA.steps.map((_, t) => [SDI[at(k, j, t)], Z95 * STDERR[at(k, j, t)], place]));
  const few = steps.filter(([, , place]) => place < MULTIPLES);
  const energy = queries.flatMap((j) => DATA.steps.map((_, t) => total(ENERGY.map(([, values]) => values[j * T + t]))));
  const low = Math.min(0, ...few.map(([s, e]) => s - e)), high = Math.max(0, ...few.map(([s, e]) => s + e));
  return { low, high: high > low ? high : 1, most: largest(steps.map(([s]) => s)), energy: Math.max(...energy) || 1 };
}

let turn = 0;
async function draw() {
  const mine = ++turn, jobs = [];
  const queries = state.beside >= 0 && state.beside !== state.query ? [state.query, state.beside] : [state.query];
  if (!state.chosen && N) state.train = strongest(state.query)[0].k;
  for (const found of drawn.splice(0)) found.finalize();
  const scales = queries.map((j) => scaleOf(state.same ? queries : [j])), panels = pick("panels");
  panels.className = queries.length === 2 ? "two" : "";
  panels.replaceChildren(...queries.map((j, side) => drawPanel(j, scales[side], jobs)));
  for (const [id, value] of [["query", state.query], ["beside", state.beside], ["train", state.train], ["first", state.first], ["last", state.last]]) pick(id).value = value;
  pick("same").parentElement.hidden = queries.length < 2;
  pick("table-words").textContent = `Influence on query ${DATA.query.names[state.query]} over steps ${state.first} to ${state.last}.`;
  drawTable(factsOf(state.query), state.train, (k) => choose({ train: k }));
  for (const job of jobs) {
    await job();
    if (mine !== turn) return;
  }
  document.documentElement.dataset.drawn = String(mine);
}

function choose(changes) {
  const held = document.activeElement && document.activeElement.id;
  Object.assign(state, changes, "train" in changes ? { chosen: true } : {});
  if ("query" in changes && !("train" in changes)) state.chosen = false;
  draw();
  if (held) pick(held).focus();
}

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  pick("theme").textContent = theme === "dark" ? "light" : "dark";
  pick("theme").setAttribute("aria-label", `switch to the ${theme === "dark" ? "light" : "dark"} theme`);
}

function begin() {
  const options = (side) => DATA[side].names.map((name, k) => make("option", { value: k }, name));
  pick("query").append(...options("query"));
  pick("beside").append(make("option", { value: -1 }, "none"), ...options("query"));
  pick("train").append(...options("train"));
  const audit = DATA.audit;
  pick("audit").append(make("strong", { class: audit.passed ? "good" : audit.passed === false ? "bad" : "" }, "Audit. "), audit.words);
  for (const [name, value] of DATA.facts) pick("facts").append(make("dt", {}, name), make("dd", {}, value));
  pick("notes").append(...DATA.notes.map((note) => make("li", {}, note)));
  pick("left-out").querySelector("ul").append(...DATA.left_out.map((words) => make("li", {}, words)));
  pick("facts").parentElement.open = window.innerWidth > 760;
  pick("left-out").hidden = !DATA.left_out.length;
  pick("units").textContent = "A score is eta · ⟨gradient of the training example, the query's gradient through this step⟩, summed over checkpoints, in the unit of the loss: its change to first order under plain gradient steps. Under Adam, scores rank examples and are no changes of the loss.";
  for (const id of ["query", "beside", "train"]) pick(id).addEventListener("change", (e) => choose({ [id]: Number(e.target.value) }));
  for (const id of ["first", "last"]) {
    pick(id).max = T;
    pick(id).addEventListener("change", (e) => {
      const step = Math.min(T, Math.max(1, Math.round(Number(e.target.value)) || 1));
      choose(id === "first" ? { first: step, last: Math.max(step, state.last) } : { last: step, first: Math.min(step, state.first) });
    });
  }
  pick("same").addEventListener("change", (e) => choose({ same: e.target.checked }));
  pick("controls").addEventListener("submit", (e) => e.preventDefault());
  pick("filter").addEventListener("input", () => drawTable(factsOf(state.query), state.train, (k) => choose({ train: k })));
  pick("theme").addEventListener("click", () => { setTheme(state.theme === "dark" ? "light" : "dark"); draw(); });
  setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

async function start() {
  begin();
  try {
    const packed = Uint8Array.from(atob(pick("library").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    new Function(await new Response(stream).text())(); // in a scope of its own: it sets window.vegaEmbed
    await draw();
    pick("wait").remove();
  } catch (error) {
    pick("wait").textContent = `This page could not be drawn: ${error.message}. It needs a browser from 2023 or newer.`;
    throw error;
  }
}
start();
