// The address of a step in the course: ?view=learn&lesson=accept-or-reject&step=cases. Without a
// lesson it is the address of the list of lessons.

import { element } from "../shared/dom.js";
import { pageLink, setPage } from "../shared/page_parameter.js";

export const OF_A_LESSON = ["lesson", "step"]; // parameters of the address that belong to a lesson

/** @returns {{ lesson: string | null, step: string | null }} */
export function placeInAddress() {
  const given = new URLSearchParams(window.location.search);
  return { lesson: given.get("lesson"), step: given.get("step") };
}

/**
 * @param {string | null} lesson
 * @param {string | null} [step]
 */
export function linkTo(lesson, step = null) {
  const url = new URL(window.location.href);
  for (const name of OF_A_LESSON) url.searchParams.delete(name);
  setPage(url.searchParams, "learn");
  if (lesson) url.searchParams.set("lesson", lesson);
  if (lesson && step) url.searchParams.set("step", step);
  return url.href;
}

// Return a link to the same exercise as a notebook, or null if the lesson has none.
/** @param {LessonRecord} lesson */
export function notebookLink({ notebook }) {
  if (!notebook) return null;
  const link = element("a", "", "The same as a notebook");
  link.href = new URL(`../../exercises/${notebook}`, import.meta.url).href;
  link.download = notebook;
  const made = element("p", "lesson-notebook");
  made.append(link, element("span", "hint", ", to run where specviz is installed"));
  return made;
}

// Return a link to the first step of a lesson, for other pages.
/** @param {string} lesson */
export function lessonLink(lesson) {
  return new URL(`${pageLink("learn")}&lesson=${encodeURIComponent(lesson)}`, window.location.href)
    .href;
}
