/* must.h: a check for test helpers without a cmocka state. If it fails, it prints its place and aborts. */
#ifndef TARRY_TESTS_MUST_H
#define TARRY_TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition);                           \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
