// Storage for the last runs of this browser, so that an address that names a run still works after
// a reload.

import { traceBlob } from "./trace_file.js";

const DATABASE = "specviz";
const STORE = "runs";
const MOST = 24;

export const KEPT = "kept-"; // prefix of the name of every stored run
export const LIVE = "live"; // name of this page's race while it is running

export function newRunName() {
  return (
    KEPT + [...crypto.getRandomValues(new Uint32Array(2))].map((word) => word.toString(36)).join("")
  );
}

/**
 * @param {string} id
 * @param {Blob} blob
 */
export async function keepRun(id, blob) {
  await change((store) => store.put({ id, blob, kept: Date.now() }));
  const runs = (await change((store) => store.getAll())) ?? [];
  const old = runs
    .sort((/** @type {any} */ a, /** @type {any} */ b) => b.kept - a.kept)
    .slice(MOST);
  for (const run of old) await change((store) => store.delete(run.id));
}

// Return the stored run as a blob, or null if this browser does not have it.
/** @param {string} id */
export async function keptRun(id) {
  return (await change((store) => store.get(id)))?.blob ?? null;
}

// The names under which this browser has stored the races that were shown on this page.
export class KeptRaces {
  constructor() {
    this.names = new WeakMap(); // the name of each stored run; the key is the run's header
  }

  // Return the name under which a run is stored. It is LIVE for a run that is still running, and
  // undefined if the run is not stored.
  /** @param {Trace} trace */
  nameOf(trace) {
    return trace.isLive ? LIVE : this.names.get(trace.header);
  }

  // Remember the name of a race that was already stored before this page was loaded.
  /**
   * @param {Trace} trace
   * @param {string} name
   */
  name(trace, name) {
    this.names.set(trace.header, name);
  }

  // Store a finished race and return its new name. Return null if it has a name already or was
  // stopped before it started.
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
