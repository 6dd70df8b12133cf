// A moment's address: ?view=step&trace=…&round=12&pos=3&axis=token. Rounds and moments count from 1.
// Knows the parameters' names; what a trace is called is the menu's affair.

const WRITE_MILLISECONDS = 250; // browsers refuse an address that changes too often
const OURS = ["trace", "round", "pos", "axis"];

export class StepAddress {
  read(search = window.location.search) {
    const given = new URLSearchParams(search);
    return {
      trace: given.get("trace"),
      round: whole(given.get("round")),
      at: whole(given.get("pos")),
      axis: given.get("axis"),
    };
  }

  // `moment`: { trace, round, at, axis }, from 0.
  link({ trace, round, at, axis }) {
    const url = new URL(window.location.href);
    for (const name of OURS) url.searchParams.delete(name);
    url.searchParams.set("view", "step");
    if (trace) url.searchParams.set("trace", trace);
    url.searchParams.set("round", String(round + 1));
    url.searchParams.set("pos", String(at + 1));
    if (axis !== "round") url.searchParams.set("axis", axis);
    return url.href;
  }

  write(moment) {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => window.history.replaceState(window.history.state, "", this.link(moment)), WRITE_MILLISECONDS);
  }

  forget() {
    window.clearTimeout(this.timer);
  }
}

// From the address's count to ours; null where it is no number of it.
function whole(text) {
  const number = Number(text);
  return text !== null && Number.isInteger(number) && number >= 1 ? number - 1 : null;
}
