// Short words to the user: what goes on, and what went wrong.

import { byId, h, setText } from "./dom.js";

const SHOWN = 3;
let problems = [];

export function say(text) {
  const status = byId("status");
  setText(status, text);
  status.classList.toggle("shown", text !== "");
}

let timer;
export function sayBriefly(text) {
  say(text);
  clearTimeout(timer);
  timer = setTimeout(() => say(""), 4000);
}

export function complain(error) {
  const text = error.message ?? String(error);
  if (!problems.includes(text)) problems.push(text);
  draw();
}

export function forgive() {
  problems = [];
  draw();
}

function draw() {
  const more = problems.length - SHOWN;
  const lines = problems.slice(0, SHOWN).map((text) => h("li", {}, text));
  if (more > 0) lines.push(h("li", {}, `and ${more} more`));
  const close = h("button", { type: "button", className: "plain", onclick: forgive }, "Close");
  byId("alert").replaceChildren(...(problems.length ? [h("div", { className: "problem" }, h("ul", {}, lines), close)] : []));
}
