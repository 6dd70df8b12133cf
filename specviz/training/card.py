"""What the README.md of every member of the family shares: front matter, data, licences, tables.

Every number comes from a run and its evaluation. Knows nothing of any one member.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import LlamaConfig

from specviz.training.corpus import FILES
from specviz.training.loop import Progress
from specviz.training.plan import FamilyPlan

FRONT_MATTER = """---
license: cc-by-2.0
language:
- en
- fr
{library}datasets:
- openai/gsm8k
tags:
- speculative-decoding
- {tag}
---
"""
LIBRARY = "library_name: transformers\npipeline_tag: text-generation\n"
SOURCES = """| text | task | licence |
|---|---|---|
| 23 English books of [Project Gutenberg](https://www.gutenberg.org) | story | public domain in the USA |
| [GSM8K](https://github.com/openai/grade-school-math) (OpenAI), the training part | maths | MIT |
| English-French sentence pairs of [Tatoeba](https://tatoeba.org), from [manythings.org/anki](https://www.manythings.org/anki/) | translate | CC-BY 2.0 France |
| the Python standard library (Python Software Foundation) | code, summarise | PSF licence |

GSM8K's test part and 40 documents of every other task were held out; all figures are measured
on 40 held-out documents per task.
"""  # noqa: E501
USE = """A document is a task's tag (`<|code|>`, `<|story|>`, `<|maths|>`, `<|translate|>`,
`<|summarise|>`), text, and `<|endoftext|>`. Prompts begin with the tag and end without a newline.
It is a teaching model: small enough to ship with the app, and never to be trusted in what it says.
"""
REPRODUCE = """## Reproduce
`make models CORPUS=DIR` in the specviz repository, or
`python -m specviz.training --corpus DIR --output assets/models --minutes {minutes:.0f}`, where DIR
holds {files}. The budget is wall-clock time, so a faster machine sees more tokens.
"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card tells besides an evaluation."""

    config: LlamaConfig
    parameters: int
    progress: Progress
    machine: str
    minutes: float  # of the whole family

    @classmethod
    def of(
        cls, plan: FamilyPlan, config: LlamaConfig, network: nn.Module, progress: Progress
    ) -> "CardFacts":
        """Facts of a network as it was trained."""
        parameters = sum(weight.numel() for weight in network.parameters())
        return cls(config, parameters, progress, plan.machine, plan.minutes)

    @property
    def million_tokens(self) -> str:
        """Of training, all passes together."""
        return f"{self.progress.tokens / 1e6:.1f} M tokens"

    @property
    def million_parameters(self) -> str:
        """All that was trained."""
        return f"{self.parameters / 1e6:.2f} M parameters"

    @property
    def effort(self) -> str:
        """Time and machine."""
        minutes = f"{self.progress.elapsed_seconds / 60:.0f} minutes"
        return f"{minutes} of wall-clock time on {self.machine}"


def write_card(
    folder: Path, name: str, tag: str, library: str, parts: Sequence[str], minutes: float
) -> None:
    """README.md: front matter and title, then the parts, then how to reproduce it."""
    title = f"{FRONT_MATTER.format(library=library, tag=tag)}# specviz {name}"
    files = ", ".join(f"`{file}`" for file in FILES)
    whole = [title, *parts, REPRODUCE.format(minutes=minutes, files=files)]
    text = "\n\n".join(part.strip() for part in whole) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(value: float) -> str:
    """0.625 -> "62 %"."""
    return f"{100 * value:.0f} %"
