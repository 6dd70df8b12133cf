// The widgets that lessons can name.

import { AcceptReject } from "./widgets/accept_reject.js";

/** @type {(new (box: HTMLElement, course: Course, on: WidgetEvents) => import("./widget.js").Widget)[]} */
const ALL = [AcceptReject];

export const WIDGETS = new Map(ALL.map((Kind) => [/** @type {any} */ (Kind).id, Kind]));
