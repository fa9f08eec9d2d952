// What was said of a picture, from the rows of a judgement. Pure functions.

// The class that a row of probabilities speaks for: `{ number, certainty }`.
export function best(classes, row) {
  let place = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[place]) place = i;
  return { number: classes[place], certainty: row[place] };
}

// Of picture `number`: what the classifier says alone, what it says with the APIs if any answered, and whether that differs.
export function verdict(judgement, number) {
  const row = judgement?.said?.[number];
  if (!row) return null;
  const alone = best(judgement.classes, row);
  const heard = judgement.heard;
  const joint = heard?.asked?.[number] ? best(heard.classes, heard.said[number]) : null;
  return { alone, joint, final: joint ?? alone, changed: joint !== null && joint.number !== alone.number };
}

// Classes with probabilities alone and with APIs, the likeliest first.
export function ranked(judgement, number) {
  const alone = judgement?.said?.[number] ?? [];
  const heard = judgement?.heard?.asked?.[number] ? judgement.heard : null;
  const joint = new Map(heard ? heard.classes.map((c, i) => [c, heard.said[number][i]]) : []);
  const rows = judgement?.classes?.map((c, i) => ({ number: c, alone: alone[i] ?? 0, joint: joint.get(c) ?? null })) ?? [];
  return rows.sort((a, b) => (b.joint ?? b.alone) - (a.joint ?? a.alone));
}

// Numbers of pictures in the order of the tray: as they came, or the least certain first; all, or the unsure alone.
export function ordered(numbers, certainty, { unsureFirst, onlyUnsure, unsure }) {
  const kept = onlyUnsure ? numbers.filter((n) => certainty(n) !== null && certainty(n) < unsure) : [...numbers];
  if (!unsureFirst) return kept;
  return kept.sort((a, b) => (certainty(a) ?? 2) - (certainty(b) ?? 2) || a - b);
}
