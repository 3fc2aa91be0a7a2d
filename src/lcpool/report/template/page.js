"use strict";

// Filters: an element with data-dataset, data-backbone, data-conv or data-pool is hidden while one
// of its names is not ticked. Names are compared as values, never put into a selector.
const filters = [...document.querySelectorAll("[data-filter]")];
const filtered = [...document.querySelectorAll("main :is([data-dataset], [data-backbone], [data-conv], [data-pool])")];

function filter() {
  const hidden = filters.map((set) => {
    const off = [...set.querySelectorAll("input")].filter((box) => !box.checked);
    return [set.dataset.filter, new Set(off.map((box) => box.value))];
  });
  for (const element of filtered) {
    const off = hidden.some(([key, names]) => names.has(element.dataset[key]));
    element.classList.toggle("off", off);
  }
}

for (const form of document.forms) {
  form.addEventListener("change", filter);
  form.addEventListener("reset", (event) => {
    event.preventDefault(); // The browser's own comes too late to filter by.
    for (const box of form.querySelectorAll("input")) box.checked = true;
    filter();
  });
}

// Sorting: by data-value, as numbers where they are; what has no value comes last either way.
function compare(a, b) {
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
}

function sort(heading) {
  const direction = heading.ariaSort === "ascending" ? "descending" : "ascending";
  const sign = direction === "ascending" ? 1 : -1;
  const body = heading.closest("table").tBodies[0];
  const value = (row) => row.cells[heading.cellIndex].dataset.value;
  const [known, unknown] = [[], []];
  for (const row of body.rows) (value(row) === undefined ? unknown : known).push(row);
  known.sort((a, b) => sign * compare(value(a), value(b)));
  body.append(...known, ...unknown);
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.ariaSort = direction;
}

for (const button of document.querySelectorAll(".sheet th button")) {
  button.addEventListener("click", () => sort(button.parentNode));
}

