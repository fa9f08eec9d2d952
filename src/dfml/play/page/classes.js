// The classes: a card each, with a name to edit and the pictures that teach it.

import { addClass, addFiles, removeClass, renameClass } from "./actions.js";
import { openDetail } from "./detail.js";
import { arrange, byId, h, setText } from "./dom.js";
import { choosers, dragged, takeDrops } from "./drop.js";
import { byNumber, state } from "./state.js";
import { thumbnail } from "./thumbnails.js";
import { leftOutTold, plural } from "./words.js";

const cards = new Map(); // class -> its card
const shown = new Map(); // picture -> its element
let newCard;

export function drawClasses() {
  newCard ??= makeNewCard();
  for (const number of cards.keys()) if (!state.classes.has(number)) cards.delete(number);
  for (const number of shown.keys()) if (state.pictures.get(number)?.into == null) shown.delete(number);
  const held = Map.groupBy([...state.pictures.values()], (picture) => picture.into);
  for (const [number, name] of state.classes) drawCard(number, name, held.get(number) ?? []);
  arrange(byId("classes"), [...[...state.classes.keys()].map((n) => cards.get(n).element), ...(state.fixed ? [] : [newCard])]);
  setText(byId("left-out"), told([...held.keys()].filter((number) => number !== null).length));
}

function told(taught) {
  if (state.fixed) return "a finished classifier: its classes stay as they are";
  if (taught < 2) return "give two classes or more a name and a few pictures each";
  return leftOutTold(state.judgement?.left_out);
}

function drawCard(number, name, pictures) {
  if (!cards.has(number)) cards.set(number, makeCard(number));
  const card = cards.get(number);
  if (document.activeElement !== card.name && card.name.value !== name) card.name.value = name;
  if (card.element.getAttribute("aria-label") !== name) {
    card.element.setAttribute("aria-label", name);
    card.remove.setAttribute("aria-label", `Remove the class ${name}`);
    card.remove.title = "Remove the class; its pictures can be tried";
    card.tools.name(name);
  }
  setText(card.count, state.fixed ? "" : pictures.length ? plural(pictures.length, "picture") : "drop pictures here");
  arrange(card.pictures, pictures.sort(byNumber).map((picture) => drawPicture(picture, name)));
}

function drawPicture(picture, className) {
  if (!shown.has(picture.number)) shown.set(picture.number, makePicture(picture));
  const { element, button } = shown.get(picture.number);
  const other = state.judgement?.left_out?.wrong?.[picture.number];
  const mistaken = other !== undefined && state.classes.has(other);
  button.classList.toggle("wrong", mistaken);
  const label = `${picture.name}, ${className}` + (mistaken ? `; left out, it looks like ${state.classes.get(other)}` : "");
  if (button.getAttribute("aria-label") !== label) {
    button.setAttribute("aria-label", label);
    button.title = label;
  }
  return element;
}

function makePicture(picture) {
  const button = h("button",
    { type: "button", className: "picture", draggable: true, ondragstart: dragged(picture.number), onclick: () => openDetail(picture.number) },
    thumbnail(picture, { alt: "" }));
  return { element: h("li", {}, button), button };
}

function makeCard(number) {
  const name = h("input", { className: "name", type: "text", maxLength: 60, value: state.classes.get(number), readOnly: state.fixed });
  name.setAttribute("aria-label", "Name of the class");
  name.addEventListener("change", async () => {
    await renameClass(number, name.value);
    name.value = state.classes.get(number) ?? name.value;
  });
  name.addEventListener("keydown", (event) => event.key === "Enter" && name.blur());
  const count = h("p", { className: "quiet" });
  const pictures = h("ul", { className: "pictures" });
  const remove = h("button", { type: "button", className: "plain", onclick: () => removeClass(number) }, "×");
  const tools = choosers(() => number);
  const element = h("li", { className: "card" },
    name, count, pictures, !state.fixed && h("div", { className: "tools" }, tools.elements, remove));
  if (!state.fixed) takeDrops(element, () => number);
  return { element, name, count, pictures, remove, tools };
}

function makeNewCard() {
  const button = h("button", { type: "button", id: "add-class", onclick: begin }, "Add a class");
  const card = h("li", { className: "card new" }, button, h("p", { className: "quiet" }, "or drop pictures of one here"));
  card.addEventListener("dragover", (event) => event.preventDefault());
  card.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    const files = [...event.dataTransfer.files]; // gone after the next await
    if (files.length) addFiles(files, await addClass());
  });
  return card;
}

// A new class, ready to be named; who has gone on to something else meanwhile is left to it.
async function begin({ currentTarget: button }) {
  const number = await addClass();
  if (number === null) return;
  const name = () => [button, document.body].includes(document.activeElement) && cards.get(number)?.name.select();
  requestAnimationFrame(() => requestAnimationFrame(name));
}
