// A chart of Plotly as a part of a view.

import { Chart } from "./charts.js";
import { Component, html } from "./view.js";

/** @typedef {{ figure: Figure | null, label: string, theme: Theme, look: string }} ChartProps `look` names the colours and sizes of the theme */

// The element of the chart is an empty one, whose content Plotly owns. The view must put it behind
// an element of the class "chart-head", which receives the buttons that save the chart.
/** @extends {Component<ChartProps>} */
export class ChartView extends Component {
  componentDidMount() {
    this.chart = new Chart(this.box, this.props.theme);
    this.drawFigure();
  }

  /** @param {ChartProps} next */
  shouldComponentUpdate({ figure, look }) {
    return figure !== this.props.figure || look !== this.props.look;
  }

  componentDidUpdate() {
    this.drawFigure();
  }

  drawFigure() {
    const { figure } = this.props;
    if (figure) this.chart?.draw(figure);
    else this.chart?.clear();
  }

  /** @param {ChartProps} props */
  render({ label }) {
    const take = (/** @type {HTMLElement | null} */ box) => void (this.box = box);
    return html`<div ref=${take} class="chart" role="img" aria-label=${label}></div>`;
  }
}

// The part of ChartProps that follows from the theme.
/** @param {Theme} theme */
export function lookOf(theme) {
  return { theme, look: `${theme.name} ${theme.isLarge}` };
}
