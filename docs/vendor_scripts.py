"""Copy the view library of the browser's part into assets/player/vendor: `make vendor`.

package.json pins the versions, and npm checks the packages against package-lock.json. The copies
are exact. `vendored.json` records the version and the SHA-256 hash of each copy, so that a test can
compare them without node. Each library's licence is next to its copy.
"""

import json
import shutil
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "node_modules"
VENDOR = ROOT / "assets" / "player" / "vendor"
RECORD = VENDOR / "vendored.json"
# Package of npm -> its module without imports. The copy has the name of the package.
MODULES = {"preact": "dist/preact.mjs", "htm": "dist/htm.mjs"}


def copy_modules() -> None:
    """Replace the copies by the files of the installed packages, and record their hashes."""
    record = {}
    for package, module in MODULES.items():
        folder = PACKAGES / package
        copy = VENDOR / f"{package}.js"
        shutil.copyfile(folder / module, copy)
        shutil.copyfile(folder / "LICENSE", VENDOR / f"{package}.LICENSE.txt")
        record[copy.name] = {
            "package": package,
            "version": json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"],
            "module": module,
            "sha256": sha256(copy.read_bytes()).hexdigest(),
        }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    copy_modules()
