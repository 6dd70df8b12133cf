// What a tab remembers over a reload, by name.

const PREFIX = "specviz-";

export function keep(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    forget(name); // or a reload would bring an older one back
  }
}

function forget(name) {
  try {
    sessionStorage.removeItem(PREFIX + name);
  } catch {
    // There is nowhere to keep anything.
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
