// A few rows of the table of settings, as the server sends them.

import { takeSettings } from "../../assets/player/shared/settings.js";

const PLAIN = { part: "sampling", bounds: null, off: null, menu: "", word: "" };
const whole = (low, high) => ({ low, high, is_whole: true });

const ROWS = [
  {
    ...PLAIN,
    name: "pair",
    title: "Models",
    key: "pair",
    part: "models",
    default: "bundled",
    menu: "pairs",
  },
  {
    ...PLAIN,
    name: "method",
    title: "Method",
    key: "method",
    part: "method",
    default: "draft-model",
    menu: "methods",
  },
  {
    ...PLAIN,
    name: "drawing",
    title: "Drawing of siblings",
    key: "drawing",
    part: "method",
    default: "best",
    menu: "drawings",
  },
  {
    ...PLAIN,
    name: "rule",
    title: "Verification rule",
    key: "rule",
    part: "method",
    default: "token",
    menu: "rules",
  },
  {
    ...PLAIN,
    name: "length_policy",
    title: "Length policy",
    key: "length",
    part: "method",
    default: "fixed",
    menu: "length_policies",
  },
  {
    ...PLAIN,
    name: "draft_length",
    title: "Draft length",
    key: "k",
    part: "method",
    default: "4",
    bounds: whole(1, 32),
  },
  {
    ...PLAIN,
    name: "temperature",
    title: "Temperature",
    key: "temperature",
    default: "0.8",
    bounds: { low: 0, high: 2, is_whole: false, least: 0.001 },
  },
  {
    ...PLAIN,
    name: "top_k",
    title: "Top-k",
    key: "top-k",
    word: "top-k",
    default: "0",
    bounds: whole(0, 1000000),
    off: 0,
  },
  {
    ...PLAIN,
    name: "top_p",
    title: "Top-p",
    key: "top-p",
    word: "top-p",
    default: "1",
    off: 1,
    bounds: { low: 0, high: 1, is_whole: false, excludes_low: true },
  },
  { ...PLAIN, name: "task", title: "Task", key: "task", part: "prompt", default: "code" },
];

export function takeExampleSettings() {
  takeSettings(ROWS);
}
