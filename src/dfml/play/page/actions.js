// What the user can do. Each tells the server first, then the page; what goes wrong is said, and nothing else happens.

import { complain, forgive, say } from "./notices.js";
import { Queue, soon } from "./queue.js";
import { Gone, ask, tell } from "./server.js";
import { changed, inTray, state, take } from "./state.js";
import { megabytes } from "./words.js";

const UPLOADS = 3; // at a time
const ASKED_TOGETHER = 16; // pictures

export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    complain(error);
    if (!(error instanceof Gone)) ask("api/state").then(take, complain); // what the page shows may be out of date
    return null;
  }
}

export const load = () => attempt(async () => (take(await ask("api/state")), judgeSoon(), true));

export const judgeSoon = soon(async () => {
  await attempt(async () => {
    state.judgement = await ask("api/judgement");
    changed();
  });
  if (state.asking.on) askSoon();
  else if (state.asking.possible) await attempt(refreshCost);
});

// --- classes

export const addClass = (name = "") =>
  attempt(async () => {
    const told = await tell("POST", "api/classes", { message: { name } });
    state.classes.set(told.number, told.name);
    changed();
    return told.number;
  });

export const renameClass = (number, name) =>
  attempt(async () => {
    const told = await tell("PATCH", `api/classes/${number}`, { message: { name } });
    state.classes.set(number, told.name);
    changed();
  });

export const removeClass = (number) =>
  attempt(async () => {
    await tell("DELETE", `api/classes/${number}`);
    state.classes.delete(number);
    for (const picture of state.pictures.values()) if (picture.into === number) picture.into = null;
    changed();
    judgeSoon();
  });

// --- pictures

let sent = 0;
const uploads = new Queue(UPLOADS, async ({ file, into, name }) => {
  try {
    const query = into === null ? { name } : { name, into };
    const picture = await tell("POST", "api/pictures", { body: file, query });
    state.pictures.set(picture.number, picture);
    changed();
    judgeSoon();
  } catch (error) {
    complain(error);
    if (error instanceof Gone) uploads.drop();
  }
  sent++;
  say(`Adding pictures: ${sent} of ${sent + uploads.left - 1}`);
});

export async function addFiles(files, into) {
  const fitting = [...files].filter(fits);
  await uploads.add(fitting.map((file) => ({ file, into, name: file.name || "camera" })));
  sent = 0;
  say("");
}

function fits(file) {
  if (file.size <= state.limits.file) return true;
  complain(new Error(`${file.name} has more than ${megabytes(state.limits.file)}; make it smaller first`));
  return false;
}

export const movePicture = (number, into) =>
  attempt(async () => {
    await tell("PATCH", `api/pictures/${number}`, { message: { into } });
    state.pictures.get(number).into = into;
    changed();
    judgeSoon();
  });

export const removePicture = (number) =>
  attempt(async () => {
    await tell("DELETE", `api/pictures/${number}`);
    state.pictures.delete(number);
    changed();
    judgeSoon();
  });

export async function clearTray() {
  for (const { number } of inTray()) {
    if ((await attempt(() => tell("DELETE", `api/pictures/${number}`))) === null) break;
    state.pictures.delete(number);
  }
  changed();
  judgeSoon();
}

// --- APIs

const refreshCost = async () => hear(await ask("api/switch"));

export const turnSwitch = (on) =>
  attempt(async () => {
    forgive();
    hear(await tell("POST", "api/switch", { message: { on } }));
    if (on) judgeSoon();
  });

// Asks about all new pictures that nobody was asked about yet, some at a time, until the switch is off.
const askSoon = soon(async () => {
  if (!(state.judgement?.classes.length >= 2)) return;
  try {
    for (;;) {
      const heard = state.judgement?.heard;
      const open = inTray().filter(({ number }) => !(number in (heard?.said ?? {})));
      if (!state.asking.on || (heard && open.length === 0)) break;
      state.asked = open.length;
      changed();
      const pictures = open.slice(0, ASKED_TOGETHER).map(({ number }) => number);
      if (!(await heardAbout({ pictures }))) break;
    }
  } catch (error) {
    if (state.asking.on || error instanceof Gone) complain(error);
  } finally {
    state.asked = 0;
    changed();
  }
});

export const askEvery = (number) => attempt(() => heardAbout({ pictures: [number], every: true }));

// Asks, and adds what was said to the judgement; false where the examples have changed meanwhile.
async function heardAbout(message) {
  const told = await tell("POST", "api/ask", { message });
  hear(told);
  if (told.version !== state.judgement.version || !told.heard) return judgeSoon(), false;
  const before = state.judgement.heard ?? { said: {}, asked: {}, failures: {} };
  for (const [api, reason] of Object.entries(told.heard.failures)) if (!(api in before.failures)) complain(new Error(reason));
  state.judgement.heard = {
    ...told.heard,
    said: { ...before.said, ...told.heard.said },
    asked: { ...before.asked, ...told.heard.asked },
  };
  changed();
  return true;
}

function hear({ asking }) {
  state.asking = asking;
  changed();
}

// --- keeping

export const save = () =>
  attempt(async () => {
    say("Saving…");
    const told = await tell("POST", "api/save").finally(() => say(""));
    Object.assign(state, { saved: true, folder: told.folder, line: told.line });
    changed();
    return told;
  });
