// The pages of the app in the order of their tabs. The first one is shown if the address names
// none.

import { RacePage } from "./race/race_page.js";
import { StepPage } from "./step/step_page.js";
import { LabPage } from "./lab/lab_page.js";
import { LearnPage } from "./learn/learn_page.js";
import { ServePage } from "./serve/serve_page.js";
import { GlossaryPage } from "./glossary/glossary_page.js";

export const PAGES = [RacePage, StepPage, LabPage, LearnPage, ServePage, GlossaryPage];
