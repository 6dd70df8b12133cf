// One ranking of an acceptance profile as tabs and a table: a group takes a row of numbers and a row
// of examples. Knows its groups; opens nothing.

import { element } from "../shared/dom.js";
import { tokenLabel } from "../shared/tooltip.js";

const MOST_ROWS = 14;
const SHOWN_EXAMPLES = 3;
// heading, and what a group shows below it
const NUMBERS = [
  ["ms lost", (group) => group.milliseconds_lost.toFixed(group.milliseconds_lost < 10 ? 1 : 0)],
  ["tokens lost", (group) => group.tokens_lost],
  ["rejections", (group) => group.rejections],
  ["examined", (group) => group.examined],
  ["accepted", (group) => `${Math.round(100 * group.rate)} %`],
];

export function dimensionTabs(titles) {
  return Object.entries(titles).map(([name, title]) => {
    const tab = element("button", "segment", title);
    tab.type = "button";
    tab.role = "tab";
    tab.dataset.dimension = name;
    return tab;
  });
}

// The parts of the table. Roles are said, for a narrow screen lays rows out as blocks.
export function rankingRows(groups) {
  const head = part("thead", "rowgroup", "", row("", ["where", "share of the loss", ...NUMBERS.map(([name]) => name)].map(heading)));
  return [head, ...groups.slice(0, MOST_ROWS).map(body)];
}

function body(group) {
  const numbers = NUMBERS.map(([name, value]) => {
    const made = cell("number", String(value(group)));
    made.dataset.label = name;
    return made;
  });
  const made = part("tbody", "rowgroup", "", row("group", [cell("where", group.name), bar(group.share), ...numbers]));
  if (group.examples.length) made.append(row("examples", [examples(group)]));
  return made;
}

function bar(share) {
  const made = cell("share");
  const track = element("i");
  track.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
  made.append(track, element("span", "", `${Math.round(100 * share)} %`));
  return made;
}

function examples(group) {
  const made = cell("", "drafted → wanted: ");
  made.colSpan = 2 + NUMBERS.length;
  for (const { trace, round, node, drafted, wanted } of group.examples.slice(0, SHOWN_EXAMPLES)) {
    const button = element("button", "chip", `${tokenLabel(drafted)} → ${tokenLabel(wanted)}`);
    button.type = "button";
    button.title = `prompt ${trace + 1}, round ${round + 1}: open it here`;
    Object.assign(button.dataset, { trace, round, node });
    made.append(button);
  }
  return made;
}

function heading(text) {
  const made = element("th", "", text);
  made.role = "columnheader";
  return made;
}

function cell(className, text = "") {
  const made = element("td", className, text);
  made.role = "cell";
  return made;
}

function row(className, cells) {
  return part("tr", "row", className, ...cells);
}

function part(tag, role, className, ...children) {
  const made = element(tag, className);
  made.role = role;
  made.append(...children);
  return made;
}
