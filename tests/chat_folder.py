"""Make a folder with a very small chat model: the bundled draft model with a chat template."""

from __future__ import annotations

import shutil
from pathlib import Path

BUNDLED_DRAFT = Path(__file__).parent.parent / "assets" / "models" / "draft"
TEMPLATE = (
    "{% for turn in messages %}<|story|>{{ turn.role }}\n{{ turn.content }}<|endoftext|>"
    "{% endfor %}{% if add_generation_prompt %}<|story|>assistant\n{% endif %}"
)


def chat_folder(path: Path) -> str:
    """Write the model into a new folder below `path`; return the folder's name."""
    folder = path / "chat"
    shutil.copytree(BUNDLED_DRAFT, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)
