// The connection to a class of students. It asks the server for news again and again, and sends
// actions. It is independent of what the page shows.

const RETRY_MILLISECONDS = 2000;
const PATIENCE = 3; // number of failed requests after which the connection counts as lost

/**
 * @typedef {{ room: string, member?: string, was?: string, secret?: string }} Seat who takes part in which class; only a teacher has the `secret`
 * @typedef {{ number: number, choice: string }} Vote
 * @typedef {{ news: (reply: Reply) => void, seated: (seat: Seat) => void, lost: (isLost: boolean) => void, ended: (why: string) => void }} LineEvents
 */

export class RoomLine {
  // `on.news` is called with every answer of the server. An answer with news has a `state`.
  /**
   * @param {Pick<GradioLink, "server">} gradio
   * @param {LineEvents} on
   */
  constructor(gradio, on) {
    this.gradio = gradio;
    this.on = on;
    /** @type {Seat | null} */
    this.seat = null;
    this.version = this.misses = 0;
    this.isLooking = false;
    /** @type {Vote | null} */
    this.unsaid = null; // the vote that the server has not confirmed yet
    /** @type {Promise<void>} */
    this.voting = Promise.resolve();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  // Join a class. The seat of a teacher has the class's secret. The seat of a student who was in
  // the class before has the student's member name; a new student receives one from the server.
  /** @param {Seat} seat */
  async sit(seat) {
    this.seat = seat;
    this.version = this.misses = 0;
    await this.look();
  }

  rise() {
    clearTimeout(this.timer);
    this.seat = null;
  }

  get isLost() {
    return this.misses >= PATIENCE;
  }

  async look() {
    clearTimeout(this.timer);
    const { seat } = this;
    if (!seat || this.isLooking) return;
    this.isLooking = true;
    const reply = await this.asked(seat);
    this.isLooking = false;
    // the page has joined another class or left the class of this reply
    if (this.seat !== seat) return void this.look();
    if (reply?.error) return this.refused(seat, reply.error);
    const wasLost = this.isLost;
    this.misses = reply ? 0 : this.misses + 1;
    if (this.isLost !== wasLost) this.on.lost(this.isLost);
    if (reply) this.version = reply.version;
    if (reply) this.on.news(reply);
    this.timer = setTimeout(() => this.look(), reply ? reply.wait * 1000 : RETRY_MILLISECONDS);
  }

  /** @param {Seat} seat */
  async asked(seat) {
    if (seat.secret) return this.ask("watch_room", { version: this.version });
    if (seat.member) return this.ask("look_room", { version: this.version });
    const reply = await this.ask("join_room", {});
    if (this.seat !== seat || !reply || reply.error) return reply;
    seat.member = reply.member;
    this.on.seated(seat);
    return this.ask("look_room", { version: 0 });
  }

  // React to the server's refusal. If the class has forgotten the student, for example while the
  // computer slept, join again with the same vote. Otherwise report that the class has ended.
  /**
   * @param {Seat} seat
   * @param {string} why
   */
  async refused(seat, why) {
    if (seat.member) return this.sit({ room: seat.room, was: seat.member });
    this.rise();
    this.on.ended(why);
  }

  // Return the server's answer, or null if there is none.
  /**
   * @param {string} name
   * @param {object} question
   * @returns {Promise<Reply>}
   */
  async ask(name, question) {
    try {
      const reply = await this.gradio.server[name]({ ...this.seat, ...question });
      return reply && typeof reply === "object" ? reply : null;
    } catch {
      return null;
    }
  }

  // Send an action. If the server accepts it, ask for news at once, so that the page shows its
  // effect.
  /**
   * @param {string} name
   * @param {object} question
   */
  async say(name, question) {
    const reply = await this.ask(name, question);
    if (reply && !reply.error) this.look();
    return reply;
  }

  // Send a vote after the votes before it, so that the last vote also arrives last. If the student
  // votes again before this vote was sent, skip it and return undefined.
  /**
   * @param {Vote} vote
   * @returns {Promise<Reply | null | undefined>}
   */
  vote(vote) {
    this.unsaid = vote;
    const reply = this.voting.then(() =>
      this.unsaid === vote ? this.ask("vote", vote) : undefined,
    );
    this.voting = reply.then(() => {
      if (this.unsaid === vote) this.unsaid = null;
    });
    return reply;
  }
}
