/* fuzz_pair_record.c: data from a coordinator: the pair's record, the file with the record, and the coordinator's
 * address. An accepted record equals, byte for byte, what would be written for it; anything else is refused with a
 * sentence. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "frame.h"
#include "fuzz.h"
#include "place.h"
#include "record.h"

static void try_record(const char *text, size_t size) {
    struct coordinator_record record;
    char message[COORDINATOR_MESSAGE_SIZE] = "", again[COORDINATOR_VALUE_SIZE_MAX + 1];
    if (record_read(text, size, &record, message) != 0) {
        assert(message[0] != 0);
        return;
    }
    assert(record_check(&record) == NULL);
    assert(record_write(&record, again) == size && memcmp(again, text, size) == 0);
}

static void try_entries(const char *text, size_t size) {
    static struct entries entries;
    static char again[ENTRIES_SIZE_MAX + 1];
    if (size > ENTRIES_SIZE_MAX || !entries_read(text, size, &entries)) return;
    assert(entries_write(&entries, again) == size && memcmp(again, text, size) == 0);
    for (size_t i = 0; i < entries.count; i++)
        assert(entries_find(&entries, entries.items[i].name) == &entries.items[i]);
}

/* Tries the text with a correct checksum at its end, which the fuzzer would never find. */
static void try_summed(const char *text, size_t size) {
    static char summed[ENTRIES_SIZE_MAX + ENTRIES_LINE_MAX];
    if (size > ENTRIES_SIZE_MAX) return;
    memcpy(summed, text, size);
    int line = sprintf(summed + size, "sum %016" PRIx64 "\n", frame_sum(text, size));
    try_entries(summed, size + (size_t)line);
}

static void try_place(const struct place_kind *kind, const char *text, size_t size) {
    char place[COORDINATOR_URL_SIZE_MAX + 1], hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char message[COORDINATOR_MESSAGE_SIZE] = "";
    const char *path;
    if (size > COORDINATOR_URL_SIZE_MAX || memchr(text, 0, size) != NULL) return;
    memcpy(place, text, size);
    place[size] = 0;
    if (place_take(kind, place, hosts, &path, message) != 0) {
        assert(message[0] != 0);
        return;
    }
    assert(path > place && path[0] == '/' && path[1] != 0 && path[strlen(path) - 1] != '/' &&
           strstr(path, "//") == NULL);
    assert(strlen(hosts) <= (size_t)(path - place) && strchr(hosts, '/') == NULL);
    assert(!kind->drops_brackets || strchr(hosts, '[') == NULL);
}

static const struct place_kind kinds[] = {
    {.scheme = "zk://", .server = "ZooKeeper", .reserved = "/zookeeper", .port = 2181, .drops_brackets = true},
    {.scheme = "etcd://", .server = "etcd", .port = 2379, .hosts_max = 3},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    try_record((const char *)data, size);
    try_entries((const char *)data, size);
    try_summed((const char *)data, size);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) try_place(&kinds[i], (const char *)data, size);
    return 0;
}
