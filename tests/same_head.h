/* same_head.h: compares two heads by their encoded bytes, because the structure has padding. */
#ifndef TARRY_TESTS_SAME_HEAD_H
#define TARRY_TESTS_SAME_HEAD_H

#include <stdbool.h>
#include <string.h>

#include "head.h"

static inline bool is_same_head(const struct head *a, const struct head *b) {
    uint8_t bytes[2][HEAD_SIZE];
    head_encode(a, bytes[0]);
    head_encode(b, bytes[1]);
    return memcmp(bytes[0], bytes[1], HEAD_SIZE) == 0;
}

#endif
