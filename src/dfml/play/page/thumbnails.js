// A picture as it is shown everywhere: small, loaded when it comes into sight.

import { h } from "./dom.js";

const COARSE = 96; // a smaller one is shown with its pixels, not blurred

const address = (number) => `pictures/${number}.webp`;

export function thumbnail({ number, name, side }, given = {}) {
  const className = side < COARSE ? "coarse" : "";
  return h("img", { src: address(number), alt: name, width: side, height: side, loading: "lazy", decoding: "async", className, ...given });
}
