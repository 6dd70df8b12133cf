// One race, or one recording, at a time between this page and the server: order, place in the queue,
// messages, stop.
// Knows nothing of what a message says, but for the two kinds that end a race.
//
// Messages are numbered. They arrive in batches pushed by Gradio; where a number is missing, or
// nothing came for a while, the page looks for the rest itself.

const LOOK_MILLISECONDS = 500;
const NEXT_PART_MILLISECONDS = 40; // from one part of a recording to the next
const LAST_KINDS = new Set(["end", "error"]);
const LEFT = new URL("../../../left", import.meta.url);
const PATIENCE = 12; // failed looks before the race is given up

export class Transport {
  /**
   * @param {GradioLink} gradio
   * @param {TransportEvents} on
   */
  constructor(gradio, on) {
    this.gradio = gradio;
    this.on = on; // { accepted(), message(message), queued(ahead, running), failed(text) }
    this.ticket = null;
    this.next = this.misses = this.lastHeard = 0;
    this.isLooking = false;
    this.isPushed = true;
    this.timer = 0;
    gradio.onBatch((batch) => this.take(batch));
    window.addEventListener("pagehide", () => this.abandon());
  }

  get isBusy() {
    return this.ticket !== null;
  }

  // A race: it waits for its turn, then Gradio pushes its messages.
  // `name`: what the server calls its first step.
  /**
   * @param {string} name
   * @param {any} order
   */
  async start(name, order) {
    if (await this.begin(name, order)) this.gradio.race({ ticket: this.ticket });
  }

  // A recording: its messages are made at once, and looked for until the last is there.
  /** @param {object} recording */
  async open(recording) {
    await this.begin("open", recording);
  }

  // True once the server has taken the question.
  /**
   * @param {string} name
   * @param {object} question
   */
  async begin(name, question) {
    if (this.isBusy) return false;
    const ticket = newTicket();
    this.ticket = ticket;
    this.next = 0;
    this.misses = 0;
    this.lastHeard = performance.now();
    this.isLooking = false;
    this.isPushed = name !== "open";
    const reply = await this.ask(name, { ticket, ...question });
    if (this.ticket !== ticket) return false;
    if (!reply || reply.error) return this.fail(reply?.error ?? "The server cannot be reached.");
    this.on.accepted();
    this.timer = window.setInterval(() => this.watch(), LOOK_MILLISECONDS);
    this.look();
    return true;
  }

  async stop() {
    if (this.isBusy) await this.ask("stop", { ticket: this.ticket });
  }

  // Whatever is under way is wanted no more.
  leave() {
    if (!this.isBusy) return;
    this.stop();
    this.finish();
  }

  // The page goes: nobody has to wait for what it ran or held. A question would go with the page.
  abandon() {
    if (this.isBusy) navigator.sendBeacon(LEFT, this.ticket);
  }

  /** @param {string} batch */
  take(batch) {
    if (!batch || !this.isBusy) return;
    const { ticket, messages } = JSON.parse(batch);
    if (ticket === this.ticket) this.deliver(messages);
  }

  // Messages in order of their numbers; those that came before are skipped, a gap is looked up. Who hears one may
  // leave the run, and begin another: the rest is not for that one.
  /** @param {any[]} messages */
  deliver(messages) {
    const { ticket } = this;
    this.lastHeard = performance.now();
    for (const message of messages) {
      if (this.ticket !== ticket) return;
      if (message.seq < this.next) continue;
      if (message.seq > this.next) return void this.look();
      this.next += 1;
      if (LAST_KINDS.has(message.kind)) this.finish();
      this.on.message(message);
    }
  }

  watch() {
    if (performance.now() - this.lastHeard >= LOOK_MILLISECONDS * 0.8) this.look();
  }

  async look() {
    if (this.isLooking || !this.isBusy) return;
    const ticket = this.ticket;
    this.isLooking = true;
    const reply = await this.ask("look", { ticket, after: this.next });
    this.isLooking = false;
    if (this.ticket !== ticket) return;
    if (!reply?.state) return this.missed();
    this.misses = 0;
    if (reply.state === "waiting") this.on.queued(reply.ahead, reply.running);
    this.deliver(reply.messages.map((/** @type {string} */ text) => JSON.parse(text)));
    if (this.ticket !== ticket) return;
    if (reply.state === "unknown") this.fail("The server no longer knows this run: it was restarted.");
    else if (reply.state === "done") this.finish(), this.on.message({ kind: "end", reason: "stopped" });
    else if (!this.isPushed) window.setTimeout(() => this.look(), NEXT_PART_MILLISECONDS);
  }

  missed() {
    this.misses += 1;
    if (this.misses >= PATIENCE) this.fail("The connection to the server is lost.");
  }

  // The server's answer, an object; null where none came (Gradio then gives undefined, or throws).
  /**
   * @param {string} name
   * @param {object} question
   */
  async ask(name, question) {
    try {
      const reply = await this.gradio.server[name](question);
      return reply && typeof reply === "object" ? reply : null;
    } catch {
      return null;
    }
  }

  /** @param {string} text */
  fail(text) {
    this.finish();
    this.on.failed(text);
    return false;
  }

  finish() {
    window.clearInterval(this.timer);
    this.ticket = null;
  }
}

function newTicket() {
  const words = crypto.getRandomValues(new Uint32Array(5));
  return Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("");
}
