// The types of preact.js, for the type checker; no browser loads this file.
export * from "preact";
