"""The rounding of rows of x to 16-bit integers in groups, written as LLVM code.

The scale of a group is its largest absolute value / LEVELS. An integer is 256 times its high byte
plus its low byte, and both are signed. The code rounds FOUR groups of a row at once, so that most
of its steps work on whole registers. Each row is rounded alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from specviz.models.matrix_kernels.panel_form import GROUP, RowType

FOUR = 4
# The largest absolute value of a group is rounded to this integer: its high byte is 127, its low
# byte 0.
LEVELS = 127 * 256
# A group is rounded to zeros if all its absolute values are below this limit.
LEAST = 2.0**-100
# The memory of one rounded group: GROUP high bytes, GROUP low bytes, the scale, the number at which
# a sum of products starts, and the sum of the rounded group in float32. The last four bytes are
# unused.
SCALE, START, SUM, ROUNDED_BYTES = 2 * GROUP, 2 * GROUP + 4, 2 * GROUP + 8, 2 * GROUP + 16

# A constant for rounding: added to a smaller number in float32, it rounds the smaller number to an
# integer. The lowest bits of the sum are then this integer.
_ROUNDER = 1.5 * 2**23
(_ROUNDER_BITS,) = struct.unpack("<i", struct.pack("<f", _ROUNDER))
_LEVELS = float(LEVELS)
_HALF = GROUP // 2

_VALUES, _WORDS = f"<{GROUP} x float>", f"<{GROUP} x i32>"
_HALF_WORDS = f"<{_HALF} x i32>"


def rounding(rows: RowType, zero: int, most: int) -> str:
    """Return the LLVM function `round` and its declarations.

    void round(ptr x, i64 inputs, i64 stored_groups, i64 rows, ptr rounded):

    `rounded` points to memory for `rows` rows of `stored_groups` groups, a multiple of FOUR. Groups
    after the last input of a row are zeros. A tile of up to `most` rows (a power of two) reads its
    rows group by group, so they are stored in this order. The number at which a sum starts is
    -`zero` times the sum of the group.
    """
    row = rows.value
    # The copies of bfloat16 numbers have the type i16; `bfloat_code` explains why.
    kind, suffix = (_VALUES, "f32") if rows is RowType.FLOAT32 else (f"<{GROUP} x i16>", "i16")
    lines = [
        f"declare {_HALF_WORDS} @llvm.umax.v{_HALF}i32({_HALF_WORDS}, {_HALF_WORDS})",
        "declare <8 x i32> @llvm.umax.v8i32(<8 x i32>, <8 x i32>)",
        "declare <4 x i32> @llvm.umax.v4i32(<4 x i32>, <4 x i32>)",
        f"declare {kind} @llvm.masked.load.v{GROUP}{suffix}.p0(ptr, i32, <{GROUP} x i1>, {kind})",
        f"""define internal void @round(ptr %x, i64 %inputs, i64 %groups, i64 %rows, ptr %to) #0 {{
entry:
  %tail = alloca [{FOUR} x {kind}], align 64
  br label %row
row:
  %t = phi i64 [0, %entry], [%t_next, %row_end]
  %tile = and i64 %t, {-most}
  %left = sub i64 %rows, %tile
  %is_part = icmp ult i64 %left, {most}
  %size = select i1 %is_part, i64 %left, i64 {most}
  %tile_at = mul i64 %tile, %groups
  %in_tile = sub i64 %t, %tile
  %first = add i64 %tile_at, %in_tile
  %x_at = mul i64 %t, %inputs
  %x_t = getelementptr {row}, ptr %x, i64 %x_at
  br label %four
four:
  %g = phi i64 [0, %row], [%g_next, %ready]
  %at = mul i64 %g, {GROUP}
  %x_g = getelementptr {row}, ptr %x_t, i64 %at
  %remaining = sub i64 %inputs, %at
  %is_whole = icmp sge i64 %remaining, {FOUR * GROUP}
  br i1 %is_whole, label %ready, label %part
part:
  %narrow = trunc i64 %remaining to i32
  %one = insertelement {_WORDS} undef, i32 %narrow, i32 0
  %all = shufflevector {_WORDS} %one, {_WORDS} undef, {_WORDS} zeroinitializer""",
        *(_copy(k, kind, suffix, row) for k in range(FOUR)),
        "  br label %ready",
        "ready:",
        "  %from = phi ptr [%x_g, %four], [%tail, %part]",
        *(_read(k, rows) for k in range(FOUR)),
        *_combined("umax", "most"),
        f"""  %largest = bitcast <4 x i32> %most to <4 x float>
  %ratio = fdiv <4 x float> {_repeated(f"float {_LEVELS}", 4)}, %largest
  %is_some = fcmp oge <4 x float> %largest, {_repeated(f"float {LEAST!r}", 4)}
  %factor = select <4 x i1> %is_some, <4 x float> %ratio, <4 x float> zeroinitializer
  %scale = fdiv <4 x float> %largest, {_repeated(f"float {_LEVELS}", 4)}
  %before = mul i64 %g, %size
  %index = add i64 %before, %first
  %to_at = mul i64 %index, {ROUNDED_BYTES}
  %to0 = getelementptr i8, ptr %to, i64 %to_at
  %stride = mul i64 %size, {ROUNDED_BYTES}""",
        *(f"  %to{k} = getelementptr i8, ptr %to{k - 1}, i64 %stride" for k in range(1, FOUR)),
        *(_round(k) for k in range(FOUR)),
        *_combined("add", "raw"),
        f"""  %sum = sub <4 x i32> %raw, {_repeated(f"i32 {_as_i32(GROUP * _ROUNDER_BITS)}", 4)}
  %start = mul <4 x i32> %sum, {_repeated(f"i32 {-zero}", 4)}
  %sum_float = sitofp <4 x i32> %sum to <4 x float>
  %sum_scaled = fmul <4 x float> %sum_float, %scale
  %scale_bits = bitcast <4 x float> %scale to <4 x i32>
  %sum_bits = bitcast <4 x float> %sum_scaled to <4 x i32>""",
        *(_store(k) for k in range(FOUR)),
        f"""  %g_next = add i64 %g, {FOUR}
  %more_groups = icmp ult i64 %g_next, %groups
  br i1 %more_groups, label %four, label %row_end
row_end:
  %t_next = add i64 %t, 1
  %more_rows = icmp ult i64 %t_next, %rows
  br i1 %more_rows, label %row, label %done
done:
  ret void
}}""",
    ]
    return "\n".join(lines)


def _copy(k: int, kind: str, suffix: str, row: str) -> str:
    """Return code that copies the k-th group, with zeros after the last input."""
    order = ", ".join(f"i32 {k * GROUP + j}" for j in range(GROUP))
    return f"""  %is_input{k} = icmp slt {_WORDS} <{order}>, %all
  %there{k} = getelementptr {row}, ptr %x_g, i64 {k * GROUP}
  %copied{k} = call {kind} @llvm.masked.load.v{GROUP}{suffix}.p0(ptr %there{k}, i32 2,
    <{GROUP} x i1> %is_input{k}, {kind} zeroinitializer)
  %tail{k} = getelementptr {kind}, ptr %tail, i64 {k}
  store {kind} %copied{k}, ptr %tail{k}, align 64"""


def _read(k: int, rows: RowType) -> str:
    """Return code that reads the k-th group, and compares the absolute values in its two halves.

    For each pair of values, one from each half, it keeps the larger. It compares their bits as
    integers, because these have the same order. NaN has larger bits than any number.
    """
    kind = f"<{GROUP} x {rows.value}>"
    widened = "bitcast" if rows is RowType.FLOAT32 else "fpext"
    return f"""  %from{k} = getelementptr {rows.value}, ptr %from, i64 {k * GROUP}
  %own{k} = load {kind}, ptr %from{k}, align 2
  %value{k} = {widened} {kind} %own{k} to {_VALUES}
  %bits{k} = bitcast {_VALUES} %value{k} to {_WORDS}
  %absolute{k} = and {_WORDS} %bits{k}, {_repeated("i32 2147483647", GROUP)}
{_halved(k, "absolute", "most", "umax")}"""


def _round(k: int) -> str:
    """Return code that rounds the k-th group.

    It also adds the two halves of the group lane by lane, as the first step of the group's sum.
    """
    everywhere = _repeated(f"i32 {k}", GROUP)
    return f"""  %factor{k} = shufflevector <4 x float> %factor, <4 x float> undef,
    {_WORDS} {everywhere}
  %scaled{k} = fmul {_VALUES} %value{k}, %factor{k}
  %shifted{k} = fadd {_VALUES} %scaled{k}, {_repeated(f"float {_ROUNDER}", GROUP)}
  %word{k} = bitcast {_VALUES} %shifted{k} to {_WORDS}
  %low{k} = trunc {_WORDS} %word{k} to <{GROUP} x i8>
  %near{k} = add {_WORDS} %word{k}, {_repeated("i32 128", GROUP)}
  %upper{k} = lshr {_WORDS} %near{k}, {_repeated("i32 8", GROUP)}
  %high{k} = trunc {_WORDS} %upper{k} to <{GROUP} x i8>
  store <{GROUP} x i8> %high{k}, ptr %to{k}, align 16
  %to_low{k} = getelementptr i8, ptr %to{k}, i64 {GROUP}
  store <{GROUP} x i8> %low{k}, ptr %to_low{k}, align 16
{_halved(k, "word", "raw", "add")}"""


def _store(k: int) -> str:
    """Return code that stores the scale and the sums of the k-th group after its bytes."""
    return f"""  %pair{k} = shufflevector <4 x i32> %scale_bits, <4 x i32> %start,
    <4 x i32> <i32 {k}, i32 {4 + k}, i32 undef, i32 undef>
  %triple{k} = shufflevector <4 x i32> %pair{k}, <4 x i32> %sum_bits,
    <4 x i32> <i32 0, i32 1, i32 {4 + k}, i32 undef>
  %numbers{k} = getelementptr i8, ptr %to{k}, i64 {SCALE}
  store <4 x i32> %triple{k}, ptr %numbers{k}, align 16"""


def _halved(k: int, name: str, result: str, operation: str) -> str:
    """Return code that applies an operation to the two halves of the k-th group, lane by lane."""
    parts = [f"%{name}{k}_low", f"%{name}{k}_high"]
    lines = [
        f"  {part} = shufflevector {_WORDS} %{name}{k}, {_WORDS} undef, "
        f"{_HALF_WORDS} {_order(range(half * _HALF, (half + 1) * _HALF))}"
        for half, part in enumerate(parts)
    ]
    lines.append(_applied(f"%{result}{k}", operation, _HALF, *parts))
    return "\n".join(lines)


def _combined(operation: str, name: str) -> list[str]:
    """Return code that combines the 16 lanes of four vectors: %{name}0 to %{name}3 -> <4 x i32>.

    Every step puts lanes of two vectors next to each other, so it works on both at once.
    """
    quarters = range(0, _HALF, 4)
    lines = []
    for left, right in ((0, 1), (2, 3)):
        halves = []
        for half in (0, 2):
            order = [
                at + half + j + side * _HALF for at in quarters for j in (0, 1) for side in (0, 1)
            ]
            halves.append(f"%{name}{left}{right}_{half}")
            lines.append(_shuffled(halves[-1], f"%{name}{left}", f"%{name}{right}", order))
        lines.append(_applied(f"%{name}{left}{right}", operation, _HALF, *halves))
    halves = []
    for half in (0, 2):
        order = [at + half + j + side * _HALF for at in quarters for side in (0, 1) for j in (0, 1)]
        halves.append(f"%{name}_{half}")
        lines.append(_shuffled(halves[-1], f"%{name}01", f"%{name}23", order))
    lines.append(_applied(f"%{name}_16", operation, _HALF, *halves))
    for lanes in (8, 4):
        halves = []
        wide = f"<{2 * lanes} x i32>"
        for half in (0, 1):
            halves.append(f"%{name}_{lanes}_{half}")
            kept = _order(range(half * lanes, (half + 1) * lanes))
            lines.append(
                f"  {halves[-1]} = shufflevector {wide} %{name}_{2 * lanes}, {wide} undef, "
                f"<{lanes} x i32> {kept}"
            )
        result = f"%{name}" if lanes == 4 else f"%{name}_{lanes}"
        lines.append(_applied(result, operation, lanes, *halves))
    return lines


def _shuffled(result: str, left: str, right: str, order: Sequence[int]) -> str:
    return (
        f"  {result} = shufflevector {_HALF_WORDS} {left}, {_HALF_WORDS} {right}, "
        f"{_HALF_WORDS} {_order(order)}"
    )


def _applied(result: str, operation: str, lanes: int, left: str, right: str) -> str:
    kind = f"<{lanes} x i32>"
    if operation == "add":
        return f"  {result} = add {kind} {left}, {right}"
    function = f"@llvm.{operation}.v{lanes}i32"
    return f"  {result} = call {kind} {function}({kind} {left}, {kind} {right})"


def _order(lanes: Sequence[int]) -> str:
    return "<" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"


def _repeated(value: str, lanes: int) -> str:
    return "<" + ", ".join([value] * lanes) + ">"


def _as_i32(number: int) -> int:
    """Return the number from -2^31 to 2^31 - 1 that has the same lowest 32 bits as `number`."""
    return (number + 2**31) % 2**32 - 2**31
