"use strict";
for (const section of document.querySelectorAll(".conviction")) {
  const marked = section.querySelectorAll("[data-line]");
  const choose = (line) => {
    for (const each of marked) each.classList.toggle("chosen", each.dataset.line === line);
  };
  for (const each of marked) {
    each.addEventListener("click", () => {
      choose(each.dataset.line);
      if (each.tagName === "TR") {
        const bar = section.querySelector(`.bar[data-line="${each.dataset.line}"]`);
        if (bar) bar.scrollIntoView({ block: "nearest", inline: "center" });
      }
    });
  }
  section.querySelector(".only-told").addEventListener("change", (event) => {
    section.querySelector(".lanes").classList.toggle("only", event.target.checked);
  });
  const scroll = section.querySelector(".lanes-scroll");
  const last = section.querySelector(".bar.last");
  if (last) scroll.scrollLeft = last.offsetLeft + last.offsetWidth - scroll.clientWidth + 40;
}
