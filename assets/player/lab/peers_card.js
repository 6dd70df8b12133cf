// The library's ways to decode beside ours, as pairs of bars.
// Knows the server's message of peers (specviz/ui/lab_peers.py).

import { element, option, setText } from "../dom.js";
import { Refusal } from "../step/refusal.js";
import { LabRun } from "./lab_run.js";

export class PeersCard {
  constructor(refs, { tasks }, gradio) {
    this.refs = refs;
    refs.peersTask.append(...tasks.map(({ name, title }) => option(name, title)));
    this.refusal = new Refusal(refs.peersError, { draft_length: refs.peersLength });
    this.run = new LabRun({ go: refs.peersGo, stop: refs.peersStop, state: refs.peersState }, gradio, {
      begun: () => (refs.peersLesson.hidden = true),
      message: (message) => this.take(message),
      failed: (text) => this.refusal.show(text),
    });
    refs.peersGo.addEventListener("click", () => this.start());
    refs.peersLength.addEventListener("keydown", (event) => event.key === "Enter" && this.start());
  }

  start() {
    this.refusal.clear();
    this.run.start("peers", { task: this.refs.peersTask.value, draft_length: this.refs.peersLength.value });
  }

  take(message) {
    if (message.kind === "line") this.run.tell(`${message.text} …`);
    if (message.kind === "peers") this.show(message);
    if (message.kind === "end") this.run.tell(message.reason === "done" ? "" : "stopped: only whole passes count, so nothing is kept");
  }

  show({ pairs, setting }) {
    setText(this.refs.peersSetting, setting);
    const most = Math.max(...pairs.flatMap(({ ours, theirs }) => [ours.tokens_per_second, theirs.tokens_per_second]));
    this.refs.peersResult.replaceChildren(...pairs.map((pair) => pairRow(pair, most)));
  }
}

function pairRow({ title, call, ours, theirs, ratio }, most) {
  const row = element("section", "peer");
  const head = element("h3", "", title);
  head.append(" ", element("b", "", `${ratio.toFixed(2)}×`), element("span", "hint", " ours over the library’s"));
  row.append(head, bar("this app", ours, most, "ours"), bar(call, theirs, most, "theirs"));
  return row;
}

function bar(name, row, most, className) {
  const made = element("div", `peer-bar ${className}`);
  const track = element("i");
  track.style.setProperty("--share", `${((100 * row.tokens_per_second) / most).toFixed(1)}%`);
  const words = element("span", "", `${row.tokens_per_second.toFixed(1)} tok/s`);
  made.append(element("span", "peer-name", name), track, words, element("span", "hint", facts(row)));
  return made;
}

function facts({ speedup, speedup_spread: [low, high], acceptance_rate: rate, block_efficiency: tau }) {
  const parts = [`${speedup.toFixed(2)}× our baseline (${low.toFixed(2)}–${high.toFixed(2)})`];
  if (rate !== null) parts.push(`α ${rate.toFixed(2)}`);
  if (tau !== null) parts.push(`τ ${tau.toFixed(2)}`);
  return parts.join(" · ");
}
