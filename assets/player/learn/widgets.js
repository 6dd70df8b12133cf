// The widgets that lessons can name.

import { AcceptReject } from "./widgets/accept_reject.js";
import { AheadClock } from "./widgets/ahead_clock.js";
import { BlockGain } from "./widgets/block_gain.js";
import { CopiedText } from "./widgets/copied_text.js";
import { FreeTokens } from "./widgets/free_tokens.js";
import { Deployment } from "./widgets/deployment.js";
import { DraftLength } from "./widgets/draft_length.js";
import { EagleHead } from "./widgets/eagle_head.js";
import { JudgedChain } from "./widgets/judged_chain.js";
import { TokenTree } from "./widgets/token_tree.js";
import { LosslessnessLab } from "./widgets/losslessness.js";
import { MeasuredRace } from "./widgets/measured_race.js";
import { MeasuredSweep } from "./widgets/measured_sweep.js";
import { OneForward } from "./widgets/one_forward.js";
import { QuantisedTarget } from "./widgets/quantised_target.js";
import { RaggedBatch } from "./widgets/ragged_batch.js";
import { RateNames } from "./widgets/rate_names.js";
import { RealEngine } from "./widgets/real_engine.js";
import { Rounding } from "./widgets/rounding.js";
import { StoppedDraft } from "./widgets/stopped_draft.js";
import { TwoWords } from "./widgets/two_words.js";
import { YouDraft } from "./widgets/you_draft.js";

/** @type {(new (box: HTMLElement, course: Course, on: WidgetEvents) => import("./widget.js").Widget)[]} */
const ALL = [
  AcceptReject,
  YouDraft,
  OneForward,
  DraftLength,
  LosslessnessLab,
  TokenTree,
  MeasuredSweep,
  Deployment,
  Rounding,
  RaggedBatch,
  EagleHead,
  AheadClock,
  MeasuredRace,
  QuantisedTarget,
  RealEngine,
  JudgedChain,
  TwoWords,
  BlockGain,
  CopiedText,
  FreeTokens,
  StoppedDraft,
  RateNames,
];

export const WIDGETS = new Map(ALL.map((Kind) => [/** @type {any} */ (Kind).id, Kind]));
