// The card about the run in the debugger: menu of runs, file buttons, and the last message.

import { element, option, setText, takeFile } from "../shared/dom.js";
import { engineLine } from "../shared/engine_words.js";
import { lossOf } from "../shared/loss_words.js";
import { counted, measuredWords, whole } from "../shared/number_words.js";
import { allSettings } from "../shared/settings.js";
import {
  FASTER,
  speedupScope,
  speedupText,
  speedupWord,
  verdictOf,
} from "../shared/speedup_words.js";
import { timeSentence } from "../shared/time_words.js";
import { tokenLabel } from "../shared/token_label.js";

const SHOWN_EVERY = 100; // number of rounds of an opening recording after which its progress is shown again
const LARGEST_FILE = 16e6; // bytes; the server refuses a larger file

export const RACE = ""; // menu value: the race of this page

// Return one menu group for each pair of models that runs were recorded with.
/** @param {Choice[]} recorded */
export function recordedGroups(recorded) {
  const titles = [...new Set(recorded.map(({ group }) => group ?? ""))];
  return titles.map((title) => {
    const group = element("optgroup");
    group.label = title;
    const own = recorded.filter((each) => (each.group ?? "") === title);
    group.append(...own.map((each) => option(each.name, each.title)));
    return group;
  });
}

export class RunMenu {
  /**
   * @param {Refs} refs
   * @param {Choice[]} recorded
   * @param {{ onChoose: (name: string) => void, onFile: (file: File) => void, onSave: () => void }} on
   */
  constructor(refs, recorded, { onChoose, onFile, onSave }) {
    const {
      stepTrace,
      stepOpen,
      stepFile,
      stepSave,
      step,
      stepNote,
      stepServers,
      stepSpeedup,
      stepError,
    } = refs;
    this.menu = stepTrace;
    this.note = stepNote;
    this.servers = stepServers;
    this.speedup = stepSpeedup;
    this.error = stepError;
    this.run = "";
    stepTrace.append(option(RACE, "The race of this page"), ...recordedGroups(recorded));
    stepTrace.addEventListener("change", () => onChoose(stepTrace.value));
    stepOpen.addEventListener("click", () => stepFile.click());
    stepSave.addEventListener("click", () => onSave());
    stepFile.addEventListener("change", () => this.takeFile(takeFile(stepFile), onFile));
    step.addEventListener("dragover", (/** @type {any} */ event) => event.preventDefault());
    step.addEventListener("drop", (/** @type {any} */ event) => {
      event.preventDefault();
      this.takeFile(event.dataTransfer.files[0], onFile);
    });
  }

  /**
   * @param {File | undefined} file
   * @param {(file: File) => void} onFile
   */
  takeFile(file, onFile) {
    if (file && file.size > LARGEST_FILE)
      this.fail(`A run’s file must be at most 16 MB, got ${(file.size / 1e6).toFixed(0)} MB.`);
    else if (file) onFile(file);
  }

  get title() {
    return this.menu.selectedOptions[0]?.textContent ?? "";
  }

  /**
   * @param {string} name
   * @param {string} title
   */
  add(name, title) {
    const isKnown = [...this.menu.options].some((each) => each.value === name);
    if (!isKnown) this.menu.append(option(name, title));
  }

  /** @param {string} name */
  remove(name) {
    for (const each of [...this.menu.options]) if (each.value === name) each.remove();
  }

  /** @param {string} name */
  select(name) {
    this.menu.value = name;
  }

  /** @param {string} text */
  showNote(text) {
    setText(this.note, text);
  }

  // Hide the last error when the user asks for another run.
  forgive() {
    this.error.hidden = true;
  }

  // Describe the run in the debugger. `more` is added at the end of the line.
  /** @param {Trace} trace */
  showRun(trace, more = "") {
    this.run = trace.header ? [runWords(trace), more].filter(Boolean).join(" · ") : "";
    setText(this.speedup, speedWords(trace));
    this.speedup.hidden = !this.speedup.textContent;
    this.showRunAgain();
    showServers(this.servers, trace);
  }

  // After another run failed to open, show the line about the current run again.
  showRunAgain() {
    this.showNote(this.run);
  }

  // Show how many rounds of a recording have arrived, because opening a long one takes a while.
  /**
   * @param {string} title
   * @param {number} rounds
   */
  showProgress(title, rounds) {
    if (rounds % SHOWN_EVERY === 0) this.showNote(`opening ${title}: ${rounds} rounds …`);
  }

  /** @param {string} text */
  fail(text) {
    setText(this.note, this.run);
    setText(this.error, text);
    this.error.hidden = false;
    this.error.scrollIntoView({ block: "nearest" });
  }
}

// Return the speedup over plain decoding, with a reason if there was no gain. Return "" if the run
// has no speedup.
/** @param {Trace} trace */
export function speedWords({ summary, ending }) {
  if (!summary || ending === null || summary.speedup === null) return "";
  const word = `${speedupText(summary.speedup)} ${speedupWord(summary.speedup, ending)}${speedupScope(summary)}`;
  const why = verdictOf(summary.speedup) === FASTER ? "" : ` ${timeSentence(summary)}`;
  return `Beside plain decoding: ${word}.${why}`.trim();
}

// Return the settings, the models and the size of a run in one line. A live run is listed without a
// size, because it would change too often.
/** @param {Trace} trace */
export function runWords(trace) {
  const { header, rounds, main } = trace;
  const { method, rule, draft_length: length, temperature, seed } = main.config;
  const shape = [
    `method ${method}`,
    rule === "token" ? "" : `rule ${rule}`,
    `K ${length}`,
    `temperature ${temperature}`,
    `seed ${seed}`,
  ];
  const loss = lossOf({ lossless: !rounds.some((round) => round.isTypical) }, temperature === 0);
  const models = main.draft
    ? `${header.target.name}, draft model: ${main.draft.name}`
    : header.target.name;
  const size = trace.isLive
    ? []
    : [`${counted(rounds.length, "round")}, ${counted(main.tokens.length, "token")}`];
  const measured = measuredWords(header);
  return [shape.filter(Boolean).join(", "), loss, models, ...size, ...forkWords(trace), measured]
    .filter(Boolean)
    .join(" · ");
}

// List the serving engines that took part in the race.
/**
 * @param {HTMLElement} box
 * @param {Trace} trace
 */
export function showServers(box, trace) {
  const lanes = trace.lanes.filter((lane) => lane.isEngine);
  box.replaceChildren(...lanes.map((lane) => element("p", "hint", engineLine(trace, lane))));
}

// Say what the forks of a run changed, one clause for each fork.
/** @param {Trace} trace */
function forkWords(trace) {
  const { forks, config } = trace.main;
  return forks.map((fork, index) => {
    const after = forks[index + 1]?.config ?? config;
    const changes = [
      ...changed(fork.config, after),
      ...fork.forced.map(([id, u]) => `u of ${tokenLabel(trace.text(id))} forced to ${whole(u)}`),
    ];
    return `forked before round ${fork.round + 1}: ${changes.join(", ") || "the same setting"}`;
  });
}

/**
 * @param {any} before
 * @param {any} after
 */
function changed(before, after) {
  const decoding = allSettings().filter(
    ({ name, word }) => word && valueWords(before[name]) !== valueWords(after[name]),
  );
  return decoding.map(
    ({ name, word }) => `${word} ${valueWords(before[name])} → ${valueWords(after[name])}`,
  );
}

/** @param {any} value */
function valueWords(value) {
  return Array.isArray(value) ? value.join(" ") || "usual" : String(value);
}
