// Gradio's loading screen counts its seconds in a loop of animation frames which goes on when the
// screen has gone: sixty frames a second, for as long as the page is open.

/**
 * End that loop. It asks through a reference to requestAnimationFrame that it took before anyone
 * else could; a frame that was asked for between two others, but not through the window, is its.
 */
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
      for (let id = first; id < last; id += 1) if (!known.has(id)) cancelAnimationFrame(id);
    });
  });
}
