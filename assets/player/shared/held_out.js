// The held-out prompts: texts to be continued for some models, messages for those that chat.

export class HeldOut {
  // `prompts`: kind -> task -> texts, as the server sends them.
  /** @param {Record<string, Record<string, string[]>>} prompts */
  constructor(prompts) {
    this.prompts = prompts;
  }

  // Task -> texts, for the models of a pair.
  /** @param {{ prompts: string } | undefined} pair */
  of(pair) {
    return this.prompts[pair?.prompts ?? "plain"];
  }
}
