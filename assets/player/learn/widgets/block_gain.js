// A widget that shows how many tokens of the same drafts two rules accept, on the bundled pair. The
// drafts are measured on this machine or recorded on another.

import { element, setText } from "../../shared/dom.js";
import { OrderWidget } from "../order_widget.js";
import { blockNumbers, blockPossible, gainOf } from "./block_numbers.js";

export class BlockGain extends OrderWidget {
  static id = "block-gain";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "blocks");
    this.head = element("h3", "sweep-title", "Accepted tokens per draft");
    this.key = element("p", "guess-key hint");
    const [byToken, asBlock] = [element("span"), element("span")];
    byToken.append(element("i", "gain-token"), "token by token");
    asBlock.append(element("i", "gain-block"), "block verification");
    this.key.append(byToken, asBlock);
    this.bars = element("ol", "gain-bars");
    this.words = element("p", "forward-words");
    box.classList.add("block-gain");
    box.replaceChildren(this.head, this.key, this.bars, this.words, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.setOrder("blocks", {}, scene.known === "true");
    this.row.box.hidden = scene.hidden === "true";
    this.draw();
    if (this.found && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.showFound();
    this.draw();
    this.on.changed();
  }

  // The recording says which drafts are compared, even before anything is measured.
  get values() {
    const { temperature, prompts, usual, long, copied } = blockNumbers(this.planned);
    return {
      ...blockNumbers(this.found),
      temperature,
      usual,
      long,
      copied,
      prompts: this.found?.prompts ?? prompts,
    };
  }

  get possible() {
    return blockPossible(this.found);
  }

  draw() {
    const { scene, found, planned } = this;
    const isShown = found !== null && scene.hidden !== "true";
    const rows = (isShown ? found : planned)?.rows ?? [];
    const most = Math.max(...rows.map((/** @type {any} */ { block }) => block), 0.1);
    this.bars.replaceChildren(
      ...rows.map((/** @type {any} */ row) => this.gainRow(row, most, isShown)),
    );
    setText(
      this.words,
      isShown
        ? `The same drafts of ${found.prompts} prompts, at temperature ${found.temperature}. In grey: 95 % of the bootstrap samples over the prompts.`
        : "Nothing is measured yet.",
    );
  }

  /**
   * @param {import("./block_numbers.js").GainRow} row
   * @param {number} most
   * @param {boolean} isShown
   */
  gainRow(row, most, isShown) {
    const made = element("li");
    const name = row.is_copied ? `copied, K = ${row.K}` : `drawn, K = ${row.K}`;
    const tracks = element("span", "gain-tracks");
    for (const rule of /** @type {const} */ (["token", "block"])) {
      const line = element("span", "gain-line");
      const track = element("span", "sweep-track");
      const bar = element("i", `gain-${rule}`);
      bar.style.width = isShown ? `${(100 * row[rule]) / most}%` : "0";
      track.append(bar);
      line.append(track, element("span", "number", isShown ? row[rule].toFixed(2) : "?"));
      tracks.append(line);
    }
    const gain = gainOf(row);
    const told = element("span", "gain-number");
    told.append(
      element("b", "", !isShown ? "?" : gain === 0 ? "no gain" : `+${(100 * gain).toFixed(1)} %`),
    );
    if (isShown && gain !== 0)
      told.append(
        element("span", "hint", ` ${(100 * row.low).toFixed(1)} to ${(100 * row.high).toFixed(1)}`),
      );
    made.append(element("span", "sweep-name", name), tracks, told);
    return made;
  }
}
