/* fuzz_import.c: data from other servers for `tarry import`, and a receipt. Strings of Redis are inside the received
 * data and have their stated length. beanstalkd's data about a job, a tube or a number is read within the limits or
 * not at all. A valid receipt equals what would be written for it.
 *
 * The input: one byte that selects the kind, then the bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bean_words.h"
#include "fuzz.h"
#include "receipt.h"
#include "resp.h"
#include "server_link.h"

#define INPUT_SIZE_MAX 8192u

static void try_resp(const char *bytes, size_t size) {
    struct server_link link;
    struct resp resp;
    size_t items = 0;
    server_link_over(&link, bytes, size);
    while (resp_read(&link, &resp)) {
        items++;
        assert(items <= size); /* each item is at least one byte long */
        assert(resp.kind <= RESP_HUGE);
        if (resp.kind == RESP_STRING || resp.kind == RESP_ERROR) {
            assert(resp.size < size && resp.bytes >= link.data && resp.bytes + resp.size <= link.data + link.end);
            assert(resp.size == 0 || memmem(bytes, size, resp.bytes, resp.size) != NULL);
        }
        if (resp.kind == RESP_ARRAY) assert(resp.number >= 0 && resp.number <= RESP_ITEMS_MAX);
        if (resp.kind == RESP_HUGE) assert(false); /* no input is large enough for such a string */
    }
    assert(link.error[0] != 0 && strnlen(link.error, SERVER_LINK_ERROR_SIZE) < SERVER_LINK_ERROR_SIZE);
    assert(!resp_read(&link, &resp) && link.fd == -1); /* a link that has failed must stay failed */
    server_link_close(&link);
}

static void try_lines(const char *bytes, size_t size, size_t size_max) {
    struct server_link link;
    const char *line;
    size_t line_size, at = 0;
    server_link_over(&link, bytes, size);
    while (server_link_line(&link, size_max, &line, &line_size)) {
        assert(line_size <= size_max && line[line_size] == 0 && at + line_size + 2 <= size);
        assert(memcmp(bytes + at, line, line_size) == 0 && memcmp(bytes + at + line_size, "\r\n", 2) == 0);
        at += line_size + 2;
    }
    server_link_close(&link);
}

static void try_yaml(const char *yaml, size_t size) {
    struct bean_job job;
    char tube[BEAN_TUBE_SIZE];
    const char *at = yaml, *end = yaml + size, *value;
    size_t value_size;
    if (bean_value(yaml, size, "id", &value, &value_size)) {
        assert(value >= yaml + 4 && value + value_size <= end);
        assert(value_size == 0 || memchr(value, '\n', value_size) == NULL);
    }
    if (bean_job_parse(yaml, size, &job)) {
        assert(bean_is_tube(job.tube) || job.tube[0] == '-');
        assert(job.state <= BEAN_RESERVED && job.ttr_s > 0 && job.left_s < INT64_MAX / 1000);
    }
    for (const char *before = at; bean_item(&at, end, tube) > 0; before = at) {
        assert(at > before && at <= end);
        assert(strlen(tube) < BEAN_TUBE_SIZE && strlen(tube) > 0 && strpbrk(tube, " \r\n\x1b") == NULL);
    }
}

static void try_receipt(const char *text, size_t size) {
    struct receipt receipt, again;
    struct text out = {0};
    if (receipt_parse(&receipt, text, size)) {
        receipt_begin(&out, receipt.server);
        for (size_t i = 0; i < receipt.count; i++) {
            receipt_add(&out, &receipt.marks[i]);
            assert(receipt_has(&receipt, &receipt.marks[i], 0));
        }
        assert(receipt_parse(&again, out.data, out.size));
        assert(again.count == receipt.count && strcmp(again.server, receipt.server) == 0);
        if (again.count > 0) assert(memcmp(again.marks, receipt.marks, again.count * sizeof *again.marks) == 0);
        receipt_deinit(&again);
    }
    receipt_deinit(&receipt);
    text_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > INPUT_SIZE_MAX) return 0;
    char *bytes =
        malloc(size - 1 +
               (size == 1)); /* the block ends with the last byte, so that a sanitizer detects a read past the end */
    if (bytes == NULL) abort();
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 4 == 0) try_resp(bytes, size - 1);
    if (data[0] % 4 == 1) try_yaml(bytes, size - 1);
    if (data[0] % 4 == 2) try_receipt(bytes, size - 1);
    if (data[0] % 4 == 3) try_lines(bytes, size - 1, data[0] / 4);
    free(bytes);
    return 0;
}
