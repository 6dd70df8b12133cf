"""The loops of a matrix kernel over panels and rows, written as LLVM code.

The kernel computes y = x W^T for a few rows of x. A panel has the weights of P neighbouring
outputs, and every thread multiplies its own panels. A tile is the product of one panel and up to
`rows` rows of x, so few that all sums stay in registers.

For example, let P be 48 and `rows` be 8. A matrix with 480 outputs then has 10 panels, and each of
two threads multiplies 5 of them. If x has 12 rows, each panel needs two tiles: one for 8 rows and
one for 4 rows.

This module writes the loops, and its subclasses write the tile: `kernel_code` adds products in
float32, `byte_kernel_code` adds them in integers.

In shapes, T is the number of rows of x, I the number of inputs, O the number of outputs, P the
number of outputs of a panel and L the number of lanes of a register.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count

from specviz.models.matrix_kernels.bfloat_code import to_bfloat16
from specviz.models.matrix_kernels.panel_form import PanelForm, Registers, RowType

# The arguments of a call, as the threads get them: pointers and sizes of eight bytes each.
FIELDS = ("weights", "scales", "inputs", "outputs", "x", "y", "added", "added_stride", "rows")
_POINTERS = ("weights", "scales", "x", "y", "added")
# The arguments of the function that multiplies some rows of x by the panels from `first` to `end`.
_WALKED = (*FIELDS, "first", "end")
# The arguments of a tile. `left` is the number of outputs from the panel's first output on.
_TILE = (*FIELDS[:-1], "left")

_DECLARED = """
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }
"""


class PanelLoops(ABC):
    """A writer of one LLVM module: it writes the functions from top to bottom."""

    def __init__(self, weights: PanelForm, rows: RowType, registers: Registers) -> None:
        self.lines: list[str] = []
        self._weights, self._rows, self._registers = weights, rows, registers
        self._names = count()
        lanes = registers.lanes
        self._float = f"<{lanes} x float>"
        self._int = f"<{lanes} x i32>"
        # a vector with the dtype of x; `bfloat_code` explains why it is not of type bfloat
        self._value = self._float if rows is RowType.FLOAT32 else f"<{lanes} x i16>"
        self._mask = f"<{lanes} x i1>"

    def module(self, is_parallel: bool) -> str:
        """Return the LLVM module with the functions `panels` and `multiply`."""
        for size in range(1, self._registers.rows + 1):
            self._line(f"define internal void @tile{size}({_parameters(_TILE)}) #0 {{")
            self._line("entry:")
            self._finish(self._sums(size))
            self._line("  ret void")
            self._line("}")
        self._walk()
        self._panels()
        self._entry(is_parallel)
        return "\n".join((_DECLARED, *self._intrinsics(), *self.lines))

    @abstractmethod
    def _sums(self, size: int) -> list[list[str]]:
        """Write code that multiplies `size` rows by one panel.

        Return the names of the sums: for each row, one for each vector of outputs.
        """

    @abstractmethod
    def _panel_weights(self) -> str:
        """Write code for the address of panel %p's weights. The panel begins at output %o."""

    @abstractmethod
    def _panel_scales(self) -> str:
        """Write code for the address of panel %p's scales. The panel begins at output %o."""

    @abstractmethod
    def _tile_rows(self) -> str:
        """Write code for the address of row %t of x, in the form that a tile reads."""

    def _all_rows(self) -> None:
        """Write code that multiplies all rows of x by the panels from %first to %end."""
        self._line(f"  call void @walk({_parameters(_WALKED)})")

    def _intrinsics(self) -> Iterator[str]:
        lanes, row = self._registers.lanes, self._row
        whole, value, mask = self._float, self._value, self._mask
        yield f"declare {whole} @llvm.fma.v{lanes}f32({whole}, {whole}, {whole})"
        yield f"declare {value} @llvm.masked.load.v{lanes}{row}.p0(ptr, i32, {mask}, {value})"
        yield f"declare void @llvm.masked.store.v{lanes}{row}.p0({value}, ptr, i32, {mask})"

    def _walk(self) -> None:
        """Write the loop over some panels, and over the tiles in each panel."""
        panel, most = self._registers.panel, self._registers.rows
        self._line(f"define internal void @walk({_parameters(_WALKED)}) #0 {{")
        self._line(
            f"""entry:
  br label %panel
panel:
  %p = phi i64 [%first, %entry], [%p_next, %panel_end]
  %o = mul i64 %p, {panel}
  %left = sub i64 %outputs, %o"""
        )
        weights = self._panel_weights()
        scales = self._panel_scales()
        self._line("  br label %rows_loop")
        self._line("rows_loop:")
        self._line("  %t = phi i64 [0, %panel], [%t_next, %tile_end]")
        x, y, added = self._tile_rows(), self._outputs("%t", "%o"), self._added("%t", "%o")
        self._line("  %remaining = sub i64 %rows, %t")
        self._line(f"  switch i64 %remaining, label %tile{most} [")
        for size in range(1, most):
            self._line(f"    i64 {size}, label %tile{size}")
        self._line("  ]")
        for size in range(1, most + 1):
            self._line(f"tile{size}:")
            self._line(
                f"  call void @tile{size}(ptr {weights}, ptr {scales}, i64 %inputs, "
                f"i64 %outputs, ptr {x}, ptr {y}, ptr {added}, i64 %added_stride, i64 %left)"
            )
            self._line("  br label %tile_end")
        self._line(
            f"""tile_end:
  %t_next = add i64 %t, {most}
  %more_rows = icmp ult i64 %t_next, %rows
  br i1 %more_rows, label %rows_loop, label %panel_end
panel_end:
  %p_next = add i64 %p, 1
  %more = icmp ult i64 %p_next, %end
  br i1 %more, label %panel, label %done
done:
  ret void
}}"""
        )

    def _panels(self) -> None:
        """Write `panels`, which does the work of one thread."""
        panel = self._registers.panel
        self._line("define void @panels(ptr %call, i64 %thread, i64 %threads) #0 {")
        self._line("entry:")
        for index, field in enumerate(FIELDS):
            at = self._name(f"getelementptr i64, ptr %call, i64 {index}")
            self._line(f"  %{field} = load {_kind(field)}, ptr {at}")
        self._line(
            f"""  %padded = add i64 %outputs, {panel - 1}
  %all = udiv i64 %padded, {panel}
  %before = mul i64 %all, %thread
  %first = udiv i64 %before, %threads
  %following = add i64 %thread, 1
  %within = mul i64 %all, %following
  %end = udiv i64 %within, %threads
  %any = icmp ult i64 %first, %end
  br i1 %any, label %work, label %done
work:"""
        )
        self._all_rows()
        self._line("  br label %done")
        self._line("done:")
        self._line("  ret void")
        self._line("}")

    def _entry(self, is_parallel: bool) -> None:
        """Write `multiply`, which divides the panels between the threads of OpenMP."""
        if is_parallel:
            self._line(
                """define internal void @share(ptr %call) #0 {
  %thread = call i32 @omp_get_thread_num()
  %threads = call i32 @omp_get_num_threads()
  %t = zext i32 %thread to i64
  %n = zext i32 %threads to i64
  call void @panels(ptr %call, i64 %t, i64 %n)
  ret void
}"""
            )
        self._line(
            "define void @multiply(ptr %matrix, ptr %x, ptr %y, ptr %added, i64 %added_stride, "
            "i64 %rows, i32 %threads) #0 {"
        )
        self._line(f"  %call = alloca [{len(FIELDS)} x i64], align 8")
        for index, field in enumerate(FIELDS):
            at = self._name(f"getelementptr i64, ptr %call, i64 {index}")
            if index < 4:
                there = self._name(f"getelementptr i64, ptr %matrix, i64 {index}")
                copied = self._name(f"load i64, ptr {there}")
                self._line(f"  store i64 {copied}, ptr {at}")
            else:
                self._line(f"  store {_kind(field)} %{field}, ptr {at}")
        if is_parallel:
            self._line(
                """  %is_alone = icmp eq i32 %threads, 1
  br i1 %is_alone, label %alone, label %together
together:
  call void @GOMP_parallel(ptr @share, ptr %call, i32 %threads, i32 0)
  ret void
alone:"""
            )
        self._line("  call void @panels(ptr %call, i64 0, i64 1)")
        self._line("  ret void")
        self._line("}")

    def _outputs(self, row: str, output: str) -> str:
        """Write code for the address of an output in a row of y."""
        before = self._name(f"mul i64 {row}, %outputs")
        at = self._name(f"add i64 {before}, {output}")
        return self._name(f"getelementptr {self._rows.value}, ptr %y, i64 {at}")

    def _added(self, row: str, output: str) -> str:
        """Write code for the address of an added value. It is null if nothing is added."""
        before = self._name(f"mul i64 {row}, %added_stride")
        at = self._name(f"add i64 {before}, {output}")
        there = self._name(f"getelementptr {self._rows.value}, ptr %added, i64 {at}")
        is_added = self._name("icmp ne ptr %added, null")
        return self._name(f"select i1 {is_added}, ptr {there}, ptr null")

    def _finish(self, sums: list[list[str]]) -> None:
        """Write code that scales the sums, adds the added values, and stores the outputs.

        Padding of the last panel is not stored.
        """
        masks = [self._is_there(v) for v in self._vectors]
        scales = self._halves("%scales", 0) if self._weights is PanelForm.INT8 else None
        self._line("  %has_added = icmp ne ptr %added, null")
        for t, row in enumerate(sums):
            out = self._moved("%y", self._rows.value, f"{t}", "%outputs")
            added = self._moved("%added", self._rows.value, f"{t}", "%added_stride")
            for v, mask in enumerate(masks):
                total = row[v]
                if scales is not None:
                    total = self._name(f"fmul {self._float} {total}, {scales[v]}")
                total = self._plus(total, added, v, mask)
                self._store(total, out, v, mask)

    def _plus(self, total: str, added: str, vector: int, mask: str) -> str:
        at = self._at(added, vector)
        # If %added is null, the mask selects no lane, so the load does not read from the pointer.
        is_read = self._name(
            f"select i1 %has_added, {self._mask} {mask}, {self._mask} zeroinitializer"
        )
        value = self._name(
            f"call {self._value} @llvm.masked.load.v{self._registers.lanes}{self._row}.p0("
            f"ptr {at}, i32 2, {self._mask} {is_read}, {self._value} zeroinitializer)"
        )
        if self._rows is RowType.BFLOAT16:
            half = f"<{self._registers.lanes} x bfloat>"
            value = self._name(f"bitcast {self._value} {value} to {half}")
            value = self._name(f"fpext {half} {value} to {self._float}")
        return self._name(f"fadd {self._float} {total}, {value}")

    def _store(self, total: str, out: str, vector: int, mask: str) -> None:
        if self._rows is RowType.BFLOAT16:
            rounded = f"%r{next(self._names)}"
            self._line(to_bfloat16(rounded, total, self._registers.lanes))
            total = rounded
        self._line(
            f"  call void @llvm.masked.store.v{self._registers.lanes}{self._row}.p0("
            f"{self._value} {total}, ptr {self._at(out, vector)}, i32 2, {self._mask} {mask})"
        )

    def _is_there(self, vector: int) -> str:
        """Write code for a mask: the lanes that are outputs and not padding of the last panel."""
        lanes = self._registers.lanes
        wide = f"<{lanes} x i64>"
        first = self._name(f"insertelement {wide} undef, i64 %left, i32 0")
        left = self._name(
            f"shufflevector {wide} {first}, {wide} undef, <{lanes} x i32> zeroinitializer"
        )
        own = ", ".join(f"i64 {vector * lanes + lane}" for lane in range(lanes))
        return self._name(f"icmp ult {wide} <{own}>, {left}")

    def _halves(self, pointer: str, offset: int) -> list[str]:
        """Write code that loads bfloat16 values of a panel and converts them to float32."""
        found = []
        for v in self._vectors:
            at = offset + v * self._registers.lanes
            there = self._name(f"getelementptr bfloat, ptr {pointer}, i64 {at}")
            half = f"<{self._registers.lanes} x i16>"
            bits = self._name(f"load {half}, ptr {there}, align 2")
            wide = self._name(f"zext {half} {bits} to {self._int}")
            found.append(self._as_float(self._name(f"shl {self._int} {wide}, {self._all(16)}")))
        return found

    def _read_ahead(self, pointer: str) -> None:
        """Write code that prefetches the weights that are `ahead` bytes after a pointer."""
        if self._registers.ahead:
            later = self._name(f"getelementptr i8, ptr {pointer}, i64 {self._registers.ahead}")
            self._line(f"  call void @llvm.prefetch.p0(ptr {later}, i32 0, i32 3, i32 1)")

    def _moved(self, pointer: str, kind: str, rows: str, stride: str) -> str:
        offset = self._name(f"mul i64 {stride}, {rows}")
        return self._name(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def _at(self, pointer: str, vector: int) -> str:
        offset = vector * self._registers.lanes
        return self._name(f"getelementptr {self._rows.value}, ptr {pointer}, i64 {offset}")

    def _fma(self, left: str, right: str, added: str) -> str:
        kind = self._float
        return self._name(
            f"call {kind} @llvm.fma.v{self._registers.lanes}f32({kind} {left}, {kind} {right}, "
            f"{kind} {added})"
        )

    def _splat(self, scalar: str, kind: str = "float") -> str:
        """Write code that copies a scalar of some type to all lanes."""
        lanes = self._registers.lanes
        whole = f"<{lanes} x {kind}>"
        first = self._name(f"insertelement {whole} undef, {kind} {scalar}, i32 0")
        return self._name(
            f"shufflevector {whole} {first}, {whole} undef, <{lanes} x i32> zeroinitializer"
        )

    def _as_float(self, bits: str) -> str:
        return self._name(f"bitcast {self._int} {bits} to {self._float}")

    def _all(self, value: int) -> str:
        return "<" + ", ".join(f"i32 {value}" for _ in range(self._registers.lanes)) + ">"

    @property
    def _vectors(self) -> range:
        return range(self._registers.vectors)

    @property
    def _row(self) -> str:
        """The suffix of the names of LLVM's intrinsics for a vector with the dtype of x."""
        return "f32" if self._rows is RowType.FLOAT32 else "i16"

    def _name(self, operation: str) -> str:
        """Write an operation and return the name of its result."""
        name = f"%r{next(self._names)}"
        self._line(f"  {name} = {operation}")
        return name

    def _line(self, text: str) -> None:
        self.lines.append(text)


def _kind(field: str) -> str:
    return "ptr" if field in _POINTERS else "i64"


def _parameters(fields: Sequence[str]) -> str:
    """Return the fields with their types, for a function's definition and for calls of it."""
    return ", ".join(f"{_kind(each)} %{each}" for each in fields)
