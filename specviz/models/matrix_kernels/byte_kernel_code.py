"""The matrix kernel for few rows that multiplies int8 and int4 weights in integers, as LLVM code.

The processor's instruction vpdpbusd multiplies 64 pairs of bytes at once and adds the products,
four to each sum. In every pair, one byte is unsigned (here the weight) and one is signed (here x).
The instruction needs x as bytes, so every thread first rounds the rows of x to 16-bit integers, in
groups of GROUP inputs. Then it multiplies the high byte and the low byte of each integer. One byte
would not be enough: a copy of the chat model with int8 weights would then agree with the model on
97.0 % of the tokens instead of 98.2 %. Each row is rounded alone, and sums of integers are exact.
The result of a row therefore has the same bits, whatever the other rows are.

The stored form of a weight is called its step. A weight is its step minus ZERO (int8), or minus
MIDDLE (int4, before it is scaled). For example, the int8 weight -3 is stored as the step 125. The
kernel needs the sum of (step - ZERO) * x, but the instruction computes the sum of step * x. The
difference, ZERO times the sum of x, is the same for all outputs. The code in `rounding_code` stores
its negative for each row and group, and the kernel starts each sum at this number.

In memory, a panel is stored group by group. A 32-bit word has the int8 steps of one output and
BYTES inputs. For example, the first word of a panel has inputs 0 to 3 of output 0, and the second
word has inputs 0 to 3 of output 1. An int4 word has the steps of eight inputs: inputs 0 to 3 in the
lower halves of its bytes, inputs 4 to 7 in the upper halves. An int4 group ends with one more word
per output, which has the scale in its lower 16 bits and the middle in its upper 16 bits, both in
bfloat16. `kernel_loops` has the loops, and explains panels and tiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.models.matrix_kernels.kernel_loops import PanelLoops
from specviz.models.matrix_kernels.panel_form import GROUP, MIDDLE, PanelForm
from specviz.models.matrix_kernels.rounding_code import (
    FOUR,
    ROUNDED_BYTES,
    SCALE,
    START,
    SUM,
    rounding,
)

BYTES = 4  # number of inputs in a 32-bit word
ZERO = 128  # the byte that is stored for an int8 weight of 0
# The bytes of a thread's stack for rounded rows. The thread rounds as many rows at once as fit, but
# at least the rows of one tile, even if these need more bytes.
_STACK = 256 << 10
# A row with more inputs could need more memory than the stack of a thread has.
MOST_INPUTS = 1 << 16
_WORDS = GROUP // BYTES
# In a tile of at most this number of rows, the registers suffice for two sums instead of one per
# row and output, so that an addition to one sum need not wait for an addition to the other. With an
# int4 matrix in the processor's cache, the kernel then takes 0.92 to 0.96 times as long.
FEW = 2


def group_words(form: PanelForm) -> int:
    """Return the number of 32-bit words that a group of inputs has for each output."""
    return _WORDS // 2 + 1 if form is PanelForm.INT4 else _WORDS


class ByteSums(PanelLoops):
    """A tile that adds the products of a group in integers, and the groups in float32."""

    def _intrinsics(self) -> Iterator[str]:
        yield from super()._intrinsics()
        bytes_ = f"<{4 * self._registers.lanes} x i8>"
        yield (
            f"declare {self._int} @llvm.x86.avx512.vpdpbusd.512({self._int}, {bytes_}, {bytes_})"
        )
        zero = ZERO if self._weights is PanelForm.INT8 else MIDDLE
        yield rounding(self._rows, zero, self._registers.rows)

    def _sums(self, size: int) -> list[list[str]]:
        groups = self._groups()
        self._line("  br label %loop")
        self._line("loop:")
        self._line("  %at = phi i64 [0, %entry], [%next, %loop]")
        top = len(self.lines)
        words = group_words(self._weights)
        first = self._name(f"mul i64 %at, {words * self._registers.panel}")
        loaded = []
        for word in range(words):
            index = self._name(f"add i64 {first}, {word * self._registers.panel}")
            there = self._name(f"getelementptr i32, ptr %weights, i64 {index}")
            self._read_ahead(there)
            loaded.append(self._name(f"load {self._int}, ptr {there}, align 4"))
        before = self._name(f"mul i64 %at, {size * ROUNDED_BYTES}")
        x = self._name(f"getelementptr i8, ptr %x, i64 {before}")
        rows = [
            self._name(f"getelementptr i8, ptr {x}, i64 {t * ROUNDED_BYTES}") for t in range(size)
        ]
        is_int8 = self._weights is PanelForm.INT8
        found = self._int8(rows, loaded) if is_int8 else self._int4(rows, loaded)
        self.lines[top:top] = [
            f"  %sum{t} = phi {self._float} [zeroinitializer, %entry], [{each}, %loop]"
            for t, each in enumerate(found)
        ]
        self._line("  %next = add i64 %at, 1")
        self._line("  %more = icmp ult i64 %next, " + groups)
        self._line("  br i1 %more, label %loop, label %done")
        self._line("done:")
        return [[each] for each in found]

    def _int8(self, rows: list[str], steps: list[str]) -> list[str]:
        """Write code that adds the products of one group of int8 weights to the sums."""
        return [
            self._fma(products, self._number(row, SCALE), f"%sum{t}")
            for t, (row, products) in enumerate(self._products(rows, steps))
        ]

    def _int4(self, rows: list[str], words: list[str]) -> list[str]:
        """Write code that adds the products of one group of int4 weights to the sums.

        The code adds scale * (sum of (step - MIDDLE) * x) + middle * (sum of x).
        """
        *words, both = words
        low = self._name(f"shl {self._int} {both}, {self._all(16)}")
        high = self._name(f"and {self._int} {both}, {self._all(-65536)}")
        scale, middle = self._as_float(low), self._as_float(high)
        steps = []
        for word in words:
            upper = self._name(f"lshr {self._int} {word}, {self._all(4)}")
            for each in (word, upper):
                steps.append(self._name(f"and {self._int} {each}, {self._all(0x0F0F0F0F)}"))
        found = []
        for t, (row, products) in enumerate(self._products(rows, steps)):
            scaled = self._name(f"fmul {self._float} {products}, {scale}")
            total = self._fma(middle, self._number(row, SUM), f"%sum{t}")
            found.append(self._fma(scaled, self._number(row, SCALE), total))
        return found

    def _products(self, rows: list[str], steps: list[str]) -> Iterator[tuple[str, str]]:
        """Yield each row of x with its sum of weight * x over the inputs of a group, as floats.

        Here x stands for the 16-bit integers to which the row was rounded. Their high bytes and
        their low bytes are multiplied and summed separately. An addition to a sum must wait until
        the addition before it is complete. So the code adds to the sum of every row in turn, and in
        a tile of at most FEW rows, it divides each of a row's two sums into two.
        """
        parts = 2 if len(rows) <= FEW else 1
        sums = [[["zeroinitializer"] * parts for _ in range(2)] for _ in rows]
        for row, both in zip(rows, sums, strict=True):
            both[1][0] = self._splat(self._word(row, START), "i32")
        for k, step in enumerate(steps):
            for row, both in zip(rows, sums, strict=True):
                for first, own in zip((0, GROUP), both, strict=True):
                    x = self._splat(self._word(row, first + BYTES * k), "i32")
                    own[k % parts] = self._dot(own[k % parts], step, x)
        for row, both in zip(rows, sums, strict=True):
            high, low = (self._total(own) for own in both)
            shifted = self._name(f"shl {self._int} {high}, {self._all(8)}")
            total = self._total([shifted, low])
            yield row, self._name(f"sitofp {self._int} {total} to {self._float}")

    def _total(self, parts: list[str]) -> str:
        total = parts[0]
        for part in parts[1:]:
            total = self._name(f"add {self._int} {total}, {part}")
        return total

    def _dot(self, total: str, step: str, x: str) -> str:
        bytes_ = f"<{4 * self._registers.lanes} x i8>"
        steps, values = (
            self._name(f"bitcast {self._int} {each} to {bytes_}") for each in (step, x)
        )
        return self._name(
            f"call {self._int} @llvm.x86.avx512.vpdpbusd.512({self._int} {total}, "
            f"{bytes_} {steps}, {bytes_} {values})"
        )

    def _word(self, row: str, offset: int) -> str:
        there = self._name(f"getelementptr i8, ptr {row}, i64 {offset}")
        return self._name(f"load i32, ptr {there}, align 4")

    def _number(self, row: str, offset: int) -> str:
        """Write code that copies a float32 number of a rounded row to all lanes."""
        there = self._name(f"getelementptr i8, ptr {row}, i64 {offset}")
        return self._splat(self._name(f"load float, ptr {there}, align 4"))

    def _all_rows(self) -> None:
        """Write the loop over blocks of rows: round them, then multiply them by all panels."""
        most, row, groups = self._registers.rows, self._rows.value, self._stored_groups()
        self._line(
            f"""  %row_bytes = mul i64 {groups}, {ROUNDED_BYTES}
  %fitting = udiv i64 {_STACK}, %row_bytes
  %whole = and i64 %fitting, {-most}
  %is_tile = icmp ult i64 %whole, {most}
  %block = select i1 %is_tile, i64 {most}, i64 %whole
  %is_all = icmp ult i64 %rows, %block
  %used = select i1 %is_all, i64 %rows, i64 %block
  %bytes = mul i64 %used, %row_bytes
  %rounded = alloca i8, i64 %bytes, align 64
  br label %block_loop
block_loop:
  %t = phi i64 [0, %work], [%t_next, %block_loop]
  %left = sub i64 %rows, %t
  %is_last = icmp ult i64 %left, %block
  %now = select i1 %is_last, i64 %left, i64 %block
  %x_at = mul i64 %t, %inputs
  %x_t = getelementptr {row}, ptr %x, i64 %x_at"""
        )
        y, added = self._outputs("%t", "0"), self._added("%t", "0")
        self._line(
            f"""  call void @round(ptr %x_t, i64 %inputs, i64 {groups}, i64 %now, ptr %rounded)
  call void @walk(ptr %weights, ptr %scales, i64 %inputs, i64 %outputs, ptr %rounded, ptr {y},
    ptr {added}, i64 %added_stride, i64 %now, i64 %first, i64 %end)
  %t_next = add i64 %t, %block
  %more = icmp ult i64 %t_next, %rows
  br i1 %more, label %block_loop, label %rounded_all
rounded_all:"""
        )

    def _tile_rows(self) -> str:
        groups = self._stored_groups()
        before = self._name(f"mul i64 %t, {ROUNDED_BYTES}")
        at = self._name(f"mul i64 {before}, {groups}")
        return self._name(f"getelementptr i8, ptr %x, i64 {at}")

    def _groups(self) -> str:
        """Write code for the number of groups of a row. The last group may be shorter."""
        padded = self._name(f"add i64 %inputs, {GROUP - 1}")
        return self._name(f"udiv i64 {padded}, {GROUP}")

    def _stored_groups(self) -> str:
        """Write code for the number of groups that a rounded row has in memory."""
        padded = self._name(f"add i64 %inputs, {FOUR * GROUP - 1}")
        fours = self._name(f"udiv i64 {padded}, {FOUR * GROUP}")
        return self._name(f"mul i64 {fours}, {FOUR}")

    def _panel_weights(self) -> str:
        groups = self._groups()
        words = self._name(f"mul i64 {groups}, {group_words(self._weights)}")
        at = self._name(f"mul i64 %o, {words}")
        return self._name(f"getelementptr i32, ptr %weights, i64 {at}")

    def _panel_scales(self) -> str:
        if self._weights is PanelForm.INT8:
            return self._name("getelementptr bfloat, ptr %scales, i64 %o")
        return "null"
