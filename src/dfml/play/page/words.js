// Numbers and names as people read them. Pure functions.

export const percent = (share) => `${Math.round(100 * share)} %`;

export const count = (number) => number.toLocaleString("en-GB");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const money = (usd) => `${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)} USD`;

export const megabytes = (bytes) => `${count(Math.round(bytes / 2 ** 20))} MB`;

// "12 of 15 are recognised by the others alone (80 %)", for examples left out one by one.
export function leftOutTold(leftOut) {
  if (!leftOut || leftOut.of === 0) return "";
  const right = leftOut.of - Object.keys(leftOut.wrong).length;
  return `${right} of ${leftOut.of} recognised when left out (${percent(right / leftOut.of)})`;
}

// What asking has cost, and what it may.
export function costTold(cost) {
  const spent = plural(cost.queries, "query", "queries") + (cost.priced ? `, ${money(cost.usd)}` : "");
  return cost.budget === null ? `${spent} so far` : `${spent} of ${count(cost.budget)} allowed`;
}

// What turning the switch can take, before it is turned.
export function consentTold(cost, examples, pictures) {
  const most = Math.min(cost.examples + pictures * cost.picture, left(cost));
  const price = cost.priced ? ` (${money(most * cost.usd_query)})` : "";
  const about = [examples && plural(examples, "example"), pictures && `${plural(pictures, "picture")} to try`];
  return `About ${about.filter(Boolean).join(" and ") || "no picture yet"}: at most ${plural(most, "query", "queries")}${price}.`;
}

const left = (cost) => (cost.budget === null ? Infinity : Math.max(0, cost.budget - cost.queries));
