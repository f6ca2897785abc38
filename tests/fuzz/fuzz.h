/* fuzz.h: the entry point of every fuzz target. A target asserts what must be true for any input; it returns 0. */
#ifndef TARRY_TESTS_FUZZ_H
#define TARRY_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
