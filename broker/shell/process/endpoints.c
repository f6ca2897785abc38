/* endpoints.c: see endpoints.h. */
#include "endpoints.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tarry_limits.h"

/* Number of attempts to bind a port, and the time between two attempts. After a broker was killed, its port stays in
 * use until the kernel has cleaned up. */
#define PORT_TRIES 20
#define PORT_TRY_US 50000

static bool is_same(const struct listen_address *a, const struct listen_address *b) {
    bool is_same_kind = listen_is_unix(a->scheme) == listen_is_unix(b->scheme);
    bool is_any_port = !listen_is_unix(a->scheme) && a->port == 0;
    return is_same_kind && !is_any_port && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static int add(struct endpoints *endpoints, const char *url, size_t size, char message[ENDPOINTS_MESSAGE_SIZE]) {
    struct listen_address *address = &endpoints->addresses[endpoints->count];
    const char *problem;
    char text[CONFIG_TEXT_SIZE];
    snprintf(text, sizeof(text), "%.*s", (int)size, url);
    if (endpoints->count == DOOR_LISTENERS_MAX) {
        snprintf(message, ENDPOINTS_MESSAGE_SIZE, "--listen %s: a broker can listen at no more than %u addresses", text,
                 DOOR_LISTENERS_MAX);
        return 1;
    }
    if (!listen_parse(text, address, &problem)) {
        snprintf(message, ENDPOINTS_MESSAGE_SIZE, "--listen %s: %s", text, problem);
        return 1;
    }
    for (unsigned i = 0; i < endpoints->count; i++) {
        if (!is_same(&endpoints->addresses[i], address)) continue;
        snprintf(message, ENDPOINTS_MESSAGE_SIZE, "--listen %s: the address is given twice", text);
        return 1;
    }
    endpoints->count++;
    return 0;
}

int endpoints_parse(struct endpoints *endpoints, const char *urls, char message[ENDPOINTS_MESSAGE_SIZE]) {
    endpoints->count = 0;
    for (const char *url = urls; *url != '\0';) {
        size_t size = strcspn(url, " \t");
        if (size > 0 && add(endpoints, url, size, message) != 0) return 1;
        url += size + strspn(url + size, " \t");
    }
    if (endpoints->count == 0) {
        snprintf(message, ENDPOINTS_MESSAGE_SIZE, "--listen gives no address");
        return 1;
    }
    /* Tarry's clients, also the tool, need an address of their own, beside those of other protocols. */
    bool is_foreign = true;
    for (unsigned i = 0; i < endpoints->count; i++)
        is_foreign &= !listen_is_for_clients(endpoints->addresses[i].scheme);
    return is_foreign ? add(endpoints, DEFAULT_URL, strlen(DEFAULT_URL), message) : 0;
}

static const char *what_to_do(const struct listen_address *address, int error) {
    bool is_unix = listen_is_unix(address->scheme);
    if (error == EADDRINUSE && is_unix)
        return "; another broker listens there: stop it, or choose another path with --listen";
    if (error == EADDRINUSE) return "; another program listens there: stop it, or choose another port with --listen";
    if (error == EEXIST)
        return "; the path exists and is not a socket: move it away, or choose another path with --listen";
    if (error == EBUSY)
        return "; another process has locked its directory (flock), perhaps another broker that is starting";
    return error == ENOENT && is_unix ? "; create the directory first" : "";
}

int endpoints_open(struct endpoints *endpoints, char message[ENDPOINTS_MESSAGE_SIZE]) {
    for (unsigned i = 0; i < endpoints->count; i++) {
        struct listen_address *address = &endpoints->addresses[i];
        int error = listen_open(address, &endpoints->sockets[i]);
        for (int tries = 1; tries < PORT_TRIES && error == EADDRINUSE && !listen_is_unix(address->scheme); tries++) {
            usleep(PORT_TRY_US);
            error = listen_open(address, &endpoints->sockets[i]);
        }
        listen_format(address, endpoints->texts[i], LISTEN_URL_SIZE);
        endpoints->urls[i] = endpoints->texts[i];
        if (error == 0) continue;
        snprintf(message, ENDPOINTS_MESSAGE_SIZE, "cannot listen on %s: %s%s", endpoints->urls[i], strerror(error),
                 what_to_do(address, error));
        endpoints->count = i;
        endpoints_remove(endpoints);
        return 1;
    }
    return 0;
}

const struct listen_address *endpoints_main(const struct endpoints *endpoints) {
    const struct listen_address *local = NULL;
    for (unsigned i = 0; i < endpoints->count; i++) {
        const struct listen_address *address = &endpoints->addresses[i];
        if (address->scheme == LISTEN_WS || address->scheme == LISTEN_WSS) return address;
        if (address->scheme == LISTEN_UNIX && local == NULL) local = address;
    }
    return local != NULL ? local : &endpoints->addresses[0];
}

void endpoints_format(const struct endpoints *endpoints, char out[ENDPOINTS_TEXT_SIZE]) {
    size_t at = 0;
    for (unsigned i = 0; i < endpoints->count; i++) {
        if (i > 0) out[at++] = ' ';
        listen_format(&endpoints->addresses[i], out + at, LISTEN_URL_SIZE);
        at += strlen(out + at);
    }
}

void endpoints_remove(const struct endpoints *endpoints) {
    for (unsigned i = 0; i < endpoints->count; i++) listen_remove(&endpoints->addresses[i], &endpoints->sockets[i]);
}
