/* fuzz_door.c: what broker/net parses without a library: addresses to listen at, or of the other node; the Origin of a
 * web page; the SP header of a request. libtarry parses addresses too (place.h), and must understand them in the same
 * way. The first byte of the input selects the kind of the rest: 'A' an address, 'O' an origin, a line end, and a list
 * of allowed origins; any other byte: a request with its SP header. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "listen.h"
#include "message.h"
#include "origin.h"
#include "place.h"

static bool is_same(const struct listen_address *a, const struct listen_address *b) {
    return a->scheme == b->scheme && a->port == b->port && a->loopback == b->loopback && strcmp(a->host, b->host) == 0;
}

/* Checks that a client that is given the listen address of tarryd finds the broker. */
static void a_client_finds(const struct listen_address *address, const char *url) {
    static const enum place_kind kinds[] = {
        [LISTEN_WS] = PLACE_WS, [LISTEN_WSS] = PLACE_WSS, [LISTEN_UNIX] = PLACE_UNIX};
    struct place place;
    char port[6];
    if (address->scheme != LISTEN_UNIX && (address->port == 0 || strpbrk(address->host, "@[]/?#") != NULL)) return;
    if (strlen(url) >= PLACE_URL_MAX - 8) return;
    assert(place_parse(url, strlen(url), &place) == 0);
    assert(place.kind == kinds[address->scheme] && strcmp(place.host, address->host) == 0);
    assert(strcmp(place.url, url) == 0);
    snprintf(port, sizeof(port), "%u", address->port);
    assert(address->scheme == LISTEN_UNIX || strcmp(place.port, port) == 0);
    /* A client must not send a token to an address that is unsafe for tokens. */
    assert(address->scheme != LISTEN_WS || address->loopback == !place_is_in_the_clear(&place));
}

static void try_listen(const char *text) {
    struct listen_address address, again, peer;
    const char *problem = NULL;
    char url[LISTEN_HOST_SIZE + 24];
    bool is_right = listen_parse(text, &address, &problem);
    if (!is_right) {
        assert(problem != NULL && strlen(problem) > 10);
        assert(!listen_parse_peer(text, &peer, &problem));
        return;
    }
    assert(strnlen(address.host, LISTEN_HOST_SIZE) < LISTEN_HOST_SIZE && address.host[0] != '\0');
    for (const char *at = address.host; *at != '\0'; at++) assert((unsigned char)*at > ' ' && *at != 0x7f);
    listen_format(&address, url, sizeof(url));
    assert(strlen(url) < sizeof(url) - 1);
    assert(listen_parse(url, &again, &problem) && is_same(&address, &again));
    bool is_brokers = address.scheme == LISTEN_WS || address.scheme == LISTEN_WSS;
    assert(listen_parse_peer(text, &peer, &problem) == is_brokers);
    if (listen_is_for_clients(address.scheme)) a_client_finds(&address, url);
}

static void try_place(const char *text, size_t size) {
    struct place place, again;
    memset(&place, 0x55, sizeof(place));
    if (place_parse(text, size, &place) != 0) {
        for (size_t i = 0; i < sizeof(place); i++) assert(((const uint8_t *)&place)[i] == 0x55);
        return;
    }
    assert(strlen(place.url) < PLACE_URL_MAX && place.host[0] != '\0');
    for (const char *at = place.url; *at != '\0'; at++) assert((unsigned char)*at > ' ' && *at != 0x7f);
    if (strlen(place.url) >= PLACE_URL_MAX - 8)
        return; /* skip: the URL with its default port appended would be too long to parse */
    assert(place_parse(place.url, strlen(place.url), &again) == 0);
    assert(strcmp(place.url, again.url) == 0 && strcmp(place.host, again.host) == 0 && place.kind == again.kind);
    assert(strpbrk(place_authority(&place), " \r\n") == NULL);
    (void)place_is_in_the_clear(&place);
}

/* Checks that an origin is allowed exactly if the list has it as a whole word, ignoring case. */
static void try_origin(char *text) {
    char *allowed = strchr(text, '\n'), *rest = NULL;
    bool is_wanted = false;
    if (allowed == NULL) return;
    *allowed++ = '\0';
    bool is_allowed = origin_is_allowed(text, allowed);
    (void)origin_is_valid(text);
    for (char *word = strtok_r(allowed, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        is_wanted |= strcasecmp(word, text) == 0;
    assert(is_allowed == is_wanted);
}

/* Checks that a message's backtrace (the ids of its route) ends with the first word whose highest bit is set, and that
 * a backtrace beyond the limit is refused. */
static void try_message(const uint8_t *data, size_t size) {
    struct message *message = message_new(size);
    size_t words = 0;
    if (message == NULL) abort();
    if (size > 0) memcpy(message->bytes, data, size);
    while (4 * words + 4 <= size && (data[4 * words] & 0x80) == 0) words++;
    bool is_there = 4 * words + 4 <= size && 4 * words + 4 <= MESSAGE_HEAD_MAX;
    assert(message_take_head(message) == is_there);
    if (is_there) {
        assert(message->head_size == 4 * words + 4 && message->start == message->head_size);
        assert(message_size(message) == size - message->head_size);
        assert(memcmp(message_head(message), data, message->head_size) == 0);
        assert(memcmp(message_data(message), data + message->head_size, message_size(message)) == 0);
    }
    message_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) return 0;
    if (data[0] != 'A' && data[0] != 'O') {
        try_message(data + 1, size - 1);
        return 0;
    }
    char *text = malloc(size); /* memory of exactly the right size, so that a read past the end is detected */
    if (text == NULL) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'O') {
        try_origin(text);
    } else {
        try_listen(text);
        try_place(text, strlen(text));
    }
    free(text);
    return 0;
}
