// The records that the server sends, for the type checker; no browser loads this file.
// Written by `make types` from the fields of the Python records: change those.

type Columns<T> = { [K in keyof T]: T[K][] }; // records as one array per field

interface BaselineSummaryRecord {
  tokens: number;
  seconds: number;
  tokens_per_second: number | null;
  ttft_seconds: number | null;
  reading_share: number | null;
}

interface BatchRoundRecord {
  row: number;
  rows: number;
  tokens: number;
  padding: number;
  limit: number;
}

interface CacheLengthsRecord {
  committed: number;
  speculative: number;
  rolled_back: number;
}

interface DecodingConfigRecord {
  method: string;
  draft_length: number;
  branching: number[];
  drawing: DrawingName;
  rule: string;
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  seed: number;
  max_new_tokens: number;
  options: [string, number][];
  length_policy: string;
  entropy_threshold: number;
  grammar: string;
  draft_forced: boolean;
}

interface DepthAcceptanceRecord {
  depth: number;
  reached: number;
  passed: number;
  rate: number;
}

interface DivergenceRecord {
  index: number;
  margin: number | null;
}

interface DraftNodeRecord {
  id: number;
  parent: number;
  depth: number;
  q: number;
  score: number;
}

interface DraftTreeRecord {
  drawing: DrawingName;
  nodes: Columns<DraftNodeRecord>;
}

type DrawingName = "independent" | "without-replacement" | "chosen";

interface EngineReportRecord {
  engine: string;
  version: string;
  model: string;
  drafted: number | null;
  accepted: number | null;
  remark: string;
}

interface EngineTokenRecord {
  id: number;
  seconds: number;
  origin: TokenOriginName | null;
}

type ExtraKindName = "first" | "recovered" | "bonus" | "plain";

interface ExtraTokenRecord {
  id: number;
  kind: ExtraKindName;
  parent: number;
  prob: number;
}

type FinishReasonName = "end-of-sequence" | "length" | "stopped";

interface ForcedTokensRecord {
  count: number;
}

interface ForkPointRecord {
  round: number;
  config: DecodingConfigRecord;
  forced: [number, number][];
}

interface FormulaSymbolRecord {
  name: string;
  meaning: string;
  value: string;
}

interface HybridChoiceRecord {
  score: number;
  least_score: number;
}

type LaneKindName = "baseline" | "speculative" | "library" | "engine";

interface LaneRecord {
  name: string;
  kind: LaneKindName;
  config: DecodingConfigRecord;
  draft: ModelInfoRecord | null;
  drafter_bytes: number;
  drafter_cache_bytes: number | null;
  total_variation: number | null;
  forks: ForkPointRecord[];
  prefill: PrefillRecord | null;
  rounds: RoundRecord[];
  steps: Columns<TokenStepRecord>;
  finish: FinishReasonName | null;
  arrivals: Columns<EngineTokenRecord>;
  engine: EngineReportRecord | null;
}

interface LessonFormulaRecord {
  mathml: string;
  symbols: FormulaSymbolRecord[];
  result: string | null;
}

type LessonGroupName = "core" | "optional" | "exercise" | "misconception";

interface LessonLinkRecord {
  text: string;
  address: string;
}

interface LessonOptionRecord {
  name: string;
  text: string;
  reply: string;
  right: boolean;
  low: number | null;
  high: number | null;
  value: string;
}

interface LessonRecord {
  name: string;
  number: number;
  title: string;
  minutes: number;
  question: string;
  learned: string;
  widget: string;
  steps: LessonStepRecord[];
  group: LessonGroupName;
  notebook: string;
}

interface LessonStepRecord {
  name: string;
  kind: StepKindName;
  title: string;
  text: string;
  scene: [string, string][];
  options: LessonOptionRecord[];
  value: string;
  task: string;
  goal: string;
  after: string;
  compare: string;
  formula: LessonFormulaRecord | null;
  widget: string;
  otherwise: string;
  link: LessonLinkRecord | null;
  part: string;
}

interface LookRecord {
  light: string;
  dark: string;
  mark: string;
  symbol: string;
  size: number;
  word: string;
  title: string;
  short: string;
  term: string;
  origin: string;
  underline: string;
  tint: string;
  cell: string;
}

interface LookaheadStateRecord {
  pool: number;
  hits: number;
  added: number;
  level_sizes: number[];
  token_ids: number[];
}

interface ModelInfoRecord {
  name: string;
  architecture: string;
  parameters: number;
  bytes: number;
  layers: number;
  hidden_size: number;
  vocab_size: number;
  context_length: number;
  context_reason: string;
}

interface NgramMatchRecord {
  length: number;
  position: number;
}

type NoteRecord =
  | ({ note: "ngram-match" } & NgramMatchRecord)
  | ({ note: "suffix-match" } & SuffixMatchRecord)
  | ({ note: "hybrid-choice" } & HybridChoiceRecord)
  | ({ note: "forced-tokens" } & ForcedTokensRecord)
  | ({ note: "tree-budget" } & TreeBudgetRecord)
  | ({ note: "lookahead-state" } & LookaheadStateRecord)
  | ({ note: "recycled-tokens" } & RecycledTokensRecord)
  | ({ note: "prepared" } & PreparedRecord)
  | ({ note: "shared-vocabulary" } & SharedVocabularyRecord)
  | ({ note: "batch-round" } & BatchRoundRecord);

type OutcomeName = "accepted" | "rejected" | "unreached";

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
  allowed: number | null;
}

interface PrefillRecord {
  prompt: number;
  extra: ExtraTokenRecord;
  position: PositionRecord;
  seconds: number;
}

interface PreparedRecord {
  hit: boolean;
  outcomes: number[];
  hidden_seconds: number;
  waited_seconds: number;
}

interface ReadingLimitRecord {
  bytes_per_second: number;
  step_bytes: number;
}

interface RecycledTokensRecord {
  known: number;
  rates: number[];
}

interface RoundRecord {
  i: number;
  context: number;
  tree: DraftTreeRecord;
  verdicts: Columns<VerdictRecord>;
  positions: PositionRecord[];
  extra: ExtraTokenRecord | null;
  extras: number[];
  draft_seconds: number;
  verify_seconds: number;
  host_seconds: number;
  spans: Columns<SpanRecord>;
  notes: NoteRecord[];
  cache: CacheLengthsRecord;
  draft_prefill_seconds: number;
  rule: string;
}

interface RunSummaryRecord {
  baseline: BaselineSummaryRecord;
  speculative: SpeculativeSummaryRecord;
  speedup: number | null;
  speedup_tokens: number;
  cost_ratio: number | null;
  verify_overhead: number | null;
  theory_speedup: number | null;
  theory_band: TheoryBandRecord | null;
  compared: number;
  identical: boolean | null;
  first_divergence: DivergenceRecord | null;
  server_speedup: number | null;
  server_speedup_tokens: number;
  speedup_limit: number | null;
  is_disturbed: boolean;
}

interface SharedVocabularyRecord {
  shared: number;
  target_share: number;
  draft_share: number;
  mass: number;
  draft_tokens: number;
  target_tokens: number;
}

interface SpanRecord {
  who: string;
  start: number;
  end: number;
}

interface SpeculativeSummaryRecord {
  tokens: number;
  seconds: number;
  tokens_per_second: number | null;
  ttft_seconds: number | null;
  target_forwards: number;
  acceptance_rate: number | null;
  draft_utilization: number | null;
  block_efficiency: number | null;
  acceptance_by_depth: DepthAcceptanceRecord[];
  draft_prefill_seconds: number;
  draft_seconds: number;
  verify_seconds: number;
  host_seconds: number;
  forced_tokens: number;
}

type StepKindName = "predict" | "case" | "try" | "read" | "check" | "number";

interface SuffixMatchRecord {
  longest: number;
  counts: number[];
  is_earlier: boolean;
  token_ids: number[];
}

interface TheoryBandRecord {
  low: number;
  expected: number;
  high: number;
}

type TokenOriginName = "first" | "accepted" | "recovered" | "bonus" | "plain";

interface TokenStepRecord {
  i: number;
  id: number;
  prob: number;
  margin: number;
  seconds: number;
}

interface TraceRecord {
  target: ModelInfoRecord;
  device: string;
  dtype: string;
  prompt: string;
  prompt_ids: number[];
  tokens: [number, string][];
  lanes: LaneRecord[];
  beside: number;
  waited: number | null;
  reading: ReadingLimitRecord | null;
  processor: string;
  made_by: string;
}

interface TreeBudgetRecord {
  nodes: number;
  candidates: number;
}

type ValueFormatName = "probability" | "percent" | "count" | "times" | "decimal" | "milliseconds" | "token" | "text";

interface VerdictRecord {
  p: number;
  residual: number | null;
  q: number;
  accept: number;
  u: number | null;
  outcome: OutcomeName;
  raw_p: number;
  raw_q: number;
}

interface WidgetKindRecord {
  name: string;
  scene: string[];
  values: WidgetValueRecord[];
  goals: string[];
}

interface WidgetValueRecord {
  name: string;
  format: ValueFormatName;
}
