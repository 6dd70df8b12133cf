// The whole page: joins its parts, runs races, and keeps the form, the address and the pages in step.
// Knows every part by name and no part's inside.

import { Address } from "./race/address.js";
import { references, setText } from "./shared/dom.js";
import { Fold } from "./race/fold.js";
import { Form } from "./race/form.js";
import { jump } from "./shared/jump.js";
import { Keyboard, keyRows } from "./shared/keyboard.js";
import { LabPage } from "./lab/lab_page.js";
import { LinkButton } from "./shared/link_button.js";
import { writeProof } from "./race/proof.js";
import { Pages } from "./pages.js";
import { RacePage } from "./race/race_page.js";
import { deviceWords, ENDINGS, HELD, modelWords, RACING, waitingWords } from "./race/race_words.js";
import { RacedSetting } from "./race/raced_setting.js";
import { Debugger } from "./step/debugger.js";
import { ProfileCard } from "./step/profile_card.js";
import { RACE } from "./step/run_menu.js";
import { stepActions } from "./step/step_actions.js";
import { Terms } from "./shared/terms.js";
import { Theme } from "./shared/theme.js";
import { Transport } from "./shared/transport.js";

export class App {
  constructor(root, setup, prompts, gradio) {
    const refs = references(root);
    Object.assign(this, { root, refs });
    this.theme = new Theme(root, setup.palettes, () => [this.page, this.debugger?.page, this.lab].forEach((each) => each?.repaint()));
    this.page = new RacePage(root, refs, this.theme, setup);
    this.form = new Form(refs, setup, prompts, {
      onChange: () => this.settingChanged(),
      ask: (form) => this.transport.ask("check", { form }),
    });
    new Fold(refs.form, { end: refs.formEnd, cover: refs.actions, button: refs.moreBelow });
    this.raced = new RacedSetting(refs.staleNotice);
    this.address = new Address(this.form, setup, prompts);
    this.debugger = new Debugger(refs, this.theme, setup, gradio, {
      race: this.page.trace,
      form: () => this.form.order,
      raceTransport: () => this.transport,
    });
    this.profile = new ProfileCard(refs, setup, gradio, {
      form: () => this.form.order,
      onExample: (...example) => this.debugger.openExample(...example),
    });
    this.lab = new LabPage(refs, this.theme, setup, gradio);
    new Terms(root, setup.glossary);
    new LinkButton(refs.copyLink, refs.copyWord, () => ({ step: this.debugger.place, lab: this.lab.place })[this.pages.current] ?? this.address);
    this.transport = new Transport(gradio, {
      accepted: () => this.showResults(),
      message: (message) => this.take(message),
      queued: (...ahead) => this.tell(waitingWords(...ahead)),
      failed: (text) => this.failed(text),
    });
    setText(refs.device, setup.device);
    writeProof(refs.proof);
    this.wire();
    this.tellProblems(this.address.read());
    this.setBusy(false, "");
    this.pages = new Pages(refs.tabs, {
      race: { section: refs.racePage, onShow: () => this.page.frame.ask() },
      step: {
        section: refs.step,
        onShow: (isShown) => (this.profile.tellSetting(), this.debugger.onShow(isShown)),
        onReturn: () => this.debugger.returned(),
      },
      lab: { section: refs.lab, onShow: (isShown) => this.lab.onShow(isShown) },
    });
  }

  wire() {
    const { refs, page } = this;
    const { cursor, playback } = page;
    const still = (action) => (...given) => (playback.pause(), action(...given));
    refs.form.addEventListener("submit", (event) => (event.preventDefault(), this.race()));
    refs.raceHeld.addEventListener("click", () => this.race(true));
    refs.stop.addEventListener("click", () => this.stop());
    refs.halt.addEventListener("click", () => this.halt());
    refs.live.addEventListener("held", ({ detail }) => this.tellHeld(detail));
    refs.toHeld.addEventListener("click", () => this.showHeld());
    // The Enter that started the race, held down, must not stop it.
    refs.stop.addEventListener("keydown", (event) => event.repeat && event.preventDefault());
    refs.theme.addEventListener("click", () => this.theme.toggle());
    refs.large.addEventListener("click", () => this.toggleLarge());
    refs.openKeys.addEventListener("click", () => refs.keys.showModal());
    this.root.addEventListener("click", (event) => jump(this.root, event));
    refs.keyList.append(...keyRows());
    refs.large.setAttribute("aria-pressed", String(this.theme.isLarge));
    const actions = {
      stop: still((step) => cursor.stepStop(step)),
      round: still((step) => cursor.stepRound(step)),
      first: still(() => cursor.toFirst()),
      last: still(() => cursor.toLast()),
      follow: still(() => cursor.setFollowing(true)),
      play: () => playback.toggle(),
      race: () => this.race(),
      halt: () => this.halt(),
      list: () => refs.keys.showModal(),
    };
    const shared = { list: actions.list, halt: actions.halt };
    const ofPage = { race: () => actions, step: () => stepActions(this.debugger.page), lab: () => this.lab.actions };
    new Keyboard(() => ({ ...shared, ...ofPage[this.pages.current]() }), () => this.root.isConnected);
  }

  // ---- the race

  // `isHeld`: it waits before its first round, and goes on from the debugger.
  async race(isHeld = false) {
    if (this.transport.isBusy) return;
    this.form.clearErrors();
    if (this.form.refuses()) return;
    this.refs.linkNotice.hidden = true;
    this.address.write();
    this.setBusy(true, "starting …");
    this.ordered = [this.form.order, this.form.words];
    this.page.result.pair = this.form.pair;
    this.isHeld = isHeld;
    await this.transport.start("join", { form: this.ordered[0], held: isHeld });
  }

  // Only now does the race before it go: one that is refused, or cannot start, costs nothing.
  begun(trace) {
    this.raced.keep(...(this.ordered ?? [this.form.order, this.form.words]));
    this.raced.compare(this.form.order);
    this.tellHeader(trace);
    if (this.isHeld) this.pages.show("step");
    this.debugger.raceBegan(this.isHeld);
  }

  // On a narrow screen the form fills the view: go to what is about to happen.
  showResults() {
    const { results } = this.refs;
    if (results.getBoundingClientRect().top > window.innerHeight * 0.7) results.scrollIntoView();
  }

  async stop() {
    if (!this.transport.isBusy) return;
    setText(this.refs.runState, "stopping …");
    await this.transport.stop();
  }

  // What the debugger shows: a fork, or the race of this page; in the lab what it measures.
  halt() {
    const { current } = this.pages;
    if (current === "lab") return this.lab.halt();
    if (current === "step" && this.debugger.page.isForking) return this.debugger.transport.stop();
    return this.stop();
  }

  tellHeld(isHeld) {
    this.refs.toHeld.hidden = !isHeld;
    this.tell(isHeld ? HELD : RACING);
  }

  showHeld() {
    this.pages.show("step");
    if (this.debugger.source !== RACE) this.debugger.choose(RACE);
  }

  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    if (message.kind === "loading") this.tell(`loading ${message.pair} …`);
    this.page.take(message);
    if (message.kind === "header") this.begun(message.trace);
    if (message.kind === "event") this.debugger.raceGrew();
    if (message.kind === "end") this.ended(message.reason);
  }

  ended(reason) {
    if (!this.page.trace.summary) this.page.result.clear();
    this.setBusy(false, ENDINGS[reason] ?? "");
    this.debugger.raceGrew();
    this.debugger.raceEnded();
  }

  tellHeader(header) {
    this.root.classList.remove("is-waiting");
    this.tell(RACING);
    setText(this.refs.pairNote, modelWords(header));
    setText(this.refs.device, deviceWords(header));
  }

  // What goes on before there are numbers, beside the button and where the numbers will stand.
  tell(text) {
    setText(this.refs.runState, text);
    if (!this.page.trace.summary) setText(this.refs.speedupWord, text);
  }

  failed(text) {
    if (this.page.trace.isLive) this.page.interrupt();
    if (!this.page.trace.summary) this.page.result.clear();
    this.form.showError(text);
    this.setBusy(false, "");
  }

  setBusy(isBusy, text) {
    const { race, stop } = this.refs;
    const [next, last] = isBusy ? [stop, race] : [race, stop];
    next.disabled = false;
    // A disabled button loses the focus: whoever works by keys goes on at the other one.
    if (last.matches(":focus-visible")) next.focus({ preventScroll: true });
    last.disabled = true;
    this.isBusy = isBusy;
    if (!isBusy) this.refs.toHeld.hidden = true;
    this.drawRefusal();
    this.root.classList.toggle("is-busy", isBusy);
    this.root.classList.toggle("is-waiting", isBusy);
    setText(this.refs.runState, text);
  }

  // ---- the setting

  // A method that the models cannot do: no race, and the reason beside the button.
  drawRefusal() {
    const { race, raceHeld, raceRefusal } = this.refs;
    const { refusal, method } = this.form;
    race.disabled = raceHeld.disabled = this.isBusy || Boolean(refusal);
    setText(raceRefusal, refusal && `${method.title} cannot race here: it ${refusal}.`);
    raceRefusal.hidden = !refusal;
  }

  settingChanged() {
    this.form.clearErrors();
    this.drawRefusal();
    this.raced.compare(this.form.order);
    window.clearTimeout(this.writing); // browsers refuse an address that changes too often
    this.writing = window.setTimeout(() => this.address.write(), 200);
  }

  tellProblems(problems) {
    const { linkNotice } = this.refs;
    linkNotice.hidden = problems.length === 0;
    const rest = "The defaults stand in for it.";
    setText(linkNotice, problems.length ? `The link could not be read in full: ${problems.join("; ")}. ${rest}` : "");
  }

  toggleLarge() {
    this.theme.toggleLarge();
    this.refs.large.setAttribute("aria-pressed", String(this.theme.isLarge));
  }
}
