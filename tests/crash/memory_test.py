"""memory_test.py: an allocation fails once, or all allocations from then on fail (F-11). tarryd refuses the request or ends
with an error message. It never crashes, and never loses what it has confirmed. Allocations of its libraries fail too.
"""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from campaign import Campaign  # noqa: E402

HEAP = "heap.any+other.mmap"


class NoMemory(Campaign):
    def test_f11_one_allocation(self):
        self.every_call(HEAP, "ENOMEM", 16, deadline_s=10)

    def test_f11_one_aligned_allocation(self):
        """Only the filters of the index's runs and of summaries use aligned_alloc. These calls are so few that a sample of all
        allocations would miss them.
        """
        self.every_call("heap.aligned_alloc", "ENOMEM", 4, deadline_s=10)

    def test_f11_all_from_one_on(self):
        self.every_call(HEAP, "ENOMEM", 10, for_ever=True, deadline_s=4)

    def test_f11_threads(self):
        self.every_call("process.pthread_create", "EAGAIN", 3)


if __name__ == "__main__":
    harness.main()
