// A run as the file that the package specviz/trace_file reads, made in the browser; and a person's file as text
// for the server. Knows the run's records; asks nobody.

const STEP_KEYS = ["i", "id", "prob", "margin", "seconds"];

// The whole trace as one object; a live run gives what there is of it.
export function traceObject(trace) {
  const { header, records } = trace;
  const steps = Object.fromEntries(STEP_KEYS.map((key) => [key, records.steps.map((step) => step[key])]));
  const texts = [...trace.texts].sort(([a], [b]) => a - b);
  const known = new Map([...header.tokens.id.map((id, at) => [id, header.tokens.text[at]]), ...texts]);
  return {
    ...header,
    tokens: { id: [...known.keys()], text: [...known.values()] },
    prefill: records.prefill,
    rounds: trace.rounds.map((round) => round.record),
    finish: records.finish,
    baseline: { prefill: records.baselinePrefill, steps, finish: records.baselineFinish },
  };
}

export async function traceBlob(trace) {
  const text = new Blob([JSON.stringify(traceObject(trace))]);
  return new Response(text.stream().pipeThrough(new CompressionStream("gzip"))).blob();
}

export function nameOf({ header }) {
  const { method, temperature } = header.config;
  return `specviz-${method}-t${temperature}.json.gz`;
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function blobOfBase64(text) {
  return new Blob([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))]);
}

// The bytes of a file in base64, as JSON can carry them.
export function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
