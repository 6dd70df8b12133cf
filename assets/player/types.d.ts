// Types that several modules use, for the type checker: messages of the server
// (specviz/ui/race_messages.py), which contain the records of records.d.ts, and values that the
// browser makes from them. No browser loads this file.

// Short names for the classes of the modules.
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

// The elements of a page, keyed by their data-ref. Their type is `any`, because only the HTML says
// which element each of them is.
type Refs = Record<string, any>;

// The server's answer to a question. The function in specviz/ui that answers defines its fields.
type Reply = any;

interface RoundFigures {
  // All figures are differences from templates; shared/round.js builds the charts from both.
  tree: Figure;
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

// The sentences about the moments of a round (specviz/figures/moment_sentences.py).
interface RoundSentences {
  draft: Remark[]; // one sentence for each level of the tree
  verify: Remark;
  judge: Remark[]; // one sentence for each drafted node
  extra: Remark | null;
  commit: Remark;
}

type LaneEvent =
  | { type: "prefill"; record: PrefillRecord }
  | { type: "step"; record: TokenStepRecord }
  | { type: "arrival"; record: EngineTokenRecord }
  | { type: "origins"; record: TokenOriginName[] } // the origins of an engine's tokens, sent after its last token
  | { type: "finish"; record: FinishReasonName }
  | RoundMessage; // has figures only in the main lane

interface Numbers {
  summary: RunSummaryRecord;
  figures: Record<"speedup" | "times" | "depth", Figure>;
  drafter_cache_bytes: number | null;
  copy_words: string; // a remark about the speedup if the draft is a four-bit copy of the target, otherwise ""
  engines: Record<string, EngineReportRecord>; // keyed by the name of the engine's lane
}

type EventMessage = { kind: "event"; lane: string; clock: number; texts: Record<number, string> } & LaneEvent;
type NumbersMessage = ({ kind: "summary" } & Numbers) | ({ kind: "end"; reason: FinishReasonName; beside?: number; waited?: number | null; limit?: string | null; cut?: boolean } & Partial<Numbers>);

// A sentence or a note of the server as a list of parts: texts, lists of token ids, and words that
// open a glossary card.
type Remark = (string | number[] | { text: string; term: string })[];

type RunMessage =
  | { kind: "loading"; pair: string }
  | { kind: "header"; trace: TraceRecord; command?: string | null; draft_bytes?: number | null }
  | EventMessage
  | NumbersMessage
  | { kind: "asking"; lane: string } // the server waits for the serving engine of this lane
  | { kind: "warning"; text: string }
  | { kind: "error"; text: string };

// A token of a lane's text. `round` and `node` are -1 if no round or no drafted node produced it.
interface Token {
  id: number;
  text: string;
  origin: string;
  round: number;
  node: number;
  clock: number;
  record?: { prob: number } | null;
}

// A figure of Plotly as a plain object.
interface Figure {
  data: any[];
  layout: any;
}

// A field that the browser can check. `problem(text)` returns what is wrong with a text, or "".
// `options` are the options of the method, whose titles an error sentence may contain.
interface CheckedField {
  name: string;
  control: any;
  problem: (text: string) => string;
  title?: string;
  options?: { name: string; title: string }[];
}

// The types from here to `Setup` describe what the page receives before a race (specviz/ui/setup.py).

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

interface RuleOffer {
  name: string;
  title: string;
  summary: string;
  lossless: boolean;
  drawings: string[]; // the ways of drawing that the rule can judge
}

interface MethodOption {
  name: string;
  title: string;
  default: number;
  low: number;
  high: number;
  hint: string;
  choices: number[];
  at_least: string; // name of another option whose value is the lower bound of this one, or ""
}

interface MethodOffer {
  name: string;
  title: string;
  summary: string;
  group: string;
  tree: boolean;
  depth_cap: string;
  drawings: string[];
  rules: string[];
  length_policies: string[];
  can_stop: boolean; // whether a chain can end where the draft's entropy is high
  biases: Record<string, Bias | null>; // by the name of a rule
  branching: string;
  options: MethodOption[];
}

interface PairOffer {
  name: string;
  title: string;
  note: string;
  claim: string;
  is_here: boolean;
  context: number | null; // tokens of a prompt and its output together; null if it is not known yet
  refusals: Record<string, string>;
  refusals_alone?: Record<string, string>;
  draft_lengths: Record<string, number>; // the draft length to start with, keyed by method
  prompts: string; // the type of the pair's held-out prompts: a key of the prompts that the server sends
}

interface SweepAxis {
  name: string;
  title: string;
  usual: string;
  settings: string[];
  bounds: Bounds | null;
  methods: string[]; // names of the methods that have this axis
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
  drawings: { name: string; title: string }[];
  rules: RuleOffer[];
  most_nodes: number; // the largest draft tree
  length_policies: { name: string; title: string; summary: string }[];
  tasks: Choice[];
  pairs: PairOffer[];
  models_note: string; // why users cannot name models of their own; "" if they can
  methods: MethodOffer[];
  devices: Choice[];
  dtypes: Choice[];
  traces: Choice[];
  presets: ClassPreset[];
  code: ShownCode;
  opening: string; // name of the recorded run that the page plays first
  sampled: string; // name of a recorded run with random draws
  sampled_round: number; // number of the round, counted from 1, at which the page opens that run
  device: string;
  grammars: GrammarExample[];
  servers: string[] | null; // addresses of serving engines that the form proposes for a race; null if no engine may take part
  lab: any; // defined in specviz/ui/lab/lab.py
  serve: { fields: PlanField[]; trust: any; gpus: Record<string, { title: string; memory: number; bandwidth: number; arithmetic: number }>; engines: EnginesOffer; watching: WatchingOffer }; // defined in specviz/ui/serving.py
  palettes: Record<string, Palette>;
  outcomes: Look[];
  endings: Record<string, string>;
  glossary: Glossary;
  places: Record<string, { title: string; address: string }[]>; // pages that show an example of a term, keyed by the key of the term
}

// A grammar that the race page offers (specviz/ui/grammar_examples.py).
interface GrammarExample {
  title: string;
  prompt: string;
  grammar: string;
}

// The actions of keys on a page, keyed by name (shared/keyboard.js).
type Actions = Record<string, ((by?: any) => void) | undefined>;

// The sixty-line program that the debugger shows next to a run (specviz/sixty_lines.py). `first` is
// the number of its first shown line in the file.
interface ShownCode {
  first: number;
  lines: string[];
  moments: { name: string; lines: number[]; values: string[] }[];
}

// The objects that all widgets of lessons share (learn/widget.js).
interface Course {
  setup: Setup;
  theme: Theme;
  gradio: GradioLink;
  prompts: HeldOut;
  recordings: import("./learn/recordings.js").Recordings;
  drive: import("./learn/drive.js").Drive;
  recorded: Record<string, RecordedOrder>; // recorded results of runs, keyed by name; widgets show them without a model
  noEngine: string; // why the server cannot start a serving engine; "" if it can
}

// What a measurement allows for a value: all possible results, or the lowest and the highest one, and a
// sentence that names them.
interface Possible {
  values: number[];
  words: string;
}

// The recorded result of a run of the course: the messages that the server sent, and the machine on
// which it ran (specviz/ui/course/lesson_recordings.py).
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
  text: string; // the text whose next tokens show the rule best; "" for the usual one
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

// A question about the content of a page, which a teacher can ask a class. Two questions with the
// same `place` are the same question.
interface PageQuestion {
  kind: "verdict" | "prediction";
  place: string;
  words: string; // the text before the guess, or the words of a lesson's question
  guess: string;
  options: { name: string; text: string }[]; // the answers to a lesson's question
  facts?: VerdictFacts; // the numbers of a verdict, which students do not see before the result
  still?: () => void; // stops the playback before the question is asked
  land?: () => void; // shows the moment of the answer on the page
}

// The numbers of a verdict that the rule used. At temperature 0, p and q are the raw ones instead.
interface VerdictFacts {
  p: number | null;
  q: number | null;
  accept: number | null;
  u: number | null;
  accepted: boolean;
  greedy: boolean;
  residual: boolean; // true if `p` is the residual after an earlier sibling was rejected
  chosen: boolean; // true if the draft chose the guess without a random draw, so that the rule's q is 1
}

// The numbers of a verdict that students may see before the result.
type VerdictHint = Pick<VerdictFacts, "p" | "q" | "greedy" | "residual" | "chosen">;

// A question to a class (specviz/ui/room.py). After the teacher has revealed the result, it also has
// the votes and the numbers of the verdict.
interface RoomPoll {
  number: number;
  kind: "verdict" | "prediction";
  place: string;
  words: string;
  guess: string;
  options: { name: string; text: string }[];
  greedy: boolean; // true if the run has temperature 0
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

// The part of the app that pages use.
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

// A field of a serving plan (specviz/sizing/serving_plan.py). `choices` is empty if the field takes
// a number.
interface PlanField {
  name: string;
  title: string;
  meaning: string;
  unit: string;
  default: string;
  choices: Choice[];
  is_whole: boolean;
}

// The limits of the card that watches serving engines (specviz/ui/engine_watching.py).
interface WatchingOffer {
  allowed: string[] | null; // addresses of engines that the page may contact; null if it may contact any engine
  every_seconds: number;
  heads: string[]; // column headings of the table of several servers
  tokens: number;
  longest: number; // largest number of characters of a prompt
}

// The choices of the card that writes configurations (specviz/ui/engine_answers.py).
interface EnginesOffer {
  engines: { name: string; title: string; methods: Choice[]; lacks: string[]; weights: string[] }[];
  fields: { name: string; title: string; example: string }[];
  drafts: Record<string, string>; // for each method that can have a draft, the title of the field for the draft
  of_draft: string[]; // names of fields that only such methods have
  of_method: Record<string, string>; // for each field that only one method has, the name of that method
  forms: Choice[];
  longest: number;
}

// A choice of a menu.
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

// The plan for repeating the draws at one position of the text (shared/redraw.js). The bins are
// sorted by decreasing p; the last bin contains all other tokens.
interface RedrawPlan {
  drawing: DrawingName;
  rule: string;
  ids: (number | null)[];
  p: number[];
  q: number[];
  guesses: { bin: number; passes: boolean }[];
  shared: number; // the mass that p and q share in the last bin
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

// The request for a fork: the round from which the decoder continues, and the settings (as text) and
// the draws that differ from those of the run.
interface ForkOrder {
  round: number;
  changes: Record<string, string>;
  forced: Record<string, number>;
}

// A recipe from which another browser can make the same run again (step/recipe.js).
interface Recipe {
  of: string;
  setting: string; // the settings of the race, as parameters of an address
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
