// Types that the modules share, for the type checker: messages of the server (specviz/ui/race_messages.py)
// with the records of records.d.ts in them, and what the browser makes of them. No browser loads this file.

// Classes of the modules, by their names.
type Round = import("./shared/round.js").Round;
type Trace = import("./shared/trace.js").Trace;
type Lane = Trace["lanes"][number];
type Page = import("./shared/page.js").Page;
type HeldOut = import("./shared/held_out.js").HeldOut;
type Cursor = import("./shared/cursor.js").Cursor;
type Theme = import("./shared/theme.js").Theme;

type StepCursor = import("./step/step_cursor.js").StepCursor;
type Ribbon = import("./shared/ribbon.js").Ribbon;
type Tooltip = import("./shared/tooltip.js").Tooltip;
type SettingForm = import("./lab/setting_form.js").SettingForm;
type LabPage = import("./lab/lab_page.js").LabPage;
type KeptSweep = import("./lab/kept_sweep.js").KeptSweep;

// The elements of a page by their data-ref: any, for what each is its page's HTML says.
type Refs = Record<string, any>;

// What the server answers a question, in the shape that its handler says (specviz/ui).
type Reply = any;

interface RoundFigures {
  tree: Figure; // differences from the templates, put together in shared/round.js
  mask: Figure;
  bars: Figure[];
  residuals: Record<number, Figure>;
}

interface RoundMessage extends RoundFigures {
  type: "round";
  record: RoundRecord;
  remarks: Remark[];
  sentences: RoundSentences;
  timelines: Record<number, Figure>;
  templates?: Record<string, Figure>;
}

// What is said of each moment (specviz/figures/moment_sentences.py).
interface RoundSentences {
  draft: Remark[]; // of each level
  verify: Remark;
  judge: Remark[]; // of each node
  extra: Remark | null;
  commit: Remark;
}

type LaneEvent =
  | { type: "prefill"; record: PrefillRecord }
  | { type: "step"; record: TokenStepRecord }
  | { type: "arrival"; record: EngineTokenRecord }
  | { type: "origins"; record: TokenOriginName[] } // of an engine's tokens, told behind the last one
  | { type: "finish"; record: FinishReasonName }
  | RoundMessage; // of another lane than the main one: without figures

interface Numbers {
  summary: RunSummaryRecord;
  figures: Record<"speedup" | "times" | "depth", Figure>;
  drafter_cache_bytes: number | null;
  engines: Record<string, EngineReportRecord>; // by lane
}

type EventMessage = { kind: "event"; lane: string; clock: number; texts: Record<number, string> } & LaneEvent;
type NumbersMessage = ({ kind: "summary" } & Numbers) | ({ kind: "end"; reason: FinishReasonName; beside?: number; waited?: number | null; limit?: string | null; cut?: boolean } & Partial<Numbers>);

// Words of the server, and lists of token ids, in turn.
type Remark = (string | number[] | { text: string; term: string })[];

type RunMessage =
  | { kind: "loading"; pair: string }
  | { kind: "header"; trace: TraceRecord; command?: string | null; draft_bytes?: number | null }
  | EventMessage
  | NumbersMessage
  | { kind: "asking"; lane: string } // a serving engine
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

// ---- what the server offers (specviz/ui/setup.py)

interface Bounds {
  low: number;
  high: number | null;
  is_whole: boolean;
  excludes_low?: boolean;
  excludes_high?: boolean;
  least?: number;
}

interface SettingRow {
  name: string;
  title: string;
  word: string;
  key: string;
  type: string;
  part: string;
  default: string;
  bounds: Bounds | null;
  off: number | null;
  hint: string;
  slider: { low: number; high: number; step: number } | null;
  menu: string;
}

interface Kind {
  name: string;
  title: string;
  lossless: boolean;
}

interface MethodOption {
  name: string;
  title: string;
  default: number;
  low: number;
  high: number;
  hint: string;
  choices: number[];
  at_least: string; // another option, or ""
}

interface MethodOffer {
  name: string;
  title: string;
  summary: string;
  group: string;
  tree: boolean;
  depth_cap: string;
  kinds: string[];
  biases: Record<string, Bias | null>;
  branching: string;
  options: MethodOption[];
}

interface PairOffer {
  name: string;
  title: string;
  note: string;
  claim: string;
  is_here: boolean;
  refusals: Record<string, string>;
  refusals_alone?: Record<string, string>;
  prompts: string; // a kind of held-out prompts
}

interface SweepAxis {
  name: string;
  title: string;
  usual: string;
  settings: string[];
  bounds: Bounds | null;
  methods: string[]; // those that have it
}

interface Bias {
  total_variation: number;
  noise_floor: number;
  temperature: number;
}

type Palette = Record<string, string>;
type Glossary = Record<string, { title: string; definition: string; formula: string }>;

// An experiment for a class (specviz/ui/class_presets.py).
interface ClassPreset {
  name: string;
  title: string;
  question: string;
  runs: { label: string; query: Record<string, string> }[];
  finding: { measure: "speedup" | "acceptance"; leads: string[]; close: string };
  lesson: string;
}

interface Setup {
  settings: SettingRow[];
  kinds: Kind[];
  tasks: Choice[];
  pairs: PairOffer[];
  models_note: string; // why no others can be named, "" where they can
  methods: MethodOffer[];
  devices: Choice[];
  dtypes: Choice[];
  traces: Choice[];
  presets: ClassPreset[];
  code: ShownCode;
  opening: string; // of them, the one that plays for a visitor
  sampled: string; // of them, one in which something is drawn
  sampled_round: number; // from 1: where it is shown first
  device: string;
  servers: string[] | null; // addresses of servers that may be raced, null where none may
  lab: any; // specviz/ui/lab/lab.py
  serve: { fields: PlanField[]; trust: any; gpus: Record<string, { title: string; memory: number; bandwidth: number; arithmetic: number }>; engines: EnginesOffer; watching: WatchingOffer }; // specviz/ui/serving.py
  palettes: Record<string, Palette>;
  outcomes: Look[];
  endings: Record<string, string>;
  glossary: Glossary;
  places: Record<string, { title: string; address: string }[]>; // where a term can be seen, by its key
}

// ---- what pages and their parts ask of each other

type Actions = Record<string, ((by?: any) => void) | undefined>;

// The sixty lines beside a run (specviz/sixty_lines.py): `first` is the number of the first one in the file.
interface ShownCode {
  first: number;
  lines: string[];
  moments: { name: string; lines: number[]; values: string[] }[];
}

// What all widgets of lessons share (learn/widget.js).
interface Course {
  setup: Setup;
  theme: Theme;
  gradio: GradioLink;
  prompts: HeldOut;
  recordings: import("./learn/recordings.js").Recordings;
  drive: import("./learn/drive.js").Drive;
  recorded: Record<string, RecordedOrder>; // by name, for whoever has no model loaded
  noEngine: string; // why the server starts no serving engine, "" where it does
}

// What an order of the course sent when it was recorded (specviz/ui/course/lesson_recordings.py).
interface RecordedOrder {
  machine: string;
  messages: any[];
}

// A rule of the bug zoo (specviz/experiments/bug_zoo/specimens.toml).
interface Specimen {
  name: string;
  title: string;
  wrong: string;
  tell: string;
  seen: string;
  is_exact: boolean;
  siblings: number;
}

interface WidgetEvents {
  changed(): void;
  reached(goal: string): void;
}

interface PageAddress {
  link: string;
  linkLimit?: string;
  write(): void;
}

// What people may be asked about what a page shows; the same place asks the same.
interface PageQuestion {
  kind: "verdict" | "prediction";
  place: string;
  words: string; // the text before the guess, or the question
  guess: string;
  options: { name: string; text: string }[]; // of a lesson's question
  facts?: VerdictFacts; // of a verdict: not for those who are asked
  still?: () => void; // nothing plays on while it is asked
  land?: () => void; // show it
}

// The numbers of a verdict as its rule used them; at temperature 0 p and q as they were before.
interface VerdictFacts {
  p: number | null;
  q: number | null;
  accept: number | null;
  u: number | null;
  accepted: boolean;
  greedy: boolean;
  residual: boolean; // p is what rejected guesses left over
}

// Of a verdict, what those who are asked may see beforehand.
type VerdictHint = Pick<VerdictFacts, "p" | "q" | "greedy" | "residual">;

// A question to a class (specviz/ui/room.py), with its result once it is revealed.
interface RoomPoll {
  number: number;
  kind: "verdict" | "prediction";
  place: string;
  words: string;
  guess: string;
  options: { name: string; text: string }[];
  greedy: boolean; // the run is at temperature 0
  hint: VerdictHint | null;
  revealed: boolean;
  counts?: Record<string, number>;
  facts?: VerdictFacts | null;
}

interface ShownPage {
  actions: Actions;
  address: PageAddress;
  halt(): void;
}

// The app, as a page sees it.
interface Shell {
  root: HTMLElement;
  refs: Refs;
  setup: Setup;
  theme: Theme;
  prompts: HeldOut;
  gradio: GradioLink;
  pages: Record<string, any>;
  show(id: string, isNew?: boolean): void;
}

interface GradioLink {
  server: Record<string, (question: object) => Promise<Reply>>;
}

interface TransportEvents {
  accepted(): void;
  message(message: any): void;
  queued(ahead: number, running: { title: string; seconds_left: number | null } | null): void;
  company?(pages: number, beside: number): void;
  failed(text: string): void;
}

// A field of a serving plan (specviz/sizing/serving_plan.py); one of numbers has no choices.
interface PlanField {
  name: string;
  title: string;
  meaning: string;
  unit: string;
  default: string;
  choices: Choice[];
  is_whole: boolean;
}

// What the card of configurations offers (specviz/ui/engine_answers.py).
interface WatchingOffer {
  allowed: string[] | null; // addresses; null: any
  every_seconds: number;
  heads: string[]; // of the table of several servers
  tokens: number;
  longest: number; // characters of a prompt
}

interface EnginesOffer {
  engines: { name: string; title: string; methods: Choice[]; lacks: string[]; weights: string[] }[];
  fields: { name: string; title: string; example: string }[];
  drafts: Record<string, string>; // what a method's draft is called; the methods that may have one
  of_draft: string[]; // fields that only those have
  of_method: Record<string, string>; // fields of one method alone
  forms: Choice[];
  longest: number;
}

// Of a menu.
interface Choice {
  name: string;
  title: string;
  note?: string;
  refusal?: string;
  group?: string;
}

// A moment of a round in the debugger (step/moments.js).
interface Moment {
  phase: string;
  node: number | null;
  level?: number;
}

// How one place of the text is drawn anew (shared/redraw.js): bins by falling p, the last one all others.
interface RedrawPlan {
  kind: ProposalKindName;
  ids: (number | null)[];
  p: number[];
  q: number[];
  guesses: { bin: number; passes: boolean }[];
  shared: number; // of p and q, among all others
}

interface Axis {
  name: string;
  title: string;
  unit: string;
  end(round: Round, index: number): number;
}

interface StepPlace {
  trace?: string | null;
  round: number;
  at: number;
  axis: string;
  recipe?: Recipe | null;
}

// A fork as the server is asked for it, by texts and draws that differ from the run's.
interface ForkOrder {
  round: number;
  changes: Record<string, string>;
  forced: Record<string, number>;
}

// How a run can be made again (step/recipe.js).
interface Recipe {
  of: string;
  setting: string; // of a race, as parameters of an address
  forks: ForkOrder[];
}

interface Match {
  round: number;
  node: number;
}

interface StopRule {
  name: string;
  title: string;
  value?: string | number;
  low?: number;
  high?: number;
  isText?: boolean;
  holds(at: any, value?: any): boolean;
}

interface Look extends LookRecord {
  name: string;
}

interface Window {
  Plotly: any;
  specviz: object;
}
