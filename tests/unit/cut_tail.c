/* cut_tail.c: cuts the log in the directory of a stopped broker. A node cuts its log in the same way if the leader
 * lacks its last frames (storage/log/quarantine_cut.c). Usage: cut_tail DIR POSITION WHY. Prints the name of the
 * quarantined tail. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "identity.h"
#include "quarantine.h"
#include "tarry_limits.h"

#define PATH_SIZE 4096

static int cut(const char *directory, uint64_t position, const char *why) {
    char log_path[PATH_SIZE], aside_path[PATH_SIZE], message[IDENTITY_MESSAGE_SIZE] = "";
    struct identity identity;
    struct log *log;
    struct log_recovery recovery;
    struct quarantine_tail tail;
    snprintf(log_path, sizeof log_path, "%s/log", directory);
    snprintf(aside_path, sizeof aside_path, "%s/%s", directory, QUARANTINE_NAME);
    struct log_options options = {.directory = log_path, .disk = &disk_posix, .segment_size = SEGMENT_SIZE_DEFAULT};
    struct quarantine quarantine = {.disk = &disk_posix, .directory = aside_path};
    int error = identity_read(directory, &identity, message);
    memcpy(options.cluster, identity.cluster, sizeof options.cluster);
    memcpy(quarantine.cluster, identity.cluster, sizeof quarantine.cluster);
    if (error == 0) error = log_open(&log, &options, 0, &recovery, message, sizeof message);
    if (error != 0) {
        (void)fprintf(stderr, "%s\n", message);
        return 1;
    }
    error = log_cut(log, position, 0, &quarantine, why, &tail);
    log_close(log);
    if (error != 0) (void)fprintf(stderr, "log_cut: %d\n", error);
    if (error == 0) printf("%s\n", tail.name);
    return error == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 4) return cut(argv[1], strtoull(argv[2], NULL, 10), argv[3]);
    (void)fprintf(stderr, "usage: cut_tail DIR POSITION WHY\n");
    return 2;
}
