"""Check command lines with vLLM's own validator; run this file with the Python that has vLLM.

Stdin has a JSON list of commands; each is a list of the words after `vllm serve`. The last line of
stdout is a JSON list: null for a valid command, otherwise its error. No weights are loaded and no
server starts.
"""

import json
import os
import sys

os.environ.update(VLLM_TARGET_DEVICE="cpu", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
os.environ.update(VLLM_LOGGING_LEVEL="ERROR", VLLM_CPU_KVCACHE_SPACE="1")

from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup  # noqa: E402


def error_of(words: list[str]) -> str | None:
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    parser.add_argument("--port", type=int)  # vLLM's server has these two flags, its engine has not
    parser.add_argument("--host")
    dtype = "bfloat16" if "quantization" in " ".join(words) else "float32"
    try:
        config = AsyncEngineArgs.from_cli_args(
            parser.parse_args(["--model", *words, "--dtype", dtype, "--enforce-eager"])
        ).create_engine_config()
        speculative = config.speculative_config
        if speculative is not None and speculative.num_speculative_tokens_per_batch_size:
            build_dynamic_sd_schedule_lookup(  # vLLM's scheduler makes the same call when it starts
                [list(each) for each in speculative.num_speculative_tokens_per_batch_size],
                config.scheduler_config.max_num_seqs,
                speculative.num_speculative_tokens,
            )
    except SystemExit:
        return "the parser refuses a flag"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


print(json.dumps([error_of(words) for words in json.load(sys.stdin)]))
