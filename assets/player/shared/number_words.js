// Numbers in words. Probabilities are short enough for a table, and times have no more digits than
// the estimate justifies.

// Write a probability as a plain number, for lessons and code. Null is unknown and becomes "—". The
// number of digits is the same as in `percent` and in a draw, so that a value looks the same
// everywhere.
/** @param {number | null} value */
export function probability(value) {
  return value === null ? "—" : decimals(value);
}

// Write a number of tokens per second, or "–" before the first token.
/** @param {number} rate */
export function rateText(rate) {
  return rate ? rate.toFixed(rate < 100 ? 1 : 0) : "–";
}

const [USUAL_FIGURES, REASONED_FIGURES, RECORDED_FIGURES] = [2, 5, 6];
// a probability below LEAST or above MOST is written as "under" or "over" a limit
const [LEAST, MOST] = [1e-6, 1 - 1e-4];
const PERCENT = "\u00a0%";
const ONE_IN = "1\u00a0in\u00a0";
const TINY = 1e-4;

// Write a probability for tables, charts and sentences. Only exactly 0 and 1 are shown as 0 % and
// 100 %. `percent` of specviz/figures/labels.py is the same rule in Python.
/** @param {number} value */
export function percent(value, figures = USUAL_FIGURES) {
  const isUsual = figures === USUAL_FIGURES;
  if (isUsual && value > 0 && value < LEAST) return `under 0.0001${PERCENT}`;
  if (isUsual && value > MOST && value < 1) return `over 99.99${PERCENT}`;
  let places = placesOf(value, figures);
  if (isUsual && value >= 0.01 && value < 1) places = value < 0.9995 ? 3 : 4;
  return `${(100 * Number(value.toFixed(places))).toFixed(Math.max(0, places - 2))}${PERCENT}`;
}

// Return the number of decimals for a value between 0 and 1. With them, the value has at least
// `figures` significant figures, and 1 minus the value has at least `figures` - 1.
/**
 * @param {number} value
 * @param {number} figures
 */
function placesOf(value, figures) {
  if (value <= 0 || value >= 1) return 2;
  const [own, lack] = [value, 1 - value].map((each) => -Math.floor(Math.log10(each)));
  return Math.max(own + figures - 1, lack + figures - 2);
}

// Write p and q with as many figures as are needed to see which is larger. Null is unknown and
// becomes "—". `compared` of specviz/figures/labels.py is the same rule in Python.
/**
 * @param {number | null} p
 * @param {number | null} q
 */
export function compared(p, q) {
  if (p === null || q === null) return [p, q].map((each) => (each === null ? "—" : percent(each)));
  let texts = [percent(p), percent(q)];
  for (
    let figures = USUAL_FIGURES;
    figures <= RECORDED_FIGURES && !differ(texts) && p !== q && Math.max(p, q) >= LEAST;
    figures += 1
  ) {
    texts = [percent(p, figures), percent(q, figures)];
  }
  return texts;
}

// Return whether two percentages are different numbers; 1.0 % and 1.00 % are the same one.
/** @param {string[]} texts */
function differ(texts) {
  const [one, other] = texts.map((text) => Number(text.replace(PERCENT, "")));
  // a text such as "under 0.0001 %" is no number
  if (Number.isNaN(one) || Number.isNaN(other)) return texts[0] !== texts[1];
  return one !== other;
}

// Write two shares with enough figures that a reader who divides them gets the quotient in `ratio`.
// `in_proportion` of specviz/figures/labels.py is the same rule in Python.
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

// Write two shares like `inProportion`, but for a quotient that is limited to 1. A share that is
// too small to be written with decimals becomes a chance, such as 1 in 1,100,000.
/**
 * @param {number} part
 * @param {number} all
 * @param {string} ratio
 */
export function inChances(part, all, ratio) {
  const isTiny = Math.min(part, all) < TINY;
  const chances =
    isTiny &&
    reckoned(
      [part, all],
      ratio,
      ([one, other]) => Math.min(1, one / other),
      RECORDED_FIGURES,
      chance,
    );
  return chances || inProportion(part, all, ratio);
}

/** @param {number} value */
function chance(value, figures = USUAL_FIGURES) {
  if (value === 0 || value >= TINY) return percent(value, figures);
  return ONE_IN + Number((1 / value).toPrecision(figures)).toLocaleString("en");
}

// Write shares in percent next to a result that is computed from them. Use the smallest number of
// figures with which a reader who repeats the computation gets the shown result. Return null if
// more than `most` figures would be needed. `write` is the function that formats one share.
/**
 * @param {number[]} shares
 * @param {string} result the result as the page shows it
 * @param {(shares: number[]) => number} reckon
 */
export function reckoned(shares, result, reckon, most = REASONED_FIGURES, write = percent) {
  for (let figures = USUAL_FIGURES; figures <= most; figures += 1) {
    const texts = shares.map((each) => write(each, figures));
    if (isShown(reckon(texts.map(shown)), result)) return texts;
  }
  return null;
}

// Return the number that a reader takes from a formatted text. A text that begins with "under"
// counts as 0, and one that begins with "over" gives NaN.
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

// Write the shares of a whole as percentages that add up to 100. `_whole_percents` of
// specviz/figures/time_split.py is the same rule in Python; it draws the bar next to these words.
/** @param {number[]} shares */
export function wholePercents(shares) {
  const percents = shares.map((each) => Math.floor(100 * each));
  const rest = (/** @type {number} */ at) => 100 * shares[at] - percents[at];
  const missing = 100 - percents.reduce((sum, each) => sum + each, 0);
  for (const at of [...shares.keys()]
    .sort((one, other) => rest(other) - rest(one))
    .slice(0, missing))
    percents[at] += 1;
  return percents;
}

const DRAW_PLACES = 3;
const MOST_PLACES = 6; // decimals, unless more are needed to tell two numbers apart
const PLACES_APART = 16; // decimals; enough for two small numbers that differ only in the sixth figure

// Write a threshold and the draw that is compared with it. Both have three decimals, or as many as
// are needed to see which is larger. `drawn` of specviz/figures/labels.py is the same rule in
// Python.
/**
 * @param {number} threshold
 * @param {number} draw
 */
export function drawn(threshold, draw) {
  let places = DRAW_PLACES;
  while (
    threshold !== draw &&
    places < PLACES_APART &&
    threshold.toFixed(places) === draw.toFixed(places)
  )
    places += 1;
  return [decimals(threshold, places), decimals(draw, places)];
}

// Write a number between 0 and 1 with the given number of decimals. Use more decimals if a small
// value would otherwise show fewer than two figures, or if a value below 1 would be rounded to 1.
// If too many decimals would be needed, return words such as "under 0.00001". `decimals` of
// specviz/figures/labels.py is the same rule in Python.
/** @param {number} value */
export function decimals(value, places = DRAW_PLACES) {
  if (value === 0 || value === 1) return String(value);
  for (
    let count = Math.max(places, 1 - Math.floor(Math.log10(value)));
    count <= Math.max(places, MOST_PLACES);
    count += 1
  ) {
    const text = value.toFixed(count);
    if (Number(text) > 0 && Number(text) < 1) return text;
  }
  return value < 0.5 ? "under 0.00001" : "over 0.999999";
}

// Write a draw in full, as the user chose it. It is never written as 8.9e-7, because no input field
// shows it like that.
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

// Write the remaining time of a run, or "" if it is unknown.
/** @param {number | null | undefined} seconds */
export function leftWords(seconds) {
  return seconds === null || seconds === undefined ? "" : ` · ${timeWords(seconds)} left`;
}

// Say that a request waits in the server's queue. `ahead` is the number of runs before it.
// `running` is {title, seconds_left} of the current run, or null if it is unknown. `has_given` is
// true if this page's run has already started and now pauses for another visitor's run.
// `lacks_memory` is true if the server has too little free memory to start one more run.
/**
 * @param {number} ahead
 * @param {{ title: string, seconds_left: number | null, has_given?: boolean, lacks_memory?: boolean } | null} running
 */
export function waitingWords(ahead, running) {
  if (!ahead) return "starting …";
  const runs = ahead === 1 ? "1 run is ahead of yours" : `${ahead} runs are ahead of yours`;
  const now = running
    ? `${ahead === 1 ? ":" : "; now"} ${running.title}${leftWords(running.seconds_left)}`
    : "";
  return `${waitingReason(running)}: ${runs}${now}`;
}

/** @param {{ has_given?: boolean, lacks_memory?: boolean } | null} running */
function waitingReason(running) {
  if (running?.has_given)
    return "this run gave its slot to a visitor who had none, and continues by itself";
  if (running?.lacks_memory)
    return "waiting until another run ends, because the server is short of memory";
  return "waiting";
}

// Say how many pages watch the same run, and how many other runs share the processor with it.
/**
 * @param {number} pages
 * @param {number} beside
 */
export function companyWords(pages, beside) {
  const parts = [];
  if (pages > 1) parts.push(`${pages} pages show this run`);
  if (beside)
    parts.push(`${counted(beside, "other run")} ${beside === 1 ? "takes" : "take"} turns with it`);
  return parts.join("; ");
}

// Return the remark of a run's last message. If the server ended the run, the remark gives the
// reason. Otherwise it says how many other runs were measured at the same time, and how busy the
// CPU was with other work.
/** @param {{ limit?: string | null, beside?: number, waited?: number | null }} end */
export function endWords({ limit, ...measured }) {
  return limit || measuredWords(measured);
}

// Describe the conditions under which a run's times were measured, or return "" if they were good.
// The run's last message or its header contains them (specviz/records/trace.py).
/** @param {{ beside?: number, waited?: number | null }} measured */
export function measuredWords({ beside, waited }) {
  const parts = [];
  if (beside) parts.push(`measured while ${counted(beside, "other run")} took turns with it`);
  if (waited)
    parts.push(
      `other work used the processor for ${Math.round(100 * waited)} % of the time, so times may differ on an idle machine`,
    );
  return parts.join(" · ");
}

// Write a count, such as "1 round" or "12 rounds".
/**
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
