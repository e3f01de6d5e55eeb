// The page of a run that goes on: asks again every two seconds for what has happened so far, and reloads at its end.
"use strict";
const box = document.getElementById("live");
const state = document.getElementById("live-state");

async function look() {
  try {
    const answer = await fetch(box.dataset.source);
    if (answer.headers.get("X-Run-Goes-On") === "no") {
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    box.innerHTML = await answer.text();
    state.textContent = "";
  } catch {
    state.textContent = "The server does not answer: this is what it told last.";
  }
  setTimeout(look, 2000);
}

setTimeout(look, 2000);
