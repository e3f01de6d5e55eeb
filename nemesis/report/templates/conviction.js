"use strict";
for (const section of document.querySelectorAll(".conviction")) {
  const marked = section.querySelectorAll("[data-line]");
  const bars = [...section.querySelectorAll(".bar")];
  const here = section.querySelector(".here");
  const bar_of = (line) => bars.find((bar) => bar.dataset.line === line);
  const choose = (line) => {
    for (const each of marked) each.classList.toggle("chosen", each.dataset.line === line);
  };
  for (const each of marked) {
    each.addEventListener("click", () => {
      choose(each.dataset.line);
      const bar = each.tagName === "TR" ? bar_of(each.dataset.line) : null;
      if (bar) bar.scrollIntoView({ block: "nearest", inline: "center" });
    });
  }
  for (const bar of bars) {
    for (const kind of ["pointerenter", "focus"]) bar.addEventListener(kind, () => (here.textContent = bar.title));
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const shown = bars.filter((each) => getComputedStyle(each).visibility !== "hidden");
      const next = shown[shown.indexOf(bar) + step];
      event.preventDefault();
      if (next) next.focus();
    });
  }
  const only = section.querySelector(".only-told");
  if (only) {
    only.addEventListener("change", () => section.querySelector(".lanes").classList.toggle("only", only.checked));
  }
  const scroll = section.querySelector(".lanes-scroll");
  const last = section.querySelector(".bar.last");
  if (last) scroll.scrollLeft = last.offsetLeft + last.offsetWidth - scroll.clientWidth + 40;
}
