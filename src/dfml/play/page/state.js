// What the page knows, and a word to everybody when it changes.

export const state = {
  classes: new Map(), // number -> name
  pictures: new Map(), // number -> { number, name, side, into }
  judgement: null,
  asking: { possible: false, on: false },
  limits: { file: 0, unsure: 0.6 },
  fixed: false,
  asked: 0, // pictures that APIs are being asked about
};

const listeners = [];
let planned = false;

export const onChange = (listener) => listeners.push(listener);

// Everything is drawn once before the next frame, however often this is called.
export function changed() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    for (const listener of listeners) listener(state);
  });
}

export function take(told) {
  const { classes, pictures, ...rest } = told;
  Object.assign(state, rest);
  state.classes = new Map(classes.map(({ number, name }) => [number, name]));
  state.pictures = new Map(pictures.map((picture) => [picture.number, picture]));
  changed();
}

// Pictures are numbered as they are sent, and arrive as they are done.
export const byNumber = (a, b) => a.number - b.number;
export const inTray = () => [...state.pictures.values()].filter((p) => p.into === null);
