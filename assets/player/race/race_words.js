// What the race page says about how a race stands: waiting, going on, held, over; and of its models.

export const RACING = "racing …";
export const HELD = "held: nothing is decoded until it goes on";

export const ENDINGS = {
  length: "finished",
  "end-of-sequence": "finished: the text came to its end",
  stopped: "stopped",
};

export function modelWords(target, draft) {
  const sizes = [`target ${millions(target.parameters)}`];
  if (draft) sizes.push(`draft ${millions(draft.parameters)}`);
  return `${sizes.join(", ")} parameters`;
}

export function deviceWords({ device, dtype }) {
  return `${device.replace(/^[a-z]+/, (kind) => kind.toUpperCase())} · ${dtype}`;
}

function millions(count) {
  return count >= 1e9 ? `${(count / 1e9).toFixed(1)} B` : `${(count / 1e6).toFixed(1)} M`;
}
