/* fuzz_verify.c: runs `tarry verify` on a damaged directory. The command ends with status 0, or with 1 and a
 * sentence, prints the same as JSON, and changes nothing. If bytes were damaged and no checksum was corrected, the
 * result "fine" means that nothing of the history is missing: the index has the same rows, digest and position, and the
 * frames are those that were written, except for a torn tail that the index has not absorbed.
 *
 * The real command runs here; the functions below receive its output.
 *
 * The input is a program that damages the files: an opcode, the number of a file, and operands.
 *
 *     0  flipped bits                       offset, mask
 *     1  other bytes                        offset, count, the bytes
 *     2  zeros                              offset, count
 *     3  the file is truncated              size
 *     4  the file is extended               count, the bytes
 *     5  the file is deleted
 *     6  a correct checksum at the end of some bytes    offset, which */
#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../said.h"
#include "bytes.h"
#include "directory.h"
#include "fuzz.h"
#include "input.h"

#define OPS_MAX 12

static struct directory directory;

/* ---- damage */

struct damage {
    struct input input;
    bool forged; /* a checksum was made correct after a change */
};

static void mend(uint8_t *data, size_t size, size_t offset, unsigned which) {
    /* Number of bytes before the checksum, in the identity, in a frame header, and in a segment header. */
    static const size_t summed[] = {64, 104, 112};
    size_t length = summed[which % 3];
    if (offset + length + 8 <= size) put_u64(data + offset + length, frame_sum(data + offset, length));
}

/* Writes the file once, after all changes that the input makes to it in a row. */
static void damage_one(struct damage *damage, size_t number) {
    static uint8_t data[1u << 20];
    struct input *input = &damage->input;
    const struct directory_file *file = &directory.files[number];
    size_t size = file->size, count;
    assert(size + 256 <= sizeof(data));
    memcpy(data, file->data, size);
    memset(data + size, 0, 256);
    for (unsigned left = 1 + input_byte(input) % 4; left > 0; left--) {
        unsigned what = input_byte(input) % 7;
        size_t offset = what == 5 || size == 0 ? 0 : input_number(input, 3) % size;
        const uint8_t *bytes;
        if (what == 0) data[offset] ^= input_byte(input);
        if (what == 1 || what == 4) {
            bytes = input_bytes(input, input_byte(input), &count);
            if (what == 4) offset = size;
            if (count > 0 && offset + count <= file->size + 256) memcpy(data + offset, bytes, count);
            if (offset + count > size && offset + count <= file->size + 256) size = offset + count;
        }
        if (what == 2) {
            count = input_number(input, 2);
            memset(data + offset, 0, count < size - offset ? count : size - offset);
        }
        if (what == 3) size = offset;
        if (what == 5) {
            directory_write(&directory, number, NULL, 0);
            return;
        }
        if (what == 6) {
            mend(data, size, offset, input_byte(input));
            damage->forged = true;
        }
    }
    directory_write(&directory, number, data, size);
}

/* ---- runs of the command */

static json_int_t number_of(const json_t *report, const char *name) {
    const json_t *value = json_object_get(report, name);
    assert(json_is_integer(value));
    return json_integer_value(value);
}

static json_t *run(int *out_status, bool json) {
    struct tool tool = {.json = json};
    const char *positional[] = {directory.path};
    struct args args = {.command = &command_verify, .positional = positional, .positional_count = 1};
    said[0] = 0;
    *out_status = command_verify.run(&tool, &args);
    assert(*out_status == EXIT_FINE || *out_status == EXIT_REFUSED);
    assert((*out_status == EXIT_FINE) == (said[0] == 0) && (said[0] == 0 || strlen(said) > 20));
    if (!json) return NULL;
    json_error_t error;
    json_t *report = json_loadb(printed.data, printed.size, JSON_REJECT_DUPLICATES, &error);
    assert(report != NULL);
    const char *result = json_string_value(json_object_get(report, "result"));
    assert((strcmp(result, "fine") == 0) == (*out_status == EXIT_FINE));
    return report;
}

/* Compares the report about a damaged directory that is "fine" with the report about the original one. */
static void nothing_is_missing(const json_t *report, const json_t *whole) {
    assert(number_of(report, "rows") == number_of(whole, "rows"));
    assert(number_of(report, "index_position") == number_of(whole, "index_position"));
    assert(number_of(report, "log_end") >= number_of(whole, "index_position"));
    assert(number_of(report, "log_end") <= number_of(whole, "log_end"));
    assert(number_of(report, "log_start") == number_of(whole, "log_start"));
    if (number_of(report, "log_end") != number_of(whole, "log_end")) return;
    assert(number_of(report, "frames") == number_of(whole, "frames"));
    assert(json_equal(json_object_get(report, "digest"), json_object_get(whole, "digest")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *whole;
    int status, again;
    if (size > 1024) return 0;
    if (whole == NULL) {
        directory_make(&directory, false);
        whole = run(&status, true);
        assert(status == EXIT_FINE);
    }
    directory_restore(&directory);
    struct damage damage = {.input = {data, size}};
    bool as_words = input_byte(&damage.input) % 8 == 0;
    for (unsigned i = 0; i < OPS_MAX && damage.input.size > 0; i++) {
        size_t number = input_byte(&damage.input) % directory.file_count;
        if (!directory.files[number].changed) damage_one(&damage, number);
    }
    json_t *report = run(&status, true);
    if (status == EXIT_FINE && !damage.forged) nothing_is_missing(report, whole);
    if (as_words) {
        (void)run(&again, false);
        assert(again == status);
    }
    json_decref(report);
    return 0;
}
