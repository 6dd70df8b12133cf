"""Race a small random pair of every causal architecture in transformers.

`python -m tests.models.walked_architectures` writes docs/architectures.md.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError, first_line
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.files.small_twin import random_model, small_config
from specviz.models.files.tree_check import check_config
from specviz.models.pair_catalog import Pair, custom_pair
from specviz.models.pair_loading import _store
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig, Drawing
from tests.models.conftest import build_tokenizer

TABLE = Path(__file__).parents[2] / "docs" / "architectures.md"
EXACT, REFUSED, BROKEN = "exact", "refused", "not tried"
METHODS = ("prompt-lookup", "draft-tree")
PROMPT = "ab ab ab ab"
TOKENS = 24
# The strength of the noise that is added to the target's weights to get the draft. It is so weak
# that the target accepts some of the draft's tokens.
DRAFT_NOISE = 0.03
# Configuration fields that a class needs and that neither its defaults nor the general rules
# provide.
CHANGES: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma3n_text": {
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "hidden_size_per_layer_input": 16,
        "activation_sparsity_pattern": [0.0] * 6,
        "intermediate_size": [96] * 6,
        "laurel_rank": 8,
    },
    "gemma4_text": {
        "num_hidden_layers": 6,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "hidden_size_per_layer_input": 16,
        "per_layer_config": None,
        "global_head_dim": 32,
    },
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "moe_topk": 2, "num_experts": 4, "num_shared_expert": 1},
    "ministral": {"head_dim": 16},
    "nemotron": {"head_dim": 16, "num_key_value_heads": 2},
    "rembert": {"input_embedding_size": 32, "output_embedding_size": 48},
    "roc_bert": {"pronunciation_embed_dim": 16, "shape_embed_dim": 16},
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for an architecture, with its reason."""

    word: str
    reason: str = ""


def architectures() -> list[str]:
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def verdict_on(kind: str) -> Verdict:
    """Race a small model of that architecture.

    Return EXACT, or REFUSED or BROKEN with the reason.

    Raises AssertionError if a greedy text differs from plain decoding or from transformers.
    """
    try:
        config = CONFIG_MAPPING[kind]()
        check_config(kind, config)
        config = small_config(config, **CHANGES.get(kind, {}))
        with torch.device("meta"):
            transformers.AutoModelForCausalLM.from_config(config)
    except InputError as error:
        return Verdict(REFUSED, _bare(error, kind))
    except Exception as error:
        return Verdict(BROKEN, f"its default configuration gives no model ({_plain(error)})")
    folder = Path(tempfile.mkdtemp(prefix="walk"))
    try:
        return _raced(kind, config, folder)
    finally:
        _store.clear()
        shutil.rmtree(folder)


def _raced(kind: str, config: Any, folder: Path) -> Verdict:
    try:
        pair = _saved(config, folder)
    except Exception as error:
        return Verdict(BROKEN, f"transformers cannot save it ({_plain(error)})")
    try:
        for method in METHODS:
            prompt_ids, plain, drafted = _texts(pair, method)
            assert plain == drafted, f"{kind}: {method} writes another text"
    except InputError as error:
        return Verdict(REFUSED, _bare(error, kind))
    expected, margin = library_text(pair.target, prompt_ids, len(plain))
    assert plain == expected or margin < 1e-4, f"{kind}: the library writes another text"
    return Verdict(EXACT)


def _saved(config: Any, folder: Path) -> Pair:
    for name in ("target", "draft"):
        module = random_model(config)
        if name == "draft":
            draw = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for weight in module.parameters():
                    if weight.ndim > 1:
                        noise = torch.randn(weight.shape, generator=draw)
                        weight.add_(noise * 0.2 * DRAFT_NOISE)
        module.generation_config = transformers.GenerationConfig(eos_token_id=0, pad_token_id=0)
        module.save_pretrained(folder / name)
        build_tokenizer().save_pretrained(folder / name)
    return custom_pair(str(folder / "target"), str(folder / "draft"))


def _texts(pair: Pair, method: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the prompt, the plain output and the speculative output, greedy in float32."""
    config = DecodingConfig(
        method=method,
        branching=DRAFTERS[method].default_branching,
        drawing=Drawing.CHOSEN,
        draft_length=4,
        temperature=0,
        max_new_tokens=TOKENS,
    )
    race = start_race(RaceRequest(pair, PROMPT, config, device="cpu"))
    for lane in (BASELINE, SPECULATIVE):
        for _ in race.run_lane(lane):
            pass
    return race.header.prompt_ids, race.emitted_ids(BASELINE), race.emitted_ids(SPECULATIVE)


def library_text(
    folder: str, prompt_ids: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], float]:
    """Return the text that transformers writes without a cache.

    The second value is the smallest gap between the two best logits.
    """
    module = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids, margin = list(prompt_ids), float("inf")
    with torch.inference_mode():
        for _ in range(count):
            logits = module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1, :259]
            best = logits.topk(2).values
            margin = min(margin, float(best[0] - best[1]))
            ids.append(int(logits.argmax()))
    return tuple(ids[len(prompt_ids) :]), margin


def _bare(error: InputError, kind: str) -> str:
    """Return the error's reason, without the model's name and without the advice at its end."""
    text = re.sub(r"^model '[^']*' (\([^)]*\) )?", "", str(error)).partition(": choose")[0]
    return text.replace(f" ({kind})", "").replace("|", "/")


def _plain(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)[:200]}".replace("|", "/")


def table_text(verdicts: dict[str, Verdict]) -> str:
    counts = {word: sum(each.word == word for each in verdicts.values()) for word in _WORDS}
    rows = "\n".join(
        f"| `{kind}` | {each.word} | {each.reason} |" for kind, each in sorted(verdicts.items())
    )
    return f"""# Architectures

These are all {len(verdicts)} architectures of `AutoModelForCausalLM` in transformers
{transformers.__version__}. `make architectures` builds a small random model of each, decodes with
it and writes this table; a test compares the two.

| verdict | architectures | meaning |
|---|---|---|
| {EXACT} | {counts[EXACT]} | {_WORDS[EXACT]} |
| {REFUSED} | {counts[REFUSED]} | {_WORDS[REFUSED]} |
| {BROKEN} | {counts[BROKEN]} | {_WORDS[BROKEN]} |

Verdicts are those of the default configuration. A setting can change a verdict: Falcon with ALiBi
is refused, and a BERT that is configured as a decoder may run. For one model,
`python -m specviz models --check MODEL` gives the verdict before any weights are fetched.

| architecture | verdict | reason |
|---|---|---|
{rows}
"""


_WORDS = {
    EXACT: "greedy texts of `prompt-lookup` and `draft-tree` equal plain decoding and the "
    "library's own forward over the whole text, in float32",
    REFUSED: "the model is not loaded, for the reason given",
    BROKEN: "no small model could be built from the default configuration",
}


def documented() -> dict[str, Verdict]:
    """Return architecture -> verdict, read from the table in docs/architectures.md."""
    rows = re.findall(r"^\| `([^`]+)` \| (\w[\w ]*) \| (.*) \|$", TABLE.read_text("utf-8"), re.M)
    return {kind: Verdict(word, reason.strip()) for kind, word, reason in rows}


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    verdicts = {kind: verdict_on(kind) for kind in architectures()}
    TABLE.write_text(table_text(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main()
