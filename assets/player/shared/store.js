// The state of a page, and the only way to change it. The state is one plain value. An action is a
// pure function that returns the next state; nobody changes a state in place.

import { Frame } from "./frame.js";

/** @template State */
export class Store {
  // `draw` shows a state. It is called at most once per animation frame.
  /**
   * @param {State} state
   * @param {(state: State) => void} draw
   */
  constructor(state, draw) {
    this.state = state;
    this.drawn = draw;
    this.frame = new Frame(() => this.draw());
  }

  // Replace the state by the one that the action returns, and ask for a drawing.
  /**
   * @template {any[]} Given
   * @param {(state: State, ...given: Given) => State} action
   * @param {Given} given
   */
  act(action, ...given) {
    const next = action(this.state, ...given);
    if (next === this.state) return;
    this.state = next;
    this.frame.ask();
  }

  // Draw now, because the caller needs the elements of the new state, for example to focus one.
  draw() {
    this.drawn(this.state);
  }
}
