/* who.c: see who.h. */
#include "who.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_SIZE 65
#define ENTRY_SIZE 4096 /* of the user database; a larger entry counts as none */

void who_is(uid_t user, char out[WHO_SIZE]) {
    char host[HOST_SIZE] = "", buffer[ENTRY_SIZE];
    struct passwd entry, *found = NULL;
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    int size = WHO_SIZE;
    if (getpwuid_r(user, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
        size = snprintf(out, WHO_SIZE, "%s@%s", found->pw_name, host);
    if (size >= WHO_SIZE) snprintf(out, WHO_SIZE, "uid %u@%s", (unsigned)user, host);
}

void who_sent(const siginfo_t *signal, char out[WHO_SIZE]) {
    bool is_known = signal->si_code == SI_USER || signal->si_code == SI_QUEUE || signal->si_code == SI_TKILL;
    who_is(is_known ? signal->si_uid : getuid(), out);
}
