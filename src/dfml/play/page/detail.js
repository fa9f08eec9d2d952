// One picture, looked at closely: every class, the examples that look most alike, what each API calls it.

import { askEvery, movePicture, removePicture } from "./actions.js";
import { byId, h } from "./dom.js";
import { ranked, verdict } from "./opinion.js";
import { complain } from "./notices.js";
import { ask } from "./server.js";
import { state } from "./state.js";
import { thumbnail } from "./thumbnails.js";
import { percent, plural } from "./words.js";

const CLASSES = 8; // that are shown
let opened = null; // the picture that is looked at

export async function openDetail(number) {
  opened = number;
  await draw();
  const dialog = byId("detail");
  if (opened === number && !dialog.open) dialog.showModal();
}

async function draw() {
  const number = opened;
  let told;
  try {
    told = await ask(`api/pictures/${number}`);
  } catch (error) {
    return complain(error);
  }
  const picture = state.pictures.get(number);
  if (opened !== number || !picture) return;
  byId("detail").replaceChildren(
    h("div", { className: "top" }, h("h2", { id: "detail-title" }, picture.name), closeButton()),
    h("div", { className: "closely" },
      h("div", {}, thumbnail(picture, { loading: "eager", className: picture.side < 96 ? "large coarse" : "large" }), tools(picture)),
      h("div", { className: "why" }, said(picture), nearest(told.nearest), opinions(told.opinions, number))),
  );
}

const close = () => byId("detail").close();
const closeButton = () => h("button", { type: "button", className: "plain", onclick: close }, "Close");
const nameOf = (number) => state.classes.get(number) ?? "?";

function said(picture) {
  if (picture.into !== null) {
    const other = state.judgement?.left_out?.wrong?.[picture.number];
    const text = other === undefined ? `It teaches ${nameOf(picture.into)}.` : `It teaches ${nameOf(picture.into)}; by the other examples it looks like ${nameOf(other)}.`;
    return h("p", {}, text);
  }
  const verdicts = verdict(state.judgement, picture.number);
  if (!verdicts) return h("p", {}, "Nothing can be said before two classes have pictures.");
  const rows = ranked(state.judgement, picture.number);
  const both = verdicts.joint !== null;
  const change = !both ? null
    : verdicts.changed ? `Alone it would say ${nameOf(verdicts.alone.number)}; the APIs changed that to ${nameOf(verdicts.joint.number)}.`
    : `The APIs agree: ${nameOf(verdicts.joint.number)}.`;
  const head = h("tr", {}, h("th", { scope: "col" }, "class"), h("th", { scope: "col", className: "number" }, "alone"), both && h("th", { scope: "col", className: "number" }, "with APIs"));
  const body = rows.slice(0, CLASSES).map((row) =>
    h("tr", {}, h("th", { scope: "row" }, nameOf(row.number)), share(row.alone), both && share(row.joint ?? 0)));
  const more = rows.length > CLASSES && h("p", { className: "quiet" }, `and ${plural(rows.length - CLASSES, "class", "classes")} less likely`);
  return h("div", {}, h("table", {}, h("thead", {}, head), h("tbody", {}, body)), more, change && h("p", {}, change));
}

function share(value) {
  const bar = h("span", { className: "filled" });
  bar.style.width = `${Math.round(100 * value)}%`;
  return h("td", { className: "number" }, percent(value), h("span", { className: "meter" }, bar));
}

function nearest(found) {
  if (!found.length) return null;
  const items = found.filter(({ number }) => state.pictures.has(number)).map(({ number, cosine }) => {
    const picture = state.pictures.get(number);
    return h("li", {}, thumbnail(picture, { loading: "eager" }), h("span", {}, nameOf(picture.into)), h("span", { className: "quiet" }, `${percent(cosine)} alike`));
  });
  return h("div", {}, h("h3", {}, "Nearest examples"), h("ul", { className: "nearest" }, items));
}

function opinions(told, number) {
  if (!state.asking.on && !told.length) return null;
  const rows = told.map(({ api, told: classes }) =>
    h("tr", {}, h("th", { scope: "row" }, api), h("td", {}, classes.map(([name, p]) => `${name} ${percent(p)}`).join(", "))));
  const table = rows.length
    ? h("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "What the APIs call it" }, h("table", {}, h("tbody", {}, rows)))
    : h("p", { className: "quiet" }, "No API was asked about this picture.");
  const left = state.asking.on ? state.asking.apis.length - told.length : 0;
  const all = left > 0 && h("button", { type: "button", onclick: (event) => everyone(event.target, number) }, `Ask every API (at most ${plural(left, "query", "queries")})`);
  return h("div", {}, h("h3", {}, "What the APIs call it"), table, all);
}

async function everyone(button, number) {
  button.disabled = true;
  button.textContent = "Asking…";
  await askEvery(number);
  if (opened === number) await draw();
}

function tools(picture) {
  const remove = h("button", { type: "button", onclick: () => (removePicture(picture.number), close()) }, "Remove");
  if (state.fixed) return h("div", { className: "tools" }, remove);
  const choices = [...state.classes].map(([number, name]) => h("option", { value: String(number), selected: picture.into === number }, name));
  const none = h("option", { value: "", selected: picture.into === null }, "no class: try it");
  const select = h("select", { onchange: () => (movePicture(picture.number, select.value === "" ? null : Number(select.value)), close()) }, none, choices);
  return h("div", { className: "tools" }, h("label", {}, "It belongs to ", select), remove);
}
