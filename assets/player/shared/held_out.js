// The held-out prompts: texts to be continued for some models, messages for those that chat.

export class HeldOut {
  // `prompts`: kind -> task -> texts, as the server sends them.
  constructor(prompts) {
    this.prompts = prompts;
  }

  // Task -> texts, for the models of a pair.
  of(pair) {
    return this.prompts[pair?.prompts ?? "plain"];
  }
}
