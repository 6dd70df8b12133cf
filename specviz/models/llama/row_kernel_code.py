"""The small operations of a layer on few rows, as LLVM code: norm, gate, rotation and attention.

For so few rows, calling torch takes longer than the operation itself. Vectors have 16 lanes; on
processors with shorter registers LLVM splits them. Every row is computed alone and always in the
same order. So the bits of its result do not depend on the other rows.

Every function computes one thread's share of an operation. In shapes, T is the number of rows, N
the number of tokens, M the number of layers, W the hidden size, I the width of the gate, A the
number of query heads, G the number of key-value heads, D the head size and E the number of slots.
"""

from __future__ import annotations

import math
import struct
from enum import Enum

from specviz.models.matrix_kernels.bfloat_code import to_bfloat16

LANES = 16
# The value of x below which the kernels treat exp(x) as zero.
MASKED = -87.0
# The value of x above which the kernels treat exp(x) as infinite.
MOST = 88.0


class CachedType(Enum):
    """The type of keys and values in the cache, with its name in LLVM."""

    FLOAT32 = "float"
    BFLOAT16 = "bfloat"


# Each function gets its arguments as pointers and sizes of eight bytes each. `eps` is a float32 in
# the first four of its eight bytes.
NORM_FIELDS = ("x", "weight", "y", "rows", "width", "eps")
GATED_FIELDS = ("x", "y", "rows", "inner")
ROUND_FIELDS = ("x", "rows", "width")
# The arguments of the functions `place` and `attend`.
HEAD_FIELDS = (
    "frame",  # address of the arguments in FRAME_FIELDS
    "joined",  # [N, A + 2 G, D]: queries, keys and values
    "mixed",  # [N, A, D], the result of `attend`
    "layer",  # index of the layer in the cache
    "tokens",
    "query_heads",
    "key_heads",
)
# Arguments that are the same for all layers of one forward. If `angles` is null, `place` does not
# rotate queries and keys. If `keys` is null, `place` does not store keys and values. If `mask` is
# null, every token sees the slots up to its own.
FRAME_FIELDS = (
    "keys",  # [M, 2 G, …, D]: first layer of the cache, key heads before value heads
    "mask",  # [N, E], added to the scores
    "scores",  # [threads, E rounded up to whole vectors], scratch memory
    "angles",  # [N, 2 D]: D cosines, then D sines, of which the first D / 2 are negated
    "head_stride",  # number of values between two heads of the cache
    "start",  # the cache slot of the first of the N tokens
    "end",  # E, the number of slots
    "scores_stride",
)
_POINTERS = ("x", "weight", "y", "frame", "joined", "mixed", "keys", "mask", "scores", "angles")

_V = f"<{LANES} x float>"
_W = f"<{LANES} x i32>"
_HALVES = f"<{LANES} x bfloat>"
_BITS = f"<{LANES} x i16>"
_SUM = f"call reassoc float @llvm.vector.reduce.fadd.v{LANES}f32"


def _float(value: float) -> str:
    """Return a float32 constant in LLVM's form: the bits of the same number as a double.

    >>> _float(-0.5)
    '0xBFE0000000000000'
    """
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", rounded))
    return f"0x{bits:016X}"


def _all(value: float) -> str:
    return "<" + ", ".join([f"float {_float(value)}"] * LANES) + ">"


def _words(value: int) -> str:
    return "<" + ", ".join([f"i32 {value}"] * LANES) + ">"


def _splat(name: str, scalar: str) -> str:
    return f"""  {name}_one = insertelement {_V} undef, float {scalar}, i32 0
  {name} = shufflevector {_V} {name}_one, {_V} undef, {_W} zeroinitializer
"""


_HEAD = f"""
declare {_V} @llvm.fma.v{LANES}f32({_V}, {_V}, {_V})
declare {_V} @llvm.rint.v{LANES}f32({_V})
declare {_V} @llvm.maxnum.v{LANES}f32({_V}, {_V})
declare {_V} @llvm.minnum.v{LANES}f32({_V}, {_V})
declare float @llvm.sqrt.f32(float)
declare float @llvm.vector.reduce.fadd.v{LANES}f32(float, {_V})
declare float @llvm.vector.reduce.fmax.v{LANES}f32({_V})
attributes #0 = {{ nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }}
"""

# e^x = 2^n e^r with n = round(x / log 2). The polynomial for e^r is from the Cephes library.
_TERMS = (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _exp() -> str:
    fma = f"call {_V} @llvm.fma.v{LANES}f32"
    lines = [
        f"define internal {_V} @exp({_V} %x) #0 {{",
        f"  %low = call {_V} @llvm.maxnum.v{LANES}f32({_V} %x, {_V} {_all(MASKED)})",
        f"  %bound = call {_V} @llvm.minnum.v{LANES}f32({_V} %low, {_V} {_all(MOST)})",
        f"  %ratio = fmul {_V} %bound, {_all(1.44269504088896341)}",
        f"  %n = call {_V} @llvm.rint.v{LANES}f32({_V} %ratio)",
        f"  %near = {fma}({_V} %n, {_V} {_all(-0.693359375)}, {_V} %bound)",
        f"  %r = {fma}({_V} %n, {_V} {_all(2.12194440054690583e-4)}, {_V} %near)",
        f"  %p0 = fadd {_V} {_all(1.9875691500e-4)}, zeroinitializer",
    ]
    for k, term in enumerate(_TERMS):
        lines.append(f"  %p{k + 1} = {fma}({_V} %p{k}, {_V} %r, {_V} {_all(term)})")
    lines += [
        f"  %square = fmul {_V} %r, %r",
        f"  %bent = {fma}({_V} %p{len(_TERMS)}, {_V} %square, {_V} %r)",
        f"  %whole = fadd {_V} %bent, {_all(1.0)}",
        f"  %exponent = fptosi {_V} %n to {_W}",
        f"  %biased = add {_W} %exponent, {_words(127)}",
        f"  %bits = shl {_W} %biased, {_words(23)}",
        f"  %power = bitcast {_W} %bits to {_V}",
        f"  %found = fmul {_V} %whole, %power",
        f"  %is_zero = fcmp olt {_V} %x, {_all(MASKED)}",
        f"  %small = select <{LANES} x i1> %is_zero, {_V} zeroinitializer, {_V} %found",
        # `ugt` (unordered or greater) is also true if x is NaN. The result is then NaN + infinity,
        # which is NaN, as it should be.
        f"  %is_large = fcmp ugt {_V} %x, {_all(MOST)}",
        f"  %large = fadd {_V} %x, {_all(math.inf)}",
        f"  %result = select <{LANES} x i1> %is_large, {_V} %large, {_V} %small",
        f"  ret {_V} %result",
        "}",
    ]
    return "\n".join(lines)


def _fields(names: tuple[str, ...], pointer: str = "%call") -> str:
    """Return code that loads the arguments that `pointer` points to."""
    lines = []
    for index, name in enumerate(names):
        kind = "ptr" if name in _POINTERS else "float" if name == "eps" else "i64"
        lines.append(f"  %{name}_in = getelementptr i64, ptr {pointer}, i64 {index}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}_in")
    return "\n".join(lines)


# Code that computes which of `%all` items one thread gets: those from `%first` up to, but not
# including, `%last`.
_ITS_SHARE = """  %before = mul i64 %all, %thread
  %first = udiv i64 %before, %threads
  %following = add i64 %thread, 1
  %within = mul i64 %all, %following
  %last = udiv i64 %within, %threads
  %any = icmp ult i64 %first, %last"""

# Norm: x / sqrt(mean(x^2) + eps) * weight for each row. Each thread computes
# some of the rows.
_NORM = f"""
define void @norm(ptr %call, i64 %thread, i64 %threads) #0 {{
entry:
{_fields(NORM_FIELDS)}
  %all = add i64 %rows, 0
{_ITS_SHARE}
  %wide = uitofp i64 %width to float
  br i1 %any, label %row, label %done
row:
  %t = phi i64 [%first, %entry], [%t_next, %row_end]
  %offset = mul i64 %t, %width
  %x_t = getelementptr float, ptr %x, i64 %offset
  %y_t = getelementptr float, ptr %y, i64 %offset
  br label %square
square:
  %i = phi i64 [0, %row], [%i_next, %square]
  %sum = phi {_V} [zeroinitializer, %row], [%sum_next, %square]
  %x_at = getelementptr float, ptr %x_t, i64 %i
  %value = load {_V}, ptr %x_at, align 4
  %sum_next = call {_V} @llvm.fma.v{LANES}f32({_V} %value, {_V} %value, {_V} %sum)
  %i_next = add i64 %i, {LANES}
  %more = icmp ult i64 %i_next, %width
  br i1 %more, label %square, label %scale
scale:
  %total = {_SUM}(float 0.0, {_V} %sum_next)
  %mean = fdiv float %total, %wide
  %biased = fadd float %mean, %eps
  %root = call float @llvm.sqrt.f32(float %biased)
  %factor = fdiv float 1.0, %root
{_splat("%factors", "%factor")}  br label %write
write:
  %j = phi i64 [0, %scale], [%j_next, %write]
  %from = getelementptr float, ptr %x_t, i64 %j
  %own = load {_V}, ptr %from, align 4
  %weight_at = getelementptr float, ptr %weight, i64 %j
  %weights = load {_V}, ptr %weight_at, align 4
  %scaled = fmul {_V} %own, %factors
  %result = fmul {_V} %scaled, %weights
  %to = getelementptr float, ptr %y_t, i64 %j
  store {_V} %result, ptr %to, align 4
  %j_next = add i64 %j, {LANES}
  %is_left = icmp ult i64 %j_next, %width
  br i1 %is_left, label %write, label %row_end
row_end:
  %t_next = add i64 %t, 1
  %more_rows = icmp ult i64 %t_next, %last
  br i1 %more_rows, label %row, label %done
done:
  ret void
}}"""

# Gate: silu(gate) * up, for rows [2 I] that contain gate and up. Each thread computes
# some of the I columns, in all rows.
_GATED = f"""
define void @gated(ptr %call, i64 %thread, i64 %threads) #0 {{
entry:
{_fields(GATED_FIELDS)}
  %all = udiv i64 %inner, {LANES}
{_ITS_SHARE}
  %start = mul i64 %first, {LANES}
  %end = mul i64 %last, {LANES}
  br i1 %any, label %row, label %done
row:
  %t = phi i64 [0, %entry], [%t_next, %row_end]
  %y_offset = mul i64 %t, %inner
  %x_offset = mul i64 %y_offset, 2
  %gates = getelementptr float, ptr %x, i64 %x_offset
  %ups = getelementptr float, ptr %gates, i64 %inner
  %y_t = getelementptr float, ptr %y, i64 %y_offset
  br label %write
write:
  %i = phi i64 [%start, %row], [%i_next, %write]
  %gate_at = getelementptr float, ptr %gates, i64 %i
  %gate = load {_V}, ptr %gate_at, align 4
  %up_at = getelementptr float, ptr %ups, i64 %i
  %up = load {_V}, ptr %up_at, align 4
  %negative = fneg {_V} %gate
  %power = call {_V} @exp({_V} %negative)
  %below = fadd {_V} %power, {_all(1.0)}
  %silu = fdiv {_V} %gate, %below
  %result = fmul {_V} %silu, %up
  %to = getelementptr float, ptr %y_t, i64 %i
  store {_V} %result, ptr %to, align 4
  %i_next = add i64 %i, {LANES}
  %more = icmp ult i64 %i_next, %end
  br i1 %more, label %write, label %row_end
row_end:
  %t_next = add i64 %t, 1
  %more_rows = icmp ult i64 %t_next, %rows
  br i1 %more_rows, label %row, label %done
done:
  ret void
}}"""


# Rounding: each value of x becomes the nearest bfloat16 number. Each thread rounds some of the
# rows.
_ROUNDED = f"""
define void @rounded(ptr %call, i64 %thread, i64 %threads) #0 {{
entry:
{_fields(ROUND_FIELDS)}
  %all = add i64 %rows, 0
{_ITS_SHARE}
  %i_first = mul i64 %first, %width
  %i_last = mul i64 %last, %width
  br i1 %any, label %write, label %done
write:
  %i = phi i64 [%i_first, %entry], [%i_next, %write]
  %at = getelementptr float, ptr %x, i64 %i
  %value = load {_V}, ptr %at, align 4
{to_bfloat16("%rounded", "%value", LANES)}
  %half = bitcast {_BITS} %rounded to {_HALVES}
  %whole = fpext {_HALVES} %half to {_V}
  store {_V} %whole, ptr %at, align 4
  %i_next = add i64 %i, {LANES}
  %more = icmp ult i64 %i_next, %i_last
  br i1 %more, label %write, label %done
done:
  ret void
}}"""


def _place(size: int, cached: CachedType) -> str:
    """Return the code of `place`: rotate queries and keys, store keys and values in the cache.

    Queries and keys are rotated in place. The threads share the heads of all tokens.
    """
    lines = [
        f"""
define void @place(ptr %call, i64 %thread, i64 %threads) #0 {{
entry:
{_fields(HEAD_FIELDS)}
{_fields(FRAME_FIELDS, "%frame")}
  %two = mul i64 %key_heads, 2
  %per_token = add i64 %query_heads, %two
  %turned = add i64 %query_heads, %key_heads
  %all = mul i64 %tokens, %per_token
{_ITS_SHARE}
  %has_angles = icmp ne ptr %angles, null
  %has_cache = icmp ne ptr %keys, null
  %layer_head = mul i64 %layer, %two
  br i1 %any, label %next, label %done
next:
  %item = phi i64 [%first, %entry], [%item_next, %item_end]
  %n = udiv i64 %item, %per_token
  %h = urem i64 %item, %per_token
  %offset = mul i64 %item, {size}
  %x = getelementptr float, ptr %joined, i64 %offset
  %is_turned = icmp ult i64 %h, %turned
  %rotates = and i1 %is_turned, %has_angles
  br i1 %rotates, label %rotate, label %rotated
rotate:
  %angle_offset = mul i64 %n, {2 * size}
  %angles_n = getelementptr float, ptr %angles, i64 %angle_offset"""
    ]
    for i in range(0, 2 * size, LANES):
        lines.append(_load(f"%angle{i}", "%angles_n", i))
    for i in range(0, size, LANES):
        lines.append(_load(f"%x{i}", "%x", i))
    for i in range(0, size, LANES):
        other = (i + size // 2) % size
        lines += [
            f"  %near{i} = fmul {_V} %x{i}, %angle{i}",
            f"  %turned{i} = call {_V} @llvm.fma.v{LANES}f32({_V} %x{other}, "
            f"{_V} %angle{size + i}, {_V} %near{i})",
            _store(f"%turned{i}", "%x", i),
        ]
    lines.append(
        f"""  br label %rotated
rotated:
  %is_stored = icmp uge i64 %h, %query_heads
  %stores = and i1 %is_stored, %has_cache
  br i1 %stores, label %store, label %item_end
store:
  %own_head = sub i64 %h, %query_heads
  %cache_head = add i64 %layer_head, %own_head
  %head_offset = mul i64 %cache_head, %head_stride
  %slot = add i64 %start, %n
  %slot_offset = mul i64 %slot, {size}
  %to_offset = add i64 %head_offset, %slot_offset
  %to = getelementptr {cached.value}, ptr %keys, i64 %to_offset"""
    )
    for i in range(0, size, LANES):
        lines += [_load(f"%copied{i}", "%x", i), _store_cached(f"%copied{i}", "%to", i, cached)]
    lines.append(
        """  br label %item_end
item_end:
  %item_next = add i64 %item, 1
  %more = icmp ult i64 %item_next, %last
  br i1 %more, label %next, label %done
done:
  ret void
}"""
    )
    return "\n".join(lines)


def _load(name: str, pointer: str, offset: int) -> str:
    return (
        f"  {name}_at = getelementptr float, ptr {pointer}, i64 {offset}\n"
        f"  {name} = load {_V}, ptr {name}_at, align 4"
    )


def _store(name: str, pointer: str, offset: int) -> str:
    return (
        f"  {name}_to = getelementptr float, ptr {pointer}, i64 {offset}\n"
        f"  store {_V} {name}, ptr {name}_to, align 4"
    )


def _load_cached(name: str, pointer: str, offset: int, cached: CachedType) -> str:
    """Return code that loads a vector from the cache as float32."""
    if cached is CachedType.FLOAT32:
        return _load(name, pointer, offset)
    return (
        f"  {name}_at = getelementptr bfloat, ptr {pointer}, i64 {offset}\n"
        f"  {name}_half = load {_HALVES}, ptr {name}_at, align 2\n"
        f"  {name} = fpext {_HALVES} {name}_half to {_V}"
    )


def _store_cached(name: str, pointer: str, offset: int, cached: CachedType) -> str:
    """Return code that stores a float32 vector in the cache."""
    if cached is CachedType.FLOAT32:
        return _store(name, pointer, offset)
    return (
        f"  {name}_to = getelementptr bfloat, ptr {pointer}, i64 {offset}\n"
        f"{to_bfloat16(f'{name}_half', name, LANES)}\n"
        f"  store {_BITS} {name}_half, ptr {name}_to, align 2"
    )


def _one_head(size: int, cached: CachedType) -> str:
    """Return the code of the function that computes attention for one token and one query head.

    That function stores the scores of all slots, because it must know the largest score before it
    computes the first exponential.
    """
    vectors = range(0, size, LANES)
    lines = [
        """
define internal void @head(ptr %query, ptr %keys, ptr %values, ptr %mask, ptr %scores, ptr %mixed,
    i64 %end) #0 {
entry:
  %has_mask = icmp ne ptr %mask, null"""
    ]
    lines += [_load(f"%query{i}", "%query", i) for i in vectors]
    lines.append(
        """  br label %score
score:
  %e = phi i64 [0, %entry], [%e_next, %scored]
  %key_offset = mul i64 %e, """
        + f"""{size}
  %key = getelementptr {cached.value}, ptr %keys, i64 %key_offset"""
    )
    before = "zeroinitializer"
    for i in vectors:
        lines.append(_load_cached(f"%key{i}", "%key", i, cached))
        lines.append(
            f"  %dot{i} = call {_V} @llvm.fma.v{LANES}f32({_V} %query{i}, {_V} %key{i}, "
            f"{_V} {before})"
        )
        before = f"%dot{i}"
    lines.append(
        f"""  %sum = {_SUM}(float 0.0, {_V} {before})
  %plain = fmul float %sum, {_float(size**-0.5)}
  br i1 %has_mask, label %masked, label %scored
masked:
  %mask_at = getelementptr float, ptr %mask, i64 %e
  %hidden = load float, ptr %mask_at
  %shifted = fadd float %plain, %hidden
  br label %scored
scored:
  %each = phi float [%plain, %score], [%shifted, %masked]
  %score_at = getelementptr float, ptr %scores, i64 %e
  store float %each, ptr %score_at
  %e_next = add i64 %e, 1
  %more = icmp ult i64 %e_next, %end
  br i1 %more, label %score, label %pad
pad:
  %p = phi i64 [%end, %scored], [%p_next, %padded]
  %rest = urem i64 %p, {LANES}
  %is_whole = icmp eq i64 %rest, 0
  br i1 %is_whole, label %compare, label %padded
padded:
  %pad_at = getelementptr float, ptr %scores, i64 %p
  store float {_float(-math.inf)}, ptr %pad_at
  %p_next = add i64 %p, 1
  br label %pad
compare:
  %c = phi i64 [0, %pad], [%c_next, %compare]
  %best = phi {_V} [{_all(-math.inf)}, %pad], [%best_next, %compare]
  %compared_at = getelementptr float, ptr %scores, i64 %c
  %compared = load {_V}, ptr %compared_at, align 4
  %best_next = call {_V} @llvm.maxnum.v{LANES}f32({_V} %best, {_V} %compared)
  %c_next = add i64 %c, {LANES}
  %more_compared = icmp ult i64 %c_next, %end
  br i1 %more_compared, label %compare, label %weigh
weigh:
  %most = call float @llvm.vector.reduce.fmax.v{LANES}f32({_V} %best_next)
{_splat("%mosts", "%most")}  br label %power
power:
  %w = phi i64 [0, %weigh], [%w_next, %power]
  %total = phi {_V} [zeroinitializer, %weigh], [%total_next, %power]
  %scores_at = getelementptr float, ptr %scores, i64 %w
  %raw = load {_V}, ptr %scores_at, align 4
  %less = fsub {_V} %raw, %mosts
  %weight = call {_V} @exp({_V} %less)
  store {_V} %weight, ptr %scores_at, align 4
  %total_next = fadd {_V} %total, %weight
  %w_next = add i64 %w, {LANES}
  %more_powers = icmp ult i64 %w_next, %end
  br i1 %more_powers, label %power, label %mix
mix:
  %m = phi i64 [0, %power], [%m_next, %mix]"""
    )
    for i in vectors:
        lines.append(f"  %part{i} = phi {_V} [zeroinitializer, %power], [%part{i}_next, %mix]")
    lines.append(
        f"""  %share_at = getelementptr float, ptr %scores, i64 %m
  %share = load float, ptr %share_at
{_splat("%shares", "%share")}  %value_offset = mul i64 %m, {size}
  %value = getelementptr {cached.value}, ptr %values, i64 %value_offset"""
    )
    for i in vectors:
        lines.append(_load_cached(f"%value{i}", "%value", i, cached))
        lines.append(
            f"  %part{i}_next = call {_V} @llvm.fma.v{LANES}f32({_V} %shares, {_V} %value{i}, "
            f"{_V} %part{i})"
        )
    lines.append(
        f"""  %m_next = add i64 %m, 1
  %more_values = icmp ult i64 %m_next, %end
  br i1 %more_values, label %mix, label %write
write:
  %all = {_SUM}(float 0.0, {_V} %total_next)
  %inverse = fdiv float 1.0, %all
{_splat("%inverses", "%inverse")}"""
    )
    for i in vectors:
        lines.append(f"  %out{i} = fmul {_V} %part{i}_next, %inverses")
        lines.append(_store(f"%out{i}", "%mixed", i))
    lines.append("  ret void\n}")
    return "\n".join(lines)


def _attend(size: int, cached: CachedType) -> str:
    """Return the code of `attend`. Each thread computes some of the query heads of all tokens."""
    return f"""
define void @attend(ptr %call, i64 %thread, i64 %threads) #0 {{
entry:
{_fields(HEAD_FIELDS)}
{_fields(FRAME_FIELDS, "%frame")}
  %all = mul i64 %tokens, %query_heads
{_ITS_SHARE}
  %group = udiv i64 %query_heads, %key_heads
  %two = mul i64 %key_heads, 2
  %per_token = add i64 %query_heads, %two
  %layer_head = mul i64 %layer, %two
  %has_mask = icmp ne ptr %mask, null
  %own_offset = mul i64 %thread, %scores_stride
  %own = getelementptr float, ptr %scores, i64 %own_offset
  br i1 %any, label %next, label %done
next:
  %item = phi i64 [%first, %entry], [%item_next, %next]
  %n = udiv i64 %item, %query_heads
  %a = urem i64 %item, %query_heads
  %g = udiv i64 %a, %group
  %token_at = mul i64 %n, %per_token
  %query_at = add i64 %token_at, %a
  %query_offset = mul i64 %query_at, {size}
  %query = getelementptr float, ptr %joined, i64 %query_offset
  %key_head = add i64 %layer_head, %g
  %value_head = add i64 %key_head, %key_heads
  %key_offset = mul i64 %key_head, %head_stride
  %value_offset = mul i64 %value_head, %head_stride
  %keys_g = getelementptr {cached.value}, ptr %keys, i64 %key_offset
  %values_g = getelementptr {cached.value}, ptr %keys, i64 %value_offset
  %mask_offset = mul i64 %n, %end
  %mask_there = getelementptr float, ptr %mask, i64 %mask_offset
  %mask_n = select i1 %has_mask, ptr %mask_there, ptr null
  %own_slot = add i64 %start, %n
  %own_end = add i64 %own_slot, 1
  %seen = select i1 %has_mask, i64 %end, i64 %own_end
  %mixed_offset = mul i64 %item, {size}
  %mixed_n = getelementptr float, ptr %mixed, i64 %mixed_offset
  call void @head(ptr %query, ptr %keys_g, ptr %values_g, ptr %mask_n, ptr %own, ptr %mixed_n,
    i64 %seen)
  %item_next = add i64 %item, 1
  %more = icmp ult i64 %item_next, %last
  br i1 %more, label %next, label %done
done:
  ret void
}}"""


def row_source() -> str:
    """Return the LLVM module with the functions that do not depend on the head size.

    void norm(ptr call, i64 thread, i64 threads), where `call` points to NORM_FIELDS
    void gated(ptr call, i64 thread, i64 threads), where `call` points to GATED_FIELDS
    void rounded(ptr call, i64 thread, i64 threads), where `call` points to ROUND_FIELDS
    """
    return "\n".join((_HEAD, _exp(), _NORM, _GATED, _ROUNDED))


def head_source(size: int, cached: CachedType) -> str:
    """Return the LLVM module for heads of `size`, a multiple of twice the lanes of a vector.

    `cached` is the type of keys and values in the cache. Everything else is in float32.

    void place(ptr call, i64 thread, i64 threads), where `call` points to HEAD_FIELDS
    void attend(ptr call, i64 thread, i64 threads), with the same `call`
    """
    parts = (_place(size, cached), _one_head(size, cached), _attend(size, cached))
    return "\n".join((_HEAD, _exp(), *parts))
