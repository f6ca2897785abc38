/* endpoints.h: the addresses of --listen, and their sockets until the door takes them over. Main thread only. */
#ifndef TARRY_SHELL_ENDPOINTS_H
#define TARRY_SHELL_ENDPOINTS_H

#include <stddef.h>

#include "config.h"
#include "door.h"
#include "listen.h"

#define ENDPOINTS_MESSAGE_SIZE (CONFIG_TEXT_SIZE + 512)
#define ENDPOINTS_TEXT_SIZE (DOOR_LISTENERS_MAX * LISTEN_URL_SIZE)

struct endpoints {
    unsigned count;
    struct listen_address addresses[DOOR_LISTENERS_MAX];
    struct listen_socket sockets[DOOR_LISTENERS_MAX];
    /* Each address as text, once bound. Any thread may read them while the door runs. */
    char texts[DOOR_LISTENERS_MAX][LISTEN_URL_SIZE];
    char *urls[DOOR_LISTENERS_MAX];
};

/* Parses URLs separated by spaces. Returns 0, or 1 with an error message. */
int endpoints_parse(struct endpoints *endpoints, const char *urls, char message[ENDPOINTS_MESSAGE_SIZE]);
/* Binds all addresses, or none. Returns 0, or 1 with an error message. */
int endpoints_open(struct endpoints *endpoints, char message[ENDPOINTS_MESSAGE_SIZE]);
/* Returns the first ws:// or wss:// address. Without one: the first Unix socket, or else the first address. */
const struct listen_address *endpoints_main(const struct endpoints *endpoints);
/* Writes all URLs, separated by spaces. */
void endpoints_format(const struct endpoints *endpoints, char out[ENDPOINTS_TEXT_SIZE]);
/* Deletes the Unix sockets, before the door closes them. */
void endpoints_remove(const struct endpoints *endpoints);

#endif
