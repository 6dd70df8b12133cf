// Says wherever a result is claimed that its rule was lossy: colour, shape and words.

import { setText } from "../shared/dom.js";

// What to say of a rule, "" for a lossless one. At temperature 0 the target's distribution is one token, and
// a rule that accepts by a threshold on it keeps just that token.
export function lossOf(kind, isGreedy) {
  if (!kind || kind.lossless) return "";
  return isGreedy ? "lossy rule, without effect at temperature 0" : "lossy: not the target’s distribution";
}

// How far the rule was found from the target's distribution, in words; `bias` may be missing.
export function biasWords(bias) {
  if (!bias) return "";
  const { total_variation: distance, noise_floor: noise, temperature } = bias;
  return `measured: total variation ${distance.toFixed(2)} at temperature ${temperature} (chance alone: ${noise.toFixed(2)})`;
}

export class LossBadges {
  constructor(places, kinds) {
    this.places = places;
    this.kinds = kinds;
    this.show(null);
  }

  // The setting of the race on screen, null for none.
  show(config) {
    this.text = this.textOf(config);
    for (const place of this.places) {
      setText(place, this.text);
      place.hidden = !this.text;
    }
  }

  textOf(config) {
    const kind = config && this.kinds.find((each) => each.name === config.tree_kind);
    return kind ? lossOf(kind, config.temperature === 0) : "";
  }
}
