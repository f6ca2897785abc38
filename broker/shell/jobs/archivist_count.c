/* archivist_count.c: see archivist.h. */
#include "archivist.h"

#include <stdio.h>
#include <stdlib.h>

#include "archive_keep.h"

#define NS_EACH_MS 1000000u

void archive_count_init(struct archive_count *count) {
    *count = (struct archive_count){0};
    pthread_mutex_init(&count->mutex, NULL);
}

void archive_count_read(struct archive_count *count, struct archive_numbers *out) {
    pthread_mutex_lock(&count->mutex);
    *out = count->numbers;
    pthread_mutex_unlock(&count->mutex);
}

static void take(struct archive_numbers *numbers, const struct archive_info *info) {
    if (numbers->segments == 0) numbers->oldest_ms = info->last_wall_ns / NS_EACH_MS;
    numbers->segments++;
    numbers->bytes += info->bytes;
}

void archive_count_survey(struct archive_count *count, const struct archive *archive) {
    struct archive_numbers numbers = {0};
    struct archive_holds holds;
    uint64_t *bases;
    size_t base_count;
    if (archive_list(archive, &bases, &base_count) != 0) return;
    if (archive_holds_read(archive, &holds) != 0) {
        free(bases);
        return;
    }
    for (size_t i = 0; i < base_count; i++) {
        struct archive_info info;
        const char *problem;
        bool all_held = false;
        if (archive_look(archive, bases[i], &info, &problem) != 0) continue;
        take(&numbers, &info);
        numbers.held += archive_held_by(&holds, &info, &all_held) != NULL || all_held;
    }
    archive_holds_free(&holds);
    free(bases);
    pthread_mutex_lock(&count->mutex);
    snprintf(numbers.failure, sizeof(numbers.failure), "%s", count->numbers.failure);
    count->numbers = numbers;
    pthread_mutex_unlock(&count->mutex);
}

void archive_count_add(struct archive_count *count, const struct archive_info *info) {
    pthread_mutex_lock(&count->mutex);
    take(&count->numbers, info);
    pthread_mutex_unlock(&count->mutex);
}

void archive_count_fail(struct archive_count *count, const char *sentence) {
    pthread_mutex_lock(&count->mutex);
    snprintf(count->numbers.failure, sizeof(count->numbers.failure), "%s", sentence != NULL ? sentence : "");
    pthread_mutex_unlock(&count->mutex);
}
