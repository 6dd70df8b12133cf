// One ranking of an acceptance profile as tabs and table rows. Knows its groups; opens nothing.

import { element } from "../dom.js";
import { tokenLabel } from "../tooltip.js";

const MOST_ROWS = 14;
const COLUMNS = ["where", "examined", "accepted", "rejections", "tokens lost", "ms lost", "share of the loss", "examples: drafted → wanted"];

export function dimensionTabs(titles) {
  return Object.entries(titles).map(([name, title]) => {
    const tab = element("button", "segment", title);
    tab.type = "button";
    tab.role = "tab";
    tab.dataset.dimension = name;
    return tab;
  });
}

export function rankingRows(groups) {
  const head = element("tr");
  head.append(...COLUMNS.map((name) => element("th", "", name)));
  return [head, ...groups.slice(0, MOST_ROWS).map(row)];
}

function row(group) {
  const made = element("tr");
  const numbers = [group.examined, `${Math.round(100 * group.rate)} %`, group.rejections, group.tokens_lost, group.milliseconds_lost.toFixed(0)];
  made.append(element("td", "", group.name), ...numbers.map((value) => element("td", "number", String(value))));
  made.append(bar(group.share), examples(group));
  return made;
}

function bar(share) {
  const cell = element("td", "share");
  const fill = element("i");
  fill.style.width = `${(100 * share).toFixed(1)}%`;
  cell.append(fill, element("span", "", `${Math.round(100 * share)} %`));
  return cell;
}

function examples(group) {
  const cell = element("td", "examples");
  for (const { trace, round, node, drafted, wanted } of group.examples.slice(0, 3)) {
    const button = element("button", "chip", `${tokenLabel(drafted)} → ${tokenLabel(wanted)}`);
    button.type = "button";
    button.title = `prompt ${trace + 1}, round ${round + 1}: open it here`;
    Object.assign(button.dataset, { trace, round, node });
    cell.append(button);
  }
  return cell;
}
