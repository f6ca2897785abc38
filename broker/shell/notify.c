/* notify.c: see notify.h. */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "logfmt.h"

void notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || path[0] == '\0') return;
    size_t size = strlen(path);
    if (size >= sizeof(address.sun_path)) {
        logfmt("notify_failed", "reason=\"NOTIFY_SOCKET is too long\"");
        return;
    }
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') address.sun_path[0] = '\0'; /* the abstract name space */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length) < 0)
        logfmt("notify_failed", "reason=\"%s\"", strerror(errno));
    if (fd >= 0) close(fd);
}
