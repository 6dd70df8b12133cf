// The server names settings as its code does; a person knows them by the words on the form.
// Knows both names; a value that a person typed, behind "got", stays as it is.

const LABELS = {
  prompt: "Prompt",
  task: "Task",
  pair: "Models",
  target: "Target",
  draft: "Draft",
  method: "Method",
  draft_length: "Draft length",
  branching: "Branching",
  tree_kind: "Siblings and rule",
  temperature: "Temperature",
  top_k: "Top-k",
  top_p: "Top-p",
  seed: "Seed",
  max_new_tokens: "New tokens",
  device: "Device",
  dtype: "Precision",
  prompts: "Prompts",
  repeats: "Repeats",
  batch_size: "Batch size",
  "batch-size": "Batch size",
  seconds: "Seconds",
  axis: "Vary",
};

// The setting that a sentence of the server is about, by the server's name of it.
export function settingNamed(sentence) {
  return sentence.split(/[^a-z_]/, 1)[0];
}

// The first word of a sentence may be any setting; further on, plain words are only words. `options`
// are those of the method: {name, title}.
export function labelled(sentence, options = []) {
  const titles = Object.fromEntries(options.map(({ name, title }) => [name, title]));
  const labels = { ...titles, ...LABELS };
  const end = sentence.indexOf(", got ");
  const [rule, rest] = end < 0 ? [sentence, ""] : [sentence.slice(0, end), sentence.slice(end)];
  const first = rule.replace(/^[a-z_-]+(?= )/, (name) => labels[name] ?? name);
  return first.replace(/\b[a-z]+_[a-z_]+\b/g, (name) => labels[name] ?? name) + rest;
}
