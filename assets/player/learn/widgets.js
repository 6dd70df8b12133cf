// The widgets that lessons can name.

import { AcceptReject } from "./widgets/accept_reject.js";
import { DraftLength } from "./widgets/draft_length.js";
import { LosslessnessLab } from "./widgets/losslessness.js";
import { OneForward } from "./widgets/one_forward.js";
import { YouDraft } from "./widgets/you_draft.js";

/** @type {(new (box: HTMLElement, course: Course, on: WidgetEvents) => import("./widget.js").Widget)[]} */
const ALL = [AcceptReject, YouDraft, OneForward, DraftLength, LosslessnessLab];

export const WIDGETS = new Map(ALL.map((Kind) => [/** @type {any} */ (Kind).id, Kind]));
