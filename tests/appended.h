/* appended.h: makes the frame header that log_append would write for a frame of the core, for tests without a log. */
#ifndef TARRY_TESTS_APPENDED_H
#define TARRY_TESTS_APPENDED_H

#include "core.h"
#include "frame.h"

static inline struct frame_header appended_header(const struct core_append *append) {
    uint64_t blob_size = 0;
    for (size_t i = 0; i < append->content_count; i++) blob_size += append->contents[i]->size;
    return (struct frame_header){.type = append->type,
                                 .epoch = append->epoch,
                                 .body_size = append->body_size,
                                 .blob_size = (uint32_t)blob_size,
                                 .position = append->position,
                                 .steady_ns = append->now.steady_ns,
                                 .wall_ns = append->now.wall_ns};
}

#endif
