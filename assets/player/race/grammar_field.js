// The field of the grammar, with buttons that fill in an example and a prompt that suits it.

import { element, setText } from "../shared/dom.js";

export class GrammarField {
  /**
   * @param {Refs} refs
   * @param {GrammarExample[]} examples
   * @param {(prompt: string) => void} ask
   */
  constructor(refs, examples, ask) {
    this.refs = refs;
    refs.grammarExamples.append(
      ...examples.map((each) => {
        const made = element("button", "chip", each.title);
        made.setAttribute("type", "button");
        made.addEventListener("click", () => {
          refs.grammar.value = each.grammar;
          refs.draftForced.checked = true;
          ask(each.prompt);
        });
        return made;
      }),
    );
  }

  // The grammar in a few words for the folded part of the form.
  get words() {
    const { grammar, draftForced } = this.refs;
    if (!grammar.value.trim()) return [];
    return [draftForced.checked ? "grammar, forced tokens drafted" : "grammar"];
  }

  refresh() {
    const { grammar, draftForced, grammarKind } = this.refs;
    const text = grammar.value.trim();
    draftForced.disabled = !text;
    const kind = text.startsWith("{") ? "Read as a JSON schema." : "Read as a regular expression.";
    setText(grammarKind, text ? kind : "");
    grammarKind.hidden = !text;
  }
}
