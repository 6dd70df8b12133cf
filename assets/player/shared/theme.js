// The theme: light or dark colours, normal or large text. It follows the system until the user
// makes a choice, which the browser remembers.

import { browser } from "./kept.js";

const [THEME, LARGE] = ["theme", "large"]; // names of the stored choices

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

  // A map from each colour of the light theme to the current theme's colour. Charts arrive in light
  // colours.
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
