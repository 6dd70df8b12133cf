// Stops a loop that Gradio's loading screen leaves behind. The loading screen counts seconds in a
// loop of animation frames, and that loop would run sixty times per second as long as the page is
// open.

/**
 * End the loop of Gradio's loading screen. That loop calls its own reference to
 * requestAnimationFrame, so the wrapper below does not see its requests. The browser numbers all
 * requests, so a number that the wrapper did not see belongs to the loop. If there are several such
 * numbers, for example because of a browser extension, no loop is ended.
 * */
export function endLeftTimer() {
  const ask = window.requestAnimationFrame;
  const known = new Set();
  window.requestAnimationFrame = (draw) => {
    const id = ask.call(window, draw);
    known.add(id);
    return id;
  };
  const marker = () => window.requestAnimationFrame(() => {});
  window.requestAnimationFrame(() => {
    const first = marker();
    window.requestAnimationFrame(() => {
      const last = marker();
      window.requestAnimationFrame = ask;
      const between = Array.from({ length: last - first }, (_, at) => first + at);
      const left = between.filter((id) => !known.has(id));
      if (left.length === 1) cancelAnimationFrame(left[0]);
    });
  });
}
