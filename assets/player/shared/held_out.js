// The held-out prompts. Base models get texts to continue, and chat models get messages.

export class HeldOut {
  // `prompts` maps a type of prompt to tasks, and each task to its texts, as the server sends them.
  /** @param {Record<string, Record<string, string[]>>} prompts */
  constructor(prompts) {
    this.prompts = prompts;
  }

  // Return the prompts for the models of a pair, as a map from task to texts.
  /** @param {{ prompts: string } | undefined} pair */
  of(pair) {
    return this.prompts[pair?.prompts ?? "plain"];
  }

  // Return the tasks that have prompts for the models of a pair.
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
