// New pictures: what each is said to be, how certain that is, and which are unsure.

import { clearTray } from "./actions.js";
import { openDetail } from "./detail.js";
import { arrange, byId, h, setText } from "./dom.js";
import { choosers, dragged, takeDrops } from "./drop.js";
import { ordered, verdict } from "./opinion.js";
import { byNumber, changed, inTray, state } from "./state.js";
import { thumbnail } from "./thumbnails.js";
import { percent, plural } from "./words.js";

const shown = new Map(); // picture -> its card

export function prepareTray() {
  const drop = byId("tray-drop");
  const hint = h("p", {}, "Drop pictures here to see what the classifier says of them");
  const tools = choosers(() => null, "Add pictures");
  tools.name("try");
  drop.replaceChildren(hint, h("div", { className: "tools" }, tools.elements));
  takeDrops(byId("try"), () => null);
  for (const id of ["unsure-first", "only-unsure"]) byId(id).addEventListener("change", changed);
  byId("clear-tray").addEventListener("click", clearTray);
}

export function drawTray() {
  const pictures = inTray();
  for (const number of shown.keys()) if (state.pictures.get(number)?.into !== null) shown.delete(number);
  const verdicts = new Map(pictures.sort(byNumber).map(({ number }) => [number, verdict(state.judgement, number)]));
  const certainty = (number) => verdicts.get(number)?.final.certainty ?? null;
  const order = ordered([...verdicts.keys()], certainty, {
    unsureFirst: byId("unsure-first").checked,
    onlyUnsure: byId("only-unsure").checked,
    unsure: state.limits.unsure,
  });
  arrange(byId("tray"), order.map((number) => drawPicture(state.pictures.get(number), verdicts.get(number))));
  byId("order").hidden = pictures.length === 0;
  setText(byId("tray-told"), told(pictures.length, verdicts));
}

function told(count, verdicts) {
  if (count === 0) return "";
  const known = [...verdicts.values()].filter(Boolean);
  if (known.length === 0) return `${plural(count, "picture")}; two classes with pictures are needed to say what they are`;
  const unsure = known.filter(({ final }) => final.certainty < state.limits.unsure).length;
  const changedBy = known.filter(({ changed }) => changed).length;
  const parts = [plural(count, "picture"), unsure ? `unsure of ${unsure}` : "sure of all"];
  if (changedBy) parts.push(`${changedBy} changed by asking`);
  if (state.asked) parts.push("asking…");
  return parts.join(", ");
}

function drawPicture(picture, said) {
  if (!shown.has(picture.number)) shown.set(picture.number, makePicture(picture));
  const card = shown.get(picture.number);
  const name = said ? state.classes.get(said.final.number) ?? "?" : "";
  const unsure = said && said.final.certainty < state.limits.unsure;
  setText(card.label, said ? name : "…");
  setText(card.certainty, said ? percent(said.final.certainty) + (unsure ? ", unsure" : "") : "");
  setText(card.change, said?.changed ? `alone: ${state.classes.get(said.alone.number)}` : said?.joint ? "APIs agree" : "");
  const width = said ? percent(said.final.certainty).replace(" ", "") : "0%";
  if (card.width !== width) card.bar.style.width = card.width = width;
  card.element.classList.toggle("unsure", Boolean(unsure));
  const label = said ? `${picture.name}: ${name}, ${card.certainty.textContent}` : picture.name;
  if (card.button.getAttribute("aria-label") !== label) card.button.setAttribute("aria-label", label);
  return card.element;
}

function makePicture(picture) {
  const label = h("span", { className: "label" });
  const certainty = h("span", { className: "certainty" });
  const change = h("span", { className: "change" });
  const bar = h("span", { className: "filled" });
  const button = h("button",
    { type: "button", className: "judged", draggable: true, ondragstart: dragged(picture.number), onclick: () => openDetail(picture.number) },
    thumbnail(picture, { alt: "" }), label, h("span", { className: "meter" }, bar), certainty, change);
  return { element: h("li", {}, button), button, label, certainty, change, bar, width: "" };
}
