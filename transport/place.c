/* place.c: see place.h. Strict: it refuses a path after the port, a user name and blanks. */
#include "place.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *text;
    enum place_kind kind;
} schemes[] = {{"ws://", PLACE_WS}, {"wss://", PLACE_WSS}, {"unix://", PLACE_UNIX}};

static const char *scheme_of(enum place_kind kind) {
    size_t at = 0;
    while (schemes[at].kind != kind) at++;
    return schemes[at].text;
}

struct part {
    const char *at;
    size_t size;
};

/* True: the text has no blanks and no control characters. */
static bool is_plain(struct part part) {
    for (size_t i = 0; i < part.size; i++)
        if ((unsigned char)part.at[i] <= ' ' || part.at[i] == 127) return false;
    return true;
}

static bool may_be_host(struct part part) {
    for (size_t i = 0; i < part.size; i++)
        if ((unsigned char)part.at[i] > '~' || strchr("/?#@", part.at[i]) != NULL) return false;
    return is_plain(part);
}

static bool parse_port(struct part text, char out[6]) {
    if (text.size == 0 || text.size > 5) return false;
    memcpy(out, text.at, text.size);
    out[text.size] = 0;
    const int number = atoi(out);
    return strspn(out, "0123456789") == text.size && number >= 1 && number <= 65535;
}

/* Parses "host", "host:port" or "[address]:port". */
static bool parse_host(struct part text, struct place *out) {
    struct part host = text;
    if (!may_be_host(text)) return false;
    const bool has_brackets = text.size > 0 && text.at[0] == '[';
    const char *end = memchr(text.at, has_brackets ? ']' : ':', text.size);
    if (has_brackets && end == NULL) return false;
    if (end != NULL) host.size = (size_t)(end - text.at) + has_brackets;
    if (host.size == (has_brackets ? 2 : 0)) return false;
    struct part rest = {text.at + host.size, text.size - host.size};
    if (rest.size > 0 && (rest.at[0] != ':' || !parse_port((struct part){rest.at + 1, rest.size - 1}, out->port)))
        return false;
    if (rest.size == 0) snprintf(out->port, sizeof(out->port), "%d", DEFAULT_PORT);
    const size_t brackets = has_brackets ? 1 : 0;
    snprintf(out->host, sizeof(out->host), "%.*s", (int)(host.size - 2 * brackets), host.at + brackets);
    snprintf(out->url, sizeof(out->url), "%s%.*s:%s", scheme_of(out->kind), (int)host.size, host.at, out->port);
    return true;
}

static bool parse_socket(struct part path, struct place *out) {
    if (path.size < 2 || path.size > PLACE_SOCKET_MAX || path.at[0] != '/' || !is_plain(path)) return false;
    snprintf(out->host, sizeof(out->host), "%.*s", (int)path.size, path.at);
    snprintf(out->url, sizeof(out->url), "%s%.*s", scheme_of(PLACE_UNIX), (int)path.size, path.at);
    return true;
}

int place_parse(const char *text, size_t size, struct place *out) {
    if (size >= PLACE_URL_MAX - 8) return -1;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t scheme_size = strlen(schemes[i].text);
        if (size <= scheme_size || strncmp(text, schemes[i].text, scheme_size) != 0) continue;
        struct place place = {.kind = schemes[i].kind};
        struct part rest = {text + scheme_size, size - scheme_size};
        if (place.kind != PLACE_UNIX && rest.at[rest.size - 1] == '/') rest.size--;
        if (!(place.kind == PLACE_UNIX ? parse_socket(rest, &place) : parse_host(rest, &place))) return -1;
        *out = place;
        return 0;
    }
    return -1;
}

const char *place_authority(const struct place *place) {
    return place->kind == PLACE_UNIX ? "localhost" : place->url + strlen(scheme_of(place->kind));
}

bool place_is_in_the_clear(const struct place *place) {
    struct in_addr four;
    struct in6_addr six;
    if (place->kind != PLACE_WS) return false;
    if (inet_pton(AF_INET, place->host, &four) == 1) return ntohl(four.s_addr) >> 24 != 127;
    if (inet_pton(AF_INET6, place->host, &six) == 1) return !IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(place->host, "localhost") != 0;
}
