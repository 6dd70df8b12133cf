// What a person sees of a view, without a browser: the elements that are not hidden.

import { Component } from "../../assets/player/shared/view.js";

// Return the visible elements of a view in their order, as { type, props, text }. `text` is the
// text inside, including that of its children. A component with a life of its own, such as a
// chart, is one element without text; its `type` is its class.
export function elements(view) {
  return walk(view).elements;
}

// Return the visible text of a view, or of the first element that `fits`.
export function text(view, fits = null) {
  if (fits === null) return tidy(walk(view).text);
  return elements(view).find(fits)?.text ?? null;
}

// Return a test for elements by their name and some of their properties.
export function named(type, props = {}) {
  return (each) =>
    each.type === type &&
    Object.entries(props).every(([name, value]) => each.props[name] === value);
}

function walk(view) {
  if (view === null || view === undefined || typeof view === "boolean")
    return { text: "", elements: [] };
  if (typeof view !== "object") return { text: String(view), elements: [] };
  if (Array.isArray(view)) {
    const parts = view.map(walk);
    return {
      text: parts.map((part) => part.text).join(""),
      elements: parts.flatMap((part) => part.elements),
    };
  }
  const { type, props } = view;
  if (props.hidden) return { text: "", elements: [] };
  if (type.prototype instanceof Component)
    return { text: "", elements: [{ type, props, text: "" }] };
  if (typeof type === "function") return walk(type(props));
  const inside = walk(props.children);
  const own = { type, props, text: tidy(inside.text) };
  return { text: inside.text, elements: [own, ...inside.elements] };
}

function tidy(words) {
  return words.replace(/\s+/g, " ").trim();
}
