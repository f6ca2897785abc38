/* client_transport_test.c: how libtarry's WebSocket handles data from a server, frame by frame and byte by byte. It
 * connects only to a server that answers like a broker, and trusts no byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ws_client.h"

#define MESSAGE_MAX 4096u

/* ---- frames */

struct bytes {
    const char *bytes;
    size_t size;
};
#define BYTES(literal) ((struct bytes){literal, sizeof(literal) - 1})

/* Feeds bytes in pieces of `part` bytes, and returns the first event that is not WS_NEEDS_MORE. */
static struct ws_event feed(struct message_reader *reader, struct bytes given, size_t part) {
    struct ws_event event = {.kind = WS_NEEDS_MORE};
    for (size_t at = 0; at < given.size && event.kind == WS_NEEDS_MORE;) {
        size_t room, take = given.size - at < part ? given.size - at : part;
        uint8_t *to = message_reader_room(reader, &room);
        assert_non_null(to);
        if (take > room) take = room;
        memcpy(to, given.bytes + at, take);
        message_reader_took(reader, take);
        at += take;
        message_reader_next(reader, &event);
    }
    return event;
}

/* A message in three fragments, a ping and a pong between them, and another message after it, however the bytes are
 * split. */
static void fragments_and_control_frames_are_told_apart(void **state) {
    static const struct bytes stream = BYTES("\x02\x03"
                                             "abc\x89\x02hi\x00\x00\x8a\x00\x80\x02"
                                             "de\x82\x01z\x88\x05\x03\xe8"
                                             "bye");
    static const struct {
        enum ws_event_kind kind;
        const char *data;
    } told[] = {{WS_GOT_PING, "hi"}, {WS_GOT_PONG, ""}, {WS_DATA, "abcde"}, {WS_DATA, "z"}, {WS_GOT_CLOSE, "bye"}};
    for (size_t part = 1; part <= stream.size; part++) {
        struct message_reader reader;
        size_t at = 0;
        message_reader_init(&reader, MESSAGE_MAX);
        for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
            struct ws_event event = {.kind = WS_NEEDS_MORE};
            if (reader.data != NULL) message_reader_next(&reader, &event);
            for (; event.kind == WS_NEEDS_MORE; at += part) {
                const size_t left = stream.size - at;
                event = feed(&reader, (struct bytes){stream.bytes + at, left < part ? left : part}, part);
            }
            assert_int_equal(event.kind, told[i].kind);
            assert_int_equal(event.size, strlen(told[i].data));
            assert_memory_equal(event.data, told[i].data, event.size);
        }
        message_reader_deinit(&reader);
    }
}

/* The payload of an unfragmented message stays where it was received, in any number of parts. */
static void a_message_is_read_in_place(void **state) {
    struct message_reader reader;
    struct ws_event event;
    message_reader_init(&reader, MESSAGE_MAX);
    static const struct bytes first_part = BYTES("\x82\x06 b");
    assert_int_equal(feed(&reader, first_part, 4).kind, WS_NEEDS_MORE);
    const uint8_t *received = reader.data + 2;
    assert_int_equal(feed(&reader, BYTES("cd"), 2).kind, WS_NEEDS_MORE);
    event = feed(&reader, BYTES("ef"), 2);
    assert_int_equal(event.kind, WS_DATA);
    assert_ptr_equal(event.data, received);
    assert_memory_equal(event.data, " bcdef", 6);
    message_reader_deinit(&reader);
}

/* All fragments of a message count towards the limit, even empty ones, so memory does not grow with their number. */
static void fragments_without_end_are_bounded(void **state) {
    struct message_reader reader;
    char fragment[2 + 100] = {0x02, 100};
    message_reader_init(&reader, MESSAGE_MAX);
    struct ws_event event = feed(&reader, (struct bytes){fragment, sizeof(fragment)}, 1000);
    fragment[0] = 0;
    for (int i = 0; i < 100 && event.kind == WS_NEEDS_MORE; i++)
        event = feed(&reader, (struct bytes){fragment, sizeof(fragment)}, 1000);
    assert_int_equal(event.kind, WS_FAILED);
    assert_int_equal(event.error, WS_ERROR_MESSAGE_SIZE);
    message_reader_deinit(&reader);
    message_reader_init(&reader, MESSAGE_MAX);
    assert_int_equal(feed(&reader, BYTES("\x02\x00"), 2).kind, WS_NEEDS_MORE);
    for (int i = 0; i < 100000; i++) assert_int_equal(feed(&reader, BYTES("\x00\x00"), 2).kind, WS_NEEDS_MORE);
    assert_in_range(reader.capacity, 1, 64 << 10);
    message_reader_deinit(&reader);
}

/* A header that announces a large size costs no memory before the bytes arrive. */
static void memory_grows_with_what_comes(void **state) {
    struct message_reader reader;
    message_reader_init(&reader, 64u << 20);
    assert_int_equal(feed(&reader, BYTES("\x82\x7f\0\0\0\0\x03\xff\xff\xff"), 10).kind, WS_NEEDS_MORE);
    size_t room;
    assert_non_null(message_reader_room(&reader, &room));
    assert_in_range(reader.capacity, 1, 64 << 10);
    message_reader_deinit(&reader);
}

/* ---- connections to a server in this process that the test controls */

struct server {
    int handle;
    int taken;
    struct place place;
    int epoll;
    struct ws_client connection;
    char key[64];
};

static void server_start(struct server *server, bool is_unix) {
    static unsigned number;
    *server = (struct server){.taken = -1};
    char url[PLACE_URL_MAX];
    server->handle = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_unix) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/tarry-transport-%d-%u", getpid(), number++);
        assert_int_equal(bind(server->handle, (struct sockaddr *)&address, sizeof(address)), 0);
        snprintf(url, sizeof(url), "unix://%s", address.sun_path);
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        assert_int_equal(bind(server->handle, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(getsockname(server->handle, (struct sockaddr *)&address, &size), 0);
        snprintf(url, sizeof(url), "ws://127.0.0.1:%d", ntohs(address.sin_port));
    }
    assert_int_equal(listen(server->handle, 8), 0);
    assert_int_equal(place_parse(url, strlen(url), &server->place), 0);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    ws_client_init(&server->connection);
}

static void server_stop(struct server *server) {
    ws_client_deinit(&server->connection);
    if (server->place.kind == PLACE_UNIX) unlink(server->place.host);
    if (server->taken >= 0) close(server->taken);
    close(server->handle);
    close(server->epoll);
}

/* Returns the connection's next event; NOTHING if none came for `patience_ms`. */
static enum ws_client_news await(struct server *server, int patience_ms, const uint8_t **out_data, size_t *out_size) {
    for (;;) {
        struct epoll_event event;
        enum ws_client_news news = ws_client_next(&server->connection, out_data, out_size);
        if (news != WS_CLIENT_NOTHING) return news;
        if (epoll_wait(server->epoll, &event, 1, patience_ms) <= 0) return WS_CLIENT_NOTHING;
        assert_int_equal(event.data.u64, server->connection.id);
        ws_client_ready(&server->connection, event.events);
    }
}

static void begin(struct server *server, const char *bearer) {
    const struct ws_client_options options = {.place = &server->place,
                                              .path = "/rpc",
                                              .protocol = "rep.sp.nanomsg.org",
                                              .bearer = bearer,
                                              .message_max = MESSAGE_MAX};
    static uint64_t id;
    ws_client_open(&server->connection, server->epoll, ++id, &options);
    assert_int_not_equal(server->connection.state, WS_CLIENT_CLOSED);
}

/* Reads the client's HTTP request and stores its WebSocket key. Returns the request's text. */
static const char *take_request(struct server *server) {
    static char text[4096];
    size_t size = 0;
    const uint8_t *data;
    size_t data_size;
    server->taken = accept4(server->handle, NULL, NULL, SOCK_CLOEXEC);
    while (size < 4 || memcmp(text + size - 4, "\r\n\r\n", 4) != 0) {
        (void)await(server, 1, &data, &data_size);
        const ssize_t took = recv(server->taken, text + size, sizeof(text) - 1 - size, MSG_DONTWAIT);
        if (took > 0) size += (size_t)took;
    }
    text[size] = 0;
    const char *key = strstr(text, "Sec-WebSocket-Key: ");
    assert_non_null(key);
    snprintf(server->key, sizeof(server->key), "%.24s", key + strlen("Sec-WebSocket-Key: "));
    return text;
}

static void say(struct server *server, const void *bytes, size_t size) {
    assert_int_equal(send(server->taken, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static size_t answer_of(struct server *server, char *out, size_t size) {
    return ws_response(server->key, "rep.sp.nanomsg.org", out, size);
}

static void open_it(struct server *server, bool is_unix) {
    char answer[512];
    const uint8_t *data;
    size_t size;
    server_start(server, is_unix);
    begin(server, "");
    take_request(server);
    say(server, answer, answer_of(server, answer, sizeof(answer)));
    assert_int_equal(await(server, 5000, &data, &size), WS_CLIENT_OPENED);
}

static void a_connection_comes_about_a_byte_at_a_time(void **state) {
    for (int is_unix = 0; is_unix < 2; is_unix++) {
        struct server server;
        char answer[512];
        const uint8_t *data;
        size_t size;
        server_start(&server, is_unix == 1);
        begin(&server, "tarry_abc");
        const char *text = take_request(&server);
        assert_int_equal(strncmp(text, "GET /rpc HTTP/1.1\r\n", 19), 0);
        assert_non_null(strstr(text, "\r\nAuthorization: Bearer tarry_abc\r\n"));
        assert_null(memmem(server.connection.bearer, sizeof(server.connection.bearer), "x", 1));
        const size_t answer_size = answer_of(&server, answer, sizeof(answer) - 3);
        memcpy(answer + answer_size, "\x82\x01q", 3); /* the first frame comes in the same packet as the reply */
        for (size_t i = 0; i + 1 < answer_size; i++) {
            say(&server, answer + i, 1);
            assert_int_equal(await(&server, i % 16 == 0 ? 1 : 0, &data, &size), WS_CLIENT_NOTHING);
        }
        say(&server, answer + answer_size - 1, 4);
        assert_int_equal(await(&server, 5000, &data, &size), WS_CLIENT_OPENED);
        assert_int_equal(server.connection.bearer[0], 0); /* the token is erased as soon as it is no longer needed */
        assert_int_equal(await(&server, 5000, &data, &size), WS_CLIENT_MESSAGE);
        assert_int_equal(size, 1);
        assert_int_equal(data[0], 'q');
        server_stop(&server);
    }
}

static void who_breaks_the_protocol_is_left(void **state) {
    static const struct {
        struct bytes bytes;
        const char *said;
    } cases[] = {{BYTES("\x81\x01x"), "broke the protocol: it sent a text message"},
                 {BYTES("\x82\x81\0\0\0\0x"), "broke the protocol: it sent a masked frame"},
                 {BYTES("\x82\x7f\0\0\0\0\x7f\xff\xff\xff"), "a message above the size limit"},
                 {BYTES("\x88\x00"), ""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct server server;
        const uint8_t *data;
        size_t size;
        open_it(&server, false);
        say(&server, cases[i].bytes.bytes, cases[i].bytes.size);
        assert_int_equal(await(&server, 5000, &data, &size), WS_CLIENT_LOST);
        if (strncmp(server.connection.said, cases[i].said, strlen(cases[i].said)) != 0)
            assert_non_null(strstr(server.connection.said, cases[i].said));
        server_stop(&server);
    }
}

/* The client answers pings. If the server does not read the answers, a flood of pings costs only the memory of one
 * answer. */
static void a_flood_of_pings_costs_nothing(void **state) {
    struct server server;
    const uint8_t *data;
    size_t size;
    uint8_t pong[2 + 4 + 2];
    open_it(&server, true);
    say(&server, "\x89\x02hi", 4);
    assert_int_equal(await(&server, 100, &data, &size), WS_CLIENT_NOTHING);
    assert_int_equal(recv(server.taken, pong, sizeof(pong), MSG_WAITALL), sizeof(pong));
    assert_int_equal(pong[0], 0x8a);
    assert_int_equal(pong[1], 0x82);
    assert_int_equal(pong[6] ^ pong[2], 'h');
    char ping[2 + WS_CONTROL_MAX] = {(char)0x89, WS_CONTROL_MAX};
    for (int i = 0; i < 20000; i++) {
        say(&server, ping, sizeof(ping));
        if (i % 64 == 0) assert_int_equal(await(&server, 0, &data, &size), WS_CLIENT_NOTHING);
    }
    assert_int_equal(await(&server, 1, &data, &size), WS_CLIENT_NOTHING);
    assert_int_equal(server.connection.reader.capacity, 16 << 10);
    assert_ptr_equal(server.connection.first, server.connection.last);
    server_stop(&server);
}

/* After some reads, a connection gives up its turn even if its broker sends all the time. */
static void a_turn_ends_however_much_there_is(void **state) {
    enum { ROOM = 16 << 10, BYTES = 12 * ROOM }; /* more bytes than the eight reads of one turn return */
    struct server server;
    const uint8_t *data;
    size_t size;
    int buffer = 4 * BYTES, left = 0;
    open_it(&server, true);
    assert_int_equal(setsockopt(server.taken, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
    char ping[2 + WS_CONTROL_MAX] = {(char)0x89, WS_CONTROL_MAX};
    for (size_t i = 0; i < BYTES / sizeof(ping); i++) say(&server, ping, sizeof(ping));
    ws_client_ready(&server.connection, EPOLLIN);
    assert_int_equal(ws_client_next(&server.connection, &data, &size), WS_CLIENT_NOTHING);
    assert_int_equal(ioctl(server.connection.fd, FIONREAD, &left), 0);
    assert_true(left > 0);
    /* No other message has arrived. */
    assert_int_equal(ws_client_next(&server.connection, &data, &size), WS_CLIENT_NOTHING);
    int still = 0;
    assert_int_equal(ioctl(server.connection.fd, FIONREAD, &still), 0);
    assert_int_equal(still, left);
    assert_int_equal(await(&server, 1, &data, &size), WS_CLIENT_NOTHING);
    assert_int_equal(ioctl(server.connection.fd, FIONREAD, &left), 0);
    assert_int_equal(left, 0);
    server_stop(&server);
}

/* Bytes that the kernel does not accept wait in a queue, in order. A message of which nothing was sent can be
 * cancelled. */
static void what_is_not_read_waits_in_order(void **state) {
    struct server server;
    const uint8_t *data;
    size_t size, got = 0;
    open_it(&server, true);
    const size_t payload = 100000;
    for (uint32_t i = 0; i < 40; i++) {
        struct packet packet = {0};
        memset(packet_reserve(&packet, payload), (int)i, payload);
        ws_client_send(&server.connection, &packet, 100 + i);
        packet_deinit(&packet);
    }
    ws_client_unsend(&server.connection, 100 + 39);
    ws_client_unsend(&server.connection, 100 + 37);
    ws_client_unsend(&server.connection, 100); /* the message was sent already, so this has no effect */
    static uint8_t read[39 * (100000 + 14)];
    while (got < 38 * (payload + 14)) {
        const ssize_t took = recv(server.taken, read + got, sizeof(read) - got, MSG_DONTWAIT);
        if (took > 0) got += (size_t)took;
        if (took < 0) assert_int_equal(await(&server, 0, &data, &size), WS_CLIENT_NOTHING);
    }
    for (uint32_t i = 0; i < 38; i++) {
        const uint8_t *frame = read + i * (payload + 14);
        assert_int_equal(frame[14] ^ frame[10], i < 37 ? i : 38);
    }
    assert_null(server.connection.first);
    server_stop(&server);
}

/* Brokers refuse frames above 1 MiB. */
static void large_messages_go_in_fragments(void **state) {
    struct server server;
    const uint8_t *data;
    size_t size, got = 0;
    const size_t all = 2 * WS_CLIENT_FRAGMENT_MAX + 1000;
    open_it(&server, true);
    struct packet packet = {.data = NULL};
    uint8_t *payload = packet_reserve(&packet, all), *read = malloc(all + 2 * 14 + 8);
    for (size_t i = 0; i < all; i++) payload[i] = (uint8_t)(i * 31 + i / 256);
    ws_client_send(&server.connection, &packet, 7);
    ws_client_unsend(&server.connection, 7); /* part of the message was sent already, so this has no effect */
    while (got < all + 2 * 14 + 8) {
        const ssize_t took = recv(server.taken, read + got, all + 2 * 14 + 8 - got, MSG_DONTWAIT);
        if (took > 0) got += (size_t)took;
        if (took < 0) assert_int_equal(await(&server, 0, &data, &size), WS_CLIENT_NOTHING);
    }
    static const uint8_t first_bytes[3] = {0x02, 0x00, 0x80};
    const uint8_t *at = read;
    for (size_t part = 0, i = 0; part < 3; part++) {
        const size_t head = part < 2 ? 14 : 8, part_size = part < 2 ? WS_CLIENT_FRAGMENT_MAX : 1000;
        assert_int_equal(at[0], first_bytes[part]);
        for (size_t byte = 0; byte < part_size; byte++, i++)
            if ((at[head + byte] ^ at[head - 4 + byte % 4]) != (uint8_t)(i * 31 + i / 256)) fail_msg("byte %zu", i);
        at += head + part_size;
    }
    assert_int_equal(at - read, got);
    free(read);
    packet_deinit(&packet);
    server_stop(&server);
}

static void who_is_not_there_is_told_in_words(void **state) {
    struct server server;
    const struct ws_client_options options = {
        .place = &server.place, .path = "/rpc", .protocol = "x", .bearer = "", .message_max = MESSAGE_MAX};
    const uint8_t *data;
    size_t size;
    server_start(&server, true);
    unlink(server.place.host);
    ws_client_open(&server.connection, server.epoll, 1, &options);
    assert_int_equal(server.connection.state, WS_CLIENT_CLOSED);
    assert_non_null(strstr(server.connection.said, "there is no such socket"));
    server_stop(&server);
    server_start(&server, false);
    close(server.handle);
    server.handle = open("/dev/null", 0);
    ws_client_open(&server.connection, server.epoll, 2, &options);
    if (server.connection.state != WS_CLIENT_CLOSED)
        assert_int_equal(await(&server, 5000, &data, &size), WS_CLIENT_LOST);
    assert_non_null(strstr(server.connection.said, "Connection refused"));
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_and_control_frames_are_told_apart),
        cmocka_unit_test(a_message_is_read_in_place),
        cmocka_unit_test(fragments_without_end_are_bounded),
        cmocka_unit_test(memory_grows_with_what_comes),
        cmocka_unit_test(a_connection_comes_about_a_byte_at_a_time),
        cmocka_unit_test(who_breaks_the_protocol_is_left),
        cmocka_unit_test(a_flood_of_pings_costs_nothing),
        cmocka_unit_test(a_turn_ends_however_much_there_is),
        cmocka_unit_test(what_is_not_read_waits_in_order),
        cmocka_unit_test(large_messages_go_in_fragments),
        cmocka_unit_test(who_is_not_there_is_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
