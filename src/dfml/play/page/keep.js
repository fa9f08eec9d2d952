// Saving, exporting, the report, and the command that goes on from here.

import { save } from "./actions.js";
import { byId, setText } from "./dom.js";
import { complain, sayBriefly } from "./notices.js";
import { state } from "./state.js";

export function prepareKeep() {
  byId("save").addEventListener("click", async () => (await save()) && sayBriefly("Saved"));
  byId("copy").addEventListener("click", copy);
  for (const id of ["export", "report"])
    byId(id).addEventListener("click", (event) => byId(id).getAttribute("aria-disabled") === "true" && event.preventDefault());
}

export function drawKeep() {
  const ready = state.fixed || (state.judgement?.classes.length ?? 0) >= 2;
  byId("save").disabled = !ready || state.fixed;
  allow(byId("export"), ready && state.can_export, state.can_export ? "" : "pip install 'dfml[onnx]' to export");
  allow(byId("report"), state.has_report, "there is no run here to report on");
  byId("copy").disabled = !state.saved;
  setText(byId("predict-line"), state.line ?? "");
  setText(byId("saved"), state.fixed ? `It is in ${state.folder}.` : state.saved ? `Saved in ${state.folder}, with its pictures.` : `Not saved yet; it goes to ${state.folder}.`);
}

// A link cannot be disabled; one that leads nowhere now says so.
function allow(link, possible, why) {
  link.setAttribute("aria-disabled", String(!possible));
  link.title = possible ? "" : why;
}

async function copy() {
  try {
    await navigator.clipboard.writeText(state.line);
    sayBriefly("Copied");
  } catch {
    complain(new Error("The browser does not allow copying; select the line instead"));
  }
}
