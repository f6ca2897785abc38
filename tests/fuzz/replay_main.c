/* replay_main.c: runs a fuzz target over a corpus, as an ordinary test: every file of the directories and files named,
 * each prefix of it (a message may be cut off anywhere), and each with one bit flipped (up to a limit). The input lies
 * in memory of exactly its size, so that AddressSanitizer sees a read past its end. Exit status 0: nothing crashed.
 *
 *   replay_NAME [--variants N] PATH...        at most N prefixes, and N flips, of each file */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define INPUT_SIZE_MAX (4u << 20)

static size_t variants_max = 2048;

static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = calloc(size > 0 ? size : 1, 1);
    if (copy == NULL) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_variants(uint8_t *data, size_t size) {
    run(data, size);
    size_t step = size / variants_max + 1;
    for (size_t cut = 0; cut < size; cut += step) run(data, cut);
    step = size * 8 / variants_max + 1;
    for (size_t bit = 0; bit < size * 8; bit += step) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        run(data, size);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static int replay_file(const char *path) {
    static uint8_t data[INPUT_SIZE_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    size_t size = fread(data, 1, sizeof(data), file);
    int failed = ferror(file) || !feof(file);
    fclose(file);
    if (failed) {
        fprintf(stderr, "%s: unreadable, or larger than %u bytes\n", path, INPUT_SIZE_MAX);
        return -1;
    }
    run_variants(data, size);
    return 1;
}

/* Number of files replayed, or -1. */
static int replay(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(status.st_mode)) return replay_file(path);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    int count = 0;
    // cppcheck-suppress readdirCalled ; one thread
    for (struct dirent *entry; count >= 0 && (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char name[4096];
        if (snprintf(name, sizeof(name), "%s/%s", path, entry->d_name) >= (int)sizeof(name)) {
            fprintf(stderr, "%s/%s: name too long\n", path, entry->d_name);
            count = -1;
            break;
        }
        int got = replay_file(name);
        count = got < 0 ? -1 : count + got;
    }
    closedir(directory);
    return count;
}

int main(int argc, char **argv) {
    int total = 0;
    run((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--variants") == 0 && i + 1 < argc) {
            variants_max = strtoul(argv[++i], NULL, 10) | 1;
            continue;
        }
        int count = replay(argv[i]);
        if (count < 0) return 1;
        total += count;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1; /* a corpus that went missing must not pass */
}
