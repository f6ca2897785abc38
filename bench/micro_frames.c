/* micro_frames.c: CPU time of WebSocket frames in memory: our codec (proto/ws_frame.h), and libwslay if it was found.
 *
 *   micro_frames [MEBIBYTES]      default: 256 MiB of payload for each line
 *
 * A server receives masked frames in blocks of 64 KiB, as recv would give them; a client sends masked frames. wslay's
 * event API is used without its message buffer, so that its payload is not copied a second time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "ws_frame.h"
#ifdef HAS_WSLAY
#include <wslay/wslay.h>
#endif

#define BLOCK ((size_t)64 << 10)
#define MASK 0x9d2f7c31u

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A stream of masked frames for the receiver, and the totals that the receiver has counted. */
struct stream {
    uint8_t *bytes;
    size_t size;
    size_t at;
    size_t messages;
    uint64_t sum; /* sum of the first and the last byte of each span, so that the compiler keeps the reads */
};

static struct stream make_stream(size_t payload_size) {
    struct stream stream = {.bytes = malloc(2 * BLOCK + 2 * payload_size)};
    const uint32_t mask = MASK;
    if (stream.bytes == NULL) abort();
    do {
        uint8_t *payload = stream.bytes + stream.size + ws_head_size(payload_size, true);
        memset(payload, (int)stream.messages, payload_size);
        stream.size += payload_size + ws_seal(WS_BINARY, true, payload, payload_size, &mask);
        stream.messages++;
    } while (stream.size < BLOCK);
    return stream;
}

static void found(struct stream *stream, const uint8_t *data, size_t size) {
    if (size > 0) stream->sum += data[0] + (uint64_t)data[size - 1] * 3;
}

/* ---- our codec */

static void receive_ours(struct stream *stream, struct ws_decoder *decoder, uint8_t block[BLOCK]) {
    while (stream->at < stream->size) {
        const size_t left = stream->size - stream->at, size = left < BLOCK ? left : BLOCK;
        struct ws_event event;
        memcpy(block, stream->bytes + stream->at, size); /* recv */
        stream->at += size;
        size_t at = 0;
        do {
            at += ws_decode(decoder, block + at, size - at, &event);
            if (event.kind != WS_DATA) continue;
            found(stream, event.data, event.size);
            stream->messages += event.ends_message;
        } while (event.kind != WS_NEEDS_MORE);
    }
}

static void send_ours(struct stream *stream, size_t payload_size, const uint8_t *payload, uint8_t *out) {
    const uint32_t mask = MASK;
    memcpy(out + WS_HEAD_MAX, payload, payload_size); /* the caller packs its message here */
    const size_t head_size = ws_seal(WS_BINARY, true, out + WS_HEAD_MAX, payload_size, &mask);
    found(stream, out + WS_HEAD_MAX - head_size, head_size + payload_size);
}

/* ---- wslay */
#ifdef HAS_WSLAY
static ssize_t on_receive(wslay_event_context_ptr context, uint8_t *out, size_t size, int flags, void *argument) {
    struct stream *stream = argument;
    const size_t left = stream->size - stream->at, part = left < size ? left : size;
    if (part == 0) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(out, stream->bytes + stream->at, part);
    stream->at += part;
    return (ssize_t)part;
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *bytes, size_t size, int flags, void *argument) {
    found(argument, bytes, size);
    return (ssize_t)size;
}

static int on_mask(wslay_event_context_ptr context, uint8_t *out, size_t size, void *argument) {
    const uint32_t mask = MASK;
    memcpy(out, &mask, size);
    return 0;
}

static void on_chunk(wslay_event_context_ptr context, const struct wslay_event_on_frame_recv_chunk_arg *chunk,
                     void *argument) {
    found(argument, chunk->data, chunk->data_length);
}

static void on_end(wslay_event_context_ptr context, void *argument) {
    ((struct stream *)argument)->messages++;
}

static wslay_event_context_ptr make_wslay(struct stream *stream, bool is_server) {
    const struct wslay_event_callbacks calls = {
        .recv_callback = on_receive,
        .send_callback = on_send,
        .genmask_callback = on_mask,
        .on_frame_recv_chunk_callback = on_chunk,
        .on_frame_recv_end_callback = on_end,
    };
    wslay_event_context_ptr context;
    if ((is_server ? wslay_event_context_server_init : wslay_event_context_client_init)(&context, &calls, stream) != 0)
        abort();
    wslay_event_config_set_no_buffering(context, 1);
    return context;
}

static void send_wslay(wslay_event_context_ptr context, size_t payload_size, const uint8_t *payload) {
    const struct wslay_event_msg message = {WSLAY_BINARY_FRAME, payload, payload_size};
    if (wslay_event_queue_msg(context, &message) != 0 || wslay_event_send(context) != 0) abort();
}
#endif

/* ---- */

static void say(const char *what, size_t payload_size, size_t messages, double took_s) {
    const double bytes = (double)messages * (double)payload_size;
    printf("%-24s %8zu bytes  %9.1f ns/message  %7.2f GB/s\n", what, payload_size, took_s / (double)messages * 1e9,
           bytes / took_s / 1e9);
}

static void receive_all(size_t payload_size, size_t total) {
    struct stream stream = make_stream(payload_size);
    const size_t each = stream.messages, rounds = total / (each * payload_size) + 1;
    static uint8_t block[BLOCK];
    struct ws_decoder decoder;
    ws_decoder_init(&decoder, WS_SERVER, 1u << 24, 1u << 24);
    stream.messages = 0;
    double start = now_s();
    for (size_t i = 0; i < rounds; i++, stream.at = 0) receive_ours(&stream, &decoder, block);
    say("receive, ours", payload_size, stream.messages, now_s() - start);
    const size_t wanted = each * rounds;
    if (stream.messages != wanted) abort();
#ifdef HAS_WSLAY
    wslay_event_context_ptr context = make_wslay(&stream, true);
    stream.messages = 0;
    start = now_s();
    for (size_t i = 0; i < rounds; i++, stream.at = 0)
        if (wslay_event_recv(context) != 0) abort();
    say("receive, wslay", payload_size, stream.messages, now_s() - start);
    if (stream.messages != wanted) abort();
    wslay_event_context_free(context);
#endif
    free(stream.bytes);
}

static void send_all(size_t payload_size, size_t total) {
    struct stream stream = {0};
    const size_t count = total / payload_size + 1;
    uint8_t *payload = calloc(1, payload_size), *out = malloc(WS_HEAD_MAX + payload_size);
    if (payload == NULL || out == NULL) abort();
    double start = now_s();
    for (size_t i = 0; i < count; i++) send_ours(&stream, payload_size, payload, out);
    say("send, ours", payload_size, count, now_s() - start);
#ifdef HAS_WSLAY
    wslay_event_context_ptr context = make_wslay(&stream, false);
    start = now_s();
    for (size_t i = 0; i < count; i++) send_wslay(context, payload_size, payload);
    say("send, wslay", payload_size, count, now_s() - start);
    wslay_event_context_free(context);
#endif
    free(payload);
    free(out);
}

int main(int count, char **arguments) {
    const size_t total = (count > 1 ? strtoul(arguments[1], NULL, 10) : 256) << 20;
    static const size_t sizes[] = {80, 200, 1000, 16 << 10, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) receive_all(sizes[i], total);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) send_all(sizes[i], total);
    printf("a decoder holds %zu bytes\n", sizeof(struct ws_decoder));
    return 0;
}
