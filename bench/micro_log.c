/* micro_log.c: how fast the log appends frames, and how fast it is recovered.
 *
 * micro_log [DIR] [MEBIBYTES]      default: a directory in /tmp, 512 MiB for each line
 *
 * Each line: frames of one size, with a number of frames per sync; frames and bytes per second; quantiles of append
 * + write + sync, whose maximum shows the cost of a roll. The last line is recovery: every frame is checked, with
 * the chain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "log.h"
#include "tarry_limits.h"

struct bench {
    struct log_options options;
    struct log *log;
    struct log_recovery recovery;
    uint64_t bytes_max;
};

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(int result, const char *what) {
    if (result == 0) return;
    fprintf(stderr, "micro_log: %s: %d\n", what, result);
    exit(1);
}

static double open_log(struct bench *bench) {
    char message[512] = "";
    double start = now_s();
    int result = log_open(&bench->log, &bench->options, 0, &bench->recovery, message, sizeof(message));
    if (result < 0) fprintf(stderr, "micro_log: %s\n", message);
    must(result, "log_open");
    return now_s() - start;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void append_many(struct bench *bench, uint32_t body_size, uint32_t blob_size, size_t batch) {
    static uint8_t bytes[1 << 20];
    uint64_t frame = frame_size(body_size, blob_size);
    size_t batches = (size_t)(bench->bytes_max / (frame * batch));
    if (batches > 20000) batches = 20000;
    double *took_s = calloc(batches + 1, sizeof(*took_s));
    struct log_piece blob = {bytes, blob_size};
    double start = now_s();
    for (size_t i = 0; i < batches; i++) {
        double before = now_s();
        for (size_t k = 0; k < batch; k++)
            must(log_append(bench->log, &(struct log_frame){.type = FRAME_COMMIT,
                                                            .epoch = 1,
                                                            .position = log_end(bench->log),
                                                            .body = bytes,
                                                            .body_size = body_size,
                                                            .pieces = &blob,
                                                            .piece_count = 1}),
                 "log_append");
        must(log_sync(bench->log), "log_sync");
        took_s[i] = now_s() - before;
    }
    double took = now_s() - start;
    qsort(took_s, batches, sizeof(*took_s), compare);
    printf("%8u + %7u %7zu %12.0f %9.1f %9.0f %9.0f %9.0f\n", body_size, blob_size, batch,
           (double)(batches * batch) / took, (double)(batches * batch * frame) / took / 1e6, took_s[batches / 2] * 1e6,
           took_s[batches * 99 / 100] * 1e6, took_s[batches - 1] * 1e6);
    free(took_s);
    struct log_segment oldest;
    while (log_oldest(bench->log, log_durable(bench->log), &oldest))
        must(log_retire(bench->log, oldest.base), "retire");
}

static void recover(struct bench *bench) {
    static uint8_t body[200];
    while (log_end(bench->log) - log_start(bench->log) < 4 * bench->options.segment_size)
        must(log_append(bench->log, &(struct log_frame){.type = FRAME_COMMIT,
                                                        .epoch = 1,
                                                        .position = log_end(bench->log),
                                                        .body = body,
                                                        .body_size = sizeof(body)}),
             "log_append");
    must(log_sync(bench->log), "log_sync");
    log_close(bench->log);
    double took = open_log(bench);
    double bytes = (double)(bench->recovery.end - bench->recovery.start);
    printf("recovery: %.0f MB of 200-byte frames in %.0f ms: %.0f MB/s, %.0f frames/s\n", bytes / 1e6, took * 1e3,
           bytes / took / 1e6, bytes / (double)frame_size(sizeof(body), 0) / took);
}

static int delete_each(void *argument, const char *name) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", (const char *)argument, name);
    unlink(path);
    return 0;
}

int main(int argc, char **argv) {
    if (sodium_init() < 0) return 1; /* sodium_init selects the fastest BLAKE2b of this processor */
    char root[256], directory[512];
    snprintf(root, sizeof(root), "%s/tarry-log-bench-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (!mkdtemp(root)) {
        perror(root);
        return 1;
    }
    snprintf(directory, sizeof(directory), "%s/log", root);
    struct bench bench = {.bytes_max = (argc > 2 ? strtoull(argv[2], NULL, 0) : 512) << 20};
    bench.options = (struct log_options){.directory = directory,
                                         .disk = &disk_posix,
                                         .segment_size = SEGMENT_SIZE_DEFAULT,
                                         .prepare_ahead = true};
    open_log(&bench);
    printf("    body +    blob   batch     frames/s      MB/s    p50_us    p99_us    max_us\n");
    append_many(&bench, 200, 0, 1);
    append_many(&bench, 200, 0, 64);
    append_many(&bench, 200, 0, 1024);
    append_many(&bench, 200, 200, 1024);
    append_many(&bench, 100000, 300000, 4);
    append_many(&bench, 1 << 20, 1 << 20, 4);
    recover(&bench);
    log_close(bench.log);
    disk_posix.list(NULL, directory, delete_each, directory);
    rmdir(directory);
    rmdir(root);
    return 0;
}
