// Light or dark, normal or large type: follows the system until a person chooses, then remembers.

const KEYS = { theme: "specviz-theme", large: "specviz-large" };

export class Theme {
  constructor(root, palettes, onChange) {
    this.root = root;
    this.palettes = palettes;
    this.onChange = onChange;
    this.system = window.matchMedia("(prefers-color-scheme: dark)");
    this.chosen = remembered(KEYS.theme) ?? "";
    this.isLarge = remembered(KEYS.large) === "yes";
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
    remember(KEYS.theme, this.chosen);
    this.apply();
  }

  toggleLarge() {
    this.isLarge = !this.isLarge;
    remember(KEYS.large, this.isLarge ? "yes" : "no");
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

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // private windows may refuse storage
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The choice then lasts until the page closes.
  }
}
