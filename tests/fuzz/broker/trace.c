/* trace.c: see trace.h. */
#include "trace.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "dial.h"
#include "web.h"

#define STEP_SIZE 9
#define HEARD_WAIT_MS 100
#define OPEN_MAX 200000u
#define SAY_MAX (64u << 20)

void trace_open(struct trace *trace, const char *path) {
    trace->file = fopen(path, "wb");
    if (trace->file != NULL) return;
    perror(path);
    exit(2);
}

void trace_step(struct trace *trace, enum trace_kind kind, uint32_t connection, uint32_t number) {
    if (trace->file == NULL) return;
    uint8_t step[STEP_SIZE] = {(uint8_t)kind};
    put_u32(put_u32(step + 1, connection), number);
    if (fwrite(step, 1, sizeof(step), trace->file) != sizeof(step)) exit(2);
}

void trace_say(struct trace *trace, uint32_t connection, const void *data, uint32_t size) {
    trace_step(trace, TRACE_SAY, connection, size);
    if (trace->file != NULL && fwrite(data, 1, size, trace->file) != size) exit(2);
}

void trace_close(struct trace *trace) {
    if (trace->file != NULL && fclose(trace->file) != 0) exit(2);
    trace->file = NULL;
}

/* ---- replay */

struct actor {
    int fd; /* -1: closed */
    struct web_reader reader;
    uint32_t heard;
};

struct replay {
    FILE *file;
    struct actor *actors;
    size_t count;
};

static struct actor *actor_of(struct replay *replay, uint32_t number) {
    if (number >= OPEN_MAX) return NULL;
    if (number >= replay->count) {
        struct actor *actors = realloc(replay->actors, (number + 1) * sizeof(*actors));
        if (actors == NULL) abort();
        replay->actors = actors;
        for (size_t i = replay->count; i <= number; i++) actors[i] = (struct actor){.fd = -1};
        replay->count = number + 1;
    }
    return &replay->actors[number];
}

static void actor_close(struct actor *actor, bool reset) {
    if (actor->fd >= 0) dial_close(actor->fd, reset);
    web_reader_deinit(&actor->reader);
    *actor = (struct actor){.fd = -1};
}

/* Waits for data; returns false if none arrives in time. */
static bool actor_hear(struct actor *actor, int wait_ms) {
    uint8_t buffer[65536];
    struct pollfd wait = {.fd = actor->fd, .events = POLLIN};
    if (actor->fd < 0 || poll(&wait, 1, wait_ms) <= 0) return false;
    ssize_t size = recv(actor->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size <= 0) return false;
    out_bytes(&actor->reader.in, buffer, (size_t)size);
    for (enum web_found found; (found = web_next(&actor->reader)) != WEB_NOTHING;) {
        if (found == WEB_BROKEN) return false;
        actor->heard++;
    }
    return true;
}

static void actor_say(struct actor *actor, const uint8_t *data, size_t size) {
    while (size > 0 && actor->fd >= 0) {
        ssize_t sent = send(actor->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
            continue;
        }
        struct pollfd wait = {.fd = actor->fd, .events = POLLIN | POLLOUT};
        if (poll(&wait, 1, 2000) <= 0) return;
        if ((wait.revents & POLLIN) != 0 && !actor_hear(actor, 0)) return;
        if ((wait.revents & (POLLERR | POLLHUP)) != 0) return;
    }
}

static bool replay_say(struct replay *replay, struct actor *actor, uint32_t size) {
    uint8_t *data = size > SAY_MAX ? NULL : malloc(size + 1);
    bool is_whole = data != NULL && fread(data, 1, size, replay->file) == size;
    if (is_whole) actor_say(actor, data, size);
    free(data);
    return is_whole;
}

static bool replay_step(struct replay *replay, const uint8_t step[STEP_SIZE], const uint16_t *ports, size_t port_count,
                        struct pass *pass) {
    uint32_t number = get_u32(step + 5);
    struct actor *actor = actor_of(replay, get_u32(step + 1));
    if (actor == NULL) return false;
    switch (step[0]) {
    case TRACE_OPEN:
        actor_close(actor, false);
        actor->fd = dial(ports[number % port_count]);
        return true;
    case TRACE_SAY:
        return replay_say(replay, actor, number);
    case TRACE_HEARD:
        while (actor->heard < number && actor_hear(actor, HEARD_WAIT_MS)) {
        }
        return true;
    case TRACE_CLOSE:
        actor_close(actor, number == 1);
        return true;
    case TRACE_PASS:
        pass_seconds(pass, number);
        return true;
    default:
        return false;
    }
}

int trace_replay(const char *path, const uint16_t *ports, size_t port_count, struct pass *pass) {
    struct replay replay = {.file = fopen(path, "rb")};
    if (replay.file == NULL) {
        perror(path);
        return 2;
    }
    uint8_t step[STEP_SIZE];
    bool good = true;
    while (good && fread(step, 1, sizeof(step), replay.file) == sizeof(step))
        good = replay_step(&replay, step, ports, port_count, pass);
    for (size_t i = 0; i < replay.count; i++) {
        while (actor_hear(&replay.actors[i], 1)) {
        }
        actor_close(&replay.actors[i], false);
    }
    free(replay.actors);
    (void)fclose(replay.file);
    if (!good) (void)fprintf(stderr, "%s: no trace, or cut off\n", path);
    return good ? 0 : 2;
}
