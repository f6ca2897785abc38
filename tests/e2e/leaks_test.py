"""leaks_test.py: tests/leaks.py lets pass what nng lost, and nothing of ours."""
import unittest

import harness  # it says where leaks.py is
import leaks

NNG = """==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 112 byte(s) in 1 object(s) allocated from:
    #0 0x7f4df0cb83b7 in __interceptor_calloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:77
    #1 0x7f4df1341c60  (/lib/x86_64-linux-gnu/libnng.so.1+0x1cc60)
    #2 0x7f4df137869a  (/lib/x86_64-linux-gnu/libnng.so.1+0x5369a)
    #3 0x7f4df02a71f4 in start_thread nptl/pthread_create.c:442

Indirect leak of 92 byte(s) in 1 object(s) allocated from:
    #0 0x7f4df0cb83b7 in __interceptor_calloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:77
    #1 0x7f4df1341b07  (/lib/x86_64-linux-gnu/libnng.so.1+0x1cb07)
    #2 0x7f4df02a71f4 in start_thread nptl/pthread_create.c:442

SUMMARY: AddressSanitizer: 204 byte(s) leaked in 2 allocation(s).
"""
OURS = "    #2 0x5634761c8067 in request_pack ../client/lib/request.c:114"


class Leaks(unittest.TestCase):
    def test_what_nng_lost(self):
        self.assertTrue(leaks.are_nngs("ok 1 - something\n" + NNG))
        self.assertTrue(leaks.are_nngs("\n".join("# " + line for line in NNG.splitlines())))

    def test_a_libc_without_symbols(self):
        bare = NNG.replace("in start_thread nptl/pthread_create.c:442", " (/lib/x86_64-linux-gnu/libc.so.6+0x891f4)")
        self.assertTrue(leaks.are_nngs(bare))

    def test_a_connection_that_nng_forgot(self):
        ring = NNG.replace("Direct", "Indirect")
        self.assertTrue(leaks.are_nngs(ring))
        self.assertFalse(leaks.are_nngs(ring + "\n".join(ring.splitlines()[2:7] + [""]) * 63), "each of many connections")
        self.assertFalse(leaks.are_nngs(ring.replace("libnng.so.1", "libtarry.so.0")))

    def test_what_is_ours(self):
        lines = NNG.splitlines()
        for at in (4, 11):
            self.assertFalse(leaks.are_nngs("\n".join([*lines[:at + 1], OURS, *lines[at + 1:]])))
        self.assertFalse(leaks.are_nngs(NNG.replace("in 1 object", "in 100 object")), "we forget every message")
        self.assertFalse(leaks.are_nngs(NNG.replace("libnng.so.1", "libcmocka.so.0")))

    def test_what_is_no_leak(self):
        self.assertFalse(leaks.are_nngs(""))
        self.assertFalse(leaks.are_nngs("not a report"))
        self.assertFalse(leaks.are_nngs(NNG + "==8==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n"))
        self.assertFalse(leaks.are_nngs("a.c:1: runtime error: signed integer overflow\n" + NNG))


if __name__ == "__main__":
    harness.main()
