// What a tab remembers over a reload, by name. Knows nothing of what it is.

const PREFIX = "specviz-";

export function keep(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A reload then forgets it.
  }
}

// Null where there is none.
export function recall(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}
