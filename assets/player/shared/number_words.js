// Numbers in words: probabilities short enough for a table, and seconds and waiting as exact as a guess
// deserves.

// Three decimals, or two significant digits where three decimals would say nothing, and nothing but 1 reads
// as 1; null is a probability that nobody knows. The same rule as `probability` of specviz/figures/labels.py.
/** @param {number | null} value */
export function probability(value) {
  if (value === null) return "—";
  if (value === 0 || value === 1) return String(value);
  if (value >= 0.9995 && value < 1) return value < 0.99995 ? value.toFixed(4) : ">0.9999";
  if (value >= 0.01) return value.toFixed(3);
  return value >= 0.001 ? value.toPrecision(2) : tiny(value);
}

// p and q beside each other, with as many decimals as it takes to see which is larger. The same rule as `compared`
// of specviz/figures/labels.py.
/**
 * @param {number | null} p
 * @param {number | null} q
 */
export function compared(p, q) {
  const texts = [probability(p), probability(q)];
  return p !== null && q !== null && p !== q && texts[0] === texts[1] ? drawn(p, q) : texts;
}

// Shares that make up a whole, in percent that make up 100. The same rule as `_whole_percents` of
// specviz/figures/time_split.py, whose bar stands beside.
/** @param {number[]} shares */
export function wholePercents(shares) {
  const percents = shares.map((each) => Math.floor(100 * each));
  const rest = (/** @type {number} */ at) => 100 * shares[at] - percents[at];
  const missing = 100 - percents.reduce((sum, each) => sum + each, 0);
  for (const at of [...shares.keys()].sort((one, other) => rest(other) - rest(one)).slice(0, missing)) percents[at] += 1;
  return percents;
}

// Two figures, and 5e-8 for 5.0e-8.
/** @param {number} value */
export function tiny(value) {
  return value.toExponential(1).replace(".0", "");
}

const DRAW_PLACES = 3;
const MOST_PLACES = 6; // where no more are needed to tell two apart
const [LEAST_FIGURES, RECORDED_FIGURES] = [3, 6]; // of what is divided
const PLACES_APART = 16; // of two that differ only in the sixth figure, however small

// A threshold and the uniform draw that met it, wherever either is shown: three decimals, or as many as show
// which of the two is larger. The same rule as `drawn` of specviz/figures/labels.py.
/**
 * @param {number} threshold
 * @param {number} draw
 */
export function drawn(threshold, draw) {
  let places = DRAW_PLACES;
  while (threshold !== draw && places < PLACES_APART && threshold.toFixed(places) === draw.toFixed(places)) places += 1;
  return [decimals(threshold, places), decimals(draw, places)];
}

// As many decimals; where those would read as 0, two figures, where as 1, more; as `probability` where that is too long.
/** @param {number} value */
export function decimals(value, places = DRAW_PLACES) {
  if (value === 0 || value === 1) return String(value);
  const isTiny = value < 0.5 * 10 ** -places;
  for (let count = isTiny ? 1 - Math.floor(Math.log10(value)) : places; count <= Math.max(places, MOST_PLACES); count += 1) {
    const text = value.toFixed(count);
    if (Number(text) > 0 && Number(text) < 1) return text;
  }
  return probability(value);
}

// Two numbers beside their quotient as it is shown, at most 1: as many figures as it takes that whoever divides them
// finds that quotient, up to the six that are recorded. `in_proportion` of specviz/figures/labels.py is for percent.
/**
 * @param {number} part
 * @param {number} all
 * @param {string} ratio
 */
export function inProportion(part, all, ratio) {
  let texts = [decimals(part), decimals(all)];
  for (let figures = LEAST_FIGURES; figures <= RECORDED_FIGURES && !isQuotient(texts, ratio); figures += 1) {
    texts = [part, all].map((value) => decimals(value, placesOf(value, figures)));
  }
  return texts;
}

/**
 * @param {string[]} texts
 * @param {string} ratio
 */
function isQuotient([part, all], ratio) {
  const found = Math.min(1, Number(part) / Number(all));
  if (ratio.includes("e")) return tiny(found) === ratio;
  return Number(found.toFixed(ratio.split(".")[1]?.length ?? 0)) === Number(ratio);
}

// Decimals that show as many figures, at least as many as any probability has.
/**
 * @param {number} value
 * @param {number} figures
 */
function placesOf(value, figures) {
  return value > 0 ? Math.max(DRAW_PLACES, figures - 1 - Math.floor(Math.log10(value))) : DRAW_PLACES;
}

// A draw that somebody chose, in full: never 8.9e-7, as no field shows a draw.
/** @param {number} draw */
export function whole(draw) {
  const text = String(draw);
  return text.includes("e") ? draw.toFixed(20).replace(/0+$/, "") : text;
}

/** @param {number} seconds */
export function timeWords(seconds) {
  if (seconds < 1) return "less than a second";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

// Behind what goes on; "" where nothing is known.
/** @param {number | null | undefined} seconds */
export function leftWords(seconds) {
  return seconds === null || seconds === undefined ? "" : ` · ${timeWords(seconds)} left`;
}

// `running`: {title, seconds_left} of what runs now, null where nothing is known of it.
/**
 * @param {number} ahead
 * @param {{ title: string, seconds_left: number | null } | null} running
 */
export function waitingWords(ahead, running) {
  if (!ahead) return "starting …";
  const runs = ahead === 1 ? "1 run is ahead of yours" : `${ahead} runs are ahead of yours`;
  const now = running ? `${ahead === 1 ? ":" : "; now"} ${running.title}${leftWords(running.seconds_left)}` : "";
  return `waiting: ${runs}${now}`;
}

// Who has part in a run that goes on: pages that see the same one, other runs that take turns with it.
/**
 * @param {number} pages
 * @param {number} beside
 */
export function companyWords(pages, beside) {
  const parts = [];
  if (pages > 1) parts.push(`this run is seen by ${pages} pages`);
  if (beside) parts.push(`${counted(beside, "other run")} ${beside === 1 ? "takes" : "take"} turns with it`);
  return parts.join("; ");
}

// What the last message of a run says beside its end: why the server ended it, beside how many it was measured, and
// for what share of its time other work had the processor.
/** @param {{ limit?: string | null, beside?: number, waited?: number | null }} end */
export function endWords({ limit, ...measured }) {
  return limit || measuredWords(measured);
}

// Under which conditions the times of a run were measured, "" for those that a figure needs not name. Of the run's end,
// or of its header (specviz/records/trace.py).
/** @param {{ beside?: number, waited?: number | null }} measured */
export function measuredWords({ beside, waited }) {
  const parts = [];
  if (beside) parts.push(`measured while ${counted(beside, "other run")} took turns with it`);
  if (waited) parts.push(`the processor was busy with other work for ${Math.round(100 * waited)} % of its time: in quiet it may come out otherwise`);
  return parts.join(" · ");
}

// Such as "1 round", "12 rounds".
/**
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
