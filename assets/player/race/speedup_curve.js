// The curve of the speedup as far as a replay has come (the whole one: specviz/figures/speedup.py).

// The figure with its line cut behind `tokens` of the speculative lane, and with `speedup`, that of the moment,
// as the last point. The axes stay those of the whole run.
/**
 * @param {Figure} figure
 * @param {{ tokens: number, speedup: number | null }} replayed
 * @returns {Figure}
 */
export function curveUntil(figure, { tokens, speedup }) {
  const line = figure.data.findIndex(({ customdata }) => customdata);
  const { x, y, customdata } = figure.data[line];
  const count = x.findLastIndex((/** @type {number} */ each) => each <= tokens) + 1;
  const until = (/** @type {any[]} */ values, /** @type {number | null} */ last) => [...values.slice(0, count), ...(last === null ? [] : [last])];
  const [xs, ys] = [until(x, speedup === null ? null : tokens), until(y, speedup)];
  const data = [...figure.data];
  data[line] = { ...data[line], x: xs, y: ys, customdata: customdata.slice(0, count) };
  data[line + 1] = { ...data[line + 1], x: xs.slice(-1), y: ys.slice(-1) }; // the dot at its end
  return { ...figure, data };
}
