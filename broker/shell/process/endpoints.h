/* endpoints.h: where this broker listens: the addresses of --listen, and their sockets until the door has them. Main
 * thread only. */
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
    /* Each as text, once it is bound. Any thread may read them when the door runs. */
    char texts[DOOR_LISTENERS_MAX][LISTEN_URL_SIZE];
    char *urls[DOOR_LISTENERS_MAX];
};

/* URLs separated by blanks. 0, or 1 with a sentence. */
int endpoints_parse(struct endpoints *endpoints, const char *urls, char message[ENDPOINTS_MESSAGE_SIZE]);
/* Binds them all, or none. 0, or 1 with a sentence. */
int endpoints_open(struct endpoints *endpoints, char message[ENDPOINTS_MESSAGE_SIZE]);
/* Those that a network reaches, or, of a broker that has none of them, its Unix socket: the first. */
const struct listen_address *endpoints_main(const struct endpoints *endpoints);
/* All of them, separated by blanks. */
void endpoints_format(const struct endpoints *endpoints, char out[ENDPOINTS_TEXT_SIZE]);
/* Before the door closes them: Unix sockets go. */
void endpoints_remove(const struct endpoints *endpoints);

#endif
