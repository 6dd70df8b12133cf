// Types that the modules share, for the type checker: messages of the server (specviz/ui/race_messages.py)
// with the records of records.d.ts in them, and what the browser makes of them. No browser loads this file.

interface RoundFigures {
  tree: Figure; // differences from the templates, put together in shared/round.js
  mask: Figure;
  bars: Figure[];
  residuals: Record<number, Figure>;
}

interface RoundMessage extends RoundFigures {
  type: "round";
  record: RoundRecord;
  remarks: (string | number[])[][];
  timelines: Record<number, Figure>;
  templates?: Record<string, Figure>;
}

type LaneEvent =
  | { type: "prefill"; record: PrefillRecord }
  | { type: "step"; record: TokenStepRecord }
  | { type: "finish"; record: FinishReasonName }
  | RoundMessage; // of another lane than the main one: without figures

interface Numbers {
  summary: RunSummaryRecord;
  figures: Record<"speedup" | "times" | "depth", Figure>;
  drafter_cache_bytes: number | null;
}

type EventMessage = { kind: "event"; lane: string; clock: number; texts: Record<number, string> } & LaneEvent;
type NumbersMessage = ({ kind: "summary" } & Numbers) | ({ kind: "end"; reason: FinishReasonName } & Partial<Numbers>);

type RunMessage =
  | { kind: "loading"; pair: string }
  | { kind: "header"; trace: TraceRecord; command?: string | null }
  | EventMessage
  | NumbersMessage
  | { kind: "warning"; text: string }
  | { kind: "error"; text: string };

// A token of a lane's text; round and node are -1 where none brought it.
interface Token {
  id: number;
  text: string;
  origin: string;
  round: number;
  node: number;
  clock: number;
  record?: { prob: number } | null;
}

// Of Plotly: a figure as a plain dict.
interface Figure {
  data: any[];
  layout: any;
}

// A field with a rule that the browser knows; `options`: those of its method, whose titles it may have.
interface CheckedField {
  name: string;
  control: any;
  problem: (text: string) => string;
  title?: string;
  options?: { name: string; title: string }[];
}

interface Look extends LookRecord {
  name: string;
}

interface Window {
  Plotly: any;
  specviz: object;
}
