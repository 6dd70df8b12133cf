// Computes the values of the exercises with a real engine from counts and times.

/** @typedef {{ drafts: number, drafted: number, accepted: number, tokens: number, per_position: number[] }} EngineCounts */
/** @typedef {"F16" | "Q8_0" | "Q4_0" | "drafted"} Quantised a precision; "drafted" is F16 with Q4_0 as its draft */
/** @typedef {{ model: string, length: number, texts: number, bytes: Record<string, number>, tokens: Record<Quantised, number>, seconds: Record<Quantised, number[]>, agreed: Record<string, number>, is_same: boolean, drafts: EngineCounts, looks: [number, number] }} QuantisedMessage */
/** @typedef {{ at_once: number, plain: number[], draft: number[], acceptance: number | null }} LoadLevel `plain` and `draft` hold the tokens per second of each pass without and with drafts */
/** @typedef {EngineCounts & { name: string, health: string, state: string, refusal: string }} ServerProbe */
/** @typedef {{ model: string, length: number, servers: ServerProbe[], compared: { prompts: number, same: number, ours: EngineCounts, theirs: EngineCounts }, levels: LoadLevel[] }} ServersMessage */

const MEGA = 1e6;

// Return the time of the fastest pass, because other work on the machine can only add time.
/**
 * @param {QuantisedMessage} found
 * @param {Quantised} name
 */
export function secondsOf({ seconds }, name) {
  return Math.min(...seconds[name]);
}

/** @param {number[]} numbers */
function median(numbers) {
  const [sorted, middle] = [numbers.toSorted((a, b) => a - b), (numbers.length - 1) / 2];
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

/** @param {EngineCounts} counts */
function draftNumbers({ drafts, drafted, accepted }) {
  return {
    drafts,
    drafted,
    accepted,
    acceptance: accepted / drafted,
    rejection: 1 - accepted / drafted,
    per_draft: accepted / drafts,
    per_look: 1 + accepted / drafts,
  };
}

/** @param {QuantisedMessage} found */
export function quantisedNumbers(found) {
  const { model, length: K, texts, bytes, tokens, agreed, drafts, looks } = found;
  const rate = (/** @type {Quantised} */ name) => tokens[name] / secondsOf(found, name);
  const [f16, q8, q4, both] = /** @type {Quantised[]} */ (["F16", "Q8_0", "Q4_0", "drafted"]).map(
    rate,
  );
  const share = (/** @type {string} */ kind) => agreed[kind] / tokens.F16;
  const counts = draftNumbers(drafts);
  const [cost, ratio] = [f16 / q4, looks[1] / looks[0]];
  return {
    model,
    K,
    texts,
    look: K + 1,
    tokens: tokens.F16,
    ...counts,
    f16_size: bytes.F16 / MEGA,
    q4_size: bytes.Q4_0 / MEGA,
    size_ratio: bytes.F16 / bytes.Q4_0,
    f16_rate: f16,
    q8_rate: q8,
    q4_rate: q4,
    drafted_rate: both,
    q8_times: q8 / f16,
    q4_times: q4 / f16,
    q4_inverse: f16 / q4,
    q8_share: share("Q8_0"),
    q4_share: share("Q4_0"),
    q4_other: 1 - share("Q4_0"),
    cost,
    foretold: counts.per_look / (1 + K * cost),
    one_guess: counts.per_look / (1 + cost),
    look_ratio: ratio,
    foretold_whole: counts.per_look / (ratio + K * cost),
    speedup: both / f16,
    inverse: f16 / both,
    beside_q4: both / q4,
  };
}

// Return the results that the measured passes allow, for each value that decides a question about
// the three precisions.
/**
 * @param {QuantisedMessage} found
 * @returns {Record<string, Possible>}
 */
export function quantisedPossible(found) {
  const { seconds, tokens, agreed } = found;
  const [fine, coarse] = [seconds.F16, seconds.Q4_0];
  const times = [
    Math.min(...fine) / Math.max(...coarse),
    Math.max(...fine) / Math.min(...coarse),
  ].map((each) => (each * tokens.Q4_0) / tokens.F16);
  const shares = shareRange(agreed.Q4_0, tokens.F16);
  const percent = (/** @type {number} */ share) => `${Math.round(100 * share)} %`;
  return {
    q4_times: {
      values: times,
      words: `The passes allow ${times[0].toFixed(2)}× to ${times[1].toFixed(2)}×.`,
    },
    q4_share: {
      values: shares,
      words: `${agreed.Q4_0} of ${tokens.F16} places are equal, which allows ${percent(shares[0])} to ${percent(shares[1])}.`,
    },
  };
}

// Return the range of a share to two standard errors (Wilson's interval).
/**
 * @param {number} count
 * @param {number} all
 */
export function shareRange(count, all) {
  const [share, z] = [count / all, 2];
  const middle = (share + (z * z) / (2 * all)) / (1 + (z * z) / all);
  const by =
    (z * Math.sqrt((share * (1 - share)) / all + (z * z) / (4 * all * all))) / (1 + (z * z) / all);
  return [middle - by, middle + by];
}

// Return the median rates of all passes with and without drafts. The fastest pass would be
// misleading, because with many concurrent requests every pass includes waiting.
/** @param {LoadLevel} level */
export function ratesOf({ plain, draft }) {
  return { plain: median(plain), draft: median(draft) };
}

// Return whether drafts are slower by more than noise: the best pass with drafts is slower than the
// worst one without.
/** @param {LoadLevel} level */
function isSlower({ plain, draft }) {
  return Math.max(...draft) < Math.min(...plain);
}

// Return up to how many requests drafts may pay: from the largest load at which every pass with drafts
// beats every pass without, up to the last load before a loss beyond noise.
/**
 * @param {ServersMessage} found
 * @returns {Record<string, Possible>}
 */
export function serversPossible({ levels }) {
  const isFaster = (/** @type {LoadLevel} */ { plain, draft }) =>
    Math.min(...draft) > Math.max(...plain);
  const loss = levels.findIndex(isSlower);
  const open = loss < 0 ? levels : levels.slice(0, loss);
  const sure = open.findLastIndex(isFaster);
  const values = [
    sure < 0 ? 0 : open[sure].at_once,
    ...open.slice(sure + 1).map(({ at_once: count }) => count),
  ];
  const words =
    sure < 0
      ? "At no load is every pass with drafts faster than every pass without."
      : `Every pass with drafts is faster with ${open[sure].at_once} at once.`;
  const lost =
    loss < 0
      ? "At no load is every pass with drafts slower."
      : `Every pass with drafts is slower with ${levels[loss].at_once} at once.`;
  return { pays_up_to: { values, words: `${words} ${lost}` } };
}

/** @param {ServersMessage} found */
export function serversNumbers({ model, length: K, servers, compared, levels }) {
  const { prompts, same, ours, theirs } = compared;
  const gains = levels.map((level) => ratesOf(level).draft / ratesOf(level).plain);
  const loss = levels.findIndex(isSlower);
  const paying = levels.filter((_, at) => gains[at] > 1 && (loss < 0 || at < loss));
  const foreign = servers.find(({ name }) => name === "foreign");
  return {
    model,
    K,
    prompts,
    same_share: same / prompts,
    our_accepted: ours.accepted,
    ...draftNumbers(theirs),
    tokens: theirs.tokens,
    per_drafted: theirs.tokens / theirs.drafts,
    foreign_drafted: foreign?.drafted,
    refusal: foreign?.refusal,
    pays_up_to: paying.at(-1)?.at_once ?? 0,
    most: levels.at(-1)?.at_once,
    one_speedup: gains[0],
    most_speedup: gains.at(-1),
    most_inverse: 1 / (gains.at(-1) ?? NaN),
    one_acceptance: levels[0].acceptance ?? undefined,
    most_acceptance: levels.at(-1)?.acceptance ?? undefined,
  };
}
