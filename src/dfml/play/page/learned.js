// What was learned before: facts, pictures that taught with what each API called them, the ledger. Loaded when opened.

import { attempt } from "./actions.js";
import { byId, h } from "./dom.js";
import { ask } from "./server.js";
import { count, money, percent } from "./words.js";

export function prepareLearned() {
  const details = byId("learned-details");
  details.addEventListener("toggle", () => details.open && attempt(async () => draw(await ask("api/learned"))));
}

function draw(told) {
  byId("learned-content").replaceChildren(...[
    told.facts.length > 0 && h("dl", { className: "tiles" }, told.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    told.shelves.length > 0 && shelves(told),
    told.apis.length > 0 && h("h3", {}, "APIs that taught"),
    told.apis.length > 0 && taught(told),
    told.ledger.length > 0 && h("h3", {}, "Ledger of this page"),
    told.ledger.length > 0 && ledger(told.ledger),
    told.facts.length + told.ledger.length === 0 && h("p", { className: "quiet" }, "Nothing is on file about how this classifier was taught."),
  ].filter(Boolean));
}

function shelves({ shelves: found, shelves_of: total }) {
  const some = total > found.length ? ` Shown are ${found.length} of ${total} APIs.` : "";
  const rows = found.map(({ api, pictures }) => h("li", {}, h("p", {}, api), h("div", { className: "images" }, pictures.map(taughtBy))));
  return h("div", {},
    h("h3", {}, "Pictures that taught"),
    h("p", { className: "quiet" }, `Made or chosen without any data, each with what its API called it.${some}`),
    h("ul", { className: "shelf" }, rows));
}

function taughtBy({ source, wanted, answer, share }) {
  const image = h("img", { src: source, alt: `a picture that taught ${wanted}`, loading: "lazy" });
  return h("figure", {}, image, h("figcaption", { className: wanted === answer ? "" : "wrong" }, `${answer} ${percent(share)}`));
}

function taught({ apis, apis_of: total }) {
  const priced = apis.some(({ usd }) => usd !== null);
  const rows = apis.map((api) => [api.name, count(api.queries), ...(priced ? [api.usd === null ? "" : money(api.usd)] : []), classes(api)]);
  const more = total > apis.length && h("p", { className: "quiet" }, `and ${total - apis.length} more`);
  return h("div", {}, table(["API", "queries", ...(priced ? ["price"] : []), "classes"], rows, "APIs that taught", priced ? 2 : 1), more);
}

const classes = ({ classes: names, more }) => names.join(", ") + (more ? ` and ${more} more` : "");

const ledger = (rows) =>
  table(["API", "queries", "unusable", "in doubt", "saved"],
    rows.map((row) => [row.name, ...["queries", "unusable", "in_doubt", "saved"].map((what) => count(row[what]))]), "Ledger of this page", 4);

// The first column names a row; the `numbers` columns after it are numbers.
function table(titles, rows, label, numbers) {
  const kind = (place) => (place > 0 && place <= numbers ? "number" : "");
  const head = h("tr", {}, titles.map((title, place) => h("th", { scope: "col", className: kind(place) }, title)));
  const body = rows.map((row) => h("tr", {}, row.map((cell, place) => place ? h("td", { className: kind(place) || "wide" }, cell) : h("th", { scope: "row" }, cell))));
  return h("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: label }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}
