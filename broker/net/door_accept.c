/* door_accept.c: accepts new connections: counts them, sets their socket options, and gives them to libwebsockets. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door_parts.h"

/* Maximum number of connections accepted in a row, before open connections get their turn. */
#define ACCEPTED_IN_A_ROW 32
/* Pause after accept failed for lack of resources. */
#define ACCEPT_AGAIN_MS 100

static void refuse(struct door *door, int fd, const char *peer, const char *sentence) {
    door->calls.refused(door->calls.argument, peer, 503, sentence);
    close(fd);
}

static void listen_or_not(struct door *door, bool listens) {
    for (unsigned i = 0; i < door->listener_count; i++) lws_rx_flow_control(door->listeners[i].wsi, listens);
}

static void on_again(lws_sorted_usec_list_t *timer) {
    struct door *door = lws_container_of(timer, struct door, accept_again);
    listen_or_not(door, true);
}

/* Pauses accepting. Otherwise the connection that cannot be accepted would wake the thread again and again. */
static void rest(struct door *door) {
    listen_or_not(door, false);
    lws_sul_schedule(door->context, 0, &door->accept_again, on_again, ACCEPT_AGAIN_MS * (LWS_USEC_PER_SEC / 1000));
}

/* Refuses one client with the reserve descriptor; without it the waiting client would wake the thread forever. False:
 * no reserve descriptor. */
static bool refuse_for_want_of_descriptors(struct door *door, int listener) {
    if (door->spare_fd >= 0) close(door->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) refuse(door, fd, "", "the broker has no descriptors left for connections");
    door->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* may fail if another thread took the descriptor */
    return fd >= 0;
}

static void take(const struct listener *listener, int fd) {
    struct door *door = listener->door;
    bool over_tls = listener->over_tls;
    struct refused_peer refused;
    struct connection *connection = connection_new(door, fd, over_tls, &refused);
    if (connection == NULL) {
        refuse(door, fd, refused.peer, refused.sentence);
        return;
    }
    listen_tune_connection(fd);
    wait_new(door->wait, fd);
    door->adopting = connection;
    connection->speaks = listener->speaks;
    bool is_http = listener->speaks == NULL;
    if (!first_expect(door, fd, connection)) {
        connection_free(connection);
        door->adopting = NULL;
        refuse(door, fd, "", "there is not enough memory");
        return;
    }
    unsigned kind = LWS_ADOPT_SOCKET | (is_http ? LWS_ADOPT_HTTP : 0) | (over_tls ? LWS_ADOPT_ALLOW_SSL : 0);
    const lws_adopt_desc_t how = {.vh = over_tls ? door->vhost_tls : door->vhost,
                                  .type = (lws_adoption_type)kind,
                                  .fd.sockfd = fd,
                                  .vh_prot_name = is_http ? NULL : "stream",
                                  .opaque = connection};
    struct lws *wsi = lws_adopt_descriptor_vhost_via_info(&how); /* closes `fd` on failure */
    /* The library may have failed without a callback for the connection. */
    if (wsi == NULL && door->adopting != NULL) connection_free(connection);
    door->adopting = NULL;
}

static void accept_some(const struct listener *listener) {
    struct door *door = listener->door;
    for (int i = 0; i < ACCEPTED_IN_A_ROW; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take(listener, fd);
        } else if (errno == EAGAIN) {
            return; /* no client waits */
        } else if (errno == EMFILE || errno == ENFILE) {
            if (refuse_for_want_of_descriptors(door, listener->fd)) continue;
            rest(door);
            return;
        } else if (errno == ENOBUFS || errno == ENOMEM || errno == EPERM) {
            rest(door);
            return;
        } /* else: the client or its network has gone (accept(2)) */
    }
}

int accept_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    if (reason != LWS_CALLBACK_RAW_RX_FILE) return 0;
    const struct listener *listener = lws_get_opaque_user_data(wsi);
    if (atomic_load(&listener->door->stopping))
        lws_rx_flow_control(wsi, 0);
    else
        accept_some(listener);
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
        door->listeners[i].wsi = lws_adopt_descriptor_vhost_via_info(&how);
        if (door->listeners[i].wsi == NULL) return false;
    }
    return true;
}
