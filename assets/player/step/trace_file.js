// Converts a run to the file format of the package specviz/trace_file, and a user's file to text
// for the server.

// Return the whole trace as one object. For a live run, return the part that exists.
/** @param {Trace} trace */
export function traceObject(trace) {
  const { header, lanes } = trace;
  const texts = [...trace.texts].sort(([a], [b]) => a - b);
  return {
    ...header,
    tokens: [...new Map([...header.tokens, ...texts])],
    lanes: lanes.map(laneObject),
  };
}

/** @param {Trace["lanes"][number]} lane */
function laneObject({ header, records }) {
  const [steps, arrivals] = [
    columns(header.steps, records.steps),
    columns(header.arrivals, records.arrivals),
  ];
  return { ...header, ...records, steps, arrivals };
}

// Turn a list of records into columns, one for each key of `empty`. `empty` is the lane's part of
// the header, which names every column.
/**
 * @param {object} empty
 * @param {Record<string, any>[]} records
 */
function columns(empty, records) {
  return Object.fromEntries(
    Object.keys(empty).map((key) => [key, records.map((each) => each[key])]),
  );
}

/** @param {Trace} trace */
export async function traceBlob(trace) {
  const text = new Blob([JSON.stringify(traceObject(trace))]);
  return new Response(text.stream().pipeThrough(new CompressionStream("gzip"))).blob();
}

/** @param {Trace} trace */
export function nameOf({ main }) {
  const { method, temperature } = main.config;
  return `specviz-${method}-t${temperature}.json.gz`;
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {string} text */
export function blobOfBase64(text) {
  return new Blob([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))]);
}

// Return the bytes of a file in base64, so that they can be sent as JSON.
/** @returns {Promise<string>} */
/** @param {Blob} blob */
export function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      const address = String(reader.result);
      resolve(address.slice(address.indexOf(",") + 1));
    };
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
