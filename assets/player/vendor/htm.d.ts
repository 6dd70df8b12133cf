// The types of htm.js, for the type checker; no browser loads this file.
export { default } from "htm";
