// A view that contains a Plotly chart.

import { Chart } from "./charts.js";
import { Component, html } from "./view.js";

/** @typedef {{ figure: Figure | null, label: string, theme: Theme, look: string }} ChartProps `look` names the colours and sizes of the theme */

// The view makes an empty element, and Plotly draws the chart into it. A parent view must put this
// element after an element of the class "chart-head", which receives the buttons that save the
// chart.
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

// Return those properties of a ChartView that depend on the theme.
/** @param {Theme} theme */
export function lookOf(theme) {
  return { theme, look: `${theme.name} ${theme.isLarge}` };
}
