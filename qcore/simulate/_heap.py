"""A binary heap of times in an array.

Numba compiles the standard library's `heapq`, but code that uses its lists cannot be kept on disk.
"""

from qcore._numerics.compiled import njit


@njit
def push(heap, size, time):
    """Add ``time`` to the heap in ``heap[:size]``."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent] <= time:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = time


@njit
def pop(heap, size):
    """Remove the least time, ``heap[0]``, from the heap in ``heap[:size]``."""
    last = heap[size - 1]
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if last <= heap[child]:
            break
        heap[parent] = heap[child]
        parent = child
    heap[parent] = last
