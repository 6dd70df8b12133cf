// Light or dark, normal or large type: follows the system until a person chooses, then remembers.

import { browser } from "./kept.js";

const [THEME, LARGE] = ["theme", "large"]; // what the browser remembers

export class Theme {
  /**
   * @param {HTMLElement} root
   * @param {Record<string, Palette>} palettes
   * @param {() => void} onChange
   */
  constructor(root, palettes, onChange) {
    this.root = root;
    this.palettes = palettes;
    this.onChange = onChange;
    this.system = window.matchMedia("(prefers-color-scheme: dark)");
    this.chosen = browser.recall(THEME) ?? "";
    this.isLarge = browser.recall(LARGE) === true;
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  }

  get name() {
    return this.chosen in this.palettes ? this.chosen : this.system.matches ? "dark" : "light";
  }

  get palette() {
    return this.palettes[this.name];
  }

  get selectColour() {
    return this.palette.select;
  }

  // Figures arrive in light colours; this maps each to the colour shown.
  get swap() {
    const light = this.palettes.light;
    return new Map(Object.keys(light).map((role) => [light[role], this.palette[role]]));
  }

  toggle() {
    this.chosen = this.name === "dark" ? "light" : "dark";
    browser.keep(THEME, this.chosen);
    this.apply();
  }

  toggleLarge() {
    this.isLarge = !this.isLarge;
    browser.keep(LARGE, this.isLarge);
    this.apply();
  }

  apply() {
    const page = document.documentElement;
    page.dataset.theme = this.name;
    document.body.classList.toggle("dark", this.name === "dark");
    this.root.classList.toggle("is-large", this.isLarge);
    for (const [role, colour] of Object.entries(this.palette)) {
      page.style.setProperty(`--${role.replaceAll("_", "-")}`, colour);
    }
    this.onChange();
  }
}
