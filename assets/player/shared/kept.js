// What the browser keeps over a reload, by name: a tab for as long as it is open, or the browser for good.

const PREFIX = "specviz-"; // other apps of the same host keep theirs beside ours

class Kept {
  // `storage()` throws where the browser refuses it, as private windows may.
  /** @param {() => Storage} storage */
  constructor(storage) {
    this.storage = storage;
  }

  // Anything that JSON can write. Where there is no room for it, nothing is kept.
  /**
   * @param {string} name
   * @param {any} value
   */
  keep(name, value) {
    try {
      this.storage().setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      this.forget(name); // or a reload would bring an older one back
    }
  }

  /** @param {string} name */
  forget(name) {
    try {
      this.storage().removeItem(PREFIX + name);
    } catch {
      // There is nowhere to keep anything.
    }
  }

  // Null where there is none, or none that `isSound` takes: others may have written there.
  /** @param {string} name */
  recall(name, isSound = (/** @type {any} */ _value) => true) {
    try {
      const value = JSON.parse(this.storage().getItem(PREFIX + name) ?? "null");
      return isSound(value) ? value : null;
    } catch {
      return null;
    }
  }
}

export const tab = new Kept(() => sessionStorage);
export const browser = new Kept(() => localStorage);
