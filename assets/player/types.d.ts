// The shapes of what the server sends, for the type checker (specviz/records and
// specviz/ui/race_messages.py say them). No browser loads this file.

type OutcomeName = "accepted" | "rejected" | "unreached";

interface ExtraRecord {
  id: number;
  kind: "first" | "recovered" | "bonus";
  parent: number;
  prob: number | null;
}

// Columns over the top tokens behind one prefix; p, q and residual as the rule saw them.
interface PositionRecord {
  parent: number;
  id: number[];
  p: number[];
  q: number[];
  residual: number[];
  raw_p: number[];
  raw_q: number[];
  entropy: number;
  overlap: number;
  raw_overlap: number;
  margin: number;
}

interface VerdictColumns {
  p: number[];
  residual: (number | null)[];
  q: number[];
  accept: number[];
  u: (number | null)[];
  raw_p: number[];
  raw_q: number[];
  outcome: OutcomeName[];
}

interface Verdict {
  p: number;
  residual: number | null;
  q: number;
  accept: number;
  u: number | null;
  raw_p: number;
  raw_q: number;
  outcome: OutcomeName;
}

interface RoundRecord {
  i: number;
  context: number;
  tree: {
    kind: "iid" | "without-replacement" | "deterministic" | "typical";
    nodes: { id: number[]; parent: number[]; depth: number[]; q: number[]; score: number[] };
  };
  verdicts: VerdictColumns;
  positions: PositionRecord[];
  extra: ExtraRecord | null;
  extras: (number | null)[];
  draft_seconds: number;
  verify_seconds: number;
  host_seconds: number;
  spans: { who: string[]; start: number[]; end: number[] };
  notes: object[];
  cache: { committed: number; speculative: number; rolled_back: number };
}

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

interface Look {
  name: string;
  light: string;
  dark: string;
  mark: string;
  symbol: string;
  size: number;
  word: string;
  title: string;
  origin: string;
  underline: string;
  tint: string;
  cell: "plain" | "crossed" | "faint";
}

interface Window {
  Plotly: any;
  specviz: object;
}
