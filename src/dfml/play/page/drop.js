// Places that pictures can be brought to: dropped from a folder, dragged from another place, or chosen in a dialog.

import { addFiles, movePicture } from "./actions.js";
import { openCamera } from "./camera.js";
import { h } from "./dom.js";

const OURS = "application/x-dfml-picture";

// Makes `element` take files, and pictures dragged from elsewhere on the page, into the class `into()`.
export function takeDrops(element, into) {
  let depth = 0; // dragenter and dragleave also come for every child
  const over = (on) => element.classList.toggle("over", on);
  element.addEventListener("dragenter", () => over(++depth > 0));
  element.addEventListener("dragleave", () => over(--depth > 0));
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    over(false);
    const number = event.dataTransfer.getData(OURS);
    if (number) movePicture(Number(number), into());
    else addFiles(event.dataTransfer.files, into());
  });
}

export const dragged = (number) => (event) => event.dataTransfer.setData(OURS, String(number));

// Buttons that do the same for who cannot drag: choose files, or use a camera. `name` tells who only hears for which place.
export function choosers(into, label = "Add") {
  const input = h("input", { type: "file", multiple: true, accept: "image/*", hidden: true });
  input.addEventListener("change", () => (addFiles(input.files, into()), (input.value = "")));
  const choose = h("button", { type: "button", onclick: () => input.click() }, label);
  const camera = h("button", { type: "button", onclick: () => openCamera(into()) }, "Camera");
  function name(what) {
    choose.setAttribute("aria-label", `Add pictures to ${what}`);
    camera.setAttribute("aria-label", `Use the camera for ${what}`);
  }
  return { elements: [choose, ...(navigator.mediaDevices ? [camera] : []), input], name };
}

// A file that misses its place must not replace the page; one that is pasted is tried.
export function catchStrays() {
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
  window.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) addFiles(event.clipboardData.files, null);
  });
}
