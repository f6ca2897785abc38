/* replay_main.c: runs a fuzz target over inputs, as an ordinary test: each input, each of its prefixes (a message
 * may be truncated anywhere), and each with one bit flipped (up to a limit). The input is in memory of exactly its
 * size, so that AddressSanitizer detects reads past its end. Exit status 0: nothing crashed.
 *
 * replay_NAME [--variants N] [--corpus FILE] [FILE]...
 *
 * --variants: at most N prefixes, and N flips, of each input. --corpus: a file with one input per line, as corpus.py
 * writes it. Any other FILE is one input, such as a crash that libFuzzer kept. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint8_t file_bytes[INPUT_SIZE_MAX + 1]; /* contents of one file at a time, with a NUL after it */

/* Reads a file into file_bytes. Returns its size, or -1 after it printed a sentence. */
static long load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    size_t size = fread(file_bytes, 1, sizeof(file_bytes), file);
    bool is_whole = !ferror(file) && size < sizeof(file_bytes);
    fclose(file);
    if (!is_whole) {
        fprintf(stderr, "%s: unreadable, or larger than %u bytes\n", path, INPUT_SIZE_MAX);
        return -1;
    }
    file_bytes[size] = '\0';
    return (long)size;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes `text` in place: a printable character stands for itself, \xNN for any byte. Returns the size, or -1 if the
 * text has anything else. */
static long unescape(char *text) {
    char *out = text;
    for (const char *in = text; *in;) {
        if (*in != '\\') {
            if (*in < ' ' || *in > '~') return -1;
            *out++ = *in++;
            continue;
        }
        int high = in[1] == 'x' ? digit(in[2]) : -1, low = high >= 0 ? digit(in[3]) : -1;
        if (low < 0) return -1;
        *out++ = (char)(high << 4 | low);
        in += 4;
    }
    return out - text;
}

/* Replays a corpus. Returns the number of inputs, or -1. */
static int replay_corpus(const char *path) {
    if (load(path) < 0) return -1;
    int count = 0;
    char *rest = (char *)file_bytes, *line;
    while ((line = strsep(&rest, "\n")) != NULL && *line) {
        char *text = strchr(line, '\t');
        long size = text ? unescape(text + 1) : -1;
        if (size < 0) {
            fprintf(stderr, "%s: line %d is not a name, a tab, and characters or \\xNN\n", path, count + 1);
            return -1;
        }
        run_variants((uint8_t *)text + 1, (size_t)size);
        count++;
    }
    return count;
}

static int replay_file(const char *path) {
    long size = load(path);
    if (size < 0) return -1;
    run_variants(file_bytes, (size_t)size);
    return 1;
}

int main(int argc, char **argv) {
    int total = 0;
    run((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--variants") == 0 && i + 1 < argc) {
            variants_max = strtoul(argv[++i], NULL, 10) | 1;
            continue;
        }
        bool is_corpus = strcmp(argv[i], "--corpus") == 0 && i + 1 < argc;
        int count = is_corpus ? replay_corpus(argv[++i]) : replay_file(argv[i]);
        if (count < 0) return 1;
        total += count;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1; /* a corpus without inputs, for example a missing file, is a failure */
}
