// The page: everything is prepared once, and drawn again when something changes.

import { load } from "./actions.js";
import { drawSwitch, prepareSwitch } from "./asking.js";
import { drawClasses } from "./classes.js";
import { byId, setText } from "./dom.js";
import { catchStrays } from "./drop.js";
import { drawKeep, prepareKeep } from "./keep.js";
import { prepareLearned } from "./learned.js";
import { complain } from "./notices.js";
import { onChange, state } from "./state.js";
import { drawTray, prepareTray } from "./tray.js";

prepareTray();
prepareSwitch();
prepareKeep();
prepareLearned();
catchStrays();
for (const draw of [drawClasses, drawTray, drawSwitch, drawKeep]) onChange(draw);
onChange(() => setText(byId("about"), [state.title, state.about].filter(Boolean).join(": ")));

if (await load()) {
  for (const note of state.notes) complain(note);
  document.documentElement.dataset.ready = "yes";
}
