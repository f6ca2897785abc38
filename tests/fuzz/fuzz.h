/* fuzz.h: what every fuzz target has. A target asserts what must hold whatever the input; it returns 0. */
#ifndef TARRY_TESTS_FUZZ_H
#define TARRY_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
