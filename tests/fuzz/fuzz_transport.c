/* fuzz_transport.c: data from a server to libtarry's WebSocket: the answer to the upgrade, and frames after it.
 *
 * However the data is split, the same is read, within the limits, and no more than arrived. A refusal is a sentence
 * that a terminal may show. Memory does not exceed the received data. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "message_reader.h"
#include "ws_handshake.h"

#define MESSAGE_MAX 2048u
#define CAPACITY_MAX ((size_t)64 << 10)

/* The events that were read: a checksum of their kinds, sizes and bytes. */
struct told {
    uint64_t sum;
    unsigned count;
    bool is_wrong;
};

static void fold(struct told *told, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) told->sum = (told->sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void take_all(struct message_reader *reader, struct told *told) {
    struct ws_event event = {.kind = WS_DATA};
    while (!told->is_wrong && event.kind != WS_NEEDS_MORE) {
        message_reader_next(reader, &event);
        if (event.kind == WS_NEEDS_MORE) break;
        told->is_wrong = event.kind == WS_FAILED;
        assert(told->is_wrong == (event.error != WS_ERROR_NONE));
        assert(event.size <= (event.kind == WS_DATA ? MESSAGE_MAX : WS_CONTROL_MAX));
        told->count++;
        fold(told, &event.kind, sizeof(event.kind));
        fold(told, &event.size, sizeof(event.size));
        fold(told, &event.code, sizeof(event.code));
        if (event.size > 0) fold(told, event.data, event.size);
    }
}

static struct told read_frames(const uint8_t *data, size_t size, size_t part) {
    struct message_reader reader;
    struct told told = {.sum = 0xcbf29ce484222325u};
    message_reader_init(&reader, MESSAGE_MAX);
    for (size_t at = 0; at < size && !told.is_wrong;) {
        size_t room, take = size - at < part ? size - at : part;
        uint8_t *to = message_reader_room(&reader, &room);
        if (to == NULL) abort();
        if (take > room) take = room;
        memcpy(to, data + at, take);
        message_reader_took(&reader, take);
        at += take;
        take_all(&reader, &told);
        assert(reader.capacity <= CAPACITY_MAX);
    }
    message_reader_deinit(&reader);
    return told;
}

static void judge(const char *bytes, size_t size) {
    static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";
    char accept[WS_ACCEPT_SIZE + 1];
    ws_accept(key, accept);
    enum ws_verdict before = WS_RESPONSE_NEEDS_MORE;
    for (size_t part = size / 8; part <= size; part += size / 8 + 1) {
        char said[WS_SAID_MAX] = "";
        size_t used = 0;
        const enum ws_verdict verdict = ws_response_judge(bytes, part, accept, "rep.sp.nanomsg.org", &used, said);
        assert(before == WS_RESPONSE_NEEDS_MORE ||
               verdict == before); /* more bytes must not change the verdict about the response, once there is one */
        assert(verdict != WS_RESPONSE_NEEDS_MORE || part < WS_RESPONSE_MAX);
        assert(used <= part && (verdict == WS_RESPONSE_ACCEPTED) == (used > 0));
        assert((verdict == WS_RESPONSE_REFUSED || verdict == WS_RESPONSE_DENIED) == (said[0] != 0));
        for (const char *at = said; *at != 0; at++) assert(*at >= ' ' && *at < 127);
        before = verdict;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 32768) return 0;
    if (data[0] == 'H') {
        judge((const char *)data, size);
        return 0;
    }
    const struct told whole = read_frames(data + 1, size - 1, size),
                      cut = read_frames(data + 1, size - 1, 1 + data[0] % 64);
    assert(whole.sum == cut.sum && whole.count == cut.count && whole.is_wrong == cut.is_wrong);
    return 0;
}
