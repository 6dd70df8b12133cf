// A chart cannot wrap its heading, the first annotation of specviz/figures/bars.py, so the page
// shows it as text above the chart.

export function heading(figure) {
  return figure?.layout.annotations[0].text ?? "";
}

export function withoutHeading({ data, layout }) {
  const annotations = layout.annotations.slice(1);
  return { data, layout: { ...layout, annotations, margin: { ...layout.margin, t: 26 } } };
}
