// Values that the browser stores under a name, so that they survive a reload. `tab` stores them
// until the tab is closed, and `browser` stores them permanently.

const PREFIX = "specviz-"; // prefix that separates our values from those of other apps on the same host

class Kept {
  // `storage()` throws an error if the browser refuses storage, which private windows may do.
  /** @param {() => Storage} storage */
  constructor(storage) {
    this.storage = storage;
  }

  // Store any value that JSON can represent. If there is not enough space, store nothing and remove
  // the old value.
  /**
   * @param {string} name
   * @param {any} value
   */
  keep(name, value) {
    try {
      this.storage().setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      this.forget(name); // without this call, the next reload would read an outdated value
    }
  }

  /** @param {string} name */
  forget(name) {
    try {
      this.storage().removeItem(PREFIX + name);
    } catch {
      // The browser refuses to store anything, so no old value exists that must be removed.
    }
  }

  // Return the stored value, or null if there is none. Return null as well if `isSound` rejects the
  // value, because other programs may have written it.
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
