// Gradio's loading screen counts its seconds in a loop of animation frames which goes on when the
// screen has gone: sixty frames a second, for as long as the page is open.

/**
 * End that loop. It asks through a reference to requestAnimationFrame that it took before anyone
 * else could: the browser numbers a frame of its that the window was not asked for. Where there are
 * several of those, such as a loop of a browser's extension, none is ended.
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
      const between = Array.from({ length: last - first }, (_, at) => first + at);
      const left = between.filter((id) => !known.has(id));
      if (left.length === 1) cancelAnimationFrame(left[0]);
    });
  });
}
