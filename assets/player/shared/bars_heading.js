// A chart cannot wrap its heading and its remark, the annotations of specviz/figures/bars.py, so the
// page shows them as text above the chart and below it.

const LEGEND_PIXELS = 30; // of specviz/figures/theme.py

export function heading(figure) {
  return figure?.layout.annotations[0].text ?? "";
}

export function remark(figure) {
  return figure?.layout.annotations[1].text ?? "";
}

export function barsAlone({ data, layout }) {
  const legend = { ...layout.legend, y: 1 };
  return { data, layout: { ...layout, legend, annotations: [], margin: { ...layout.margin, t: LEGEND_PIXELS } } };
}
