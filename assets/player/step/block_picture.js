// The picture of block verification: the numbers of every guess along the chain. The verdicts appear
// from the last guess to the first, as the rule reads them.

import { element, onNode } from "../shared/dom.js";
import { decimals, drawn } from "../shared/number_words.js";
import { lookOf } from "../shared/outcomes.js";
import { tokenLabel } from "../shared/token_label.js";

const SURE = 0.9999; // from this threshold on, S cannot be computed from h, because h is rounded

/** @typedef {{ node: number, p: number, S: number | null, h: number, u: number | null }} BlockNumbers */

// Return the numbers of every guess of a chain: the product `p` of p/q up to this guess, cut to 1
// at each guess; the sum `S` of max(0, `p` P(x) - Q(x)) over all tokens x, where P and Q are the
// distributions of the target and the draft after the guess; the threshold `h`; and the draw `u`. S
// follows from h = S / (S + 1 - p). It is null for the last guess, which needs no S. It is also
// null if the product is 1, because h is then 1 whatever S is.
/**
 * @param {Round} round
 * @returns {BlockNumbers[]}
 */
export function blockNumbers(round) {
  let carried = 1;
  return round.indices.map((node) => {
    const { p, q, accept: h, u } = round.verdict(node);
    carried = q ? Math.min(1, (carried * p) / q) : 0;
    const isLast = node === round.indices.length - 1;
    const S = isLast || carried >= SURE || h >= SURE ? null : (h * (1 - carried)) / (1 - h);
    return { node, p: carried, S, h, u };
  });
}

export class BlockPicture {
  /**
   * @param {HTMLElement} box
   * @param {{ onSelect: (node: number) => void }} on
   */
  constructor(box, { onSelect }) {
    this.box = box;
    onNode(box, onSelect);
  }

  clear() {
    this.box.hidden = true;
  }

  // Draw the chain. Hide the picture until the target's forward has run, because it gives the
  // numbers. `stage` returns what is known of a node (`stageOf` in moments.js).
  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {number | null} selected
   * @param {(node: number) => string} stage
   */
  draw(trace, round, selected, stage) {
    const isBlock = round.isJoint && !round.isTree && !round.isGreedy && round.outcomes.length > 0;
    const isRun = stage(0) === "verified" || stage(0) === "judged";
    this.box.hidden = !isBlock || !isRun;
    if (this.box.hidden) return;
    const numbers = blockNumbers(round);
    const isJudged = (/** @type {BlockNumbers} */ { node }) =>
      stage(node) === "judged" && round.outcomes[node] !== "unreached";
    const table = element("table", "block-picture");
    /**
     * @param {string} name
     * @param {string} title
     * @param {(each: BlockNumbers) => string | HTMLElement} cell
     */
    const line = (name, title, cell) => {
      const row = element("tr");
      const head = element(name ? "th" : "td", "", name);
      if (title) head.title = title;
      row.append(
        head,
        ...numbers.map((each) => {
          const made = element("td");
          made.dataset.node = String(each.node);
          made.classList.toggle("is-selected", each.node === selected);
          made.append(cell(each));
          return made;
        }),
      );
      table.append(row);
    };
    line("", "", ({ node }) =>
      element("span", "token-text", tokenLabel(trace.text(round.tokenId(node)))),
    );
    line("", "Bars: the product and S; dashed line: h; dot: u", (each) =>
      bars(each, isJudged(each)),
    );
    line("product", "The product of p/q up to this guess, cut to 1 at each guess", ({ p }) =>
      decimals(p),
    );
    line(
      "S",
      "By how much the product times the target’s probabilities exceeds the draft’s, after this guess",
      ({ S }) => (S === null ? "–" : decimals(S)),
    );
    line("threshold h", "The draft up to here passes if u is below h", ({ h, u }) =>
      u === null ? decimals(h) : drawn(h, u)[0],
    );
    line("draw u", "The random draw of this guess", (each) =>
      isJudged(each) && each.u !== null ? drawn(each.h, each.u)[1] : "",
    );
    line("← verdict", "The verdicts are read from the last guess to the first", (each) =>
      verdict(isJudged(each) ? round.outcomes[each.node] : ""),
    );
    const words =
      "Bars: the product and S; dashed line: h; dot: u. The verdicts are read from the right. The first draw below its h decides, and all guesses before it are accepted as well.";
    this.box.replaceChildren(table, element("p", "hint block-words", words));
  }
}

/**
 * @param {BlockNumbers} each
 * @param {boolean} isJudged
 */
function bars({ p, S, h, u }, isJudged) {
  const track = element("span", "block-track");
  for (const [name, value] of /** @type {[string, number][]} */ ([
    ["p", p],
    ["S", S ?? 0],
  ])) {
    const bar = element("i", name);
    bar.style.height = `${100 * value}%`;
    track.append(bar);
  }
  const threshold = element("b");
  threshold.style.bottom = `${100 * h}%`;
  track.append(threshold);
  if (isJudged && u !== null) {
    const dot = element("em", u < h ? "accepted" : "rejected");
    dot.style.bottom = `${100 * u}%`;
    track.append(dot);
  }
  return track;
}

/** @param {string} outcome "" while it is unknown */
function verdict(outcome) {
  const made = element("span", `verdict ${outcome}`);
  if (outcome) made.append(element("i", "", lookOf(outcome).mark), ` ${outcome}`);
  return made;
}
