// One race, or one recording, at a time between this page and the server: order, place in the queue,
// messages, stop.
// Knows nothing of what a message says, but for the two kinds that end a race.
//
// The page asks again and again; the server answers once there is something new. So a page that is gone or
// asleep is known by its silence.

const MISSED_MILLISECONDS = 500; // until the next try where no answer came
const LAST_KINDS = new Set(["end", "error"]);
const LEFT = new URL("../../../left", import.meta.url);
const PATIENCE = 12; // failed tries before the race is given up

export class Transport {
  /**
   * @param {GradioLink} gradio
   * @param {TransportEvents} on
   */
  constructor(gradio, on) {
    this.gradio = gradio;
    this.on = on; // { accepted(), message(message), queued(ahead, running), failed(text), company?(pages, beside) }
    this.ticket = null;
    this.next = this.misses = 0;
    window.addEventListener("pagehide", () => this.abandon());
  }

  get isBusy() {
    return this.ticket !== null;
  }

  // An order, checked and given its place before this is over; true where it was. `name`: what the server calls it.
  /**
   * @param {string} name
   * @param {any} order
   */
  async start(name, order) {
    if (this.isBusy) return false;
    const ticket = newTicket();
    this.ticket = ticket;
    this.next = 0;
    this.misses = 0;
    const reply = await this.ask(name, { ticket, ...order });
    if (this.ticket !== ticket) return false;
    if (!reply || reply.error) return this.fail(reply?.error ?? "The server cannot be reached.");
    this.on.accepted();
    this.follow(ticket);
    return true;
  }

  // A recording: it waits for nobody.
  /** @param {object} recording */
  async open(recording) {
    await this.start("open", recording);
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

  // Everything that the run says, as long as it is wanted.
  /** @param {string} ticket */
  async follow(ticket) {
    while (this.ticket === ticket) {
      const reply = await this.ask("hear", { ticket, after: this.next });
      if (this.ticket !== ticket) return;
      if (reply?.state) this.heard(reply);
      else await this.missed();
    }
  }

  /** @param {Reply} reply */
  heard({ state, messages, ahead, running, pages, beside }) {
    this.misses = 0;
    if (state === "waiting") this.on.queued(ahead, running);
    else if (state === "running") this.on.company?.(pages, beside);
    if (!this.deliver(messages)) return;
    if (state === "unknown") this.fail("The server no longer knows this run: it was restarted, or this page was away for too long. What has come stays; start again.");
    else if (state === "done") this.finish(), this.on.message({ kind: "end", reason: "stopped" });
  }

  // Messages in order. Who hears one may leave the run, and begin another: the rest is not for that one; false then,
  // and after the last one.
  /** @param {string[]} messages */
  deliver(messages) {
    const { ticket } = this;
    for (const text of messages) {
      const message = JSON.parse(text);
      this.next += 1;
      if (LAST_KINDS.has(message.kind)) this.finish();
      this.on.message(message);
      if (this.ticket !== ticket) return false;
    }
    return true;
  }

  async missed() {
    this.misses += 1;
    if (this.misses >= PATIENCE) this.fail("The connection to the server is lost. What has come stays; start again once the server is back.");
    else await new Promise((again) => window.setTimeout(again, MISSED_MILLISECONDS));
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
    this.ticket = null;
  }
}

function newTicket() {
  const words = crypto.getRandomValues(new Uint32Array(5));
  return Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("");
}
