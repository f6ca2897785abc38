/* talk.c: see talk.h. Opens, polls, reads, writes, closes. */
#include "talk.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "dial.h"

#define POLL_MS 5
#define WAITING_MAX 24     /* maximum number of requests without an answer on a connection */
#define ANSWER_WAIT_MS 700 /* ms without a message after which no more answers are expected */
#define LINGER_MS 15       /* maximum time in ms that a connection stays after its last message */
#define IN_SIZE_MAX (32u << 20)
#define LANES_MAX_HERE 8
#define PAUSE_MS 10 /* ms between two new connections of one manner, so that requests take most of the time */

static const size_t wanted[MANNERS] = {[POLITE] = 6, [RUDE] = 2, [NOISE] = 2, [LANE] = 0, [API] = 4, [JOBS] = 3};

uint64_t talk_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- connections */

static struct connection *open_one(struct talk *talk, enum manner manner) {
    struct connection *connection = talk->connections;
    while (connection < talk->connections + CONNECTIONS_MAX && connection->fd >= 0) connection++;
    if (connection == talk->connections + CONNECTIONS_MAX) return NULL;
    size_t count = manner == JOBS ? talk->jobs_count : talk->port_count;
    uint32_t port = (uint32_t)random_below(&talk->random, count) + (uint32_t)(manner == JOBS ? talk->port_count : 0);
    int fd = dial(talk->ports[port]);
    talk->refused = fd < 0;
    if (fd < 0) return NULL;
    uint64_t now_ms = talk_now_ms();
    *connection = (struct connection){.fd = fd,
                                      .manner = manner,
                                      .number = talk->opened++,
                                      .opened_ms = now_ms,
                                      .heard_ms = now_ms,
                                      .close_ms = UINT64_MAX};
    trace_step(&talk->trace, TRACE_OPEN, connection->number, port);
    return connection;
}

static void close_one(struct talk *talk, struct connection *connection) {
    bool reset = random_below(&talk->random, 3) == 0;
    trace_step(&talk->trace, TRACE_CLOSE, connection->number, reset);
    dial_close(connection->fd, reset);
    web_reader_deinit(&connection->reader);
    out_deinit(&connection->out);
    connection->fd = -1;
}

static void open_wanted(struct talk *talk) {
    size_t there[MANNERS] = {0};
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (talk->connections[i].fd >= 0) there[talk->connections[i].manner]++;
    for (size_t manner = 0; manner < MANNERS; manner++) {
        if (there[manner] >= wanted[manner] || talk_now_ms() < talk->next_ms[manner]) continue;
        if (manner == JOBS && talk->jobs_count == 0) continue;
        talk->next_ms[manner] = talk_now_ms() + PAUSE_MS;
        struct connection *connection = open_one(talk, (enum manner)manner);
        if (connection == NULL) return;
        bool is_many = manner == POLITE || manner == API || manner == JOBS;
        connection->left =
            is_many ? 200 + (unsigned)random_below(&talk->random, 4000) : 1 + (unsigned)random_below(&talk->random, 6);
        say_opening(talk, connection);
    }
}

void talk_open_lane(struct talk *talk, uint32_t lane, const char *secret) {
    size_t lanes = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        lanes += talk->connections[i].fd >= 0 && talk->connections[i].manner == LANE;
    struct connection *connection = lanes < LANES_MAX_HERE ? open_one(talk, LANE) : NULL;
    if (connection == NULL) return;
    char path[40];
    (void)snprintf(path, sizeof(path), "/lane/%u", lane);
    web_upgrade(&connection->out, path, WEB_LANE, secret);
    connection->deaf = random_below(&talk->random, 10) == 0;
    connection->left = random_below(&talk->random, 20) == 0;
    connection->close_ms = talk_now_ms() + random_below(&talk->random, 3000);
}

/* ---- reading and writing */

/* Records in the trace how many messages have arrived on each connection, before more is sent. */
static void trace_heard(struct talk *talk) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &talk->connections[i];
        if (connection->fd < 0 || connection->heard == connection->heard_told) continue;
        trace_step(&talk->trace, TRACE_HEARD, connection->number, connection->heard);
        connection->heard_told = connection->heard;
    }
}

#define TRICKLE_MAX 40

static bool write_some(struct talk *talk, struct connection *connection) {
    struct out *out = &connection->out;
    if (out->size == 0) return true;
    size_t size = out->size, some = 1 + random_below(&talk->random, TRICKLE_MAX);
    if (connection->trickles && some < size) size = some;
    ssize_t sent = send(connection->fd, out->data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    if (talk->trace.file != NULL) {
        trace_heard(talk);
        trace_say(&talk->trace, connection->number, out->data, (uint32_t)sent);
    }
    talk->bytes += (uint64_t)sent;
    out_drop(out, (size_t)sent);
    return true;
}

static bool read_some(struct talk *talk, struct connection *connection) {
    static uint8_t buffer[256 << 10];
    ssize_t size = recv(connection->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN;
    if (size == 0) return false;
    struct web_reader *reader = &connection->reader;
    out_bytes(&reader->in, buffer, (size_t)size);
    connection->heard_ms = talk_now_ms();
    if (connection->manner == API || connection->manner == JOBS) {
        hear_text(talk, connection);
        return true;
    }
    for (enum web_found found; (found = web_next(reader)) != WEB_NOTHING;) {
        if (found == WEB_BROKEN) return false;
        connection->heard++;
        if (found == WEB_MESSAGE) hear_message(talk, connection);
        if (found == WEB_MESSAGE && connection->waiting > 0) connection->waiting--;
    }
    return reader->in.size < IN_SIZE_MAX;
}

static bool may_speak(const struct connection *connection, uint64_t now_ms) {
    if (connection->left == 0 || connection->out.size > 0 || connection->is_last) return false;
    bool is_open = connection->reader.upgraded || connection->manner == NOISE || connection->manner >= API;
    return is_open && connection->waiting < WAITING_MAX && now_ms < connection->close_ms;
}

static bool is_over(const struct connection *connection, uint64_t now_ms) {
    if (now_ms >= connection->close_ms || connection->reader.refused) return true;
    if (connection->out.size > 0) return now_ms - connection->heard_ms > 4 * ANSWER_WAIT_MS;
    if (connection->manner == LANE || connection->is_last)
        return false; /* two kinds of connections stay open until `close_ms`: lanes, and connections that send nothing
                         more */
    bool is_silent = now_ms - connection->heard_ms > ANSWER_WAIT_MS;
    bool is_text = connection->manner >= API;
    return connection->left == 0 ? connection->waiting == 0 || is_silent
                                 : is_silent && !is_text && !connection->reader.upgraded;
}

static void turn(struct talk *talk, struct connection *connection, short events) {
    uint64_t now_ms = talk_now_ms();
    bool good = true;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) good = read_some(talk, connection);
    if (good && connection->waiting > 0 && now_ms - connection->heard_ms > ANSWER_WAIT_MS) connection->waiting = 0;
    if (good && may_speak(connection, now_ms)) say_more(talk, connection);
    if (good) good = write_some(talk, connection);
    if (good && connection->is_last && connection->out.size == 0 && connection->close_ms == UINT64_MAX)
        connection->close_ms = now_ms + random_below(&talk->random, LINGER_MS);
    if (!good || is_over(connection, now_ms)) close_one(talk, connection);
}

static void wait_and_turn(struct talk *talk) {
    struct pollfd polled[CONNECTIONS_MAX];
    struct connection *whose[CONNECTIONS_MAX];
    nfds_t count = 0;
    uint64_t now_ms = talk_now_ms();
    bool is_ready = false;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &talk->connections[i];
        if (connection->fd < 0) continue;
        short events = connection->deaf ? 0 : POLLIN;
        if (connection->out.size > 0) events |= POLLOUT;
        polled[count] = (struct pollfd){.fd = connection->fd, .events = events};
        whose[count++] = connection;
        is_ready = is_ready || may_speak(connection, now_ms);
    }
    if (poll(polled, count, is_ready ? 0 : POLL_MS) < 0) return;
    for (nfds_t i = 0; i < count; i++) turn(talk, whose[i], polled[i].revents);
}

/* Lets time pass in the brokers, at random times. */
static void pass_some(struct talk *talk) {
    uint32_t seconds = pass_choose(&talk->pass, &talk->random, talk_now_ms());
    if (seconds == 0) return;
    trace_heard(talk);
    trace_step(&talk->trace, TRACE_PASS, 0, seconds);
    pass_seconds(&talk->pass, seconds);
}

void talk_run(struct talk *talk) {
    talk->know = know_new(&talk->random);
    talk->maker.random = &talk->random;
    talk->maker.know = talk->know;
    talk->guard.know = talk->know;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) talk->connections[i] = (struct connection){.fd = -1};
    while (!talk->refused && talk->requests < talk->requests_max && talk_now_ms() < talk->end_ms) {
        open_wanted(talk);
        pass_some(talk);
        wait_and_turn(talk);
    }
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (talk->connections[i].fd >= 0) close_one(talk, &talk->connections[i]);
    know_free(talk->know);
}
