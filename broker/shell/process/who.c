/* who.c: see who.h. */
#include "who.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_SIZE 65
#define ENTRY_SIZE 4096 /* of /etc/passwd; at a larger entry the search ends */

/* Not getpwuid_r: glibc 2.36 crashes in it when an allocation fails, and a directory service may keep it waiting. */
static bool name_of(uid_t user, char *buffer, size_t size, const char **out) {
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd entry = {0}, *found = NULL;
    if (file == NULL) return false;
    while (fgetpwent_r(file, &entry, buffer, size, &found) == 0 && found->pw_uid != user) continue;
    fclose(file);
    if (found == NULL) return false;
    *out = found->pw_name; /* in the buffer */
    return true;
}

void who_is(uid_t user, char out[WHO_SIZE]) {
    char host[HOST_SIZE] = "", buffer[ENTRY_SIZE];
    const char *name;
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    int size = WHO_SIZE;
    if (name_of(user, buffer, sizeof(buffer), &name)) size = snprintf(out, WHO_SIZE, "%s@%s", name, host);
    if (size >= WHO_SIZE) snprintf(out, WHO_SIZE, "uid %u@%s", (unsigned)user, host);
}

void who_sent(const siginfo_t *signal, char out[WHO_SIZE]) {
    bool is_known = signal->si_code == SI_USER || signal->si_code == SI_QUEUE || signal->si_code == SI_TKILL;
    who_is(is_known ? signal->si_uid : getuid(), out);
}
