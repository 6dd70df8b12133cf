// The last runs of this browser, kept in it so that an address survives a reload.

import { traceBlob } from "./trace_file.js";

const DATABASE = "specviz";
const STORE = "runs";
const MOST = 24;

export const KEPT = "kept-"; // begins the name of every kept run
export const LIVE = "live"; // the race of a page while it goes on

export function newRunName() {
  return KEPT + [...crypto.getRandomValues(new Uint32Array(2))].map((word) => word.toString(36)).join("");
}

/**
 * @param {string} id
 * @param {Blob} blob
 */
export async function keepRun(id, blob) {
  await change((store) => store.put({ id, blob, kept: Date.now() }));
  const runs = (await change((store) => store.getAll())) ?? [];
  const old = runs.sort((/** @type {any} */ a, /** @type {any} */ b) => b.kept - a.kept).slice(MOST);
  for (const run of old) await change((store) => store.delete(run.id));
}

// The blob of a kept run, or null.
/** @param {string} id */
export async function keptRun(id) {
  return (await change((store) => store.get(id)))?.blob ?? null;
}

// The races of this page under the names that they have in this browser.
export class KeptRaces {
  constructor() {
    this.names = new WeakMap(); // by the run's header
  }

  // Undefined for one that has not begun.
  /** @param {Trace} trace */
  nameOf(trace) {
    return trace.isLive ? LIVE : this.names.get(trace.header);
  }

  // One that was kept before the page was loaded.
  /**
   * @param {Trace} trace
   * @param {string} name
   */
  name(trace, name) {
    this.names.set(trace.header, name);
  }

  // Its new name; null for one that has a name already, or was stopped before it began.
  /** @param {Trace} trace */
  async keep(trace) {
    const { header } = trace;
    if (!header || this.names.has(header)) return null;
    const name = newRunName();
    await keepRun(name, await traceBlob(trace));
    this.names.set(header, name);
    return name;
  }
}

/** @param {(store: IDBObjectStore) => IDBRequest} ask */
function change(ask) {
  return new Promise((resolve) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
    opening.onerror = () => resolve(null);
    opening.onsuccess = () => {
      const request = ask(opening.result.transaction(STORE, "readwrite").objectStore(STORE));
      request.onsuccess = () => (opening.result.close(), resolve(request.result));
      request.onerror = () => (opening.result.close(), resolve(null));
    };
  });
}
