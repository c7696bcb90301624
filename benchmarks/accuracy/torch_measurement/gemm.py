"""Matrix products: which shapes."""

from .settings import Matmul


def default_shapes(quick=False):
    if quick:
        return [Matmul(2048, 2048, 2048), Matmul(4096, 4096, 4096)]
    return [Matmul(1 << p, 1 << p, 1 << p) for p in range(10, 15)]
