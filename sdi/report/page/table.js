// The table of training examples: sorted by any column, filtered by id or text.

const TABLE = { column: "mass", down: true };
const COLUMNS = [
  { key: "name", title: "training example" },
  { key: "score", title: "influence", number: format },
  { key: "error", title: "± 95%", number: plain },
  { key: "whole", title: "TracIn", number: format },
  { key: "mass", title: "sum of |influence|", number: plain },
  { key: "peak", title: "peak step", number: String },
  { key: "late", title: "late", number: percent },
  { key: "cancelled", title: "cancels", number: percent },
];

// rows: one for each training example, with the keys of COLUMNS, k and text. choose(k): called when one is chosen.
function drawTable(rows, chosen, choose) {
  const words = document.getElementById("filter").value.toLowerCase();
  const kept = rows.filter((row) => row.name.toLowerCase().includes(words) || row.text.toLowerCase().includes(words));
  const { column, down } = TABLE;
  const order = new Intl.Collator("en", { numeric: true });
  kept.sort((a, b) => {
    const both = column === "name" ? order.compare(a.name, b.name) : (a[column] ?? -Infinity) - (b[column] ?? -Infinity);
    return (down ? -both : both) || a.k - b.k;
  });
  const again = (key) => {
    TABLE.down = TABLE.column === key ? !TABLE.down : key !== "name";
    TABLE.column = key;
    drawTable(rows, chosen, choose);
    document.querySelector(`#table button[data-key="${key}"]`).focus();
  };
  const head = COLUMNS.map(({ key, title, number }) => {
    const mark = key === column ? (down ? " ▾" : " ▴") : "";
    const sorted = key === column ? (down ? "descending" : "ascending") : "none";
    const button = make("button", { type: "button", "data-key": key, onclick: () => again(key) }, title + mark);
    return make("th", { scope: "col", "aria-sort": sorted, class: number ? "number" : "" }, button);
  });
  const body = kept.slice(0, 500).map((row) => {
    const cells = COLUMNS.map(({ key, number }) => {
      if (number) {
        const sign = key === "score" || key === "whole" ? (row[key] < 0 ? " harms" : " helps") : "";
        return make("td", { class: `number${sign}` }, number(row[key]));
      }
      const name = make("button", { type: "button", onclick: () => choose(row.k) }, row.name);
      return make("td", {}, name, ...(row.text && row.text !== row.name ? [make("div", { class: "text" }, row.text)] : []));
    });
    return make("tr", { "aria-selected": String(row.k === chosen), "data-k": row.k }, ...cells);
  });
  document.getElementById("table").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  const more = kept.length > 500 ? ", the first 500 of them drawn" : "";
  document.getElementById("count").textContent = `${kept.length} of ${rows.length} training examples${more}`;
}
