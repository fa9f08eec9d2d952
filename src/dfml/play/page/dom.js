// Elements from names and texts. Text stays text: nothing here, or anywhere on this page, makes HTML of a string.

// An element with attributes, properties and listeners (`onclick`), and children: elements, strings, or nothing.
export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

// Writes only what differs, so that a screen reader hears news and nothing else.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes the children of `parent` be `wanted`, in that order, moving as few as it can.
export function arrange(parent, wanted) {
  let place = parent.firstChild;
  for (const element of wanted) {
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
