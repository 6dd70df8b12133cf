// The connection between this page and the server for one run or recording at a time: the request,
// its position in the queue, its messages, and its stop. The page polls: it asks again and again,
// and the server answers once there is something new. If a page stops asking, the server knows that
// it is closed or asleep. This class passes all messages on, and interprets only the two kinds that
// end a run.

const MISSED_MILLISECONDS = 500; // pause before the next try after a failed one
const LAST_KINDS = new Set(["end", "error"]);
const LEFT = new URL("../../../left", import.meta.url);
const PATIENCE = 12; // number of failed tries in a row before the run is given up

export class Transport {
  /**
   * @param {GradioLink} gradio
   * @param {TransportEvents} on
   */
  constructor(gradio, on) {
    this.gradio = gradio;
    this.on = on; // the listeners { accepted(), message(message), queued(ahead, running), failed(text), company?(pages, beside) }
    this.ticket = null;
    this.next = this.misses = 0;
    window.addEventListener("pagehide", () => this.abandon());
  }

  get isBusy() {
    return this.ticket !== null;
  }

  // Send a request to the server. The promise resolves once the server has checked it: to true if
  // the request is in the queue, and to false if it was refused. `name` is the server's function.
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

  // Open a recording. The server does not queue it.
  /** @param {object} recording */
  async open(recording) {
    await this.start("open", recording);
  }

  async stop() {
    if (this.isBusy) await this.ask("stop", { ticket: this.ticket });
  }

  // Stop the current run and ignore its remaining messages.
  leave() {
    if (!this.isBusy) return;
    this.stop();
    this.finish();
  }

  // Tell the server that the page closes, so that it frees the page's runs and positions in the
  // queue. Send a beacon, because the browser cancels ordinary requests of a page that closes.
  abandon() {
    if (this.isBusy) navigator.sendBeacon(LEFT, this.ticket);
  }

  // Deliver all messages of a run to the listeners, until the page leaves the run.
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
    if (state === "unknown")
      this.fail(
        "The server no longer knows this run: it was restarted, or this page was away for too long. What has come stays; start again.",
      );
    else if (state === "done") (this.finish(), this.on.message({ kind: "end", reason: "stopped" }));
  }

  // Deliver messages in order. If a listener leaves the run or starts another one, drop the
  // remaining messages and return false. Also return false after the last message of the run;
  // otherwise return true.
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
    if (this.misses >= PATIENCE)
      this.fail(
        "The connection to the server is lost. What has come stays; start again once the server is back.",
      );
    else await new Promise((again) => window.setTimeout(again, MISSED_MILLISECONDS));
  }

  // Return the server's answer as an object. Return null if there is none: Gradio then returns
  // undefined or throws an error.
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
