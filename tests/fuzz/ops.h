/* ops.h: makes operations of commits from a fuzzer's input: well-formed, of every kind, with few queues and keys, so
 * that they affect the same tasks. */
#ifndef TARRY_TESTS_FUZZ_OPS_H
#define TARRY_TESTS_FUZZ_OPS_H

#include "arena.h"
#include "input.h"
#include "row.h"

#define OPS_QUEUES 3
extern const char *const ops_queues[OPS_QUEUES];

struct ops_lease { /* a lease of some consumer */
    uint64_t id, position;
    uint32_t epoch;
};

struct ops_source {
    struct input *input;
    struct arena *arena; /* holds everything that is made */
    uint64_t wall_ms;    /* wall-clock time; the absolute times in operations are near it */
    uint32_t epoch;
    const struct ops_lease *held;
    size_t held_count;
};

Tarry__Op *ops_any(const struct ops_source *from);
Tarry__Ref *ops_ref(const struct ops_source *from);

/* Zeroed. */
void *ops_keep(struct arena *arena, size_t size);
#define OPS_NEW(arena, type, init)                                                                                     \
    ({                                                                                                                 \
        type *new_ = ops_keep(arena, sizeof(type));                                                                    \
        init(new_);                                                                                                    \
        new_;                                                                                                          \
    })

#endif
