// Talking to dfml on this machine. Addresses are relative: they begin with the token that is in the page's own.

export class Gone extends Error {}

// What the server answers; an `Error` with its sentence where something was wrong, `Gone` where nobody answers.
export async function tell(method, path, { message, body, query } = {}) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  let response;
  try {
    response = await fetch(address, { method, body: body ?? (message && JSON.stringify(message)) });
  } catch {
    throw new Gone("dfml play has ended. Start it again and open the address that it prints.");
  }
  const told = await response.json().catch(() => ({ problem: `dfml play answered with status ${response.status}` }));
  if (told.problem) throw new Error(told.problem);
  return told;
}

export const ask = (path) => tell("GET", path);
