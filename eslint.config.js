import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["assets/player/vendor/"] },
  js.configs.recommended,
  {
    files: ["assets/player/**/*.js"],
    languageOptions: { globals: globals.browser },
  },
  {
    files: ["tests/player/**/*.js", "eslint.config.js"],
    languageOptions: { globals: globals.node },
  },
  {
    rules: {
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-unused-vars": [
        "error",
        { args: "after-used", argsIgnorePattern: "^_", varsIgnorePattern: "^_" },
      ],
      "no-var": "error",
      "prefer-const": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-duplicate-imports": "error",
      "no-self-compare": "error",
      "no-shadow": ["error", { allow: ["name", "event"] }],
    },
  },
];
