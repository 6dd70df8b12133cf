// Numbers in words: probabilities short enough for a table, and seconds and waiting as exact as a guess
// deserves.

// A probability as a plain number, for lessons and code: three decimals, or two significant digits where three
// decimals would say nothing, and nothing but 1 reads as 1; null is a probability that nobody knows.
/** @param {number | null} value */
export function probability(value) {
  if (value === null) return "—";
  if (value === 0 || value === 1) return String(value);
  if (value >= 0.9995 && value < 1) return value < 0.99995 ? value.toFixed(4) : ">0.9999";
  if (value >= 0.01) return value.toFixed(3);
  return value >= 0.00001 ? value.toPrecision(2) : "<0.00001";
}

const [USUAL_FIGURES, REASONED_FIGURES, RECORDED_FIGURES] = [2, 5, 6];
const [LEAST, MOST] = [1e-6, 1 - 1e-4]; // nearer to 0 or 1 no figures are given
const PERCENT = "\u00a0%";
const ONE_IN = "1\u00a0in\u00a0";
const TINY = 1e-4;

// A probability in tables, charts and sentences: only 0 and 1 read as nothing or as all. The same rule as `percent`
// of specviz/figures/labels.py.
/** @param {number} value */
export function percent(value, figures = USUAL_FIGURES) {
  const isUsual = figures === USUAL_FIGURES;
  if (isUsual && value > 0 && value < LEAST) return `under 0.0001${PERCENT}`;
  if (isUsual && value > MOST && value < 1) return `over 99.99${PERCENT}`;
  let places = placesOf(value, figures);
  if (isUsual && value >= 0.01 && value < 1) places = value < 0.9995 ? 3 : 4;
  return `${(100 * Number(value.toFixed(places))).toFixed(Math.max(0, places - 2))}${PERCENT}`;
}

// Decimals that show as many figures of the value, and of what it lacks to 1 one less.
/**
 * @param {number} value
 * @param {number} figures
 */
function placesOf(value, figures) {
  if (value <= 0 || value >= 1) return 2;
  const [own, lack] = [value, 1 - value].map((each) => -Math.floor(Math.log10(each)));
  return Math.max(own + figures - 1, lack + figures - 2);
}

// p and q beside each other, with as many figures as it takes to see which is larger; null is one that nobody knows.
// The same rule as `compared` of specviz/figures/labels.py.
/**
 * @param {number | null} p
 * @param {number | null} q
 */
export function compared(p, q) {
  if (p === null || q === null) return [p, q].map((each) => (each === null ? "—" : percent(each)));
  let texts = [percent(p), percent(q)];
  for (let figures = USUAL_FIGURES; figures <= RECORDED_FIGURES && texts[0] === texts[1] && p !== q && Math.max(p, q) >= LEAST; figures += 1) {
    texts = [percent(p, figures), percent(q, figures)];
  }
  return texts;
}

// Two shares beside their quotient as it is shown: as many figures as it takes that whoever divides them finds it. The
// same rule as `in_proportion` of specviz/figures/labels.py.
/**
 * @param {number} part
 * @param {number} all
 * @param {string} ratio
 */
export function inProportion(part, all, ratio) {
  const usual = compared(part, all);
  if (ratio === "1" || Math.max(part, all) < LEAST) return usual;
  return reckoned([part, all], ratio, ([one, other]) => one / other, RECORDED_FIGURES) ?? usual;
}

// The same of a quotient of at most 1; a share that would be nothing but zeros is a chance, such as 1 in 1,100,000.
/**
 * @param {number} part
 * @param {number} all
 * @param {string} ratio
 */
export function inChances(part, all, ratio) {
  const isTiny = Math.min(part, all) < TINY;
  const chances = isTiny && reckoned([part, all], ratio, ([one, other]) => Math.min(1, one / other), RECORDED_FIGURES, chance);
  return chances || inProportion(part, all, ratio);
}

/** @param {number} value */
function chance(value, figures = USUAL_FIGURES) {
  if (value === 0 || value >= TINY) return percent(value, figures);
  return ONE_IN + Number((1 / value).toPrecision(figures)).toLocaleString("en");
}

// Shares in percent beside what follows from them, in the fewest figures from which a reader who reckons with what is
// shown finds what is shown; null where as many as `most` do not do. `write`: another way to show a share.
/**
 * @param {number[]} shares
 * @param {string} result as it is shown
 * @param {(shares: number[]) => number} reckon
 */
export function reckoned(shares, result, reckon, most = REASONED_FIGURES, write = percent) {
  for (let figures = USUAL_FIGURES; figures <= most; figures += 1) {
    const texts = shares.map((each) => write(each, figures));
    if (isShown(reckon(texts.map(shown)), result)) return texts;
  }
  return null;
}

// What a reader takes a text for: next to nothing for nothing, and almost all for no number.
/** @param {string} text */
function shown(text) {
  if (text.startsWith("under")) return 0;
  if (text.startsWith(ONE_IN)) return 1 / Number(text.slice(ONE_IN.length).replaceAll(",", ""));
  return Number(text.replace(PERCENT, "")) / (text.endsWith(PERCENT) ? 100 : 1);
}

/**
 * @param {number} value
 * @param {string} text
 */
function isShown(value, text) {
  const [digits, unit] = text.endsWith(PERCENT) ? [text.replace(PERCENT, ""), 100] : [text, 1];
  if (digits.startsWith("under")) return value >= 0 && unit * value < Number(digits.split(" ")[1]);
  if (digits.startsWith("over")) return value <= 1 && unit * value > Number(digits.split(" ")[1]);
  const places = digits.split(".")[1]?.length ?? 0;
  return (unit * value + 1e-12).toFixed(places) === digits;
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

const DRAW_PLACES = 3;
const MOST_PLACES = 6; // where no more are needed to tell two apart
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

// As many decimals; where those would read as 0, two figures, where as 1, more; in words where that is too long.
/** @param {number} value */
export function decimals(value, places = DRAW_PLACES) {
  if (value === 0 || value === 1) return String(value);
  const isTiny = value < 0.5 * 10 ** -places;
  for (let count = isTiny ? 1 - Math.floor(Math.log10(value)) : places; count <= Math.max(places, MOST_PLACES); count += 1) {
    const text = value.toFixed(count);
    if (Number(text) > 0 && Number(text) < 1) return text;
  }
  return value < 0.5 ? "under 0.00001" : "over 0.999999";
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
