/* run.c: the system user that caused a start or a stop; see run.h. */
#include "run.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_SIZE 65
#define ENTRY_SIZE 4096 /* size limit of an entry of /etc/passwd in bytes; the search ends at a longer entry */

/* Finds the user's name in /etc/passwd. getpwuid_r is not used: in glibc 2.36 it crashes when an allocation fails, and
 * a directory service may delay it. */
static bool name_of(uid_t user, char *buffer, size_t size, const char **out) {
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd entry = {0}, *found = NULL;
    if (file == NULL) return false;
    while (fgetpwent_r(file, &entry, buffer, size, &found) == 0 && found->pw_uid != user) continue;
    fclose(file);
    if (found == NULL) return false;
    *out = found->pw_name; /* the name lies in `buffer` */
    return true;
}

void system_user_name(uid_t user, char out[SYSTEM_USER_SIZE]) {
    char host[HOST_SIZE] = "", buffer[ENTRY_SIZE];
    const char *name;
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    int size = SYSTEM_USER_SIZE;
    if (name_of(user, buffer, sizeof(buffer), &name)) size = snprintf(out, SYSTEM_USER_SIZE, "%s@%s", name, host);
    if (size >= SYSTEM_USER_SIZE) snprintf(out, SYSTEM_USER_SIZE, "uid %u@%s", (unsigned)user, host);
}

void system_user_of_signal(const siginfo_t *signal, char out[SYSTEM_USER_SIZE]) {
    bool is_known = signal->si_code == SI_USER || signal->si_code == SI_QUEUE || signal->si_code == SI_TKILL;
    system_user_name(is_known ? signal->si_uid : getuid(), out);
}
