// A badge on every result of a lossy rule. It differs in colour, shape and words from other badges.

import { setText } from "../shared/dom.js";
import { lossOf } from "../shared/loss_words.js";

// Say how far the rule's distribution was measured to be from the target's. `bias` is missing if it
// was never measured.
/** @param {Bias | null | undefined} bias */
export function biasWords(bias) {
  if (!bias) return "";
  const { total_variation: distance, noise_floor: noise, temperature } = bias;
  return `measured: total variation ${distance.toFixed(2)} at temperature ${temperature} (chance alone: ${noise.toFixed(2)})`;
}

export class LossBadges {
  /**
   * @param {HTMLElement[]} places
   * @param {RuleOffer[]} rules
   */
  constructor(places, rules) {
    this.places = places;
    this.rules = rules;
    this.text = "";
    this.show(null);
  }

  // Show the badge for the settings of the current race, or hide it if there is no race.
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
    const rule = config && this.rules.find((each) => each.name === config.rule);
    return rule ? lossOf(rule, config.temperature === 0) : "";
  }
}
