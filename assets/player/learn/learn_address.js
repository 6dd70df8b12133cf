// The place in the course: ?view=learn&lesson=accept-or-reject&step=cases. Without a lesson, the list.

import { pageLink, setPage } from "../shared/page_parameter.js";

export const OF_A_LESSON = ["lesson", "step"]; // parameters

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

// From other pages: to a lesson's first step, without anything else.
/** @param {string} lesson */
export function lessonLink(lesson) {
  return new URL(`${pageLink("learn")}&lesson=${encodeURIComponent(lesson)}`, window.location.href).href;
}
