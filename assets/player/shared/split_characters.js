// Characters whose bytes stand in several tokens: a token shows its own as ⟨F0⟩⟨9F⟩ (specviz/models/text/
// text_codec.py), a running text the character.

const BYTES = /(?:⟨[0-9A-F]{2}⟩)+/g;
const LAST_BYTES = /(?:⟨[0-9A-F]{2}⟩)+$/;
const MOST_BYTES = 4; // of a character

// Bytes that are whole characters as those; others as they are.
/** @param {string} text */
export function withCharacters(text) {
  return text.replace(BYTES, (shown) => characters(shown) ?? shown);
}

/** @param {string} text */
export function endsInBytes(text) {
  return LAST_BYTES.test(text);
}

// The texts of tokens in turn, of which all but the last end in bytes: as they stand in the text once the
// character is whole, which is with its last token. Null while it is not.
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

// Whether more bytes may follow those of these tokens.
/** @param {string[]} texts */
export function isOpen(texts) {
  const bytes = LAST_BYTES.exec(texts.join(""))?.[0].match(/[0-9A-F]{2}/g) ?? [];
  return bytes.length > 0 && bytes.length < MOST_BYTES;
}

// Null for bytes that are no text.
/** @param {string} shown */
function characters(shown) {
  const bytes = Uint8Array.from(shown.match(/[0-9A-F]{2}/g) ?? [], (each) => parseInt(each, 16));
  try {
    return bytes.length ? new TextDecoder("utf-8", { fatal: true }).decode(bytes) : null;
  } catch {
    return null;
  }
}
