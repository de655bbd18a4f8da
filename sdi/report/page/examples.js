"use strict";
// Examples as the user's `show` gave them. Everything is put in as text: no HTML is ever parsed.

const DATA = JSON.parse(document.getElementById("data").textContent);
const CHARTS = JSON.parse(document.getElementById("charts").textContent);

function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

const shownOf = (side, k) => DATA.shown[side][DATA[side].ids[k]];

// The plain text of an example, for the filter and the table.
function textOf(side, k) {
  const shown = shownOf(side, k);
  if (!shown) return "";
  if (shown.text !== undefined) return shown.text;
  if (shown.tokens) return shown.tokens.join("");
  if (shown.board) return shown.board.map((row) => row.join(" ")).join("\n");
  return "";
}

// Ids such as doc[12] are tokens of doc: where each of them is, by the id of the whole.
function placesOf(side) {
  const out = new Map();
  DATA[side].ids.forEach((id, k) => {
    const found = /^(.*)\[(\d+)\]$/s.exec(id);
    if (!found) return;
    if (!out.has(found[1])) out.set(found[1], new Map());
    out.get(found[1]).set(Number(found[2]), k);
  });
  return out;
}
const PLACES = { train: placesOf("train"), query: placesOf("query") };

// valueOf(k): the score of example k of this side. choose(k): called when a token that is an example is chosen.
function drawShown(side, k, valueOf, choose) {
  const shown = shownOf(side, k);
  const box = make("div", { class: "shown" });
  if (!shown) return box;
  if (shown.text !== undefined) box.append(make("pre", {}, shown.text));
  if (shown.image) box.append(make("img", { src: shown.image, alt: `example ${DATA[side].names[k]}` }));
  if (shown.board) {
    const rows = shown.board.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))));
    box.append(make("table", { class: "board" }, make("tbody", {}, ...rows)));
  }
  if (shown.tokens) box.append(drawTokens(side, k, shown, valueOf, choose));
  return box;
}

function drawTokens(side, k, shown, valueOf, choose) {
  const whole = /^(.*)\[(\d+)\]$/s.exec(DATA[side].ids[k]);
  const own = PLACES[side].get(whole ? whole[1] : DATA[side].ids[k]);
  const values = shown.values || shown.tokens.map((_, place) => (own && own.has(place) ? valueOf(own.get(place)) : null));
  const most = Math.max(...values.map((v) => Math.abs(v || 0)), 0) || 1;
  const box = make("div", { class: "tokens" });
  shown.tokens.forEach((token, place) => {
    const at = own && own.get(place);
    const node = make(at === undefined ? "span" : "button", at === undefined ? {} : { type: "button", onclick: () => choose(at) }, token);
    const value = values[place];
    if (value !== null) {
      const strength = Math.round(85 * Math.sqrt(Math.abs(value) / most));
      node.style.background = `color-mix(in srgb, var(--${value > 0 ? "helps" : "harms"}) ${strength}%, transparent)`;
      node.title = `${token}: ${format(value)}`;
    }
    if (whole && Number(whole[2]) === place) node.setAttribute("aria-current", "true");
    box.append(node);
  });
  return box;
}

function format(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-4 ? size.toExponential(2) : String(Number(size.toPrecision(4)));
  return (x < 0 ? "−" : "+") + text;
}

const plain = (x) => format(x).replace("+", "");
const percent = (x) => (x === null || x === undefined || Number.isNaN(x) ? "" : `${(100 * x).toFixed(0)}%`);
