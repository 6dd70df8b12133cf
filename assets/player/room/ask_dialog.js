// The dialog of a question to a class of students, over the whole screen. Only the end of the
// question closes it, because closing it would reveal the hidden parts of the page.

import { Component, html, render } from "../shared/view.js";
import { askView, canVote, TITLE } from "./ask_view.js";

/**
 * @typedef {import("./ask_view.js").Asked} Asked
 * @typedef {import("./ask_view.js").AskEvents} AskEvents
 * @typedef {{ asked: Asked | null, on: AskEvents }} AskProps `asked` is null if no question is asked
 */

/** @type {Record<string, string>} */
const KEYS = { a: "accept", r: "reject" };
const GO_ON = ["PageDown", "ArrowRight", "Escape"];

// Return a function that shows a question, or none, in an element at the end of `root`.
/**
 * @param {HTMLElement} root
 * @param {AskEvents} on
 */
export function askDialog(root, on) {
  const host = document.createElement("div");
  root.append(host);
  return (/** @type {Asked | null} */ asked) =>
    render(html`<${AskDialog} asked=${asked} on=${on} />`, host);
}

/** @extends {Component<AskProps>} */
class AskDialog extends Component {
  componentDidMount() {
    // The document listens, so that the keys work whichever element has the focus.
    document.addEventListener("keydown", (event) => this.pressed(event), true);
    this.shown("");
  }

  /** @param {AskProps} before */
  componentDidUpdate({ asked }) {
    this.shown(asked ? stageOf(asked) : "");
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const { asked, on } = this.props;
    if (!asked || event.ctrlKey || event.metaKey || event.altKey) return;
    if (asked.isTeacher && asked.poll.revealed && GO_ON.includes(event.key))
      return (event.preventDefault(), on.close());
    const choice = KEYS[event.key.toLowerCase()];
    if (choice && canVote(asked)) on.vote(choice);
  }

  // Open or close the dialog. At a new stage of the question, move the focus to the title or the
  // teacher's first button, but not to an answer, because the focus would highlight that answer.
  // Scroll to the end of a long text, where the drafted token is.
  /** @param {string} stage the stage that was shown before, or "" */
  shown(stage) {
    const { asked } = this.props;
    const dialog = /** @type {HTMLDialogElement} */ (this.dialog);
    if (!asked) return dialog.close();
    if (!dialog.open) dialog.showModal();
    const text = /** @type {HTMLElement} */ (dialog.querySelector(".room-text"));
    if (stage !== stageOf(asked)) {
      text.scrollTop = text.scrollHeight;
      const goal = dialog.querySelector(asked.isTeacher ? "button" : `#${TITLE}`);
      /** @type {HTMLElement} */ (goal).focus({ preventScroll: true });
    }
    fade(text);
  }

  render(/** @type {AskProps} */ { asked, on }) {
    return html`
      <dialog class="room-dialog room-ask" aria-labelledby=${TITLE} closedby="none"
        ref=${(/** @type {HTMLDialogElement | null} */ dialog) => void (this.dialog = dialog)}
        onCancel=${(/** @type {Event} */ event) => event.preventDefault()}
        onClose=${() => this.props.asked && this.dialog?.showModal()}
        onScrollCapture=${(/** @type {any} */ { target }) => target.matches(".room-text") && fade(target)}>
        ${asked && askView(asked, on)}
      </dialog>
    `;
  }
}

// The question's stages: before a hint, with a hint, and with the result.
/** @param {Asked} asked */
function stageOf({ poll: { number, revealed, hint } }) {
  return `${number} ${revealed} ${hint !== null}`;
}

// Store how far the text is scrolled in a CSS variable. With it, the style sheet fades out the
// upper edge of the text.
/** @param {HTMLElement} text */
function fade(text) {
  text.style.setProperty("--above", `${text.scrollTop}px`);
}
