"use strict";
(() => {
  const collator = new Intl.Collator("fr", { numeric: true, sensitivity: "base" });
  const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const shown = (cell) => cell.dataset.v ?? cell.textContent.trim();

  const main = document.getElementById("class");
  if (!main) return;

  function sortBy(table, head, column) {
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const numbers = head.dataset.sort === "n";
    const keyed = Array.from(body.rows, (row) => [shown(row.cells[column]), row]);
    // What has no value comes last, whichever way.
    const filled = keyed.filter(([key]) => key !== "");
    filled.sort(([a], [b]) => (numbers ? a - b : collator.compare(a, b)) * (down ? -1 : 1));
    body.append(...filled.concat(keyed.filter(([key]) => key === "")).map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  for (const table of document.querySelectorAll("table")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      if (!head.dataset.sort) return;
      const button = document.createElement("button");
      button.type = "button";
      const label = head.firstChild;
      button.title = main.dataset.sortText.replace("{column}", label.textContent.trim());
      head.insertBefore(button, label);
      button.append(label);
      button.addEventListener("click", () => sortBy(table, head, column));
    });
  }

  const tools = document.getElementById("tools");
  const search = document.getElementById("q");
  const filter = document.getElementById("f");
  const count = document.getElementById("n");
  const rows = Array.from(document.querySelectorAll("table.find > tbody > tr"), (row) => ({
    row, text: fold(row.textContent), kinds: row.dataset.s?.split(" "), ours: row.parentNode.parentNode === main,
  }));
  function select() {
    const words = fold(search.value).split(/\s+/).filter(Boolean);
    let left = 0, all = 0;
    for (const { row, text, kinds, ours } of rows) {
      const hidden = !words.every((word) => text.includes(word))
        || (ours && filter.value !== "" && !kinds.includes(filter.value));
      if (row.hidden !== hidden) row.hidden = hidden;
      all += ours;
      left += ours && !hidden;
    }
    count.textContent = count.dataset.text.replace("{shown}", left).replace("{all}", all);
  }
  search.addEventListener("input", select);
  filter.addEventListener("change", select);
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.hidden = false;
  select();
})();
