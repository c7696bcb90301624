"""What cannot be answered."""

from __future__ import annotations


class PlanError(ValueError):
    """What was asked cannot be: the message says why, and what can.

    Where the library refused, ``code`` is its error, ``facts`` are the numbers that it names, and
    ``field`` and ``value`` what is at fault. Where a keyword alone is at fault, ``field`` is its
    name and ``value`` what was given; ``code`` is then None.

    >>> import gpuplan
    >>> try:
    ...     gpuplan.memory("llama-3-8b", framework="megatron-core", tensor_parallel=6)
    ... except gpuplan.PlanError as error:
    ...     print(error)
    ...     print(error.code, error.field, error.value)
    tensor_parallel 6 does not divide num_attention_heads 32; 1, 2, 4, 8, 16 or 32 do
    does_not_divide tensor_parallel 6
    """

    def __init__(
        self,
        sentence: str,
        code: str | None = None,
        field: str | None = None,
        value: object = None,
        facts: dict[str, int | float | bool | str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.field = field
        self.value = value
        self.facts = facts or {}
