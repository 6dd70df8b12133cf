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

  // Those of all tasks that there are prompts of, for the models of a pair.
  /**
   * @template {{ name: string }} Task
   * @param {Task[]} tasks
   * @param {{ prompts: string } | undefined} pair
   */
  tasks(tasks, pair) {
    const there = this.of(pair);
    return tasks.filter(({ name }) => name in there);
  }
}
