"""The known pairs of target and draft, and which pair the app and the commands start with.

The known pairs are the chat model with its drafters, the bundled pair, pairs on the Hub, and any
two models that a user names. A pair only names the sources of its models. This module loads
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.folders import ASSETS
from specviz.models.files.chat_model import chat_model, is_chat_model
from specviz.models.files.chat_template_file import has_chat_template
from specviz.records import SETTINGS

CHAT = "smollm2"
# The name of the task whose prompts are messages; messages need a chat template.
CHAT_TASK = "chat"
BUNDLED = "bundled"
GET_CHAT_MODEL = f"python -m specviz models --get {CHAT}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and its optional drafters, each a folder, a GGUF file, a Hub id, or "".

    Users type `name` and see `title`. `claim` is a published speedup, which was not measured here.
    `gigabytes` is the size of both models in the dtype that `note` mentions. `instruct` and
    `model_type` describe the target before a download; `model_type` is the name of its architecture
    in config.json, or "" if unknown. `is_here` means that all files are on this machine. `method`
    is the drafting method to start with. `draft_length` is the draft length to start with for the
    methods in which the pair's draft model or one of its heads drafts.
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
    draft_length: int = SETTINGS["draft_length"].default
    gigabytes: float = 0.0

    def is_asked_to_chat(self, task: str | None) -> bool:
        """Return whether the prompts of a task are messages for this target, not texts to continue.

        Prompts are messages if the target is an instruct model. For the task "chat" they are
        messages as well, unless the target is known to have no chat template.
        """
        return self.instruct or (task == CHAT_TASK and has_chat_template(self.target) is not False)

    def model_name(self, role: str) -> str:
        """Return the name of one model of the pair, as the screen and traces show it.

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
        "on a token, so its draft of 7 billion is expensive.",
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
    """Return the folder of the bundled models: SPECVIZ_MODELS, or the folder inside specviz."""
    chosen = (environment or Environment.read()).models_folder
    return chosen or ASSETS / "models"


def chat_drafters(environment: Environment | None = None) -> Path:
    """Return the folder of the chat model's drafters."""
    return models_folder(environment) / "smollm2-135m"


def pairs() -> tuple[Pair, ...]:
    """Return all named pairs. The pair of the chat model and the bundled pair come first."""
    environment = Environment.read()
    return (_chat_pair(environment), _bundled_pair(environment), *_presets(environment))


def _presets(environment: Environment) -> Iterator[Pair]:
    """Yield the pairs on the Hub.

    On a public server, yield only the pairs that the server may download, because visitors cannot
    change the server's limit on downloads.
    """
    for pair in PRESETS:
        if not environment.is_public or pair.gigabytes <= environment.max_model_gb:
            yield pair


def default_pair() -> Pair:
    """Return the pair with which the app and the commands start.

    The setting SPECVIZ_PAIR names it. Without that setting, the default is the chat model if it is
    on this machine, otherwise the bundled pair.
    """
    chosen = Environment.read().pair
    if chosen:
        return pair_named(chosen)
    chat = pair_named(CHAT)
    return chat if chat.is_here else pair_named(BUNDLED)


def _chat_pair(environment: Environment) -> Pair:
    """Return the pair of the chat model and its bundled drafters."""
    found, drafters = chat_model(environment), chat_drafters(environment)
    return Pair(
        CHAT,
        found.title,
        found.source,
        _part(drafters / "draft"),
        "A chat model that answers in good English; 540 MB in float32."
        if found.is_here
        else f"Not on this machine; to fetch it, run: {GET_CHAT_MODEL}",
        instruct=True,
        model_type="llama",
        medusa=_part(drafters / "medusa"),
        eagle=_part(drafters / "eagle"),
        is_here=found.is_here,
        # Drafting with a quantised copy has the highest speedups of all methods on this pair.
        method="quantised-self",
        # The draft model and the heads are right too rarely for longer drafts: with K = 5, they
        # are slower than the baseline on some tasks, and with K = 2 on none.
        draft_length=2,
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
    """Return the pair with this name; "" means the default pair.

    Raises InputError if the pair does not exist. The message lists all pairs.
    """
    if not name:
        return default_pair()
    for pair in pairs():
        if pair.name == name:
            return pair
    names = ", ".join(pair.name for pair in pairs())
    raise InputError(f"pair must be one of {names}, got {short(name)}")


def check_offered(sources: dict[str, str], environment: Environment) -> None:
    """Raise InputError if this server does not offer one of the sources.

    `sources` maps a role, such as "target", to a source.
    """
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
    """Return a pair of any two models, or a target alone, with heads that were trained for it.

    The draft may have another vocabulary. If the target is the chat model, its bundled heads are
    added. A public server refuses models that it does not offer, without reading them.
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
