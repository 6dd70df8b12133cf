"""Which pairs of target and draft there are: the chat model and what drafts for it, the bundled
pair, ones from the Hub, any two. Which of them page and commands begin with.

A pair names sources; nothing is loaded here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.folders import ASSETS
from specviz.models.files.chat_model import chat_model, is_chat_model

CHAT = "smollm2"
BUNDLED = "bundled"
GET_CHAT_MODEL = f"python -m specviz models --get {CHAT}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and what can be beside it: each a folder, a GGUF file or a Hub id, "" for none.

    `name` is typed, `title` is shown. `claim` is what others say of the pair: nothing of it is
    measured here. `gigabytes` are what both models take as `note` says. `instruct` and `model_type`
    (the architecture in the words of a configuration, "" where unknown) are about the target, for
    what must be known before a download. `is_here`: all of it is known to lie on this machine.
    `method` is the one to begin with.
    """

    name: str
    title: str
    target: str
    draft: str
    note: str = ""
    claim: str = ""
    instruct: bool = False
    model_type: str = ""
    medusa: str = ""
    eagle: str = ""
    foreign_draft: str = ""
    is_here: bool = False
    method: str = "draft-model"
    gigabytes: float = 0.0

    def model_name(self, role: str) -> str:
        """What a model of the pair is called on screen and in traces.

        `role` is "target", "draft" or "foreign draft".
        """
        if self.name == BUNDLED:
            return f"bundled {role}"
        if self.name == CHAT:
            return self.title if role == "target" else f"{role} for SmolLM2"
        return {"target": self.target, "draft": self.draft}.get(role, self.foreign_draft)


def _claimed(what: str) -> str:
    return f"Claimed elsewhere: {what} (not measured here)."


PRESETS = (
    Pair(
        "smollm2-360m",
        "SmolLM2 360M and 135M",
        "HuggingFaceTB/SmolLM2-360M",
        "HuggingFaceTB/SmolLM2-135M",
        "Readable English on a laptop; 2 GB in float32.",
        model_type="llama",
        gigabytes=2,
    ),
    Pair(
        "smollm2-1.7b",
        "SmolLM2 1.7B and 135M, instruct",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "Answers questions on a free Space; 3.7 GB in bfloat16, a draft 13 times smaller.",
        instruct=True,
        model_type="llama",
        gigabytes=3.7,
    ),
    Pair(
        "gpt2",
        "GPT-2 medium and DistilGPT-2",
        "openai-community/gpt2-medium",
        "distilbert/distilgpt2",
        "The classic with learned positions; 1.7 GB in float32.",
        model_type="gpt2",
        gigabytes=1.7,
    ),
    Pair(
        "gpt2-small",
        "GPT-2 and DistilGPT-2",
        "openai-community/gpt2",
        "distilbert/distilgpt2",
        "A draft of half the layers, two thirds of the size: expect a loss, not a speedup. "
        "0.8 GB in float32.",
        model_type="gpt2",
        gigabytes=0.8,
    ),
    Pair(
        "gpt2-xl",
        "GPT-2 XL and DistilGPT-2",
        "openai-community/gpt2-xl",
        "distilbert/distilgpt2",
        "A draft 19 times smaller; 6.6 GB in float32.",
        _claimed("1.5x at 65 % acceptance"),
        model_type="gpt2",
        gigabytes=6.6,
    ),
    Pair(
        "pythia",
        "Pythia 410M and 70M",
        "EleutherAI/pythia-410m",
        "EleutherAI/pythia-70m",
        "A draft nearly six times smaller; 1.9 GB in float32.",
        model_type="gpt_neox",
        gigabytes=1.9,
    ),
    Pair(
        "qwen3",
        "Qwen3 1.7B and 0.6B",
        "Qwen/Qwen3-1.7B-Base",
        "Qwen/Qwen3-0.6B-Base",
        "For a GPU, or a patient CPU; 4.6 GB in bfloat16.",
        model_type="qwen3",
        gigabytes=4.6,
    ),
    Pair(
        "qwen3-instruct",
        "Qwen3 1.7B and 0.6B, instruct",
        "Qwen/Qwen3-1.7B",
        "Qwen/Qwen3-0.6B",
        "Thinks before it answers; 4.6 GB in bfloat16.",
        instruct=True,
        model_type="qwen3",
        gigabytes=4.6,
    ),
    Pair(
        "llama3-70b",
        "Llama 3.1 70B and Llama 3.2 3B, instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.2-3B-Instruct",
        "For two GPUs of 80 GB; 148 GB in bfloat16. Gated.",
        _claimed("2-3x at 80 % acceptance"),
        instruct=True,
        model_type="llama",
        gigabytes=148,
    ),
    Pair(
        "llama3-70b-8b",
        "Llama 3.1 70B and 8B, instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.1-8B-Instruct",
        "For several GPUs; 157 GB in bfloat16. Gated.",
        instruct=True,
        model_type="llama",
        gigabytes=157,
    ),
    Pair(
        "mixtral",
        "Mixtral 8x7B and Mistral 7B, instruct",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "mistralai/Mistral-7B-Instruct-v0.2",
        "For several GPUs; 108 GB in bfloat16. About 13 of the target's 47 billion parameters work "
        "on a token, so its draft of 7 billion is dear.",
        _claimed("1.5-2x at 70 % acceptance"),
        instruct=True,
        model_type="mixtral",
        gigabytes=108,
    ),
    Pair(
        "qwen2.5-72b",
        "Qwen2.5 72B and 7B, instruct",
        "Qwen/Qwen2.5-72B-Instruct",
        "Qwen/Qwen2.5-7B-Instruct",
        "For several GPUs; 161 GB in bfloat16.",
        _claimed("2-2.5x at 75 % acceptance"),
        instruct=True,
        model_type="qwen2",
        gigabytes=161,
    ),
)


def models_folder(environment: Environment | None = None) -> Path:
    """The folder of the bundled models: SPECVIZ_MODELS, or those that come with specviz."""
    chosen = (environment or Environment.read()).models_folder
    return chosen or ASSETS / "models"


def chat_drafters(environment: Environment | None = None) -> Path:
    """The folder of what drafts for the chat model."""
    return models_folder(environment) / "smollm2-135m"


def pairs() -> tuple[Pair, ...]:
    """Every pair that has a name here: the chat model and the bundled one come first."""
    environment = Environment.read()
    return (_chat_pair(environment), _bundled_pair(environment), *_presets(environment))


def _presets(environment: Environment) -> Iterator[Pair]:
    """In public only those that this installation may fetch: nobody there could mend the rest."""
    for pair in PRESETS:
        if not environment.is_public or pair.gigabytes <= environment.max_model_gb:
            yield pair


def default_pair() -> Pair:
    """The pair that page and commands begin with.

    SPECVIZ_PAIR names it; else it is the chat model where that is on this machine.
    """
    chosen = Environment.read().pair
    if chosen:
        return pair_named(chosen)
    chat = pair_named(CHAT)
    return chat if chat.is_here else pair_named(BUNDLED)


def _chat_pair(environment: Environment) -> Pair:
    """The chat model with the drafters that are bundled for it."""
    found, drafters = chat_model(environment), chat_drafters(environment)
    return Pair(
        CHAT,
        found.title,
        found.source,
        _part(drafters / "draft"),
        "A chat model that answers in good English; 540 MB in float32."
        if found.is_here
        else f"Not on this machine; fetched by: {GET_CHAT_MODEL}",
        instruct=True,
        model_type="llama",
        medusa=_part(drafters / "medusa"),
        eagle=_part(drafters / "eagle"),
        is_here=found.is_here,
        # the median speedup of six tasks at temperature 0: 1.85 with a copy in int4, whose least is
        # 1.65; prompt lookup 1.22 (2.5 on a summary, 1.03 on a story), the EAGLE head 1.15, the
        # Medusa heads 1.09, the small draft model 1.0
        method="quantised-self",
    )


def _bundled_pair(environment: Environment) -> Pair:
    folder = models_folder(environment)
    return Pair(
        BUNDLED,
        "Bundled pair",
        str(folder / "target"),
        str(folder / "draft"),
        "Comes with the app; needs no download.",
        model_type="" if environment.models_folder else "llama",
        medusa=_part(folder / "medusa"),
        eagle=_part(folder / "eagle"),
        foreign_draft=_part(folder / "foreign-draft"),
        is_here=True,
    )


def _part(folder: Path) -> str:
    return str(folder) if folder.is_dir() else ""


def pair_named(name: str) -> Pair:
    """The pair of that name, "" being the default one; InputError lists the names there are."""
    if not name:
        return default_pair()
    for pair in pairs():
        if pair.name == name:
            return pair
    names = ", ".join(pair.name for pair in pairs())
    raise InputError(f"pair must be one of {names}, got {name!r}")


def check_offered(sources: dict[str, str], environment: Environment) -> None:
    """Raise InputError for a source, by its role, that this installation does not offer."""
    if not environment.is_public:
        return
    offered = {*environment.allowed_models}
    for pair in pairs():
        offered |= {pair.target, pair.draft, pair.foreign_draft, pair.medusa, pair.eagle}
    for role, source in sources.items():
        if source and source not in offered:
            more = f" or one of {', '.join(environment.allowed_models)}"
            raise InputError(
                f"{role} must be a model of the menu{more if environment.allowed_models else ''}: "
                f"this server is public and runs no others, got {short(source)}"
            )


def custom_pair(target: str, draft: str = "", eagle: str = "", medusa: str = "") -> Pair:
    """A pair of any two sources, or a target alone, and heads that were trained on it.

    The draft may also have a vocabulary of its own. The chat model has its heads here, too. In
    public a source has to be one that is offered; others are refused without a look at them.
    """
    target, draft = target.strip(), draft.strip()
    heads = {"eagle": eagle.strip(), "medusa": medusa.strip()}
    if not target:
        raise InputError(f"target must be a model folder, a GGUF file or a Hub id, got {target!r}")
    check_offered({"target": target, "draft": draft, **heads}, Environment.read())
    title = f"{target} and {draft}" if draft else target
    if is_chat_model(target):
        heads = {name: source or _part(chat_drafters() / name) for name, source in heads.items()}
    return Pair(
        "custom",
        title,
        target,
        draft,
        medusa=heads["medusa"],
        eagle=heads["eagle"],
        foreign_draft=draft,
    )
