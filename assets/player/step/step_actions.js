// What the keys do on the step page, by the names that keyboard.js gives them.
// Knows the page's cursor, its play and its stops.

export function stepActions(page) {
  const { cursor, playback, stops, refs } = page;
  const still = (action) => (...given) => page.still(() => action(...given));
  return {
    stop: still((by) => cursor.step(by)),
    round: still((by) => cursor.stepRound(by)),
    first: still(() => cursor.toFirst()),
    last: still(() => cursor.toLast()),
    phase: still((by) => cursor.stepPhase(by)),
    match: still((by) => stops.step(by)),
    follow: still(() => page.trace?.isLive && cursor.setFollowing(true)),
    play: () => playback.toggle(),
    goTo: () => refs.stepGo.select(),
  };
}
