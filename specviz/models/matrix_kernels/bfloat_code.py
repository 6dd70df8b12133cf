"""The rounding of float32 vectors to bfloat16, as LLVM code.

For a processor without instructions for bfloat16, LLVM turns `fptrunc` into calls of the function
`__truncsfbf2`. Many systems lack this function, and the call then ends the process. Even storing a
part of a vector of type bfloat has such calls. So the code here has the bits of bfloat16 numbers in
vectors of type i16.
"""

from __future__ import annotations


def to_bfloat16(name: str, value: str, lanes: int) -> str:
    """Return code for the bits of the bfloat16 numbers that are nearest to a vector, ties to even.

    The code treats NaN separately, because the addition that rounds could turn its bits into those
    of a number.
    """
    words = f"<{lanes} x i32>"

    def each(number: int) -> str:
        return "<" + ", ".join([f"i32 {number}"] * lanes) + ">"

    return f"""  {name}_bits = bitcast <{lanes} x float> {value} to {words}
  {name}_upper = lshr {words} {name}_bits, {each(16)}
  {name}_odd = and {words} {name}_upper, {each(1)}
  {name}_half = add {words} {name}_odd, {each(0x7FFF)}
  {name}_near = add {words} {name}_bits, {name}_half
  {name}_quiet = or {words} {name}_bits, {each(0x400000)}
  {name}_is_nan = fcmp uno <{lanes} x float> {value}, {value}
  {name}_kept = select <{lanes} x i1> {name}_is_nan, {words} {name}_quiet, {words} {name}_near
  {name}_high = lshr {words} {name}_kept, {each(16)}
  {name} = trunc {words} {name}_high to <{lanes} x i16>"""
