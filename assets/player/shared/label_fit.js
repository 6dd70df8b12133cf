// Labels of a chart cut to the room that they have at its present width.
// Knows a text trace whose meta.room gives each label's room in units of the x-axis; texts come as
// the server escaped them (& < >), and stay so.

const CHARACTER = 0.62; // of the font size, in the chart's monospace

export function fitLabels(trace, { width, margin, xaxis }) {
  const [from, to] = xaxis.range;
  const unit = (width - margin.l - margin.r) / (to - from);
  const size = trace.textfont.size * CHARACTER;
  trace.text = trace.text.map((text, index) => cut(text, Math.floor((trace.meta.room[index] * unit) / size)));
}

// At least one character and the mark that there is more.
export function cut(text, most) {
  const characters = text.match(/&(?:amp|lt|gt);|[^]/gu) ?? [];
  if (characters.length <= Math.max(2, most)) return text;
  return `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}
