// The list of runs in a folder without a server: hides the rows that are not asked for.
"use strict";
const form = document.getElementById("filters");
const rows = [...document.querySelectorAll("#runs tbody tr")];
const count = document.getElementById("count");
const all = count.textContent;

function choose() {
  const asked = new FormData(form);
  const words = asked.get("q").toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const fits = ["verdict", "workload", "system", "fault"].every((name) => {
      const value = asked.get(name);
      return !value || row.dataset[name].split("\n").includes(value);
    });
    row.hidden = !(fits && words.every((word) => text.includes(word)));
    shown += row.hidden ? 0 : 1;
  }
  count.textContent = shown === rows.length ? all : `${shown} of ${rows.length} runs`;
}

form.hidden = false;
form.addEventListener("input", choose);
form.addEventListener("submit", (event) => event.preventDefault());
