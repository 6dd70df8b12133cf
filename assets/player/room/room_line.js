// The line to a class: asks again and again what is new in it, and says what is done there. Knows nothing of
// what a class shows.

const RETRY_MILLISECONDS = 2000;
const PATIENCE = 3; // looks without an answer, until the line counts as lost

/**
 * @typedef {{ room: string, member?: string, was?: string, secret?: string }} Seat a teacher's has the secret
 * @typedef {{ number: number, choice: string }} Vote
 * @typedef {{ news: (reply: Reply) => void, seated: (seat: Seat) => void, lost: (isLost: boolean) => void, ended: (why: string) => void }} LineEvents
 */

export class RoomLine {
  // `on.news` hears every answer; one with something new has a `state`.
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
    this.unsaid = null; // the vote that the server has not answered yet
    /** @type {Promise<void>} */
    this.voting = Promise.resolve();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  // A teacher has a secret; somebody who was here before has a name of their own; anybody else gets one.
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
    if (this.seat !== seat) return void this.look(); // another one meanwhile, or none
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

  // A member whom the class has forgotten, as after a long sleep, comes in anew, to the same vote.
  /**
   * @param {Seat} seat
   * @param {string} why
   */
  async refused(seat, why) {
    if (seat.member) return this.sit({ room: seat.room, was: seat.member });
    this.rise();
    this.on.ended(why);
  }

  // The server's answer, null where none came.
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

  // What was done is seen at once.
  /**
   * @param {string} name
   * @param {object} question
   */
  async say(name, question) {
    const reply = await this.ask(name, question);
    if (reply && !reply.error) this.look();
    return reply;
  }

  // One after another, so that the last that was pressed is the last to arrive. Undefined: another
  // one took its place before it was sent.
  /**
   * @param {Vote} vote
   * @returns {Promise<Reply | null | undefined>}
   */
  vote(vote) {
    this.unsaid = vote;
    const reply = this.voting.then(() => (this.unsaid === vote ? this.ask("vote", vote) : undefined));
    this.voting = reply.then(() => {
      if (this.unsaid === vote) this.unsaid = null;
    });
    return reply;
  }
}
