"""The matrix kernel for few rows that adds products in float32, written as LLVM code.

For the rows of one tile, it reads every weight once. A panel stores its weights input by input, so
a thread reads memory in order. The sums of a tile stay in registers while the panel is read. Each
sum adds its products from the first input to the last. The result of a row therefore has the same
bits, whatever the other rows are. `kernel_loops` has the loops, and explains the shapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.models.matrix_kernels.byte_kernel_code import ByteSums
from specviz.models.matrix_kernels.kernel_loops import PanelLoops
from specviz.models.matrix_kernels.panel_form import (
    GROUP,
    MIDDLE,
    UNROLLED,
    WORD,
    PanelForm,
    Registers,
    RowType,
)


def source(weights: PanelForm, rows: RowType, registers: Registers, is_parallel: bool) -> str:
    """Return the LLVM module with the functions `panels` and `multiply`.

    void multiply(ptr matrix, ptr x, ptr y, ptr added, i64 added_stride, i64 rows, i32 threads):

    `matrix` points to the first four of FIELDS. `added` is null, or it has `rows` rows of O values
    that start `added_stride` values apart.

    void panels(ptr call, i64 thread, i64 threads) does the work of one thread. `call` points to
    FIELDS.
    """
    writer = ByteSums if registers.multiplies_bytes(weights) else _FloatSums
    return writer(weights, rows, registers.of_form(weights)).module(is_parallel)


class _FloatSums(PanelLoops):
    """A tile that converts the weights to float32, and multiplies one input after another."""

    def _intrinsics(self) -> Iterator[str]:
        yield from super()._intrinsics()
        yield f"declare float @llvm.vector.reduce.fadd.v{GROUP}f32(float, <{GROUP} x float>)"
        if self._registers.can_permute:
            whole = self._float
            yield f"declare {whole} @llvm.x86.avx512.permvar.sf.512({whole}, {self._int})"

    def _sums(self, size: int) -> list[list[str]]:
        rows = [self._moved("%x", self._rows.value, f"{t}", "%inputs") for t in range(size)]
        self._line("  br label %loop")
        step = GROUP if self._weights is PanelForm.INT4 else UNROLLED
        sums = [[f"%sum{t}_{v}" for v in self._vectors] for t in range(size)]
        self._line("loop:")
        is_grouped = self._weights is PanelForm.INT4
        end = "group_end" if is_grouped else "loop"
        self._line(f"  %at = phi i64 [0, %entry], [%next, %{end}]")
        top = len(self.lines)
        found = self._group(rows, sums) if is_grouped else self._pass(rows, sums, UNROLLED, "%at")
        self.lines[top:top] = [
            f"  {sums[t][v]} = phi {self._float} [zeroinitializer, %entry], [{found[t][v]}, %{end}]"
            for t in range(size)
            for v in self._vectors
        ]
        self._line(f"  %next = add i64 %at, {step}")
        self._line("  %more = icmp ult i64 %next, %inputs")
        self._line("  br i1 %more, label %loop, label %done")
        self._line("done:")
        return found

    def _group(self, rows: list[str], sums: list[list[str]]) -> list[list[str]]:
        """Write code that adds one group of an int4 matrix to the sums.

        For each input it adds (step - 8) * scale * x + middle * x.
        """
        index = self._name(f"udiv i64 %at, {GROUP}")
        before = self._name(f"mul i64 {index}, {2 * self._registers.panel}")
        there = self._name(f"getelementptr bfloat, ptr %scales, i64 {before}")
        scales, middles = self._halves(there, 0), self._halves(there, self._registers.panel)
        steps = self._words(rows)
        found = []
        for t, row in enumerate(rows):
            total = self._splat(self._row_sum(row))
            scaled = [self._fma(steps[t][v], scales[v], sums[t][v]) for v in self._vectors]
            found.append([self._fma(total, middles[v], scaled[v]) for v in self._vectors])
        return found

    def _words(self, rows: list[str]) -> list[list[str]]:
        """Write code that adds the products of one group, in a loop over words of eight inputs."""
        sums = [[f"%part{t}_{v}" for v in self._vectors] for t in range(len(rows))]
        self._line("  br label %words")
        self._line("words:")
        self._line("  %word = phi i64 [0, %loop], [%next_word, %words]")
        top = len(self.lines)
        self._line("  %word_at = add i64 %at, %word")
        found = self._pass(rows, sums, WORD, "%word_at")
        self.lines[top:top] = [
            f"  {sums[t][v]} = phi {self._float} [zeroinitializer, %loop], [{found[t][v]}, %words]"
            for t in range(len(rows))
            for v in self._vectors
        ]
        self._line(f"  %next_word = add i64 %word, {WORD}")
        self._line(f"  %more_words = icmp ult i64 %next_word, {GROUP}")
        self._line("  br i1 %more_words, label %words, label %group_end")
        self._line("group_end:")
        return found

    def _row_sum(self, row: str) -> str:
        at = self._name(f"getelementptr {self._rows.value}, ptr {row}, i64 %at")
        values = self._name(f"load <{GROUP} x {self._rows.value}>, ptr {at}, align 2")
        if self._rows is RowType.BFLOAT16:
            values = self._name(f"fpext <{GROUP} x bfloat> {values} to <{GROUP} x float>")
        return self._name(
            f"call reassoc float @llvm.vector.reduce.fadd.v{GROUP}f32(float 0.0, "
            f"<{GROUP} x float> {values})"
        )

    def _pass(
        self, rows: list[str], sums: list[list[str]], inputs: int, at: str
    ) -> list[list[str]]:
        """Write code that adds the products of `inputs` inputs, starting at `at`."""
        sums = [list(row) for row in sums]
        for offset, weights in self._read(inputs, at):
            for t, row in enumerate(rows):
                x = self._x(row, offset, at)
                for v in self._vectors:
                    sums[t][v] = self._fma(x, weights[v], sums[t][v])
        return sums

    def _read(self, inputs: int, at: str) -> Iterator[tuple[int, list[str]]]:
        """Yield each of `inputs` inputs from `at` on, with its weights converted to float32."""
        match self._weights:
            case PanelForm.FLOAT32:
                for offset in range(inputs):
                    yield offset, [self._load(at, offset, v, self._float) for v in self._vectors]
            case PanelForm.INT8:
                for offset in range(inputs):
                    bytes_ = f"<{self._registers.lanes} x i8>"
                    loaded = [self._load(at, offset, v, bytes_) for v in self._vectors]
                    wide = [self._name(f"sext {bytes_} {b} to {self._int}") for b in loaded]
                    yield (
                        offset,
                        [self._name(f"sitofp {self._int} {w} to {self._float}") for w in wide],
                    )
            case PanelForm.BFLOAT16:
                for pair in range(inputs // 2):
                    words = [self._load(at, pair, v, self._int, 2) for v in self._vectors]
                    low = [self._name(f"shl {self._int} {w}, {self._all(16)}") for w in words]
                    yield 2 * pair, [self._as_float(each) for each in low]
                    high = [self._name(f"and {self._int} {w}, {self._all(-65536)}") for w in words]
                    yield 2 * pair + 1, [self._as_float(each) for each in high]
            case PanelForm.INT4:
                for eight in range(inputs // WORD):
                    words = [self._load(at, eight, v, self._int, WORD) for v in self._vectors]
                    for k in range(WORD):
                        yield WORD * eight + k, [self._step(word, k) for word in words]

    def _step(self, word: str, k: int) -> str:
        """Write code that gets the k-th of eight steps in a word, minus 8, as floats."""
        shifted = self._name(f"lshr {self._int} {word}, {self._all(4 * k)}") if k else word
        # the table look-up uses the lowest four bits of each lane as an index
        if self._registers.can_permute:
            table = ", ".join(f"float {step - MIDDLE}.0" for step in range(16))
            return self._name(
                f"call {self._float} @llvm.x86.avx512.permvar.sf.512({self._float} <{table}>, "
                f"{self._int} {shifted})"
            )
        step = self._name(f"and {self._int} {shifted}, {self._all(15)}")
        moved = self._name(f"sub {self._int} {step}, {self._all(MIDDLE)}")
        return self._name(f"sitofp {self._int} {moved} to {self._float}")

    def _load(self, at: str, step: int, vector: int, kind: str, inputs: int = 1) -> str:
        """Write code that loads one vector of weights.

        Each element contains the weights for `inputs` inputs. The first input is `at`.
        """
        lanes, panel = self._registers.lanes, self._registers.panel
        element = kind.removesuffix(">").split(" x ")[1]
        first = self._name(f"udiv i64 {at}, {inputs}") if inputs > 1 else at
        row = self._name(f"add i64 {first}, {step}")
        start = self._name(f"mul i64 {row}, {panel}")
        index = self._name(f"add i64 {start}, {vector * lanes}")
        there = self._name(f"getelementptr {element}, ptr %weights, i64 {index}")
        self._read_ahead(there)
        return self._name(f"load {kind}, ptr {there}, align 1")

    def _x(self, row: str, offset: int, at: str) -> str:
        """Write code that copies one value in a row of x to all lanes."""
        index = self._name(f"add i64 {at}, {offset}")
        there = self._name(f"getelementptr {self._rows.value}, ptr {row}, i64 {index}")
        if self._rows is RowType.FLOAT32:
            return self._splat(self._name(f"load float, ptr {there}"))
        bits = self._name(f"load i16, ptr {there}")
        wide = self._name(f"zext i16 {bits} to i32")
        shifted = self._name(f"shl i32 {wide}, 16")
        return self._splat(self._name(f"bitcast i32 {shifted} to float"))

    def _tile_rows(self) -> str:
        return self._moved("%x", self._rows.value, "%t", "%inputs")

    def _panel_weights(self) -> str:
        size = self._name("mul i64 %o, %inputs")
        match self._weights:
            case PanelForm.FLOAT32:
                return self._name(f"getelementptr float, ptr %weights, i64 {size}")
            case PanelForm.BFLOAT16:
                return self._name(f"getelementptr bfloat, ptr %weights, i64 {size}")
            case PanelForm.INT8:
                return self._name(f"getelementptr i8, ptr %weights, i64 {size}")
            case PanelForm.INT4:
                half = self._name(f"udiv i64 {size}, 2")
                return self._name(f"getelementptr i8, ptr %weights, i64 {half}")

    def _panel_scales(self) -> str:
        if self._weights is PanelForm.INT8:
            return self._name("getelementptr bfloat, ptr %scales, i64 %o")
        if self._weights is PanelForm.INT4:
            # each group of weights has two numbers: a scale, and a middle (the weight at step 8)
            size = self._name("mul i64 %o, %inputs")
            groups = self._name(f"udiv i64 {size}, {GROUP // 2}")
            return self._name(f"getelementptr bfloat, ptr %scales, i64 {groups}")
        return "null"
