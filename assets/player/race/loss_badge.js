// Says wherever a result is claimed that its rule was lossy: colour, shape and words.

import { setText } from "../shared/dom.js";

// What to say of a rule, "" for a lossless one. At temperature 0 the target's distribution is one token, and
// a rule that accepts by a threshold on it keeps just that token.
/**
 * @param {{ lossless: boolean } | undefined} kind
 * @param {boolean} isGreedy
 */
export function lossOf(kind, isGreedy) {
  if (!kind || kind.lossless) return "";
  return isGreedy ? "lossy rule, without effect at temperature 0" : "lossy: not the target’s distribution";
}

// How far the rule was found from the target's distribution, in words; `bias` may be missing.
/** @param {Bias | null | undefined} bias */
export function biasWords(bias) {
  if (!bias) return "";
  const { total_variation: distance, noise_floor: noise, temperature } = bias;
  return `measured: total variation ${distance.toFixed(2)} at temperature ${temperature} (chance alone: ${noise.toFixed(2)})`;
}

export class LossBadges {
  /**
   * @param {HTMLElement[]} places
   * @param {Kind[]} kinds
   */
  constructor(places, kinds) {
    this.places = places;
    this.kinds = kinds;
    this.text = "";
    this.show(null);
  }

  // The setting of the race on screen, null for none.
  /** @param {DecodingConfigRecord | null} config */
  show(config) {
    this.text = this.textOf(config);
    for (const place of this.places) {
      setText(place, this.text);
      place.hidden = !this.text;
    }
  }

  /** @param {DecodingConfigRecord | null} config */
  textOf(config) {
    const kind = config && this.kinds.find((each) => each.name === config.tree_kind);
    return kind ? lossOf(kind, config.temperature === 0) : "";
  }
}
