// The card "Where acceptance is lost". The server decodes many prompts and ranks the rejections. A
// click on an example opens its run in the debugger.

import { endWords, waitingWords } from "../shared/number_words.js";
import { element, setText, takeFile } from "../shared/dom.js";
import { tokenLabel } from "../shared/token_label.js";
import { Transport } from "../shared/transport.js";
import { FieldErrors } from "../shared/field_errors.js";
import { Menu } from "../shared/menu.js";

const OWN_FILE = "file"; // menu value: prompts from the user's own file

export class ProfileCard {
  // `form()` returns the settings of the race page. `onExample(data, title, round, node)` opens a
  // run in the debugger.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {HeldOut} heldOut
   * @param {GradioLink} gradio
   * @param {{ form: () => any, onExample: (...example: any[]) => void }} on
   */
  constructor(refs, { tasks, pairs, methods }, heldOut, gradio, { form, onExample }) {
    this.refs = refs;
    this.tasks = tasks;
    this.heldOut = heldOut;
    this.pairs = pairs;
    this.methods = methods;
    this.form = form;
    this.onExample = onExample;
    this.examples = new Map(); // the recorded runs of the examples, keyed by the number of the prompt
    /** @type {any} the profile as the server measured it, null before */
    this.profile = null;
    this.errors = new FieldErrors(refs.profile, { count: refs.profileCount });
    this.taskMenu = new Menu(refs.profileTask, false);
    this.transport = new Transport(gradio, {
      accepted: () => this.begun(),
      message: (message) => this.take(message),
      queued: (...ahead) => this.showState(waitingWords(...ahead)),
      failed: (text) => this.failed(text),
    });
    refs.profileGo.addEventListener("click", () => this.go());
    refs.profileCount.addEventListener(
      "keydown",
      (/** @type {any} */ event) => event.key === "Enter" && this.go(),
    );
    refs.profileStop.addEventListener("click", () => this.transport.stop());
    refs.profileFile.addEventListener("change", () => this.goWithFile());
    refs.profileTable.addEventListener("click", (/** @type {any} */ event) => this.open(event));
    refs.profileDimensions.addEventListener("click", (/** @type {any} */ event) =>
      this.turn(event),
    );
  }

  // Show the settings that the next profile would use, and list the tasks that the chosen models
  // have held-out prompts for.
  showSetting() {
    const order = this.form();
    const there = this.heldOut.tasks(
      this.tasks,
      this.pairs.find(({ name }) => name === order.pair),
    );
    const held = there.map(({ name, title }) => ({ name, title: `${title}: held-out prompts` }));
    this.taskMenu.fill([...held, { name: OWN_FILE, title: "a file of your own …" }]);
    const pair = order.target
      ? `${order.target} and ${order.draft || "no draft"}`
      : titleOf(this.pairs, order.pair);
    setText(
      this.refs.profileSetting,
      `Not of the run above: it decodes with the setting of the race page, ${this.words({ ...order, pair })}`,
    );
  }

  /** @param {Record<string, any>} form */
  words({ pair, method, draft_length: length, temperature, max_new_tokens: tokens }) {
    const parts = [
      pair,
      titleOf(this.methods, method),
      `K ${length}`,
      `temperature ${temperature}`,
      `${tokens} tokens a prompt`,
    ];
    return parts.join(" · ");
  }

  go() {
    const { profileTask, profileCount, profileFile } = this.refs;
    if (profileTask.value === OWN_FILE) return profileFile.click();
    this.ask({ task: profileTask.value, count: profileCount.value });
  }

  async goWithFile() {
    const file = takeFile(this.refs.profileFile);
    if (file) this.ask({ name: file.name, text: await file.text() });
  }

  /** @param {object} prompts */
  async ask(prompts) {
    if (this.transport.isBusy) return;
    this.errors.clear();
    await this.transport.start("profile", { form: this.form(), ...prompts });
  }

  begun() {
    this.examples = new Map();
    this.showWarning("");
    this.setBusy(true);
    this.showState("starting …");
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    if (message.kind === "warning") this.showWarning(message.text);
    if (message.kind === "loading") this.showState(`loading ${message.pair} …`);
    if (message.kind === "progress")
      this.showState(
        `prompt ${Math.min(message.done + 1, message.prompts)} of ${message.prompts}: ${message.tokens} tokens so far`,
      );
    if (message.kind === "profile") this.show(message);
    if (message.kind === "example") this.examples.set(message.index, message.data);
    if (message.kind === "end") this.ended(endWords(message));
  }

  // `note` says why the measurement ended, "" if it is complete.
  /** @param {string} note */
  ended(note) {
    this.setBusy(false);
    if (note)
      this.showState([this.refs.profileState.textContent, note].filter(Boolean).join(" · "));
  }

  /** @param {Reply} message */
  show({ profile, titles, setting }) {
    const { refs } = this;
    this.profile = profile;
    const { prompts, rounds, acceptance_rate: rate, block_efficiency: tau } = profile;
    const spent = (/** @type {number} */ lost, /** @type {number} */ seconds) =>
      `${lost.toFixed(0)} of ${(1000 * seconds).toFixed(0)} ms`;
    this.showState(
      rounds ? `${prompts} prompts, ${rounds} rounds` : "Nothing was decoded before the stop.",
    );
    refs.profileResult.hidden = !rounds;
    if (!rounds) return;
    const facts = [
      ["acceptance rate α", rate === null ? "–" : rate.toFixed(2)],
      ["tokens per target forward τ", tau === null ? "–" : tau.toFixed(2)],
      ["rejections", String(profile.rejections)],
      ["time lost to them", spent(profile.milliseconds_lost, profile.typical_seconds)],
    ];
    setText(refs.profileRan, `Decoded with: ${this.words(setting)}`);
    setText(
      refs.profileMeasured,
      `By the rounds’ own times it is ${spent(profile.milliseconds_lost_as_measured, profile.seconds)}.`,
    );
    refs.profileNumbers.replaceChildren(...facts.map(([term, value]) => fact(term, value)));
    refs.profileDimensions.replaceChildren(...dimensionTabs(titles));
    this.draw(Object.keys(titles)[0]);
  }

  /** @param {any} event */
  turn(event) {
    const tab = event.target.closest("[data-dimension]");
    if (tab) this.draw(tab.dataset.dimension);
  }

  /** @param {string} dimension */
  draw(dimension) {
    for (const tab of this.refs.profileDimensions.children) {
      tab.setAttribute("aria-selected", String(tab.dataset.dimension === dimension));
    }
    this.refs.profileTable.replaceChildren(...rankingRows(this.profile.rankings[dimension]));
  }

  /** @param {any} event */
  open(event) {
    const button = event.target.closest("button[data-trace]");
    if (!button) return;
    const { trace, round, node } = button.dataset;
    const data = this.examples.get(Number(trace));
    if (!data) return this.failed("That run is still on its way: try again in a moment.");
    this.onExample(data, `prompt ${Number(trace) + 1} of the profile`, Number(round), Number(node));
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.refs.profileGo.hidden = isBusy;
    this.refs.profileStop.hidden = !isBusy;
  }

  /** @param {string} text */
  showWarning(text) {
    this.refs.profileWarning.hidden = !text;
    setText(this.refs.profileWarning, text);
  }

  /** @param {string} text */
  showState(text) {
    setText(this.refs.profileState, text);
  }

  /** @param {string} text */
  failed(text) {
    this.setBusy(this.transport.isBusy);
    this.showState("");
    this.errors.report(text);
  }
}

/**
 * @param {Choice[]} known
 * @param {string} name
 */
function titleOf(known, name) {
  return known.find((each) => each.name === name)?.title ?? name;
}

/**
 * @param {string} term
 * @param {string} value
 */
function fact(term, value) {
  const made = element("div");
  made.append(element("dt", "", term), element("dd", "", value));
  return made;
}

// One ranking of an acceptance profile as tabs and a table. Each group has one line of numbers and
// one line of examples.
const MOST_ROWS = 14;
const SHOWN_EXAMPLES = 3;
// pairs of a column heading and a function from a group to its value
/** @type {[string, (group: any) => string | number][]} */
const NUMBERS = [
  ["ms lost", (group) => group.milliseconds_lost.toFixed(group.milliseconds_lost < 10 ? 1 : 0)],
  ["tokens lost", (group) => group.tokens_lost],
  ["rejections", (group) => group.rejections],
  ["examined", (group) => group.examined],
  ["accepted", (group) => `${Math.round(100 * group.rate)} %`],
];

/** @param {Record<string, string>} titles */
function dimensionTabs(titles) {
  return Object.entries(titles).map(([name, title]) => {
    const tab = element("button", "segment", title);
    tab.type = "button";
    tab.role = "tab";
    tab.dataset.dimension = name;
    return tab;
  });
}

// The parts of the table. Each part has its ARIA role in the HTML, because a narrow screen shows
// table rows as blocks.
/** @param {any[]} groups */
function rankingRows(groups) {
  const head = part(
    "thead",
    "rowgroup",
    "",
    row("", ["where", "share of the loss", ...NUMBERS.map(([name]) => name)].map(heading)),
  );
  return [head, ...groups.slice(0, MOST_ROWS).map(body)];
}

/** @param {any} group */
function body(group) {
  const numbers = NUMBERS.map(([name, value]) => {
    const made = cell("number", String(value(group)));
    made.dataset.label = name;
    return made;
  });
  const made = part(
    "tbody",
    "rowgroup",
    "",
    row("group", [cell("where", group.name), bar(group.share), ...numbers]),
  );
  if (group.examples.length) made.append(row("examples", [examples(group)]));
  return made;
}

/** @param {number} share */
function bar(share) {
  const made = cell("share");
  const track = element("i");
  track.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
  made.append(track, element("span", "", `${Math.round(100 * share)} %`));
  return made;
}

/** @param {any} group */
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

/** @param {string} text */
function heading(text) {
  const made = element("th", "", text);
  made.role = "columnheader";
  return made;
}

/** @param {string} className */
function cell(className, text = "") {
  const made = element("td", className, text);
  made.role = "cell";
  return made;
}

/**
 * @param {string} className
 * @param {HTMLElement[]} cells
 */
function row(className, cells) {
  return part("tr", "row", className, ...cells);
}

/**
 * @param {keyof HTMLElementTagNameMap} tag
 * @param {string} role
 * @param {string} className
 * @param {...(string | Node)} children
 */
function part(tag, role, className, ...children) {
  const made = element(tag, className);
  made.role = role;
  made.append(...children);
  return made;
}
