/* door_accept.c: connections that knock: taken from the listening sockets, counted, tuned, and given to the library. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door_parts.h"

/* So many in a row, before those that are there have their turn. */
#define ACCEPTED_IN_A_ROW 32

static void refuse(struct door *door, int fd, const char *peer, const char *sentence) {
    door->calls.refused(door->calls.argument, peer, 503, sentence);
    close(fd);
}

/* Without a descriptor to spare, what knocks would knock for ever. */
static void refuse_for_want_of_descriptors(struct door *door, int listener) {
    if (door->spare_fd < 0) return;
    close(door->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) refuse(door, fd, "", "the broker has no descriptors left for connections");
    door->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void take(struct door *door, int fd, bool over_tls) {
    struct refused_peer refused;
    struct connection *connection = connection_new(door, fd, over_tls, &refused);
    if (connection == NULL) {
        refuse(door, fd, refused.peer, refused.sentence);
        return;
    }
    listen_tune_connection(fd);
    wait_new(door->wait, fd);
    door->adopting = connection;
    unsigned kind = LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | (over_tls ? LWS_ADOPT_ALLOW_SSL : 0);
    const lws_adopt_desc_t how = {.vh = over_tls ? door->vhost_tls : door->vhost,
                                  .type = (lws_adoption_type)kind,
                                  .fd.sockfd = fd,
                                  .vh_prot_name = NULL,
                                  .opaque = connection};
    struct lws *wsi = lws_adopt_descriptor_vhost_via_info(&how); /* it closes `fd` if it fails */
    /* It may have failed without a word of it to the connection. */
    if (wsi == NULL && door->adopting != NULL) connection_free(connection);
    door->adopting = NULL;
}

static void accept_some(const struct listener *listener) {
    struct door *door = listener->door;
    for (int i = 0; i < ACCEPTED_IN_A_ROW; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take(door, fd, listener->over_tls);
        } else if (errno == EMFILE || errno == ENFILE) {
            refuse_for_want_of_descriptors(door, listener->fd);
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return; /* nobody knocks */
        }
    }
}

int accept_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    if (reason != LWS_CALLBACK_RAW_RX_FILE) return 0;
    const struct listener *listener = lws_get_opaque_user_data(wsi);
    if (!atomic_load(&listener->door->stopping)) accept_some(listener);
    return 0;
}

bool accept_begin(struct door *door) {
    door->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < door->listener_count; i++) {
        const lws_adopt_desc_t how = {.vh = door->vhost,
                                      .type = LWS_ADOPT_RAW_FILE_DESC,
                                      .fd.filefd = door->listeners[i].fd,
                                      .vh_prot_name = "listener",
                                      .opaque = &door->listeners[i]};
        if (lws_adopt_descriptor_vhost_via_info(&how) == NULL) return false;
    }
    return true;
}
