// Pictures from a camera, which stay on this machine like all others.

import { addFiles } from "./actions.js";
import { byId, h, setText } from "./dom.js";
import { complain } from "./notices.js";
import { state } from "./state.js";

const SIDE = 640; // pixels

export async function openCamera(into) {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: SIDE }, height: { ideal: SIDE } } });
  } catch {
    return complain(new Error("No camera can be used: there is none, or the browser does not allow it"));
  }
  const dialog = byId("camera");
  const video = h("video", { muted: true, playsInline: true, srcObject: stream });
  const taken = h("p", { className: "quiet", role: "status" });
  const where = into === null ? "try" : state.classes.get(into);
  let number = 0;
  async function take() {
    const file = await still(video, `camera ${++number}.jpg`);
    setText(taken, `${number} taken`);
    addFiles([file], into);
  }
  const shutter = h("button", { type: "button", className: "main", disabled: true, onclick: take }, "Take a picture");
  dialog.replaceChildren(
    h("h2", { id: "camera-title" }, `Camera: ${where}`),
    h("div", { className: "viewfinder" }, video),
    taken,
    h("div", { className: "buttons" },
      shutter,
      h("button", { type: "button", onclick: () => dialog.close() }, "Done")),
  );
  dialog.addEventListener("close", () => stream.getTracks().forEach((track) => track.stop()), { once: true });
  dialog.showModal();
  await video.play();
  shutter.disabled = false; // before its first image a camera has nothing to take
}

// The largest centred square of what the camera sees, as a file.
async function still(video, name) {
  const side = Math.min(video.videoWidth, video.videoHeight);
  const canvas = h("canvas", { width: side, height: side });
  const [left, top] = [(video.videoWidth - side) / 2, (video.videoHeight - side) / 2];
  canvas.getContext("2d").drawImage(video, left, top, side, side, 0, 0, side, side);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
  return new File([blob], name, { type: "image/jpeg" });
}
