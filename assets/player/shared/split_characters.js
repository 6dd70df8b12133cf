// Characters whose bytes belong to several tokens. A single token shows such bytes as ⟨F0⟩⟨9F⟩
// (specviz/models/text/text_codec.py), while a growing text shows the whole character.

const BYTES = /(?:⟨[0-9A-F]{2}⟩)+/g;
const LAST_BYTES = /(?:⟨[0-9A-F]{2}⟩)+$/;
const MOST_BYTES = 4; // largest number of bytes in one character

// Replace bytes that form a whole character by that character. Other bytes stay as they are.
/** @param {string} text */
export function withCharacters(text) {
  return text.replace(BYTES, (shown) => characters(shown) ?? shown);
}

/** @param {string} text */
export function endsInBytes(text) {
  return LAST_BYTES.test(text);
}

// Join the texts of consecutive tokens that share a character. All texts but the last end in bytes
// of that character. After joining, the last text has the whole character. Return null if the
// character is not complete yet.
/**
 * @param {string[]} texts
 * @returns {string[] | null}
 */
export function joined(texts) {
  const first = texts[0].replace(LAST_BYTES, "");
  const rest = texts.join("").slice(first.length);
  const [shown] = rest.match(BYTES) ?? [""];
  const whole = characters(shown);
  if (whole === null || texts.length < 2) return null;
  return [first, ...texts.slice(1, -1).map(() => ""), whole + rest.slice(shown.length)];
}

// Return whether the bytes of these tokens may be the beginning of a character that is not
// complete.
/** @param {string[]} texts */
export function isOpen(texts) {
  const bytes = LAST_BYTES.exec(texts.join(""))?.[0].match(/[0-9A-F]{2}/g) ?? [];
  return bytes.length > 0 && bytes.length < MOST_BYTES;
}

// Return the characters for some bytes, or null if the bytes are not valid UTF-8.
/** @param {string} shown */
function characters(shown) {
  const bytes = Uint8Array.from(shown.match(/[0-9A-F]{2}/g) ?? [], (each) => parseInt(each, 16));
  try {
    return bytes.length ? new TextDecoder("utf-8", { fatal: true }).decode(bytes) : null;
  } catch {
    return null;
  }
}
