// The switch between offline and asking, with what asking costs.

import { turnSwitch } from "./actions.js";
import { byId, h, setText } from "./dom.js";
import { inTray, state } from "./state.js";
import { consentTold, costTold, plural } from "./words.js";

const NAMED = 12; // APIs that are named before they are asked

export function prepareSwitch() {
  byId("switch-button").addEventListener("click", () => (state.asking.on ? turnSwitch(false) : consent()));
}

export function drawSwitch() {
  const { possible, on, why, cost } = state.asking;
  byId("switch").hidden = false;
  const button = byId("switch-button");
  button.setAttribute("aria-checked", String(on));
  button.setAttribute("aria-label", on ? "Ask APIs: on" : "Ask APIs: off, offline");
  button.disabled = !possible;
  const failed = Object.keys(state.judgement?.heard?.failures ?? {}).length;
  const parts = possible ? [costTold(cost), failed && `${plural(failed, "API")} failed`, state.asked && "asking…"] : [`offline; ${why}`];
  setText(byId("switch-cost"), parts.filter(Boolean).join(", "));
}

// Says who would get the pictures and what it can cost, before anything leaves the machine.
function consent() {
  const { apis, cost } = state.asking;
  const pictures = inTray().length;
  const remote = apis.filter((api) => api.remote).length;
  const where = remote === 0 ? "All of them compute on this machine." : `${plural(remote, "is", "are")} elsewhere: your pictures are sent there.`;
  const names = apis.slice(0, NAMED).map(({ name }) => h("li", {}, name));
  if (apis.length > NAMED) names.push(h("li", {}, `and ${apis.length - NAMED} more`));
  const dialog = byId("consent");
  const begin = () => (dialog.close(), turnSwitch(true));
  dialog.replaceChildren(
    h("h2", { id: "consent-title" }, `Ask ${plural(apis.length, "API")} about your pictures?`),
    h("p", {}, where),
    h("ul", { className: "names" }, names),
    h("p", {}, consentTold(cost, state.pictures.size - pictures, pictures), " New pictures are asked about where the classifier is unsure; what is on file is never paid for again."),
    h("div", { className: "buttons" },
      h("button", { type: "button", className: "main", onclick: begin }, "Ask them"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Stay offline")),
  );
  dialog.showModal();
}
