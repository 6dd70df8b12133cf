"""The bundled draft with a chat template, as a folder: the smallest chat model that there is."""

from __future__ import annotations

import shutil
from pathlib import Path

BUNDLED_DRAFT = Path(__file__).parent.parent / "assets" / "models" / "draft"
TEMPLATE = (
    "{% for turn in messages %}<|story|>{{ turn.role }}\n{{ turn.content }}<|endoftext|>"
    "{% endfor %}{% if add_generation_prompt %}<|story|>assistant\n{% endif %}"
)


def chat_folder(path: Path) -> str:
    """Write the model below `path`; the name of its folder."""
    folder = path / "chat"
    shutil.copytree(BUNDLED_DRAFT, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)
